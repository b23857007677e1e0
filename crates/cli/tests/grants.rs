//! Who may do what, from the command line: issuing, delegating, revoking, and what each leaves in
//! the book and in the journal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;

use common::{Bench, Output, output};
use serde_json::{Value, json};

/// `grant issue` with the words of a command line.
fn issue(bench: &Bench, words: &str) -> Output {
    let words: Vec<&str> = words.split(' ').collect();
    bench.json(&[&["grant", "issue"], &words[..]].concat())
}

fn ids(granted: &Value) -> Vec<String> {
    let grants = granted.as_array().unwrap().iter();
    grants.map(|grant| grant["id"].as_str().unwrap().to_owned()).collect()
}

fn listed(bench: &Bench, args: &[&str]) -> Vec<Value> {
    let listed = bench.json(&[&["grant", "list"], args].concat()).ok().json();
    listed.as_array().unwrap().clone()
}

#[test]
fn several_capabilities_are_granted_at_once_in_the_order_they_need() {
    let bench = Bench::new();
    let words = "--to agent:a --capability filesystem.delete,filesystem.write --capability filesystem.read --capability filesystem.read --scope notes/** --expires 15m";
    let granted = issue(&bench, words).ok().json();
    let names: Vec<_> =
        granted.as_array().unwrap().iter().map(|g| g["capability"].clone()).collect();
    assert_eq!(names[0], "filesystem.read", "what the others need comes first: {names:?}");
    assert_eq!(names.len(), 3, "what is named twice is granted once");
    for grant in granted.as_array().unwrap() {
        // Relative patterns are completed with the directory where the command ran.
        assert_eq!(grant["scope"], json!([format!("{}/notes/**", bench.ws().display())]));
        let lifetime = grant["expiresAt"].as_i64().unwrap() - grant["issuedAt"].as_i64().unwrap();
        assert!((899_000..=900_000).contains(&lifetime), "{lifetime}");
        assert_eq!((&grant["grantor"], &grant["depth"]), (&json!("human:tester"), &json!(0)));
        assert_eq!(grant["signature"].as_str().unwrap().len(), 128);
    }
    bench.write("notes/a.txt", "x");
    bench.call("file.write", &json!({"path": "notes/b.txt", "content": "x"})).ok();
    bench.call("file.delete", &json!({"path": "notes/a.txt"})).ok();
    assert_eq!(bench.call("file.write", &json!({"path": "c.txt", "content": "x"})).code, 3);
}

#[test]
fn the_command_in_a_denial_makes_the_call_possible() {
    let bench = Bench::new();
    bench.write("a.txt", "x");
    bench.write("it's [odd] * and {more}.txt", "y");
    for (tool, input) in [
        ("file.read", json!({"path": "a.txt"})),
        ("file.write", json!({"path": "it's [odd] * and {more}.txt", "content": "z"})),
        ("state.put", json!({"key": "k/1", "value": 1})),
    ] {
        let mut tries = 0;
        loop {
            let answer = bench.call(tool, &input);
            if answer.code == 0 {
                break;
            }
            assert_eq!(answer.code, 3, "{answer:#?}");
            let hint = answer.json()["error"]["hint"].as_str().unwrap().to_owned();
            let typed = hint.strip_prefix("countersign ").unwrap();
            let script = format!("exec {} {typed}", common::BIN);
            let mut shell = common::clean(std::process::Command::new("sh"));
            shell.args(["-c", &script]).current_dir("/").env("COUNTERSIGN_HOME", bench.home());
            output(&mut shell).ok();
            tries += 1;
            assert!(tries <= 3, "{hint}");
        }
    }
    assert_eq!(bench.read("it's [odd] * and {more}.txt"), "z");
}

/// The current directory is meant literally, whatever its name looks like.
#[test]
fn a_relative_scope_does_not_widen_by_the_name_of_the_directory() {
    let bench = Bench::new();
    for dir in ["a*", "ab", "[x]"] {
        fs::create_dir(bench.ws().join(dir)).unwrap();
        fs::write(bench.ws().join(dir).join("f.txt"), "x").unwrap();
    }
    let grant = |dir: &str, to: &str| {
        let args = [
            "--json",
            "grant",
            "issue",
            "--to",
            to,
            "--capability",
            "filesystem.read",
            "--scope",
            "./f.txt",
        ];
        output(bench.command(&args).current_dir(bench.ws().join(dir))).ok();
    };
    grant("a*", "agent:star");
    grant("[x]", "agent:bracket");
    let read = |who: &str, dir: &str| {
        let args = [
            "--json",
            "call",
            "file.read",
            "--as",
            who,
            "--root",
            dir,
            "--input",
            r#"{"path":"f.txt"}"#,
        ];
        bench.run(&args).code
    };
    assert_eq!(read("agent:star", "a*"), 0);
    assert_eq!(read("agent:bracket", "[x]"), 0);
    fs::create_dir(bench.ws().join("abc")).unwrap();
    fs::write(bench.ws().join("abc/f.txt"), "x").unwrap();
    assert_eq!(read("agent:star", "abc"), 3, "a star in a name is no wildcard");
}

