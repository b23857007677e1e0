//! What is refused, where it is reported, and what is only warned of.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{codes, compile, facts, rules, source};
use countersign_model::{Decision, Question, RuleEffect};
use countersign_policy::{DEFAULT_POLICY, Known, Policies, Problem, Severity, to_cedar};
use serde_json::{Value, json};

const ALL: &str = "permit (principal, action, resource)";

fn refused(text: &str) -> Vec<Problem> {
    let problems = compile(&[("a.cedar", text)], json!([])).unwrap_err();
    assert!(problems.iter().all(|problem| problem.severity == Severity::Error));
    problems
}

fn refused_rows(rows: Value) -> Vec<Problem> {
    to_cedar(&rules(rows)).unwrap_err()
}

#[test]
fn a_policy_set_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Policies>();
}

#[test]
fn problems_have_a_place_and_a_code() {
    for (text, code, line) in [
        ("\nallow (principal, action, resource);", "POLICY_SYNTAX", 2),
        ("permit (principal, action, resource)", "POLICY_SYNTAX", 1),
        ("permit (principal == ?principal, action, resource);", "POLICY_TEMPLATE", 0),
        ("\n\n@id(\"a b\")\npermit (principal, action, resource);", "POLICY_ID_INVALID", 3),
        (
            "@approvers(\"none\") permit (principal, action, resource);",
            "POLICY_APPROVERS_INVALID",
            1,
        ),
        ("permit (principal, action, resource)\nwhen { context.nothing };", "POLICY_INVALID", 2),
        (
            "permit (principal, action, resource)\nwhen {\ncontext.path == \"x\" };",
            "POLICY_INVALID",
            3,
        ),
        ("permit (principal is Robot, action, resource);", "POLICY_INVALID", 1),
        ("permit (principal, action == Action::\"run\", resource);", "POLICY_INVALID", 1),
        ("permit (principal, action, resource) when { context.mode == 1 };", "POLICY_INVALID", 1),
        (
            "permit (principal, action, resource) when { context.text.getTag(\"x\") == \"y\" };",
            "POLICY_INVALID",
            1,
        ),
    ] {
        let found = &refused(text)[0];
        assert_eq!(found.code, code, "{text}: {found:?}");
        assert_eq!(found.file, "a.cedar");
        assert_eq!(found.line.unwrap_or(0), line, "{text}: {found:?}");
    }
}

#[test]
fn every_problem_is_reported_at_once() {
    let bad = format!("@until(\"x\") {ALL};\n@id(\"\") {ALL};\n@expires_after(\"x\") {ALL};");
    assert_eq!(refused(&bad).len(), 3);
    let rows = json!([{"name": "x", "tool": "no", "outcome": "allow"}]);
    let files = [("a.cedar", "oops"), ("b.cedar", "permit"), ("rules.cedar", ""), ("b.cedar", "")];
    let found = compile(&files, rows).unwrap_err();
    for code in ["POLICY_SYNTAX", "POLICY_FILE_NAME", "POLICY_FILE_TWICE", "RULE_TOOL_INVALID"] {
        assert!(codes(&found).contains(&code), "{code}: {found:#?}");
    }
    assert!(found.is_sorted());
}

#[test]
fn an_id_names_one_rule() {
    let text = format!("@id(\"x\") {ALL};\n@id(\"x\") {ALL};");
    let found = refused(&text);
    assert_eq!(codes(&found), ["POLICY_ID_TWICE"]);
    assert_eq!(found[0].rule.as_deref(), Some("a/x"));
    assert_eq!(codes(&refused(&format!("{ALL}; {ALL};"))), ["POLICY_ID_TWICE"]);
    let same = format!("@id(\"x\") {ALL};");
    assert!(compile(&[("a.cedar", &same), ("b.cedar", &same)], json!([])).is_ok());
    let rows = json!([
        {"name": "x", "tool": "*", "outcome": "ask"},
        {"name": "x.permit", "tool": "*", "outcome": "allow"},
    ]);
    assert_eq!(codes(&compile(&[], rows).unwrap_err()), ["POLICY_ID_TWICE"]);
}

