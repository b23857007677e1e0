//! Actions on real repositories, from the command line to the result envelope.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use common::repositories::{AGENT, changes_line, ended, makes, stopped};
use common::{Bench, Output, tree};
use serde_json::{Value, json};

/// The content of an artifact, through the command.
fn content(bench: &Bench, envelope: &Value, name: &str) -> String {
    let artifacts = envelope["artifacts"].as_array().unwrap();
    let found = artifacts.iter().find(|artifact| artifact["name"] == name);
    let id = found.unwrap_or_else(|| panic!("no {name}: {envelope:#}"))["artifact_id"].clone();
    bench.run(&["artifact", "get", id.as_str().unwrap()]).ok().stdout
}

#[test]
fn actions_are_listed_and_shown() {
    let bench = Bench::new();
    let list = bench.json(&["action", "list"]).ok().json();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|one| one["action"].clone()).collect();
    for name in ["build_context_pack", "apply_patch", "run_linters", "run_tests", "commit_changes"]
    {
        assert!(names.contains(&json!(name)), "{name}: {names:?}");
        let shown = bench.json(&["action", "show", name]).ok().json();
        for part in ["inputSchema", "outputSchema", "requiredCapabilities", "resourceLimits"] {
            assert!(!shown["declaration"][part].is_null(), "{name} {part}");
        }
        let tool = format!("action.{}", name.replace('_', "-"));
        bench.json(&["tool", "show", &tool]).ok();
    }
    let pack = bench.json(&["action", "show", "build_context_pack"]).ok().json();
    assert_eq!((&pack["class"], &pack["seconds"]), (&json!("fast"), &json!(30)));
    assert_eq!((&pack["repeats"], &pack["leastMode"]), (&json!("idempotent"), &json!("read_only")));
    let text = bench.run(&["action", "show", "commit_changes"]).ok().stdout;
    for word in ["medium, at most 300 s", "once", "repo_write", "filesystem.write", "expected_tree"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    let unknown = bench.json(&["action", "show", "run_everything"]).fails(2, "ACTION_UNKNOWN");
    assert!(unknown["hint"].as_str().unwrap().contains("run_tests"), "{unknown}");
}

#[test]
fn nothing_passes_by_doing_nothing() {
    let (bench, _repo) = Bench::with_app();
    let act = |name: &str, input: &Value| bench.act(name, "one", input, &[]);
    stopped(&act("run_everything", &json!({})), 2, "failed", "ACTION_UNKNOWN");
    let surprise = json!({"surprise": 1});
    stopped(&act("build_context_pack", &surprise), 2, "failed", "INPUT_INVALID");
    stopped(&act("apply_patch", &json!({})), 2, "failed", "INPUT_INVALID");
    stopped(&act("apply_patch", &json!({"patch": "none"})), 2, "failed", "ARTIFACT_UNKNOWN");
    let bad = |input: &str| {
        let args = ["--workspace", "app", "--run", "one", "--as", AGENT, "--input", input];
        bench.json(&[&["action", "run", "build_context_pack"][..], &args].concat())
    };
    bad("[]").fails(2, "INPUT_INVALID");
    bad("{").fails(2, "INPUT_NOT_JSON");
    bad(r#"{"task":"a","task":"b"}"#).fails(2, "INPUT_DUPLICATE_KEY");
    let elsewhere = ["action", "run", "build_context_pack", "--workspace", "none", "--as", AGENT];
    let error = stopped(&bench.json(&elsewhere), 2, "failed", "WORKSPACE_UNKNOWN");
    assert!(error["hint"].as_str().unwrap().contains("app"), "{error}");
    bench.json(&["action", "run", "build_context_pack"]).fails(2, "USAGE");
}

#[test]
fn a_whole_envelope_is_taken_as_it_is_or_not_at_all() {
    let (bench, _repo) = Bench::with_app();
    let good = json!({"action": "build_context_pack", "run_id": "run_1", "inputs": {"history": 0},
        "context": {"workspace": "app", "sandbox": "read_only"}});
    bench.write("good.json", good.to_string());
    let run =
        |argument: &str| bench.json(&["action", "run", "--envelope", argument, "--as", AGENT]);
    let done = ended(&run("@good.json"), 0, "success");
    assert_eq!(done["run_id"], "run_1");
    let keys: Vec<_> = done.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["status", "artifacts", "summary", "run_id", "execution_id", "output"]);
    for pointer in ["", "/context"] {
        let mut bad = good.clone();
        bad.pointer_mut(pointer).unwrap()["surprise"] = json!(1);
        let error = run(&bad.to_string()).fails(2, "ENVELOPE_INVALID");
        assert!(error["message"].as_str().unwrap().contains("surprise"), "{error}");
    }
    let mut bad = good.clone();
    bad["context"].as_object_mut().unwrap().remove("workspace");
    run(&bad.to_string()).fails(2, "ENVELOPE_INVALID");
    let both = ["action", "run", "apply_patch", "--envelope", "{}", "--workspace", "app"];
    bench.json(&both).fails(2, "USAGE");
}

