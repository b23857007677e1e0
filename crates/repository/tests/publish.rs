//! Commits, and how they come into the user's repository: once, whole, and only where believed.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use common::{Fixture, code, leash, put};
use countersign_model::Failure;
use countersign_repository::{
    Leash, NewCommit, ObjectId, RefChange, RefOutcome, RefUpdate, Repository, Signature, Worktree,
};

fn ada() -> Signature {
    Signature { name: "Ada".to_owned(), email: "ada@example.com".to_owned() }
}

fn commit(worktree: &Worktree, tree: ObjectId, message: &str) -> ObjectId {
    let parents = [*worktree.base()];
    let new = NewCommit {
        tree,
        parents: &parents,
        author: ada(),
        committer: ada(),
        time: 1_700_000_000,
        message,
    };
    worktree.commit(&new, &mut leash()).unwrap()
}

/// A commit of one new file.
fn work(worktree: &Worktree, content: &str) -> ObjectId {
    put(&worktree.tree(), b"new/file", content.as_bytes());
    let tree = worktree.state(&mut leash()).unwrap();
    commit(worktree, tree, "work\n\nRun: 1")
}

fn move_ref(
    to: &Repository,
    name: &str,
    new: ObjectId,
    old: Option<ObjectId>,
) -> Result<RefUpdate, Failure> {
    let by = ada();
    let change = RefChange { name, new, old, message: "publish", by: &by, time: 1_700_000_000 };
    to.update_ref(&change, &mut leash())
}

fn base(fixture: &Fixture) -> ObjectId {
    fixture.write("f", "1");
    fixture.write("g", "1");
    fixture.write("d/x", "1");
    fixture.commit("base")
}

#[test]
fn a_commit_is_published_whole_and_only_the_ref_moves() {
    let Some(fixture) = Fixture::new() else { return };
    let head = base(&fixture);
    let worktree = fixture.worktree("w");
    let new = work(&worktree, "1");
    assert_eq!(work(&worktree, "1"), new, "the same parts give the same commit");
    let user = fixture.open();
    assert_eq!(code(move_ref(&user, "refs/heads/run", new, None)), "OBJECT_UNKNOWN");

    worktree.transfer(&user, &new, &mut leash()).unwrap();
    worktree.transfer(&user, &new, &mut leash()).unwrap();
    assert_eq!(fixture.git(&["branch", "--format=%(refname)"]), "refs/heads/main");
    let update = move_ref(&user, "refs/heads/run", new, None).unwrap();
    assert_eq!(update, RefUpdate { outcome: RefOutcome::Updated, checked_out: false });
    let again = move_ref(&user, "refs/heads/run", new, None).unwrap();
    assert_eq!(again.outcome, RefOutcome::AlreadyThere);

    assert_eq!(fixture.id("run^"), head);
    assert_eq!(fixture.git(&["show", "run:new/file"]), "1");
    assert_eq!(
        fixture.git(&["log", "-1", "--format=%an <%ae> %at %B", "run"]),
        "Ada <ada@example.com> 1700000000 work\n\nRun: 1"
    );
    assert!(fixture.git(&["reflog", "show", "run"]).contains("publish"));
    fixture.git(&["fsck", "--strict", "--full"]);
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
    // Nothing is left that needs the private worktree.
    Worktree::remove(worktree.directory()).unwrap();
    fixture.git(&["fsck", "--full"]);
}

#[test]
fn a_ref_that_moved_is_left_alone() {
    let Some(fixture) = Fixture::new() else { return };
    let head = base(&fixture);
    let worktree = fixture.worktree("w");
    let new = work(&worktree, "1");
    fixture.git(&["branch", "run"]);
    let other = fixture.commit("other");
    fixture.git(&["branch", "-f", "run"]);
    let user = fixture.open();
    worktree.transfer(&user, &new, &mut leash()).unwrap();
    let moved = |to| RefOutcome::Moved { to };
    let outcome = |name, old| move_ref(&user, name, new, old).unwrap().outcome;
    assert_eq!(outcome("refs/heads/run", Some(head)), moved(Some(other)));
    assert_eq!(outcome("refs/heads/run", None), moved(Some(other)));
    assert_eq!(outcome("refs/heads/gone", Some(head)), moved(None));
    assert_eq!(fixture.id("run"), other);
    assert_eq!(outcome("refs/heads/run", Some(other)), RefOutcome::Updated);
}