#[test]
fn scopes_and_terms_that_make_no_sense_are_refused() {
    let bench = Bench::new();
    let base = "--to agent:a --capability state.read";
    for (words, exit, code) in [
        ("--scope a/../b", 2, "SCOPE_INVALID"),
        ("--scope a//b", 2, "SCOPE_INVALID"),
        ("--scope a**", 2, "SCOPE_INVALID"),
        ("--scope [ab]", 2, "SCOPE_INVALID"),
        ("--scope k --expires 2000-01-01T00:00:00Z", 2, "GRANT_EXPIRED"),
        ("--scope k --expires 400d", 2, "GRANT_TOO_LONG"),
        ("--scope k --expires soon", 2, "TIME_INVALID"),
        ("--scope k --expires 0s", 2, "TIME_INVALID"),
        ("--scope k --as nobody", 2, "PRINCIPAL_INVALID"),
    ] {
        let error = issue(&bench, &format!("{base} {words}")).fails(exit, code);
        assert!(error["hint"].is_string(), "{error}");
    }
    let unread = issue(&bench, "--to agent:a --capability filesystem.write --scope **");
    let error = unread.fails(3, "GRANT_PREREQUISITE_MISSING");
    assert!(error["hint"].as_str().unwrap().contains("filesystem.read"), "{error}");
    assert!(listed(&bench, &["--all"]).is_empty(), "nothing of it was granted");
}

#[test]
fn machines_issue_only_what_they_were_given_authority_over() {
    let bench = Bench::new();
    let refused = issue(&bench, "--to agent:b --capability state.read --scope ** --as agent:a");
    let error = refused.fails(3, "AUTHORITY_MISSING");
    assert!(error["hint"].as_str().unwrap().contains("human"), "{error}");
    let admin = "--to agent:a --capability admin.capability.grant --scope state.read";
    issue(&bench, admin).ok();
    issue(&bench, "--to agent:b --capability state.read --scope k --as agent:a").ok();
    let wider = issue(&bench, "--to agent:b --capability state.write --scope k --as agent:a");
    wider.fails(3, "AUTHORITY_MISSING");
    let own = issue(&bench, "--to agent:a --capability state.read --scope k --as agent:a");
    own.fails(3, "GRANT_TO_SELF");
    // The first of two was made before the second was refused, and the error says so.
    let both = "--to agent:c --capability state.read,state.write --scope k --as agent:a";
    let error = issue(&bench, both).fails(3, "AUTHORITY_MISSING");
    assert!(
        error["message"].as_str().unwrap().contains("granted before it: state.read"),
        "{error}"
    );
    assert_eq!(error["details"]["issued"].as_array().unwrap().len(), 1);
    assert_eq!(listed(&bench, &["--to", "agent:c"]).len(), 1);
    // Revoking needs authority, too, unless it is one's own grant.
    let human = ids(&issue(&bench, "--to agent:c --capability state.write --scope k").ok().json());
    bench.json(&["grant", "revoke", &human[0], "--as", "agent:a"]).fails(3, "AUTHORITY_MISSING");
    let own = ids(&json!(listed(&bench, &["--to", "agent:b"])));
    bench.json(&["grant", "revoke", &own[0], "--as", "agent:a"]).ok();
}

#[test]
fn grants_are_listed_by_holder_and_status() {
    let bench = Bench::new();
    assert_eq!(
        bench.run(&["grant", "list"]).ok().stdout,
        "no grants; see `countersign grant issue --help`\n"
    );
    assert_eq!(listed(&bench, &[]), Vec::<Value>::new());
    let a = ids(&issue(&bench, "--to agent:a --capability state.read --scope k").ok().json());
    issue(&bench, "--to agent:b --capability state.read --scope k").ok();
    issue(&bench, "--to tool:file.read --capability state.read --scope k").ok();
    assert_eq!(listed(&bench, &[]).len(), 3);
    assert_eq!(listed(&bench, &["--to", "tool:file.read"]).len(), 1);
    let revoked =
        bench.json(&["grant", "revoke", &a[0], "--reason", "no longer needed"]).ok().json();
    assert_eq!(revoked, json!({"revoked": [a[0]]}));
    assert_eq!(listed(&bench, &[]).len(), 2);
    let all = listed(&bench, &["--all", "--to", "agent:a"]);
    assert_eq!(all[0]["status"], "revoked");
    assert!(all[0]["revokedAt"].is_i64());
    let size = bench.verify()["size"].clone();
    bench.json(&["grant", "revoke", &a[0]]).ok();
    assert_eq!(bench.verify()["size"], size, "revoking twice changes nothing");
    let person = bench.run(&["grant", "list", "--all"]).ok().stdout;
    assert!(person.contains("revoked agent:a state.read on k until "), "{person}");
    let unknown = "00000000-0000-7000-8000-000000000000";
    for args in [&["grant", "show", unknown][..], &["grant", "revoke", unknown]] {
        let error = bench.json(args).fails(2, "GRANT_UNKNOWN");
        assert!(error["hint"].as_str().unwrap().contains("grant list"), "{error}");
    }
    bench.json(&["grant", "show", "first"]).fails(2, "ID_INVALID");
}

