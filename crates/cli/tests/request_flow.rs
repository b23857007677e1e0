//! Requests between draft and run, from the command line: who approves what, and what then runs.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what it leaves out"
)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::desk::{ADA, Ask, Delivered, key_of};
use common::{Bench, Output, collect, output};
use serde_json::{Value, json};

const BOB: &str = "human:bob";
const HELLO: &str = "print(open('/in/words.txt').read())";

fn hello(slug: &str) -> Ask<'_> {
    let mut ask = Ask::python(slug, HELLO, &[]);
    ask.files.push(("words.txt", b"as approved"));
    ask
}

fn run(bench: &Bench, id: &str) -> Output {
    bench.json(&["request", "run", id])
}

fn edit(path: impl AsRef<Path>, from: &str, to: &str) {
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// How often the program of a request was started.
fn starts(bench: &Bench, execution: &Value) -> usize {
    let shown = bench.json(&["execution", "show", execution.as_str().unwrap()]).ok().json();
    let events = shown["events"].as_array().unwrap().iter();
    events.filter(|event| event["event"].get("started").is_some()).count()
}

#[test]
fn a_file_that_merely_claims_approval_does_not_run() {
    let Some(bench) = Bench::for_requests() else { return };
    let Some(elsewhere) = Bench::for_requests() else { return };
    let id = elsewhere.approved(&hello("claims")).id;
    fs::create_dir_all(bench.home().join("requests")).unwrap();
    fs::copy(elsewhere.request_file(&id), bench.request_file(&id)).unwrap();
    let file = bench.request_file(&id).display().to_string();
    bench.json(&["request", "lint", &file]).ok();
    let error = run(&bench, &id).fails(4, "APPROVAL_MISSING");
    assert!(error["hint"].as_str().unwrap().contains("request approve"), "{error}");
    run(&bench, &file).fails(4, "APPROVAL_MISSING");
    assert_eq!(bench.json(&["execution", "list"]).ok().json(), json!([]));
    assert_eq!(bench.folder("core/inbound"), Default::default());
}

#[test]
fn a_draft_that_nobody_approved_does_not_run() {
    let Some(bench) = Bench::for_requests() else { return };
    let drafted = bench.draft(&hello("draft"));
    run(&bench, &drafted.file).fails(2, "REQUEST_REJECTED");
    run(&bench, &drafted.id).fails(4, "APPROVAL_MISSING");
    run(&bench, "TR-20260209-160501Z-nothing").fails(2, "REQUEST_UNKNOWN");
    bench.json(&["request", "show", "nothing"]).fails(2, "REQUEST_UNKNOWN");
    run(&bench, "nothing.md").fails(2, "FILE_UNREADABLE");
}

#[test]
fn what_was_changed_after_approval_does_not_run() {
    let Some(bench) = Bench::for_requests() else { return };
    for (slug, from, to) in [
        ("command", "python /in/main.py", "python /in/main.py --more"),
        ("purpose", "Try it.", "Try it!"),
        ("limit", "memory_limit_mb: 256", "memory_limit_mb: 257"),
        ("approver", ADA, "human:eve"),
        ("space", "## Command\n", "## Command\n\n"),
    ] {
        let id = bench.approved(&hello(slug)).id;
        let original = fs::read_to_string(bench.request_file(&id)).unwrap();
        edit(bench.request_file(&id), from, to);
        run(&bench, &id).fails(4, "APPROVAL_MISMATCH");
        fs::write(bench.request_file(&id), original).unwrap();
        let delivered = bench.run_request(&id);
        assert_eq!((delivered.exit, delivered.stdout()), (0, vec!["| as approved"]), "{slug}");
    }
}

/// People agree to what they were shown: whoever changes it asks them all again.
#[test]
fn a_draft_that_is_changed_between_two_approvals_needs_both_again() {
    let Some(bench) = Bench::for_requests() else { return };
    bench.hire(BOB);
    let drafted = bench.draft(&hello("between").with(&["--risk", "high"]));
    let first = bench.approve(&drafted.file, ADA);
    assert_eq!((first.code, &first.json()["promoted"]), (4, &json!(null)));
    edit(&drafted.file, "Try it.", "Try something else.");
    assert_eq!(bench.approve(&drafted.file, BOB).code, 4, "Ada agreed to something else");
    let done = bench.approve(&drafted.file, ADA).ok().json();
    assert_eq!(done["approval"]["given"], json!([BOB, ADA]));
    let promoted = fs::read_to_string(bench.request_file(&drafted.id)).unwrap();
    assert!(promoted.contains("approved_by: \"human:bob, human:ada\""), "{promoted}");
    assert_eq!(bench.run_request(&drafted.id).exit, 0);
}

#[test]
fn a_changed_draft_takes_the_place_of_the_one_approved_before() {
    let Some(bench) = Bench::for_requests() else { return };
    let drafted = bench.draft(&hello("again"));
    let text = fs::read_to_string(&drafted.file).unwrap();
    bench.approve(&drafted.file, ADA).ok();
    let old = fs::read_to_string(bench.request_file(&drafted.id)).unwrap();
    fs::write(&drafted.file, text.replace("Try it.", "Try it in another way.")).unwrap();
    bench.approve(&drafted.file, ADA).ok();
    let new = fs::read_to_string(bench.request_file(&drafted.id)).unwrap();
    assert!(new.contains("Try it in another way."), "{new}");
    assert_eq!(bench.run_request(&drafted.id).exit, 0);
    fs::write(bench.request_file(&drafted.id), &old).unwrap();
    run(&bench, &drafted.id).fails(4, "APPROVAL_MISMATCH");
    let put_away = bench.folder("quarantine");
    assert_eq!(put_away[&format!("{}.md.quarantined", drafted.id)], old);
}

/// The last yes is in the journal; whoever said it was interrupted before the file was in place.
#[test]
fn a_request_that_was_approved_and_not_promoted_is_promoted_later() {
    let Some(bench) = Bench::for_requests() else { return };
    let drafted = bench.draft(&hello("interrupted"));
    let text = fs::read_to_string(&drafted.file).unwrap();
    bench.approve(&drafted.file, ADA).ok();
    let promoted = fs::read_to_string(bench.request_file(&drafted.id)).unwrap();
    fs::remove_file(bench.request_file(&drafted.id)).unwrap();
    fs::write(&drafted.file, text).unwrap();
    bench.approve(&drafted.file, ADA).ok();
    assert_eq!(fs::read_to_string(bench.request_file(&drafted.id)).unwrap(), promoted);
    assert!(!Path::new(&drafted.file).exists());
    assert_eq!(bench.run_request(&drafted.id).exit, 0);
}

#[test]
fn inputs_are_those_of_the_document() {
    let Some(bench) = Bench::for_requests() else { return };
    let drafted = bench.draft(&hello("inputs"));
    let input = bench.home().join("drafts").join(&drafted.id).join("words.txt");
    fs::write(&input, "changed").unwrap();
    bench.approve(&drafted.file, ADA).fails(2, "INPUT_CHANGED");
    fs::remove_file(&input).unwrap();
    bench.approve(&drafted.file, ADA).fails(2, "INPUT_MISSING");
    std::os::unix::fs::symlink("/etc/passwd", &input).unwrap();
    bench.approve(&drafted.file, ADA).fails(2, "INPUT_MISSING");
    assert_eq!(bench.json(&["approval", "list"]).ok().json(), json!([]), "nobody was asked");
    fs::remove_file(&input).unwrap();
    fs::write(&input, "as approved").unwrap();
    bench.approve(&drafted.file, ADA).ok();
    // From here on it is the host's copy that counts.
    fs::write(&input, "changed").unwrap();
    let delivered = bench.run_request(&drafted.id);
    assert_eq!(delivered.stdout(), ["| as approved"]);
}

#[test]
fn nobody_approves_their_own_request() {
    let Some(bench) = Bench::for_requests() else { return };
    bench.hire(BOB);
    let drafted = bench.draft(&hello("own"));
    let as_ada = ["--yes", "--requester", ADA, "--key-file", &key_of(ADA)];
    let own = bench.json(&[&["request", "approve", &drafted.file], &as_ada[..]].concat());
    assert_eq!(own.code, 3, "{own:?}");
    assert!(!bench.request_file(&drafted.id).exists());
    assert_eq!(bench.approve(&drafted.file, ADA).code, 3, "she asked, whoever brings it now");
    bench.approve(&drafted.file, BOB).ok();
    bench.hire("agent:core");
    let other = bench.draft(&hello("machine"));
    assert_eq!(bench.approve(&other.file, "agent:core").code, 3);
    let shown = ["request", "approve", &other.file, "--key-file", &key_of(ADA)];
    bench.json(&shown).fails(2, "CONFIRMATION_MISSING");
}

#[test]
fn high_risk_takes_two_people() {
    let Some(bench) = Bench::for_requests() else { return };
    bench.hire(BOB);
    let drafted = bench.draft(&hello("risk").with(&["--risk", "high"]));
    assert_eq!(bench.approve(&drafted.file, ADA).code, 4);
    assert_ne!(bench.approve(&drafted.file, ADA).code, 0, "one person is one person");
    assert!(!bench.request_file(&drafted.id).exists());
    let list = bench.json(&["request", "list"]).ok().json();
    assert_eq!(list[0]["standing"], "waits");
    assert_eq!(list[0]["detail"], "1 of 2 agreed");
    bench.approve(&drafted.file, BOB).ok();
    let delivered = bench.run_request(&drafted.id);
    delivered.conforms(&bench);
    assert_eq!(delivered.exit, 0);
}

/// The library that has the program see a later time.
fn later(bench: &Bench, hours: u32) -> String {
    let source = bench.dir().join("later.c");
    let library = bench.dir().join(format!("later-{hours}.so"));
    let code = format!(
        "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n\
         int clock_gettime(clockid_t clock, struct timespec *now) {{\n\
         long failed = syscall(SYS_clock_gettime, clock, now);\n\
         if (!failed && clock == CLOCK_REALTIME) now->tv_sec += {hours} * 3600;\n\
         return (int) failed;\n}}\n"
    );
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success());
    library.display().to_string()
}

