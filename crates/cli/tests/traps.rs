//! Traps that systems of this kind have fallen into, each as a test.
//!
//! | trap | test |
//! |---|---|
//! | unknown action | `an_action_that_does_not_exist_does_nothing` |
//! | empty commands | `checks.rs`: `commands_that_say_nothing_are_errors` |
//! | lint fails, a fix is reached, and it ends | `a_lint_that_fails_is_fixed_and_passes` |
//! | read_only and a patch, an omitted mode | `actions.rs`: `modes_hold_and_an_omitted_one_never_widens` |
//! | patch outside, through a link, into control files | `actions.rs`: `no_patch_leads_out_of_…` |
//! | patch with the wrong context | `every_failure_can_be_asked_for_afterwards` |
//! | approval expires, restart while it waits, self-approval | `approvals.rs` here and in the host |
//! | resume after kill -9 does not commit again | `a_publisher_that_is_killed_commits_once` |
//! | journal edited, deleted, reordered | `audit.rs` |
//! | timeout with grandchildren | `checks.rs`: `what_the_time_ends_takes_its_children_along`, `suites.rs` |
//! | large patches | `a_patch_of_fifty_megabytes_is_applied` |
//! | two runs in the same second | `two_runs_in_the_same_moment_are_two` |
//! | stop really kills | `stopping_an_action_ends_what_it_started` |
//! | every failure can be asked for | `every_failure_can_be_asked_for_afterwards` |
//! | a worktree deleted underneath | `workspaces.rs` |
//! | replay that does not match | with the command `replay` |
//! | two owners of a schema | the journal's own migrations; there is one database |
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what is left out"
)]

mod common;
mod projects;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{BIN, clean, collect, output, tree};
use projects::{Answer, Project, alive, git, mark, write_files};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn started(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn answered(child: Child) -> Answer {
    Answer::of(&collect(child.wait_with_output().unwrap()))
}

#[track_caller]
fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        sleep(Duration::from_millis(20));
    }
}

fn calls_of(project: &Project, run: &str) -> Vec<Value> {
    let listed = project.bench.json(&["execution", "list", "--run", run]).ok().json();
    listed.as_array().unwrap().clone()
}

const TAP: &str =
    "[[actions.tests]]\nid = \"own\"\nargv = [\"sh\", \"suite.sh\"]\nformat = \"tap\"\n";

#[test]
fn an_action_that_does_not_exist_does_nothing() {
    let project = Project::new(&[("a.txt", "a\n")]);
    let before = (project.owned(), project.bench.stats()["executions"].clone());
    for name in
        ["run_everything", "RUN_TESTS", "run_tests ", "", "action.run-tests", "../run_tests"]
    {
        let answer = project.act(name, "run_1", &json!({}), &[]);
        let answer = answer.fails("failed", 2, "ACTION_UNKNOWN");
        assert_eq!(answer.envelope["artifacts"], json!([]), "{name}");
    }
    let after = (project.owned(), project.bench.stats()["executions"].clone());
    assert!(before == after);
    assert!(!project.worktree("run_1").exists(), "not even a worktree was made");
}

#[test]
fn a_lint_that_fails_is_fixed_and_passes() {
    let lint = "if grep -n TODO app.txt | sed 's/^\\([0-9]*\\):.*/app.txt:\\1:1: error: left to do/' | grep .; then exit 1; fi\n";
    let files = [("lint.sh", lint), ("app.txt", "one\nTODO\nthree\n")];
    let Some(project) = Project::with_programs(&files) else { return };
    project.configure(
        "[[actions.linters]]\nid = \"own\"\nargv = [\"sh\", \"lint.sh\"]\nformat = \"lines\"\n",
    );
    for _ in 0..2 {
        let found = project.lint("run_1", &json!({})).fails("failed", 1, "LINT_FAILED");
        let report = project.report(&found, "lint_report");
        let first = &report["commands"][0]["report"]["diagnostics"][0];
        assert_eq!((&first["file"], &first["line"]), (&json!("app.txt"), &json!(2)), "{report:#}");
        assert_eq!(found.envelope["replayed_from"], Value::Null);
    }
    let fix = project.diff_of(|path| write_files(path, &[("app.txt", "one\ntwo\nthree\n")]));
    project.patch("run_1", &fix).is("success", 0);
    let clean = project.lint("run_1", &json!({})).is("success", 0);
    assert_eq!(clean.output()["counts"]["errors"], 0);
    project.lint("run_1", &json!({})).is("replayed", 0);
    // Another run has not been fixed by that.
    project.lint("run_2", &json!({})).fails("failed", 1, "LINT_FAILED");
}

