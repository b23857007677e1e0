//! Programs through the one pipeline: what they are given, how they end, and what is on record.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use common::boxes::{Box_, Boxes, DONE, able};
use common::{Bench, HOUR, ending, facts, names, wait_until};
use countersign_host::{Backends, Cancel, Home, Host};
use countersign_model::ErrorClass::{
    AuthorizationError, ExecutionError, ResourceError, StateError, TimeoutError, ValidationError,
};
use countersign_model::Lifecycle::{Completed, Denied, RolledBack};
use countersign_model::event::{self, CallEvent, Connection};
use countersign_model::{Capability, ErrorClass};
use countersign_sandbox::backend::StagedForm::{self, Upper, Whole};
use countersign_sandbox::machine::Machine;
use countersign_sandbox::{Ending, LimitKind, SetupOp};
use serde_json::{Value, json};

fn bench() -> Bench {
    let bench = Bench::new();
    bench.declare_program("test.program", |_| {});
    bench
}

fn boxes(script: impl Fn(&mut Box_<'_>) -> Ending + Send + Sync + 'static) -> Arc<Boxes> {
    Boxes::new(Whole, script)
}

fn started(host: &Host, execution: countersign_model::ExecutionId) -> event::Started {
    let found = facts(host, execution).into_iter().find_map(|event| match event {
        CallEvent::Started(started) => Some(started),
        _ => None,
    });
    found.expect("it started")
}

fn rolled_back(host: &Host, execution: countersign_model::ExecutionId) -> event::RolledBack {
    match facts(host, execution).pop() {
        Some(CallEvent::RolledBack(back)) => back,
        other => panic!("not rolled back: {other:?}"),
    }
}

#[test]
fn a_program_reads_its_input_and_its_output_is_the_answer() {
    let bench = bench();
    let boxes = boxes(|inside| {
        assert_eq!(inside.input, json!({"what": "é"}));
        inside.stderr = b"working\n".to_vec();
        DONE
    });
    let host = bench.host_with(&boxes);
    let outcome = bench.call(&host, "test.program", &json!({"what": "é"}));
    assert_eq!((outcome.state, outcome.result.unwrap()), (Completed, json!({"done": true})));
    let steps = ["declared", "validated", "authorized", "started", "committed", "completed"];
    assert_eq!(names(&host, outcome.execution), steps);

    let events = facts(&host, outcome.execution);
    let CallEvent::Declared(declared) = &events[0] else { panic!("{events:?}") };
    assert!(declared.files.is_some(), "its files are pinned");
    let started = started(&host, outcome.execution);
    assert_eq!(started.enforcement.isolation, 2);
    assert_eq!(started.enforcement.memory, "cgroup v2");
    assert_eq!(started.enforcement.sandbox["seccomp"], "list of allowed system calls");
    assert!(started.writes.workspace && started.hosts.is_empty());
    let plan = host.home().payload(outcome.execution, &started.plan.unwrap()).unwrap();
    let plan: Value = serde_json::from_slice(&plan).unwrap();
    assert_eq!(plan["command"], json!(["python3", "/tool/main.py"]));
    let stderr = host.home().payload(outcome.execution, &outcome.stderr.unwrap()).unwrap();
    assert_eq!(stderr, b"working\n");
}

/// EXECUTING is on disk before the program runs: it might do something that nobody can undo.
#[test]
fn the_fact_that_it_runs_is_durable_before_it_does() {
    let bench = bench();
    let home = bench.home();
    let boxes = boxes(move |_| {
        let other = Home::open(&home).unwrap();
        let calls = other.store.open_calls().unwrap();
        assert_eq!(calls[0].state, countersign_model::Lifecycle::Executing);
        DONE
    });
    let host = bench.host_with(&boxes);
    bench.done(&host, "test.program", &json!({}));
    assert_eq!(boxes.runs.load(Ordering::SeqCst), 1);
}

#[test]
fn every_ending_has_its_class_and_leaves_nothing() {
    let bench = bench();
    let limit = |limit| Ending::Limit { limit };
    let table: Vec<(Ending, ErrorClass, &str, bool)> = vec![
        (Ending::Exited { code: 3 }, ExecutionError, "TOOL_FAILED", false),
        (Ending::Signalled { signal: 11 }, ExecutionError, "TOOL_KILLED", false),
        (limit(LimitKind::WallTime), TimeoutError, "TIME_LIMIT", true),
        (limit(LimitKind::CpuTime), ResourceError, "CPU_LIMIT", true),
        (limit(LimitKind::Memory), ResourceError, "MEMORY_LIMIT", true),
        (limit(LimitKind::Processes), ResourceError, "PROCESS_LIMIT", true),
        (limit(LimitKind::Threads), ResourceError, "THREAD_LIMIT", true),
        (limit(LimitKind::OpenFiles), ResourceError, "OPEN_FILES_LIMIT", true),
        (limit(LimitKind::FileSize), ResourceError, "FILE_TOO_LARGE", true),
        (limit(LimitKind::TotalSize), ResourceError, "TOTAL_SIZE_LIMIT", true),
        (limit(LimitKind::Inodes), ResourceError, "INODE_LIMIT", true),
        (limit(LimitKind::Output), ResourceError, "OUTPUT_LIMIT", true),
    ];
    for (end, class, code, aborts) in table {
        let boxes = boxes(move |inside| {
            inside.write("new", "never seen");
            inside.stderr = b"first\n\x1b[31mlast words\n".to_vec();
            end.clone()
        });
        let host = bench.host_with(&boxes);
        let outcome = bench.call(&host, "test.program", &json!({}));
        assert_eq!(ending(&outcome), (RolledBack, class, code));
        let aborted = names(&host, outcome.execution).contains(&"aborted");
        assert_eq!(aborted, aborts, "{code}");
        let back = rolled_back(&host, outcome.execution);
        assert!(back.restored() && !back.unknown, "{code}");
        assert_eq!(back.usage.cpu_micros, 7);
        let details = outcome.result.unwrap_err().details.unwrap();
        assert_eq!(details["stderr"], "first\n\u{fffd}[31mlast words", "{code}");
        let said = host.home().payload(outcome.execution, &back.stderr.unwrap()).unwrap();
        assert!(said.starts_with(b"first"));
        let said = host.home().payload(outcome.execution, &back.stdout.unwrap()).unwrap();
        assert_eq!(said, br#"{"done":true}"#);
        assert_eq!(bench.text("new"), None);
    }
}

#[test]
fn output_that_is_not_one_value_of_the_right_shape_is_refused() {
    let bench = bench();
    let cases: [(&[u8], &str, &str); 6] = [
        (b"", "OUTPUT_INVALID", "wrote nothing"),
        (b"<html>\n", "OUTPUT_INVALID", "it begins with `<html>\\n`"),
        (b"{} {}", "OUTPUT_INVALID", "begins with `{} {}`"),
        (b"{\"done\":1,\"done\":2}", "OUTPUT_INVALID", "the key `done` occurs twice"),
        (b"{\"done\":1}", "OUTPUT_INVALID", "outputSchema"),
        (b"\xff\x1b", "OUTPUT_INVALID", "the output is not UTF-8"),
    ];
    for (bytes, code, message) in cases {
        let boxes = boxes(move |inside| {
            inside.write("new", "never seen");
            inside.stdout = bytes.to_vec();
            DONE
        });
        let host = bench.host_with(&boxes);
        let outcome = bench.call(&host, "test.program", &json!({}));
        assert_eq!(ending(&outcome), (RolledBack, ValidationError, code));
        let failure = outcome.result.unwrap_err();
        assert!(failure.message.contains(message), "{}", failure.message);
        assert!(!failure.message.contains(['\x1b', '\n']), "{:?}", failure.message);
        assert_eq!(bench.text("new"), None);
    }
}

#[test]
fn output_that_is_too_long_is_kept_and_refused() {
    let bench = bench();
    let boxes = boxes(|inside| {
        inside.stdout = vec![b' '; (1 << 20) + 1];
        inside.stderr = vec![b'x'; 2 << 20];
        DONE
    });
    let host = bench.host_with(&boxes);
    let outcome = bench.call(&host, "test.program", &json!({}));
    assert_eq!(ending(&outcome), (RolledBack, ResourceError, "OUTPUT_TOO_LARGE"));
    assert!(outcome.result.as_ref().unwrap_err().hint.as_ref().unwrap().contains("/out"));
    let home = host.home();
    let whole = |payload| home.payload(outcome.execution, &payload).unwrap();
    assert_eq!(whole(outcome.stdout.unwrap()).len(), (1 << 20) + 1);
    assert_eq!(whole(outcome.stderr.unwrap()), vec![b'x'; 2 << 20]);
    let details = outcome.result.unwrap_err().details.unwrap();
    assert_eq!(details["stderr"].as_str().unwrap().len(), 2048);
}

#[test]
fn what_is_left_in_out_becomes_an_artifact() {
    let bench = bench();
    let boxes = boxes(|inside| {
        fs::create_dir_all(inside.out.join("a/b")).unwrap();
        fs::write(inside.out.join("a/b/report.txt"), "report").unwrap();
        fs::write(inside.out.join("z"), "").unwrap();
        fs::set_permissions(inside.out.join("z"), fs::Permissions::from_mode(0o000)).unwrap();
        DONE
    });
    let host = bench.host_with(&boxes);
    let outcome = bench.call(&host, "test.program", &json!({}));
    let found: Vec<_> = outcome.artifacts.iter().map(|a| (a.name.as_str(), a.size)).collect();
    assert_eq!(found, [("a/b/report.txt", 6), ("z", 0)]);
    let blobs = &host.home().blobs;
    assert_eq!(blobs.get(&outcome.artifacts[0].digest).unwrap(), b"report");
    let events = facts(&host, outcome.execution);
    let CallEvent::Committed(committed) = &events[4] else { panic!("{events:?}") };
    assert_eq!(committed.artifacts, outcome.artifacts);
    assert!(committed.effects.is_empty());
}

#[test]
fn a_revoked_grant_ends_a_running_program() {
    let bench = Bench::bare();
    bench.declare_program("test.program", |_| {});
    let boxes = boxes(|inside| {
        inside.write("new", "never seen");
        inside.wait()
    });
    let host = Arc::new(bench.host_with(&boxes));
    let grants = bench.grant_all(&host);
    let running = {
        let (host, command) = (host.clone(), bench.command("test.program", &json!({})));
        thread::spawn(move || host.call(command).unwrap())
    };
    wait_until("it runs", || boxes.runs.load(Ordering::SeqCst) == 1);
    host.revoke_grant(grants[1], common::operator(), None).unwrap();
    let outcome = running.join().unwrap();
    assert_eq!(ending(&outcome), (RolledBack, AuthorizationError, "GRANT_REVOKED"));
    assert!(names(&host, outcome.execution).contains(&"aborted"));
    assert_eq!(bench.text("new"), None);
}

#[test]
fn an_expired_grant_and_a_cancellation_end_a_running_program() {
    let bench = bench();
    let boxes = boxes(|inside| inside.wait());
    let host = Arc::new(bench.host_with(&boxes));
    let cancel = Cancel::default();
    let run = |cancel: Cancel| {
        let mut command = bench.command("test.program", &json!({}));
        command.given.cancel = cancel;
        let host = host.clone();
        thread::spawn(move || host.call(command).unwrap())
    };
    let running = run(cancel.clone());
    wait_until("it runs", || boxes.runs.load(Ordering::SeqCst) == 1);
    cancel.cancel();
    assert_eq!(ending(&running.join().unwrap()), (RolledBack, ExecutionError, "CANCELLED"));
    let running = run(Cancel::default());
    wait_until("it runs again", || boxes.runs.load(Ordering::SeqCst) == 2);
    bench.clock.advance(2 * HOUR);
    let outcome = running.join().unwrap();
    assert_eq!(ending(&outcome), (RolledBack, AuthorizationError, "GRANT_EXPIRED"));
}

/// A grant for a part of the tree, or for its direct children, is not enough to see all of it.
#[test]
fn the_whole_tree_must_be_granted() {
    let bench = Bench::bare();
    bench.declare_program("test.program", |_| {});
    let boxes = boxes(|_| DONE);
    let host = bench.host_with(&boxes);
    let root = bench.root().display().to_string();
    let rights =
        [Capability::FilesystemRead, Capability::FilesystemWrite, Capability::FilesystemDelete];
    for part in [format!("{root}/*"), root.clone(), format!("{root}/a/**")] {
        for capability in rights {
            bench.grant(&host, capability, &part, HOUR);
        }
        let outcome = bench.call(&host, "test.program", &json!({}));
        assert_eq!(ending(&outcome), (Denied, AuthorizationError, "GRANT_OUT_OF_SCOPE"));
        let hint = outcome.result.unwrap_err().hint.unwrap();
        assert!(hint.contains(&format!("--scope '{root}/**'")), "{hint}");
    }
    for capability in rights {
        bench.grant(&host, capability, &format!("{root}/**"), HOUR);
    }
    bench.done(&host, "test.program", &json!({}));
    assert_eq!(boxes.runs.load(Ordering::SeqCst), 1);
}

#[test]
fn what_cannot_be_enforced_or_run_does_not_start() {
    let bench = bench();
    bench.declare_program("test.idem", |d| d["idempotent"] = json!(true));
    bench.declare_program("test.lenient", |d| d["runtime"]["mayBeWeaker"] = json!(["landlock"]));
    let weak = Machine { landlock: 0, ..able() };
    let boxes = Boxes::on(weak, Upper, |_| DONE);
    let host = bench.host_with(&boxes);
    let outcome = bench.call(&host, "test.idem", &json!({}));
    assert_eq!(ending(&outcome), (RolledBack, ResourceError, "CANNOT_ENFORCE"));
    assert_eq!(outcome.attempts, 1, "it is not tried again");
    let steps = ["declared", "validated", "authorized", "aborted", "rolledBack"];
    assert_eq!(names(&host, outcome.execution), steps);
    let outcome = bench.call(&host, "test.lenient", &json!({}));
    assert_eq!(outcome.state, Completed);
    assert_eq!(started(&host, outcome.execution).enforcement.weaker, ["landlock"]);
    assert_eq!(boxes.runs.load(Ordering::SeqCst), 1);

    let outcome = bench.call(&bench.host(), "test.idem", &json!({}));
    assert_eq!(ending(&outcome), (RolledBack, ResourceError, "RUNTIME_UNAVAILABLE"));
    assert_eq!(outcome.attempts, 1);
}

#[test]
fn a_backend_that_cannot_start_it_is_tried_again_if_that_is_safe() {
    let bench = Bench::new();
    bench.declare_program("test.idem", |d| d["idempotent"] = json!(true));
    let boxes = boxes(|_| DONE);
    boxes.broken.store(true, Ordering::SeqCst);
    let host = bench.host_with(&boxes);
    let outcome = bench.call(&host, "test.idem", &json!({}));
    assert_eq!(ending(&outcome), (RolledBack, ResourceError, "HOST_EXHAUSTED"));
    assert_eq!(outcome.attempts, 4);
}

fn connection(denied: Option<&str>, sent: u64) -> Connection {
    Connection {
        address: None,
        denied: denied.map(str::to_owned),
        host: "api.example.org".to_owned(),
        port: 443,
        protocol: "tls".to_owned(),
        received: 0,
        sent,
    }
}

fn connected(bench: &Bench) {
    bench.declare_program("test.connected", |declaration| {
        declaration["idempotent"] = json!(true);
        declaration["requiredCapabilities"] = json!(["network.https"]);
        declaration["runtime"]["hosts"] = json!(["api.example.org"]);
        declaration["runtime"]["workspace"] = Value::Null;
        declaration["runtime"].as_object_mut().unwrap().remove("workspace");
    });
}

#[test]
fn what_was_sent_is_on_record_and_never_sent_again() {
    for (connection, attempts) in [(connection(None, 5), 1), (connection(Some("private"), 0), 4)] {
        let bench = Bench::new();
        connected(&bench);
        let made = connection.clone();
        let boxes = boxes(move |inside| {
            inside.connections = vec![made.clone()];
            Ending::Limit { limit: LimitKind::WallTime }
        });
        let host = bench.host_with(&boxes);
        let outcome = bench.call(&host, "test.connected", &json!({}));
        assert_eq!(ending(&outcome), (RolledBack, TimeoutError, "TIME_LIMIT"));
        assert_eq!(outcome.attempts, attempts);
        assert_eq!(outcome.connections, std::slice::from_ref(&connection));
        assert_eq!(rolled_back(&host, outcome.execution).connections, [connection]);
        assert_eq!(started(&host, outcome.execution).hosts, ["api.example.org:443"]);
    }
}

#[test]
fn hosts_must_be_granted_by_name_and_need_a_way_out() {
    let bench = Bench::bare();
    connected(&bench);
    let boxes = boxes(|_| DONE);
    let host = bench.host_with(&boxes);
    bench.grant(&host, Capability::NetworkHttps, "other.example.org", HOUR);
    let outcome = bench.call(&host, "test.connected", &json!({}));
    assert_eq!(ending(&outcome), (Denied, AuthorizationError, "GRANT_OUT_OF_SCOPE"));
    bench.grant(&host, Capability::NetworkHttps, "*.example.org", HOUR);
    bench.done(&host, "test.connected", &json!({}));

    let home = Home::open(&bench.home()).unwrap();
    let backends = Backends { gateway: None, ..boxes.backends() };
    let handlers = countersign_host::builtin::handlers();
    for entry in fs::read_dir(bench.home().join("tools")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::remove_file(path).unwrap();
        }
    }
    let host = Host::start_with(home, &handlers, bench.clock.clone(), backends).unwrap();
    let outcome = bench.call(&host, "test.connected", &json!({}));
    assert_eq!(ending(&outcome), (RolledBack, ResourceError, "RUNTIME_UNAVAILABLE"));
}

#[test]
fn files_that_changed_since_they_were_pinned_stop_the_call() {
    let bench = bench();
    let files = bench.home().join("tools/test.program/files");
    let boxes = boxes(|_| DONE);
    let host = bench.host_with(&boxes);
    bench.done(&host, "test.program", &json!({}));
    let tries: [&dyn Fn(); 3] = [
        &|| fs::write(files.join("main.py"), "print('hellO')\n").unwrap(),
        &|| fs::write(files.join("more.py"), "").unwrap(),
        &|| {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(files.join("main.py"), mode).unwrap();
        },
    ];
    for change in tries {
        change();
        let outcome = bench.call(&host, "test.program", &json!({}));
        assert_eq!(ending(&outcome), (RolledBack, StateError, "TOOL_FILES_CHANGED"));
        // Put back byte for byte it is the same tool again, whatever the times say.
        let _ = fs::remove_file(files.join("more.py"));
        fs::write(files.join("main.py"), "print('hello')\n").unwrap();
        let mode = fs::Permissions::from_mode(0o644);
        fs::set_permissions(files.join("main.py"), mode).unwrap();
        bench.done(&host, "test.program", &json!({}));
    }
}

#[test]
fn files_that_are_not_plain_make_a_declaration_invalid() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    let bench = bench();
    let tool = bench.home().join("tools/test.program");
    let files = tool.join("files");
    let finding = || {
        let host = bench.host_with(&boxes(|_| DONE));
        let broken = host.registry().broken();
        broken
            .first()
            .map(|broken| (broken.findings[0].code.to_string(), broken.findings[0].message.clone()))
    };
    symlink("main.py", files.join("inside")).unwrap();
    assert_eq!(finding(), None, "links inside are fine");
    symlink("../../secret", files.join("bad")).unwrap();
    assert!(finding().unwrap().1.contains("lead outside"));
    fs::remove_file(files.join("bad")).unwrap();
    let listener = UnixListener::bind(files.join("bad")).unwrap();
    assert!(finding().unwrap().1.contains("socket"));
    drop(listener);
    fs::remove_file(files.join("bad")).unwrap();
    fs::write(files.join("bad"), "").unwrap();
    fs::set_permissions(files.join("bad"), fs::Permissions::from_mode(0o4755)).unwrap();
    assert!(finding().unwrap().1.contains("setuid"));
    fs::remove_file(files.join("bad")).unwrap();
    assert_eq!(finding(), None);

    fs::rename(&files, tool.join("real")).unwrap();
    symlink("real", &files).unwrap();
    assert!(finding().unwrap().1.contains("through a link"));
    fs::remove_file(&files).unwrap();
    let (code, message) = finding().unwrap();
    assert_eq!(code, "TOOL_FILES_INVALID");
    assert!(message.contains("cannot be found"), "{message}");
}

