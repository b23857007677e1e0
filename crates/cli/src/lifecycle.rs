//! One call as a person reads it: what happened at each step, and why.

use countersign_host::Home;
use countersign_model::effect::{Effect, Payload};
use countersign_model::event::{
    Asked, Authorized, CallEvent, Connection, Declared, Denied, Fact, Started,
};
use countersign_model::record::CallSummary;
use countersign_model::{Failure, Lifecycle, ResourceLimits, Timestamp, Verdict};

use crate::ui::{BOLD, DIM, Done, Ui, WARN, bytes, inert, paint, state_style, wrap};

/// The widest state, a mark and the spaces around them.
const MARGIN: usize = 16;

/// Changes listed; a program can make thousands.
const EFFECTS: usize = 50;

/// Violations listed below the first; a person reads no further.
const SHOWN: usize = 20;

/// Lines of a program's diagnostic stream that are shown: its end says most.
const SAID_LINES: usize = 12;
const SAID_BYTES: usize = 2 << 10;

/// How much is told of a program's sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What the caller has to know.
    Brief,
    /// Also how every barrier was kept, and what was said by a program that succeeded.
    Full,
}

/// Prints the life of a call from its journal entries.
pub(crate) fn print(ui: Ui, home: &Home, summary: &CallSummary, detail: Detail) -> Done {
    let entries = home.store.call_entries(summary.execution)?;
    ui.line(title(summary))?;
    for stored in &entries {
        let Fact::Call(call) = &stored.entry.fact else { continue };
        print_step(ui, &call.event, stored.entry.time, summary.declared_at, detail)?;
        let said = match &call.event {
            CallEvent::Committed(done) if detail == Detail::Full => done.stderr,
            CallEvent::RolledBack(back) => back.stderr,
            _ => None,
        };
        let said = said.and_then(|said| home.payload(summary.execution, &said).ok());
        said_last(ui, &said.map(|bytes| end_of(&bytes)).unwrap_or_default())?;
    }
    if summary.is_unknown() {
        let text = match summary.unsettled.is_empty() {
            true => "the call may have reached other hosts before its end: look there".to_owned(),
            false => format!(
                "the call is recorded, but its change may not be in place: look at {}",
                summary.unsettled.join(", ")
            ),
        };
        ui.line(wrap(&format!("{} {}", paint(WARN, "outcome unknown:"), inert(&text)), 2))?;
    }
    Ok(())
}

fn title(call: &CallSummary) -> String {
    let tool = paint(BOLD, format!("{}@{}", call.tool, call.version));
    let root = call.root.as_ref().map_or(String::new(), |root| format!(" in {}", inert(root)));
    let work = call.work.as_ref().map(|work| format!(", run {} on {}", work.run, work.workspace));
    wrap(&format!("{tool} as {}{root}{}", call.principal, work.unwrap_or_default()), 0)
}

fn print_step(ui: Ui, event: &CallEvent, at: Timestamp, start: Timestamp, detail: Detail) -> Done {
    let after = paint(DIM, format!("+{} ms", at.millis_since(start)));
    let Some(state) = event.leads_to() else {
        return match event {
            CallEvent::Asked(asked) => below(ui, &asked_text(asked)),
            CallEvent::Approved(consent) => {
                let why = because(consent.reason.as_deref());
                below(ui, &format!("{} agreed{why}", consent.by))
            }
            event => effects(ui, event),
        };
    };
    let style = state_style(state);
    let head = format!("  {} {}", paint(style, mark(state)), paint(style, format!("{state:<11}")));
    ui.line(wrap(&format!("{head} {} {after}", explain(event)), MARGIN - 2))?;
    match event {
        CallEvent::Failed { error } | CallEvent::Denied(Denied { error, .. }) => details(ui, error),
        CallEvent::Started(started) => sandbox(ui, started, detail),
        CallEvent::RolledBack(back) => {
            connections(ui, &back.connections)?;
            details(ui, &back.error)
        }
        _ => Ok(()),
    }
}