#[test]
fn revocation_takes_effect_at_once_and_takes_what_was_delegated_along() {
    let bench = Bench::new();
    bench.write("a.txt", "x");
    let words =
        "--to agent:boss --capability filesystem.read --scope ./** --delegable --expires 1h";
    let root = ids(&issue(&bench, words).ok().json()).remove(0);
    let delegate = |from: &str, by: &str, to: &str, more: &[&str]| {
        let args = ["grant", "delegate", from, "--as", by, "--to", to];
        bench.json(&[&args[..], more].concat())
    };
    let terms = |expires: &'static str| ["--scope", "./a.txt", "--expires", expires, "--delegable"];
    let first = delegate(&root, "agent:boss", "agent:a", &terms("50m")).ok().json();
    let first = first[0]["id"].as_str().unwrap().to_owned();
    let second = delegate(&first, "agent:a", "agent:b", &terms("40m")).ok().json();
    let second = second[0]["id"].as_str().unwrap().to_owned();
    let third = delegate(&second, "agent:b", "agent:c", &terms("30m")).ok().json();
    assert_eq!((&third[0]["depth"], &third[0]["parent"]), (&json!(3), &json!(second)));
    let third = third[0]["id"].as_str().unwrap().to_owned();
    // At most three deep, only one's own, never wider, never longer.
    delegate(&third, "agent:c", "agent:d", &terms("20m")).fails(3, "GRANT_TOO_DEEP");
    delegate(&root, "agent:a", "agent:d", &terms("20m")).fails(3, "GRANT_NOT_YOURS");
    let wider = ["--scope", "**", "--expires", "20m"];
    delegate(&first, "agent:a", "agent:d", &wider).fails(3, "GRANT_WIDER");
    delegate(&first, "agent:a", "agent:d", &terms("2h")).fails(3, "GRANT_OUTLIVES_PARENT");
    let unknown = "00000000-0000-7000-8000-000000000000";
    delegate(unknown, "agent:a", "agent:d", &terms("20m")).fails(2, "GRANT_UNKNOWN");

    let shown = bench.json(&["grant", "show", &root]).ok().json();
    assert_eq!(shown["delegated"].as_array().unwrap().len(), 3);
    let person = bench.run(&["grant", "show", &first]).ok().stdout;
    assert!(person.contains(&format!("delegated from {root}")) && person.contains("depth 1"));

    let read = |who: &str| {
        let input = r#"{"path":"a.txt"}"#;
        bench.json(&["call", "file.read", "--as", who, "--root", ".", "--input", input])
    };
    for who in ["agent:boss", "agent:a", "agent:b", "agent:c"] {
        read(who).ok();
    }
    let revoked = bench.json(&["grant", "revoke", &first]).ok().json();
    assert_eq!(revoked["revoked"].as_array().unwrap().len(), 3, "{revoked}");
    read("agent:boss").ok();
    for who in ["agent:a", "agent:b", "agent:c"] {
        read(who).fails(3, "GRANT_REVOKED");
    }
    delegate(&second, "agent:b", "agent:d", &terms("20m")).fails(3, "GRANT_REVOKED");
    bench.verify();
}

#[test]
fn the_journal_says_which_grants_a_call_rested_on() {
    let bench = Bench::new();
    let granted = bench.grant("agent:a", "filesystem.read,filesystem.write");
    let call = bench.call("file.write", &json!({"path": "a.txt", "content": "x"})).ok().json();
    let id = call["executionId"].as_str().unwrap();
    let shown = bench.json(&["execution", "show", id]).ok().json();
    let authorized = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|event| event["event"].get("authorized"))
        .unwrap();
    let mut rested: Vec<String> = serde_json::from_value(authorized["grants"].clone()).unwrap();
    rested.sort();
    let mut granted = granted;
    granted.sort();
    assert_eq!(rested, granted);
    // Every grant and revocation is an entry of its own.
    bench.json(&["grant", "revoke", &granted[0], "--reason", "over"]).ok();
    let size = bench.verify()["size"].as_u64().unwrap();
    let last = bench.json(&["audit", "show", &(size - 1).to_string()]).ok().json();
    let revoked = &last["entry"]["fact"]["grant"]["revoked"];
    assert_eq!((&revoked["reason"], &revoked["by"]), (&json!("over"), &json!("human:tester")));
}
