//! What a person sees before they decide. Text from tools and agents is shown as what it is.

use std::collections::BTreeMap;

use countersign_host::approvals::Approval;
use countersign_host::refusal::reasons;
use countersign_model::{Need, Timestamp};
use serde_json::Value;

use crate::difference::{Mark, difference};
use crate::lifecycle::limits;
use crate::plain::plain;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, paint, wrap};

const MARGIN: usize = 12;

/// Characters of one line.
const LONGEST: usize = 600;

/// Lines around a difference.
const AROUND: usize = 2;

/// Lines of input or of differences; a person reads no further.
const SHOWN: usize = 60;

/// Things touched that are listed one by one.
const TOUCHED: usize = 20;

pub(super) fn print(ui: Ui, approval: &Approval, now: Timestamp) -> Done {
    let (subject, call) = (&approval.subject, &approval.call);
    let facts = &subject.facts;
    let tool = paint(BOLD, format!("{}@{}", facts.tool.id, facts.tool.version));
    let through = facts.chain.iter().map(|one| format!(", for {one}")).collect::<String>();
    ui.line(wrap(&format!("{tool} as {}{through}", paint(BOLD, &facts.principal)), 2))?;
    for reason in reasons(&subject.verdict) {
        row(ui, "because", &plain(&reason))?;
    }
    touches(ui, approval)?;
    if !facts.hosts.is_empty() {
        row(ui, "reaches", &plain(&facts.hosts.join(", ")))?;
    }
    if let Some(workspace) = &facts.workspace {
        row(ui, "works in", &plain(workspace))?;
    }
    let undo = match facts.is_reversible() {
        true => "what it changes can be rolled back until it completes".to_owned(),
        false => paint(WARN, "what it sends cannot be undone"),
    };
    let risk = format!("{:?}", facts.risk()).to_lowercase();
    row(ui, "risk", &format!("{risk}, mode {}; {undo}", facts.mode))?;
    row(ui, "limits", &limits(&subject.limits))?;
    row(
        ui,
        "code",
        &format!("declaration {}, {}", facts.tool.declaration.short(), files(approval)),
    )?;
    people(ui, approval)?;
    let left = span(subject.expires_at.millis_since(now));
    row(ui, "asked", &format!("{}, {left}", facts.time))?;
    input(ui, approval)?;
    if has_further_letters(approval) {
        let text = "  letters beyond ASCII are shown by their numbers, because many look like others; \
                    --json has the letters";
        ui.line(wrap(&paint(WARN, text), 4))?;
    }
    ui.line(paint(DIM, format!("execution {}, shown {}", call.execution, shown(approval))))
}

/// Whether something of what is shown had to be spelt out.
fn has_further_letters(approval: &Approval) -> bool {
    let is_plain = |text: String| text.is_ascii();
    !is_plain(approval.input.to_string())
        || !serde_json::to_string(&approval.subject).is_ok_and(is_plain)
}

fn shown(approval: &Approval) -> String {
    approval.call.approval.as_ref().map_or(String::new(), |asked| asked.subject.digest.short())
}

fn files(approval: &Approval) -> String {
    let tool = &approval.subject.facts.tool;
    let files = tool.files.map_or(String::new(), |files| format!(", files {}", files.short()));
    format!("{} at isolation {}{files}", tool.runtime.as_str(), tool.isolation)
}

fn row(ui: Ui, name: &str, text: &str) -> Done {
    ui.line(wrap(&format!("  {} {text}", paint(DIM, format!("{name:<9}"))), MARGIN))
}

/// Never cut without saying so, and what kind of things the rest is.
fn touches(ui: Ui, approval: &Approval) -> Done {
    let effects = &approval.subject.facts.effects;
    let (listed, rest) = effects.split_at(effects.len().min(TOUCHED));
    listed.iter().try_for_each(|need| row(ui, "touches", &touch(need)))?;
    if rest.is_empty() {
        return Ok(());
    }
    let text = format!(
        "and {} more ({}); see all with `countersign approval show {} --json`",
        rest.len(),
        kinds(rest),
        approval.call.execution
    );
    row(ui, "", &paint(WARN, text))
}