/// One more line below a step.
fn below(ui: Ui, text: &str) -> Done {
    ui.line(wrap(&format!("{:MARGIN$}{}", "", paint(DIM, text)), MARGIN))
}

/// What holds a program back. What does not is said in any case.
fn sandbox(ui: Ui, started: &Started, detail: Detail) -> Done {
    if detail == Detail::Full
        && let Some(plan) = started.plan
    {
        let show = "see `countersign execution plan`";
        below(ui, &format!("plan {} ({}); {show}", plan.digest.short(), bytes(plan.size)))?;
        below(ui, &format!("limits {}", limits(&started.limits)))?;
        for (name, how) in &started.enforcement.sandbox {
            below(ui, &format!("{:<10} {}", inert(name), inert(how)))?;
        }
    }
    if !started.hosts.is_empty() {
        below(ui, &format!("may reach {}", inert(&started.hosts.join(", "))))?;
    }
    for name in &started.enforcement.weaker {
        let text = format!("{} is not enforced here, as the declaration allows", inert(name));
        ui.line(wrap(&format!("{:MARGIN$}{}", "", paint(WARN, text)), MARGIN))?;
    }
    Ok(())
}

/// Every attempt to reach a host, and what came of it.
fn connections(ui: Ui, connections: &[Connection]) -> Done {
    for made in connections.iter().take(SHOWN) {
        let host = if made.host.is_empty() { "nothing" } else { &made.host };
        let address =
            made.address.as_ref().map_or(String::new(), |at| format!(" at {}", inert(at)));
        let target = format!("{}:{}{address} by {}", inert(host), made.port, inert(&made.protocol));
        let flow = format!("{} sent, {} received", bytes(made.sent), bytes(made.received));
        match &made.denied {
            None => below(ui, &format!("reached {target}: {flow}"))?,
            Some(code) if made.sent + made.received > 0 => {
                below(ui, &format!("cut off from {target}: {flow} [{}]", inert(code)))?;
            }
            Some(code) => below(ui, &format!("kept from {target} [{}]", inert(code)))?,
        }
    }
    match connections.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => below(ui, &format!("and {more} more attempts; --json shows them all")),
    }
}

fn end_of(bytes: &[u8]) -> String {
    let from = bytes.len().saturating_sub(SAID_BYTES);
    String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).into_owned()
}

