//! Differences, contents and history, held against what plain git says.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;

use common::{Fixture, code, leash, put};
use countersign_repository::{Content, Mode, ObjectId, Status, Worktree};

/// A base, and a worktree in which something of every kind was changed.
fn changed(fixture: &Fixture) -> (Worktree, ObjectId, ObjectId) {
    let long: String = (0..200).map(|n| format!("line {n}\n")).collect();
    fixture.write("moved.txt", &long);
    fixture.write("edited.txt", &long);
    fixture.write("gone", "1\n");
    fixture.write("mode", "1\n");
    fixture.write("kind", "1\n");
    fixture.write("bin", b"\0\x01\x02");
    fixture.write("no-newline", "a");
    fixture.write("same", "same\n");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let tree = worktree.tree();
    let before = worktree.state(&mut leash()).unwrap();
    fs::create_dir(tree.join("dir")).unwrap();
    fs::rename(tree.join("moved.txt"), tree.join("dir/mo\"ved \u{e9}.txt")).unwrap();
    put(&tree, "dir/mo\"ved \u{e9}.txt".as_bytes(), long.replace("line 7\n", "x\n").as_bytes());
    put(&tree, b"edited.txt", long.replace("line 100\n", "").as_bytes());
    fs::remove_file(tree.join("gone")).unwrap();
    put(&tree, b"new\nname", b"new");
    put(&tree, b"bin", b"\0\x03");
    put(&tree, b"no-newline", b"a\n");
    fs::remove_file(tree.join("kind")).unwrap();
    symlink("same", tree.join("kind")).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(tree.join("mode"), executable).unwrap();
    let after = worktree.state(&mut leash()).unwrap();
    (worktree, before, after)
}

#[test]
fn every_kind_of_change_is_listed() {
    let Some(fixture) = Fixture::new() else { return };
    let (worktree, before, after) = changed(&fixture);
    let changes = worktree.changed(&before, &after, &mut leash()).unwrap();
    let told: Vec<_> = changes
        .iter()
        .map(|c| (c.path.as_str(), c.from.as_deref(), c.status, c.similarity.is_some()))
        .collect();
    let expected = [
        ("bin", None, Status::Modified, false),
        ("dir/mo\"ved \u{e9}.txt", Some("moved.txt"), Status::Renamed, true),
        ("edited.txt", None, Status::Modified, false),
        ("gone", None, Status::Deleted, false),
        ("kind", None, Status::Type, false),
        ("mode", None, Status::Modified, false),
        ("new\nname", None, Status::Added, false),
        ("no-newline", None, Status::Modified, false),
    ];
    let sorted = |mut list: Vec<(_, _, _, _)>| {
        list.sort_by_key(|entry: &(&str, Option<&str>, Status, bool)| entry.0.to_owned());
        list
    };
    assert_eq!(sorted(told), expected);
    let mode = changes.iter().find(|c| c.path == "mode").unwrap();
    let (old, new) = (mode.old.unwrap(), mode.new.unwrap());
    assert_eq!((old.mode, new.mode), (Mode::FILE, Mode::EXECUTABLE));
    assert_eq!(old.id, new.id);
    assert!(changes.iter().find(|c| c.path == "gone").unwrap().new.is_none());
    assert_eq!(worktree.changed(&after, &after, &mut leash()).unwrap(), []);

    let counts = worktree.line_counts(&before, &after, &mut leash()).unwrap();
    let of = |path: &str| counts.iter().find(|count| count.path == path).unwrap().lines;
    assert_eq!(of("edited.txt"), Some((0, 1)));
    assert_eq!(of("bin"), None);
    assert_eq!(of("dir/mo\"ved \u{e9}.txt"), Some((1, 1)));
}

#[test]
fn the_diff_is_that_of_plain_git_and_applies() {
    let Some(fixture) = Fixture::new() else { return };
    let (worktree, before, after) = changed(&fixture);
    let mut ours = Vec::new();
    worktree.diff(&before, &after, &[], &mut ours, &mut leash()).unwrap();
    let git_dir = format!("--git-dir={}", worktree.directory().join("repo.git").display());
    let (from, to) = (before.to_string(), after.to_string());
    let plain = ["diff", "--binary", "--full-index", &from, &to];
    let plain = fixture.command(fixture.room(), &[&[git_dir.as_str()], &plain[..]].concat());
    assert_eq!(ours, { plain }.output().unwrap().stdout);

    let patch = fixture.room().join("patch");
    fs::write(&patch, &ours).unwrap();
    fixture.git(&["apply", "--index", patch.to_str().unwrap()]);
    assert_eq!(fixture.git(&["write-tree"]), after.to_string());

    let mut part = Vec::new();
    let named = ["dir".to_owned(), "gone".to_owned()];
    worktree.diff(&before, &after, &named, &mut part, &mut leash()).unwrap();
    let part = String::from_utf8(part).unwrap();
    assert_eq!(part.matches("diff --git").count(), 2);
    let outside = ["../x".to_owned()];
    let refused = worktree.diff(&before, &after, &outside, &mut Vec::new(), &mut leash());
    assert_eq!(code(refused), "PATH_INVALID");
}

