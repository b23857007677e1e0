//! Private worktrees of real repositories: byte for byte, all or nothing, and lost ones are named.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::{Fixture, code, leash, put};
use countersign_model::Failure;
use countersign_repository::{Leash, ObjectFormat, Repository, Worktree};

/// Attributes with which plain git would change bytes on their way.
const ATTRIBUTES: &str = "*.crlf text eol=crlf\n*.auto text=auto eol=crlf\n*.id ident\n\
                          *.f filter=shout\n*.u16 text working-tree-encoding=UTF-16\n";

#[test]
fn a_checkout_is_what_was_committed_byte_for_byte() {
    let Some(fixture) = Fixture::new() else { return };
    let files: &[(&str, &[u8])] = &[
        ("a.crlf", b"one\ntwo\n"),
        ("b.auto", b"one\ntwo\n"),
        ("c.id", b"$Id$ $Id: x $\n"),
        ("d.f", b"quiet\n"),
        ("e.u16", b"plain\n"),
        ("no-newline", b"x"),
        ("crlf.txt", b"a\r\nb\r\n"),
        ("mixed.crlf", b"a\r\nb\n"),
        ("bin", b"\0\xff\r\n\x1a"),
        ("sp ace/\u{e9}\"q\".txt", b"1"),
        ("new\nline\ttab", b"2"),
        ("-dash", b"3"),
        ("empty", b""),
    ];
    for (path, bytes) in files {
        fixture.write(path, bytes);
    }
    fixture.write("run.sh", "#!/bin/sh\n");
    fixture.executable("run.sh");
    fixture.link("link", "/etc/passwd");
    // Committed before the attributes exist, so that the blobs are the very bytes.
    fixture.commit("files");
    fixture.write(".gitattributes", ATTRIBUTES);
    fixture.git(&["add", ".gitattributes"]);
    fixture.git(&["commit", "-q", "-m", "attributes"]);

    let worktree = fixture.worktree("w");
    for (path, bytes) in files {
        assert_eq!(fs::read(worktree.tree().join(path)).unwrap(), *bytes, "{path:?}");
    }
    let mode = |name| fs::metadata(worktree.tree().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("run.sh") & 0o111, 0o111);
    assert_eq!(mode("bin") & 0o111, 0);
    assert_eq!(fs::read_link(worktree.tree().join("link")).unwrap(), Path::new("/etc/passwd"));
    assert!(!worktree.tree().join(".git").exists());
    // On the way back nothing is converted, either.
    assert_eq!(worktree.state(&mut leash()).unwrap(), fixture.id("HEAD^{tree}"));
    for (path, _) in files {
        let touched = fs::read(worktree.tree().join(path)).unwrap();
        fs::remove_file(worktree.tree().join(path)).unwrap();
        fs::write(worktree.tree().join(path), touched).unwrap();
    }
    assert_eq!(worktree.state(&mut leash()).unwrap(), fixture.id("HEAD^{tree}"));
}

