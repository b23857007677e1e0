//! Policies from the command line: checked, shown, explained, tried out, tested and remembered.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Bench, Output, output};
use serde_json::{Value, json};

const ASK: &str = r#"
@id("ask")
@reason("writing is for people")
forbid (principal, action == Action::"invoke_unattended", resource == Tool::"file.write");
"#;

const BLOCK: &str = r#"
@id("never")
@reason("nothing changes today")
forbid (principal, action == Action::"invoke", resource == Tool::"file.write");
"#;

/// A home whose agent may write.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    bench
}

fn policy(bench: &Bench, name: &str, text: &str) {
    fs::write(bench.home().join("policy").join(name), text).unwrap();
}

/// A copy of the policies with one more file, not in force.
fn draft(bench: &Bench, text: &str) -> String {
    let dir = bench.dir().join("draft");
    fs::create_dir_all(&dir).unwrap();
    fs::copy(bench.home().join("policy/default.cedar"), dir.join("default.cedar")).unwrap();
    fs::write(dir.join("more.cedar"), text).unwrap();
    dir.display().to_string()
}

fn write(bench: &Bench) -> Output {
    bench.call("file.write", &json!({"path": "a.txt", "content": "x"}))
}

fn simulate(bench: &Bench, more: &[&str]) -> Output {
    let mut args = vec!["policy", "simulate", "file.write", "--as", "agent:a", "--root", "."];
    args.extend(["--input", r#"{"path":"a.txt","content":"x"}"#]);
    args.extend(more);
    bench.json(&args)
}

fn codes(output: &Output) -> Vec<String> {
    let problems = output.json()["problems"].as_array().unwrap().clone();
    problems.iter().map(|problem| problem["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn lint_says_everything_that_is_wrong_and_where() {
    let bench = bench();
    let clean = bench.json(&["policy", "lint"]).ok().json();
    assert_eq!((&clean["ok"], &clean["problems"]), (&json!(true), &json!([])));
    assert_eq!(bench.run(&["policy", "lint"]).ok().stdout, "ok: 1 file\n");
    policy(
        &bench,
        "odd.cedar",
        "permit (principal == Agent::\"nobody\", action, resource == Tool::\"file.wriet\");",
    );
    let odd = bench.json(&["policy", "lint"]).ok();
    assert_eq!(codes(&odd), ["POLICY_UNKNOWN_NAME", "POLICY_UNKNOWN_NAME"], "{odd:#?}");
    assert_eq!(odd.json()["problems"][0]["line"], 1);
    assert_eq!(bench.json(&["policy", "lint", "--strict"]).code, 2);
    let text = bench.run(&["policy", "lint"]).ok().stdout;
    assert!(text.contains("warning: odd.cedar:1:1: there is no "), "{text}");
    policy(&bench, "bad.cedar", "permit (principal, action, resource)\nwhen { context.nope };\n");
    let bad = bench.json(&["policy", "lint"]);
    assert_eq!((bad.code, bad.json()["ok"].clone()), (2, json!(false)));
    assert_eq!(codes(&bad), ["POLICY_INVALID"], "{bad:#?}");
    let first = &bad.json()["problems"][0];
    assert_eq!((&first["line"], &first["column"]), (&json!(2), &json!(8)));
    let bad = write(&bench);
    bad.fails(3, "POLICY_INVALID");
}

#[test]
fn a_rule_that_can_never_match_is_reported() {
    let bench = bench();
    let never = "permit (principal, action, resource) when { context.mode == \"reed_only\" };";
    policy(&bench, "never.cedar", never);
    let found = bench.json(&["policy", "lint"]).ok();
    assert_eq!(codes(&found).len(), 1, "{found:#?}");
    let late = "@until(\"2020-01-01T00:00:00Z\") permit (principal, action, resource);";
    policy(&bench, "never.cedar", late);
    assert_eq!(codes(&bench.json(&["policy", "lint"]).ok()), ["POLICY_EXPIRED"]);
}

#[test]
fn lint_looks_at_files_and_directories_that_are_not_in_force() {
    let bench = bench();
    let dir = draft(&bench, "permit (");
    assert_eq!(codes(&bench.json(&["policy", "lint", "--dir", &dir])), ["POLICY_SYNTAX"]);
    let file = format!("{dir}/default.cedar");
    bench.json(&["policy", "lint", &file]).ok();
    bench.json(&["policy", "lint", "--policy", "nowhere"]).fails(2, "POLICY_MISSING");
    bench.json(&["policy", "lint", "--config", "nowhere"]).fails(2, "POLICY_MISSING");
    bench.json(&["policy", "lint", "nowhere.cedar"]).fails(3, "POLICY_UNREADABLE");
}

#[test]
fn show_lists_rules_and_prints_the_table_as_cedar() {
    let bench = bench();
    let shown = bench.json(&["policy", "show"]).ok().json();
    let ids: Vec<_> = shown["rules"].as_array().unwrap().iter().map(|r| r["id"].clone()).collect();
    assert_eq!(ids, ["default/granted", "default/risky"]);
    assert_eq!(shown["digest"].as_str().unwrap().len(), 64);
    let text = bench.run(&["policy", "show"]).ok().stdout;
    assert!(text.contains("permit default/granted invoke, invoke_unattended default.cedar:"));
    let one = bench.json(&["policy", "show", "default/risky"]).ok().json();
    assert_eq!(
        (&one["effect"], &one["questions"]),
        (&json!("forbid"), &json!(["invoke_unattended"]))
    );
    bench.json(&["policy", "show", "default/none"]).fails(2, "RULE_UNKNOWN");
    let schema = bench.run(&["policy", "show", "--schema"]).ok().stdout;
    assert!(schema.contains("entity Tool in [Family, Toolset]"));
    let sources = bench.json(&["policy", "show", "--sources"]).ok().json();
    assert_eq!(sources[0]["name"], "default.cedar");
    let config = bench.home().join("countersign.toml");
    let row = "\n[[policy.rules]]\nname = \"asks\"\ntool = \"file.*\"\noutcome = \"ask\"\n";
    fs::write(&config, fs::read_to_string(&config).unwrap() + row).unwrap();
    let cedar = bench.run(&["policy", "show", "--cedar"]).ok().stdout;
    assert!(cedar.contains("Family::\"file\"") && cedar.contains("@id(\"asks\")"), "{cedar}");
    // What is printed is a policy file like any other.
    fs::write(bench.ws().join("table.cedar"), cedar).unwrap();
    bench.json(&["policy", "lint", "table.cedar"]).ok();
}

#[test]
fn explain_tells_what_decided_also_after_the_rules_changed() {
    let bench = bench();
    bench.json(&["policy", "explain", "last"]).fails(2, "EXECUTION_UNKNOWN");
    write(&bench).ok();
    policy(&bench, "more.cedar", BLOCK);
    write(&bench).fails(3, "POLICY_BLOCKED");
    fs::remove_file(bench.home().join("policy/more.cedar")).unwrap();
    let told = bench.json(&["policy", "explain", "last"]).ok().json();
    assert_eq!((&told["state"], &told["verdict"]["decision"]), (&json!("DENIED"), &json!("block")));
    assert_eq!(told["rules"][0]["id"], "more/never");
    assert_eq!(told["facts"]["principal"], "agent:a");
    let path = bench.ws().join("a.txt").display().to_string();
    assert_eq!(told["facts"]["effects"][0]["resource"], path);
    let text = bench.run(&["policy", "explain", "last"]).ok().stdout;
    for words in
        ["policy    block", "nothing changes today", "rule      more/never in more.cedar:", &path]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    bench.json(&["policy", "explain", "nonsense"]).fails(2, "ID_INVALID");
}

#[test]
fn explain_tells_of_calls_that_wait_and_of_calls_that_policy_never_saw() {
    let bench = bench();
    policy(&bench, "more.cedar", ASK);
    write(&bench).fails(4, "APPROVAL_REQUIRED");
    let told = bench.json(&["policy", "explain", "last"]).ok().json();
    assert_eq!(told["verdict"]["decision"], "require_approval");
    assert!(told["asked"]["expiresAt"].is_i64() || told["asked"]["expiresAt"].is_string());
    bench.call("file.write", &json!({})).fails(2, "INPUT_INVALID");
    let told = bench.json(&["policy", "explain", "last"]).ok().json();
    assert_eq!((&told["verdict"], &told["facts"]), (&Value::Null, &Value::Null));
    let text = bench.run(&["policy", "explain", "last"]).ok().stdout;
    assert!(text.contains("was not asked"), "{text}");
}

/// Every byte of the journal.
fn journal(bench: &Bench) -> Vec<u8> {
    fs::read(bench.home().join("state/journal.db")).unwrap()
}

#[test]
fn simulate_says_what_would_happen_and_writes_nothing() {
    let bench = bench();
    let before = (journal(&bench), bench.stats());
    let runs = simulate(&bench, &[]).ok().json();
    assert_eq!((&runs["would"]["outcome"], &runs["grants"]["ok"]), (&json!("run"), &json!(true)));
    let asks = simulate(&bench, &["--policy", &draft(&bench, ASK)]);
    assert_eq!((asks.code, &asks.json()["would"]["outcome"]), (4, &json!("ask")), "{asks:#?}");
    let blocked = simulate(&bench, &["--policy", &draft(&bench, BLOCK)]);
    assert_eq!(blocked.code, 3);
    assert_eq!(blocked.json()["would"]["error"]["code"], "POLICY_BLOCKED");
    assert_eq!(simulate(&bench, &["--mode", "read_only"]).code, 3);
    assert_eq!(
        simulate(&bench, &["--for", "human:b"]).ok().json()["facts"]["chain"],
        json!(["human:b"])
    );
    bench.json(&["policy", "simulate", "file.write", "--input", "{"]).fails(2, "INPUT_NOT_JSON");
    bench.json(&["policy", "simulate", "no.tool"]).fails(2, "TOOL_UNKNOWN");
    let stranger =
        ["policy", "simulate", "file.write", "--as", "agent:b", "--root", ".", "--input"];
    let told = bench.run(&[&stranger[..], &[r#"{"path":"a","content":""}"#]].concat());
    assert_eq!(told.code, 3);
    assert!(told.stdout.contains("would be denied") && told.stdout.contains("policy    allow"));
    assert_eq!((journal(&bench), bench.stats()), before);
    assert!(!bench.ws().join("a.txt").exists());
}

#[test]
fn replay_shows_what_a_change_would_have_changed() {
    let bench = bench();
    write(&bench).ok();
    bench.call("text.digest", &json!({"text": "x"})).ok();
    let dir = draft(&bench, BLOCK);
    let same = bench.json(&["policy", "replay", "--check"]).ok().json();
    assert_eq!((&same["decided"], &same["differences"]), (&json!(2), &json!([])));
    let told = bench.json(&["policy", "replay", "--policy", &dir]).ok().json();
    assert_eq!(told["differences"].as_array().unwrap().len(), 1);
    assert_eq!(told["differences"][0]["after"]["decision"], "block");
    assert_eq!(bench.json(&["policy", "replay", "--check", "--policy", &dir]).code, 2);
    let last = bench.json(&["policy", "replay", "--last", "1", "--policy", &dir]).ok().json();
    assert_eq!((&last["decided"], &last["differences"]), (&json!(1), &json!([])));
    let text = bench.run(&["policy", "replay", "--policy", &dir]).ok().stdout;
    assert!(text.contains("block instead of allow"), "{text}");
    assert!(text.ends_with("1 of 2 calls would be decided otherwise\n"), "{text}");
}

#[test]
fn history_names_every_set_that_decided() {
    let bench = bench();
    assert_eq!(bench.json(&["policy", "history"]).ok().json(), json!([]));
    write(&bench).ok();
    policy(&bench, "more.cedar", ASK);
    write(&bench);
    policy(&bench, "more.cedar", &ASK.replace("is for people", "is not for you"));
    write(&bench);
    let told = bench.json(&["policy", "history"]).ok().json();
    let sets = told.as_array().unwrap();
    assert_eq!(sets.len(), 3);
    assert_eq!(sets[1]["changes"]["added"][0]["id"], "more/ask");
    assert_eq!(sets[2]["changes"]["changed"][0]["id"], "more/ask");
    let text = bench.run(&["policy", "history"]).ok().stdout;
    assert!(text.contains("  ~ more/ask\n"), "{text}");
    assert!(text.contains("    - @reason(\"writing is for people\")\n"), "{text}");
    let digest = sets[1]["set"]["policy"]["digest"].as_str().unwrap();
    let old = bench.json(&["policy", "history", "--show", &digest[..12]]).ok().json();
    assert!(old["rules"].to_string().contains("writing is for people"));
    bench.json(&["policy", "history", "--show", "zz"]).fails(2, "POLICY_SET_UNKNOWN");
    bench.json(&["policy", "history", "--show", ""]).fails(2, "POLICY_SET_AMBIGUOUS");
    bench.verify();
}

const REMEMBERED: &str = r#"@id("answer")
@remembered("019a7c3e-0000-7000-8000-000000000001")
@by("human:ann")
@until("UNTIL")
@example("file.write by agent:a with {}")
@near_miss("the same with filesystem.write on /b")
permit (principal == Agent::"a", action == Action::"invoke_unattended", resource == Tool::"file.write")
when { context.mode == "workspace_write" };
"#;

#[test]
fn remembered_answers_are_listed_and_taken_back_by_humans() {
    let bench = bench();
    assert_eq!(bench.run(&["policy", "remembered"]).ok().stdout, "nothing is remembered\n");
    fs::create_dir(bench.home().join("policy/remembered")).unwrap();
    policy(&bench, "remembered/one.cedar", &REMEMBERED.replace("UNTIL", "2099-01-01T00:00:00Z"));
    policy(&bench, "remembered/old.cedar", &REMEMBERED.replace("UNTIL", "2020-01-01T00:00:00Z"));
    policy(&bench, "more.cedar", ASK);
    write(&bench).ok();
    let listed = bench.json(&["policy", "remembered"]).ok().json();
    let told: Vec<_> =
        listed.as_array().unwrap().iter().map(|it| (&it["name"], &it["expired"])).collect();
    assert_eq!(told, [(&json!("old"), &json!(true)), (&json!("one"), &json!(false))]);
    assert_eq!(listed[1]["by"], "human:ann");
    let text = bench.run(&["policy", "remembered"]).ok().stdout;
    assert!(text.contains("one by human:ann, until 2099-01-01T00:00:00Z"), "{text}");
    assert!(text.contains("  but not   the same with filesystem.write on /b"), "{text}");
    let revoke =
        |more: &[&str]| bench.json(&[&["policy", "remembered", "--revoke"], more].concat());
    revoke(&["one", "--as", "agent:a"]).fails(3, "AUTHORITY_MISSING");
    revoke(&["../default"]).fails(2, "MEMORY_UNKNOWN");
    revoke(&["one"]).ok();
    revoke(&["one"]).fails(2, "MEMORY_UNKNOWN");
    write(&bench).fails(4, "APPROVAL_REQUIRED");
}

fn corpus() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/tests/corpus");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|it| it == "json")).collect()
}

/// The cases that the library is held against, through the command line. They bring their own
/// policies, so there is no home.
#[test]
fn the_whole_corpus_of_decisions_holds_here_too() {
    let bench = Bench::bare();
    let files: Vec<_> = corpus().iter().map(|path| path.display().to_string()).collect();
    let mut args = vec!["policy", "test"];
    args.extend(files.iter().map(String::as_str));
    let told = bench.json(&args).ok().json();
    let cases: usize =
        told.as_array().unwrap().iter().map(|file| file["cases"].as_array().unwrap().len()).sum();
    assert!(cases >= 150, "only {cases} cases");
}

const CASES: &str = r#"
about = "What agents may do."

[[cases]]
name = "agents may write"
facts = { tool = "file.write", principal = "agent:a", effects = ["filesystem.write /srv/app/a"] }
decision = "allow"
rules = ["default/granted"]

[[cases]]
name = "raw sockets need two people"
facts.tool.capabilities = ["network.tcp"]
decision = "require_approval"
approvers = 2
"#;

#[test]
fn tables_of_cases_are_run_against_the_home_or_a_draft() {
    let bench = bench();
    bench.write("cases.toml", CASES);
    let told = bench.run(&["policy", "test", "cases.toml"]).ok();
    assert_eq!(told.stdout, "ok: cases.toml, 2 cases\n");
    let dir = draft(&bench, BLOCK);
    let failed = bench.json(&["policy", "test", "cases.toml", "--policy", &dir]);
    assert_eq!(failed.code, 2);
    let cases = &failed.json()[0]["cases"];
    assert_eq!(
        (&cases[0]["ok"], &cases[0]["verdict"]["decision"]),
        (&json!(false), &json!("block"))
    );
    let text = bench.run(&["policy", "test", "cases.toml", "--policy", &dir]).stdout;
    assert!(text.contains("the decision should be \"allow\", and is \"block\""), "{text}");
    assert!(text.contains("because the rule `more/never` forbids the call"), "{text}");
    for bad in ["", "cases = 1", "[[cases]]\nname = \"x\"\ndecision = \"allow\"\ntypo = 1"] {
        bench.write("bad.toml", bad);
        bench.json(&["policy", "test", "bad.toml"]).fails(2, "CASES_INVALID");
    }
    bench.write(
        "odd.json",
        json!({"cases": [
            {"name": "a", "facts": {"tool": "no.tool"}, "decision": "allow"},
            {"name": "b", "facts": {"effects": ["nonsense"]}, "decision": "allow"},
            {"name": "c", "set": "none", "decision": "allow"},
            {"name": "d", "facts": {"unknown": 1}, "decision": "allow"},
        ]})
        .to_string(),
    );
    let odd = bench.json(&["policy", "test", "odd.json"]);
    assert_eq!(odd.code, 2);
    let cases = odd.json()[0]["cases"].as_array().unwrap().clone();
    assert!(cases.iter().all(|case| case["verdict"].is_null()), "{cases:#?}");
}

#[test]
fn what_rules_say_cannot_command_a_terminal() {
    let bench = bench();
    policy(
        &bench,
        "more.cedar",
        &BLOCK.replace("nothing changes", "nothing \u{1b}[31m\u{202e} changes"),
    );
    write(&bench).fails(3, "POLICY_BLOCKED");
    for args in [
        &["policy", "show"][..],
        &["policy", "show", "more/never"],
        &["policy", "show", "--sources"],
        &["policy", "explain", "last"],
        &["policy", "history"],
    ] {
        let mut command = bench.command(args);
        let told = output(&mut command).ok().stdout;
        assert!(!told.contains(['\u{1b}', '\u{202e}']), "{args:?}: {told:?}");
    }
}
