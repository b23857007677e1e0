use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_host::{Home, Registry, receipts};
use countersign_journal::receipt::{Checked, MAX_RECEIPT, Outcome, Report, verify};
use countersign_model::{Consent, Failure};
use serde_json::{Value, json};

use super::audit::{read_key, unreadable};
use super::execution::find;
use crate::Context;
use crate::exit::Exit;
use crate::output_file::{self, unwritable};
use crate::ui::{
    BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, shell_word, shown, state_style, wrap,
};

/// Prove one call to an outsider: `receipt EXECUTION` writes a file, `receipt verify` checks one
///
/// The file holds the call's facts, the grants and approvals behind it, and proofs that lead to a
/// signed checkpoint of the journal. Input, output and what a program said are in it only as
/// digests, unless --with-content is given; paths, names of hosts and error messages stand in the
/// facts themselves.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ReceiptArgs {
    #[command(subcommand)]
    command: Option<ReceiptCommand>,

    /// The execution's id, or `last`
    #[arg(required = true)]
    execution: Option<String>,

    /// Where to, or - for standard output [default: receipt-EXECUTION.json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Put input, output and what a program said into it: whoever has the file can read them
    #[arg(long)]
    with_content: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReceiptCommand {
    Verify(VerifyArgs),
}

/// Check a receipt; needs no home
///
/// Exit codes: 0 verified, 2 not: every problem is listed with its code.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The receipt
    file: PathBuf,

    /// The journal's public key: NAME+ID+BASE64, or a file that holds it
    #[arg(long)]
    key: String,
}

pub(super) fn run(context: &Context, args: &ReceiptArgs) -> Done<Exit> {
    if let Some(ReceiptCommand::Verify(args)) = &args.command {
        check(context.ui, args)?;
        return Ok(Exit::Done);
    }
    create(context, args)?;
    Ok(Exit::Done)
}

fn create(context: &Context, args: &ReceiptArgs) -> Done {
    let ui = context.ui;
    let home = Home::open(&context.home)?;
    let call = find(&home, args.execution.as_deref().unwrap_or("last"))?;
    let handlers = countersign_actions::handlers(&home.config.actions)?;
    let registry = Registry::load(&home.tools(), &handlers)?;
    let receipt = receipts::create(&home, &registry, call.execution, args.with_content)?;
    let file = match &args.out {
        Some(file) if file.as_os_str() == "-" => {
            return ui.exact(String::from_utf8_lossy(&receipt).trim_end());
        }
        Some(file) => file.clone(),
        None => PathBuf::from(format!("receipt-{}.json", call.execution)),
    };
    output_file::write(&file, |out| out.write_all(&receipt).map_err(|e| unwritable(&file, &e)))?;
    let (name, key) = (file.display().to_string(), home.journal_key.verifier().to_string());
    if ui.json {
        let (execution, state) = (call.execution, call.state);
        return ui
            .json(&json!({"file": name, "executionId": execution, "state": state, "key": key}));
    }
    let state = paint(state_style(call.state), call.state);
    ui.line(format!("{} {state} in {}", paint(GOOD, "receipt of a call that is"), shown(&file)))?;
    ui.line("verify it anywhere with:")?;
    ui.line(format!("  countersign receipt verify {} --key {key}", shell_word(name)))
}

fn check(ui: Ui, args: &VerifyArgs) -> Done {
    let key = read_key(&args.key)?;
    let report = verify(&read(&args.file)?, &key);
    if report.is_verified() {
        return if ui.json { ui.json(&verified(&report)?) } else { print(ui, &report) };
    }
    if !ui.json {
        print(ui, &report)?;
    }
    let message = format!("{} does not verify: {}", args.file.display(), first(&report));
    let details = serde_json::to_value(&report)
        .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
    // Nothing that it says can be relied on, so only what was checked is told.
    let told = json!({"checks": details.get("checks"), "problems": details.get("problems")});
    Err(Failure::validation("RECEIPT_INVALID", message)
        .hint("it was changed, belongs to another key, or its home did not follow the rules")
        .details(told)
        .into())
}

/// One byte more than a receipt may have is enough to see that it is none.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let file = File::open(path).map_err(|error| unreadable("receipt", path, &error))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_RECEIPT as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable("receipt", path, &error))?;
    Ok(bytes)
}

fn verified(report: &Report) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(report)
        .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
    if let Some(object) = value.as_object_mut() {
        object.insert("ok".to_owned(), Value::Bool(true));
    }
    Ok(value)
}

fn first(report: &Report) -> String {
    let first = report.problems.first().map_or("", |problem| problem.message.as_str());
    match report.problems.len() {
        0 | 1 => first.to_owned(),
        n => format!("{first}, and {} problems more", n - 1),
    }
}

fn print(ui: Ui, report: &Report) -> Done {
    if report.is_verified() {
        print_call(ui, report)?;
    }
    report.checks.iter().try_for_each(|checked| print_check(ui, checked))?;
    for problem in &report.problems {
        let code = paint(BAD, &problem.code);
        ui.line(wrap(&format!("  {code} {}", inert(&problem.message)), 4))?;
    }
    for open in &report.unchecked {
        ui.line(wrap(&format!("{} {}", paint(WARN, "not checked:"), inert(open)), 2))?;
    }
    for remark in &report.remarks {
        ui.line(wrap(&format!("{} {}", paint(WARN, "note:"), inert(remark)), 2))?;
    }
    Ok(())
}

fn print_call(ui: Ui, report: &Report) -> Done {
    let Some(call) = &report.call else { return Ok(()) };
    let state = paint(state_style(call.state), call.state);
    let tool = paint(BOLD, format!("{}@{}", call.tool, call.version));
    let line = format!("{} {tool} for {}: {state}", paint(GOOD, "verified"), call.principal);
    ui.line(wrap(&line, 2))?;
    ui.line(paint(DIM, format!("  execution {}, {}", call.execution, call.declared_at)))?;
    report.answers.iter().try_for_each(|answer| print_answer(ui, answer))?;
    if let Some(verdict) = &report.verdict {
        let rules = verdict.rules().join(", ");
        let rules = if rules.is_empty() { String::new() } else { format!(" by {}", inert(&rules)) };
        ui.line(wrap(&format!("  policies said {}{rules}", verdict.decision), 4))?;
    }
    Ok(())
}

fn print_answer(ui: Ui, answer: &Consent) -> Done {
    let reason = answer.reason.as_deref().map(|reason| format!(": {}", inert(reason)));
    let (by, said, at) = (&answer.by, answer.answer, answer.at);
    ui.line(wrap(&format!("  {by} said {said}, {at}{}", reason.unwrap_or_default()), 4))
}

fn print_check(ui: Ui, checked: &Checked) -> Done {
    let (style, mark) = match checked.outcome {
        Outcome::Passed => (GOOD, "ok"),
        Outcome::Failed => (BAD, "failed"),
        Outcome::NotReached => (WARN, "not reached"),
    };
    let what = paint(DIM, inert(&checked.what));
    ui.line(wrap(&format!("  {:<11} {} {what}", checked.check.as_str(), paint(style, mark)), 14))
}