#[test]
fn the_state_holds_ignored_files_and_every_kind_of_change() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write(".gitignore", "target\n*.log\n");
    fixture.write("dir/file", "1");
    fixture.write("gone", "1");
    fixture.write("was-file", "1");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let tree = worktree.tree();
    let before = worktree.state(&mut leash()).unwrap();
    assert_eq!(worktree.tree_of(worktree.base(), &mut leash()).unwrap(), before);

    put(&tree, b"target/x", b"built");
    put(&tree, b"a.log", b"log");
    fs::remove_file(tree.join("gone")).unwrap();
    fs::remove_file(tree.join("was-file")).unwrap();
    put(&tree, b"was-file/now-below", b"1");
    fs::remove_dir_all(tree.join("dir")).unwrap();
    symlink("target", tree.join("dir")).unwrap();
    fs::create_dir(tree.join("empty")).unwrap();
    let after = worktree.state(&mut leash()).unwrap();
    assert_ne!(before, after);

    // Plain git, looking at a copy of the files, names the same tree.
    let copy = fixture.room().join("copy");
    worktree.materialise(&after, &copy, &mut leash()).unwrap();
    assert_eq!(fs::read(copy.join("target/x")).unwrap(), b"built");
    assert_eq!(fs::read_link(copy.join("dir")).unwrap(), Path::new("target"));
    assert!(!copy.join("gone").exists());
    assert!(!copy.join("empty").exists(), "git knows no empty directories");
    fixture.git_in(&copy, &["init", "-q"]);
    fixture.git_in(&copy, &["add", "-A", "-f"]);
    assert_eq!(fixture.git_in(&copy, &["write-tree"]), after.to_string());

    worktree.restore(&before, &mut leash()).unwrap();
    assert_eq!(worktree.state(&mut leash()).unwrap(), before);
    assert!(!tree.join("empty").exists());
    assert_eq!(fs::read(tree.join("dir/file")).unwrap(), b"1");
    worktree.restore(&after, &mut leash()).unwrap();
    assert_eq!(worktree.state(&mut leash()).unwrap(), after);
    worktree.pin(&after, &mut leash()).unwrap();
    worktree.pin(&after, &mut leash()).unwrap();
    worktree.unpin(&after, &mut leash()).unwrap();
}

#[test]
fn what_was_recorded_is_recalled_until_anything_changes() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "aaaa");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let git_dir = worktree.directory().join("repo.git");
    let (index, note) = (git_dir.join("index"), git_dir.join("countersign-state"));
    let before = worktree.state(&mut leash()).unwrap();
    // What has just changed is looked at again, because it could change unseen.
    thread::sleep(Duration::from_millis(150));
    assert_eq!(worktree.state(&mut leash()).unwrap(), before);
    assert!(note.exists());
    // Without git: it would make its index anew.
    fs::remove_file(&index).unwrap();
    assert_eq!(worktree.state(&mut leash()).unwrap(), before);
    assert!(!index.exists());

    fs::write(worktree.tree().join("f"), "bbbb").unwrap();
    let after = worktree.state(&mut leash()).unwrap();
    assert_ne!(after, before);
    fs::create_dir(worktree.tree().join("d")).unwrap();
    fs::rename(worktree.tree().join("f"), worktree.tree().join("d/f")).unwrap();
    assert_ne!(worktree.state(&mut leash()).unwrap(), after);

    // Half of a note, or one that names another tree, proves nothing.
    thread::sleep(Duration::from_millis(150));
    let last = worktree.state(&mut leash()).unwrap();
    let proof = fs::read_to_string(&note).unwrap();
    for other in [proof.replace(&last.to_string(), &before.to_string()), proof[..60].to_owned()] {
        fs::write(&note, other).unwrap();
        assert_eq!(worktree.state(&mut leash()).unwrap(), last);
    }
}

