//! Beside the real thing: what `git diff` writes is applied here as `git apply` applies it.
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

use common::{Repository, applied, git_is_missing, patch, reversed};
use countersign_patch::{ApplyOptions, Effect, Entry, Kind, MemoryTree, apply};
use proptest::prelude::*;

type Entries = BTreeMap<String, Entry>;

const BINARY: &[&str] = &["--binary", "--full-index", "-M"];

fn memory(entries: &Entries) -> MemoryTree {
    MemoryTree { entries: entries.clone(), ..MemoryTree::default() }
}

/// Forward leads to the new tree, backward to the old one, and the touched paths are the changed.
fn check_round_trip(repository: &Repository, old: &Entries, new: &Entries, options: &[&str]) {
    let text = repository.diff(old, new, options);
    if old == new {
        return assert!(text.is_empty());
    }
    let mut tree = memory(old);
    let shown = String::from_utf8_lossy(&text).into_owned();
    // Without context the numbers must be believed, which is not the default.
    let zero_context = options.contains(&"-U0");
    applied(&text, &mut tree, &ApplyOptions { zero_context, ..ApplyOptions::default() });
    assert_eq!(&tree.entries, new, "{shown}");
    applied(&text, &mut tree, &ApplyOptions { zero_context, ..reversed() });
    assert_eq!(&tree.entries, old, "backward: {shown}");
    let touched: Vec<String> = patch(&text)
        .touches(false)
        .iter()
        .filter(|touch| touch.effect != Effect::Read)
        .map(|touch| touch.path.to_owned())
        .collect();
    let all: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed: Vec<&String> = all.into_iter().filter(|p| old.get(*p) != new.get(*p)).collect();
    assert_eq!(touched.iter().collect::<Vec<_>>(), changed, "{shown}");
}

fn file(content: impl AsRef<[u8]>) -> Entry {
    Entry::file(content.as_ref())
}

fn executable(content: &str) -> Entry {
    Entry { kind: Kind::File { executable: true }, content: content.into() }
}

fn link(target: &str) -> Entry {
    Entry { kind: Kind::Link, content: target.into() }
}

fn entries(list: &[(&str, Entry)]) -> Entries {
    list.iter().map(|(path, entry)| ((*path).to_owned(), entry.clone())).collect()
}

fn noise(seed: u32, size: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..size).map(|_| next()).collect()
}

