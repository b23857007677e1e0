//! One call as a person reads it: what happened at each step, and why.

use countersign_host::Home;
use countersign_journal::StoredEntry;
use countersign_model::effect::{Effect, Payload};
use countersign_model::event::{CallEvent, Declared, Fact, Started};
use countersign_model::record::CallSummary;
use countersign_model::{Failure, Lifecycle, Timestamp};

use crate::ui::{BOLD, DIM, Done, Ui, WARN, bytes, inert, paint, state_style, wrap};

/// The widest state, a mark and the spaces around them.
const MARGIN: usize = 16;

/// Violations listed below the first; a person reads no further.
const SHOWN: usize = 20;

/// Prints the life of a call from its journal entries.
pub(crate) fn print(ui: Ui, summary: &CallSummary, entries: &[StoredEntry]) -> Done {
    ui.line(title(summary))?;
    for stored in entries {
        if let Fact::Call(call) = &stored.entry.fact {
            print_step(ui, &call.event, stored.entry.time, summary.declared_at)?;
        }
    }
    if summary.is_unknown() {
        let text = format!(
            "the call is recorded, but its change may not be in place: look at {}",
            summary.unsettled.join(", ")
        );
        ui.line(wrap(&format!("{} {}", paint(WARN, "outcome unknown:"), inert(&text)), 2))?;
    }
    Ok(())
}

fn title(call: &CallSummary) -> String {
    let tool = paint(BOLD, format!("{}@{}", call.tool, call.version));
    let root = call.root.as_ref().map_or(String::new(), |root| format!(" in {}", inert(root)));
    wrap(&format!("{tool} as {}{root}", call.principal), 0)
}

fn print_step(ui: Ui, event: &CallEvent, at: Timestamp, start: Timestamp) -> Done {
    let after = paint(DIM, format!("+{} ms", at.millis_since(start)));
    let Some(state) = event.leads_to() else {
        return effects(ui, event);
    };
    let style = state_style(state);
    let head = format!("  {} {}", paint(style, mark(state)), paint(style, format!("{state:<11}")));
    ui.line(wrap(&format!("{head} {} {after}", explain(event)), MARGIN - 2))?;
    if let CallEvent::Failed { error } | CallEvent::Denied { error } = event {
        return details(ui, error);
    }
    Ok(())
}

fn mark(state: Lifecycle) -> &'static str {
    match state {
        Lifecycle::Failed | Lifecycle::Denied | Lifecycle::Aborted => "✗",
        Lifecycle::RolledBack => "↺",
        _ => "✓",
    }
}

fn explain(event: &CallEvent) -> String {
    match event {
        CallEvent::Declared(declared) => explain_declared(declared),
        CallEvent::Validated {} => "the input fits the tool's schema".to_owned(),
        CallEvent::Failed { error }
        | CallEvent::Denied { error }
        | CallEvent::Aborted { error } => reason(error),
        CallEvent::Authorized(decision) if decision.capabilities.is_empty() => {
            "the tool needs no capability".to_owned()
        }
        CallEvent::Authorized(decision) => {
            let names: Vec<_> = decision.capabilities.iter().map(|c| c.as_str()).collect();
            let grants: Vec<_> = decision.grants.iter().map(ToString::to_string).collect();
            let again = if decision.attempt > 1 {
                format!(" (attempt {})", decision.attempt)
            } else {
                String::new()
            };
            format!("{} by grant {}{again}", names.join(", "), grants.join(", "))
        }
        CallEvent::Started(started) => explain_started(started),
        CallEvent::Committed(_) => String::new(),
        CallEvent::Completed(done) => {
            format!(
                "output {}, {} µs of processor time",
                payload(done.output),
                done.usage.cpu_micros
            )
        }
        CallEvent::RolledBack(back) => {
            let proof = if back.restored() {
                format!("state is what it was ({})", back.before.short())
            } else {
                format!(
                    "state was {}, is {}: changed by someone else",
                    back.before.short(),
                    back.after.short()
                )
            };
            let retry = back
                .retry
                .map_or(String::new(), |retry| format!("; again in {} ms", retry.delay_ms));
            format!("{}; {proof}{retry}", reason(&back.error))
        }
    }
}

fn explain_declared(declared: &Declared) -> String {
    format!(
        "declaration {} pinned, input {}",
        declared.declaration.short(),
        payload(declared.input)
    )
}

fn explain_started(started: &Started) -> String {
    let limits = &started.limits;
    format!(
        "isolation {}, at most {} ms and {}; state before {}",
        started.enforcement.isolation,
        limits.max_execution_time,
        bytes(limits.max_memory),
        started.before.short()
    )
}

fn payload(payload: Payload) -> String {
    format!("{} ({})", payload.digest.short(), bytes(payload.size))
}

fn reason(error: &Failure) -> String {
    format!("{} {}", inert(&error.message), paint(DIM, format!("[{}]", error.code)))
}

/// Every violation with its place; the first one already stands in the message.
fn details(ui: Ui, error: &Failure) -> Done {
    let violations = error.details.as_ref().and_then(|details| details.as_array());
    for violation in violations.into_iter().flatten().skip(1).take(SHOWN) {
        let text =
            |key: &str| violation.get(key).and_then(|v| v.as_str()).map(inert).unwrap_or_default();
        let place = match text("pointer") {
            root if root.is_empty() => "the whole value".to_owned(),
            pointer => pointer,
        };
        ui.line(wrap(&format!("{:MARGIN$}{} (at {place})", "", text("message")), MARGIN))?;
    }
    match violations.map_or(0, Vec::len).saturating_sub(1 + SHOWN) {
        0 => Ok(()),
        more => ui.line(format!("{:MARGIN$}and {more} more; --json shows them all", "")),
    }
}

fn effects(ui: Ui, event: &CallEvent) -> Done {
    let CallEvent::Committed(committed) = event else { return Ok(()) };
    for effect in &committed.effects {
        let text = match effect {
            Effect::DirectoryCreated { path } => format!("made {}/", inert(path)),
            Effect::FileWritten { path, before: None, after } => {
                format!("created {} ({})", inert(path), bytes(after.size))
            }
            Effect::FileWritten { path, before: Some(before), after } => {
                format!(
                    "replaced {} ({}, was {})",
                    inert(path),
                    bytes(after.size),
                    bytes(before.size)
                )
            }
            Effect::FileDeleted { path, .. } => format!("deleted {}", inert(path)),
            Effect::StatePut { key, .. } => format!("set {}", inert(key)),
            Effect::StateDeleted { key, .. } => format!("removed {}", inert(key)),
        };
        ui.line(wrap(&format!("{:MARGIN$}{}", "", paint(DIM, text)), MARGIN))?;
    }
    Ok(())
}

/// Fetches and prints a call that is in the journal.
pub(crate) fn print_from(ui: Ui, home: &Home, summary: &CallSummary) -> Done {
    let entries = home.store.call_entries(summary.execution)?;
    print(ui, summary, &entries)
}