/// Changes of every kind, each on top of the one before.
fn change(tree: &Path, step: usize) {
    let file = |name: &str| tree.join(name);
    let run = |name: &str, mode| {
        fs::set_permissions(file(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    match step {
        0 => fs::write(file("a/b.c"), "changed").unwrap(),
        1 => run("a/b.c", 0o755),
        2 => put(tree, b"a.d/new", b"1"),
        3 => put(tree, b"a1/deep/er/new", b"2"),
        4 => fs::remove_file(file("a/b.c")).unwrap(),
        5 => fs::rename(file("a.d"), file("a/d")).unwrap(),
        6 => {
            fs::remove_file(file("link")).unwrap();
            symlink("a/d/new", file("link")).unwrap();
        }
        7 => {
            fs::remove_file(file("link")).unwrap();
            fs::write(file("link"), "no link").unwrap();
        }
        8 => fs::write(file("empty"), "").unwrap(),
        9 => (0..40).for_each(|n| put(tree, format!("many/{n}").as_bytes(), &[n; 1000])),
        _ => fs::remove_dir_all(file("many")).unwrap(),
    }
}

#[test]
fn the_tree_that_is_named_without_git_is_the_one_that_git_names() {
    for format in ["sha1", "sha256"] {
        let Some(fixture) = Fixture::with(&[&format!("--object-format={format}")]) else { return };
        for name in ["a.c", "a/b.c", "a/z", "a0", "link", "ünï", ".gitignore"] {
            put(&fixture.user(), name.as_bytes(), name.as_bytes());
        }
        fs::remove_file(fixture.user().join("link")).unwrap();
        fixture.link("link", "a0");
        fixture.commit("base");
        let worktree = fixture.worktree("w");
        let git_dir = worktree.directory().join("repo.git");
        let files = ["index", "countersign-table", "countersign-state"].map(|f| git_dir.join(f));
        worktree.state(&mut leash()).unwrap();
        for step in 0..11 {
            change(&worktree.tree(), step);
            let [index, table, note] = &files;
            let _ = fs::remove_file(index);
            let ours = worktree.state(&mut leash()).unwrap();
            assert!(!index.exists(), "step {step} needs no git");
            // Everything is in the store: git reads it all.
            fixture.git_in(&git_dir, &["fsck", "--strict", &ours.to_string()]);
            fs::remove_file(table).unwrap();
            let _ = fs::remove_file(note);
            assert_eq!(worktree.state(&mut leash()).unwrap(), ours, "{format}, step {step}");
            assert!(index.exists() && table.exists());
        }
        // A name that somebody may take for another is for git to judge.
        put(&worktree.tree(), b"git~1", b"");
        assert_eq!(code(worktree.state(&mut leash())), "PATH_INVALID");
    }
}

#[test]
fn half_a_table_proves_nothing() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "aaaa");
    fixture.write("g", "aaaa");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    worktree.state(&mut leash()).unwrap();
    fs::write(worktree.tree().join("f"), "bbbb").unwrap();
    let table = worktree.directory().join("repo.git/countersign-table");
    let whole = fs::read(&table).unwrap();
    let ours = worktree.state(&mut leash()).unwrap();
    for at in [0, 21, 40, whole.len() / 2, whole.len() - 1] {
        let mut other = whole.clone();
        other[at] ^= 1;
        for bytes in [&other, &whole[..at]] {
            fs::write(&table, bytes).unwrap();
            assert_eq!(worktree.state(&mut leash()).unwrap(), ours, "byte {at}");
        }
    }
}

#[test]
fn a_change_that_keeps_size_and_time_is_seen() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "aaaa");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let before = worktree.state(&mut leash()).unwrap();
    let path = worktree.tree().join("f");
    let old = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "bbbb").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    assert_ne!(worktree.state(&mut leash()).unwrap(), before);
}

#[test]
fn what_git_would_pass_over_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let tree = worktree.tree();
    let state = || worktree.state(&mut leash());

    fs::create_dir(tree.join("inner")).unwrap();
    fixture.git_in(&tree.join("inner"), &["init", "-q"]);
    fixture.git_in(&tree.join("inner"), &["commit", "-q", "--allow-empty", "-m", "x"]);
    assert_eq!(code(state()), "TREE_HOLDS_REPOSITORY");
    fs::remove_dir_all(tree.join("inner")).unwrap();
    put(&tree, b".GIT/hooks/x", b"");
    assert_eq!(code(state()), "TREE_HOLDS_REPOSITORY");
    fs::remove_dir_all(tree.join(".GIT")).unwrap();
    put(&tree, b"a/.git", b"gitdir: /elsewhere\n");
    assert_eq!(code(state()), "TREE_HOLDS_REPOSITORY");
    fs::remove_dir_all(tree.join("a")).unwrap();
    put(&tree, b"git~1", b"");
    assert_eq!(code(state()), "PATH_INVALID");
    fs::remove_file(tree.join("git~1")).unwrap();
    let socket = UnixListener::bind(tree.join("socket")).unwrap();
    assert_eq!(code(state()), "TREE_HOLDS_SPECIAL");
    drop(socket);
    fs::remove_file(tree.join("socket")).unwrap();
    state().unwrap();
}

