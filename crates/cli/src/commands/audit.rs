use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_host::Home;
use countersign_host::inspect::verify_home;
use countersign_journal::verify::Verified;
use countersign_journal::{JournalError, StoredEntry, VerifierKey, export};
use countersign_model::audit::AuditEvent;
use countersign_model::event::{CallFact, Fact, GrantEvent};
use countersign_model::record::CallFold;
use countersign_model::{
    ArtifactEvent, ExecutionId, Failure, KeyEvent, PolicyEvent, PrincipalEvent, WorkspaceEvent,
};
use serde_json::{Value, json};

use super::execution::{FilterArgs, find};
use crate::Context;
use crate::exit::Exit;
use crate::output_file;
use crate::ui::{
    BOLD, DIM, Done, GOOD, Progress, Stop, Ui, inert, paint, shell_word, shown, state_style, wrap,
};

/// Read, verify and export the journal
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List the audit events, oldest first: one for every transition of every call
    List(FilterArgs),
    Show(ShowArgs),
    Verify(VerifyArgs),
    /// Print the newest signed checkpoint; keep it elsewhere to detect a journal that was cut back
    Checkpoint,
    /// Print the public key that verifies this home's journal
    Key,
    Export(ExportArgs),
    Prove(ProveArgs),
}

/// Show one entry as it stands in the journal
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The entry's number
    entry: u64,
}

/// Verify this home's journal, or an exported file, which needs no home
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// An export or a proof
    #[arg(long, requires = "key")]
    file: Option<PathBuf>,

    /// The public key: NAME+ID+BASE64, or a file that holds it
    #[arg(long, requires = "file")]
    key: Option<String>,

    /// A checkpoint kept from earlier, which the journal must continue; may be repeated
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
}

/// Write entries to a file that anyone can verify with the public key
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Where to, or - for standard output
    file: PathBuf,

    /// The first entry
    #[arg(long, default_value_t = 0, value_name = "N")]
    from: u64,

    /// The entry to stop before [default: the end]
    #[arg(long, value_name = "N")]
    to: Option<u64>,
}

/// Prove that one entry, or a call's last entry, is in the journal
#[derive(Debug, Args)]
pub(crate) struct ProveArgs {
    /// An entry's number, an execution's id, or `last`
    subject: String,

    /// Where to write the proof [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(context: &Context, command: AuditCommand) -> Done<Exit> {
    let ui = context.ui;
    if let AuditCommand::Verify(args) = command {
        return verify(context, &args);
    }
    let home = Home::open(&context.home)?;
    match command {
        AuditCommand::List(args) => list(ui, &home, &args)?,
        AuditCommand::Show(args) => show(ui, &home, args.entry)?,
        AuditCommand::Checkpoint => checkpoint(ui, &home)?,
        AuditCommand::Key => key(ui, &home)?,
        AuditCommand::Export(args) => export(ui, &home, &args)?,
        AuditCommand::Prove(args) => prove(ui, &home, &args)?,
        AuditCommand::Verify(_) => {}
    }
    Ok(Exit::Done)
}

fn list(ui: Ui, home: &Home, args: &FilterArgs) -> Done {
    if ui.json {
        return ui.json_list(|each| visit_events(home, args, each));
    }
    let mut none = true;
    visit_events(home, args, &mut |event| {
        none = false;
        print_event(ui, event)
    })?;
    if none { ui.line("no audit events") } else { Ok(()) }
}

fn print_event(ui: Ui, event: &AuditEvent) -> Done {
    let state = paint(state_style(event.state), format!("{:<11}", event.state));
    let code = event.error.as_ref().map_or(String::new(), |error| format!(" {}", error.code));
    let tool = format!("{}@{}", event.tool_id, event.tool_version);
    let id = paint(DIM, event.execution_id);
    ui.line(wrap(&format!("{} {state} {tool} {} {id}{code}", event.timestamp, event.user_id), 25))
}

/// Folds the journal once, from its beginning, and derives one audit event per transition.
fn visit_events(home: &Home, args: &FilterArgs, each: &mut dyn FnMut(&AuditEvent) -> Done) -> Done {
    let filter = args.filter();
    let of_run: Option<BTreeSet<ExecutionId>> = match &filter.run {
        Some(run) => Some(home.store.run_calls(run)?.into_iter().collect()),
        None => None,
    };
    let mut progress = Progress::new("reading entries");
    let mut calls = CallFold::default();
    let mut left = filter.limit.unwrap_or(u64::MAX);
    let mut stopped = Ok(());
    let size = home.store.head()?.size;
    let visited = home.store.visit(0..size, &mut |stored: StoredEntry| {
        progress.tick(stored.entry.seq);
        let Fact::Call(fact) = &stored.entry.fact else { return Ok(()) };
        let Some(event) = step(&mut calls, &stored, fact)? else { return Ok(()) };
        let wanted = filter.tool.as_ref().is_none_or(|tool| *tool == event.tool_id)
            && of_run.as_ref().is_none_or(|calls| calls.contains(&event.execution_id))
            && filter.state.is_none_or(|state| state == event.state)
            && filter.principal.as_ref().is_none_or(|principal| *principal == event.user_id)
            && filter.since.is_none_or(|since| event.timestamp >= since)
            && filter.until.is_none_or(|until| event.timestamp < until);
        if wanted && left > 0 {
            left -= 1;
            stopped = each(&event);
        }
        if stopped.is_ok() && left > 0 { Ok(()) } else { Err(JournalError::Enough) }
    });
    stopped?;
    if left == 0 { Ok(()) } else { visited.map_err(Stop::from) }
}

