//! Runs from the command line: begun, followed, answered, steered, forked, and taken over.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;
mod projects;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Bench, Output, collect};
use projects::Project;
use serde_json::{Value, json};

fn node(id: &str, type_id: &str, config: &Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "config": config,
        "position": {"x": 0, "y": 0}, "inputs": {}})
}

fn edge(from: &str, to: &str) -> Value {
    json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
}

/// Nodes one after the other.
fn chain(id: &str, nodes: &[Value]) -> Value {
    let ids: Vec<&str> = nodes.iter().map(|node| node["id"].as_str().unwrap()).collect();
    let edges: Vec<Value> = ids.windows(2).map(|pair| edge(pair[0], pair[1])).collect();
    json!({"id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges, "variables": [],
        "triggers": [{"id": "t", "type": "manual"}], "metadata": {}, "settings": {}})
}

fn noop(id: &str) -> Value {
    node(id, "core.noop", &json!({}))
}

fn delay(id: &str, ms: u64) -> Value {
    node(id, "core.delay", &json!({"ms": ms}))
}

fn gate(id: &str) -> Value {
    node(id, "core.approvalGate", &json!({"title": "go on?", "actions": ["accept", "reject"]}))
}

fn call(id: &str, tool: &str, input: &Value) -> Value {
    let mut made = node(id, "core.tool", &json!({"tool": tool}));
    for (name, value) in input.as_object().unwrap() {
        made["inputs"][name] = json!({"type": "static", "value": value});
    }
    made
}

impl Bench {
    fn with(workflows: &[Value]) -> Self {
        let bench = Bench::new();
        workflows.iter().for_each(|one| bench.define(one));
        bench
    }

    fn define(&self, workflow: &Value) {
        let name = format!("workflows/{}.json", workflow["id"].as_str().unwrap());
        fs::write(self.home().join(name), workflow.to_string()).unwrap();
    }

    fn start(&self, workflow: &str, more: &[&str]) -> Output {
        self.json(&[&["run", "start", workflow][..], more].concat())
    }

    /// A run that another process drives.
    fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn status(&self, run: &str) -> String {
        text(&self.json(&["run", "show", run]).ok().json()["status"])
    }

    /// The events of a run, which are numbered without a gap and have one end at most, their last.
    fn events(&self, run: &str) -> Vec<Value> {
        let said = self.json(&["run", "events", run]).ok();
        let events: Vec<Value> =
            said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for (place, event) in events.iter().enumerate() {
            assert_eq!(event["sequence"], place, "{events:#?}");
        }
        let ends = ["run.completed", "run.failed", "run.cancelled"];
        let is_end = |event: &&Value| ends.contains(&event["type"].as_str().unwrap());
        let ended = events.iter().filter(is_end).count();
        assert!(ended == 0 || (ended == 1 && is_end(&events.last().unwrap())), "{events:#?}");
        events
    }

    fn types(&self, run: &str) -> Vec<String> {
        self.events(run).iter().map(|event| text(&event["type"])).collect()
    }

