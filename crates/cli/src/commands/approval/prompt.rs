//! One decision at a time, at a terminal. Nothing is ever taken for a yes but a `y`.

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use countersign_host::Host;
use countersign_host::approvals::Approval;
use countersign_model::{Answer, ExecutionId, Failure, Token};
use rustix::termios::{QueueSelector, tcflush};

use super::{answered, card};
use crate::exit::Exit;
use crate::plain::plain;
use crate::ui::{BOLD, DIM, Done, Stop, Ui, paint, wrap};

/// How often the journal is asked for more.
const POLL: Duration = Duration::from_millis(500);

enum Choice {
    Yes,
    Edit,
    Remember,
    No,
    Explain,
    Later,
}

/// Shows one call and asks until there is an answer. With `run`, a call that nobody else has to
/// agree to runs at once.
pub(super) fn decide(
    ui: Ui,
    host: &Host,
    token: &Token,
    approval: &Approval,
    reason: Option<&str>,
    run: bool,
) -> Done<Exit> {
    let execution = approval.call.execution;
    card::print(ui, approval, host.clock().now())?;
    loop {
        let call = match choose(ui)? {
            Choice::Yes => host.answer(execution, token, Answer::Yes, reason)?,
            Choice::No => {
                // It grants nothing, so whoever types fast may have begun already.
                let reason = line(ui, "why? ")?;
                let reason = Some(reason.as_str()).filter(|reason| !reason.is_empty());
                host.answer(execution, token, Answer::No, reason)?
            }
            Choice::Explain => {
                explain(ui, host, approval)?;
                continue;
            }
            Choice::Edit => return super::edit::edit(ui, host, token, approval),
            Choice::Remember => return super::remember::remember(ui, host, token, approval),
            Choice::Later => {
                ui.line("left as it is; it still waits")?;
                return Ok(Exit::Waiting);
            }
        };
        return answered(ui, host, &call, run);
    }
}

fn choose(ui: Ui) -> Done<Choice> {
    let keys = [
        ("y", "once"),
        ("e", "edit"),
        ("r", "remember…"),
        ("n", "no, with reason"),
        ("s", "not now"),
        ("?", "explain"),
    ];
    // Each choice stays on one line, however narrow the terminal.
    let choice = |(key, what): &(&str, &str)| format!("[{key}] {what}").replace(' ', "\u{a0}");
    let menu: Vec<_> = keys.iter().map(choice).collect();
    loop {
        ui.line(wrap(&paint(BOLD, menu.join("  ")), 2))?;
        match ask(ui, "> ")?.as_str() {
            "y" | "yes" => return Ok(Choice::Yes),
            "e" => return Ok(Choice::Edit),
            "r" => return Ok(Choice::Remember),
            "n" | "no" => return Ok(Choice::No),
            "s" => return Ok(Choice::Later),
            "?" => return Ok(Choice::Explain),
            _ => {}
        }
    }
}

/// An answer to what stands on the screen: whatever was typed before it stood there is not one.
pub(super) fn ask(ui: Ui, question: &str) -> Done<String> {
    forget_typed_ahead()?;
    line(ui, question)
}

/// Before the question is written: what is typed once it can be seen counts.
fn forget_typed_ahead() -> Done {
    let stdin = io::stdin().lock();
    if stdin.is_terminal() {
        let flushed = tcflush(&stdin, QueueSelector::IFlush);
        flushed.map_err(|error| unheard(&error.to_string()))?;
    }
    Ok(())
}

/// One line from the person. The end of input is no answer.
fn line(_ui: Ui, question: &str) -> Done<String> {
    let mut out = anstream::stdout();
    write!(out, "{question}").and_then(|()| out.flush()).map_err(Stop::Output)?;
    let mut line = String::new();
    let read =
        io::stdin().lock().read_line(&mut line).map_err(|error| unheard(&error.to_string()))?;
    if read == 0 {
        return Err(unheard("the input ended").into());
    }
    Ok(line.trim().to_owned())
}

fn unheard(why: &str) -> Failure {
    Failure::validation("NO_ANSWER", format!("no answer was given: {why}"))
        .hint("the call still waits; answer it later")
}

/// Everything behind the question: the rules as they are written, and the facts that they saw.
fn explain(ui: Ui, host: &Host, approval: &Approval) -> Done {
    let policies = host.policies()?;
    for id in approval.subject.verdict.rules() {
        if let Some(rule) = policies.rules().find(|rule| rule.id == id) {
            let line = rule.line.map(|line| format!(":{line}")).unwrap_or_default();
            ui.line(paint(BOLD, format!("{id} ({}{line})", plain(&rule.file))))?;
            rule.text.lines().try_for_each(|line| ui.line(format!("  {}", plain(line))))?;
        }
    }
    let facts = serde_json::to_string_pretty(&approval.subject.facts).unwrap_or_default();
    ui.line(paint(DIM, "what they saw:"))?;
    facts.lines().try_for_each(|line| ui.line(format!("  {}", plain(line))))
}

/// Decides about what waits, one at a time, as it comes.
pub(super) fn watch(ui: Ui, host: &Host, token: &Token, once: bool) -> Done<Exit> {
    let mut seen: BTreeSet<ExecutionId> = BTreeSet::new();
    loop {
        host.end_expired()?;
        let waiting = host.approvals()?;
        for call in waiting.iter().filter(|call| !seen.contains(&call.execution)) {
            let shown = host.approval(call.execution).map_err(Stop::from);
            match shown.and_then(|approval| decide(ui, host, token, &approval, None, false)) {
                // One that this person may not answer does not keep the others waiting.
                Err(Stop::Failure(failure)) if failure.code != "NO_ANSWER" => ui.failure(&failure),
                Err(stop) => return Err(stop),
                Ok(_) => {}
            }
        }
        seen.extend(waiting.iter().map(|call| call.execution));
        if once {
            return Ok(Exit::Done);
        }
        thread::sleep(POLL);
    }
}
