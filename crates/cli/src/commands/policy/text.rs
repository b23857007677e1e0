//! Verdicts, facts and rules as a person reads them.

use countersign_host::refusal::reasons;
use countersign_model::{CallFacts, Decision, Need, Question, RuleEffect, Verdict};
use countersign_policy::RuleInfo;

use crate::plain::plain;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert_lines, paint, wrap};

const MARGIN: usize = 12;

pub(super) fn row(ui: Ui, name: &str, text: &str) -> Done {
    ui.line(wrap(&format!("  {} {text}", paint(DIM, format!("{name:<9}"))), MARGIN))
}

pub(super) fn decision(decision: Decision) -> String {
    let style = match decision {
        Decision::Allow => GOOD,
        Decision::RequireApproval => WARN,
        Decision::Block => BAD,
    };
    paint(style, decision)
}

pub(super) fn verdict(ui: Ui, verdict: &Verdict) -> Done {
    let people = match verdict.approvers {
        0 => String::new(),
        1 => " of 1 human".to_owned(),
        n => format!(" of {n} humans"),
    };
    row(ui, "policy", &format!("{}{people}", decision(verdict.decision)))?;
    reasons(verdict).iter().try_for_each(|reason| row(ui, "because", &plain(reason)))?;
    row(ui, "set", &verdict.policy.to_string())
}

pub(super) fn facts(ui: Ui, facts: &CallFacts) -> Done {
    let through = facts.chain.iter().map(|one| format!(", for {one}")).collect::<String>();
    row(ui, "who", &format!("{}{through}", facts.principal))?;
    let tool = &facts.tool;
    let known = format!("{} at isolation {}", tool.runtime.as_str(), tool.isolation);
    row(
        ui,
        "tool",
        &format!("{}@{}, {known}, tier {}", tool.id, tool.version, tool.tier.as_str()),
    )?;
    if facts.effects.is_empty() {
        row(ui, "touches", "nothing")?;
    }
    facts.effects.iter().try_for_each(|need| row(ui, "touches", &touch(need)))?;
    if !facts.hosts.is_empty() {
        row(ui, "reaches", &plain(&facts.hosts.join(", ")))?;
    }
    if let Some(workspace) = &facts.workspace {
        row(ui, "works in", &plain(workspace))?;
    }
    if let Some(toolset) = &facts.toolset {
        row(ui, "toolset", &plain(toolset))?;
    }
    let undo = if facts.is_reversible() { "reversible" } else { "not reversible" };
    let risk = format!("{:?}", facts.risk()).to_lowercase();
    row(ui, "risk", &format!("{risk}, {undo}, mode {}", facts.mode))?;
    row(ui, "at", &facts.time.to_string())
}

pub(super) fn touch(need: &Need) -> String {
    let all = if need.every { " (all of it)" } else { "" };
    format!("{} {}{all}", need.capability, plain(&need.resource))
}

/// A rule on one line: what it does, to which question, and where it stands.
pub(super) fn rule_line(ui: Ui, rule: &RuleInfo) -> Done {
    let effect = match rule.effect {
        RuleEffect::Permit => paint(GOOD, "permit"),
        _ => paint(BAD, "forbid"),
    };
    let questions: Vec<_> = rule.questions.iter().map(|question| word(*question)).collect();
    let text = format!("{effect} {} {}", paint(BOLD, &rule.id), questions.join(", "));
    ui.line(wrap(&format!("{text} {}", paint(DIM, place(rule))), 2))
}

pub(super) fn rule_text(ui: Ui, rule: &RuleInfo) -> Done {
    let safe = inert_lines(&rule.text);
    safe.lines().try_for_each(|line| ui.line(wrap(&format!("    {line}"), 6)))
}

pub(super) fn place(rule: &RuleInfo) -> String {
    match rule.line {
        Some(line) => format!("{}:{line}", rule.file),
        None => rule.file.clone(),
    }
}

fn word(question: Question) -> &'static str {
    match question {
        Question::Invoke => "invoke",
        Question::InvokeUnattended => "invoke_unattended",
    }
}
