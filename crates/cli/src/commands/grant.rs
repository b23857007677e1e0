use clap::{Args, Subcommand};
use countersign_host::grants::{DelegateCommand, IssueCommand, unknown_grant};
use countersign_host::{Clock, Host, SystemClock};
use countersign_model::scope::pattern_for;
use countersign_model::{
    Capability, Failure, Grant, GrantId, GrantRecord, Grantee, Principal, Scope, Timestamp,
};
use serde_json::{Value, json};

use super::{When, acting};
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Say who may do what
#[derive(Debug, Subcommand)]
pub(crate) enum GrantCommand {
    Issue(IssueArgs),
    List(ListArgs),
    Show(ShowArgs),
    Revoke(RevokeArgs),
    Delegate(DelegateArgs),
}

/// Grant capabilities to a principal or a tool
#[derive(Debug, Args)]
pub(crate) struct IssueArgs {
    /// Who receives it: human:NAME, agent:NAME, service:NAME or tool:ID
    #[arg(long, value_name = "GRANTEE")]
    to: Grantee,

    /// What is granted, such as filesystem.read; may be repeated or divided by commas
    #[arg(long, required = true, value_delimiter = ',', value_name = "CAPABILITY")]
    capability: Vec<Capability>,

    #[command(flatten)]
    terms: Terms,
}

#[derive(Debug, Args)]
struct Terms {
    /// What it is good for: patterns with * and **; relative file paths are taken from here
    #[arg(long, required = true, value_name = "PATTERN")]
    scope: Vec<String>,

    /// How long it is good for: 90s, 15m, 8h, 30d, or a moment
    #[arg(long, default_value = "8h", value_name = "TIME")]
    expires: When,

    /// The holder may hand on narrower, shorter grants of its own
    #[arg(long)]
    delegable: bool,

    /// Who grants it [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,
}

/// List grants
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only those of this holder
    #[arg(long, value_name = "GRANTEE")]
    to: Option<Grantee>,

    /// Also those that were revoked or have expired
    #[arg(long)]
    all: bool,
}

/// Show one grant and what was delegated from it
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    grant: GrantId,
}

/// Take a grant back, and everything delegated from it; live calls that rely on it end
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    grant: GrantId,

    /// Why; it stands in the journal
    #[arg(long)]
    reason: Option<String>,

    /// Who revokes it [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,
}

/// Hand on a narrower, shorter grant from one that you hold
#[derive(Debug, Args)]
pub(crate) struct DelegateArgs {
    /// The grant to delegate from
    grant: GrantId,

    /// Who receives it
    #[arg(long, value_name = "GRANTEE")]
    to: Grantee,

    #[command(flatten)]
    terms: Terms,
}

pub(super) fn run(context: &Context, command: GrantCommand) -> Done<Exit> {
    let host = Host::open(&context.home)?;
    match command {
        GrantCommand::Issue(args) => issue(context.ui, &host, args)?,
        GrantCommand::List(args) => list(context.ui, &host, &args)?,
        GrantCommand::Show(args) => show(context.ui, &host, args.grant)?,
        GrantCommand::Revoke(args) => revoke(context.ui, &host, args)?,
        GrantCommand::Delegate(args) => delegate(context.ui, &host, args)?,
    }
    Ok(Exit::Done)
}

fn issue(ui: Ui, host: &Host, args: IssueArgs) -> Done {
    let mut capabilities = args.capability;
    // What others need comes first, so that one command can grant both.
    capabilities.sort_by_key(|capability| (capability.requires_all().len(), *capability));
    capabilities.dedup();
    let mut grants = Vec::new();
    for capability in capabilities {
        let issued = host.issue_grant(IssueCommand {
            capability,
            to: args.to.clone(),
            by: acting(args.terms.principal.clone())?,
            scope: args.terms.scope_for(capability)?,
            expires_at: args.terms.expires.after(SystemClock.now()),
            delegable: args.terms.delegable,
        });
        grants.push(issued.map_err(|failure| not_all(failure, &grants))?);
    }
    announce(ui, "granted", &grants)
}

/// Each grant stands for itself, so those before the one that failed were made: say so.
fn not_all(failure: Failure, issued: &[Grant]) -> Failure {
    if issued.is_empty() {
        return failure;
    }
    let names: Vec<_> = issued.iter().map(|grant| grant.body.capability.as_str()).collect();
    let message = format!("{}; granted before it: {}", failure.message, names.join(", "));
    let ids: Vec<_> = issued.iter().map(|grant| grant.body.id).collect();
    Failure { message, ..failure }.details(json!({"issued": ids}))
}

fn delegate(ui: Ui, host: &Host, args: DelegateArgs) -> Done {
    let book = host.grant_book()?;
    let parent = book.get(&args.grant).ok_or_else(|| unknown_grant(args.grant))?;
    let grant = host.delegate_grant(DelegateCommand {
        parent: args.grant,
        to: args.to,
        by: acting(args.terms.principal.clone())?,
        scope: args.terms.scope_for(parent.grant.body.capability)?,
        expires_at: args.terms.expires.after(SystemClock.now()),
        delegable: args.terms.delegable,
    })?;
    announce(ui, "delegated", &[grant])
}