/// The last lines that a program said, each marked as not ours.
fn said_last(ui: Ui, said: &str) -> Done {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let skipped = lines.len().saturating_sub(SAID_LINES);
    if !lines.is_empty() {
        below(ui, "it said on standard error:")?;
    }
    for line in lines.into_iter().skip(skipped) {
        ui.line(wrap(&format!("{:MARGIN$}{} {}", "", paint(DIM, "│"), inert(line)), MARGIN))?;
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
        | CallEvent::Denied(Denied { error, .. })
        | CallEvent::Aborted { error } => reason(error),
        CallEvent::Refused(consent) => {
            format!("{} refused{}", consent.by, because(consent.reason.as_deref()))
        }
        CallEvent::Withdrawn(withdrawn) => {
            format!("{} withdrew it{}", withdrawn.by, because(withdrawn.reason.as_deref()))
        }
        // They change no state, and are told of beside the one they happen in.
        CallEvent::Asked(_) | CallEvent::Approved(_) => String::new(),
        CallEvent::Authorized(decision) if decision.capabilities.is_empty() => {
            format!("the tool needs no capability{}", rules(decision))
        }
        CallEvent::Authorized(decision) => {
            let names: Vec<_> = decision.capabilities.iter().map(|c| c.as_str()).collect();
            let grants: Vec<_> = decision.grants.iter().map(ToString::to_string).collect();
            let again = if decision.attempt > 1 {
                format!(" (attempt {})", decision.attempt)
            } else {
                String::new()
            };
            let rules = rules(decision);
            format!("{} by grant {}{rules}{again}", names.join(", "), grants.join(", "))
        }
        CallEvent::Started(started) => explain_started(started),
        CallEvent::Committed(_) => String::new(),
        CallEvent::Replayed(replayed) => {
            format!("nothing ran: execution {} did the same, and this is its result", replayed.of)
        }
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

/// The rules that let a call run.
fn rules(decision: &Authorized) -> String {
    let rules = decision.verdict.as_ref().map(Verdict::rules).unwrap_or_default();
    match rules.is_empty() {
        true => String::new(),
        false => format!("; policy {}", inert(&rules.join(", "))),
    }
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {}", inert(reason))).unwrap_or_default()
}

fn asked_text(asked: &Asked) -> String {
    let people = match asked.approvers {
        1 => "a human".to_owned(),
        n => format!("{n} humans"),
    };
    let shown = asked.subject.digest.short();
    format!("waits for {people}, until {}; shown {shown}", asked.expires_at)
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

/// Every limit that a declaration names, on one line.
pub(crate) fn limits(limits: &ResourceLimits) -> String {
    let size = |name: &str, size: Option<u64>| size.map(|size| format!("{name} {}", bytes(size)));
    let count = |what: &str, count: Option<u64>| count.map(|count| format!("{count} {what}"));
    let ms = limits.max_cpu_time.map(|ms| format!("{ms} ms of processor time"));
    let first = [format!("{} ms", limits.max_execution_time), bytes(limits.max_memory)];
    let more = [
        ms,
        count("processes", limits.max_processes.map(u64::from)),
        count("threads", limits.max_threads.map(u64::from)),
        count("open files", limits.max_file_descriptors.map(u64::from)),
        size("files up to", limits.max_file_size),
        size("all files up to", limits.max_total_size),
        count("files made", limits.max_inodes),
        size("output up to", limits.max_output),
    ];
    first.into_iter().chain(more.into_iter().flatten()).collect::<Vec<_>>().join(", ")
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
    connections(ui, &committed.connections)?;
    for effect in committed.effects.iter().take(EFFECTS) {
        let text = match effect {
            Effect::DirectoryCreated { path, .. } => format!("made {}/", inert(path)),
            Effect::DirectoryChanged { path, before, after } => {
                format!("changed {}/ to {after:o} (was {before:o})", inert(path))
            }
            Effect::DirectoryDeleted { path, .. } => format!("deleted {}/", inert(path)),
            Effect::LinkWritten { path, after, .. } => {
                format!("linked {} to {}", inert(path), inert(after))
            }
            Effect::LinkDeleted { path, .. } => format!("deleted the link {}", inert(path)),
            Effect::FileWritten { path, before: None, after } => {
                format!("created {} ({})", inert(path), bytes(after.size))
            }
            Effect::FileWritten { path, before: Some(before), after }
                if before.digest == after.digest =>
            {
                format!("changed {} to {:o} (was {:o})", inert(path), after.mode, before.mode)
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
            Effect::RefMoved { reference, after, .. } => {
                format!("moved {} to {}", inert(reference), inert(after))
            }
            Effect::StatePut { key, .. } => format!("set {}", inert(key)),
            Effect::StateDeleted { key, .. } => format!("removed {}", inert(key)),
        };
        below(ui, &text)?;
    }
    match committed.effects.len().saturating_sub(EFFECTS) {
        0 => {}
        more => below(ui, &format!("and {more} more changes; --json shows them all"))?,
    }
    for artifact in committed.artifacts.iter().take(SHOWN) {
        // Built-in tools name what they leave; programs leave files.
        let place = if artifact.media_type.is_some() { "" } else { "/out/" };
        below(ui, &format!("left {place}{} ({})", inert(&artifact.name), bytes(artifact.size)))?;
    }
    match committed.artifacts.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => {
            below(ui, &format!("and {more} more; `countersign execution artifacts` lists them"))
        }
    }
}
