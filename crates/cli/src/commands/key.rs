use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_host::people::{CreateKey, RotateKey};
use countersign_host::{Clock, Host, SystemClock};
use countersign_model::enrol::find_key;
use countersign_model::{
    Failure, HeldKey, KeyBook, KeyId, KeyRecord, KeyScope, KeyStatus, Principal, Timestamp, Token,
};
use serde_json::{Value, json};

use super::{When, acting};
use crate::Context;
use crate::exit::Exit;
use crate::key_file::{self, KeyArgs};
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, paint, shown, wrap};

/// Make keys, with which principals prove who they are
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    Create(CreateArgs),
    List(ListArgs),
    Show(ShowArgs),
    Check(CheckArgs),
    Rotate(RotateArgs),
    Revoke(RevokeArgs),
}

/// Make a key and show it, this once
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Whose key it is; added before with `principal add`
    #[arg(long)]
    principal: Principal,

    /// The tenant it is bound to
    #[arg(long)]
    tenant: Option<String>,

    /// What it is good for: admin and approve (humans only), call, read; over HTTP runs:create,
    /// runs:read, runs:cancel, approvals:respond, artifacts:read, audit:read, manifest:read,
    /// webhooks:manage, workspace:read, workspace:write, prompts:read, prompts:write, packs:read,
    /// packs:publish, packs:yank, packs:yank-revert; may be repeated or divided by commas
    /// [default: approve (humans), call, read]
    #[arg(long, value_delimiter = ',')]
    scope: Vec<KeyScope>,

    /// How long it is good for: 90s, 15m, 8h, 30d, or a moment; at most 366 days
    #[arg(long, default_value = "90d", value_name = "TIME")]
    expires: When,

    #[command(flatten)]
    out: OutArgs,
}

#[derive(Debug, Args)]
struct OutArgs {
    /// Write it to this new file, for its owner only, instead of showing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Who makes it: a human [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    by: Option<Principal>,
}

/// List keys
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only those of this principal
    #[arg(long)]
    principal: Option<Principal>,

    /// Also those that were revoked or have expired
    #[arg(long)]
    all: bool,
}

/// Show what is known of one key
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    key: KeyId,
}

/// Say whose key somebody holds, and whether it is good
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    key: KeyArgs,
}

/// Make a successor of a key, which stays good beside it for a while
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    key: KeyId,

    /// How long the old key stays good: 90s, 15m, 8h, 30d, or until a moment
    #[arg(long, default_value = "24h", value_name = "TIME")]
    overlap: When,

    /// End the old key at once
    #[arg(long, conflicts_with = "overlap")]
    at_once: bool,

    /// How long the new key is good for [default: as long as the old one was made for]
    #[arg(long, value_name = "TIME")]
    expires: Option<When>,

    #[command(flatten)]
    out: OutArgs,
}

/// End a key, at once and everywhere
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    key: KeyId,

    /// Why; it stands in the journal
    #[arg(long)]
    reason: Option<String>,

    /// Who revokes it: a human [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    by: Option<Principal>,
}

pub(super) fn run(context: &Context, command: KeyCommand) -> Done<Exit> {
    let host = Host::open(&context.home)?;
    match command {
        KeyCommand::Create(args) => create(context.ui, &host, args)?,
        KeyCommand::List(args) => list(context.ui, &host, &args)?,
        KeyCommand::Show(args) => show(context.ui, &host, args.key)?,
        KeyCommand::Check(args) => check(context.ui, &host, &args.key)?,
        KeyCommand::Rotate(args) => rotate(context.ui, &host, args)?,
        KeyCommand::Revoke(args) => revoke(context.ui, &host, args)?,
    }
    Ok(Exit::Done)
}

fn create(ui: Ui, host: &Host, args: CreateArgs) -> Done {
    let by = acting(args.out.by)?;
    let scopes = match args.scope.is_empty() {
        true => KeyScope::defaults(&args.principal),
        false => args.scope.into_iter().collect(),
    };
    let command = CreateKey {
        principal: args.principal,
        tenant: args.tenant,
        scopes,
        expires_at: args.expires.after(SystemClock.now()),
        by: by.clone(),
    };
    let out = args.out.out.as_deref();
    let (record, token) = with_file(host, out, &by, || host.create_key(&command))?;
    hand_out(ui, host, &record, &token, out)
}

fn rotate(ui: Ui, host: &Host, args: RotateArgs) -> Done {
    let (by, now) = (acting(args.out.by)?, SystemClock.now());
    let overlap = if args.at_once { now } else { args.overlap.after(now) };
    let command = RotateKey {
        key: args.key,
        overlap_millis: overlap.millis_since(now),
        expires_at: args.expires.map(|expires| expires.after(now)),
        by: by.clone(),
    };
    let out = args.out.out.as_deref();
    let (record, token) = with_file(host, out, &by, || host.rotate_key(&command))?;
    hand_out(ui, host, &record, &token, out)?;
    let old = host.people()?.book.get(&args.key).map(|old| old.expires_at);
    if let Some(until) = old.filter(|_| !ui.json) {
        ui.note(format!("The old key, {}, is good until {until}.", args.key));
    }
    Ok(())
}

