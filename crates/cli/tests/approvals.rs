//! Calls that wait for people, from the command line: asked, shown, answered, resumed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

use common::{Bench, Output, collect};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

const POLICY: &str = r#"
@id("deletes")
@reason("deleting is for people")
forbid (principal, action == Action::"invoke_unattended", resource == Tool::"file.delete");

@id("puts")
@remember("never")
forbid (principal, action == Action::"invoke_unattended", resource == Tool::"state.put");
"#;

/// A home where deleting asks a human, and where ann has a key.
fn office() -> Bench {
    let bench = Bench::new();
    fs::write(bench.home().join("policy/office.cedar"), POLICY).unwrap();
    bench.grant("agent:a", "filesystem.read,filesystem.write,filesystem.delete");
    hire(&bench, "human:ann");
    bench.write("a.txt", "precious");
    bench
}

fn hire(bench: &Bench, principal: &str) {
    bench.json(&["principal", "add", principal]).ok();
    let file = key_of(principal);
    bench.json(&["key", "create", "--principal", principal, "--out", &file]).ok();
}

fn key_of(principal: &str) -> String {
    format!("../{}.key", principal.replace(':', "-"))
}

fn delete(bench: &Bench) -> String {
    waits(&bench.call("file.delete", &json!({"path": "a.txt"})))
}

#[track_caller]
fn waits(output: &Output) -> String {
    let value = output.json();
    assert_eq!(output.code, 4, "{value:#}");
    assert_eq!(value["state"], "VALIDATED");
    assert_eq!(value["error"]["code"], "APPROVAL_REQUIRED", "{value:#}");
    value["error"]["details"]["approval"].as_str().unwrap().to_owned()
}

fn approve(bench: &Bench, execution: &str, who: &str) -> Output {
    let key = key_of(who);
    bench.json(&["approval", "approve", execution, "--yes", "--key-file", &key])
}

/// Answers at the prompt of `approval watch`.
fn at_the_prompt(bench: &Bench, lines: &str) -> Output {
    let key = key_of("human:ann");
    bench.run_with_input(&["approval", "watch", "--once", "--key-file", &key], lines.as_bytes())
}

fn call(bench: &Bench, execution: &str) -> Value {
    bench.json(&["execution", "show", execution]).ok().json()["call"].clone()
}