#[test]
fn names_that_are_not_utf8_are_kept_byte_for_byte() {
    let Some(fixture) = Fixture::new() else { return };
    put(&fixture.user(), b"caf\xe9", b"1");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    assert_eq!(worktree.state(&mut leash()).unwrap(), fixture.id("HEAD^{tree}"));
    put(&worktree.tree(), b"\xff\xfe", b"2");
    let after = worktree.state(&mut leash()).unwrap();
    worktree.restore(&after, &mut leash()).unwrap();
    assert_eq!(worktree.state(&mut leash()).unwrap(), after);
}

#[test]
fn submodules_are_empty_directories_and_are_neither_lost_nor_swallowed() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    let first = fixture.commit("base");
    let entry = format!("160000,{first},lib/sub");
    fixture.git(&["update-index", "--add", "--cacheinfo", &entry]);
    fixture.git(&["commit", "-q", "-m", "submodule"]);
    let worktree = fixture.worktree("w");
    let sub = worktree.tree().join("lib/sub");
    assert_eq!(fs::read_dir(&sub).unwrap().count(), 0);
    let listed = worktree.submodules().unwrap();
    assert_eq!((listed[0].path.as_str(), listed[0].commit), ("lib/sub", first));
    let before = fixture.id("HEAD^{tree}");
    assert_eq!(worktree.state(&mut leash()).unwrap(), before);

    // Files in it are files, and the submodule is back when they are gone.
    put(&sub, b"x", b"1");
    let filled = worktree.state(&mut leash()).unwrap();
    assert_ne!(filled, before);
    fs::remove_file(sub.join("x")).unwrap();
    assert_eq!(worktree.state(&mut leash()).unwrap(), before);
    fs::remove_dir(&sub).unwrap();
    let removed = worktree.state(&mut leash()).unwrap();
    assert!(removed != before && removed != filled);
    worktree.restore(&before, &mut leash()).unwrap();
    assert_eq!(worktree.state(&mut leash()).unwrap(), before);
}

#[test]
fn creation_is_all_or_nothing() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    let base = fixture.commit("base");
    let (repository, place) = (fixture.open(), fixture.room().join("w"));
    let mut calls = 0;
    let mut tick = || {
        calls += 1;
        match calls {
            1..=4 => Ok(()),
            _ => Err(Failure::execution("STOPPED", "stop")),
        }
    };
    let mut short = Leash::new(Duration::from_secs(60), &mut tick);
    let stopped = Worktree::create(&place, &repository, &base, &mut short);
    assert_eq!(code(stopped), "STOPPED");
    assert_eq!(fs::read_dir(fixture.room()).unwrap().count(), 1, "only the user's");

    // What a killed process left does not stand in the way, and goes with the worktree.
    fs::create_dir_all(fixture.room().join(".w.new-1-1/tree")).unwrap();
    let worktree = fixture.worktree("w");
    assert_eq!(code(fixture.try_worktree("w")), "WORKTREE_EXISTS");
    let again = Worktree::open(&fixture.program, &place, &mut leash()).unwrap();
    assert_eq!(again.base(), worktree.base());
    Worktree::remove(&place).unwrap();
    Worktree::remove(&place).unwrap();
    assert_eq!(fs::read_dir(fixture.room()).unwrap().count(), 1);
    let tree = fixture.id("HEAD^{tree}");
    assert_eq!(code(Worktree::create(&place, &repository, &tree, &mut leash())), "NOT_A_COMMIT");
    let none = ObjectFormat::Sha1.zero();
    assert_eq!(code(Worktree::create(&place, &repository, &none, &mut leash())), "OBJECT_UNKNOWN");
}