    /// The newest run, as soon as it is there and stands so.
    fn until(&self, status: &str) -> String {
        eventually(|| {
            let runs = self.json(&["run", "list", "--status", status]).ok().json();
            runs[0]["runId"].as_str().map(str::to_owned)
        })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it never came");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_run_completes_and_is_shown_in_every_way() {
    let mut plain = chain("plain", &[noop("first"), noop("second")]);
    plain["variables"] = json!([
        {"name": "word", "type": "string", "required": true},
        {"name": "token", "type": "string", "sensitive": true},
    ]);
    let bench = Bench::with(&[plain]);
    let input = r#"{"word": "hi\u001b[2J", "token": "hidden-value"}"#;
    let done = bench.start("plain", &["--input", input, "--tag", "one", "--tag", "two"]).ok();
    let run = done.json();
    assert_eq!((&run["status"], &run["workflowId"]), (&json!("completed"), &json!("plain")));
    assert_eq!(
        (&run["tags"], &run["variables"]["token"]),
        (&json!(["one", "two"]), &json!("[MASKED]"))
    );
    assert_eq!(run["owner"], json!({"tenant": "default", "principal": "human:tester"}));
    assert_eq!(run["nodeStates"]["second"]["status"], "completed");
    let id = text(&run["runId"]);
    assert_eq!(bench.json(&["run", "show", "last"]).ok().json(), run);
    let shown = bench.run(&["run", "show", &id]).ok().stdout;
    for part in ["completed", "plain", "first", "second", "word", "[MASKED]", "tags one, two"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\u{1b}') && !shown.contains("hidden-value"), "{shown}");
    let listed = bench.json(&["run", "list", "--tenant", "default", "--limit", "1"]).ok().json();
    assert_eq!((&listed[0]["runId"], &listed[0]["events"]), (&json!(id), &json!(6)));
    assert_eq!(bench.json(&["run", "list", "--tenant", "other"]).ok().json(), json!([]));
    assert_eq!(bench.json(&["run", "list", "--status", "failed"]).ok().json(), json!([]));
    assert!(bench.run(&["run", "list"]).ok().stdout.contains(&id));
    assert_eq!(bench.types(&id).first().unwrap(), "run.started");
    let from = bench.json(&["run", "events", &id, "--from", "5"]).ok().stdout;
    assert_eq!(serde_json::from_str::<Value>(&from).unwrap()["type"], "run.completed");
    assert!(bench.run(&["run", "events", &id]).ok().stdout.contains("node.completed"));
    bench.verify();
}

#[test]
fn plain_lines_tell_how_far_a_run_is() {
    let bench = Bench::with(&[chain("plain", &[noop("first"), gate("ask")])]);
    let waits = bench.run(&["run", "start", "plain"]);
    assert_eq!(waits.code, 4, "{waits:#?}");
    for line in ["first started", "first completed in", "ask waits: go on?"] {
        assert!(waits.stderr.contains(line), "{line}: {waits:#?}");
    }
    assert!(waits.stdout.contains("waiting-approval plain"), "{waits:#?}");
    let ways: Vec<&str> = waits.stdout.lines().filter(|line| line.contains("run submit")).collect();
    assert_eq!(ways.len(), 2, "{waits:#?}");
    // What is told can be copied as it is.
    let script = ways[0].trim().replace("countersign", common::BIN);
    let mut shell = common::clean(std::process::Command::new("sh"));
    shell.args(["-c", &script]).env("COUNTERSIGN_HOME", bench.home());
    common::output(&mut shell).ok();
    let (code, seen) = bench.on_a_terminal(&["run", "start", "plain"]);
    assert_eq!(code, 4, "{seen}");
    assert!(seen.contains("\u{1b}[J") && seen.contains("waiting-approval"), "{seen}");
}

#[test]
fn what_fails_says_why_and_how() {
    let fail = node("bad", "core.fail", &json!({"code": "no_luck", "message": "it broke\u{202e}"}));
    let put = call("put", "state.put", &json!({"key": "k", "value": 1}));
    let slow = delay("slow", 60_000);
    let bench = Bench::with(&[
        chain("fails", &[fail]),
        chain("puts", &[put]),
        chain("slow", &[slow]),
        chain("long", &[noop("a"), noop("b"), noop("c")]),
        chain("asks", &[gate("ask")]),
        chain(
            "parent",
            &[node(
                "sub",
                "core.subWorkflow",
                &json!({"workflowId": "puts", "waitForCompletion": true}),
            )],
        ),
    ]);
    let failed = bench.start("fails", &[]);
    assert_eq!((failed.code, &failed.json()["error"]["code"]), (1, &json!("no_luck")));
    let told = bench.run(&["run", "start", "fails"]);
    assert!(told.stdout.contains("failed at bad: it broke\\u{202e} [no_luck]"), "{told:#?}");
    let denied = bench.start("puts", &["--as", "agent:a"]);
    assert_eq!(denied.code, 3, "{denied:#?}");
    assert_eq!(denied.json()["error"]["details"]["class"], "AuthorizationError");
    assert_eq!(bench.start("parent", &["--as", "agent:a"]).code, 3, "also through a child");
    let late = bench.start("slow", &["--configurable", r#"{"runTimeoutMs": 200}"#]);
    assert_eq!((late.code, &late.json()["error"]["code"]), (5, &json!("run_timeout")));
    let many = bench.start("long", &["--configurable", r#"{"recursionLimit": 2}"#]);
    assert_eq!((many.code, &many.json()["error"]["code"]), (5, &json!("recursion_limit_exceeded")));
    bench.start("asks", &[]);
    let refused = bench.json(&["run", "submit", "last", "--value", r#"{"action": "reject"}"#]);
    assert_eq!((refused.code, &refused.json()["status"]), (4, &json!("failed")));
    bench.verify();
}

#[test]
fn answers_let_a_run_go_on() {
    let ask = node(
        "ask",
        "core.clarificationGate",
        &json!({"questions": [{"id": "name", "question": "who?"}]}),
    );
    let bench = Bench::with(&[chain("asks", &[ask, gate("gate"), noop("end")])]);
    let waits = bench.start("asks", &[]);
    assert_eq!((waits.code, &waits.json()["status"]), (4, &json!("waiting-input")));
    let run = text(&waits.json()["runId"]);
    let submit = |more: &[&str]| bench.json(&[&["run", "submit", &run][..], more].concat());
    submit(&["--node", "nothing", "--value", "{}"]).fails(2, "NODE_UNKNOWN");
    submit(&["--node", "gate", "--value", r#"{"action": "accept"}"#]).fails(2, "RUN_NOT_READY");
    submit(&["--value", r#"{"answers": {}}"#]).fails(2, "ANSWER_INVALID");
    let broken = submit(&["--value", "{"]);
    assert_eq!(broken.code, 2, "{broken:#?}");
    bench.write("answer.json", r#"{"answers": {"name": "ann"}}"#);
    let next = submit(&["--node", "ask", "--value", "@answer.json", "--as", "agent:a"]);
    assert_eq!((next.code, &next.json()["status"]), (4, &json!("waiting-approval")));
    submit(&["--value", r#"{"action": "accept"}"#, "--as", "agent:a"]).fails(3, "HUMAN_REQUIRED");
    let accept = r#"{"action": "accept", "decidedBy": "human:boss"}"#;
    let done = submit(&["--node", "gate", "--value", accept]).ok().json();
    assert_eq!(done["status"], "completed");
    let by = bench.events(&run);
    let by = by.iter().find(|event| event["type"] == "approval.received").unwrap();
    assert_eq!(by["payload"]["decidedBy"], "human:tester", "nobody answers for others");
    submit(&["--node", "gate", "--value", accept]).fails(2, "ANSWERED_ALREADY");
    submit(&["--value", "{}"]).fails(2, "NODE_MISSING");
    bench.verify();
}

#[test]
fn a_call_of_a_run_is_approved_as_any_call() {
    let put = call("put", "state.put", &json!({"key": "k", "value": 1}));
    let bench = Bench::with(&[chain("puts", &[put, noop("end")])]);
    let policy = "@id(\"puts\") forbid (principal, action == Action::\"invoke_unattended\", \
                  resource == Tool::\"state.put\");";
    fs::write(bench.home().join("policy/puts.cedar"), policy).unwrap();
    bench.grant("agent:a", "state.write");
    bench.hire("human:ann");
    let waits = bench.run(&["run", "start", "puts", "--as", "agent:a"]);
    assert_eq!(waits.code, 4, "{waits:#?}");
    let way = waits.stdout.lines().find(|line| line.contains("approval approve")).unwrap();
    let execution = way.split(' ').next_back().unwrap();
    bench
        .json(&["run", "submit", "last", "--value", r#"{"action": "accept"}"#])
        .fails(2, "CALL_WAITS");
    assert_eq!(bench.json(&["run", "resume", "last"]).code, 4, "nobody has answered");
    let key = common::desk::key_of("human:ann");
    bench.json(&["approval", "approve", execution, "--yes", "--key-file", &key]).ok();
    let done = bench.json(&["run", "resume", "last"]).ok().json();
    assert_eq!(done["nodeStates"]["put"]["outputs"]["executionId"], execution);
    bench.verify();
}

#[test]
fn runs_are_cancelled_paused_and_resumed_from_elsewhere() {
    let slow = chain("slow", &[delay("wait", 1500), noop("end")]);
    let child = json!({"workflowId": "endless", "waitForCompletion": true});
    let bench = Bench::with(&[
        slow,
        chain("endless", &[delay("wait", 3_600_000)]),
        chain("parent", &[node("sub", "core.subWorkflow", &child)]),
    ]);
    let drives = bench.spawn(&["--json", "run", "start", "parent"]);
    let parent = eventually(|| {
        let shown = bench.json(&["run", "list"]).ok().json();
        let all = shown.as_array().unwrap();
        let parent = all.iter().find(|run| run["workflowId"] == "parent")?;
        all.iter().any(|run| run["parentRunId"] == parent["runId"]).then(|| text(&parent["runId"]))
    });
    bench.json(&["run", "pause", "none"]).fails(2, "RUN_UNKNOWN");
    let cancelled = bench.json(&["run", "cancel", &parent, "--reason", "enough"]).ok().json();
    assert_eq!(cancelled["status"], "cancelled");
    let ended = collect(drives.wait_with_output().unwrap());
    assert_eq!((ended.code, &ended.json()["status"]), (1, &json!("cancelled")), "{ended:#?}");
    let all = bench.json(&["run", "list"]).ok().json();
    assert!(all.as_array().unwrap().iter().all(|run| run["status"] == "cancelled"), "{all:#}");
    bench.json(&["run", "cancel", &parent]).ok();
    bench.json(&["run", "resume", &parent]).fails(2, "RUN_ENDED");
    bench.json(&["run", "pause", &parent]).fails(2, "RUN_NOT_READY");

    let drives = bench.spawn(&["--json", "run", "start", "slow"]);
    let run = bench.until("running");
    let paused = bench.json(&["run", "pause", &run, "--now", "--reason", "lunch"]).ok().json();
    assert_eq!(paused["status"], "paused");
    let rests = collect(drives.wait_with_output().unwrap());
    assert_eq!((rests.code, &rests.json()["status"]), (4, &json!("paused")), "{rests:#?}");
    let done = bench.json(&["run", "resume", &run, "--reason", "back"]).ok().json();
    assert_eq!(done["status"], "completed");
    let types = bench.types(&run);
    for event in ["run.paused", "run.resumed", "run.completed"] {
        assert_eq!(types.iter().filter(|kind| *kind == event).count(), 1, "{types:?}");
    }
    bench.verify();
}

#[test]
fn events_are_followed_while_another_process_makes_them() {
    let bench = Bench::with(&[chain("slow", &[noop("first"), delay("wait", 700), noop("end")])]);
    let begun = bench.start("slow", &["--detach"]).ok().json();
    let run = text(&begun["runId"]);
    assert_eq!(begun["status"], "running");
    let mut follows = bench.spawn(&["--json", "run", "events", &run, "-f"]);
    let mut lines = BufReader::new(follows.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["type"], "run.started");
    bench.json(&["run", "resume", &run]).ok();
    let rest: Vec<Value> =
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(follows.wait().unwrap().success());
    let all: Vec<Value> = [first].into_iter().chain(rest).collect();
    assert_eq!(all, bench.events(&run));
    assert_eq!(all.last().unwrap()["type"], "run.completed");
}

#[test]
fn forks_repeat_or_part() {
    let bench = Bench::with(&[chain("asks", &[gate("gate"), noop("end")])]);
    let run = text(&bench.start("asks", &[]).json()["runId"]);
    bench.json(&["run", "submit", &run, "--value", r#"{"action": "accept"}"#]).ok();
    let fork = |more: &[&str]| bench.json(&[&["run", "fork", &run][..], more].concat());
    let replay = fork(&["--mode", "replay"]).ok().json();
    assert_eq!(replay["status"], "completed");
    let replay = text(&replay["runId"]);
    let same = bench.json(&["run", "diff", &run, &replay]).ok().json();
    assert_eq!((&same["divergedAtSeq"], &same["eventDiffs"]), (&Value::Null, &json!([])));
    assert!(bench.run(&["run", "diff", &run, &replay]).ok().stdout.contains("no difference"));
    let branch = fork(&["--mode", "branch", "--from", "2"]);
    assert_eq!((branch.code, &branch.json()["status"]), (4, &json!("waiting-approval")));
    let differs = bench.run(&["run", "diff", &run, "last"]);
    assert_eq!(differs.code, 1, "{differs:#?}");
    for part in ["they part at event", "status", "\"completed\" | \"waiting-approval\""] {
        assert!(differs.stdout.contains(part), "{part}: {differs:#?}");
    }
    let shown = bench.run(&["run", "show", "last"]).ok().stdout;
    assert!(shown.contains(&format!("a branch of {run} from event 2")), "{shown}");
    fork(&["--mode", "branch", "--from", "99"]).fails(2, "FORK_INVALID");
    fork(&["--mode", "branch", "--from", "0", "--overlay", r#"{"what": 1}"#])
        .fails(2, "FORK_INVALID");
    fork(&["--mode", "replay", "--overlay", r#"{"tags": []}"#]).fails(2, "FORK_INVALID");
    bench.verify();
}

#[test]
fn what_is_not_there_and_what_is_broken_is_told() {
    let bench = Bench::with(&[chain("plain", &[noop("first")])]);
    bench.start("none", &[]).fails(2, "WORKFLOW_UNKNOWN");
    bench.json(&["run", "show", "last"]).fails(2, "RUN_UNKNOWN");
    for command in [&["show"][..], &["events"], &["cancel"], &["pause"], &["resume"]] {
        bench.json(&[&["run"], command, &["run-none"]].concat()).fails(2, "RUN_UNKNOWN");
    }
    bench.json(&["run", "diff", "run-a", "run-b"]).fails(2, "RUN_UNKNOWN");
    bench.start("plain", &["--input", "[]"]).fails(2, "INPUT_INVALID");
    bench.start("plain", &["--configurable", r#"{"recursionLimit": 0}"#]).fails(2, "RUN_INVALID");

    let mut wrong = chain("wrong", &[noop("a"), noop("a")]);
    wrong["edges"] = json!([edge("a", "nowhere")]);
    bench.define(&wrong);
    let refused = bench.start("wrong", &[]);
    let problems = refused.fails(2, "WORKFLOW_INVALID")["details"]["problems"].clone();
    assert!(problems.as_array().unwrap().len() >= 2, "{problems:#}");
    let told = bench.run(&["run", "start", "wrong"]);
    for problem in problems.as_array().unwrap() {
        assert!(told.stderr.contains(problem["message"].as_str().unwrap()), "{told:#?}");
    }
    let file = bench.home().join("workflows/wrong.json").display().to_string();
    let good = bench.home().join("workflows/plain.json").display().to_string();
    let lint = bench.json(&["workflow", "lint", &good, &file]);
    assert_eq!((lint.code, &lint.json()[0]["valid"]), (2, &json!(true)));
    assert_eq!(lint.json()[1]["problems"], problems);
    bench.json(&["workflow", "lint", &good]).ok();
    let listed = bench.json(&["workflow", "list"]).ok().json();
    assert_eq!(
        (&listed["workflows"][0]["id"], &listed["broken"]["wrong"]),
        (&json!("plain"), &problems)
    );
    assert_eq!(bench.json(&["workflow", "show", "plain"]).ok().json()["id"], "plain");
    assert!(bench.run(&["workflow", "show", "plain"]).ok().stdout.contains("node first core.noop"));
    bench.json(&["workflow", "show", "none"]).fails(2, "WORKFLOW_UNKNOWN");
    bench.start("plain", &[]).ok();
}

#[test]
fn a_home_of_an_older_version_has_no_workflows() {
    let bench = Bench::new();
    for part in ["workflows", "blueprints"] {
        fs::remove_dir(bench.home().join(part)).unwrap();
    }
    let none = bench.json(&["workflow", "list"]).ok().json();
    assert_eq!(none, json!({"workflows": [], "broken": {}}));
    bench.start("plain", &[]).fails(2, "WORKFLOW_UNKNOWN");
    bench.json(&["blueprint", "show", "fix"]).fails(2, "BLUEPRINT_UNKNOWN");
    assert!(bench.run(&["run", "list"]).ok().stdout.contains("no runs"));
}

#[test]
fn what_a_killed_process_leaves_is_taken_over() {
    let put = call("put", "state.put", &json!({"key": "k", "value": 1}));
    let child = json!({"workflowId": "slow", "waitForCompletion": true});
    let bench = Bench::with(&[
        chain("slow", &[noop("first"), delay("wait", 1500), put, noop("end")]),
        chain("parent", &[node("sub", "core.subWorkflow", &child)]),
    ]);
    bench.grant("agent:a", "state.write");
    for workflow in ["slow", "parent"] {
        let mut drives = bench.spawn(&["run", "start", workflow, "--as", "agent:a"]);
        let run = eventually(|| {
            let runs = bench.json(&["run", "list", "--status", "running"]).ok().json();
            let all = runs.as_array().unwrap();
            let waits = all.iter().any(|run| run["workflowId"] == "slow");
            waits
                .then(|| all.iter().find(|run| run["parentRunId"].is_null()))?
                .map(|run| text(&run["runId"]))
        });
        drives.kill().unwrap();
        drives.wait().unwrap();
        assert_eq!(bench.status(&run), "running");
        // Another run does not wait for it, nor finish it by accident.
        let done = bench.json(&["run", "resume", &run]).ok().json();
        assert_eq!(done["status"], "completed", "{done:#}");
        bench.events(&run);
    }
    let runs = bench.json(&["run", "list"]).ok().json();
    for run in runs.as_array().unwrap() {
        assert_eq!(run["status"], "completed", "{runs:#}");
        bench.events(run["runId"].as_str().unwrap());
    }
    assert_eq!(bench.json(&["execution", "list"]).ok().json().as_array().unwrap().len(), 2);
    bench.verify();
}

#[test]
fn an_interrupted_process_leaves_the_run_as_it_is() {
    let bench = Bench::with(&[chain("slow", &[delay("wait", 1500), noop("end")])]);
    let drives = bench.spawn(&["--json", "run", "start", "slow"]);
    let run = bench.until("running");
    let pid = rustix::process::Pid::from_child(&drives);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let left = collect(drives.wait_with_output().unwrap());
    assert_eq!((left.code, &left.json()["status"]), (4, &json!("running")), "{left:#?}");
    bench.json(&["run", "resume", &run]).ok();
}

const FIX: &str = "version: 1
name: fix
description: Change what an agent says, test it, commit it
defaults:
  sandbox: repo_write
stages:
  - id: write
    type: agent
    goal: put a patch into the run
    inputs: [task]
    outputs: [patch]
  - id: apply
    type: deterministic
    action: apply_patch
    inputs: [patch]
    on_failure: write
    retry_limit: 2
  - id: test
    type: deterministic
    action: run_tests
    on_failure: write
    retry_limit: 2
  - id: describe
    type: agent
    goal: say what to commit
    outputs: [message, paths, expected_tree]
  - id: commit
    type: deterministic
    action: commit_changes
    inputs: [message, paths, expected_tree]
    approval_required: true
";

const TESTS: &str = "[[actions.tests]]
id = \"own\"
argv = [\"sh\", \"-c\", \"echo 1..1; if grep -q good app.txt; then echo ok 1; else echo not ok 1; exit 1; fi\"]
format = \"tap\"
";

#[test]
fn a_blueprint_works_on_a_real_repository() {
    let Some(project) = Project::with_programs(&[("app.txt", "old\n")]) else { return };
    let bench = &project.bench;
    project.configure(TESTS);
    fs::write(bench.home().join("blueprints/fix.yaml"), FIX).unwrap();
    let shown = bench.json(&["blueprint", "show", "fix"]).ok().json();
    assert_eq!(shown["blueprint"]["stages"][1]["action"], "apply_patch");
    assert!(shown["workflow"]["nodes"].as_array().unwrap().len() >= 6, "{shown:#}");
    assert!(
        bench
            .run(&["blueprint", "show", "fix"])
            .ok()
            .stdout
            .contains("commit action commit_changes, after approval")
    );

    let input = ["--input", r#"{"task": "make it good"}"#, "--as", "agent:a"];
    let begin = [&["blueprint", "run", "fix", "--workspace", "app"][..], &input].concat();
    let begun = bench.json(&begin);
    assert_eq!(
        (begun.code, &begun.json()["status"]),
        (4, &json!("waiting-external")),
        "{begun:#?}"
    );
    let run = text(&begun.json()["runId"]);
    let hand_in = |node: &str, outputs: &Value| {
        let value = json!({"status": "success", "outputs": outputs}).to_string();
        bench.json(&["run", "submit", &run, "--node", node, "--value", &value, "--as", "agent:a"])
    };
    hand_in("write", &json!({})).fails(2, "ANSWER_INVALID");
    let patch = |content: &str| {
        let content = content.to_owned();
        project.diff_of(move |path| fs::write(path.join("app.txt"), content).unwrap())
    };
    // Tests that fail lead back to the agent.
    project.put(&run, "change.patch", &patch("bad\n")).is("success", 0);
    let again = hand_in("write", &json!({"patch": "change.patch"}));
    assert_eq!(again.code, 4, "{again:#?}");
    let states = &again.json()["nodeStates"];
    assert_eq!(
        (&states["apply"]["status"], &states["write"]["status"]),
        (&json!("completed"), &json!("suspended")),
        "{states:#}"
    );
    let back = "--- a/app.txt\n+++ b/app.txt\n@@ -1 +1 @@\n-bad\n+good\n";
    project.put(&run, "change.patch", back.as_bytes()).is("success", 0);
    let tested = hand_in("write", &json!({"patch": "change.patch"}));
    assert_eq!(tested.json()["interrupt"]["nodeId"], "describe", "{tested:#?}");
    let tree = project.tree_of(&run);
    let described = json!({"message": "Be good", "paths": ["app.txt"], "expected_tree": tree});
    let asks = hand_in("describe", &described);
    assert_eq!((asks.code, &asks.json()["status"]), (4, &json!("waiting-approval")), "{asks:#?}");
    let accept = ["--node", "commit-approval", "--value", r#"{"action": "accept"}"#];
    let done = bench.json(&[&["run", "submit", &run][..], &accept].concat());
    assert_eq!((done.code, &done.json()["status"]), (0, &json!("completed")), "{done:#?}");
    let committed = project.git(&["show", &format!("countersign/{run}:app.txt")]);
    assert_eq!(committed, "good");
    let calls = bench.json(&["execution", "list", "--run", &run]).ok().json();
    assert!(calls.as_array().unwrap().len() >= 5, "{calls:#}");
    bench.verify();
}

#[test]
fn a_call_that_was_cut_off_is_made_again() {
    let Some(project) = Project::with_programs(&[("app.txt", "good\n")]) else { return };
    let bench = &project.bench;
    project.configure(&TESTS.replace("echo 1..1;", "sleep 2; echo 1..1;"));
    let check = "version: 1\nname: check\nstages:\n  - id: test\n    type: deterministic\n    \
                 action: run_tests\n    retry_limit: 1\n";
    fs::write(bench.home().join("blueprints/check.yaml"), check).unwrap();
    let begin = ["blueprint", "run", "check", "--workspace", "app", "--as", "agent:a"];
    let mut drives = bench.spawn(&begin);
    eventually(|| {
        let calls = bench.json(&["execution", "list", "--state", "EXECUTING"]).ok().json();
        calls[0]["execution"].as_str().map(str::to_owned)
    });
    drives.kill().unwrap();
    drives.wait().unwrap();
    let done = bench.json(&["run", "resume", "last"]);
    assert_eq!((done.code, &done.json()["status"]), (0, &json!("completed")), "{done:#?}");
    let run = text(&done.json()["runId"]);
    let types = bench.types(&run);
    assert_eq!(types.iter().filter(|kind| *kind == "node.retried").count(), 1, "{types:?}");
    let calls = bench.json(&["execution", "list", "--run", &run]).ok().json();
    let mut states: Vec<String> =
        calls.as_array().unwrap().iter().map(|call| text(&call["state"])).collect();
    states.sort();
    assert_eq!(states, ["COMPLETED", "ROLLED_BACK"], "{calls:#}");
    bench.verify();
}

#[test]
fn blueprints_are_checked_line_by_line() {
    let bench = Bench::new();
    let wrong = FIX
        .replace("version: 1", "version: 9")
        .replace("inputs: [task]", "inputs: task")
        .replace("action: run_tests", "action: run_everything");
    bench.write("wrong.yaml", &wrong);
    bench.write("unknown.yaml", FIX.replace("action: run_tests", "action: run_everything"));
    bench.write("fix.yaml", FIX);
    bench.json(&["blueprint", "lint", "fix.yaml"]).ok();
    let lint = bench.json(&["blueprint", "lint", "fix.yaml", "wrong.yaml", "unknown.yaml"]);
    assert_eq!(lint.code, 2, "{lint:#?}");
    let said = lint.json();
    assert_eq!(said[0]["valid"], true);
    let lines: Vec<u64> = said[1]["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [1, 10, 18], "{said:#}");
    assert_eq!(said[2]["problems"][0]["code"], "BLUEPRINT_ACTION_UNKNOWN");
    let text = bench.run(&["blueprint", "lint", "wrong.yaml"]);
    assert!(text.stdout.contains("3 problems") && text.stdout.contains("line 10: "), "{text:#?}");
    fs::copy(bench.ws().join("unknown.yaml"), bench.home().join("blueprints/fix.yaml")).unwrap();
    bench.json(&["blueprint", "show", "fix"]).fails(2, "WORKFLOW_INVALID");
    let run = ["blueprint", "run", "fix", "--workspace", "app"];
    bench.json(&run).fails(2, "WORKFLOW_INVALID");
    bench.json(&["blueprint", "lint", "nowhere.yaml"]).fails(2, "WORKFLOW_UNREADABLE");
}

#[test]
fn what_the_manual_shows_can_be_used() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workflows.md");
    let manual = fs::read_to_string(manual).unwrap();
    let block = |kind: &str| {
        let (_, rest) = manual.split_once(&format!("```{kind}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let bench = Bench::new();
    bench.write("fix.yaml", block("yaml"));
    bench.write("greet.json", block("json"));
    bench.json(&["blueprint", "lint", "fix.yaml"]).ok();
    let lint = bench.json(&["workflow", "lint", "greet.json"]).ok().json();
    assert_eq!(lint[0]["warnings"], json!([]));
    fs::copy(bench.ws().join("greet.json"), bench.home().join("workflows/greet.json")).unwrap();
    bench.start("greet", &[]).fails(2, "RUN_INVALID");
    assert_eq!(bench.start("greet", &["--input", r#"{"name": "ann"}"#]).code, 4);
}