#[test]
fn a_call_waits_is_shown_approved_and_resumed() {
    let bench = office();
    let execution = delete(&bench);
    let list = bench.json(&["approval", "list"]).ok().json();
    assert_eq!(list[0]["executionId"], execution.as_str());
    let shown = bench.run(&["approval", "show", &execution]).ok().stdout;
    for expected in [
        "file.delete@1.0.0 as agent:a",
        "the rule `office/deletes` asks for a human for `filesystem.delete ",
        "deleting is for people",
        "touches   filesystem.delete",
        "risk      medium, mode workspace_write",
        "1 human who did not ask for it",
        "expires in 23 h",
        "\"path\": \"a.txt\"",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    let resume = ["execution", "resume", execution.as_str()];
    waits(&bench.json(&resume));
    let unsure = ["approval", "approve", execution.as_str(), "--key-file", &key_of("human:ann")];
    bench.json(&unsure).fails(2, "CONFIRMATION_MISSING");
    approve(&bench, &execution, "human:ann").ok();
    assert_eq!(bench.read("a.txt"), "precious", "agreeing is not running");
    let done = bench.json(&resume).ok().json();
    assert_eq!(done["state"], "COMPLETED");
    assert!(!bench.ws().join("a.txt").exists());
    bench.json(&resume).fails(2, "NOT_WAITING");
    approve(&bench, &execution, "human:ann").fails(2, "NOT_WAITING");
    let life = bench.run(&["execution", "show", &execution]).ok().stdout;
    assert!(life.contains("human:ann agreed"), "{life}");
    assert!(bench.run(&["approval", "list"]).ok().stdout.contains("nothing waits"));
    bench.verify();
}

#[test]
fn who_may_not_answer_is_told_why() {
    let bench = office();
    hire(&bench, "agent:a");
    hire(&bench, "human:bob");
    let execution = delete(&bench);
    approve(&bench, &execution, "agent:a").fails(3, "HUMANS_ONLY");
    bench.json(&["approval", "approve", &execution, "--yes"]).fails(2, "KEY_MISSING");
    let args = ["call", "file.delete", "--as", "agent:a", "--for", "human:ann", "--root", "."];
    let input = ["--input", r#"{"path":"a.txt"}"#];
    let own = waits(&bench.json(&[&args[..], &input[..]].concat()));
    approve(&bench, &own, "human:ann").fails(3, "APPROVAL_OWN");
    let reject = ["approval", "reject", own.as_str(), "--key-file", &key_of("human:bob")];
    bench.json(&[&reject[..], &["--reason", "no need"]].concat()).ok();
    let shown = call(&bench, &own);
    assert_eq!(shown["error"]["code"], "APPROVAL_REFUSED", "{shown:#}");
    let withdrawn = ["approval", "withdraw", execution.as_str(), "--as", "agent:a"];
    let value = bench.json(&withdrawn).ok().json();
    assert_eq!(value["error"]["code"], "APPROVAL_WITHDRAWN");
    let nobody = "019a7c3e-0000-7000-8000-000000000000";
    bench.json(&["approval", "show", nobody]).fails(2, "EXECUTION_UNKNOWN");
}

#[test]
fn whoever_waits_goes_on_when_people_have_answered() {
    let bench = office();
    let waiting = |answer: &'static [&'static str]| {
        let mut command = bench.command(&[
            "--json",
            "call",
            "file.delete",
            "--as",
            "agent:a",
            "--root",
            ".",
            "--wait",
            "--input",
            r#"{"path":"a.txt"}"#,
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let execution = loop {
            let list = bench.json(&["approval", "list"]).ok().json();
            if let Some(first) = list.as_array().unwrap().first() {
                break first["executionId"].as_str().unwrap().to_owned();
            }
            thread::sleep(Duration::from_millis(20));
        };
        let key = key_of("human:ann");
        let args = [&["approval", answer[0], &execution, "--key-file", &key], &answer[1..]];
        bench.json(&args.concat()).ok();
        collect(child.wait_with_output().unwrap())
    };
    let refused = waiting(&["reject"]);
    assert_eq!(
        (refused.code, refused.json()["error"]["code"].as_str()),
        (4, Some("APPROVAL_REFUSED"))
    );
    let done = waiting(&["approve", "--yes"]);
    assert_eq!((done.code, done.json()["state"].as_str()), (0, Some("COMPLETED")), "{done:?}");
}

#[test]
fn enter_never_means_yes() {
    let bench = office();
    let execution = delete(&bench);
    let output = at_the_prompt(&bench, "\n\nok\nY\nYES\n");
    assert_eq!(output.code, 2, "the input ended without an answer: {output:?}");
    assert_eq!(bench.json(&["approval", "list"]).ok().json().as_array().unwrap().len(), 1);
    let output = at_the_prompt(&bench, "?\ns\n").ok().stdout;
    assert!(output.contains("forbid (") && output.contains("what they saw:"), "{output}");
    at_the_prompt(&bench, "n\nnot today\n").ok();
    let shown = call(&bench, &execution);
    assert!(shown["error"]["message"].as_str().unwrap().contains("not today"), "{shown:#}");
    let execution = delete(&bench);
    at_the_prompt(&bench, "\ny\n").ok();
    bench.json(&["execution", "resume", &execution]).ok();
}

/// A person at a terminal: what they see, and what they type.
struct Person {
    keys: fs::File,
    child: Child,
    screen: ChildStdout,
}

impl Person {
    /// Sits down before `approval` with some arguments, having typed something already.
    fn before(bench: &Bench, arguments: &[&str], typed: &str) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let keys = openpt(flags).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
        let terminal = fs::File::options().read(true).write(true).open(name).unwrap();
        let mut keys = fs::File::from(keys);
        keys.write_all(typed.as_bytes()).unwrap();
        let key = key_of("human:ann");
        let mut command = bench.command(&["approval"]);
        command.args(arguments).args(["--key-file", &key]);
        command.stdin(terminal).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let screen = child.stdout.take().unwrap();
        Person { keys, child, screen }
    }

    /// What is shown until the next question, the question included.
    fn sees(&mut self) -> String {
        let mut seen = Vec::new();
        while !seen.ends_with(b"> ") && !seen.ends_with(b"why? ") {
            let mut byte = [0];
            self.screen.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
        String::from_utf8(seen).unwrap()
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn leaves(mut self) -> Option<i32> {
        std::io::copy(&mut self.screen, &mut std::io::sink()).unwrap();
        self.child.wait().unwrap().code()
    }
}

#[test]
fn what_was_typed_before_a_call_was_shown_does_not_answer_it() {
    let bench = office();
    let calls = [delete(&bench), delete(&bench)];
    let mut ann = Person::before(&bench, &["watch", "--once"], "y\ny\n");
    assert!(ann.sees().contains("file.delete@1.0.0 as agent:a"));
    // Two lines at once: the second was typed before the second call could be seen.
    ann.types("s\ny\n");
    let second = ann.sees();
    assert!(second.contains("it still waits") && second.contains("file.delete@1.0.0"), "{second}");
    ann.types("n\n");
    assert!(ann.sees().ends_with("why? "));
    ann.types("not today\n");
    assert_eq!(ann.leaves(), Some(0));
    let states = calls.each_ref().map(|execution| call(&bench, execution)["state"].clone());
    assert_eq!(states, [json!("VALIDATED"), json!("DENIED")]);
    waits(&bench.json(&["execution", "resume", &calls[0]]));
}

/// `--run` is for what was agreed to, however the question was answered.
#[test]
fn a_call_runs_at_once_only_when_enough_people_said_yes() {
    let bench = office();
    let answer_to = |execution: &str, keys: &[&str]| {
        let mut ann = Person::before(&bench, &["approve", "--run", execution], "");
        for keys in keys {
            ann.sees();
            ann.types(keys);
        }
        let code = ann.leaves();
        (code, call(&bench, execution)["state"].clone())
    };
    let answer = |keys: &[&str]| answer_to(&delete(&bench), keys);
    assert_eq!(answer(&["s\n"]), (Some(4), json!("VALIDATED")));
    let agreed = delete(&bench);
    approve(&bench, &agreed, "human:ann").ok();
    assert_eq!(answer_to(&agreed, &["s\n"]), (Some(4), json!("VALIDATED")), "not now is not now");
    assert_eq!(answer(&["n\n", "not today\n"]), (Some(0), json!("DENIED")));
    assert_eq!(bench.read("a.txt"), "precious");
    assert_eq!(answer(&["y\n"]), (Some(0), json!("COMPLETED")));
    assert!(!bench.ws().join("a.txt").exists());
    // The first of two people.
    let policy = POLICY.replace("@id(\"deletes\")", "@id(\"deletes\")\n@approvers(\"2\")");
    fs::write(bench.home().join("policy/office.cedar"), policy).unwrap();
    bench.write("a.txt", "precious");
    assert_eq!(answer(&["y\n"]), (Some(0), json!("VALIDATED")));
    assert_eq!(bench.read("a.txt"), "precious");
}

#[test]
fn an_answer_can_be_remembered_narrowly_and_forgotten() {
    let bench = office();
    delete(&bench);
    let output = at_the_prompt(&bench, "r\nsoon\n2h\ny\n").ok().stdout;
    for expected in ["resource == Tool::\"file.delete\"", "@until", "@near_miss", "remembered:"] {
        assert!(output.contains(expected), "{expected}\n{output}");
    }
    assert!(!bench.ws().join("a.txt").exists(), "it also means yes, this time");
    bench.write("a.txt", "again");
    bench.call("file.delete", &json!({"path": "a.txt"})).ok();
    bench.write("b.txt", "another");
    waits(&bench.call("file.delete", &json!({"path": "b.txt"})));
    let directory = bench.home().join("policy/remembered");
    let files: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    fs::remove_file(&files[0]).unwrap();
    bench.write("a.txt", "once more");
    delete(&bench);
}

#[test]
fn editing_makes_another_call_that_somebody_else_approves() {
    let bench = office();
    hire(&bench, "human:bob");
    bench.write("b.txt", "less precious");
    let first = delete(&bench);
    let key = key_of("human:ann");
    let mut command = bench.command(&["approval", "watch", "--once", "--key-file", &key]);
    command.env("EDITOR", "sed -i s/a.txt/b.txt/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"e\n").unwrap();
    collect(child.wait_with_output().unwrap()).ok();
    assert_eq!(call(&bench, &first)["state"], "DENIED");
    let list = bench.json(&["approval", "list"]).ok().json();
    let second = list[0]["executionId"].as_str().unwrap().to_owned();
    approve(&bench, &second, "human:ann").fails(3, "APPROVAL_OWN");
    approve(&bench, &second, "human:bob").ok();
    bench.json(&["execution", "resume", &second]).ok();
    assert!(bench.ws().join("a.txt").exists() && !bench.ws().join("b.txt").exists());
}

/// Whoever approves must know that there is more than they were shown.
#[test]
fn what_is_too_long_to_show_is_counted() {
    let bench = office();
    let hosts: Vec<_> = (10..60).map(|n| format!("h{n}.example.org:443")).collect();
    bench.declare_script("test.client", "exit 0", |declaration| {
        declaration["runtime"]["hosts"] = json!(hosts);
        declaration["requiredCapabilities"] = json!(["network.https"]);
    });
    let grant = ["grant", "issue", "--to", "agent:a", "--capability", "network.https"];
    bench.run(&[&grant[..], &["--scope", "**"]].concat()).ok();
    let policy = "@id(\"hosts\") forbid (principal, action == Action::\"invoke_unattended\", \
                  resource) when { context has host && context.host != \"h10.example.org\" };";
    fs::write(bench.home().join("policy/hosts.cedar"), policy).unwrap();
    let execution = waits(&bench.call("test.client", &json!({})));
    let shown = bench.run(&["approval", "show", &execution]).ok().stdout;
    let rows = |name: &str| shown.lines().filter(|line| line.trim().starts_with(name)).count();
    assert_eq!((rows("touches"), rows("because")), (20, 16), "{shown}");
    let rest = format!(
        "and 30 more (network.https 30); see all with `countersign approval show {execution} --json`"
    );
    assert!(shown.contains(&rest), "{shown}");
    assert!(shown.contains(" and 33 things more"), "{shown}");
    let all = bench.json(&["approval", "show", &execution]).ok().json();
    assert_eq!(all["subject"]["facts"]["effects"].as_array().unwrap().len(), 50);
}

#[test]
fn what_people_are_shown_cannot_steer_their_terminal_or_their_eyes() {
    let bench = office();
    bench.write("p\u{430}ypal.txt", "x");
    let evil = json!({"path": "p\u{430}ypal.txt"});
    let execution = waits(&bench.call("file.delete", &evil));
    let shown = bench.run(&["approval", "show", &execution]).ok().stdout;
    assert!(shown.contains("p\\u{430}ypal.txt"), "{shown}");
    assert!(shown.is_ascii(), "{shown}");
    assert!(shown.contains("letters beyond ASCII are shown by their numbers"), "{shown}");
    // A Latin letter that is not the one it looks like.
    bench.write("p\u{1ea1}ypal.txt", "x");
    let execution = waits(&bench.call("file.delete", &json!({"path": "p\u{1ea1}ypal.txt"})));
    let shown = bench.run(&["approval", "show", &execution]).ok().stdout;
    assert!(shown.contains("p\\u{1ea1}ypal.txt") && shown.is_ascii(), "{shown}");
    let evil = json!({"key": "k\u{202e}\u{1b}[2J", "value": "v"});
    bench.grant("agent:a", "state.read,state.write");
    let output = bench.call("state.put", &evil);
    if output.code == 4 {
        let execution = waits(&output);
        let shown = bench.run(&["approval", "show", &execution]).ok().stdout;
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown}");
    }
}