/// How many of each kind.
fn kinds(needs: &[Need]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for need in needs {
        *counts.entry(need.capability.as_str()).or_default() += 1;
    }
    let kind = |(capability, count): (&str, usize)| format!("{capability} {count}");
    counts.into_iter().map(kind).collect::<Vec<_>>().join(", ")
}

fn touch(need: &Need) -> String {
    let all = if need.every { " (all of it)" } else { "" };
    format!("{} {}{all}", need.capability, plain(&need.resource))
}

fn people(ui: Ui, approval: &Approval) -> Done {
    let Some(asked) = &approval.call.approval else { return Ok(()) };
    let given: Vec<_> = asked.given.iter().map(ToString::to_string).collect();
    let who = match given.is_empty() {
        true => "nobody yet".to_owned(),
        false => given.join(", "),
    };
    row(ui, "needs", &format!("{}; agreed: {who}", humans(asked.approvers)))?;
    for answer in approval.answers.iter().filter(|answer| answer.reason.is_some()) {
        let reason = plain(answer.reason.as_deref().unwrap_or_default());
        row(ui, "", &format!("{} said {}: {reason}", answer.by, answer.answer))?;
    }
    Ok(())
}

fn humans(count: u32) -> String {
    match count {
        1 => "1 human who did not ask for it".to_owned(),
        n => format!("{n} different humans who did not ask for it"),
    }
}

/// The exact input, as differences from the last one that was approved if there is one.
fn input(ui: Ui, approval: &Approval) -> Done {
    let now = pretty(&approval.input);
    let Some((execution, before)) = &approval.previous else {
        ui.line(paint(DIM, "  input"))?;
        return lines(ui, now.lines().map(|line| format!("    {line}")));
    };
    let before = pretty(before);
    if before == now {
        ui.line(wrap(&paint(DIM, format!("  input, the same as in {execution}")), 4))?;
        return lines(ui, now.lines().map(|line| format!("    {line}")));
    }
    ui.line(wrap(&paint(DIM, format!("  input, and what differs from {execution}")), 4))?;
    let all = difference(&before, &now);
    let is_near = |at: usize| {
        let around = all.iter().skip(at.saturating_sub(AROUND)).take(2 * AROUND + 1);
        around.into_iter().any(|(mark, _)| *mark != Mark::Same)
    };
    let near = all.iter().enumerate().filter(|(at, _)| is_near(*at)).map(|(_, line)| line);
    let marked = near.map(|(mark, line)| match mark {
        Mark::Gone => paint(BAD, format!("  - {line}")),
        Mark::New => paint(GOOD, format!("  + {line}")),
        Mark::Same => format!("    {line}"),
    });
    lines(ui, marked)
}

/// Never cut without saying so: whoever approves must know that there is more.
fn lines(ui: Ui, mut all: impl Iterator<Item = String>) -> Done {
    for line in all.by_ref().take(SHOWN) {
        match line.chars().count().saturating_sub(LONGEST) {
            0 => ui.line(wrap(&line, 6))?,
            more => {
                let start: String = line.chars().take(LONGEST).collect();
                ui.line(wrap(&start, 6))?;
                ui.line(paint(
                    WARN,
                    format!("      and {more} more characters; see all with --json"),
                ))?;
            }
        }
    }
    match all.count() {
        0 => Ok(()),
        more => ui.line(paint(WARN, format!("    and {more} more lines; see all with --json"))),
    }
}

/// Pretty JSON with everything odd spelt out.
fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// How long until something, as a person says it.
pub(in super::super) fn span(millis: i64) -> String {
    let minutes = millis / 60_000;
    match minutes {
        _ if millis <= 0 => "expired".to_owned(),
        0 => "expires in less than a minute".to_owned(),
        1..=119 => format!("expires in {minutes} min"),
        120..=2_879 => format!("expires in {} h", minutes / 60),
        _ => format!("expires in {} days", minutes / 1_440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_tell_them() {
        for (millis, text) in [
            (-1, "expired"),
            (0, "expired"),
            (59_999, "expires in less than a minute"),
            (60_000, "expires in 1 min"),
            (86_400_000, "expires in 24 h"),
            (10 * 86_400_000, "expires in 10 days"),
        ] {
            assert_eq!(span(millis), text);
        }
    }
}