#[test]
fn a_run_that_nobody_named_gets_a_name_that_can_be_used_again() {
    let (bench, _repo) = Bench::with_app();
    let args = ["action", "run", "build_context_pack", "--workspace", "app", "--as", AGENT];
    let run = ended(&bench.json(&args), 0, "success")["run_id"].clone();
    let run = run.as_str().unwrap().strip_prefix("run_").unwrap().to_owned();
    assert!(run.len() == 32 && run.chars().all(|c| c.is_ascii_hexdigit()), "{run}");
    let text = bench.run(&args).ok().stdout;
    assert!(text.contains("replayed build_context_pack: ") && text.contains("run run_"), "{text}");
    bench.json(&["workspace", "show", "app", "--run", &format!("run_{run}")]).ok();
}

#[test]
fn a_patch_is_put_applied_and_reported() {
    let (bench, _repo) = Bench::with_app();
    let put = bench.put("one", "change.patch", &changes_line(5, "five"));
    assert_eq!(put["artifacts"][0]["name"], "change.patch");
    let id = put["artifacts"][0]["artifact_id"].as_str().unwrap().to_owned();
    let check = json!({"patch": "change.patch", "check_only": true});
    let checked = ended(&bench.act("apply_patch", "one", &check, &[]), 0, "success");
    assert_eq!(checked["output"]["applied"], false);
    assert_eq!(bench.standing("one")["changed"], 0);
    let done = ended(&bench.act("apply_patch", "one", &json!({"patch": id}), &[]), 0, "success");
    assert_eq!(done["output"]["files"], 1);
    let report: Value = serde_json::from_str(&content(&bench, &done, "patch_applied")).unwrap();
    assert_eq!(report["applied"], true);

    let shown = bench.json(&["artifact", "show", &id]).ok().json();
    assert_eq!(shown["consumers"].as_array().unwrap().len(), 2, "{shown:#}");
    assert_eq!(shown["content"], "whole");
    assert_eq!(shown["artifact"]["mediaType"], "text/x-diff");
    // Once more it does not fit, and everything is as it was.
    let tree = bench.tree_of("one");
    let again = bench.act("apply_patch", "one", &json!({"patch": "change.patch"}), &[]);
    let error = stopped(&again, 1, "failed", "PATCH_REJECTED");
    assert!(!error["details"]["rejections"].as_array().unwrap().is_empty(), "{error}");
    assert_eq!(bench.tree_of("one"), tree);
    let other = bench.act("apply_patch", "two", &json!({"patch": "change.patch"}), &[]);
    stopped(&other, 2, "failed", "ARTIFACT_UNKNOWN");
}

