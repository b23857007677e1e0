//! Workspaces on real repositories: registered, looked at, reset and removed; runs are private.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;

use common::Bench;
use common::repositories::{changes_line, ended, makes, stopped};
use serde_json::json;

#[test]
fn a_workspace_is_added_listed_shown_and_removed() {
    let bench = Bench::new();
    let none = bench.run(&["workspace", "list"]).ok().stdout;
    assert!(none.contains("no workspaces"), "{none}");
    let repo = bench.repository("app");
    let first = repo.tip("main");
    let added = bench.add("app", &repo).ok().json();
    assert_eq!(added["id"], "app");
    assert_eq!(added["branch"], "main");
    assert_eq!(added["base"], first.as_str());
    assert_eq!(added["addedBy"], "human:tester");
    assert_eq!(added["path"], repo.path());
    bench.add("app", &repo).fails(2, "WORKSPACE_EXISTS");

    repo.write("new.txt", "new\n");
    let second = repo.commit_all("second");
    let shown = bench.json(&["workspace", "show", "app"]).ok().json();
    assert_eq!(shown["workspace"]["base"], first.as_str());
    assert_eq!(shown["tip"]["commit"], second.as_str());
    assert_eq!(shown["runs"], json!([]));
    let text = bench.run(&["workspace", "show", "app"]).ok().stdout;
    for expected in [&repo.path(), "main", &first[..12], &second[..12], "human:tester"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(bench.run(&["workspace", "list"]).ok().stdout.contains("app at "));

    bench.json(&["workspace", "remove", "app"]).ok();
    assert_eq!(bench.json(&["workspace", "list"]).ok().json(), json!([]));
    bench.json(&["workspace", "show", "app"]).fails(2, "WORKSPACE_UNKNOWN");
    bench.verify();
}

#[test]
fn what_is_no_repository_or_no_branch_is_refused() {
    let bench = Bench::new();
    let repo = bench.repository("app");
    fs::create_dir(bench.dir().join("plain")).unwrap();
    let add = |id: &str, path: &str, more: &[&str]| {
        bench.json(&[&["workspace", "add", id, path][..], more].concat())
    };
    add("a", "../plain", &[]).fails(2, "NOT_A_REPOSITORY");
    add("a", "../gone", &[]).fails(2, "NOT_A_REPOSITORY");
    add("a", &repo.path(), &["--branch", "none"]).fails(2, "BRANCH_UNKNOWN");
    add("a/b", &repo.path(), &[]).fails(2, "WORKSPACE_ID_INVALID");
    let denied = add("a", &repo.path(), &["--as", "agent:a"]).fails(3, "PEOPLE_ONLY");
    assert!(denied["hint"].as_str().unwrap().contains("human"), "{denied}");
    assert_eq!(bench.json(&["workspace", "list"]).ok().json(), json!([]));
    // A branch that is not checked out is as good as any.
    repo.git(&["branch", "side"]);
    let added = add("a", &repo.path(), &["--branch", "side"]).ok().json();
    assert_eq!(added["branch"], "side");
    bench.json(&["workspace", "remove", "a", "--as", "agent:a"]).fails(3, "PEOPLE_ONLY");
}

#[test]
fn a_run_works_in_private_and_the_owner_sees_nothing_of_it() {
    let (bench, repo) = Bench::with_app();
    // The owner is in the middle of something: staged, not staged and not tracked.
    repo.write("src/lines.txt", "mine\n");
    repo.git(&["add", "src/lines.txt"]);
    repo.write("README.md", "half written\n");
    repo.write("notes.txt", "mine\n");
    let before = repo.seen();
    ended(&bench.patch("one", &changes_line(5, "five")), 0, "success");
    let patched = fs::read_to_string(bench.files_of("one").join("src/lines.txt")).unwrap();
    assert!(patched.contains("line 4\nfive\nline 6\n"), "{patched}");
    assert!(!bench.files_of("one").join("notes.txt").exists(), "made from the commit alone");
    // Another run starts from the same commit, and sees nothing of the first.
    ended(&bench.patch("two", &makes("two.txt", "two\n")), 0, "success");
    assert!(!bench.files_of("one").join("two.txt").exists());
    let other = fs::read_to_string(bench.files_of("two").join("src/lines.txt")).unwrap();
    assert_eq!(other, common::repositories::lines());
    assert_eq!(repo.seen(), before, "byte for byte");

    let runs = bench.json(&["workspace", "show", "app"]).ok().json()["runs"].clone();
    let of = |at: usize| (runs[at]["run"].clone(), runs[at]["changed"].clone());
    assert_eq!(of(0), (json!("one"), json!(1)));
    assert_eq!(of(1), (json!("two"), json!(1)));
    assert_eq!(runs[0]["calls"], 2);
    assert_eq!(runs[0]["unpublished"], true);
    assert_eq!(runs[0]["base"], repo.tip("main").as_str());
}

#[test]
fn a_diff_shows_what_a_run_has_changed() {
    let (bench, repo) = Bench::with_app();
    ended(&bench.patch("one", &changes_line(5, "five")), 0, "success");
    ended(&bench.patch("one", &makes("new.txt", "a\nb\n")), 0, "success");
    let diff = bench.run(&["workspace", "diff", "app", "--run", "one"]).ok().stdout;
    assert!(diff.contains("-line 5\n+five\n"), "{diff}");
    assert!(diff.contains("new file mode 100644"), "{diff}");
    // What it prints is a patch: the owner can take it.
    bench.write("taken.patch", &diff);
    repo.git(&["apply", &bench.ws().join("taken.patch").display().to_string()]);
    assert_eq!(fs::read_to_string(repo.path.join("new.txt")).unwrap(), "a\nb\n");

    let stat = bench.run(&["workspace", "diff", "app", "--run", "one", "--stat"]).ok().stdout;
    assert!(stat.contains("A new.txt +2 -0"), "{stat}");
    assert!(stat.contains("M src/lines.txt +1 -1"), "{stat}");
    assert!(stat.contains("2 files, 3 lines added, 1 deleted"), "{stat}");
    let value = bench.json(&["workspace", "diff", "app", "--run", "one"]).ok().json();
    assert_eq!(value["diff"].as_str().unwrap(), diff);
    assert_eq!(value["files"][0]["path"], "new.txt");
    assert_eq!(value["files"][0]["status"], "added");
    bench.json(&["workspace", "diff", "app", "--run", "none"]).fails(2, "RUN_UNKNOWN");
    assert!(!bench.files_of("none").exists(), "looking makes nothing");
}

#[test]
fn a_reset_asks_and_keeps_what_it_throws_away() {
    let (bench, _repo) = Bench::with_app();
    ended(&bench.patch("one", &changes_line(5, "five")), 0, "success");
    let tree = bench.tree_of("one");
    let reset = ["workspace", "reset", "app", "--run", "one"];
    bench.json(&reset).fails(2, "CONFIRMATION_MISSING");
    assert_eq!(bench.tree_of("one"), tree, "nobody agreed");
    let sure = [&reset[..], &["--yes"]].concat();
    bench.json(&[&sure[..], &["--as", "agent:a"]].concat()).fails(3, "PEOPLE_ONLY");
    let done = bench.json(&sure).ok().json();
    assert_eq!((&done["kept"], &done["thrownAway"]), (&json!(tree), &json!(1)));
    assert_eq!(bench.standing("one")["changed"], 0);
    // The old tree is there, and pinned.
    let git = bench.files_of("one").with_file_name("repo.git");
    let said = std::process::Command::new("git")
        .arg("--git-dir")
        .arg(&git)
        .args(["show", &format!("refs/countersign/pin/{tree}:src/lines.txt")])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("five"), "{said:?}");
    // Nothing to throw away: nobody is asked.
    bench.json(&reset).ok();
    bench.json(&["workspace", "reset", "app", "--run", "none", "--yes"]).fails(2, "RUN_UNKNOWN");
    assert!(!bench.files_of("none").exists(), "a reset makes no run");
}