#[test]
fn an_approval_expires() {
    let Some(bench) = Bench::for_requests() else { return };
    let id = bench.approved(&hello("late")).id;
    let mut command = bench.command(&["--json", "request", "run", &id]);
    let late = output(command.env("LD_PRELOAD", later(&bench, 25)));
    late.fails(4, "APPROVAL_EXPIRED");
    run(&bench, &id).fails(4, "APPROVAL_EXPIRED");
    assert_eq!(bench.folder("core/inbound"), Default::default());
    let other = bench.approved(&hello("in-time")).id;
    let mut command = bench.command(&["--json", "request", "run", &other]);
    let early = Delivered::of(&output(command.env("LD_PRELOAD", later(&bench, 23))));
    assert_eq!(early.exit, 0, "{}", early.said);
}

#[test]
fn what_is_refused_goes_into_quarantine_with_the_reason() {
    let Some(bench) = Bench::for_requests() else { return };
    let drafted = bench.draft(&hello("no"));
    let text = fs::read_to_string(&drafted.file).unwrap();
    let why = ["--reason", "too early", "--key-file", &key_of(ADA)];
    let refuse = [&["request", "reject", &drafted.file], &why[..]].concat();
    let refused = bench.json(&refuse).ok().json();
    let place = refused["quarantined"].as_str().unwrap();
    assert_eq!(fs::read_to_string(place).unwrap(), text);
    assert!(place.ends_with(&format!("quarantine/{}.md.quarantined", drafted.id)), "{place}");
    let reasons: Value =
        serde_json::from_str(&fs::read_to_string(format!("{place}.json")).unwrap()).unwrap();
    assert_eq!(reasons["document"], format!("{}.md", drafted.id));
    assert_eq!(reasons["reasons"][0]["code"], "REFUSED");
    assert!(reasons["reasons"][0]["message"].as_str().unwrap().contains("too early"), "{reasons}");
    assert!(!Path::new(&drafted.file).exists());
    // Whoever brings it again asks again.
    fs::write(&drafted.file, &text).unwrap();
    bench.json(&refuse).ok();
    assert_eq!(bench.folder("quarantine").len(), 4);
}

