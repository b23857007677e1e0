//! A repository that is configured to run programs wherever git lets it. None of them may run.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use common::{Fixture, leash, put};
use countersign_repository::{NewCommit, ObjectId, RefChange, RefOutcome, Signature, Worktree};

const HOOKS: [&str; 12] = [
    "pre-commit",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "post-index-change",
    "reference-transaction",
    "pre-push",
    "post-rewrite",
    "pre-auto-gc",
    "post-merge",
    "fsmonitor-watchman",
    "proc-receive",
];

/// Every setting that names a program; each leaves its mark in the canary.
fn arm(fixture: &Fixture) -> PathBuf {
    let canary = fixture.room().join("canary");
    let script = fixture.room().join("run");
    let text = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\n", canary.display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let run = script.to_str().unwrap();
    for hook in HOOKS {
        let path = fixture.user().join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(&script, path).unwrap();
    }
    let shell = format!("!{run}");
    let url = format!("ext::{run}");
    let hooks = fixture.user().join(".git/hooks");
    let settings = [
        ("core.fsmonitor", run),
        ("core.hooksPath", hooks.to_str().unwrap()),
        ("core.sshCommand", run),
        ("core.gitProxy", run),
        ("core.askPass", run),
        ("core.editor", run),
        ("core.pager", run),
        ("core.alternateRefsCommand", run),
        ("core.attributesFile", "attributes-of-the-user"),
        ("core.autocrlf", "true"),
        ("filter.evil.clean", run),
        ("filter.evil.smudge", run),
        ("filter.evil.process", run),
        ("filter.evil.required", "true"),
        ("diff.external", run),
        ("diff.evil.command", run),
        ("diff.evil.textconv", run),
        ("merge.evil.driver", run),
        ("credential.helper", shell.as_str()),
        ("gpg.program", run),
        ("commit.gpgSign", "true"),
        ("gc.auto", "1"),
        ("protocol.ext.allow", "always"),
        ("remote.origin.url", url.as_str()),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", run),
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("sequence.editor", run),
        ("uploadpack.packObjectsHook", run),
        ("pager.log", run),
        ("interactive.diffFilter", run),
        ("include.path", "more-config"),
    ];
    for (key, value) in settings {
        fixture.git(&["config", key, value]);
    }
    for command in ["cat-file", "rev-parse", "rev-list", "update-ref", "index-pack", "ls-tree"] {
        fixture.git(&["config", &format!("alias.{command}"), &shell]);
    }
    fs::write(fixture.user().join(".git/more-config"), "[core]\n\tfsmonitor = x\n").unwrap();
    fs::create_dir_all(fixture.user().join(".git/info")).unwrap();
    let attributes = "* filter=evil diff=evil merge=evil ident text eol=crlf\n";
    fs::write(fixture.user().join(".git/info/attributes"), attributes).unwrap();
    canary
}

fn ada() -> Signature {
    Signature { name: "Ada".to_owned(), email: "a@b.c".to_owned() }
}

fn commit(worktree: &Worktree, tree: ObjectId) -> ObjectId {
    let parents = [*worktree.base()];
    let (author, committer) = (ada(), ada());
    let new = NewCommit { tree, parents: &parents, author, committer, time: 1, message: "m" };
    worktree.commit(&new, &mut leash()).unwrap()
}

#[test]
fn nothing_that_a_repository_configures_is_run() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f.txt", "$Id$\none\ntwo\n");
    fixture.write(".gitattributes", "* filter=evil diff=evil merge=evil ident text eol=crlf\n");
    fixture.commit("base");
    let canary = arm(&fixture);
    let user = fixture.open();
    let head = user.resolve("main", &mut leash()).unwrap();

    let place = fixture.room().join("w");
    let worktree = Worktree::create(&place, &user, &head, &mut leash()).unwrap();
    assert_eq!(fs::read(worktree.tree().join("f.txt")).unwrap(), b"$Id$\none\ntwo\n");
    let before = worktree.state(&mut leash()).unwrap();
    put(&worktree.tree(), b"f.txt", b"$Id$\none\nTWO\n");
    let ours = worktree.state(&mut leash()).unwrap();
    put(&worktree.tree(), b"f.txt", b"$Id$\none\nthree\n");
    let theirs = worktree.state(&mut leash()).unwrap();
    worktree.diff(&before, &ours, &[], &mut Vec::new(), &mut leash()).unwrap();
    worktree.line_counts(&before, &ours, &mut leash()).unwrap();
    let _merge = worktree.merge_check(&before, &ours, &theirs, &mut leash()).unwrap();
    worktree.history(10, &mut leash()).unwrap();
    worktree.list(&ours, &mut leash()).unwrap();
    worktree.materialise(&ours, &fixture.room().join("copy"), &mut leash()).unwrap();
    worktree.restore(&before, &mut leash()).unwrap();
    let new = commit(&worktree, ours);
    worktree.transfer(&user, &new, &mut leash()).unwrap();
    let by = ada();
    let change =
        RefChange { name: "refs/heads/run", new, old: None, message: "m", by: &by, time: 1 };
    let update = user.update_ref(&change, &mut leash()).unwrap();
    assert_eq!(update.outcome, RefOutcome::Updated);
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());

    // Plain git falls into the traps, so they were armed.
    let plain = fixture.command(&fixture.user(), &["status"]).output().unwrap();
    assert!(canary.exists(), "{plain:?}");
}

#[test]
fn what_would_harm_whoever_checks_it_out_is_not_let_in() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let modules = b"[submodule \"x\"]\n\tpath = x\n\turl = u\n\tupdate = !id\n";
    put(&worktree.tree(), b".gitmodules", modules);
    let tree = worktree.state(&mut leash()).unwrap();
    let new = commit(&worktree, tree);
    let transferred = worktree.transfer(&fixture.open(), &new, &mut leash());
    assert_eq!(transferred.unwrap_err().code, "OBJECTS_REFUSED");
}

#[test]
fn a_missing_object_is_not_fetched_from_anywhere() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "a content that gets lost");
    fixture.commit("base");
    let canary = arm(&fixture);
    let blob = fixture.command(&fixture.user(), &["rev-parse", "HEAD:f"]).output().unwrap();
    let blob = String::from_utf8(blob.stdout).unwrap();
    let (directory, file) = blob.trim().split_at(2);
    let _ = fs::remove_file(&canary);
    fs::remove_file(fixture.user().join(".git/objects").join(directory).join(file)).unwrap();
    let user = fixture.open();
    let head = user.resolve("main", &mut leash()).unwrap();
    let made = Worktree::create(&fixture.room().join("w"), &user, &head, &mut leash());
    assert_eq!(made.unwrap_err().code, "BASE_INCOMPLETE");
    // Asking the user's own repository, which knows where it came from, does not fetch, either.
    let absent = "0123456789".repeat(4).parse().unwrap();
    assert_eq!(user.check_commit(&absent, &mut leash()).unwrap_err().code, "OBJECT_UNKNOWN");
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());
}

#[test]
fn replaced_objects_and_grafts_are_not_believed() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "true");
    fixture.commit("one");
    let blob = fixture.id("HEAD:f");
    fixture.write("f", "false");
    let two = fixture.commit("two");
    let false_blob = fixture.id("HEAD:f");
    fixture.git(&["replace", &false_blob.to_string(), &blob.to_string()]);
    fixture.git(&["replace", "--graft", &two.to_string()]);
    let worktree = fixture.worktree("w");
    assert_eq!(fs::read(worktree.tree().join("f")).unwrap(), b"false");
    assert_eq!(worktree.history(5, &mut leash()).unwrap().len(), 2);
}