impl Terms {
    /// Grants name files by their full path, so a relative pattern is completed here and now.
    fn scope_for(&self, capability: Capability) -> Result<Scope, Failure> {
        let is_file = capability.as_str().starts_with("filesystem.");
        let complete = |pattern: &String| {
            if !is_file || pattern.starts_with('/') || pattern == "**" {
                return Ok(pattern.clone());
            }
            let here =
                std::env::current_dir().and_then(|dir| dir.canonicalize()).map_err(|error| {
                    Failure::validation(
                        "SCOPE_INVALID",
                        format!("the current directory is unknown: {error}"),
                    )
                })?;
            let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
            // The directory is meant as it is spelt: its own name is no pattern.
            let here = pattern_for(&here.display().to_string());
            Ok(match pattern {
                "." | "" => here,
                pattern => format!("{}/{pattern}", here.trim_end_matches('/')),
            })
        };
        let patterns: Result<Vec<_>, Failure> = self.scope.iter().map(complete).collect();
        Scope::parse(patterns?)
    }
}

fn announce(ui: Ui, verb: &str, grants: &[Grant]) -> Done {
    if ui.json {
        return ui.json(&grants);
    }
    for grant in grants {
        let body = &grant.body;
        let text = format!(
            "{} {} to {} on {} until {}",
            paint(GOOD, verb),
            paint(BOLD, body.capability),
            body.grantee,
            scope_text(&body.scope),
            body.expires_at
        );
        ui.line(wrap(&text, 0))?;
        ui.line(paint(DIM, format!("  grant {}", body.id)))?;
    }
    Ok(())
}

fn scope_text(scope: &Scope) -> String {
    scope.patterns().map(inert).collect::<Vec<_>>().join(", ")
}

fn status(record: &GrantRecord, now: Timestamp) -> &'static str {
    match record {
        record if !record.genuine => "forged",
        record if record.revoked_at.is_some() => "revoked",
        record if record.grant.body.expires_at <= now => "expired",
        _ => "live",
    }
}

fn to_json(record: &GrantRecord, now: Timestamp) -> Value {
    let mut value = json!(record.grant);
    if let Some(object) = value.as_object_mut() {
        object.insert("status".to_owned(), json!(status(record, now)));
        object.insert("revokedAt".to_owned(), json!(record.revoked_at));
    }
    value
}

fn list(ui: Ui, host: &Host, args: &ListArgs) -> Done {
    let (book, now) = (host.grant_book()?, SystemClock.now());
    let wanted = |record: &&GrantRecord| {
        let holder = args.to.as_ref().is_none_or(|to| *to == record.grant.body.grantee);
        holder && (args.all || status(record, now) == "live")
    };
    let mut records = book.iter().filter(wanted).peekable();
    if ui.json {
        return ui.json_list(|each| records.try_for_each(|record| each(&to_json(record, now))));
    }
    if records.peek().is_none() {
        return ui.line("no grants; see `countersign grant issue --help`");
    }
    records.try_for_each(|record| print(ui, record, now))
}

fn print(ui: Ui, record: &GrantRecord, now: Timestamp) -> Done {
    let body = &record.grant.body;
    let status = status(record, now);
    let style = match status {
        "live" => GOOD,
        "expired" => WARN,
        _ => BAD,
    };
    let text = format!(
        "{} {} {} on {} until {}",
        paint(style, format!("{status:<7}")),
        body.grantee,
        paint(BOLD, body.capability),
        scope_text(&body.scope),
        body.expires_at
    );
    ui.line(wrap(&text, 8))?;
    ui.line(paint(DIM, format!("        {} by {}", body.id, body.grantor)))
}

fn show(ui: Ui, host: &Host, id: GrantId) -> Done {
    let (book, now) = (host.grant_book()?, SystemClock.now());
    let record = book.get(&id).ok_or_else(|| unknown_grant(id))?;
    let handed_on = book.subtree(&id);
    if ui.json {
        let mut value = to_json(record, now);
        if let Some(object) = value.as_object_mut() {
            object.insert("delegated".to_owned(), json!(handed_on));
        }
        return ui.json(&value);
    }
    print(ui, record, now)?;
    let body = &record.grant.body;
    ui.line(format!("        issued {}, depth {}", body.issued_at, body.depth))?;
    ui.line(format!("        may be delegated: {}", if body.delegable { "yes" } else { "no" }))?;
    if let Some(parent) = body.parent {
        ui.line(format!("        delegated from {parent}"))?;
    }
    for child in handed_on.iter().filter_map(|child| book.get(child)) {
        print(ui, child, now)?;
    }
    Ok(())
}

fn revoke(ui: Ui, host: &Host, args: RevokeArgs) -> Done {
    let ended = host.revoke_grant(args.grant, acting(args.principal)?, args.reason)?;
    if ui.json {
        return ui.json(&json!({"revoked": ended}));
    }
    ui.line(format!("{} {}", paint(WARN, "revoked"), args.grant))?;
    for child in ended.iter().skip(1) {
        ui.line(format!("  and {child}, which was delegated from it"))?;
    }
    Ok(())
}
