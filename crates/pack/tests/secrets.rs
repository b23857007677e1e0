//! No secret goes into a pack, wherever it stands.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use common::Made;
use countersign_documents::scan::{Known, secrets};
use countersign_pack::{ChangeStatus, Request, Sensitivity, build};

/// Kind, the text in which it stands, and what must not be seen of it. Assembled, so that nothing
/// here is the form itself.
fn table() -> Vec<(&'static str, String, String)> {
    let body = |length: usize| "Fake0Key1".chars().cycle().take(length).collect::<String>();
    let hex = |length: usize| "0b1d2c3e4f5a".chars().cycle().take(length).collect::<String>();
    let upper = "FAKE2KEY3".chars().cycle().take(16).collect::<String>();
    let plain = |kind, value: String| (kind, format!("let x = \"{value}\";"), value);
    let pem = format!("{}\n{}", body(64), body(48));
    vec![
        plain("aws-access-key", format!("AKIA{upper}")),
        plain("github-token", format!("ghp_{}", body(36))),
        plain("github-fine-token", format!("github_pat_{}", body(82))),
        plain("gitlab-token", format!("glpat-{}", body(20))),
        plain("google-api-key", format!("AIza{}", body(35))),
        plain("slack-token", format!("xoxb-{}", body(50))),
        plain("openai-key", format!("sk-proj-{}", body(60))),
        plain("anthropic-key", format!("sk-ant-api03-{}", body(93))),
        plain("stripe-key", format!("sk_live_{}", body(24))),
        plain("npm-token", format!("npm_{}", body(36))),
        plain("mailgun-key", format!("key-{}", hex(32))),
        ("password-value", "db_password = 's3same-0pen!'".into(), "s3same-0pen!".into()),
        ("secret-value", format!("api_key: {}", hex(32)), hex(32)),
        ("url-password", "postgres://ada:lovelace9@db.example.org/x".into(), "lovelace9".into()),
        ("bearer-header", format!("Authorization: Bearer {}", body(32)), body(32)),
        (
            "private-key",
            format!("-----BEGIN RSA PRIVATE KEY-----\n{pem}\n-----END RSA PRIVATE KEY-----"),
            body(40),
        ),
    ]
}

fn packed(made: &Made) -> countersign_pack::ContextPack {
    let request = Request { paths: vec!["**".into()], ..Request::default() };
    build(&request, None, &mut made.clone()).unwrap()
}

#[track_caller]
fn check(kind: &str, made: &Made, value: &str) {
    let pack = packed(made);
    let record = serde_json::to_string(&pack).unwrap();
    for text in [pack.render(), record] {
        assert!(!text.contains(value), "{kind}: {text}");
    }
    assert_eq!(secrets(&pack.render(), &Known::default()).len(), 0, "{kind}: {}", pack.render());
    assert_eq!(pack.sensitivity, Sensitivity::High, "{kind}");
    let told = pack.redactions.iter().any(|redaction| redaction.kind == kind);
    assert!(told, "{kind}: {:?}", pack.redactions);
}

#[test]
fn in_a_file() {
    for (kind, text, value) in table() {
        for ending in ["\n", "\r\n", ""] {
            let made = Made::default().file("src/a.rs", format!("first\n{text}{ending}"));
            check(kind, &made, &value);
            assert_eq!(packed(&made).redactions.first().unwrap().line, 2, "{kind}");
        }
    }
}

#[test]
fn in_a_diff_the_history_and_the_instructions() {
    for (kind, text, value) in table() {
        let added: String = text.lines().map(|line| format!("+{line}\n")).collect();
        let diff = format!("@@ -0,0 +1,4 @@\n{added}");
        check(kind, &Made::default().changed("a.rs", ChangeStatus::Modified, diff), &value);
        check(kind, &Made::default().file("AGENTS.md", format!("Use this:\n\n{text}\n")), &value);
        if !text.contains('\n') {
            check(kind, &Made::default().commit("0123", "Ada", "2026", &text), &value);
        }
    }
}

#[test]
fn in_the_task_and_in_names() {
    for (kind, text, value) in table() {
        let request = Request { task: Some(text.clone()), ..Request::default() };
        let pack = build(&request, None, &mut Made::default()).unwrap();
        assert!(!pack.render().contains(&value), "{kind}");
        if !value.contains(['/', '\n']) && text.contains('"') {
            let made = Made::default().file(&format!("d/{value}.rs"), "x\n").file("y", b"\0");
            let pack = packed(&made);
            assert!(!serde_json::to_string(&pack).unwrap().contains(&value), "{kind}");
            assert!(!pack.render().contains(&value), "{kind}");
        }
    }
}

#[test]
fn where_a_file_was_cut() {
    let key: String = (0..400).map(|_| format!("{}\n", "Fake0Key1".repeat(7))).collect();
    let text = format!("intro\n-----BEGIN PRIVATE KEY-----\n{key}");
    let made = Made::default().file("a.txt", &text);
    let request = Request { paths: vec!["a.txt".into()], token_budget: 600, ..Request::default() };
    let pack = build(&request, None, &mut made.clone()).unwrap();
    assert!(!pack.render().contains("Fake0Key1"), "{}", pack.render());
}

#[test]
fn what_only_looks_like_one_stays() {
    let text = "let token = read_token();\npassword: <your password>\nsecret_key=${SECRET}\n";
    let pack = packed(&Made::default().file("a.rs", text));
    assert!(pack.render().contains(text));
    assert_eq!((pack.redactions.len(), pack.sensitivity), (0, Sensitivity::Low));
}
