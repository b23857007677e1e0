//! What holds for every policy set: a forbid never widens, order never matters, an erroring rule
//! never allows, and the table decides as its Cedar does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{facts, source};
use countersign_model::{CallFacts, Decision, RuleEffect, Scope};
use countersign_policy::{Policies, Rule, Source, to_cedar};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

fn pick(texts: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    select(texts)
}

fn scope() -> impl Strategy<Value = String> {
    let principal = pick(&[
        "principal",
        "principal is Agent",
        "principal == Agent::\"builder\"",
        "principal is Human",
    ]);
    let action = pick(&[
        "action",
        "action == Action::\"invoke\"",
        "action == Action::\"invoke_unattended\"",
        "action in [Action::\"invoke\", Action::\"invoke_unattended\"]",
    ]);
    let resource = pick(&[
        "resource",
        "resource is Tool",
        "resource == Tool::\"file.write\"",
        "resource in Family::\"file\"",
        "resource in Toolset::\"review\"",
        "resource == Tool::\"git.push\"",
    ]);
    (principal, action, resource).prop_map(|(p, a, r)| format!("({p}, {a}, {r})"))
}

fn condition() -> impl Strategy<Value = &'static str> {
    pick(&[
        "",
        "when { context.riskLevel >= 2 }",
        "when { context has relative && context.relative like \"src/*\" }",
        "when { context.every || (context has path && context.path like \"*/.env\") }",
        "when { context has host && context.host == \"api.org\" }",
        "unless { context.mode == \"read_only\" }",
        "when { context.flag.hasTag(\"force\") && context.flag.getTag(\"force\") }",
        "when { context.number.hasTag(\"n\") && context.number.getTag(\"n\") + 1 > 10 }",
        "when { context.asked.contains(\"human:ada\") }",
        "when { context.time.hour < 12 }",
        "unless { context.complete }",
    ])
}

const OVERFLOW: &str = "when { context.riskLevel + 9223372036854775807 + 1 > 0 }";

/// A rule that decides nothing.
const LOOKS_AT_ALL: &str = r#"permit (principal, action, resource) when {
    context.riskLevel > 9 &&
    context.asked.contains("x") && context.chain.contains("x") && context.hosts.contains("x") &&
    context.mode == "x" && context.origin == "x" && context.reversible && context.risk == "x" &&
    context.time.hour > 24 && context.input == "x" && context.complete && context.every &&
    context.flag.hasTag("x") && context.list.hasTag("x") && context.number.hasTag("x") &&
    context.text.hasTag("x") && context has toolset && context has workspace &&
    context has capability && context has path && context has pathPattern &&
    context has relative && context has relativePattern && context has host &&
    context has hostPattern && context has key && context has keyPattern &&
    context has target && context has targetPattern
};"#;

fn policy(effect: impl Strategy<Value = &'static str>) -> impl Strategy<Value = String> {
    let notes = pick(&[
        "",
        "@approvers(\"3\")",
        "@expires_after(\"1h\")",
        "@until(\"2026-06-01T00:00:00Z\")",
    ]);
    (notes, effect, scope(), condition()).prop_map(|(notes, effect, scope, condition)| {
        format!("{notes} {effect} {scope} {condition};\n")
    })
}

fn any_policy() -> impl Strategy<Value = String> {
    policy(pick(&["permit", "permit", "permit", "forbid"]))
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    let file = prop::collection::vec(any_policy(), 0..4).prop_map(|policies| policies.concat());
    prop::collection::vec(file, 1..4)
}

fn call() -> impl Strategy<Value = (CallFacts, Value)> {
    let effects = subsequence(
        vec![
            "filesystem.write /srv/app/src/a",
            "filesystem.read /srv/app/.env",
            "filesystem.read /etc/x",
            "every filesystem.write /srv/app/**",
            "every filesystem.read /srv/app/src/**",
            "network.https api.org",
            "every network.https *.org.example",
            "state.write k",
        ],
        0..4,
    );
    let principal = pick(&["agent:builder", "agent:other", "human:ada"]);
    let tool = pick(&["file.write", "file.read", "git.push"]);
    let mode = pick(&["read_only", "workspace_write", "danger_full_access"]);
    let toolset = pick(&["review", ""]);
    let input = select(vec![
        json!({}),
        json!({"force": true, "n": 9}),
        json!({"n": 9_223_372_036_854_775_807_i64}),
        json!({"n": 10, "x": 0.5}),
    ]);
    let caps = select(vec![
        json!(["filesystem.read"]),
        json!(["filesystem.read", "filesystem.write"]),
        json!(["network.https"]),
    ]);
    (effects, principal, tool, mode, toolset, input, caps).prop_map(
        |(effects, principal, tool, mode, toolset, input, caps)| {
            let mut changes = json!({
                "effects": effects, "principal": principal, "mode": mode, "chain": ["human:ada"],
                "tool": {"id": tool, "capabilities": caps},
            });
            if !toolset.is_empty() {
                changes["toolset"] = json!(toolset);
            }
            (facts(&changes), input)
        },
    )
}