#[test]
fn a_workspace_with_changes_of_runs_is_removed_by_force_or_once_they_are_committed() {
    let (bench, repo) = Bench::with_app();
    ended(&bench.patch("one", &changes_line(5, "five")), 0, "success");
    let error = bench.json(&["workspace", "remove", "app"]).fails(2, "WORKSPACE_IN_USE");
    assert!(error["message"].as_str().unwrap().contains("one"), "{error}");
    ended(&bench.commit("one", &["src/lines.txt"], &json!({})), 0, "success");
    assert_eq!(bench.standing("one")["unpublished"], false);
    bench.json(&["workspace", "remove", "app"]).ok();
    assert!(!bench.files_of("one").exists());
    assert!(repo.git(&["show", "countersign/one:src/lines.txt"]).contains("five"));

    bench.add("app", &repo).ok();
    ended(&bench.patch("two", &changes_line(6, "six")), 0, "success");
    let removed = bench.json(&["workspace", "remove", "app", "--force"]).ok().json();
    assert_eq!(removed["runs"], json!(["two"]));
}

#[test]
fn a_worktree_that_was_deleted_is_missed_and_made_anew_on_demand() {
    let (bench, _repo) = Bench::with_app();
    ended(&bench.patch("one", &changes_line(5, "five")), 0, "success");
    fs::remove_dir_all(bench.files_of("one").parent().unwrap()).unwrap();
    let context = |more: &[&str]| bench.act("build_context_pack", "one", &json!({}), more);
    let error = stopped(&context(&[]), 1, "failed", "WORKTREE_LOST");
    assert!(error["hint"].as_str().unwrap().contains("workspace reset"), "{error}");
    assert!(!bench.files_of("one").exists(), "it is not quietly made from something else");
    bench.json(&["workspace", "diff", "app", "--run", "one"]).fails(1, "WORKTREE_LOST");
    bench.json(&["workspace", "reset", "app", "--run", "one"]).ok();
    assert_eq!(bench.standing("one")["changed"], 0);
    ended(&context(&[]), 0, "success");
    // Only its files.
    fs::remove_dir_all(bench.files_of("one")).unwrap();
    stopped(&context(&[]), 1, "failed", "WORKTREE_LOST");
    bench.verify();
}

#[test]
fn a_run_works_on_one_workspace() {
    let (bench, _repo) = Bench::with_app();
    let other = bench.repository("other");
    bench.add("other", &other).ok();
    bench.grant_all(&other);
    bench.put("one", "note", "x");
    let args = ["--workspace", "other", "--run", "one", "--as", "agent:a"];
    let output = bench.json(&[&["action", "run", "build_context_pack"][..], &args].concat());
    stopped(&output, 2, "failed", "RUN_ELSEWHERE");
    let reset = ["workspace", "reset", "other", "--run", "one", "--yes"];
    bench.json(&reset).fails(2, "RUN_ELSEWHERE");
    assert!(!bench.home().join("state/worktrees/other/one").exists());
}