#[test]
fn rows_say_what_is_wrong_with_them() {
    for (row, code) in [
        (json!({"name": "a b", "tool": "*", "outcome": "allow"}), "RULE_NAME_INVALID"),
        (json!({"name": "x", "tool": "file.w*", "outcome": "allow"}), "RULE_TOOL_INVALID"),
        (json!({"name": "x", "tool": "file", "outcome": "allow"}), "RULE_TOOL_INVALID"),
        (json!({"name": "x", "tool": "*.write", "outcome": "allow"}), "RULE_TOOL_INVALID"),
        (
            json!({"name": "x", "tool": "*", "principal": "bob", "outcome": "allow"}),
            "RULE_PRINCIPAL_INVALID",
        ),
        (
            json!({"name": "x", "tool": "*", "principal": "robot:*", "outcome": "allow"}),
            "RULE_PRINCIPAL_INVALID",
        ),
        (
            json!({"name": "x", "tool": "*", "outcome": "allow", "approvers": 2}),
            "RULE_DOES_NOT_ASK",
        ),
        (
            json!({"name": "x", "tool": "*", "outcome": "ask", "approvers": 0}),
            "RULE_APPROVERS_INVALID",
        ),
        (
            json!({"name": "x", "tool": "*", "outcome": "ask", "expires": "soon"}),
            "POLICY_DURATION_INVALID",
        ),
        (
            json!({"name": "x", "tool": "*", "outcome": "allow", "when": {"paths": ["a/*/b"]}}),
            "GLOB_INEXACT",
        ),
        (
            json!({"name": "x", "tool": "*", "outcome": "allow", "when": {"hosts": ["1.2.3.4"]}}),
            "POLICY_HOST_INVALID",
        ),
    ] {
        let found = refused_rows(json!([row]));
        assert_eq!(codes(&found), [code], "{row}");
        assert_eq!(found[0].file, "countersign.toml");
        assert!(found[0].rule.as_deref().unwrap().starts_with("rules/"));
        assert!(found[0].hint.is_some() || code == "RULE_APPROVERS_INVALID", "{row}");
    }
    for bad in [
        json!([{"name": "x", "tool": "*", "outcome": "maybe"}]),
        json!([{"name": "x", "tool": "*", "outcome": "allow", "whne": {}}]),
        json!([{"name": "x", "tool": "*", "outcome": "allow", "when": {"path": []}}]),
    ] {
        assert!(serde_json::from_value::<Vec<countersign_policy::Rule>>(bad).is_err());
    }
}

#[test]
fn a_row_is_printed_as_readable_cedar() {
    let text = to_cedar(&rules(json!([{
        "name": "src", "tool": "file.*", "principal": "agent:*", "outcome": "ask",
        "reason": "say \"why\"", "approvers": 2, "expires": "4h",
        "when": {"paths": ["src/**"], "modes": ["repo_write"]},
    }])))
    .unwrap();
    assert_eq!(
        text,
        r#"@id("src.permit")
@reason("say \"why\"")
permit (principal is Agent, action == Action::"invoke", resource in Family::"file")
when {
    ["repo_write"].contains(context.mode) &&
    (!(context has capability) ||
     (context has relative && (context.relative == "src" || context.relative like "src/*")) ||
     (context has relativePattern && context.relativePattern like "src/*"))
};

@id("src")
@reason("say \"why\"")
@approvers("2")
@expires_after("4h")
forbid (principal is Agent, action == Action::"invoke_unattended", resource in Family::"file")
when {
    ["repo_write"].contains(context.mode) &&
    (context has pathPattern ||
     (context has relative && (context.relative == "src" || context.relative like "src/*")))
};
"#
    );
}

#[test]
fn rules_are_listed_with_their_place_and_text() {
    let file =
        "\n@id(\"x\") @reason(\"r\")\nforbid (principal, action == Action::\"invoke\", resource);";
    let rows = json!([{"name": "y", "tool": "*", "outcome": "allow"}]);
    let policies = compile(&[("a.cedar", file)], rows).unwrap();
    let listed: Vec<_> = policies.rules().collect();
    assert_eq!(listed.len(), 2);
    assert_eq!((listed[0].id.as_str(), listed[0].line), ("a/x", Some(2)));
    assert_eq!(listed[0].effect, RuleEffect::Forbid);
    assert_eq!(listed[0].questions, [Question::Invoke]);
    assert_eq!(listed[0].annotations["reason"], "r");
    assert!(listed[0].text.starts_with("@id(\"x\")") && listed[0].text.ends_with(';'));
    assert_eq!((listed[1].id.as_str(), listed[1].line), ("rules/y", None));
    assert_eq!(listed[1].questions, [Question::Invoke, Question::InvokeUnattended]);
    assert_eq!(policies.sources(), [source("a.cedar", file)]);
}