#[test]
fn attributes_cannot_hide_a_change_from_reviewers() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("f.txt", "secret = 1\n");
    fixture.write(".gitattributes", "* -diff\n*.txt binary\n");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let before = worktree.state(&mut leash()).unwrap();
    put(&worktree.tree(), b"f.txt", b"secret = 2\n");
    let after = worktree.state(&mut leash()).unwrap();
    let mut diff = Vec::new();
    worktree.diff(&before, &after, &[], &mut diff, &mut leash()).unwrap();
    assert!(String::from_utf8(diff).unwrap().contains("+secret = 2"));
}

#[test]
fn a_sink_that_fails_ends_the_diff() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let Some(fixture) = Fixture::new() else { return };
    let (worktree, before, after) = changed(&fixture);
    let written = worktree.diff(&before, &after, &[], &mut Full, &mut leash());
    assert_eq!(code(written), "OUTPUT_FAILED");
}

#[test]
fn names_that_are_not_utf8_are_an_error_only_where_they_are_told() {
    let Some(fixture) = Fixture::new() else { return };
    put(&fixture.user(), b"caf\xe9", b"1");
    fixture.write("f", "1");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let before = worktree.state(&mut leash()).unwrap();
    put(&worktree.tree(), b"f", b"2");
    let after = worktree.state(&mut leash()).unwrap();
    assert_eq!(worktree.changed(&before, &after, &mut leash()).unwrap().len(), 1);
    let listing = worktree.list(&after, &mut leash()).unwrap();
    assert_eq!((listing.entries.len(), listing.not_utf8), (1, 1));
    put(&worktree.tree(), b"caf\xe9", b"2");
    let last = worktree.state(&mut leash()).unwrap();
    assert_eq!(code(worktree.changed(&before, &last, &mut leash())), "PATH_NOT_UTF8");
}

#[test]
fn contents_are_read_by_path_by_id_and_in_bulk() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.write("a/*", "star");
    fixture.write("a/b", "plain");
    fixture.write("big", vec![b'x'; 1 << 20]);
    fixture.write("empty", "");
    fixture.link("link", "a/b");
    fixture.commit("base");
    let worktree = fixture.worktree("w");
    let tree = worktree.tree_of(worktree.base(), &mut leash()).unwrap();
    let read = |path: &str, most| worktree.read_blob(&tree, path, most, &mut leash());
    assert_eq!(read("a/*", 100).unwrap().unwrap().bytes, b"star");
    assert_eq!(read("link", 100).unwrap().unwrap().mode, Mode::SYMLINK);
    assert_eq!(read("a", 100).unwrap(), None);
    assert_eq!(read("a/none", 100).unwrap(), None);
    assert_eq!(code(read("big", 100)), "OUTPUT_TOO_LARGE");
    assert_eq!(code(read("../a", 100)), "PATH_INVALID");
    let mut big = Vec::new();
    worktree.write_blob(&fixture.id("HEAD:big"), &mut big, &mut leash()).unwrap();
    assert_eq!(big.len(), 1 << 20);

    let listing = worktree.list(&tree, &mut leash()).unwrap();
    let paths: Vec<_> = listing.entries.iter().map(|e| (e.path.as_str(), e.size)).collect();
    let sizes = [("a/*", 4), ("a/b", 5), ("big", 1 << 20), ("empty", 0), ("link", 3)];
    assert_eq!(paths, sizes.map(|(path, size)| (path, Some(size))));
    let mut ids: Vec<_> = listing.entries.iter().map(|entry| entry.id).collect();
    ids.push(tree);
    let mut seen = Vec::new();
    let mut visit = |_: usize, content: Content<'_>| {
        seen.push(match content {
            Content::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => format!("{other:?}"),
        });
        Ok(())
    };
    worktree.read_blobs(&ids, 100, &mut visit, &mut leash()).unwrap();
    assert_eq!(seen, ["star", "plain", "TooLarge(1048576)", "", "a/b", "Missing"]);

    let id = fixture.id("HEAD:a/b");
    let by = |prefix: &str| worktree.blob_by_prefix(prefix, &mut leash());
    assert_eq!(by(&id.to_string()[..8]).unwrap(), Some(id));
    assert_eq!(by(&id.to_string()).unwrap(), Some(id));
    assert_eq!(by(&tree.to_string()[..12]).unwrap(), None);
    assert_eq!(code(by("--all")), "OBJECT_UNKNOWN");
    assert_eq!(code(by("abc")), "OBJECT_UNKNOWN");
}

#[test]
fn the_history_is_that_of_the_base() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.commit("first\n\nwith a body");
    let second = fixture.commit("second \u{e9}");
    let worktree = fixture.worktree("w");
    fixture.commit("third, after the base");
    let history = worktree.history(10, &mut leash()).unwrap();
    let told: Vec<_> = history.iter().map(|past| past.subject.as_str()).collect();
    assert_eq!(told, ["second \u{e9}", "first"]);
    let latest = &history[0];
    assert_eq!((latest.id, latest.author.as_str()), (second, "Ada"));
    assert_eq!(latest.date, "2026-01-02T03:04:05Z");
    assert_eq!(worktree.history(1, &mut leash()).unwrap().len(), 1);
}