fn compile(texts: &[String]) -> Policies {
    let name = |at: usize| format!("f{at}.cedar");
    let sources: Vec<Source> =
        texts.iter().enumerate().map(|(at, text)| source(&name(at), text)).collect();
    Policies::compile(&sources, &[]).unwrap_or_else(|found| panic!("{found:#?}"))
}

fn row() -> impl Strategy<Value = Value> {
    let when = (
        subsequence(vec!["src/**", "*.md", "**/.env", "**", "/etc/**", "**/*.rs"], 0..3),
        subsequence(vec!["api.org", "*.org.example", "db.org:22"], 0..2),
        subsequence(vec!["read_only", "workspace_write", "danger_full_access"], 0..2),
        subsequence(vec!["filesystem.read", "filesystem.write", "network.https"], 0..2),
        prop::option::of(pick(&["low", "medium", "high"])),
        prop::option::of(Just("review")),
    );
    let tool = pick(&["*", "file.*", "file.write", "git.push"]);
    let principal = pick(&["*", "agent:*", "agent:builder", "human:ada"]);
    let outcome = pick(&["allow", "allow", "ask", "block"]);
    (tool, principal, outcome, when).prop_map(|(tool, principal, outcome, when)| {
        let (paths, hosts, modes, capabilities, max_risk, toolset) = when;
        json!({
            "tool": tool, "principal": principal, "outcome": outcome,
            "when": {
                "paths": paths, "hosts": hosts, "modes": modes, "capabilities": capabilities,
                "max_risk": max_risk, "toolset": toolset,
            },
        })
    })
}

fn table() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(row(), 0..4).prop_map(|rows| {
        let named = rows.into_iter().enumerate().map(|(at, mut row)| {
            row["name"] = json!(format!("r{at}"));
            serde_json::from_value(row).unwrap()
        });
        named.collect()
    })
}

/// Few letters, so that globs and paths meet often.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(pick(&["a", "b", "ab", "a.b", ".b", "ba"]), 1..5)
        .prop_map(|parts| parts.join("/"))
}

