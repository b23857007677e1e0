//! Where hunks land, and how what does not fit is told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeMap;

use common::{Repository, applied, codes, git_is_missing, patch, rejected, reversed, tree};
use countersign_patch::{ApplyOptions, Code, Conflict, Entry, Kind, LineRange, MemoryTree, apply};
use proptest::prelude::*;

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|n| format!("{n}\n")).collect()
}

const CHANGE_5: &str = "--- a/x\n+++ b/x\n@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n";

fn options() -> ApplyOptions {
    ApplyOptions::default()
}

#[test]
fn a_hunk_that_moved_is_found_and_its_offset_told() {
    for (above, offset) in [("", 0), ("x\ny\n", 2), ("x\n", 1)] {
        let mut files = tree(&[("x", &(above.to_owned() + &lines(1..10)))]);
        let told = applied(CHANGE_5, &mut files, &options());
        assert_eq!(told.files[0].hunks[0].offset, offset);
        assert_eq!(told.totals.shifted, u64::from(offset != 0));
        let text = String::from_utf8(files.entries["x"].content.clone()).unwrap();
        assert_eq!(text, above.to_owned() + &lines(1..10).replace("5\n", "five\n"));
    }
    let mut files = tree(&[("x", &lines(3..10))]);
    assert_eq!(applied(CHANGE_5, &mut files, &options()).files[0].hunks[0].offset, -2);
}

#[test]
fn of_several_places_the_nearest_is_taken_and_the_later_of_two() {
    let block = "4\n5\n6\n";
    let content = format!("{block}-\n-\n-\n-\n-\n{block}");
    // Stated at line 4; the blocks are at 1 and 9.
    let mut files = tree(&[("x", &content)]);
    let told = applied(CHANGE_5, &mut files, &options());
    assert_eq!(told.files[0].hunks[0].offset, -3);
    let content = format!("{block}-\n-\n-\n{block}");
    let mut files = tree(&[("x", &content)]);
    assert_eq!(applied(CHANGE_5, &mut files, &options()).files[0].hunks[0].offset, 3);
}

#[test]
fn hunks_at_an_end_of_the_file_belong_there() {
    let top = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n";
    assert_eq!(
        codes(&rejected(top, &tree(&[("x", "0\n1\n2\n")]), &options())),
        [Code::ContextMismatch]
    );
    let bottom = "--- a/x\n+++ b/x\n@@ -8,2 +8,2 @@\n 8\n-9\n+nine\n";
    let more = tree(&[("x", &lines(1..12))]);
    assert_eq!(codes(&rejected(bottom, &more, &options())), [Code::ContextMismatch]);
    let told = applied(bottom, &mut tree(&[("x", &lines(3..10))]), &options());
    assert_eq!(told.files[0].hunks[0].offset, -2);
}

#[test]
fn every_rejected_hunk_of_every_file_is_told() {
    let text = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n 1\n-two\n+2\n 3\n@@ -5,3 +5,3 @@\n 5\n-6\n+six\n 7\n\
                @@ -9,2 +9,2 @@\n-nine\n+9\n 10\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n";
    let files = tree(&[("x", &lines(1..12))]);
    let told = rejected(text, &files, &options());
    let places: Vec<_> = told
        .rejections
        .iter()
        .map(|r| (r.path.as_str(), r.hunk, r.line_in_patch, r.line_in_file, r.code))
        .collect();
    assert_eq!(
        places,
        [
            ("x", Some(1), 3, Some(1), Code::ContextMismatch),
            ("x", Some(3), 13, Some(9), Code::ContextMismatch),
            ("y", None, 17, None, Code::FileMissing),
        ]
    );
    let first = &told.rejections[0];
    assert_eq!((first.expected.as_deref(), first.found.as_deref()), (Some("two"), Some("2")));
    // The new line stands there already, and the hint says so.
    assert!(first.hint.as_deref().unwrap().contains("already"), "{first:?}");
    let json = serde_json::to_value(&told).unwrap();
    assert_eq!(json["rejections"][0]["code"], "CONTEXT_MISMATCH");
    assert_eq!(json["rejections"][2]["lineInPatch"], 17);
}