#[test]
fn no_patch_leads_out_of_the_workspace_or_into_what_controls_it() {
    let (bench, repo) = Bench::with_app();
    let outside = bench.dir().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, repo.path.join("link")).unwrap();
    symlink("README.md", repo.path.join("alias")).unwrap();
    repo.commit_all("links");
    let before = tree(&bench.dir().join("outside"));
    bench.put("one", "note", "x");
    let clean = bench.tree_of("one");
    for (path, exit, code) in [
        ("../outside/x", 2, "PATCH_INVALID"),
        ("/etc/x", 2, "PATCH_INVALID"),
        (".git/hooks/pre-commit", 2, "PATCH_INVALID"),
        ("sub/.GIT/config", 2, "PATCH_INVALID"),
        (".github/workflows/ci.yml", 3, "CONTROL_FILE"),
        ("sub/.gitlab-ci.yml", 3, "CONTROL_FILE"),
        (".countersign/policy/x.cedar", 3, "CONTROL_FILE"),
        ("link/x", 3, "PATH_SYMLINK"),
    ] {
        let output = bench.patch("one", &makes(path, "x\n"));
        let envelope = output.json();
        assert_eq!(envelope["error"]["code"], code, "{path}: {envelope:#}");
        assert_eq!(output.code, exit, "{path}: {envelope:#}");
        assert_eq!(bench.tree_of("one"), clean, "{path}");
    }
    // All or nothing: a good file beside a bad one is not written either.
    let both = format!("{}{}", makes("good.txt", "x\n"), makes(".github/workflows/a.yml", "x\n"));
    assert_eq!(bench.patch("one", &both).code, 3);
    assert_eq!(bench.tree_of("one"), clean);
    assert_eq!(tree(&bench.dir().join("outside")), before);
}

#[test]
fn modes_hold_and_an_omitted_one_never_widens() {
    let (bench, repo) = Bench::with_app();
    bench.put("one", "change.patch", &changes_line(5, "five"));
    let input = json!({"patch": "change.patch"});
    let narrow = bench.act("apply_patch", "one", &input, &["--mode", "read_only"]);
    let error = stopped(&narrow, 3, "blocked", "MODE_FORBIDS");
    assert!(error["message"].as_str().unwrap().contains("read_only"), "{error}");
    assert_eq!(bench.standing("one")["changed"], 0);
    ended(&bench.act("apply_patch", "one", &input, &[]), 0, "success");

    let commit = json!({"message": "m", "paths": ["src/lines.txt"],
        "expected_tree": bench.tree_of("one")});
    for mode in [&[][..], &["--mode", "workspace_write"], &["--mode", "read_only"]] {
        let output = bench.act("commit_changes", "one", &commit, mode);
        stopped(&output, 3, "blocked", "MODE_FORBIDS");
    }
    assert_eq!(repo.git(&["branch", "--list", "countersign/*"]), "");
    let wide = bench.act("commit_changes", "one", &commit, &["--mode", "repo_write"]);
    ended(&wide, 0, "success");
}

#[test]
fn agents_need_grants_on_the_path_of_the_workspace() {
    let bench = Bench::new();
    let repo = bench.repository("app");
    bench.add("app", &repo).ok();
    let act = || bench.act("build_context_pack", "one", &json!({}), &[]);
    let error = stopped(&act(), 3, "blocked", "GRANT_MISSING");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("grant issue") && hint.contains(&repo.path()), "{error}");
    // What it says can be typed as it is, and helps.
    let words: Vec<_> = hint.split(' ').skip(1).map(|word| word.trim_matches('\'')).collect();
    bench.json(&words).ok();
    ended(&act(), 0, "success");
    // A grant of reading is none of writing.
    bench.put("one", "change.patch", &changes_line(5, "five"));
    let output = bench.act("apply_patch", "one", &json!({"patch": "change.patch"}), &[]);
    stopped(&output, 3, "blocked", "GRANT_MISSING");
    assert_eq!(bench.standing("one")["changed"], 0);
}

