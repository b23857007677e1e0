//! Execution in a fresh place, and comparison.

use countersign_actions::rules;
use countersign_host::Cancel;
use countersign_host::again::{Finding, Planned, Verified};
use serde_json::json;

use super::{ReplayArgs, subject};
use crate::Context;
use crate::commands::acting;
use crate::exit::Exit;
use crate::sandbox;
use crate::signals;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

pub(super) fn run(context: &Context, args: ReplayArgs) -> Done<Exit> {
    let ui = context.ui;
    let by = acting(args.by)?;
    let host = sandbox::open_host(&context.home)?;
    let subject = subject(host.home(), &args.subject)?;
    let executions = host.home().calls_of(&subject)?;
    let planned = host.plan_verification(&executions, rules)?;
    tell_skipped(ui, &planned)?;
    let cancel = Cancel::from_flag(signals::cancelled());
    let mut verified = Vec::new();
    for one in planned.iter().filter(|one| one.skip.is_none()) {
        let done = host.verify_again(one.execution, &by, rules, &cancel)?;
        if !ui.json {
            print(ui, &done)?;
        }
        verified.push(done);
    }
    let same = verified.iter().all(|one| one.same);
    let exit = if same && !verified.is_empty() { Exit::Done } else { Exit::ToolFailed };
    if ui.json {
        let skipped: Vec<_> = planned.iter().filter(|one| one.skip.is_some()).collect();
        ui.json(&json!({"same": same, "skipped": skipped, "verified": verified}))?;
        return Ok(exit);
    }
    sum_up(ui, &planned, &verified, same)?;
    Ok(exit)
}

/// Before anything starts.
fn tell_skipped(ui: Ui, planned: &[Planned]) -> Done {
    if ui.json {
        return Ok(());
    }
    for one in planned {
        let Some(skip) = &one.skip else { continue };
        let what = format!("{} {} {}", paint(WARN, "skipped"), one.tool, one.execution);
        let code = paint(DIM, format!("[{}]", skip.code));
        ui.line(wrap(&format!("{what}: {} {code}", inert(&skip.reason)), 2))?;
    }
    Ok(())
}

fn print(ui: Ui, verified: &Verified) -> Done {
    let (style, word) = if verified.same { (GOOD, "same") } else { (BAD, "different") };
    let id = paint(DIM, verified.execution);
    ui.line(format!("{} {} {id}", paint(style, word), paint(BOLD, &verified.tool)))?;
    verified.findings.iter().try_for_each(|finding| print_finding(ui, finding))
}

fn print_finding(ui: Ui, finding: &Finding) -> Done {
    let line = match finding {
        Finding::Same { .. } => return Ok(()),
        Finding::Different { what, difference } => format!("{what}: {difference}"),
        Finding::NotCompared { what, reason } => format!("{what} was not compared: {reason}"),
        Finding::Damaged { what, reason } => format!("{what}: {reason}"),
        Finding::Failed { error } => {
            format!("it went well then, and fails now: {} [{}]", error.message, error.code)
        }
    };
    ui.line(wrap(&format!("  {}", inert(&line)), 2))
}

fn sum_up(ui: Ui, planned: &[Planned], verified: &[Verified], same: bool) -> Done {
    let skipped = planned.len() - verified.len();
    let differ = verified.iter().filter(|one| !one.same).count();
    let (style, word) = match (verified.is_empty(), same) {
        (true, _) => (WARN, "nothing to verify:"),
        (false, true) => (GOOD, "verified:"),
        (false, false) => (BAD, "differs:"),
    };
    let done = verified.len();
    let text = format!("{done} executed again, {differ} different, {skipped} skipped");
    ui.line(format!("{} {text}", paint(style, word)))
}