#[test]
fn no_context_is_given_up() {
    // A tool with fuzz would leave out the first and last line of context.
    let files = tree(&[("x", &lines(1..10).replace("4\n", "four\n"))]);
    assert_eq!(codes(&rejected(CHANGE_5, &files, &options())), [Code::ContextMismatch]);
    let files = tree(&[("x", &lines(1..10).replace("6\n", "6 \n"))]);
    let told = rejected(CHANGE_5, &files, &options());
    assert_eq!(told.rejections[0].found.as_deref(), Some("6 "));
    let files = tree(&[("x", &lines(1..10).replace('\n', "\r\n"))]);
    assert_eq!(
        rejected(CHANGE_5, &files, &options()).rejections[0].found.as_deref(),
        Some("4\\u{d}")
    );
}

#[test]
fn nothing_is_put_behind_a_line_without_its_end() {
    let text = "--- a/x\n+++ b/x\n@@ -2,0 +3 @@\n+3\n";
    let zero = ApplyOptions { zero_context: true, ..options() };
    assert_eq!(codes(&rejected(text, &tree(&[("x", "1\n2")]), &zero)), [Code::ContextMismatch]);
    let mut files = tree(&[("x", "1\n2\n")]);
    applied(text, &mut files, &zero);
    assert_eq!(files, tree(&[("x", "1\n2\n3\n")]));
    // Believing numbers is not the default, and a line without its end belongs to the end.
    assert_eq!(
        codes(&rejected(text, &tree(&[("x", "1\n2\n3\n4")]), &options())),
        [Code::ContextMismatch]
    );
    let unterminated = "--- a/x\n+++ b/x\n@@ -2 +2 @@\n-2\n+two\n\\ No newline at end of file\n";
    assert_eq!(
        codes(&rejected(unterminated, &tree(&[("x", "1\n2\n3\n")]), &zero)),
        [Code::ContextMismatch]
    );
}

#[test]
fn what_must_be_there_or_not_is_looked_at() {
    let make =
        "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n";
    let delete =
        "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
    let rename = "diff --git a/x b/y\nrename from x\nrename to y\n";
    let mode = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n";
    let edit = "--- a/d/x\n+++ b/d/x\n@@ -1 +1 @@\n-a\n+b\n";
    let link = "diff --git a/x b/x\nindex 1111111..2222222 120000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    let mut linked = tree(&[("z", "")]);
    linked.entries.insert("x".into(), Entry { kind: Kind::Link, content: b"a\n".to_vec() });
    linked.entries.insert("d".into(), Entry { kind: Kind::Link, content: b"e".to_vec() });
    let mut runs = tree(&[("x", "a\n")]);
    runs.entries.get_mut("x").unwrap().kind = Kind::File { executable: true };
    let cases = [
        (make, tree(&[("x", "")]), Code::FileExists),
        (make, tree(&[("x/y", "")]), Code::FileExists),
        (delete, tree(&[]), Code::FileMissing),
        (delete, tree(&[("x", "a\nb\n")]), Code::ContextMismatch),
        (delete, tree(&[("x/y", "a\n")]), Code::NotAFile),
        (rename, tree(&[("y", "a\n")]), Code::FileExists),
        (rename, tree(&[("x", ""), ("y", "")]), Code::FileExists),
        (mode, runs.clone(), Code::ModeMismatch),
        (mode, linked.clone(), Code::KindMismatch),
        (edit, linked.clone(), Code::ParentNotDirectory),
        (edit, tree(&[("d", "a\n")]), Code::ParentNotDirectory),
        (delete, linked.clone(), Code::KindMismatch),
        (link, tree(&[("x", "a\n")]), Code::KindMismatch),
    ];
    for (text, files, code) in cases {
        assert_eq!(codes(&rejected(text, &files, &options()))[0], code, "{text}");
    }
    // An edit that says nothing of a new mode leaves the mode alone.
    let plain = "diff --git a/x b/x\nindex 1111111..2222222 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    applied(plain, &mut runs, &options());
    assert_eq!(runs.entries["x"].kind, Kind::File { executable: true });
}

