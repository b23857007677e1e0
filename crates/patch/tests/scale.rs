//! Large and hostile patches: everything is done in little more than one pass.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fmt::Write as _;

use common::{applied, codes, patch, refused, rejected, reversed, tree};
use countersign_patch::{ApplyOptions, Code, MemoryTree};

/// A file of `hunks` blocks of 20 lines, and a patch that changes one line in each.
fn many(hunks: usize) -> (String, String, String) {
    let (mut old, mut new) = (String::new(), String::new());
    let mut text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n".to_owned();
    for block in 0..hunks {
        let start = block * 20 + 7;
        writeln!(text, "@@ -{start},7 +{start},7 @@ block {block}").unwrap();
        for line in 0..20 {
            let content = format!("block {block}, line {line} of some length");
            writeln!(old, "{content}").unwrap();
            let changed = if line == 9 { "changed" } else { &content };
            writeln!(new, "{changed}").unwrap();
            match line {
                9 => writeln!(text, "-{content}\n+{changed}").unwrap(),
                6..=12 => writeln!(text, " {content}").unwrap(),
                _ => {}
            }
        }
    }
    (old, new, text)
}

#[test]
fn fifty_thousand_hunks_go_there_and_back() {
    let (old, new, text) = many(50_000);
    assert!(text.len() > 1 << 20);
    let mut files = tree(&[("x", &old)]);
    let told = applied(&text, &mut files, &ApplyOptions::default());
    assert_eq!((told.totals.hunks, told.totals.added, told.totals.shifted), (50_000, 50_000, 0));
    assert!(files == tree(&[("x", &new)]));
    applied(&text, &mut files, &reversed());
    assert!(files == tree(&[("x", &old)]));
}

#[test]
fn hunks_that_all_moved_far_are_found() {
    let (old, new, text) = many(20_000);
    let above = "something new\n".repeat(30_000);
    let mut files = tree(&[("x", &(above.clone() + &old))]);
    let told = applied(&text, &mut files, &ApplyOptions::default());
    assert_eq!(told.totals.shifted, 20_000);
    assert!(files == tree(&[("x", &(above + &new))]));
}

#[test]
fn hunks_that_are_nowhere_are_all_told() {
    let (old, _, text) = many(20_000);
    let files = tree(&[("x", &old.replace("line 9 ", "line nine "))]);
    let told = rejected(text, &files, &ApplyOptions::default());
    assert_eq!((told.rejections.len(), told.left_out), (10_000, 10_000));
    assert!(told.rejections.iter().all(|rejection| rejection.code == Code::ContextMismatch));
}

#[test]
fn repeated_lines_cannot_make_the_search_endless() {
    // Every place fits almost to the end of every hunk.
    let old = "a\n".repeat(200_000) + "b\n" + &"a\n".repeat(200_000);
    let mut text = "--- a/x\n+++ b/x\n".to_owned();
    for hunk in 0..200 {
        let start = 2 + hunk * 1000;
        let body = " a\n".repeat(499);
        writeln!(text, "@@ -{start},502 +{start},502 @@\n{body} b\n-b\n+c\n a").unwrap();
    }
    let options = ApplyOptions { max_comparisons: 5_000_000, ..ApplyOptions::default() };
    let told = rejected(&text, &tree(&[("x", &old)]), &options);
    assert_eq!(told.rejections.len(), 200);
    // Two different lines in turns: no line is rare.
    let old = "a\nb\n".repeat(200_000);
    let text = text.replace(" b\n-b\n", " a\n-b\n");
    let told = rejected(&text, &tree(&[("x", &old)]), &options);
    assert_eq!(told.rejections.len(), 200);
    assert!(codes(&told).contains(&Code::SearchLimit));
}

#[test]
fn many_files_and_many_broken_ones_are_read_in_one_pass() {
    let mut text = String::new();
    for n in 0..50_000 {
        writeln!(text, "diff --git a/d{}/f{n} b/d{0}/f{n}\nnew file mode 100644", n % 100).unwrap();
        writeln!(text, "--- /dev/null\n+++ b/d{}/f{n}\n@@ -0,0 +1 @@\n+{n}", n % 100).unwrap();
    }
    let mut files = MemoryTree::default();
    applied(&text, &mut files, &ApplyOptions::default());
    assert_eq!(files.entries.len(), 50_000);
    applied(&text, &mut files, &reversed());
    assert_eq!(files.entries.len(), 0);

    let broken = text.replace("+1 @@", "+1,4000000000 @@");
    assert_eq!(refused(&broken).len(), 100);
    let spaces = format!("diff --git {}\n", "a ".repeat(15_000)).repeat(300);
    assert_eq!(refused(&spaces).len(), 100);
    let deep = format!("--- a/{0}x\n+++ b/{0}x\n@@ -1 +1 @@\n-a\n+b\n", "d/".repeat(2000));
    assert_eq!(patch(deep.as_bytes()).files().len(), 1);
}