/// Pins the contract: if this literal changes, digests in old verdicts name nothing.
#[test]
fn the_digest_contract_is_pinned() {
    let rows = json!([{"name": "y", "tool": "*", "outcome": "allow"}]);
    let policies = compile(&[("a.cedar", &format!("{ALL};"))], rows).unwrap();
    assert_eq!(policies.digest().to_string(), PINNED);
    assert_ne!(compile(&[], json!([])).unwrap().digest(), policies.digest());
}

const PINNED: &str = "4b8fab77d39e9e57c9d1989b1c646314cccff10e88733c39cb695086fbe0b5f5";

fn known() -> Known {
    Known {
        tools: vec!["file.read".parse().unwrap(), "file.write".parse().unwrap()],
        toolsets: vec!["review".to_owned()],
        principals: vec!["agent:builder".parse().unwrap()],
    }
}

fn warned(text: &str) -> Vec<&'static str> {
    let policies = compile(&[("a.cedar", text)], json!([])).unwrap();
    let found = policies.lint(&known());
    assert!(found.iter().all(|problem| problem.severity == Severity::Warning));
    assert!(found.iter().all(|problem| problem.rule.is_some() && problem.line.is_some()));
    codes(&found)
}

#[test]
fn rules_that_can_never_match_are_reported() {
    let scoped =
        |principal: &str, resource: &str| format!("permit ({principal}, action, {resource});");
    let when = |condition: &str| format!("{ALL} when {{ {condition} }};");
    for (text, expected) in [
        (scoped("principal", "resource"), &[][..]),
        (scoped("principal == Agent::\"builder\"", "resource == Tool::\"file.read\""), &[]),
        (scoped("principal", "resource in Family::\"file\""), &[]),
        (scoped("principal", "resource in Toolset::\"review\""), &[]),
        (scoped("principal", "resource == Tool::\"file.raed\""), &["POLICY_UNKNOWN_NAME"]),
        (scoped("principal", "resource in Family::\"fil\""), &["POLICY_UNKNOWN_NAME"]),
        (scoped("principal", "resource in Toolset::\"reviews\""), &["POLICY_UNKNOWN_NAME"]),
        (scoped("principal == Agent::\"other\"", "resource"), &["POLICY_UNKNOWN_NAME"]),
        (scoped("principal == Human::\"a b\"", "resource"), &["POLICY_UNKNOWN_NAME"]),
        (when("resource in Family::\"fil\""), &["POLICY_UNKNOWN_NAME"]),
        (scoped("principal", "resource is Family"), &["POLICY_NEVER_MATCHES"]),
        (when("principal is Agent && principal is Human"), &["POLICY_NEVER_MATCHES"]),
        (when("context.mode == \"readonly\""), &["POLICY_UNKNOWN_WORD"]),
        (when("\"hihg\" == context.risk"), &["POLICY_UNKNOWN_WORD"]),
        (when("[\"read_only\", \"none\"].contains(context.mode)"), &["POLICY_UNKNOWN_WORD"]),
        (when("resource.capabilities.contains(\"network\")"), &["POLICY_UNKNOWN_WORD"]),
        (when("context.mode == \"read_only\" && resource.tier == \"read\""), &[]),
    ] {
        assert_eq!(warned(&text), expected, "{text}");
    }
}

#[test]
fn rules_that_others_always_beat_are_reported() {
    let file = "resource in Family::\"file\"";
    for (forbid, permit, shadowed) in [
        ("principal, action, resource".to_owned(), "principal, action, resource", true),
        (
            format!("principal, action, {file}"),
            "principal, action, resource == Tool::\"file.read\"",
            true,
        ),
        (format!("principal, action, {file}"), "principal, action, resource", false),
        (
            "principal is Agent, action, resource".to_owned(),
            "principal == Agent::\"builder\", action, resource",
            true,
        ),
        (
            "principal is Human, action, resource".to_owned(),
            "principal == Agent::\"builder\", action, resource",
            false,
        ),
        (
            "principal, action == Action::\"invoke\", resource".to_owned(),
            "principal, action, resource",
            true,
        ),
        (
            "principal, action == Action::\"invoke_unattended\", resource".to_owned(),
            "principal, action, resource",
            false,
        ),
    ] {
        let text = format!("@id(\"f\") forbid ({forbid});\n@id(\"p\") permit ({permit});");
        assert_eq!(warned(&text).contains(&"POLICY_SHADOWED"), shadowed, "{text}");
    }
}