#[test]
fn deletion_needs_exactly_what_the_patch_removes() {
    let empty = "diff --git a/x b/x\ndeleted file mode 100644\nindex e69de29..0000000\n";
    assert_eq!(codes(&rejected(empty, &tree(&[("x", "a\n")]), &options())), [Code::ContentLeft]);
    let mut files = tree(&[("x", "")]);
    applied(empty, &mut files, &options());
    assert_eq!(files, tree(&[]));
    // Without the content, as `git diff -D` writes it, only a full name of the content will do.
    let named = "diff --git a/x b/x\ndeleted file mode 100644\n\
                 index ce013625030ba8dba906f756967f9e9ca394464a..0000000000000000000000000000000000000000\n";
    applied(named, &mut tree(&[("x", "hello\n")]), &options());
    assert_eq!(
        codes(&rejected(named, &tree(&[("x", "hullo\n")]), &options())),
        [Code::ContentLeft]
    );
    // And there is no way back.
    assert_eq!(codes(&rejected(named, &tree(&[]), &reversed())), [Code::BinaryDataMissing]);
}

#[test]
fn binary_files_must_be_the_ones_the_patch_was_made_from() {
    if git_is_missing() {
        return;
    }
    let entries = |bytes: &[u8]| BTreeMap::from([("x".to_owned(), Entry::file(bytes))]);
    let of = |bytes: &[u8]| MemoryTree { entries: entries(bytes), ..MemoryTree::default() };
    let old: Vec<u8> = (0..2000u32).map(|n| (n * n % 251) as u8).collect();
    let mut new = old.clone();
    new[1000] ^= 1;
    let mut other = old.clone();
    other[1500] ^= 1;
    let repository = Repository::new();
    for full in ["--full-index", "--abbrev=8"] {
        // With `--binary` git always writes full names; cut them for the second round.
        let text = repository.diff(&entries(&old), &entries(&new), &["--binary", "--full-index"]);
        let mut text = String::from_utf8(text).unwrap();
        if full != "--full-index" {
            let at = text.find("index ").unwrap();
            text.replace_range(at + 6 + 8..at + 6 + 40, "");
            let at = text.find("..").unwrap();
            text.replace_range(at + 2 + 8..at + 2 + 40, "");
        }
        let mut files = of(&old);
        applied(&text, &mut files, &options());
        assert_eq!(files.entries["x"].content, new);
        assert_eq!(codes(&rejected(&text, &of(&other), &options())), [Code::BinaryMismatch]);
        assert_ne!(codes(&rejected(&text, &of(&old[..100]), &options())), []);
        assert_eq!(codes(&rejected(&text, &of(&other), &reversed())), [Code::BinaryMismatch]);
        applied(&text, &mut files, &reversed());
        assert_eq!(files.entries["x"].content, old);
    }
    let told = repository.diff(&entries(&old), &entries(&new), &[]);
    assert_eq!(codes(&rejected(told, &of(&old), &options())), [Code::BinaryDataMissing]);
}

#[test]
fn damaged_binary_data_is_told() {
    if git_is_missing() {
        return;
    }
    let entries = |bytes: &[u8]| BTreeMap::from([("x".to_owned(), Entry::file(bytes))]);
    let (old, new) = (vec![0u8, 1, 2, 3], vec![0u8; 3000]);
    let text = Repository::new().diff(&entries(&old), &entries(&new), &["--binary"]);
    let text = String::from_utf8(text).unwrap();
    let files = MemoryTree { entries: entries(&old), ..MemoryTree::default() };
    for (from, to) in
        [("literal 3000", "literal 2999"), ("literal 3000", "literal 3001"), ("zc", "zd")]
    {
        let damaged = text.replacen(from, to, 1);
        if damaged != text {
            let told = rejected(damaged, &files, &options());
            assert_eq!(codes(&told), [Code::BinaryCorrupt], "{from}");
        }
    }
}

/// A tree that knows what its file was when the patch was made.
fn remembering(base: &str, current: &str, id: &str) -> MemoryTree {
    let mut files = tree(&[("x", current)]);
    files.blobs.insert(id.to_owned(), base.as_bytes().to_vec());
    files
}

fn three_way() -> ApplyOptions {
    ApplyOptions { three_way: true, ..options() }
}