#[test]
fn what_is_lost_is_named() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let away = fixture.room().join("elsewhere");
    fs::rename(fixture.user(), &away).unwrap();
    put(&worktree.tree(), b"g", b"1");
    assert_eq!(code(worktree.state(&mut leash())), "BASE_LOST");
    assert_eq!(
        code(Worktree::open(&fixture.program, worktree.directory(), &mut leash())),
        "BASE_LOST"
    );
    fs::rename(&away, fixture.user()).unwrap();
    worktree.state(&mut leash()).unwrap();

    fs::remove_dir_all(worktree.tree()).unwrap();
    assert_eq!(code(worktree.state(&mut leash())), "WORKTREE_LOST");
    worktree.restore(worktree.base(), &mut leash()).unwrap();
    assert_eq!(worktree.state(&mut leash()).unwrap(), fixture.id("HEAD^{tree}"));
    fs::remove_dir_all(worktree.directory()).unwrap();
    assert_eq!(code(worktree.state(&mut leash())), "WORKTREE_LOST");
    assert_eq!(code(worktree.restore(worktree.base(), &mut leash())), "WORKTREE_LOST");
    let opened = Worktree::open(&fixture.program, worktree.directory(), &mut leash());
    assert_eq!(code(opened), "WORKTREE_LOST");
}

#[test]
fn a_pruned_base_is_lost() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    fixture.commit("first");
    fixture.write("f", "2");
    fixture.commit("second");
    let worktree = fixture.worktree("w");
    fixture.git(&["reset", "-q", "--hard", "HEAD~1"]);
    fixture.git(&["reflog", "expire", "--expire=now", "--all"]);
    fixture.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(code(worktree.check(&mut leash())), "BASE_LOST");
    assert_eq!(code(worktree.restore(worktree.base(), &mut leash())), "BASE_LOST");
}

#[test]
fn a_stale_lock_of_the_index_has_no_owner() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    put(&worktree.tree(), b"g", b"1");
    fs::write(worktree.directory().join("repo.git/index.lock"), "").unwrap();
    worktree.state(&mut leash()).unwrap();
}

#[test]
fn the_users_checkout_is_not_touched() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    fixture.commit("base");
    fixture.write("f", "changed by the user");
    fixture.write("untracked", "1");
    let before = fixture.fingerprint();
    let worktree = fixture.worktree("w");
    assert_eq!(fs::read(worktree.tree().join("f")).unwrap(), b"1");
    put(&worktree.tree(), b"f", b"ours");
    worktree.state(&mut leash()).unwrap();
    worktree.restore(worktree.base(), &mut leash()).unwrap();
    Worktree::remove(worktree.directory()).unwrap();
    assert_eq!(fixture.fingerprint(), before);
}

#[test]
fn ten_thousand_files_are_laid_out_and_recorded() {
    let Some(fixture) = Fixture::new() else { return };
    for number in 0..10_000 {
        fixture.write(&format!("d{}/f{number}", number % 100), number.to_string());
    }
    fixture.commit("many");
    let worktree = fixture.worktree("w");
    assert_eq!(worktree.state(&mut leash()).unwrap(), fixture.id("HEAD^{tree}"));
    put(&worktree.tree(), b"d7/f7", b"other");
    let changed = worktree.state(&mut leash()).unwrap();
    fixture.write("d7/f7", "other");
    fixture.commit("the same");
    assert_eq!(changed, fixture.id("HEAD^{tree}"));
}

#[test]
fn repositories_are_known_for_what_they_are() {
    let Some(fixture) = Fixture::new() else { return };
    let open = |path: &Path| Repository::open(&fixture.program, path, &mut leash());
    let unborn = fixture.open();
    assert_eq!(unborn.branch(), Some("main"));
    assert_eq!(code(unborn.resolve("main", &mut leash())), "BRANCH_UNBORN");
    assert_eq!(code(unborn.resolve("other", &mut leash())), "BRANCH_UNKNOWN");
    assert_eq!(code(unborn.resolve("-x..y", &mut leash())), "BRANCH_UNKNOWN");

    fixture.write("dir/f", "1");
    let head = fixture.commit("base");
    let repository = fixture.open();
    assert_eq!(repository.resolve("main", &mut leash()).unwrap(), head);
    assert_eq!(repository.format(), ObjectFormat::Sha1);
    assert!(!repository.is_bare() && !repository.is_shallow() && !repository.is_partial());
    fixture.git(&["update-ref", "refs/tags/t", "HEAD^{tree}"]);
    assert_eq!(repository.reference("refs/tags/t", &mut leash()).unwrap(), Some(fixture.id("t")));
    assert_eq!(code(repository.reference("main", &mut leash())), "REF_INVALID");
    assert_eq!(code(repository.check_commit(&fixture.id("t"), &mut leash())), "NOT_A_COMMIT");

    assert_eq!(code(open(&fixture.user().join("dir"))), "NOT_A_REPOSITORY");
    assert_eq!(code(open(&fixture.user().join(".git/objects"))), "NOT_A_REPOSITORY");
    assert_eq!(code(open(&fixture.user().join("none"))), "NOT_A_REPOSITORY");
    assert_eq!(code(open(fixture.room())), "NOT_A_REPOSITORY");
    fixture.git(&["checkout", "-q", "--detach"]);
    assert_eq!(fixture.open().branch(), None);
}