#[test]
fn rows_are_warned_of_by_name() {
    let rows = json!([{"name": "x", "tool": "fil.*", "outcome": "allow"}]);
    let found = compile(&[], rows).unwrap().lint(&known());
    assert_eq!(codes(&found), ["POLICY_UNKNOWN_NAME"]);
    assert_eq!((found[0].rule.as_deref(), found[0].line), (Some("rules/x"), None));
}

#[test]
fn annotations_without_meaning_are_reported() {
    assert_eq!(warned(&format!("@resaon(\"x\") {ALL};")), ["POLICY_ANNOTATION_UNKNOWN"]);
    assert_eq!(warned(&format!("@approvers(\"2\") {ALL};")), ["POLICY_ANNOTATION_IDLE"]);
    let notes =
        "@by(\"a\") @description(\"b\") @example(\"c\") @near_miss(\"d\") @remembered(\"e\")";
    assert_eq!(warned(&format!("{notes} {ALL};")), [""; 0]);
}

#[test]
fn a_forbid_that_misses_trees_is_reported() {
    let forbid =
        |condition: &str| format!("forbid (principal, action, resource) when {{ {condition} }};");
    let test = "context has path && context.path like \"*/x\"";
    assert_eq!(warned(&forbid(test)), ["POLICY_MISSES_TREES"]);
    assert_eq!(warned(&forbid(&format!("context.every || ({test})"))), [""; 0]);
}

#[test]
fn rules_that_have_expired_are_reported() {
    let text = format!("@id(\"x\") @until(\"2026-03-01T00:00:00Z\") {ALL};");
    let policies = compile(&[("a.cedar", &text)], json!([])).unwrap();
    let at = |moment: &str| codes(&policies.expired(moment.parse().unwrap()));
    assert_eq!(at("2026-02-28T23:59:59Z"), [""; 0]);
    assert_eq!(at("2026-03-01T00:00:00Z"), ["POLICY_EXPIRED"]);
}

#[test]
fn the_default_policy_is_clean() {
    let policies = compile(&[("default.cedar", DEFAULT_POLICY)], json!([])).unwrap();
    assert_eq!(policies.lint(&known()), []);
    // What newcomers are told to uncomment works as well.
    let (text, examples) = DEFAULT_POLICY.split_once("// More to start from").unwrap();
    let examples = examples.split_once('\n').unwrap().1.replace("// ", "").replace("//", "");
    let all = format!("{text}{examples}");
    let policies =
        compile(&[("default.cedar", &all)], json!([])).unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!(policies.rules().count(), 4);
    assert_eq!(policies.lint(&known()), []);
}

#[test]
fn more_effects_than_can_be_asked_about_block() {
    let policies = compile(&[("a.cedar", &format!("{ALL};"))], json!([])).unwrap();
    let ask = |count: usize| {
        let effects: Vec<_> = (0..count).map(|n| format!("filesystem.read /f/{n}")).collect();
        policies.decide(&facts(&json!({"effects": effects})), &json!({}))
    };
    assert_eq!(ask(100).decision, Decision::Allow);
    assert_eq!(ask(100).reasons.len(), 2, "one reason for each question");
    assert_eq!(ask(1025).decision, Decision::Block);
}

#[test]
fn reasons_that_are_cut_say_so() {
    let text = r#"permit (principal, action, resource);
        @id("f") forbid (principal, action == Action::"invoke_unattended", resource)
        when { context has path && context.path like "/f/*" };"#;
    let policies = compile(&[("a.cedar", text)], json!([])).unwrap();
    let ask = |count: usize| {
        let effects = (0..count).map(|n| format!("filesystem.read /f/{n}"));
        let effects: Vec<_> = effects.chain(["filesystem.read /g".to_owned()]).collect();
        policies.decide(&facts(&json!({"effects": effects})), &json!({})).reasons
    };
    let counts = |count| ask(count).iter().map(|reason| reason.more).collect::<Vec<_>>();
    assert_eq!(counts(16), [0; 16]);
    let mut cut = vec![0; 16];
    cut[15] = 24;
    assert_eq!(counts(40), cut);
}