/// A program would see the home's keys.
#[test]
fn the_home_is_hidden_in_a_workspace_around_it_or_the_call_is_refused() {
    let bench = bench();
    for access in ["read", "write"] {
        bench.declare_program("test.program", |d| d["runtime"]["workspace"] = json!(access));
        let call = |form| {
            let boxes = Boxes::new(form, |_| DONE);
            let host = bench.host_with(&boxes);
            let mut command = bench.command("test.program", &json!({}));
            command.root = Some(bench.path().to_owned());
            let outcome = host.call(command).unwrap();
            let plan = boxes.plan.lock().unwrap().clone();
            (outcome, plan)
        };
        let (outcome, plan) = call(StagedForm::Upper);
        assert_eq!(outcome.state, Completed, "{outcome:?}");
        let home = bench.home().file_name().unwrap().to_str().unwrap().to_owned();
        let hide = SetupOp::Hide { target: format!("/workspace/{home}") };
        assert!(plan.unwrap().sandbox.contains(&hide));
        let (outcome, plan) = call(StagedForm::Whole);
        assert_eq!(ending(&outcome), (RolledBack, ResourceError, "CANNOT_ENFORCE"));
        assert!(plan.is_none());
    }
}

#[test]
fn a_program_that_panics_the_backend_harms_nobody() {
    let bench = bench();
    let host = bench.host_with(&boxes(|_| panic!("a bug of the backend")));
    let outcome = bench.call(&host, "test.program", &json!({}));
    assert_eq!(ending(&outcome), (RolledBack, ExecutionError, "TOOL_CRASHED"));
}