#[test]
fn every_kind_of_change_goes_there_and_back() {
    if git_is_missing() {
        return;
    }
    let long: String = (0..200).map(|n| format!("line {n}\n")).collect();
    let edited = long.replace("line 100\n", "line one hundred\n");
    let noisy = noise(1, 5000);
    let mut noisier = noisy.clone();
    noisier.splice(2000..2010, *b"inserted here");
    let cases: Vec<(&str, Entries, Entries)> = vec![
        ("edit", entries(&[("a", file(&long))]), entries(&[("a", file(&edited))])),
        ("create", entries(&[]), entries(&[("d/e/f", file("x\n"))])),
        ("delete", entries(&[("d/e/f", file("x\n"))]), entries(&[])),
        ("empty", entries(&[("gone", file(""))]), entries(&[("d/made", executable(""))])),
        ("to empty", entries(&[("a", file("x\n"))]), entries(&[("a", file(""))])),
        ("carriage", entries(&[("a", file("x\r\ny\r\n"))]), entries(&[("a", file("x\r\nz\n"))])),
        ("no newline", entries(&[("a", file("x\ny"))]), entries(&[("a", file("x\ny\nz"))])),
        ("newline added", entries(&[("a", file("x\ny"))]), entries(&[("a", file("x\ny\n"))])),
        ("newline gone", entries(&[("a", file("x\ny\n"))]), entries(&[("a", file("x\ny"))])),
        ("rename", entries(&[("a", file(&long))]), entries(&[("b c/d", file(&long))])),
        (
            "rename, edit",
            entries(&[("a", file(&long))]),
            entries(&[("ä\t\"", executable(&edited))]),
        ),
        ("mode", entries(&[("a", file("x"))]), entries(&[("a", executable("x"))])),
        ("mode, edit", entries(&[("a", executable("x"))]), entries(&[("a", file("y"))])),
        ("link", entries(&[("l", link("a"))]), entries(&[("l", link("b/c")), ("m", link("n"))])),
        ("file to link", entries(&[("a", file("x\n"))]), entries(&[("a", link("x"))])),
        ("link to file", entries(&[("a", link("x"))]), entries(&[("a", executable("x\n"))])),
        ("binary made", entries(&[]), entries(&[("b", file(&noisy))])),
        ("binary gone", entries(&[("b", file(&noisy))]), entries(&[])),
        ("delta", entries(&[("b", file(&noisy))]), entries(&[("b", file(&noisier))])),
        ("binary moved", entries(&[("b", file(&noisy))]), entries(&[("c", file(&noisier))])),
        ("file to directory", entries(&[("a", file("x\n"))]), entries(&[("a/b", file("y\n"))])),
        ("directory to file", entries(&[("a/b", file("x\n"))]), entries(&[("a", file("y\n"))])),
        ("moved below itself", entries(&[("a", file(&long))]), entries(&[("a/b", file(&long))])),
        ("moved above itself", entries(&[("a/b", file(&long))]), entries(&[("a", file(&edited))])),
        (
            "odd names",
            entries(&[
                ("with space", file("1\n")),
                ("日本", file("1\n")),
                ("new\nline", file("1")),
            ]),
            entries(&[
                ("with space", file("2\n")),
                ("日本", file("2\n")),
                ("new\nline", file("2")),
            ]),
        ),
        (
            "odd names, modes only",
            entries(&[("with b/space", file("1\n")), ("\\", file("1\n")), ("-- ", file("1"))]),
            entries(&[
                ("with b/space", executable("1\n")),
                ("\\", executable("1\n")),
                ("-- ", executable("1")),
            ]),
        ),
        (
            "lines that look like headers",
            entries(&[("a", file("-- a\n++ b\n@@ -1 +1 @@\ndiff --git a/x b/x\n\n"))]),
            entries(&[("a", file("-- b\n++ c\n@@ -1 +1 @@\n\\ No newline\n"))]),
        ),
    ];
    let repository = Repository::new();
    for (name, old, new) in cases {
        println!("{name}");
        check_round_trip(&repository, &old, &new, BINARY);
        check_round_trip(&repository, &old, &new, &["--binary", "--no-renames"]);
        check_round_trip(&repository, &old, &new, &["--binary", "-M", "-U0"]);
    }
}

#[test]
fn two_files_may_swap_their_names() {
    if git_is_missing() {
        return;
    }
    let one: String = (0..90).map(|n| format!("one line of the first, {n}\n")).collect();
    let two: String = (0..90).map(|n| format!("{}: another file\n", n * 31)).collect();
    let old = entries(&[("a", file(&one)), ("b", file(&two))]);
    let new = entries(&[("a", file(&two)), ("b", file(one.replace("first, 7\n", "seven\n")))]);
    let repository = Repository::new();
    let text = repository.diff(&old, &new, &["--binary", "-M", "-B"]);
    assert!(String::from_utf8_lossy(&text).contains("rename from b"), "git found no swap");
    check_round_trip(&repository, &old, &new, &["--binary", "-M", "-B"]);
}

#[test]
fn copies_read_what_was_there_before() {
    if git_is_missing() {
        return;
    }
    let long: String = (0..50).map(|n| format!("line {n}\n")).collect();
    let changed = long.replace("line 3\n", "three\n");
    let old = entries(&[("a", file(&long))]);
    let new = entries(&[("a", file(&changed)), ("b", file(&long)), ("c", file(&long))]);
    let repository = Repository::new();
    let text = repository.diff(&old, &new, &["-C", "--find-copies-harder"]);
    assert!(String::from_utf8_lossy(&text).contains("copy from a"), "git found no copy");
    let mut tree = memory(&old);
    applied(&text, &mut tree, &ApplyOptions::default());
    assert_eq!(tree.entries, new);
    assert!(apply(&patch(&text), &mut tree, &reversed()).is_err());
}