#[test]
fn a_commit_holds_exactly_what_was_named_and_runs_nothing() {
    let (bench, repo) = Bench::with_app();
    let ran = bench.dir().join("hook-ran");
    for hook in ["pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-update"]
    {
        let path = repo.path.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    repo.write("README.md", "half written\n");
    let before = repo.seen();
    let first = repo.tip("main");
    ended(&bench.patch("one", &changes_line(5, "five")), 0, "success");
    ended(&bench.patch("one", &makes("left.txt", "left\n")), 0, "success");
    let done = ended(&bench.commit("one", &["src/lines.txt"], &json!({})), 0, "success");
    let commit = done["output"]["commit"].as_str().unwrap();
    assert_eq!(done["output"]["branch"], "countersign/one");
    assert_eq!(repo.tip("countersign/one"), commit);
    assert_eq!(repo.git(&["rev-parse", &format!("{commit}^")]), first);
    let names = repo.git(&["diff", "--name-only", &first, commit]);
    assert_eq!(names, "src/lines.txt", "left.txt was not named");
    let message = repo.git(&["log", "-1", "--format=%B", commit]);
    let execution = done["execution_id"].as_str().unwrap();
    assert!(message.starts_with("Change lines\n"), "{message}");
    assert!(message.contains("\nCountersign-Run: one\n"), "{message}");
    assert!(message.contains(&format!("\nCountersign-Receipt: {execution}")), "{message}");
    assert!(!ran.exists(), "a hook ran");
    assert_eq!(repo.seen(), before, "the checkout, the index and main are the owner's");
    repo.git(&["fsck", "--strict"]);
    bench.json(&["receipt", execution, "--out", "-"]).ok();

    // The same again is the same commit, and no other.
    let count = repo.count("countersign/one");
    let again = bench.commit("one", &["src/lines.txt"], &json!({}));
    let replayed = ended(&again, 0, "replayed");
    assert_eq!(replayed["output"]["commit"], commit);
    assert_eq!(replayed["replayed_from"], execution);
    assert_eq!(repo.count("countersign/one"), count);
    // The rest follows on top.
    let rest = ended(&bench.commit("one", &["left.txt"], &json!({})), 0, "success");
    assert_eq!(rest["output"]["parent"], commit);
    assert_eq!(repo.count("countersign/one"), count + 1);
    assert_eq!(bench.standing("one")["unpublished"], false);
    bench.verify();
}

#[test]
fn what_cannot_be_committed_is_refused_before_anything_moves() {
    let (bench, repo) = Bench::with_app();
    ended(&bench.patch("one", &changes_line(5, "five")), 0, "success");
    let refused = |paths: &[&str], more: &Value, exit: i32, status: &str, code: &str| {
        stopped(&bench.commit("one", paths, more), exit, status, code)
    };
    refused(&["src/none.txt"], &json!({}), 2, "failed", "PATH_UNCHANGED");
    refused(&["README.md"], &json!({}), 2, "failed", "PATH_UNCHANGED");
    refused(&["../x"], &json!({}), 2, "failed", "PATH_INVALID");
    let old = json!({"expected_tree": "0".repeat(40)});
    refused(&["src/lines.txt"], &old, 1, "failed", "WORKSPACE_CHANGED");
    let main = json!({"branch": "main"});
    refused(&["src/lines.txt"], &main, 2, "failed", "BRANCH_CHECKED_OUT");
    refused(&[], &json!({}), 2, "failed", "INPUT_INVALID");
    assert_eq!(repo.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
}

#[test]
fn the_second_to_publish_over_the_same_lines_gets_the_lines() {
    let (bench, repo) = Bench::with_app();
    let branch = json!({"branch": "shared"});
    for (run, line, to) in [("one", 5, "five"), ("two", 5, "FIVE"), ("three", 10, "ten")] {
        ended(&bench.patch(run, &changes_line(line, to)), 0, "success");
    }
    ended(&bench.commit("one", &["src/lines.txt"], &branch), 0, "success");
    let tip = repo.tip("shared");
    let output = bench.commit("two", &["src/lines.txt"], &branch);
    let error = stopped(&output, 1, "failed", "PUBLISH_CONFLICT");
    let conflict = &error["details"]["conflicts"][0];
    assert_eq!(conflict["path"], "src/lines.txt", "{error:#}");
    assert_eq!(conflict["lines"][0]["ours"], json!({"start": 5, "count": 1}), "{error:#}");
    let forced = json!({"branch": "shared", "rebase": true});
    let output = bench.commit("two", &["src/lines.txt"], &forced);
    stopped(&output, 1, "failed", "PUBLISH_CONFLICT");
    assert_eq!(repo.tip("shared"), tip);
    // Elsewhere in the same file: only on request, and then on top.
    let output = bench.commit("three", &["src/lines.txt"], &branch);
    let error = stopped(&output, 1, "failed", "PUBLISH_CONFLICT");
    assert!(error["hint"].as_str().unwrap().contains("rebase"), "{error}");
    let done = ended(&bench.commit("three", &["src/lines.txt"], &forced), 0, "success");
    assert_eq!(done["output"]["rebased"], true);
    assert_eq!(done["output"]["parent"], tip.as_str());
    let merged = repo.git(&["show", "shared:src/lines.txt"]);
    assert!(merged.contains("five") && merged.contains("ten"), "{merged}");
}

#[test]
fn two_publishers_at_once_make_one_commit_each_or_a_conflict() {
    let (bench, repo) = Bench::with_app();
    let runs = ["one", "two", "three"];
    for (number, run) in runs.iter().enumerate() {
        ended(&bench.patch(run, &changes_line(5, &format!("by {number}"))), 0, "success");
    }
    let branch = json!({"branch": "shared"});
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let (bench, branch) = (&bench, &branch);
        let threads: Vec<_> = runs
            .map(|run| scope.spawn(move || bench.commit(run, &["src/lines.txt"], branch)))
            .into();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let done = outputs.iter().filter(|output| output.code == 0).count();
    assert_eq!(done, 1, "{outputs:#?}");
    for output in outputs.iter().filter(|output| output.code != 0) {
        let code = output.json()["error"]["code"].clone();
        assert!(code == "PUBLISH_CONFLICT" || code == "CONFLICT", "{output:#?}");
        assert_eq!(output.code, 1, "{output:#?}");
    }
    assert_eq!(repo.count("shared"), 2);
    bench.verify();
}

#[test]
fn the_same_pack_is_given_again_and_made_again_on_request() {
    let (bench, _repo) = Bench::with_app();
    let pack = |run: &str, more: &[&str]| {
        let input = json!({"task": "look", "history": 0, "paths": ["src/lines.txt"]});
        bench.act("build_context_pack", run, &input, more)
    };
    let first = ended(&pack("one", &[]), 0, "success");
    let second = ended(&pack("one", &[]), 0, "replayed");
    assert_eq!(second["replayed_from"], first["execution_id"]);
    assert_eq!(second["output"], first["output"]);
    assert_eq!(second["artifacts"], first["artifacts"]);
    let text = content(&bench, &second, "context_pack.txt");
    assert!(text.contains("line 5"), "{text}");
    let fresh = ended(&pack("one", &["--fresh"]), 0, "success");
    assert_eq!(fresh["output"]["digest"], first["output"]["digest"]);
    assert_ne!(fresh["execution_id"], first["execution_id"]);
    assert_eq!(content(&bench, &fresh, "context_pack.txt"), text);
    // Another tree is another question.
    ended(&bench.patch("one", &changes_line(5, "five")), 0, "success");
    let other = ended(&pack("one", &[]), 0, "success");
    assert_ne!(other["output"]["digest"], first["output"]["digest"]);
    // A content that is gone is not promised again.
    let list = bench.json(&["artifact", "list", "--run", "one", "--name", "context_pack"]);
    let digest = list.ok().json()[0]["digest"].as_str().unwrap().to_owned();
    let blob = bench.home().join("state/blobs").join(&digest[..2]).join(&digest[2..]);
    fs::remove_file(blob).unwrap();
    ended(&pack("one", &[]), 0, "success");
}

#[test]
fn a_summary_of_the_same_run_has_the_same_bytes() {
    let (bench, _repo) = Bench::with_app();
    ended(&bench.patch("one", &changes_line(5, "five")), 0, "success");
    ended(&bench.commit("one", &["src/lines.txt"], &json!({})), 0, "success");
    bench.act("apply_patch", "one", &json!({"patch": "none.patch"}), &[]);
    let summarise = || ended(&bench.act("summarize_run", "one", &json!({}), &[]), 0, "success");
    let (first, second) = (summarise(), summarise());
    assert_eq!(first["output"]["digest"], second["output"]["digest"]);
    for name in ["summary", "summary.md"] {
        assert_eq!(content(&bench, &first, name), content(&bench, &second, name), "{name}");
    }
    let text = content(&bench, &first, "summary.md");
    assert!(text.contains("countersign/one") && text.contains("change.patch"), "{text}");
}

const POLICY: &str = r#"
@id("patches")
@reason("somebody looks at patches first")
forbid (principal, action == Action::"invoke_unattended", resource == Tool::"action.apply-patch");
"#;

/// A patch that waits for a human, and the execution that does.
fn waiting(bench: &Bench) -> String {
    fs::write(bench.home().join("policy/patches.cedar"), POLICY).unwrap();
    bench.hire("human:ann");
    bench.put("one", "change.patch", &changes_line(5, "five"));
    let output = bench.act("apply_patch", "one", &json!({"patch": "change.patch"}), &[]);
    let envelope = ended(&output, 4, "approval_required");
    let hint = envelope["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("countersign approval show"), "{hint}");
    assert!(hint.contains("countersign action resume"), "{hint}");
    envelope["execution_id"].as_str().unwrap().to_owned()
}

fn approve(bench: &Bench, execution: &str) {
    let key = common::desk::key_of("human:ann");
    bench.json(&["approval", "approve", execution, "--yes", "--key-file", &key]).ok();
}

#[test]
fn an_action_that_people_are_asked_about_runs_when_they_agree() {
    let (bench, _repo) = Bench::with_app();
    let execution = waiting(&bench);
    let resume = ["action", "resume", execution.as_str()];
    ended(&bench.json(&resume), 4, "approval_required");
    approve(&bench, &execution);
    assert_eq!(bench.standing("one")["changed"], 0, "agreeing is not running");
    let done = ended(&bench.json(&resume), 0, "success");
    assert_eq!((&done["run_id"], &done["execution_id"]), (&json!("one"), &json!(execution)));
    assert_eq!(bench.standing("one")["changed"], 1);
    bench.json(&resume).fails(2, "NOT_WAITING");
    let call = bench.call("text.digest", &json!({"text": "x"})).ok().json();
    let other = call["executionId"].as_str().unwrap();
    bench.json(&["action", "resume", other]).fails(2, "NOT_AN_ACTION");
}

#[test]
fn an_approval_is_void_once_the_worktree_is_another() {
    let (bench, _repo) = Bench::with_app();
    let execution = waiting(&bench);
    approve(&bench, &execution);
    fs::write(bench.files_of("one").join("README.md"), "changed underneath\n").unwrap();
    let output = bench.json(&["action", "resume", &execution]);
    let error = stopped(&output, 4, "blocked", "APPROVAL_VOID");
    assert!(error["message"].as_str().unwrap().contains("workspace"), "{error}");
    let text = fs::read_to_string(bench.files_of("one").join("src/lines.txt")).unwrap();
    assert_eq!(text, common::repositories::lines());
    bench.verify();
}

#[test]
fn artifacts_are_listed_got_and_verified() {
    let (bench, _repo) = Bench::with_app();
    let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    bench.write("data.bin", &binary);
    let put = ["artifact", "put", "data.bin", "--workspace", "app", "--run", "one", "--as", AGENT];
    let first = ended(&bench.json(&put), 0, "success")["output"]["artifact_id"].clone();
    bench.put("one", "note.txt", "hello\n");
    bench.put("two", "note.txt", "other\n");
    let list = |more: &[&str]| bench.json(&[&["artifact", "list"][..], more].concat()).ok().json();
    assert_eq!(list(&[]).as_array().unwrap().len(), 3);
    assert_eq!(list(&["--run", "one"]).as_array().unwrap().len(), 2);
    assert_eq!(list(&["--limit", "1"])[0]["run"], "two", "newest first");
    assert_eq!(list(&["--name", "data.bin"])[0]["id"], first);

    let get = |which: &[&str]| bench.run(&[&["artifact", "get"][..], which].concat());
    assert_eq!(get(&["note.txt", "--run", "one"]).ok().stdout, "hello\n");
    get(&["data.bin", "--run", "one", "-o", "copy.bin"]).ok();
    assert_eq!(fs::read(bench.ws().join("copy.bin")).unwrap(), binary);
    let json = |which: &[&str]| bench.json(&[&["artifact", "get"][..], which].concat());
    json(&["note.txt"]).fails(2, "RUN_REQUIRED");
    json(&["none", "--run", "one", "-o", "x"]).fails(2, "ARTIFACT_UNKNOWN");
    json(&["note.txt", "--run", "one"]).fails(2, "USAGE");

    let verify = |what: &[&str]| bench.json(&[&["artifact", "verify"][..], what].concat());
    let whole = verify(&["--all"]).ok().json();
    assert_eq!((&whole["ok"], &whole["checked"]), (&json!(true), &json!(3)));
    bench.json(&["artifact", "verify"]).fails(2, "USAGE");
    let digest = list(&["--name", "data.bin"])[0]["digest"].as_str().unwrap().to_owned();
    let blob = bench.home().join("state/blobs").join(&digest[..2]).join(&digest[2..]);
    fs::remove_file(&blob).unwrap();
    let bad = verify(&["--run", "one"]);
    assert_eq!(bad.code, 1);
    assert_eq!(bad.json()["bad"][0]["content"], "missing", "{bad:#?}");
    fs::write(&blob, "something else").unwrap();
    let id = first.as_str().unwrap();
    assert_eq!(verify(&[id]).json()["bad"][0]["content"], "damaged");
    assert_eq!(verify(&["--run", "two"]).ok().json()["checked"], 1);
    let damaged = bench.json(&["artifact", "get", id, "-o", "copy.bin"]);
    assert_ne!(damaged.code, 0);
    assert_eq!(fs::read(bench.ws().join("copy.bin")).unwrap(), binary, "the old file stays whole");
    assert_eq!(bench.json(&["artifact", "show", id]).ok().json()["content"], "damaged");
}

#[test]
fn calls_say_which_run_they_belong_to() {
    let (bench, _repo) = Bench::with_app();
    bench.put("one", "note.txt", "hello\n");
    bench.put("two", "note.txt", "other\n");
    bench.call("text.digest", &json!({"text": "x"})).ok();
    let of = |run: &str| bench.json(&["execution", "list", "--run", run]).ok().json();
    assert_eq!(of("one").as_array().unwrap().len(), 1);
    assert_eq!(of("one")[0]["work"]["workspace"], "app");
    assert_eq!(of("none"), json!([]));
    let text = bench.run(&["execution", "list", "--run", "two"]).ok().stdout;
    assert!(text.contains("run two on app"), "{text}");
    let execution = of("two")[0]["execution"].as_str().unwrap().to_owned();
    let shown = bench.run(&["execution", "show", &execution]).ok().stdout;
    assert!(shown.contains(", run two on app") && shown.contains("left note.txt"), "{shown}");
    let events = bench.json(&["audit", "list", "--run", "two"]).ok().json();
    let events = events.as_array().unwrap();
    assert!(
        !events.is_empty() && events.iter().all(|one| one["executionId"] == execution.as_str())
    );
}

#[test]
fn a_terminal_is_not_steered_by_what_runs_and_files_hold() {
    let (bench, _repo) = Bench::with_app();
    let evil = makes("evil.txt", "\u{1b}[2Jgone\u{202e}\n");
    ended(&bench.patch("one", &evil), 0, "success");
    let (code, seen) = bench.on_a_terminal(&["workspace", "diff", "app", "--run", "one"]);
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("\\u{1b}[2Jgone\\u{202e}"), "{seen:?}");
    assert!(!seen.contains("\u{1b}[2J") && !seen.contains('\u{202e}'), "{seen:?}");
    assert!(seen.contains("\u{1b}[1m\u{1b}[32m+"), "added lines are coloured: {seen:?}");

    bench.put("one", "text", "\u{1b}[2Jshown\n");
    let (code, seen) = bench.on_a_terminal(&["artifact", "get", "text", "--run", "one"]);
    assert_eq!((code, seen.trim_end()), (0, "\\u{1b}[2Jshown"));
    bench.put("one", "binary", "a\0b");
    let get = ["artifact", "get", "binary", "--run", "one"];
    let (code, seen) = bench.on_a_terminal(&get);
    assert!(code == 2 && seen.contains("BINARY_TO_TERMINAL"), "{seen:?}");
    assert_eq!(bench.run(&get).ok().stdout, "a\0b", "a pipe gets what there is");
}