fn glob() -> impl Strategy<Value = String> {
    let part = pick(&["a", "b", "ab", "**", "**", "*.b", "a*", "*b", "*", "a?"]);
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

fn glob_row(glob: &str, outcome: &str) -> Option<Policies> {
    let rows = json!([
        {"name": "row", "tool": "*", "outcome": outcome, "when": {"paths": [glob]}},
        {"name": "all", "tool": if outcome == "block" { "*" } else { "no.tool" }, "outcome": "allow"},
    ]);
    Policies::compile(&[], &serde_json::from_value::<Vec<Rule>>(rows).unwrap()).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn adding_a_forbid_never_widens(
        texts in texts(), forbid in policy(Just("forbid")), (facts, input) in call(),
    ) {
        let before = compile(&texts).decide(&facts, &input);
        let mut more = texts;
        more.push(forbid);
        let after = compile(&more).decide(&facts, &input);
        prop_assert!(after.decision >= before.decision, "{before:#?} {after:#?}");
    }

    #[test]
    fn order_of_files_never_matters(texts in texts(), (facts, input) in call(), turn in 0usize..3) {
        let mut sources: Vec<Source> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| source(&format!("f{at}.cedar"), text))
            .collect();
        let one = Policies::compile(&sources, &[]).unwrap();
        let turns = turn % sources.len();
        sources.rotate_left(turns);
        sources.reverse();
        let other = Policies::compile(&sources, &[]).unwrap();
        prop_assert_eq!(one.digest(), other.digest());
        prop_assert_eq!(one.decide(&facts, &input), other.decide(&facts, &input));
    }

    #[test]
    fn an_erroring_rule_never_allows(
        texts in texts(), effect in pick(&["permit", "forbid"]), scope in scope(),
        (facts, input) in call(),
    ) {
        let before = compile(&texts).decide(&facts, &input);
        let mut more = texts;
        more.push(format!("@id(\"broken\") {effect} {scope} {OVERFLOW};"));
        let after = compile(&more).decide(&facts, &input);
        prop_assert!(after.decision >= before.decision, "{before:#?} {after:#?}");
        if after.reasons.iter().any(|reason| reason.effect == RuleEffect::Error) {
            prop_assert_eq!(after.decision, Decision::Block);
        }
    }

    #[test]
    fn the_table_decides_as_its_cedar_does(rules in table(), (facts, input) in call()) {
        let by_rows = Policies::compile(&[], &rules).unwrap_or_else(|e| panic!("{e:#?}"));
        let text = to_cedar(&rules).unwrap();
        let by_text = Policies::compile(&[source("rows.cedar", &text)], &[]).unwrap();
        let (one, other) = (by_rows.decide(&facts, &input), by_text.decide(&facts, &input));
        prop_assert_eq!(one.decision, other.decision);
        prop_assert_eq!(one.approvers, other.approvers);
        let plain = |ids: Vec<String>| -> Vec<String> {
            ids.iter().map(|id| id.split('/').next_back().unwrap().to_owned()).collect()
        };
        prop_assert_eq!(plain(one.rules()), plain(other.rules()));
    }

    #[test]
    fn a_decision_is_the_same_when_asked_again(texts in texts(), (facts, input) in call()) {
        let policies = compile(&texts);
        let first = policies.decide(&facts, &input);
        prop_assert_eq!(&first, &policies.decide(&facts, &input));
        prop_assert_eq!(&first, &compile(&texts).decide(&facts, &input));
    }

    /// A set answers as if it had never been asked before, whatever it was asked before.
    #[test]
    fn a_decision_does_not_depend_on_those_before(
        texts in texts(),
        calls in prop::collection::vec((call(), 0_i64..2), 1..6),
        order in prop::collection::vec(0_usize..6, 1..24),
    ) {
        let policies = compile(&texts);
        for at in order {
            let ((facts, input), half_days) = &calls[at % calls.len()];
            let time = facts.time.plus_millis(half_days * 12 * 3_600_000);
            let facts = CallFacts { time, ..facts.clone() };
            let fresh = compile(&texts).decide(&facts, input);
            prop_assert_eq!(policies.decide(&facts, input), fresh);
        }
    }

    /// Facts that no rule looks at are left out, and that changes nothing.
    #[test]
    fn looking_at_more_changes_nothing(texts in texts(), (facts, input) in call()) {
        let mut more = texts.clone();
        more.push(LOOKS_AT_ALL.to_owned());
        let mut found = compile(&more).decide(&facts, &input);
        let expected = compile(&texts).decide(&facts, &input);
        found.policy = expected.policy;
        prop_assert_eq!(found, expected);
    }

    /// Danger never runs alone, whatever the rules.
    #[test]
    fn danger_never_runs_alone(texts in texts(), (mut facts, input) in call()) {
        facts.mode = countersign_model::SandboxMode::DangerFullAccess;
        prop_assert_ne!(compile(&texts).decide(&facts, &input).decision, Decision::Allow);
    }

    /// A glob in a row means what it means in a grant, or is refused.
    #[test]
    fn a_glob_is_exact(glob in glob(), path in path()) {
        let (Some(allow), Some(block)) = (glob_row(&glob, "allow"), glob_row(&glob, "block")) else {
            return Ok(());
        };
        let call = facts(&json!({"effects": [format!("filesystem.read /srv/app/{path}")]}));
        let inside = Scope::parse([&glob]).unwrap().contains(&path);
        let expect = |allows: bool| if allows { Decision::Allow } else { Decision::Block };
        prop_assert_eq!(allow.decide(&call, &json!({})).decision, expect(inside));
        prop_assert_eq!(block.decide(&call, &json!({})).decision, expect(!inside));
    }

    /// A row permits a tree only where a grant of the same glob would cover it.
    #[test]
    fn a_tree_is_never_widened(wide in glob(), tree in glob()) {
        let (Some(allow), Some(block)) = (glob_row(&wide, "allow"), glob_row(&wide, "block")) else {
            return Ok(());
        };
        prop_assume!(tree.contains(['*', '?']));
        let call = facts(&json!({"effects": [format!("every filesystem.read /srv/app/{tree}")]}));
        if allow.decide(&call, &json!({})).decision == Decision::Allow {
            let covers = Scope::parse([&wide]).unwrap().covers(&Scope::parse([&tree]).unwrap());
            prop_assert!(covers, "{wide} {tree}");
        }
        prop_assert_eq!(block.decide(&call, &json!({})).decision, Decision::Block);
    }
}