#[test]
fn patches_sent_by_mail_are_read() {
    if git_is_missing() {
        return;
    }
    let repository = Repository::new();
    let old = entries(&[("a", file("1\n2\n3\n"))]);
    let new = entries(&[("a", file("1\n2\nthree\n- -\n")), ("b", file("x"))]);
    repository.put(&old);
    repository.commit();
    repository.put(&new);
    repository.commit();
    let text = repository.git(&["format-patch", "-1", "--stdout"]);
    assert!(text.starts_with(b"From ") && text.windows(4).any(|four| four == b"\n-- "));
    let mut tree = memory(&old);
    applied(&text, &mut tree, &ApplyOptions::default());
    assert_eq!(tree.entries, new);
}

/// Small alphabets make repeated lines, and with them the hunks that are hard to place.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "", "}", "- x", "+ y", "\\ z", "ä", "x\r"])
            .prop_map(str::to_owned),
        1 => "[a-z]{1,4}",
    ];
    (prop::collection::vec(line, 0..40), any::<bool>()).prop_map(|(lines, newline)| {
        let mut text = lines.join("\n");
        if newline && !text.is_empty() {
            text.push('\n');
        }
        text.into_bytes()
    })
}

fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, usize, Vec<String>)>> {
    let lines = prop::collection::vec("[ab}]{0,2}", 0..4);
    prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, lines), 0..5)
}

fn edited(content: &[u8], edits: &[(prop::sample::Index, usize, Vec<String>)]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> =
        content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    for (at, remove, insert) in edits {
        let at = at.index(lines.len() + 1);
        let end = (at + remove).min(lines.len());
        lines.splice(at..end, insert.iter().map(|line| format!("{line}\n").into_bytes()));
    }
    lines.concat()
}

fn some_tree() -> impl Strategy<Value = Entries> {
    let names = prop::sample::select(vec!["a", "b b", "d/ä", "d/e/\"q\"", "z"]);
    let kind = prop_oneof![
        3 => Just(Kind::File { executable: false }), 1 => Just(Kind::File { executable: true })];
    let entry = (content(), kind).prop_map(|(content, kind)| Entry { kind, content });
    prop::collection::btree_map(names.prop_map(str::to_owned), entry, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_git_tells_goes_there_and_back(
        old in some_tree(), other in some_tree(), edits in edits(), context in 0..5usize,
    ) {
        if git_is_missing() {
            return Ok(());
        }
        let mut new = other;
        for (path, entry) in old.iter().take(3) {
            let content = edited(&entry.content, &edits);
            new.insert(path.clone(), Entry { kind: entry.kind, content });
        }
        let repository = Repository::new();
        let context = format!("-U{context}");
        check_round_trip(&repository, &old, &new, &["--binary", "-M", &context]);
    }

    #[test]
    fn on_a_file_that_changed_git_decides_the_same(
        old in content(), edits_of_patch in edits(), edits_of_file in edits(),
        context in 1..4usize,
    ) {
        if git_is_missing() {
            return Ok(());
        }
        let repository = Repository::new();
        let of = |content: &[u8]| entries(&[("f", file(content))]);
        let new = edited(&old, &edits_of_patch);
        prop_assume!(new != old);
        let text = repository.diff(&of(&old), &of(&new), &[&format!("-U{context}")]);
        let now = of(&edited(&old, &edits_of_file));
        repository.put(&now);
        let theirs = repository.apply(&[], &text).status.success();
        let mut tree = memory(&now);
        let ours = apply(&patch(&text), &mut tree, &ApplyOptions::default()).is_ok();
        let shown = String::from_utf8_lossy(&text).into_owned();
        if ours {
            prop_assert!(theirs, "git refuses:\n{shown}");
            prop_assert_eq!(tree.entries, repository.entries(), "{}", shown);
        } else if theirs {
            // Git lets a hunk come before the one above it, and takes a last line without its
            // newline for the beginning of one that has it. Here neither is done.
            let looser = patch(&text).files()[0].hunks().len() > 1 || shown.contains("\n\\ No");
            prop_assert!(looser, "git applies:\n{shown}");
        }
    }
}
