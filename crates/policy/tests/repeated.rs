//! A call that was decided before is decided anew wherever its moment or its input counts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{compile, facts};
use countersign_model::{CallFacts, Decision};
use countersign_policy::Policies;
use serde_json::{Value, json};

const ALL: &str = "permit (principal, action, resource);\n";

fn policies(rule: &str) -> Policies {
    compile(&[("a.cedar", &format!("{ALL}{rule}"))], json!([])).unwrap()
}

fn at(moment: &str) -> CallFacts {
    CallFacts { time: moment.parse().unwrap(), ..facts(&json!({})) }
}

/// Asks one set twice in a row, both ways round.
fn decisions(rule: &str, one: (&CallFacts, &Value), other: (&CallFacts, &Value)) -> [Decision; 4] {
    let (there, back) = (policies(rule), policies(rule));
    let ask = |set: &Policies, (facts, input): (&CallFacts, &Value)| set.decide(facts, input);
    [ask(&there, one), ask(&there, other), ask(&back, other), ask(&back, one)]
        .map(|verdict| verdict.decision)
}

const FIRST_MAY: [Decision; 4] =
    [Decision::Allow, Decision::Block, Decision::Block, Decision::Allow];

#[test]
fn the_hour_counts() {
    let rule = "forbid (principal, action, resource) when { context.time.hour < 6 };";
    let (day, night) = (at("2026-02-09T12:00:00Z"), at("2026-02-09T03:00:00Z"));
    let input = json!({});
    assert_eq!(decisions(rule, (&day, &input), (&night, &input)), FIRST_MAY);
}

#[test]
fn the_end_of_a_rule_counts() {
    let rule = "@until(\"2026-02-09T12:00:00Z\") forbid (principal, action, resource);";
    let (late, early) = (at("2026-02-09T12:00:00Z"), at("2026-02-09T11:59:59Z"));
    let input = json!({});
    assert_eq!(decisions(rule, (&late, &input), (&early, &input)), FIRST_MAY);
}

#[test]
fn every_part_of_the_input_counts() {
    let call = at("2026-02-09T12:00:00Z");
    let digest = countersign_model::Digest::of_json(&json!({"a": true})).unwrap();
    for (condition, other) in [
        ("context.flag.hasTag(\"a\")".to_owned(), json!({"a": true})),
        ("context.number.hasTag(\"a\")".to_owned(), json!({"a": 1})),
        ("context.text.hasTag(\"a\")".to_owned(), json!({"a": "b"})),
        ("context.list.hasTag(\"a\")".to_owned(), json!({"a": ["b"]})),
        ("!context.complete".to_owned(), json!({"a": 0.5})),
        (format!("context.input == \"{digest}\""), json!({"a": true})),
    ] {
        let rule = format!("forbid (principal, action, resource) when {{ {condition} }};");
        let found = decisions(&rule, (&call, &json!({})), (&call, &other));
        assert_eq!(found, FIRST_MAY, "{condition}");
    }
}

#[test]
fn what_a_call_touches_counts() {
    let rule = "forbid (principal, action, resource)
        when { context has path && context.path == \"/srv/app/b\" };";
    let touching = |path: &str| facts(&json!({"effects": [format!("filesystem.read {path}")]}));
    let (one, other) = (touching("/srv/app/a"), touching("/srv/app/b"));
    let input = json!({});
    assert_eq!(decisions(rule, (&one, &input), (&other, &input)), FIRST_MAY);
}