fn step(
    calls: &mut CallFold,
    stored: &StoredEntry,
    fact: &CallFact,
) -> Result<Option<AuditEvent>, JournalError> {
    let at = stored.entry.time;
    let call = calls
        .take_in(at, fact)
        .map_err(|error| JournalError::Corrupt(format!("entry {}: {error}", stored.entry.seq)))?;
    Ok(AuditEvent::of(stored.hash, at, &fact.event, &call.summary))
}

fn entry(home: &Home, seq: u64) -> Result<StoredEntry, Failure> {
    let mut found = None;
    home.store.visit(seq..seq.saturating_add(1), &mut |stored| {
        found = Some(stored);
        Ok(())
    })?;
    let size = home.store.head()?.size;
    found.ok_or_else(|| {
        Failure::validation("ENTRY_UNKNOWN", format!("there is no entry {seq}"))
            .hint(format!("entries are numbered 0 to {}", size.saturating_sub(1)))
    })
}

fn show(ui: Ui, home: &Home, seq: u64) -> Done {
    let stored = entry(home, seq)?;
    if ui.json {
        return ui.json(&json!({"hash": stored.hash, "entry": stored.entry}));
    }
    ui.line(format!("{} {}", paint(BOLD, format!("entry {seq}")), stored.entry.time))?;
    ui.line(format!("  hash  {}", stored.hash))?;
    ui.line(format!("  prev  {}", stored.entry.prev))?;
    ui.line(wrap(&format!("  about {}", subject(&stored.entry.fact)), 8))?;
    let value = serde_json::to_string_pretty(&stored.entry.fact).unwrap_or_default();
    value.lines().try_for_each(|line| ui.line(inert(line)))
}

fn subject(fact: &Fact) -> String {
    match fact {
        Fact::Home(_) => "this home".to_owned(),
        Fact::Grant(GrantEvent::Issued { grant }) => format!("grant {}", grant.body.id),
        Fact::Grant(GrantEvent::Revoked { grant, .. }) => format!("grant {grant}"),
        Fact::Principal(
            PrincipalEvent::Added { principal, .. } | PrincipalEvent::Removed { principal, .. },
        ) => format!("principal {principal}"),
        Fact::Key(KeyEvent::Created { key, .. }) => format!("key {}", key.id),
        Fact::Key(KeyEvent::Retired { key, .. } | KeyEvent::Revoked { key, .. }) => {
            format!("key {key}")
        }
        Fact::Policy(PolicyEvent::Adopted(adopted)) => {
            format!("policy set {}", adopted.policy.digest)
        }
        Fact::Workspace(WorkspaceEvent::Added { workspace }) => {
            format!("workspace {}", workspace.id)
        }
        Fact::Workspace(
            WorkspaceEvent::Reset { workspace, .. } | WorkspaceEvent::Removed { workspace, .. },
        ) => format!("workspace {workspace}"),
        Fact::Artifact(ArtifactEvent::Collected { artifacts, .. }) => {
            format!("{} artifacts", artifacts.len())
        }
        Fact::Call(call) => format!("execution {}", call.execution),
        Fact::Run(fact) => format!("run {}", fact.run),
        Fact::Record(fact) => format!("{} {}", fact.space, fact.key),
    }
}

fn verify(context: &Context, args: &VerifyArgs) -> Done<Exit> {
    let earlier: Result<Vec<String>, Failure> =
        args.checkpoint.iter().map(|path| read_text("checkpoint", path)).collect();
    let verified = match (&args.file, &args.key) {
        (Some(file), Some(key)) => verify_file(file, key, &earlier?)?,
        _ => {
            let home = open_for_inspection(&context.home)?;
            let mut progress = Progress::new("verifying entries");
            verify_home(&home, &earlier?, |seen| progress.tick(seen)).map_err(Failure::from)?
        }
    };
    report(context.ui, &verified)?;
    Ok(Exit::Done)
}

/// A home that is not there is not a damaged one.
fn open_for_inspection(path: &Path) -> Result<Home, Failure> {
    if !path.join("state").exists() {
        // Only to say so in the same words as everywhere.
        return Home::open(path);
    }
    Home::open_for_inspection(path)
}

/// `role` says what the file was taken for: a key, an export, a checkpoint.
fn read_text(role: &str, path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| unreadable(role, path, &error))
}

pub(super) fn unreadable(role: &str, path: &Path, error: &io::Error) -> Failure {
    let message = format!("the {role} {} cannot be read: {error}", path.display());
    Failure::validation("FILE_UNREADABLE", message)
        .hint(format!("name a file that holds the {role}"))
}

