use clap::Args;
use countersign_sandbox_linux::explain_seccomp;
use serde_json::{Value, json};

use crate::Context;
use crate::exit::Exit;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, paint, wrap};

/// Print which system calls a program in the box may make, and why
#[derive(Debug, Args)]
pub(crate) struct SyscallsArgs {}

pub(super) fn run(context: &Context, _: &SyscallsArgs) -> Done<Exit> {
    if context.ui.json {
        let lines: Vec<Value> = explain_seccomp()
            .iter()
            .map(|l| json!({"allowed": l.allowed, "reason": l.reason, "calls": l.calls}))
            .collect();
        context.ui.json(&lines)?;
    } else {
        print(context.ui)?;
    }
    Ok(Exit::Done)
}

fn print(ui: Ui) -> Done {
    group(ui, true, &paint(GOOD, "allowed"))?;
    group(ui, false, &paint(BAD, "refused (EPERM)"))?;
    let rest = "Every other call does not exist for the program (ENOSYS), so that libraries fall \
                back to one that does.";
    ui.line(wrap(&paint(DIM, rest), 0))
}

fn group(ui: Ui, allowed: bool, title: &str) -> Done {
    ui.line(title)?;
    for line in explain_seccomp().iter().filter(|line| line.allowed == allowed) {
        ui.line(wrap(&format!("  {}", paint(BOLD, line.reason)), 2))?;
        ui.line(wrap(&format!("    {}", line.calls.join(" ")), 2))?;
    }
    Ok(())
}
