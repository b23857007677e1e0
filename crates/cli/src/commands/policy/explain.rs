use clap::Args;
use countersign_host::Home;
use countersign_host::explain::{Explanation, Judged};
use countersign_model::Consent;
use serde_json::{Value, json};

use super::text;
use crate::Context;
use crate::commands::execution::find;
use crate::exit::Exit;
use crate::plain::plain;
use crate::ui::{BOLD, DIM, Done, Ui, inert, paint, state_style, wrap};

/// Say why a past call was allowed, asked about or refused
///
/// Everything comes from the journal: the rules as they read then, and the facts that they saw.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The execution's id, or `last`
    execution: String,
}

pub(super) fn run(context: &Context, args: &ExplainArgs) -> Done<Exit> {
    let home = Home::open(&context.home)?;
    let call = find(&home, &args.execution)?;
    let told = home.explain(call)?;
    match context.ui.json {
        true => context.ui.json(&to_json(&told))?,
        false => print(context.ui, &told)?,
    }
    Ok(Exit::Done)
}

fn to_json(told: &Explanation) -> Value {
    json!({
        "executionId": told.call.execution,
        "state": told.call.state,
        "error": told.call.error,
        "verdict": told.judged.as_ref().map(|judged| &judged.verdict),
        "facts": told.judged.as_ref().map(|judged| &judged.facts),
        "risk": told.judged.as_ref().map(|judged| judged.facts.risk()),
        "rules": told.rules,
        "grants": told.grants,
        "asked": told.asked.map(|(at, until)| json!({"at": at, "expiresAt": until})),
        "answers": told.answers,
    })
}

fn print(ui: Ui, told: &Explanation) -> Done {
    let call = &told.call;
    let tool = paint(BOLD, format!("{}@{}", call.tool, call.version));
    let state = paint(state_style(call.state), call.state);
    ui.line(wrap(&format!("{tool} as {}: {state}", call.principal), 2))?;
    if let Some(error) = &call.error {
        let code = paint(DIM, format!("[{}]", error.code));
        text::row(ui, "ended", &format!("{} {code}", inert(&error.message)))?;
    }
    match &told.judged {
        Some(judged) => decided(ui, told, judged)?,
        None => text::row(ui, "policy", "was not asked: the call did not get that far")?,
    }
    for grant in &told.grants {
        text::row(ui, "grant", &grant.to_string())?;
    }
    people(ui, told)?;
    ui.line(wrap(&paint(DIM, format!("execution {}, {}", call.execution, call.declared_at)), 0))
}

fn decided(ui: Ui, told: &Explanation, judged: &Judged) -> Done {
    text::verdict(ui, &judged.verdict)?;
    match &told.rules {
        Some(rules) => {
            for rule in rules {
                text::row(ui, "rule", &format!("{} in {}", rule.id, text::place(rule)))?;
                text::rule_text(ui, rule)?;
            }
        }
        None => text::row(ui, "rules", "the text of that policy set is no longer known")?,
    }
    text::facts(ui, &judged.facts)
}

fn people(ui: Ui, told: &Explanation) -> Done {
    if let Some((at, until)) = told.asked {
        text::row(ui, "asked", &format!("people, at {at}, until {until}"))?;
    }
    told.answers.iter().try_for_each(|consent| text::row(ui, "answer", &answer(consent)))
}

fn answer(consent: &Consent) -> String {
    let reason = consent.reason.as_deref().map(|it| format!(": {}", plain(it))).unwrap_or_default();
    format!("{} said {} at {}{reason}", consent.by, consent.answer, consent.at)
}
