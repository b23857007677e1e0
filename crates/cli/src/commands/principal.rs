use clap::{Args, Subcommand};
use countersign_host::people::AddPrincipal;
use countersign_host::{Clock, Host, SystemClock};
use countersign_model::enrol::check_known;
use countersign_model::{Failure, KeyBook, Principal, PrincipalRecord, Timestamp};
use serde_json::{Value, json};

use super::{acting, key};
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Say who there is: those who may hold keys
#[derive(Debug, Subcommand)]
pub(crate) enum PrincipalCommand {
    Add(AddArgs),
    List(ListArgs),
    Show(ShowArgs),
    Remove(RemoveArgs),
}

/// Make a principal known, so that it can have keys
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// human:NAME, agent:NAME or service:NAME
    principal: Principal,

    /// A line about it, for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Who adds it: a human [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    by: Option<Principal>,
}

/// List principals
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Also those that were removed
    #[arg(long)]
    all: bool,
}

/// Show one principal and its keys
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    principal: Principal,
}

/// Remove a principal; its keys stop working at once and for ever
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    principal: Principal,

    /// Why; it stands in the journal
    #[arg(long)]
    reason: Option<String>,

    /// Who removes it: a human [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    by: Option<Principal>,
}

pub(super) fn run(context: &Context, command: PrincipalCommand) -> Done<Exit> {
    let host = Host::open(&context.home)?;
    match command {
        PrincipalCommand::Add(args) => add(context.ui, &host, args)?,
        PrincipalCommand::List(args) => list(context.ui, &host, &args)?,
        PrincipalCommand::Show(args) => show(context.ui, &host, &args.principal)?,
        PrincipalCommand::Remove(args) => remove(context.ui, &host, args)?,
    }
    Ok(Exit::Done)
}

fn add(ui: Ui, host: &Host, args: AddArgs) -> Done {
    let AddArgs { principal, description, by } = args;
    let by = acting(by)?;
    host.add_principal(&AddPrincipal { principal: principal.clone(), description, by })?;
    let people = host.people()?;
    if ui.json {
        return ui.json(&to_json(&people.book, find(&people.book, &principal)?));
    }
    ui.line(format!("{} {}", paint(GOOD, "added"), paint(BOLD, &principal)))?;
    let next = format!("countersign key create --principal {principal}");
    ui.line(wrap(&format!("It has no keys yet: {}", paint(BOLD, next)), 2))
}

fn find<'b>(book: &'b KeyBook, principal: &Principal) -> Result<&'b PrincipalRecord, Failure> {
    if let Some(record) = book.principal(principal) {
        return Ok(record);
    }
    check_known(book, principal)?;
    Err(Failure::state("INTERNAL", "a principal is known and has no record"))
}

fn status(record: &PrincipalRecord) -> &'static str {
    if record.removed_at.is_some() { "removed" } else { "present" }
}

fn good_keys(book: &KeyBook, principal: &Principal, now: Timestamp) -> usize {
    book.keys_of(principal).filter(|key| key.status(now).is_good()).count()
}

fn to_json(book: &KeyBook, record: &PrincipalRecord) -> Value {
    let mut value = json!(record);
    if let Some(object) = value.as_object_mut() {
        object.insert("status".to_owned(), json!(status(record)));
        let good = good_keys(book, &record.principal, SystemClock.now());
        object.insert("goodKeys".to_owned(), json!(good));
    }
    value
}

fn list(ui: Ui, host: &Host, args: &ListArgs) -> Done {
    let people = host.people()?;
    let book = &people.book;
    let wanted = |record: &&PrincipalRecord| args.all || record.removed_at.is_none();
    let mut records = book.principals().filter(wanted).peekable();
    if ui.json {
        return ui.json_list(|each| records.try_for_each(|record| each(&to_json(book, record))));
    }
    if records.peek().is_none() {
        return ui.line("no principals; see `countersign principal add --help`");
    }
    records.try_for_each(|record| print(ui, book, record))
}

fn print(ui: Ui, book: &KeyBook, record: &PrincipalRecord) -> Done {
    let style = if record.removed_at.is_some() { BAD } else { GOOD };
    let keys = match good_keys(book, &record.principal, SystemClock.now()) {
        1 => "1 good key".to_owned(),
        count => format!("{count} good keys"),
    };
    let about = record.description.as_deref().map(inert).unwrap_or_default();
    let (status, principal) = (paint(style, status(record)), paint(BOLD, &record.principal));
    ui.line(wrap(format!("{status} {principal} {keys} {about}").trim_end(), 8))?;
    let added = format!("        added {} by {}", record.added_at, record.added_by);
    ui.line(paint(DIM, wrap(&added, 8)))
}

fn show(ui: Ui, host: &Host, principal: &Principal) -> Done {
    let (people, now) = (host.people()?, SystemClock.now());
    let book = &people.book;
    let record = find(book, principal)?;
    if ui.json {
        let mut value = to_json(book, record);
        if let Some(object) = value.as_object_mut() {
            let keys: Vec<_> =
                book.keys_of(principal).map(|held| key::to_json(book, held, now)).collect();
            object.insert("keys".to_owned(), json!(keys));
        }
        return ui.json(&value);
    }
    print(ui, book, record)?;
    book.keys_of(principal).try_for_each(|held| key::print(ui, held, now))
}

fn remove(ui: Ui, host: &Host, args: RemoveArgs) -> Done {
    let by = acting(args.by)?;
    let ended = host.remove_principal(&args.principal, &by, args.reason.as_deref())?;
    if ui.json {
        return ui.json(&json!({"removed": args.principal, "revoked": ended}));
    }
    ui.line(format!("{} {}", paint(WARN, "removed"), args.principal))?;
    for key in ended {
        ui.line(wrap(&format!("  and revoked key {key}"), 2))?;
    }
    Ok(())
}