/// Makes a key and writes it to a file, if one was named. A key that cannot be handed over is
/// revoked: nobody could use it, and nobody should wonder whose it is.
fn with_file(
    host: &Host,
    out: Option<&Path>,
    by: &Principal,
    make: impl FnOnce() -> Result<(KeyRecord, Token), Failure>,
) -> Result<(KeyRecord, Token), Failure> {
    let Some(path) = out else { return make() };
    let file = key_file::create(path)?;
    let filled = make().and_then(|(record, token)| {
        let filled = key_file::fill(path, file, &token);
        if filled.is_err() {
            host.revoke_key(record.id, by, Some("it could not be written to its file"))?;
        }
        filled.map(|()| (record, token))
    });
    if filled.is_err() {
        let _ = std::fs::remove_file(path);
    }
    filled
}

/// The key alone on standard output, so that it can be piped; what a person should know beside it.
fn hand_out(ui: Ui, host: &Host, record: &KeyRecord, token: &Token, out: Option<&Path>) -> Done {
    if ui.json {
        let people = host.people()?;
        let held = find_key(&people.book, &record.id)?;
        let key = to_json(&people.book, held, SystemClock.now());
        return match out {
            None => ui.json(&json!({"key": key, "token": *token.reveal()})),
            Some(path) => ui.json(&json!({"key": key, "file": path.display().to_string()})),
        };
    }
    match out {
        None => ui.exact(&token.reveal())?,
        Some(path) => ui.line(wrap(&format!("{} {}", paint(GOOD, "wrote"), shown(path)), 2))?,
    }
    let KeyRecord { id, principal, expires_at, .. } = record;
    let scopes = scopes_text(record);
    ui.note(format!("Key {id} of {principal}, good for {scopes} until {expires_at}."));
    if out.is_none() {
        ui.note("It is not shown again and stored nowhere: keep it now, where only its holder can read it.");
    }
    Ok(())
}

fn scopes_text(record: &KeyRecord) -> String {
    record.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")
}

/// The record as it was made, with what has become of it.
pub(super) fn to_json(book: &KeyBook, held: &HeldKey, now: Timestamp) -> Value {
    let mut value = json!(held.record);
    if let Some(object) = value.as_object_mut() {
        let successor = book.successor(&held.record.id).map(|next| next.record.id);
        object.insert("expiresAt".to_owned(), json!(held.expires_at));
        object.insert("revokedAt".to_owned(), json!(held.revoked_at));
        object.insert("replacedBy".to_owned(), json!(successor));
        object.insert("status".to_owned(), json!(held.status(now).as_str()));
    }
    value
}

fn list(ui: Ui, host: &Host, args: &ListArgs) -> Done {
    let (people, now) = (host.people()?, SystemClock.now());
    let book = &people.book;
    let wanted = |held: &&HeldKey| {
        let owner = args.principal.as_ref().is_none_or(|who| *who == held.record.principal);
        owner && (args.all || held.status(now).is_good())
    };
    let mut keys = book.keys().filter(wanted).peekable();
    if ui.json {
        return ui.json_list(|each| keys.try_for_each(|held| each(&to_json(book, held, now))));
    }
    if keys.peek().is_none() {
        return ui.line("no keys; see `countersign key create --help`");
    }
    keys.try_for_each(|held| print(ui, held, now))
}

pub(super) fn print(ui: Ui, held: &HeldKey, now: Timestamp) -> Done {
    let (record, status) = (&held.record, held.status(now));
    let style = match status {
        KeyStatus::Live => GOOD,
        KeyStatus::Retiring | KeyStatus::Expired => WARN,
        KeyStatus::Revoked => BAD,
    };
    let tenant = record.tenant.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
    let text = format!(
        "{} {}{tenant} for {} until {}",
        paint(style, format!("{:<8}", status.as_str())),
        paint(BOLD, &record.principal),
        scopes_text(record),
        held.expires_at
    );
    ui.line(wrap(&text, 9))?;
    ui.line(paint(DIM, format!("  {}", record.id)))
}

fn show(ui: Ui, host: &Host, id: KeyId) -> Done {
    let (people, now) = (host.people()?, SystemClock.now());
    let held = find_key(&people.book, &id)?;
    if ui.json {
        return ui.json(&to_json(&people.book, held, now));
    }
    print(ui, held, now)?;
    let record = &held.record;
    ui.line(wrap(&format!("  made {} by {}", record.created_at, record.created_by), 2))?;
    if let Some(old) = record.replaces {
        ui.line(wrap(&format!("  replaces {old}"), 2))?;
    }
    if let Some(next) = people.book.successor(&id) {
        ui.line(wrap(&format!("  replaced by {}", next.record.id), 2))?;
    }
    if let Some(at) = held.revoked_at {
        ui.line(wrap(&format!("  revoked {at}"), 2))?;
    }
    ui.line(wrap(&format!("  signs as {}", record.verifier), 2))
}

fn check(ui: Ui, host: &Host, args: &KeyArgs) -> Done {
    let token = args.token()?;
    let now = SystemClock.now();
    let (_, record) = host.authenticate(&token, now)?;
    show(ui, host, record.id)
}

fn revoke(ui: Ui, host: &Host, args: RevokeArgs) -> Done {
    host.revoke_key(args.key, &acting(args.by)?, args.reason.as_deref())?;
    if ui.json {
        return ui.json(&json!({"revoked": args.key}));
    }
    ui.line(format!("{} {}", paint(WARN, "revoked"), args.key))
}
