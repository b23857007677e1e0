//! Diffs told: the numbers are those of git, the table fits, and the page is inert.
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

use common::{Repository, git_is_missing};
use countersign_patch::report::{HtmlOptions, Report, Status, write_html, write_table, write_text};
use countersign_patch::{Diff, Entry, Kind, ReadOptions};

fn read(text: &[u8]) -> Diff<'_> {
    let options = ReadOptions { allow_empty: true, ..ReadOptions::default() };
    Diff::read(text, &options).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn page(text: &[u8], options: &HtmlOptions) -> String {
    let mut out = Vec::new();
    write_html(&read(text), options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn table(text: &[u8]) -> String {
    let mut out = Vec::new();
    write_table(&read(text), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A repository with everything in it, and its diff.
fn rich() -> (Repository, Vec<u8>) {
    let long: String = (0..100).map(|n| format!("line {n}\n")).collect();
    let file = |text: &str| Entry::file(text);
    let old = BTreeMap::from([
        ("edited".to_owned(), file(&long)),
        ("moved".to_owned(), file(&long.replace("line", "row"))),
        ("binary".to_owned(), Entry::file(vec![0u8, 1, 2])),
        ("mode".to_owned(), file("x\n")),
        ("gone".to_owned(), file("1\n2\n")),
    ]);
    let new = BTreeMap::from([
        ("edited".to_owned(), file(&long.replace("line 5\n", "<b>&\u{202e}\n"))),
        ("to/there".to_owned(), file(&long.replace("line", "row").replace("row 7\n", ""))),
        ("binary".to_owned(), Entry::file(vec![0u8, 1, 3])),
        (
            "mode".to_owned(),
            Entry { kind: Kind::File { executable: true }, content: b"x\n".to_vec() },
        ),
        ("<script>alert('1')".to_owned(), file("no end")),
    ]);
    let repository = Repository::new();
    let text = repository.diff(&old, &new, &["--full-index", "--binary", "-M"]);
    (repository, text)
}

#[test]
fn the_numbers_are_those_of_git() {
    if git_is_missing() {
        return;
    }
    let (repository, text) = rich();
    let report = Report::of(&read(&text));
    let mut ours: Vec<String> = report
        .files
        .iter()
        .map(|file| match file.binary {
            true => "-\t-".to_owned(),
            false => format!("{}\t{}", file.added, file.removed),
        })
        .collect();
    let theirs =
        String::from_utf8(repository.git(&["diff", "--cached", "--numstat", "-M"])).unwrap();
    let mut theirs: Vec<String> =
        theirs.lines().map(|line| line.rsplitn(2, '\t').last().unwrap().to_owned()).collect();
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
    let find = |path: &str| report.files.iter().find(|file| file.path == path).unwrap();
    let moved = find("to/there");
    assert_eq!((moved.status, moved.from.as_deref()), (Status::Renamed, Some("moved")));
    assert!(moved.similarity.unwrap() > 90);
    assert_eq!(find("mode").status, Status::Mode);
    assert_eq!(find("gone").status, Status::Deleted);
    assert_eq!(find("<script>alert('1')").status, Status::New);
    let totals = report.totals;
    assert_eq!((totals.files, totals.binary, totals.mode_changes, totals.renamed), (6, 1, 1, 1));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["totals"]["added"], totals.added);
    assert_eq!(json["files"][0]["path"], report.files[0].path);
}

#[test]
fn the_page_is_inert_and_the_same_every_time() {
    if git_is_missing() {
        return;
    }
    let (_, text) = rich();
    let page_text = page(&text, &HtmlOptions::default());
    assert_eq!(page_text, page(&text, &HtmlOptions::default()));
    assert!(!page_text.contains("<script"), "a name became an element");
    assert!(!page_text.contains('\u{202e}'), "a line can turn itself around");
    assert!(page_text.contains("&lt;script&gt;alert(&#39;1&#39;)"));
    assert!(page_text.contains("&lt;b&gt;&amp;<span class=\"x\">\\u{202e}</span>"));
    assert!(page_text.contains("no newline at end of file"));
    assert!(
        !page_text.contains("http:")
            && !page_text.contains("https:")
            && !page_text.contains("url(")
    );
    assert!(page_text.contains("prefers-color-scheme:dark"));
    for number in 1..=6 {
        assert!(page_text.contains(&format!("href=\"#f{number}\"")));
        assert!(page_text.contains(&format!("<details id=\"f{number}\"")));
    }
    for element in ["details", "table", "tr", "td", "span", "summary", "code", "div"] {
        let count = |start: &str| page_text.matches(start).count();
        let opened = count(&format!("<{element}>")) + count(&format!("<{element} "));
        assert_eq!(opened, count(&format!("</{element}>")), "{element}");
    }
}

#[test]
fn lines_carry_the_numbers_of_both_sides() {
    let text = b"--- a/x\n+++ b/x\n@@ -7,3 +8,3 @@ fn <T>\n c\n-old\n+new\n d\n";
    let page = page(text, &HtmlOptions::default());
    assert!(page.contains("<td colspan=\"4\">@@ -7,3 +8,3 @@ fn &lt;T&gt;</td>"));
    assert!(
        page.contains(
            "<td class=\"n\">7</td><td class=\"n\">8</td><td class=\"s\"> </td><td>c</td>"
        )
    );
    assert!(
        page.contains(
            "<td class=\"n\">8</td><td class=\"n\"></td><td class=\"s\">-</td><td>old</td>"
        )
    );
    assert!(
        page.contains(
            "<td class=\"n\"></td><td class=\"n\">9</td><td class=\"s\">+</td><td>new</td>"
        )
    );
    assert!(page.contains("<td class=\"n\">9</td><td class=\"n\">10</td>"));
}

#[test]
fn what_is_left_out_is_said() {
    let mut text = "--- a/x\n+++ b/x\n@@ -1,0 +2,5000 @@\n".to_owned();
    (0..5000).for_each(|n| text.push_str(&format!("+{n}\n")));
    let options = HtmlOptions { max_lines: 100, ..HtmlOptions::default() };
    let short = page(text.as_bytes(), &options);
    assert_eq!(short.matches("<tr class=\"a\">").count(), 100);
    assert!(short.contains("4900 more lines of this file are left out here"));
    let long = format!("--- a/x\n+++ b/x\n@@ -1,0 +2 @@\n+{}\n", "é".repeat(5000));
    let cut = page(long.as_bytes(), &HtmlOptions { max_line_length: 101, ..options });
    assert!(cut.contains("9899 more bytes"));
}

#[test]
fn the_table_fits_eighty_columns() {
    let deep = "very/long/directory/name/".repeat(8);
    let mut text = String::new();
    for name in [
        "short",
        deep.as_str(),
        "日本語/ファイル名前/日本語/ファイル名前/日本語/ファイル名前/日本語/ファイル",
    ] {
        text += &format!(
            "diff --git a/{name}x b/{name}x\n--- a/{name}x\n+++ b/{name}x\n@@ -1 +1,20001 @@\n-a\n"
        );
        text += &"+b\n".repeat(20001);
    }
    text += "diff --git \"a/b\\342\\200\\256\" \"b/b\\342\\200\\256\"\nold mode 100644\nnew mode 100755\n";
    let table = table(text.as_bytes());
    let wide = |line: &str| line.chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum::<usize>();
    for line in table.lines() {
        assert!(wide(line) <= 80, "{} columns: {line}", wide(line));
    }
    assert!(table.starts_with("4 files changed, 60003 lines added, 3 lines removed\n"), "{table}");
    assert!(table.contains("b\\u{202e}") && table.contains("mode 100644, now 100755"), "{table}");
    assert!(table.contains("+20001"), "{table}");
}

#[test]
fn the_text_ends_with_the_diff_itself() {
    let text = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    let mut out = Vec::new();
    write_text(&read(text), &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "1 file changed, 1 line added, 1 line removed\n changed x +1 -1 +++++-----\n\n\
         --- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    );
}

#[test]
fn no_change_and_submodules_can_be_told() {
    assert!(table(b"").starts_with("0 files changed"));
    assert!(page(b"", &HtmlOptions::default()).contains("0 files changed"));
    let text =
        b"diff --git a/s b/s\nindex 1111111..2222222 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n\
                 -Subproject commit 1111111\n+Subproject commit 2222222\n";
    assert!(Report::of(&read(text)).files[0].submodule);
    assert!(table(text).contains("submodule"));
}
