//! Yes, and yes to the same call from now on: a rule that the person sees and may edit.

use countersign_host::approvals::Approval;
use countersign_host::memory::Proposal;
use countersign_host::{Cancel, Host};
use countersign_model::{Answer, Token};

use super::super::{When, call};
use super::edit::in_editor;
use super::prompt::ask;
use super::told;
use crate::exit::Exit;
use crate::plain::plain;
use crate::signals;
use crate::ui::{BOLD, DIM, Done, GOOD, Ui, paint, wrap};

pub(super) fn remember(ui: Ui, host: &Host, token: &Token, approval: &Approval) -> Done<Exit> {
    let now = host.clock().now();
    let by = host.may_answer(approval.call.execution, token)?;
    let until = loop {
        let text = ask(ui, "for how long? [8h] ")?;
        let text = if text.is_empty() { "8h" } else { &text };
        match text.parse::<When>() {
            Ok(when) => break when.after(now),
            Err(failure) => ui.failure(&failure),
        }
    };
    let mut proposal = host.propose(approval, &by, until);
    loop {
        show(ui, &proposal)?;
        match ask(ui, "[y] remember it  [e] edit  [n] do not > ")?.as_str() {
            "y" => match host.check_proposal(approval, &by, until, &proposal) {
                Ok(()) => break,
                Err(failure) => ui.failure(&failure),
            },
            "e" => proposal.text = in_editor(&host.home().staging(), "cedar", &proposal.text)?,
            "n" => {
                ui.line("nothing is remembered; the call still waits")?;
                return Ok(Exit::Waiting);
            }
            _ => {}
        }
    }
    let exit = agree(ui, host, token, approval)?;
    if exit != Exit::Done {
        ui.line("nothing is remembered: the call did not end well")?;
        return Ok(exit);
    }
    host.remember(&proposal)?;
    let text = format!("{} `countersign policy remembered` lists it", paint(GOOD, "remembered:"));
    ui.line(wrap(&text, 2))?;
    Ok(exit)
}

/// The call runs before the rule is kept: with other policies its approval would be void.
fn agree(ui: Ui, host: &Host, token: &Token, approval: &Approval) -> Done<Exit> {
    let execution = approval.call.execution;
    let call = host.answer(execution, token, Answer::Yes, None)?;
    if !call.approval.as_ref().is_some_and(|asked| asked.is_enough()) {
        told(ui, &call)?;
        return Ok(Exit::Waiting);
    }
    match host.resume(execution, Cancel::from_flag(signals::cancelled())) {
        Ok(outcome) => call::report(ui, host, &outcome),
        // Whoever waited for the answer was faster.
        Err(failure) if failure.code == "NOT_WAITING" => Ok(Exit::Done),
        Err(failure) => Err(failure.into()),
    }
}

fn show(ui: Ui, proposal: &Proposal) -> Done {
    ui.line(paint(BOLD, "this rule would be kept:"))?;
    for line in proposal.text.lines() {
        let line = plain(line);
        let style = if line.starts_with('@') { DIM } else { anstyle::Style::new() };
        ui.line(format!("  {}", paint(style, line)))?;
    }
    Ok(())
}