#[test]
fn a_branch_that_is_checked_out_is_said_to_be() {
    let Some(fixture) = Fixture::new() else { return };
    let head = base(&fixture);
    let worktree = fixture.worktree("w");
    let new = work(&worktree, "1");
    fixture.git(&["branch", "side"]);
    fixture.git(&["worktree", "add", "-q", "../linked", "side"]);
    fixture.git(&["clone", "-q", "--bare", ".", "../bare"]);
    let user = fixture.open();
    let is = |to: &Repository, name: &str| to.is_checked_out(name, &mut leash()).unwrap();
    assert!(is(&user, "refs/heads/main") && is(&user, "refs/heads/side"));
    assert!(!is(&user, "refs/heads/none") && !is(&user, "refs/heads/mai"));
    let bare = Repository::open(&fixture.program, &fixture.room().join("bare"), &mut leash());
    assert!(!is(&bare.unwrap(), "refs/heads/main"));
    worktree.transfer(&user, &new, &mut leash()).unwrap();
    let update = move_ref(&user, "refs/heads/main", new, Some(head)).unwrap();
    assert_eq!(update, RefUpdate { outcome: RefOutcome::Updated, checked_out: true });
}

#[test]
fn of_two_publishers_exactly_one_wins() {
    let Some(fixture) = Fixture::new() else { return };
    let head = base(&fixture);
    fixture.git(&["branch", "run"]);
    for round in 0..5 {
        let start = Barrier::new(2);
        let publish = |name: &str| {
            let worktree = Worktree::create(
                &fixture.room().join(format!("{name}{round}")),
                &fixture.open(),
                &head,
                &mut leash(),
            )
            .unwrap();
            let new = work(&worktree, &format!("{name}{round}"));
            let user = fixture.open();
            worktree.transfer(&user, &new, &mut leash()).unwrap();
            start.wait();
            (new, move_ref(&user, "refs/heads/run", new, Some(head)))
        };
        let (one, two) = thread::scope(|scope| {
            let other = scope.spawn(|| publish("two"));
            (publish("one"), other.join().unwrap())
        });
        let stands = fixture.id("run");
        let (won, lost) = if one.0 == stands { (one, two) } else { (two, one) };
        assert_eq!(won.0, stands);
        assert_eq!(won.1.unwrap().outcome, RefOutcome::Updated);
        assert_eq!(lost.1.unwrap().outcome, RefOutcome::Moved { to: Some(stands) });
        fixture.git(&["branch", "-f", "run", &head.to_string()]);
    }
}

/// Does something again and again, stopped a little later each time, until it gets through.
fn stopped_everywhere<T>(mut attempt: impl FnMut(&mut Leash<'_>) -> Result<T, Failure>) -> T {
    for limit in 0.. {
        let mut calls = 0;
        let mut tick = || {
            calls += 1;
            if calls > limit { Err(Failure::execution("STOPPED", "stop")) } else { Ok(()) }
        };
        match attempt(&mut Leash::new(Duration::from_secs(60), &mut tick)) {
            Ok(done) => return done,
            Err(failure) => assert_eq!(failure.code, "STOPPED"),
        }
    }
    unreachable!("numbers do not end");
}

#[test]
fn publication_can_be_stopped_anywhere_and_done_again() {
    let Some(fixture) = Fixture::new() else { return };
    base(&fixture);
    let worktree = fixture.worktree("w");
    let new = work(&worktree, "1");
    let user = fixture.open();
    stopped_everywhere(|leash| worktree.transfer(&user, &new, leash));
    let by = ada();
    let change =
        RefChange { name: "refs/heads/run", new, old: None, message: "m", by: &by, time: 1 };
    let update = stopped_everywhere(|leash| user.update_ref(&change, leash));
    assert!(!matches!(update.outcome, RefOutcome::Moved { .. }));
    assert_eq!(fixture.id("run"), new);
    fixture.git(&["fsck", "--full", "--strict"]);
    stopped_everywhere(|leash| worktree.restore(worktree.base(), leash));
    let tree = stopped_everywhere(|leash| worktree.state(leash));
    assert_eq!(tree, fixture.id("main^{tree}"));
    let left = fs::read_dir(worktree.directory()).unwrap().count();
    assert_eq!(left, 2, "nothing but the git directory and the tree");
}

#[test]
fn a_stale_lock_is_said_to_be_one() {
    let Some(fixture) = Fixture::new() else { return };
    base(&fixture);
    let worktree = fixture.worktree("w");
    let new = work(&worktree, "1");
    let user = fixture.open();
    worktree.transfer(&user, &new, &mut leash()).unwrap();
    let lock = fixture.user().join(".git/refs/heads/run.lock");
    fs::write(&lock, "").unwrap();
    assert_eq!(code(move_ref(&user, "refs/heads/run", new, None)), "REF_LOCKED");
    fs::remove_file(&lock).unwrap();
    assert_eq!(move_ref(&user, "refs/heads/run", new, None).unwrap().outcome, RefOutcome::Updated);
    // Something half made in the object store does not stand in the way, either.
    let next = work(&worktree, "2");
    fs::write(fixture.user().join(".git/objects/pack/tmp_pack_dead"), "half").unwrap();
    worktree.transfer(&user, &next, &mut leash()).unwrap();
}

#[test]
fn refs_that_cannot_be_moved_are_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let head = base(&fixture);
    let worktree = fixture.worktree("w");
    let new = work(&worktree, "1");
    let user = fixture.open();
    worktree.transfer(&user, &new, &mut leash()).unwrap();
    fixture.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    let refused = |name: &str, old| code(move_ref(&user, name, new, old));
    assert_eq!(refused("refs/heads/alias", Some(head)), "REF_SYMBOLIC");
    assert_eq!(refused("refs/heads/main/below", None), "REF_CONFLICT");
    for name in ["main", "HEAD", "refs/heads/../x", "-d", "refs/heads/a b", "refs/heads/x.lock"] {
        assert_eq!(refused(name, None), "REF_INVALID", "{name}");
    }
    assert_eq!(fixture.head(), head);
}