fn verify_file(file: &Path, key: &str, earlier: &[String]) -> Result<Verified, Failure> {
    let key = read_key(key)?;
    let mut input =
        BufReader::new(File::open(file).map_err(|error| unreadable("export", file, &error))?);
    export::verify(&mut input, &key, earlier).map_err(|fault| {
        Failure::validation("AUDIT_FAILED", format!("{} does not verify: {fault}", file.display()))
            .hint("it was changed, cut short, or belongs to another key")
            .details(json!({"entry": fault.entry()}))
    })
}

pub(super) fn read_key(text: &str) -> Result<VerifierKey, Failure> {
    let path = Path::new(text);
    let is_key = text.contains('+') && !path.exists();
    let line = if is_key { text.to_owned() } else { read_text("key", path)? };
    line.trim().parse().map_err(|error: countersign_journal::CheckpointError| {
        Failure::validation("KEY_INVALID", error.to_string())
            .hint("print it with `countersign audit key` on the machine that wrote the journal")
    })
}

fn report(ui: Ui, verified: &Verified) -> Done {
    if ui.json {
        let mut value = json!(verified);
        if let Some(object) = value.as_object_mut() {
            object.insert("ok".to_owned(), Value::Bool(true));
        }
        return ui.json(&value);
    }
    let count = verified.end - verified.first;
    let entries = match count {
        1 => format!("entry {}", verified.first),
        0 => "no entry".to_owned(),
        _ => format!("{count} entries, {} to {}", verified.first, verified.end - 1),
    };
    ui.line(wrap(&format!("{} {entries} of {}", paint(GOOD, "verified"), verified.origin), 0))?;
    ui.line(paint(DIM, format!("  {} entries are signed, root {}", verified.size, verified.root)))
}

fn checkpoint(ui: Ui, home: &Home) -> Done {
    let head = home.store.head()?;
    if ui.json {
        let key = home.journal_key.verifier().to_string();
        return ui.json(&json!({"size": head.size, "checkpoint": head.checkpoint, "key": key}));
    }
    ui.line(head.checkpoint.trim_end())
}

fn key(ui: Ui, home: &Home) -> Done {
    let key = home.journal_key.verifier().to_string();
    if ui.json { ui.json(&json!({"key": key})) } else { ui.line(key) }
}

fn export(ui: Ui, home: &Home, args: &ExportArgs) -> Done {
    let size = home.store.head()?.size;
    let range = args.from..args.to.unwrap_or(size);
    if range.start > range.end || range.end > size {
        let message = format!("entries {} to {} are not all there", range.start, range.end);
        let hint = format!("the journal has {size} entries, numbered from 0");
        return Err(Failure::validation("RANGE_INVALID", message).hint(hint).into());
    }
    if args.file.as_os_str() == "-" {
        return export_to_stdout(ui, home, range);
    }
    let count = range.end - range.start;
    output_file::write(&args.file, |out| Ok(export::write(&*home.store, range, out)?))?;
    let file = args.file.display().to_string();
    let key = home.journal_key.verifier().to_string();
    if ui.json {
        return ui.json(&json!({"file": file, "entries": count, "key": key}));
    }
    ui.line(format!("{} {count} entries to {}", paint(GOOD, "exported"), shown(&args.file)))?;
    ui.line("verify it anywhere with:")?;
    ui.line(format!("  countersign audit verify --file {} --key {key}", shell_word(file)))
}

fn export_to_stdout(ui: Ui, home: &Home, range: Range<u64>) -> Done {
    if ui.json {
        let message = "an export is not one JSON document, so --json cannot print it";
        return Err(Failure::validation("USAGE", message)
            .hint("leave --json out, or export to a file")
            .into());
    }
    let mut out = Telltale { inner: BufWriter::new(io::stdout().lock()), failed: None };
    let written = export::write(&*home.store, range, &mut out);
    match out.failed {
        Some(error) => Err(Stop::Output(error)),
        None => Ok(written?),
    }
}

/// Remembers why writing failed: to the journal every failure looks like its own.
struct Telltale<W> {
    inner: W,
    failed: Option<io::Error>,
}

impl<W: Write> Write for Telltale<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).inspect_err(|error| self.failed = Some(error.kind().into()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().inspect_err(|error| self.failed = Some(error.kind().into()))
    }
}

fn prove(ui: Ui, home: &Home, args: &ProveArgs) -> Done {
    let seq = match args.subject.parse::<u64>() {
        Ok(seq) => entry(home, seq)?.entry.seq,
        Err(_) => {
            let call = find(home, &args.subject)?;
            let entries = home.store.call_entries(call.execution)?;
            entries.last().map_or(0, |stored| stored.entry.seq)
        }
    };
    let proof = export::prove(&*home.store, seq)?;
    let Some(file) = &args.out else {
        let mut line = Vec::new();
        proof.write(&mut line)?;
        return ui.exact(String::from_utf8_lossy(&line).trim_end());
    };
    output_file::write(file, |out| Ok(proof.write(out)?))?;
    if ui.json {
        return ui.json(&json!({"file": file.display().to_string(), "entry": seq}));
    }
    ui.line(format!("{} entry {seq} in {}", paint(GOOD, "proved"), shown(file)))
}
