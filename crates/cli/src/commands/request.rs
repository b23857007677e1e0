//! Request documents: drafts, what people say to them, and their runs.

mod decide;
mod list;
mod new;
mod run;
mod view;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_desk::{Draft, judge_request};
use countersign_documents::Reason;
use countersign_documents::request::{Ceilings, Given, Stage};
use countersign_host::config::Config;
use countersign_host::{Clock, SystemClock};
use countersign_model::Failure;
use serde_json::{Value, json};

use crate::Context;
use crate::exit::Exit;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, inert, paint, shown, wrap};

/// Documents that ask for one sandboxed command
#[derive(Debug, Subcommand)]
pub(crate) enum RequestCommand {
    New(new::NewArgs),
    Lint(LintArgs),
    Approve(decide::ApproveArgs),
    Reject(decide::RejectArgs),
    Run(run::RunArgs),
    /// List drafts and requests, and where they stand
    List,
    Show(list::ShowArgs),
    Watch(run::WatchArgs),
}

/// Judge requests: ACCEPT, or REJECT with every reason
///
/// Nothing is run, changed or fetched, and no home is needed. Exit codes: 0 all accepted, 2 some
/// rejected.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Judge drafts: nobody needs to have approved them yet
    #[arg(long)]
    draft: bool,
}

pub(super) fn run(context: &Context, command: RequestCommand) -> Done<Exit> {
    match command {
        RequestCommand::New(args) => new::run(context, &args),
        RequestCommand::Lint(args) => lint(context, &args),
        RequestCommand::Approve(args) => decide::approve(context, &args),
        RequestCommand::Reject(args) => decide::reject(context, &args),
        RequestCommand::Run(args) => run::run(context, &args),
        RequestCommand::List => list::list(context),
        RequestCommand::Show(args) => list::show(context, &args),
        RequestCommand::Watch(args) => run::watch(context, &args),
    }
}

fn lint(context: &Context, args: &LintArgs) -> Done<Exit> {
    let stage = if args.draft { Stage::Draft } else { Stage::Approved };
    let ceilings = ceilings(&context.home)?;
    let judge = |file: &Path| {
        let file_name = file.file_name().and_then(|name| name.to_str());
        let given = Given { file_name, now: SystemClock.now(), ceilings, stage };
        judge_request(file, &given)
    };
    let judged = args.files.iter().map(|file| (file.as_path(), judged(judge(file))));
    report(context.ui, judged)
}

/// The most that the home allows, or the defaults where there is no home.
fn ceilings(home: &Path) -> Result<Ceilings, Failure> {
    let asked = Config::load(&home.join("countersign.toml"))?.requests;
    Ok(Ceilings {
        cpu: asked.max_cpu,
        memory_mb: asked.max_memory_mb,
        time_sec: asked.max_time_sec,
    })
}

/// Reasons against a document as they are printed; none for one that is accepted.
fn judged(judgement: Result<Result<Draft, Vec<Reason>>, Failure>) -> Vec<Value> {
    match judgement {
        Ok(Ok(_)) => Vec::new(),
        Ok(Err(reasons)) => reasons.iter().map(|reason| json!(reason)).collect(),
        Err(failure) => vec![unread(&failure)],
    }
}

/// Whoever names an id that nothing has is told so, and not about a file that they never named.
fn unknown(name: &str, failure: Failure) -> Failure {
    if failure.code != "FILE_UNREADABLE" || name.contains('/') || name.ends_with(".md") {
        return failure;
    }
    Failure::validation("REQUEST_UNKNOWN", format!("there is no request `{}`", inert(name)))
        .hint("list them with `countersign request list`, or name a file")
}

/// What cannot be read has a reason too, and no place.
pub(super) fn unread(failure: &Failure) -> Value {
    json!({
        "code": failure.code, "line": 0, "column": 0,
        "message": failure.message, "fix": failure.hint,
    })
}

/// Prints what was judged of several documents, requests and results alike.
pub(super) fn report<'f>(
    ui: Ui,
    judged: impl Iterator<Item = (&'f Path, Vec<Value>)>,
) -> Done<Exit> {
    let mut lines = Vec::new();
    let mut clean = true;
    for (file, reasons) in judged {
        clean &= reasons.is_empty();
        if !ui.json {
            print_reasons(ui, file, &reasons)?;
        }
        let outcome = if reasons.is_empty() { "ACCEPT" } else { "REJECT" };
        lines.push(json!({
            "file": file.display().to_string(),
            "ok": reasons.is_empty(),
            "outcome": outcome,
            "reasons": reasons,
        }));
    }
    if ui.json {
        ui.json(&lines)?;
    }
    Ok(if clean { Exit::Done } else { Exit::Invalid })
}

pub(super) fn print_reasons(ui: Ui, file: &Path, reasons: &[Value]) -> Done {
    let name = shown(file);
    if reasons.is_empty() {
        return ui.line(format!("{} {name}", paint(GOOD, "ACCEPT")));
    }
    ui.line(format!("{} {name}", paint(BAD, "REJECT")))?;
    reasons.iter().try_for_each(|reason| print_reason(ui, reason))
}

fn print_reason(ui: Ui, reason: &Value) -> Done {
    let text = |name: &str| inert(reason.get(name).and_then(Value::as_str).unwrap_or_default());
    let number = |name: &str| reason.get(name).and_then(Value::as_u64).unwrap_or_default();
    let place = match number("line") {
        0 => "the file".to_owned(),
        line => format!("{line}:{}", number("column")),
    };
    let code = paint(DIM, format!("[{}]", text("code")));
    ui.line(wrap(&format!("  {}: {} {code}", paint(BOLD, place), text("message")), 4))?;
    match text("fix") {
        fix if fix.is_empty() => Ok(()),
        fix => ui.line(wrap(&format!("      {fix}"), 6)),
    }
}