#[test]
fn exactly_the_named_paths_are_taken() {
    let Some(fixture) = Fixture::new() else { return };
    base(&fixture);
    let worktree = fixture.worktree("w");
    let before = worktree.state(&mut leash()).unwrap();
    let tree = worktree.tree();
    put(&tree, b"f", b"2");
    fs::remove_file(tree.join("g")).unwrap();
    put(&tree, b"added\n\"", b"something else");
    fs::remove_dir_all(tree.join("d")).unwrap();
    put(&tree, b"d", b"a file now");
    let after = worktree.state(&mut leash()).unwrap();
    let with = |paths: &[&str]| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        worktree.tree_with(&before, &after, &paths, &mut leash())
    };
    let taken = with(&["added\n\"", "g"]).unwrap();
    let changes = worktree.changed(&before, &taken, &mut leash()).unwrap();
    let paths: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["added\n\"", "g"]);
    assert_eq!(with(&["added\n\"", "d", "d/x", "f", "g"]).unwrap(), after);
    assert_eq!(code(with(&["f", "unknown"])), "PATH_UNCHANGED");
    assert_eq!(code(with(&["d"])), "PATHS_ENTANGLED");
    assert_eq!(code(with(&[])), "PATHS_MISSING");
    assert_eq!(code(with(&["a/../f"])), "PATH_INVALID");
}

#[test]
fn commits_of_nothing_are_refused() {
    let Some(fixture) = Fixture::new() else { return };
    let head = base(&fixture);
    let worktree = fixture.worktree("w");
    let tree = worktree.state(&mut leash()).unwrap();
    let new = NewCommit {
        tree,
        parents: &[head],
        author: ada(),
        committer: ada(),
        time: 0,
        message: "m",
    };
    let write = |new: NewCommit<'_>| worktree.commit(&new, &mut leash());
    write(new.clone()).unwrap();
    assert_eq!(code(write(NewCommit { tree: head, ..new.clone() })), "OBJECT_UNKNOWN");
    assert_eq!(code(write(NewCommit { parents: &[tree], ..new.clone() })), "OBJECT_UNKNOWN");
    assert_eq!(code(write(NewCommit { message: " \n", ..new.clone() })), "MESSAGE_INVALID");
    let forged = Signature { name: "a\nparent x".to_owned(), ..ada() };
    assert_eq!(code(write(NewCommit { author: forged, ..new })), "SIGNATURE_INVALID");
}

#[test]
fn the_longer_hash_and_shallow_histories_are_published_too() {
    let Some(fixture) = Fixture::with(&["--object-format=sha256"]) else { return };
    base(&fixture);
    let worktree = fixture.worktree("w");
    let new = work(&worktree, "1");
    worktree.transfer(&fixture.open(), &new, &mut leash()).unwrap();
    let update = move_ref(&fixture.open(), "refs/heads/run", new, None).unwrap();
    assert_eq!(update.outcome, RefOutcome::Updated);

    let Some(fixture) = Fixture::new() else { return };
    base(&fixture);
    let head = fixture.commit("second");
    let url = format!("file://{}", fixture.user().display());
    fixture.git(&["clone", "-q", "--depth=1", &url, "../shallow"]);
    let shallow = fixture.room().join("shallow");
    let shallow = Repository::open(&fixture.program, &shallow, &mut leash()).unwrap();
    let place = fixture.room().join("w");
    let worktree = Worktree::create(&place, &shallow, &head, &mut leash()).unwrap();
    assert_eq!(worktree.history(10, &mut leash()).unwrap().len(), 1);
    let new = work(&worktree, "1");
    worktree.transfer(&shallow, &new, &mut leash()).unwrap();
    let update = move_ref(&shallow, "refs/heads/run", new, None).unwrap();
    assert_eq!(update.outcome, RefOutcome::Updated);
}
