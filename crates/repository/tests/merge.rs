//! Two runs from one base: what comes together, and what is a conflict, never a merge by luck.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it fails")]

mod common;

use std::fs;

use common::{Fixture, leash, put};
use countersign_repository::{Conflict, ConflictKind, Lines, Merge, ObjectId, Worktree};

fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

/// The tree after a change to a fresh layout of the base.
fn after(worktree: &Worktree, change: impl FnOnce(&std::path::Path)) -> ObjectId {
    worktree.restore(worktree.base(), &mut leash()).unwrap();
    change(&worktree.tree());
    worktree.state(&mut leash()).unwrap()
}

fn merge(worktree: &Worktree, ours: &ObjectId, theirs: &ObjectId) -> Merge {
    worktree.merge_check(worktree.base(), ours, theirs, &mut leash()).unwrap()
}

fn conflicts(merge: Merge) -> Vec<Conflict> {
    match merge {
        Merge::Conflicts(conflicts) => conflicts,
        Merge::Clean(tree) => panic!("merged to {tree}"),
    }
}

#[test]
fn changes_apart_come_together() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", lines(30));
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let ours =
        after(&worktree, |tree| put(tree, b"f", lines(30).replace("line 3\n", "x\n").as_bytes()));
    let theirs = after(&worktree, |tree| {
        put(tree, b"f", lines(30).replace("line 20\n", "y\n").as_bytes());
        put(tree, b"new", b"1");
    });
    let Merge::Clean(tree) = merge(&worktree, &ours, &theirs) else { panic!("a conflict") };
    let both = lines(30).replace("line 3\n", "x\n").replace("line 20\n", "y\n");
    let merged = worktree.read_blob(&tree, "f", 1 << 20, &mut leash()).unwrap().unwrap();
    assert_eq!(merged.bytes, both.as_bytes());
    assert_eq!(merge(&worktree, &ours, &ours), Merge::Clean(ours));
}

#[test]
fn every_kind_of_conflict_is_told_with_its_lines() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("text", lines(30));
    fixture.write("gone", lines(5));
    fixture.write("bin", b"\0one");
    fixture.write("name", lines(40));
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let change = |side: &'static str, offset: &'static str| {
        move |tree: &std::path::Path| {
            let text = lines(30).replace("line 10\n", &format!("{side}\n"));
            put(tree, b"text", format!("{offset}{text}").as_bytes());
            put(tree, b"bin", format!("\0{side}").as_bytes());
            put(tree, b"both \xc3\xa9\n", format!("same\n{side}\n").as_bytes());
            fs::rename(tree.join("name"), tree.join(format!("name-{side}"))).unwrap();
        }
    };
    let ours = after(&worktree, |tree| {
        change("ours", "")(tree);
        fs::remove_file(tree.join("gone")).unwrap();
    });
    let theirs = after(&worktree, |tree| {
        change("theirs", "more\nlines\n")(tree);
        put(tree, b"gone", b"changed\n");
    });
    let found = conflicts(merge(&worktree, &ours, &theirs));
    let told: Vec<_> = found.iter().map(|c| (c.path.as_str(), c.kind.clone())).collect();
    let expected = [
        ("bin", ConflictKind::Binary),
        ("both \u{e9}\n", ConflictKind::AddAdd),
        ("gone", ConflictKind::ModifyDelete),
        ("name", ConflictKind::Rename),
        ("text", ConflictKind::Content),
    ];
    assert_eq!(told, expected);
    let span = |start, count| Lines { start, count };
    let of = |path: &str| found.iter().find(|c| c.path == path).unwrap();
    let text = of("text").lines[0];
    assert_eq!((text.base, text.ours, text.theirs), (span(10, 1), span(10, 1), span(12, 1)));
    let both = of("both \u{e9}\n").lines[0];
    assert_eq!((both.base, both.ours, both.theirs), (span(1, 0), span(2, 1), span(2, 1)));
    assert_eq!(of("name").others, ["name-ours", "name-theirs"]);
    assert!(of("gone").ours.is_none() && of("gone").theirs.is_some());
}

#[test]
fn attributes_of_the_tree_choose_no_driver() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write(".gitattributes", "* merge=union\n");
    fixture.write("f", lines(3));
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let side = |text: &'static str| {
        after(&worktree, |tree| put(tree, b"f", lines(3).replace("line 2", text).as_bytes()))
    };
    let (ours, theirs) = (side("ours"), side("theirs"));
    let found = conflicts(merge(&worktree, &ours, &theirs));
    assert_eq!(found[0].kind, ConflictKind::Content);
}

#[test]
fn a_file_against_a_directory_is_a_conflict() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f", "1");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let ours = after(&worktree, |tree| put(tree, b"x", b"a file"));
    let theirs = after(&worktree, |tree| put(tree, b"x/below", b"a directory"));
    let found = conflicts(merge(&worktree, &ours, &theirs));
    assert!(!found.is_empty());
    assert_eq!(found[0].kind, ConflictKind::FileDirectory);
}