#[test]
fn bare_shallow_partial_and_linked_repositories_work() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    fixture.commit("first");
    fixture.write("f", "2");
    let head = fixture.commit("second");
    let room = fixture.room();
    let user = fixture.user();
    let url = format!("file://{}", user.display());
    fixture.git(&["clone", "-q", "--bare", &url, "../bare"]);
    fixture.git(&["clone", "-q", "--depth=1", &url, "../shallow"]);
    fixture.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    fixture.git(&["config", "uploadpack.allowFilter", "true"]);
    fixture.git(&["clone", "-q", "--bare", "--filter=blob:none", &url, "../partial"]);
    let open = |name: &str| Repository::open(&fixture.program, &room.join(name), &mut leash());
    for name in ["bare", "shallow", "linked"] {
        let repository = open(name).unwrap();
        let place = room.join(format!("w-{name}"));
        let worktree = Worktree::create(&place, &repository, &head, &mut leash()).unwrap();
        assert_eq!(worktree.state(&mut leash()).unwrap(), fixture.id("HEAD^{tree}"), "{name}");
    }
    assert!(open("bare").unwrap().is_bare());
    assert!(open("shallow").unwrap().is_shallow());
    assert_eq!(open("linked").unwrap().branch(), Some("side"));
    let partial = open("partial").unwrap();
    assert!(partial.is_partial());
    let made = Worktree::create(&room.join("w-partial"), &partial, &head, &mut leash());
    assert_eq!(code(made), "BASE_INCOMPLETE");
}

#[test]
fn the_longer_hash_works_too() {
    let Some(fixture) = Fixture::with(&["--object-format=sha256"]) else { return };
    fixture.write("f", "1");
    fixture.commit("base");
    let repository = fixture.open();
    assert_eq!(repository.format(), ObjectFormat::Sha256);
    let worktree = fixture.worktree("w");
    put(&worktree.tree(), b"g", b"2");
    let state = worktree.state(&mut leash()).unwrap();
    assert_eq!(state.format(), ObjectFormat::Sha256);
    worktree.restore(&state, &mut leash()).unwrap();
    assert_eq!(worktree.state(&mut leash()).unwrap(), state);
}

#[test]
fn odd_paths_of_the_repository_can_be_borrowed_from() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    let head = fixture.commit("base");
    let odd = fixture.room().join("# \"odd\" \u{e9}\\:\nx");
    fs::rename(fixture.user(), &odd).unwrap();
    let repository = Repository::open(&fixture.program, &odd, &mut leash()).unwrap();
    let place = fixture.room().join("w:\n\"");
    let worktree = Worktree::create(&place, &repository, &head, &mut leash()).unwrap();
    assert_eq!(fs::read(worktree.tree().join("f")).unwrap(), b"1");
    worktree.state(&mut leash()).unwrap();
}

#[test]
fn time_runs_out_and_the_caller_can_stop() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    fixture.commit("base");
    let mut none = Leash::lasting(Duration::ZERO);
    let opened = Repository::open(&fixture.program, &fixture.user(), &mut none);
    assert_eq!(code(opened), "GIT_TIMED_OUT");
}