#[test]
fn a_request_runs_once() {
    let Some(bench) = Bench::for_requests() else { return };
    let id = bench.approved(&hello("once")).id;
    let first = bench.run_request(&id);
    first.conforms(&bench);
    let again = run(&bench, &id);
    assert_eq!((again.code, &again.json()["ran"]), (2, &json!(false)), "{again:?}");
    assert_eq!(again.json()["result"]["path"], first.said["result"]["path"]);
    assert_eq!(starts(&bench, &first.said["executionId"]), 1);
    // The same document brought once more is known.
    let drafts = bench.home().join("drafts");
    let text = fs::read_to_string(bench.request_file(&id)).unwrap();
    fs::write(drafts.join(format!("{id}.md")), text).unwrap();
    let file = drafts.join(format!("{id}.md")).display().to_string();
    bench.approve(&file, ADA).fails(2, "ORDER_RAN");
}

#[test]
fn a_request_runs_once_however_many_processes_try() {
    let Some(bench) = Bench::for_requests() else { return };
    let script = "print('hello')\nopen('/out/report.txt', 'w').write('x' * 100_000)";
    for round in 0..4 {
        let slug = format!("crowd-{round}");
        let id = bench.approved(&Ask::python(&slug, script, &["report.txt"])).id;
        let start = || {
            let mut command = bench.command(&["--json", "request", "run", &id]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let crowd: Vec<_> = (0..5).map(|_| start()).collect();
        let outputs: Vec<_> =
            crowd.into_iter().map(|child| collect(child.wait_with_output().unwrap())).collect();
        let ran = outputs.iter().filter(|output| output.json()["ran"] == true);
        assert_eq!(ran.count(), 1, "{outputs:#?}");
        for output in outputs.iter().filter(|output| output.json()["ran"] != true) {
            assert_eq!(output.code, 2, "{outputs:#?}");
        }
        let last = Delivered::of(&run(&bench, &id));
        last.conforms(&bench);
        assert_eq!(starts(&bench, &last.said["executionId"]), 1);
    }
    assert_eq!(bench.folder("results"), Default::default());
}

#[test]
fn watching_runs_what_arrived_and_puts_away_what_is_wrong() {
    let Some(bench) = Bench::for_requests() else { return };
    let good = bench.approved(&hello("good")).id;
    let bad = bench.approved(&hello("bad")).id;
    let failing = bench.approved(&Ask::python("failing", "raise SystemExit(3)", &[])).id;
    let edited = bench.approved(&hello("edited")).id;
    edit(bench.request_file(&bad), "\npython /in", "\nbash -c python /in");
    edit(bench.request_file(&edited), "Try it.", "Try it!");
    fs::write(bench.home().join("requests/.hidden.md"), "not yet whole").unwrap();
    fs::write(bench.home().join("requests/notes.txt"), "nobody's document").unwrap();
    let watched = bench.json(&["request", "watch", "--once"]).ok();
    let lines: Vec<Value> =
        watched.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut ran: Vec<_> = lines.iter().filter_map(|line| line["request"].as_str()).collect();
    ran.sort_unstable();
    let mut expected = [good.as_str(), failing.as_str()];
    expected.sort_unstable();
    assert_eq!(ran, expected, "{watched:?}");
    let inbound = bench.folder("core/inbound");
    assert_eq!(inbound.len(), 2, "{inbound:?}");
    let put_away = bench.folder("quarantine");
    let name = format!("{bad}.md.quarantined");
    assert_eq!(put_away.keys().collect::<Vec<_>>(), [&name, &format!("{name}.json")]);
    let reasons: Value = serde_json::from_str(&put_away[&format!("{name}.json")]).unwrap();
    let codes: Vec<_> =
        reasons["reasons"].as_array().unwrap().iter().map(|reason| &reason["code"]).collect();
    assert!(codes.contains(&&json!("SHELL_FORBIDDEN")), "{reasons:#}");
    assert!(!bench.request_file(&bad).exists() && bench.request_file(&edited).exists());
    let errors: Vec<_> = lines.iter().filter_map(|line| line["error"]["code"].as_str()).collect();
    for code in ["APPROVAL_MISMATCH", "REQUEST_REJECTED", "TOOL_FAILED"] {
        assert!(errors.contains(&code), "{code}: {watched:?}");
    }
    // Nothing is new.
    let before = bench.folder("core/inbound");
    assert!(!bench.json(&["request", "watch", "--once"]).ok().stdout.contains("\"ran\":true"));
    assert_eq!(bench.folder("core/inbound"), before);
}

#[test]
fn requests_are_listed_and_shown() {
    let Some(bench) = Bench::for_requests() else { return };
    assert_eq!(bench.json(&["request", "list"]).ok().json(), json!([]));
    assert!(bench.run(&["request", "list"]).ok().stdout.contains("there are no requests"));
    let draft = bench.draft(&hello("draft"));
    let approved = bench.approved(&hello("approved")).id;
    let ran = bench.approved(&hello("ran")).id;
    bench.run_request(&ran);
    fs::write(bench.home().join("drafts/wrong.md"), "no document at all\n").unwrap();
    let list = bench.json(&["request", "list"]).ok().json();
    let mut rows: Vec<(String, String)> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let keys: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
            let known = ["detail", "executionId", "file", "request", "standing"];
            let mut keys = keys;
            keys.sort_unstable();
            assert_eq!(keys, known);
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            assert!(Path::new(&text("file")).exists());
            (text("request"), text("standing"))
        })
        .collect();
    rows.sort();
    let mut expected = [
        (draft.id.clone(), "draft"),
        (approved.clone(), "approved"),
        (ran, "ran"),
        ("wrong".to_owned(), "rejected"),
    ]
    .map(|(id, standing)| (id, standing.to_owned()));
    expected.sort();
    assert_eq!(rows, expected);
    let shown = bench.json(&["request", "show", &approved]).ok().json();
    assert_eq!((&shown["outcome"], &shown["standing"]), (&json!("ACCEPT"), &json!("approved")));
    assert_eq!(shown["command"], json!(["python", "/in/main.py"]));
    assert_eq!(shown["text"], fs::read_to_string(bench.request_file(&approved)).unwrap());
    let told = bench.run(&["request", "show", &draft.id]).ok().stdout;
    for words in ["drafted by an agent", "Try it.", "python /in/main.py", "/in/words.txt", "none"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let wrong = bench.json(&["request", "show", "wrong"]);
    assert_eq!((wrong.code, &wrong.json()["outcome"]), (2, &json!("REJECT")));
    let text = bench.run(&["request", "show", "--text", &draft.id]).ok().stdout;
    assert_eq!(text, fs::read_to_string(&draft.file).unwrap());
}

#[test]
fn a_draft_that_would_be_rejected_says_so_at_once() {
    let Some(bench) = Bench::for_requests() else { return };
    let ask = Ask { command: "bash -c 'python /in/main.py'", ..hello("shell") };
    let output = bench.new_request(&ask);
    let said = output.json();
    assert_eq!((output.code, &said["outcome"]), (2, &json!("REJECT")), "{said:#}");
    let codes: Vec<_> =
        said["reasons"].as_array().unwrap().iter().map(|reason| &reason["code"]).collect();
    assert!(codes.contains(&&json!("SHELL_FORBIDDEN")), "{said:#}");
    assert_eq!(bench.folder("drafts"), Default::default(), "what is rejected is not written");
    assert_eq!(bench.json(&["approval", "list"]).ok().json(), json!([]));
}

/// The general way to go on with a call that waited would leave no result.
#[test]
fn a_request_runs_as_a_document_only() {
    let Some(bench) = Bench::for_requests() else { return };
    let drafted = bench.draft(&hello("resumed"));
    let approved = bench.approve(&drafted.file, ADA).ok().json();
    let execution = approved["executionId"].as_str().unwrap();
    bench.json(&["execution", "resume", execution]).fails(2, "RUNS_AS_DOCUMENT");
    let delivered = bench.run_request(&drafted.id);
    delivered.conforms(&bench);
    assert_eq!((&delivered.said["ran"], delivered.stdout()), (&json!(true), vec!["| as approved"]));
    assert_eq!(starts(&bench, &delivered.said["executionId"]), 1);
}