#[test]
fn every_failure_can_be_asked_for_afterwards() {
    let files = [("suite.sh", "echo 1..1; echo not ok 1; exit 1\n"), ("a.txt", "a\n")];
    let Some(project) = Project::with_programs(&files) else { return };
    project.configure(TAP);
    let good = project.diff_of(|path| write_files(path, &[("a.txt", "b\n")]));
    let wrong = String::from_utf8(good.clone()).unwrap().replace("-a\n", "-z\n");
    project.tests("run_1", &json!({})).fails("failed", 1, "TESTS_FAILED");
    let rejected = project.patch("run_1", wrong.as_bytes()).fails("failed", 1, "PATCH_REJECTED");
    let told = rejected.envelope["error"]["details"].to_string();
    assert!(told.contains("a.txt") && told.contains('z'), "{told}");
    project.put("run_1", "good.patch", &good).is("success", 0);
    let input = json!({"patch": "good.patch"});
    let narrow = project.act("apply_patch", "run_1", &input, &["--mode", "read_only"]);
    narrow.fails("blocked", 3, "MODE_FORBIDS");
    let invalid = project.tests("run_1", &json!({"surprise": 1}));
    invalid.fails("failed", 2, "INPUT_INVALID");
    project.patch("run_1", b"no patch at all\n").fails("failed", 2, "PATCH_INVALID");
    project.configure(&TAP.replace("suite.sh", "no-such.sh"));
    project.tests("run_1", &json!({})).fails("failed", 1, "TESTS_FAILED");

    let calls = calls_of(&project, "run_1");
    let codes: BTreeSet<_> = calls.iter().filter_map(|c| c["error"]["code"].as_str()).collect();
    for code in ["PATCH_REJECTED", "MODE_FORBIDS", "INPUT_INVALID", "PATCH_INVALID"] {
        assert!(codes.contains(code), "{code}: {calls:#?}");
    }
    let summary = project.act("summarize_run", "run_1", &json!({}), &[]).is("success", 0);
    assert_eq!(summary.output()["calls"], calls.len(), "{:#}", summary.envelope);
    let text = project.report(&summary, "summary").to_string();
    for call in &calls {
        let id = call["execution"].as_str().unwrap();
        assert!(text.contains(id), "{id}: {text}");
        project.bench.json(&["execution", "show", id]).ok();
    }
    for word in ["PATCH_REJECTED", "MODE_FORBIDS", "INPUT_INVALID", "PATCH_INVALID"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let page = String::from_utf8(project.artifact(&summary, "summary.md")).unwrap();
    assert!(page.contains("PATCH_REJECTED"), "{page}");
    project.bench.verify();
}

#[test]
fn two_runs_in_the_same_moment_are_two() {
    let project = Project::new(&[("a.txt", "a\n")]);
    let args = [
        "--json",
        "action",
        "run",
        "build_context_pack",
        "--workspace",
        "app",
        "--as",
        "agent:a",
        "--fresh",
    ];
    let children: Vec<_> = (0..6).map(|_| started(&mut project.bench.command(&args))).collect();
    let answers: Vec<_> =
        children.into_iter().map(|child| answered(child).is("success", 0)).collect();
    for field in ["run_id", "execution_id"] {
        let ids: BTreeSet<_> =
            answers.iter().map(|a| a.envelope[field].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 6, "{field}: {ids:?}");
    }
    for answer in &answers {
        let run = answer.envelope["run_id"].as_str().unwrap();
        assert_eq!(fs::read_to_string(project.worktree(run).join("a.txt")).unwrap(), "a\n");
        assert_eq!(calls_of(&project, run).len(), 1);
    }
    // One run that several processes begin at once is one.
    let children: Vec<_> = (0..4)
        .map(|_| {
            started(&mut project.action("build_context_pack", "same", &json!({}), &["--fresh"]))
        })
        .collect();
    for child in children {
        answered(child).is("success", 0);
    }
    assert_eq!(calls_of(&project, "same").len(), 4);
    project.bench.verify();
}

#[test]
fn stopping_an_action_ends_what_it_started() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mark = mark();
        let suite = format!("trap '' TERM INT HUP\nsetsid sleep {mark} &\nsleep {mark}\n");
        let files = [("suite.sh", suite.as_str())];
        let Some(project) = Project::with_programs(&files) else { return };
        project.configure(TAP);
        let child = started(&mut project.action("run_tests", "run_1", &json!({}), &[]));
        wait_until("the suite runs", || alive(&mark).len() >= 2);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = collect(child.wait_with_output().unwrap());
        let gone = || alive(&mark).is_empty();
        if signal == Signal::KILL {
            wait_until("what it started is gone", gone);
            project.bench.run(&["recover"]).ok();
        } else {
            Answer::of(&ended).fails("cancelled", 1, "CANCELLED");
            assert!(gone(), "{:?}", alive(&mark));
        }
        assert_eq!(project.bench.stats()["open"], 0);
        let calls = calls_of(&project, "run_1");
        assert_eq!(calls.len(), 1, "{calls:#?}");
        assert_eq!(calls[0]["state"], "ROLLED_BACK", "{calls:#?}");
        project.nothing_left("run_1");
        project.bench.verify();
        // The run goes on.
        let fix =
            project.diff_of(|path| write_files(path, &[("suite.sh", "printf '1..1\\nok 1\\n'\n")]));
        project.patch("run_1", &fix).is("success", 0);
        project.tests("run_1", &json!({})).is("success", 0);
    }
}

