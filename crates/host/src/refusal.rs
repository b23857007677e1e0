//! No, in words: who said it, why, and what can be done about it.

use countersign_model::{
    Decision, Failure, Question, Reason, RuleEffect, SandboxMode, ToolId, Verdict,
};
use serde_json::json;

/// Why policy does not let a call run.
pub(crate) fn blocked(verdict: &Verdict) -> Failure {
    let code = match verdict.reasons.iter().any(|reason| reason.effect == RuleEffect::Error) {
        true => "POLICY_ERROR",
        false => "POLICY_BLOCKED",
    };
    let message = verdict.reasons.first().map_or_else(
        || "policy does not allow the call".to_owned(),
        |first| sentence(first, verdict.reasons.len() - 1),
    );
    Failure::authorization(code, message)
        .hint("see why with `countersign policy explain EXECUTION`, or ask whoever keeps the rules")
        .details(json!({ "policy": verdict.policy, "reasons": verdict.reasons }))
}

fn sentence(reason: &Reason, more: usize) -> String {
    let about = reason.about.as_deref().map(|about| format!(" for `{about}`{}", and_more(reason)));
    let about = about.unwrap_or_default();
    let rule = reason.rule.as_deref().unwrap_or("?");
    let text = reason.text.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
    let what = match (reason.effect, reason.question) {
        (RuleEffect::Missing, Question::Invoke) => format!("no rule allows the call{about}"),
        (RuleEffect::Missing, Question::InvokeUnattended) => {
            format!("no rule lets the call run without a human{about}")
        }
        (RuleEffect::Error, _) => format!("the rule `{rule}` cannot be evaluated{about}{text}"),
        (_, Question::Invoke) => format!("the rule `{rule}` forbids the call{about}{text}"),
        (_, Question::InvokeUnattended) => {
            format!("the rule `{rule}` asks for a human{about}{text}")
        }
    };
    match more {
        0 => what,
        more => format!("{what}, and {more} more"),
    }
}

/// A rule names only so many of the things that it is about.
fn and_more(reason: &Reason) -> String {
    match reason.more {
        0 => String::new(),
        1 => " and one thing more".to_owned(),
        more => format!(" and {more} things more"),
    }
}

/// Every reason of a verdict as one line each.
pub fn reasons(verdict: &Verdict) -> Vec<String> {
    match verdict.decision {
        Decision::Allow => verdict
            .rules()
            .into_iter()
            .map(|rule| format!("the rule `{rule}` allows the call"))
            .collect(),
        _ => verdict.reasons.iter().map(|reason| sentence(reason, 0)).collect(),
    }
}

pub(crate) fn forbidden_by_mode(mode: SandboxMode, what: &str) -> Failure {
    let message = format!("the sandbox mode `{mode}` does not allow `{what}`");
    Failure::authorization("MODE_FORBIDS", message)
        .hint("call with a wider --mode, if the task really needs it")
}

pub(crate) fn outside_toolset(toolset: &str, tool: &ToolId) -> Failure {
    let message = format!("`{tool}` is not in the toolset `{toolset}`");
    Failure::authorization("TOOLSET_EXCLUDES", message)
        .hint("call without --toolset, or have the tool added to it in countersign.toml")
}
