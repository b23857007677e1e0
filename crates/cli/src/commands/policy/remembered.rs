use clap::Args;
use countersign_host::Host;
use countersign_host::policies::REMEMBERED;
use countersign_model::{Failure, Principal, Timestamp};
use countersign_policy::RuleInfo;
use serde_json::{Value, json};

use super::{open, text};
use crate::Context;
use crate::commands::acting;
use crate::exit::Exit;
use crate::plain::plain;
use crate::ui::{BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// List answers that people had remembered, or take one back
#[derive(Debug, Args)]
pub(crate) struct RememberedArgs {
    /// Forget this answer: people are asked again
    #[arg(long, value_name = "NAME")]
    revoke: Option<String>,

    /// Who takes it back: a human [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS", requires = "revoke")]
    by: Option<Principal>,
}

pub(super) fn run(context: &Context, args: &RememberedArgs) -> Done<Exit> {
    let host = open(context)?;
    match &args.revoke {
        Some(name) => revoke(context.ui, &host, name, args.by.clone())?,
        None => list(context.ui, &host)?,
    }
    Ok(Exit::Done)
}

fn revoke(ui: Ui, host: &Host, name: &str, by: Option<Principal>) -> Done {
    let by = acting(by)?;
    if !by.is_human() {
        let message = format!("`{by}` is not a human");
        return Err(Failure::authorization("AUTHORITY_MISSING", message)
            .hint("only humans take back what humans said")
            .into());
    }
    host.forget(name)?;
    match ui.json {
        true => ui.json(&json!({"revoked": name, "by": by})),
        false => ui.line(wrap(&format!("{} people are asked again", paint(GOOD, "forgotten:")), 2)),
    }
}

fn list(ui: Ui, host: &Host) -> Done {
    let (rules, now) = (host.remembered()?, host.clock().now());
    if ui.json {
        return ui.json(&rules.iter().map(|rule| to_json(rule, now)).collect::<Vec<_>>());
    }
    if rules.is_empty() {
        return ui.line("nothing is remembered");
    }
    rules.iter().try_for_each(|rule| print(ui, rule, now))
}

/// What the rule is revoked by: its file without what all of them have.
fn name(rule: &RuleInfo) -> &str {
    let name = rule.file.strip_prefix(REMEMBERED).unwrap_or(&rule.file);
    name.trim_start_matches('.').trim_end_matches(".cedar")
}

fn note<'r>(rule: &'r RuleInfo, name: &str) -> Option<&'r str> {
    rule.annotations.get(name).map(String::as_str)
}

fn is_expired(rule: &RuleInfo, now: Timestamp) -> bool {
    let until = note(rule, "until").and_then(|until| until.parse::<Timestamp>().ok());
    until.is_some_and(|until| until <= now)
}

fn to_json(rule: &RuleInfo, now: Timestamp) -> Value {
    json!({
        "name": name(rule),
        "rule": rule.id,
        "by": note(rule, "by"),
        "execution": note(rule, "remembered"),
        "until": note(rule, "until"),
        "expired": is_expired(rule, now),
        "example": note(rule, "example"),
        "nearMiss": note(rule, "near_miss"),
        "text": rule.text,
    })
}

fn print(ui: Ui, rule: &RuleInfo, now: Timestamp) -> Done {
    let until = match (note(rule, "until"), is_expired(rule, now)) {
        (Some(until), true) => paint(WARN, format!("expired {}", inert(until))),
        (Some(until), false) => format!("until {}", inert(until)),
        (None, _) => paint(WARN, "without end"),
    };
    let by = inert(note(rule, "by").unwrap_or("nobody known"));
    ui.line(wrap(&format!("{} by {by}, {until}", paint(BOLD, inert(name(rule)))), 2))?;
    for (label, key) in [("allows", "example"), ("but not", "near_miss"), ("call", "remembered")] {
        if let Some(words) = note(rule, key) {
            text::row(ui, label, &plain(words))?;
        }
    }
    ui.line(paint(
        DIM,
        format!("  take back: countersign policy remembered --revoke {}", name(rule)),
    ))
}