#[test]
fn a_patch_of_fifty_megabytes_is_applied() {
    let project = Project::new(&[("a.txt", "a\n")]);
    let line = format!("+{}\n", "x".repeat(1022));
    let mut patch = String::with_capacity(53 << 20);
    for number in 0..50 {
        patch.push_str(&format!(
            "diff --git a/big/{number} b/big/{number}\nnew file mode 100644\n--- /dev/null\n\
             +++ b/big/{number}\n@@ -0,0 +1,1024 @@\n"
        ));
        patch.push_str(&line.repeat(1024));
    }
    assert!(patch.len() > 50 << 20);
    let done = project.patch("run_1", patch.as_bytes()).is("success", 0);
    assert_eq!(done.output()["files"], 50);
    let wanted = line[1..].repeat(1024);
    for number in [0, 49] {
        let found =
            fs::read_to_string(project.worktree("run_1").join(format!("big/{number}"))).unwrap();
        assert!(found == wanted, "{number}");
    }
    // One byte that does not fit, at the very end, and nothing of it is there.
    patch.push_str("diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-b\n+c\n");
    project.patch("run_2", patch.as_bytes()).fails("failed", 1, "PATCH_REJECTED");
    project.nothing_left("run_2");
}

#[test]
fn odd_names_and_odd_lines_are_patched_byte_for_byte() {
    let project = Project::new(&[
        ("crlf.txt", "one\r\ntwo\r\nthree\r\n"),
        ("mixed.txt", "one\r\ntwo\nthree\r\n"),
        ("bare.txt", "one\ntwo"),
        ("whole.txt", "one\ntwo\n"),
        ("grüße/日本.txt", "one\n"),
        ("with space/a b.txt", "one\n"),
        ("quote\"d.txt", "one\n"),
        ("back\\slash.txt", "one\n"),
        ("moved.txt", "one\ntwo\nthree\nfour\nfive\n"),
        ("gone.txt", "one\n"),
        ("two\nlines.txt", "one\n"),
    ]);
    let mut wanted = None;
    let patch = project.diff_of(|path| {
        write_files(
            path,
            &[
                ("crlf.txt", "one\r\nTWO\r\nthree\r\n"),
                ("mixed.txt", "one\r\ntwo\r\nthree\r\n"),
                ("bare.txt", "one\nTWO"),
                ("whole.txt", "one\ntwo\nno end"),
                ("grüße/日本.txt", "一\n"),
                ("with space/a b.txt", "two\n"),
                ("quote\"d.txt", "two\n"),
                ("back\\slash.txt", "two"),
                ("new é\".txt", "new\r\n"),
                ("bytes.bin", "\0\x01\x02\0"),
            ],
        );
        fs::rename(path.join("moved.txt"), path.join("umgezogen é.txt")).unwrap();
        fs::remove_file(path.join("gone.txt")).unwrap();
        fs::set_permissions(
            path.join("crlf.txt"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        git(path, &["add", "-A"]);
        wanted = Some(git(path, &["write-tree"]));
    });
    let text = String::from_utf8_lossy(&patch).into_owned();
    assert!(text.contains("\\346") && text.contains("No newline at end"), "{text}");
    project.patch("run_1", &patch).is("success", 0);
    assert_eq!(Some(project.tree_of("run_1")), wanted);
    // A name that would not fit on a line is refused, and what stands beside it is not changed.
    let odd = project.diff_of(|path| {
        write_files(path, &[("two\nlines.txt", "two\n"), ("whole.txt", "changed\n")]);
    });
    project.patch("run_2", &odd).fails("failed", 2, "PATH_INVALID");
    assert_eq!(project.tree_of("run_2"), project.git(&["rev-parse", "HEAD^{tree}"]));
    // Taken back, it is the base again; and applied as a commit, it is what git would have made.
    let back = json!({"patch": "change.patch", "reverse": true});
    project.act("apply_patch", "run_1", &back, &[]).is("success", 0);
    assert_eq!(project.tree_of("run_1"), project.git(&["rev-parse", "HEAD^{tree}"]));
    project.act("apply_patch", "run_1", &json!({"patch": "change.patch"}), &[]).is("success", 0);
    let names =
        project.git(&["diff-tree", "-r", "-z", "--name-only", "HEAD", wanted.as_deref().unwrap()]);
    let names: Vec<_> = names.split_terminator('\0').collect();
    let done = Answer::of(&output(&mut project.commit("run_1", &names, None))).is("success", 0);
    let commit = done.output()["commit"].as_str().unwrap();
    assert_eq!(Some(project.git(&["rev-parse", &format!("{commit}^{{tree}}")])), wanted);
    project.git(&["fsck", "--strict"]);
}

#[test]
fn a_submodule_is_left_as_it_is() {
    let project = Project::new(&[("a.txt", "a\n")]);
    let library = project.bench.dir().join("library");
    fs::create_dir(&library).unwrap();
    git(&library, &["init", "-q", "-b", "main"]);
    write_files(&library, &[("lib.txt", "lib\n")]);
    git(&library, &["add", "-A"]);
    git(&library, &["commit", "-qm", "library"]);
    let path = library.display().to_string();
    project.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", &path, "lib"]);
    project.git(&["commit", "-qm", "with a library"]);
    let linked = project.git(&["ls-tree", "HEAD", "lib"]);
    assert!(linked.starts_with("160000 commit"), "{linked}");
    let base = project.git(&["rev-parse", "HEAD^{tree}"]);

    project.act("build_context_pack", "run_1", &json!({}), &[]).is("success", 0);
    assert_eq!(project.tree_of("run_1"), base);
    let patch = b"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n";
    project.patch("run_1", patch).is("success", 0);
    let report = project.act("generate_diff_report", "run_1", &json!({}), &[]).is("success", 0);
    assert_eq!(report.output()["files"], 1, "{:#}", report.envelope);
    let done = Answer::of(&output(&mut project.commit("run_1", &["a.txt"], None))).is("success", 0);
    let commit = done.output()["commit"].as_str().unwrap();
    assert_eq!(project.git(&["diff", "--name-only", "HEAD", commit]), "a.txt");
    assert_eq!(project.git(&["ls-tree", commit, "lib"]), linked);

    // Neither another commit of it, nor where it comes from, nor files inside.
    let id = linked.split_whitespace().nth(2).unwrap();
    let moved = format!(
        "diff --git a/lib b/lib\nindex {}..{} 160000\n--- a/lib\n+++ b/lib\n@@ -1 +1 @@\n-Subproject commit {id}\n+Subproject commit {}\n",
        &id[..7],
        "1".repeat(7),
        "1".repeat(40)
    );
    let inside = "--- /dev/null\n+++ b/lib/new.txt\n@@ -0,0 +1 @@\n+x\n";
    let modules = "--- a/.gitmodules\n+++ b/.gitmodules\n@@ -1 +1 @@\n-x\n+y\n";
    for (patch, exit, codes) in [
        (moved.as_str(), 2, ["PATCH_INVALID", "PATH_SUBMODULE"]),
        (inside, 2, ["PATH_SUBMODULE"; 2]),
        (modules, 3, ["CONTROL_FILE"; 2]),
    ] {
        let refused = project.patch("run_2", patch.as_bytes());
        let code = refused.envelope["error"]["code"].as_str().unwrap();
        assert!(codes.contains(&code), "{patch}: {:#}", refused.envelope);
        assert_eq!(refused.exit, exit, "{patch}");
        assert_eq!(project.tree_of("run_2"), base, "{patch}");
    }
}

#[test]
fn a_run_does_not_notice_what_the_owner_does_meanwhile() {
    let suite = "for n in 1 2 3 4 5 6 7 8 9 10; do grep -qx mine a.txt && [ ! -e new.txt ] || exit 1; sleep 0.2; done\nprintf '1..1\\nok 1\\n'\n";
    let Some(project) = Project::with_programs(&[("a.txt", "a\n"), ("suite.sh", suite)]) else {
        return;
    };
    project.configure(TAP);
    let base = project.git(&["rev-parse", "HEAD"]);
    let mine = b"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+mine\n";
    project.patch("run_1", mine).is("success", 0);
    let child = started(&mut project.action("run_tests", "run_1", &json!({}), &[]));
    wait_until("the suite runs", || {
        !project
            .bench
            .json(&["execution", "list", "--state", "EXECUTING"])
            .ok()
            .json()
            .as_array()
            .unwrap()
            .is_empty()
    });
    // The owner works on: a commit, another branch, a dirty file, and everything packed away.
    write_files(&project.path, &[("a.txt", "owner\n"), ("new.txt", "new\n")]);
    project.git(&["add", "-A"]);
    project.git(&["commit", "-qm", "second"]);
    let second = project.git(&["rev-parse", "HEAD"]);
    project.git(&["checkout", "-q", "-b", "elsewhere"]);
    project.git(&["gc", "-q", "--prune=now"]);
    write_files(&project.path, &[("a.txt", "dirty\n")]);
    answered(child).is("success", 0);
    let status = project.git(&["status", "--porcelain"]);
    let done = Answer::of(&output(&mut project.commit("run_1", &["a.txt"], None))).is("success", 0);
    assert_eq!(done.output()["parent"], base);
    assert_eq!(project.git(&["show", "countersign/run_1:a.txt"]), "mine");
    assert_eq!(project.git(&["rev-parse", "main"]), second);
    assert_eq!(project.git(&["symbolic-ref", "HEAD"]), "refs/heads/elsewhere");
    assert_eq!(project.git(&["status", "--porcelain"]), status);
    assert_eq!(fs::read_to_string(project.path.join("a.txt")).unwrap(), "dirty\n");
    // The workspace has another branch now; a new run starts where that one stands.
    project.act("build_context_pack", "run_2", &json!({}), &[]).is("success", 0);
    assert_eq!(fs::read_to_string(project.worktree("run_2").join("a.txt")).unwrap(), "owner\n");
    // Gone altogether, it is missed by name, and comes back.
    let away = project.bench.dir().join("away");
    fs::rename(&project.path, &away).unwrap();
    let missing = project.act("build_context_pack", "run_3", &json!({}), &[]);
    assert_eq!(missing.envelope["status"], "failed", "{:#}", missing.envelope);
    assert!(missing.message().contains("app"), "{}", missing.message());
    fs::rename(&away, &project.path).unwrap();
    project.act("build_context_pack", "run_3", &json!({}), &[]).is("replayed", 0);
}

#[test]
fn of_two_publishers_at_once_one_wins() {
    let project = Project::new(&[("a.txt", "a\n")]);
    let runs = ["run_1", "run_2"];
    for run in runs {
        let patch = project.diff_of(|path| write_files(path, &[("a.txt", run)]));
        project.patch(run, &patch).is("success", 0);
    }
    let base = project.git(&["rev-parse", "main"]);
    for round in 0..10 {
        let branch = format!("round-{round}");
        // Half of the branches are there already, half are made by whoever comes first.
        if round % 2 == 0 {
            project.git(&["branch", &branch, "main"]);
        }
        let mut commands = runs.map(|run| project.commit(run, &["a.txt"], Some(&branch)));
        let children: Vec<_> = commands.iter_mut().map(started).collect();
        let answers: Vec<_> = children.into_iter().map(answered).collect();
        let (won, lost): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.exit == 0);
        assert_eq!((won.len(), lost.len()), (1, 1), "{won:#?} {lost:#?}");
        let code = lost[0].envelope["error"]["code"].as_str().unwrap();
        assert!(["PUBLISH_CONFLICT", "CONFLICT"].contains(&code), "{:#}", lost[0].envelope);
        assert_eq!((lost[0].exit, &lost[0].envelope["status"]), (1, &json!("failed")));
        assert_eq!(won[0].output()["commit"], project.git(&["rev-parse", &branch]));
        assert_eq!(project.git(&["rev-parse", &format!("{branch}^")]), base);
        let winner = won[0].envelope["run_id"].as_str().unwrap();
        assert_eq!(project.git(&["show", &format!("{branch}:a.txt")]), winner);
    }
    assert_eq!(project.bench.stats()["open"], 0);
    project.bench.verify();
}

#[test]
fn a_publisher_that_is_killed_commits_once() {
    let project = Project::new(&[("a.txt", "a\n")]);
    let patch = project.diff_of(|path| write_files(path, &[("a.txt", "b\n")]));
    project.patch("run_1", &patch).is("success", 0);
    let begun = Instant::now();
    Answer::of(&output(&mut project.commit("run_1", &["a.txt"], Some("whole")))).is("success", 0);
    let whole = begun.elapsed();
    for step in 0..8_u32 {
        let branch = format!("killed-{step}");
        let mut child = started(&mut project.commit("run_1", &["a.txt"], Some(&branch)));
        sleep(whole * step / 8);
        let _ = child.kill();
        child.wait().unwrap();
        project.bench.run(&["recover"]).ok();
        // Once more, as whoever knows nothing of the first would.
        let again = Answer::of(&output(&mut project.commit("run_1", &["a.txt"], Some(&branch))));
        assert_eq!(again.exit, 0, "{step}: {:#}", again.envelope);
        let count = project.git(&["rev-list", "--count", &format!("main..{branch}")]);
        assert_eq!(count, "1", "{step}: {:#}", again.envelope);
        assert_eq!(again.output()["commit"], project.git(&["rev-parse", &branch]));
    }
    assert_eq!(project.bench.stats()["open"], 0);
    project.bench.verify();
}

/// A home on a disk that is full but for a few kilobytes, and then is not.
const FULL: &str = r#"
say() {
    name=$1; shift
    code=0; "$BIN" --json "$@" > "$T/said" || code=$?
    echo "== $name $code"; cat "$T/said"
}
act() { name=$1; action=$2; run=$3; shift 3; say "$name" action run "$action" --workspace app --run "$run" --as human:tester "$@"; }
mkdir "$T/disk" "$T/app"
mount -t tmpfs -o size=24m none "$T/disk"
export COUNTERSIGN_HOME="$T/disk/home" GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=o GIT_AUTHOR_EMAIL=o@example.org GIT_COMMITTER_NAME=o GIT_COMMITTER_EMAIL=o@example.org
cd "$T/app"
git init -q -b main; echo a > a.txt; git add -A; git commit -qm first
{ printf 'diff --git a/big b/big\nnew file mode 100644\n--- /dev/null\n+++ b/big\n@@ -0,0 +1,2048 @@\n'
  i=0; while [ $i -lt 2048 ]; do printf '+%01022d\n' $i; i=$((i + 1)); done
  printf -- '--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n'; } > "$T/patch"
say init init
say add workspace add app "$T/app"
say grant grant issue --to human:tester --capability filesystem.read,filesystem.write,filesystem.delete --scope "$T/app/**"
say put artifact put "$T/patch" --workspace app --run one --name p --as human:tester
say before workspace show app --run one
for left in 0 16 64 256 1024 1800; do
    dd if=/dev/zero of="$T/disk/filler" bs=1024 2>/dev/null || true
    size=$(stat -c %s "$T/disk/filler"); truncate -s $((size - left * 1024)) "$T/disk/filler"
    act "patch-$left" apply_patch one --input '{"patch":"p"}'
    act "new-$left" build_context_pack "two-$left"
    rm "$T/disk/filler"
    say "recover-$left" recover
    say "verify-$left" audit verify
    say "after-$left" workspace show app --run one
    say "stats-$left" stats
done
act patch apply_patch one --input '{"patch":"p"}'
act new build_context_pack two-0
say verify audit verify
say artifacts artifact verify --all
"#;

const FULL_CODES: [&str; 3] = ["DISK_FULL", "JOURNAL_FULL", "JOURNAL_POISONED"];

#[test]
fn a_full_disk_fails_by_name_and_leaves_nothing_half_done() {
    let unshare = ["--user", "--map-root-user", "--mount"];
    let probe = ["sh", "-c", "mount -t tmpfs -o size=64k none /mnt"];
    let allowed = Command::new("unshare").args(unshare).args(probe).output();
    if !allowed.is_ok_and(|tried| tried.status.success()) {
        println!("skipped: this machine refuses unshare and mount");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = clean(Command::new("unshare"));
    command.args(unshare).args(["sh", "-eu", "-c", FULL]).current_dir(dir.path());
    let ended = output(command.env("BIN", BIN).env("T", dir.path()));
    assert_eq!(ended.code, 0, "{ended:#?}");
    let said: Vec<(&str, i32, Value)> = ended
        .stdout
        .split("== ")
        .skip(1)
        .map(|part| {
            let (head, body) = part.split_once('\n').unwrap();
            let (name, exit) = head.split_once(' ').unwrap();
            let body = serde_json::from_str(body).unwrap_or_else(|e| panic!("{name}: {e}: {body}"));
            (name, exit.parse().unwrap(), body)
        })
        .collect();
    let of = |wanted: &str| said.iter().find(|(name, ..)| *name == wanted).unwrap();
    let tree = &of("before").2["runs"][0]["tree"];
    assert!(tree.is_string());
    let mut failures = 0;
    for (name, exit, body) in &said {
        let (kind, left) = name.split_once('-').unwrap_or((name, ""));
        match kind {
            "patch" | "new" if !left.is_empty() => {
                let code = body["error"]["code"].as_str();
                println!("{name}: {exit} {code:?}");
                // A small pack may still find room; a patch of two megabytes does not.
                if kind == "patch" || *exit != 0 {
                    failures += 1;
                    assert!([1, 5, 70].contains(exit), "{name} {exit}: {body:#}");
                    assert!(
                        code.is_some_and(|code| FULL_CODES.contains(&code)),
                        "{name}: {body:#}"
                    );
                }
            }
            "after" => assert_eq!(&body["runs"][0]["tree"], tree, "{name}: {body:#}"),
            "stats" => assert_eq!(body["open"], 0, "{name}: {body:#}"),
            _ => assert_eq!(*exit, 0, "{name}: {body:#}"),
        }
    }
    assert!(failures >= 6, "{failures}");
    assert_eq!(of("patch").2["status"], "success");
}

#[test]
fn nothing_is_left_where_worktrees_are_made() {
    let project = Project::new(&[("a.txt", "a\n")]);
    project.act("build_context_pack", "run_1", &json!({}), &[]).is("success", 0);
    let runs = tree(&project.bench.home().join("state/worktrees/app"));
    let tops: BTreeSet<_> = runs.keys().map(|name| name.split('/').next().unwrap()).collect();
    assert_eq!(tops, BTreeSet::from(["run_1"]));
}