#[test]
fn a_merge_is_made_where_asked_and_conflicts_are_told() {
    // `seq 1 9 | git hash-object --stdin`.
    let id = "07193989308c972f8a2d0f1b3a15c29ea4ac565b";
    let text = format!(
        "diff --git a/x b/x\nindex {id}..1111111 100644\n--- a/x\n+++ b/x\n\
                        @@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    );
    let base = lines(1..10);
    let near = base.replace("3\n", "three\n");
    assert_eq!(
        codes(&rejected(&text, &remembering(&base, &near, id), &options())),
        [Code::ContextMismatch]
    );
    let mut files = remembering(&base, &near, id);
    let told = applied(&text, &mut files, &three_way());
    assert!(told.files[0].merged && told.totals.merged == 1);
    assert_eq!(files.entries["x"].content, near.replace("5\n", "five\n").into_bytes());

    let range = |start, end| LineRange { start, end };
    let clash = base.replace("5\n", "cinco\n");
    let told = rejected(&text, &remembering(&base, &clash, id), &three_way());
    assert_eq!(codes(&told), [Code::MergeConflict]);
    let conflict = Conflict { base: range(5, 5), current: range(5, 5) };
    assert_eq!((told.rejections[0].hunk, told.rejections[0].conflict), (Some(1), Some(conflict)));

    let adjacent = format!("0\n{}", base.replace("6\n", "six\n"));
    let told = rejected(&text, &remembering(&base, &adjacent, id), &three_way());
    assert_eq!(
        told.rejections[0].conflict,
        Some(Conflict { base: range(5, 6), current: range(6, 7) })
    );

    let same = base.replace("5\n", "five\n");
    let mut files = remembering(&base, &same, id);
    applied(&text, &mut files, &three_way());
    assert_eq!(files.entries["x"].content, same.into_bytes());

    let unknown = tree(&[("x", &near)]);
    let told = rejected(&text, &unknown, &three_way());
    assert!(told.rejections[0].hint.as_deref().unwrap().contains("not known here"));
    let lying = remembering("something else\n", &near, id);
    assert_eq!(codes(&rejected(&text, &lying, &three_way())), [Code::ContextMismatch]);
}

/// Every line is different, so that there is one way only to tell what changed.
fn edited(base: &[String], edits: &[(usize, usize, usize)], tag: &str) -> String {
    let mut out: Vec<String> = base.to_vec();
    let mut sorted = edits.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    for (number, (at, remove, insert)) in sorted.iter().enumerate() {
        let at = (*at).min(out.len());
        let end = (at + remove).min(out.len());
        let new = (0..*insert).map(|n| format!("{tag} {number} {n}\n"));
        out.splice(at..end, new);
    }
    out.concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merges_are_those_of_git(
        size in 1..30usize,
        theirs in prop::collection::vec((0..30usize, 0..3usize, 0..3usize), 1..4),
        ours in prop::collection::vec((0..30usize, 0..3usize, 0..3usize), 1..4),
    ) {
        if git_is_missing() {
            return Ok(());
        }
        let base: Vec<String> = (0..size).map(|n| format!("line {n}\n")).collect();
        let theirs = edited(&base, &theirs, "theirs");
        let ours = edited(&base, &ours, "ours");
        let base = base.concat();
        prop_assume!(theirs != base && !theirs.is_empty());
        let entries = |text: &str| BTreeMap::from([("x".to_owned(), Entry::file(text))]);
        let repository = Repository::new();
        let text = repository.diff(&entries(&base), &entries(&theirs), &["--full-index"]);
        let id = patch(&text).files()[0].old_id.unwrap().to_owned();
        for (name, content) in [("base", &base), ("ours", &ours), ("theirs", &theirs)] {
            std::fs::write(repository.path().join(name), content).unwrap();
        }
        let merged = repository.command(&["merge-file", "-p", "ours", "base", "theirs"]).output().unwrap();
        let mut files = remembering(&base, &ours, &id);
        let told = apply(&patch(&text), &mut files, &three_way());
        prop_assert_eq!(told.is_ok(), merged.status.success(), "{}\n{:?}",
            String::from_utf8_lossy(&merged.stdout), told);
        if told.is_ok() {
            let content = &files.entries["x"].content;
            prop_assert_eq!(String::from_utf8_lossy(content), String::from_utf8_lossy(&merged.stdout));
        }
    }
}
