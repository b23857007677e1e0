//! What is read, what is refused, and with which words and places.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{applied, patch, refused, tree};
use countersign_patch::{ApplyOptions, Code, Effect, Kind, Op, Patch, ReadOptions, Touch};

const HUNK: &str = "@@ -1 +1 @@\n-a\n+b\n";

fn plain(name: &str) -> String {
    format!("--- a/{name}\n+++ b/{name}\n{HUNK}")
}

fn git(name: &str) -> String {
    format!("diff --git a/{name} b/{name}\n{}", plain(name))
}

#[test]
fn malformed_patches_are_refused_by_name() {
    let with = |hunk: &str| format!("--- a/x\n+++ b/x\n{hunk}");
    let cases: &[(&str, String, Code)] = &[
        ("empty", String::new(), Code::NoPatch),
        ("prose", "Dear all,\n\n--- see below\n-- \nme\n".into(), Code::NoPatch),
        ("stray hunk", HUNK.into(), Code::HunkWithoutFile),
        ("merge", "diff --cc x\nindex 1111,2222..3333\n".into(), Code::CombinedDiff),
        ("no hunk", "--- a/x\n+++ b/x\n".into(), Code::HunkMissing),
        ("nothing said", "diff --git a/x b/x\n".into(), Code::HunkMissing),
        ("no numbers", with("@@ -a +b @@\n"), Code::HunkHeaderMalformed),
        ("line zero", with("@@ -0 +1 @@\n-a\n+b\n"), Code::HunkHeaderMalformed),
        ("huge numbers", with("@@ -99999999999 +1 @@\n-a\n+b\n"), Code::HunkHeaderMalformed),
        ("huge counts", with("@@ -1,4000000000 +1,4000000000 @@\n-a\n+b\n"), Code::HunkTooShort),
        ("cut off", with("@@ -1,2 +1,2 @@\n-a\n+b\n"), Code::HunkTooShort),
        ("cut in a line", with("@@ -1 +1 @@\n-a\n+b"), Code::HunkTooShort),
        ("more lines", with("@@ -1 +1 @@\n-a\n+b\n+c\n"), Code::HunkTooLong),
        ("more of one kind", with("@@ -1,2 +1 @@\n-a\n+b\n+c\n-d\n"), Code::HunkTooLong),
        ("foreign line", with("@@ -1,2 +1,2 @@\n-a\n+b\n*c\n"), Code::HunkTooShort),
        ("backwards", with(&format!("@@ -9 +9 @@\n-a\n+b\n{HUNK}")), Code::HunksOutOfOrder),
        (
            "overlap",
            with("@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -2 +2 @@\n-c\n+d\n"),
            Code::HunksOutOfOrder,
        ),
        (
            "marker first",
            with("@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n"),
            Code::MarkerMisplaced,
        ),
        (
            "marker early",
            with("@@ -1,2 +1 @@\n-a\n\\ No newline at end of file\n-b\n+c\n"),
            Code::MarkerMisplaced,
        ),
        ("two names", format!("--- a/x\n+++ b/y\n{HUNK}"), Code::NamesDiffer),
        ("third name", format!("diff --git a/x b/x\n--- a/y\n+++ b/y\n{HUNK}"), Code::NamesDiffer),
        ("half a rename", "diff --git a/x b/y\nrename from x\n".into(), Code::HeaderMalformed),
        (
            "unclear name",
            "diff --git a/x b/y\nold mode 100644\nnew mode 100755\n".into(),
            Code::NameMalformed,
        ),
        ("bad quotes", format!("--- \"a/x\n+++ b/x\n{HUNK}"), Code::NameMalformed),
        // Found by fuzzing: reading stayed at the second line for ever.
        (
            "nothing to strip on one side",
            format!("diff --git a/x b/x\n--- x\n+++ b/x\n{HUNK}"),
            Code::NameMalformed,
        ),
        ("nothing to strip", format!("--- x\n+++ x\n{HUNK}"), Code::NameMalformed),
        (
            "twice a header",
            "diff --git a/x b/x\nold mode 100644\nold mode 100644\n".into(),
            Code::HeaderMalformed,
        ),
        (
            "new and gone",
            "diff --git a/x b/x\nnew file mode 100644\ndeleted file mode 100644\n".into(),
            Code::HeaderMalformed,
        ),
        ("bad mode", "diff --git a/x b/x\nnew file mode 100899\n".into(), Code::ModeUnsupported),
        ("device", "diff --git a/x b/x\nnew file mode 020644\n".into(), Code::ModeUnsupported),
        (
            "file to link by mode",
            "diff --git a/x b/x\nold mode 100644\nnew mode 120000\n".into(),
            Code::HeaderMalformed,
        ),
        ("bad index", "diff --git a/x b/x\nindex 12..34\n".into(), Code::HeaderMalformed),
        (
            "bad similarity",
            "diff --git a/x b/y\nsimilarity index 101%\n".into(),
            Code::HeaderMalformed,
        ),
        (
            "content missing",
            "diff --git a/x b/y\nrename from x\nrename to y\nindex 1111..2222\n".into(),
            Code::HunkMissing,
        ),
        (
            "new with old lines",
            format!(
                "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n\
            +++ b/x\n{HUNK}"
            ),
            Code::OperationContradicted,
        ),
        (
            "deleted with new lines",
            format!("--- a/x\n+++ /dev/null\n{HUNK}"),
            Code::OperationContradicted,
        ),
        ("plain binary", "Binary files a/x and b/x differ\n".into(), Code::BinaryDataMissing),
        (
            "no data",
            "diff --git a/x b/x\nindex 1111..2222 100644\nGIT binary patch\nliteral 5\n\n".into(),
            Code::BinaryMalformed,
        ),
        (
            "bad letters",
            "diff --git a/x b/x\nGIT binary patch\nliteral 1\nAc\"\"\"\"\n\n".into(),
            Code::BinaryMalformed,
        ),
        (
            "cut data",
            "diff --git a/x b/x\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n".into(),
            Code::BinaryMalformed,
        ),
        (
            "too large",
            "diff --git a/x b/x\nGIT binary patch\nliteral 999999999999\n".into(),
            Code::BinaryTooLarge,
        ),
    ];
    for (name, text, code) in cases {
        assert_eq!(refused(text), [*code], "{name}: {text}");
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let cases = [
        ("../x", Code::NameUnsafe),
        ("/etc/passwd", Code::NameUnsafe),
        ("a/../../x", Code::NameUnsafe),
        ("./x", Code::NameUnsafe),
        ("a//x", Code::NameUnsafe),
        (".git/hooks/pre-commit", Code::ControlFile),
        ("sub/.GIT/config", Code::ControlFile),
        ("git~1/config", Code::ControlFile),
        (".g\u{200d}it/config", Code::ControlFile),
    ];
    for (name, code) in cases {
        assert_eq!(refused(plain(name)), [code], "{name}");
        assert_eq!(refused(git(name)), [code], "{name}");
        let create =
            format!("diff --git a/{name} b/{name}\nnew file mode 100644\nindex 0000000..e69de29\n");
        assert_eq!(refused(create), [code], "{name}");
        let rename = format!("diff --git a/ok b/{name}\nrename from ok\nrename to {name}\n");
        assert_eq!(refused(rename), [code], "{name}");
        let away = format!("diff --git a/{name} b/ok\nrename from {name}\nrename to ok\n");
        assert_eq!(refused(away), [code], "{name}");
    }
    assert_eq!(
        refused("--- \"a/x\\000y\"\n+++ \"b/x\\000y\"\n@@ -1 +1 @@\n-a\n+b\n"),
        [Code::NameUnsafe]
    );
    assert_eq!(
        refused("--- \"a/\\377\"\n+++ \"b/\\377\"\n@@ -1 +1 @@\n-a\n+b\n"),
        [Code::NameNotText]
    );
    assert_eq!(refused(plain(&"x".repeat(300))), [Code::NameTooLong]);
}

#[test]
fn submodules_are_refused_by_name() {
    let text = "diff --git a/lib/sub b/lib/sub\nindex 1111111..2222222 160000\n\
                --- a/lib/sub\n+++ b/lib/sub\n@@ -1 +1 @@\n-Subproject commit 11\n+Subproject commit 22\n";
    let refusal = Patch::read(text.as_bytes(), &ReadOptions::default()).unwrap_err();
    assert_eq!(refusal.codes(), [Code::Submodule]);
    assert!(refusal.to_string().contains("`lib/sub` is a submodule"), "{refusal}");
    assert_eq!(
        refused("diff --git a/s b/s\nnew file mode 160000\nindex 0000000..2222222\n"),
        [Code::Submodule]
    );
}

#[test]
fn patches_that_contradict_themselves_are_refused() {
    let make = |name: &str| format!("diff --git a/{name} b/{name}\nnew file mode 100644\n");
    let delete = |name: &str| format!("diff --git a/{name} b/{name}\ndeleted file mode 100644\n");
    let rename = |from: &str, to: &str| {
        format!("diff --git a/{from} b/{to}\nrename from {from}\nrename to {to}\n")
    };
    let cases = [
        (git("x") + &git("x"), vec![Code::PathTwice; 2]),
        (git("x") + &delete("x"), vec![Code::PathTwice; 2]),
        (make("x") + &make("x"), vec![Code::PathTwice]),
        (make("x") + &delete("x"), vec![Code::PathTwice]),
        (rename("x", "y") + &git("y"), vec![Code::PathTwice]),
        (rename("x", "y") + &rename("x", "z"), vec![Code::PathTwice]),
        (rename("x", "y") + &make("y"), vec![Code::PathTwice]),
        (make("x") + &make("x/y"), vec![Code::FileAndDirectory]),
        (git("x") + &make("x/y/z"), vec![Code::FileAndDirectory]),
        (delete("x") + &delete("x/y"), vec![Code::FileAndDirectory]),
        (delete("x") + &make("x"), vec![]),
        (delete("x") + &make("x/y"), vec![]),
        (rename("x", "y") + &rename("y", "x"), vec![]),
        (rename("x", "y") + &make("x"), vec![]),
    ];
    for (text, codes) in cases {
        assert_eq!(refused(&text), codes, "{text}");
    }
}

#[test]
fn every_problem_is_told_with_its_line() {
    let text = format!(
        "{}--- a/x\n+++ b/x\n@@ -1,9 +1 @@\n-a\n+b\n{}diff --git a/y b/y\nnew file mode 1\n{}",
        git("ok"),
        git("../up"),
        git("z"),
    );
    let refusal = Patch::read(text.as_bytes(), &ReadOptions::default()).unwrap_err();
    let told: Vec<(u64, Code)> = refusal.problems.iter().map(|p| (p.line, p.code)).collect();
    // Names are judged only when everything could be read.
    assert_eq!(told, [(12, Code::HunkTooShort), (19, Code::ModeUnsupported)], "{refusal}");
    let json = serde_json::to_value(&refusal).unwrap();
    assert_eq!(json["problems"][0]["code"], "HUNK_TOO_SHORT");
    assert_eq!(json["leftOut"], 0);
}

#[test]
fn a_flood_of_problems_is_cut() {
    let text: String = (0..1000).map(|n| format!("diff --git a/{n} b/{n}\nold mode x\n")).collect();
    let refusal = Patch::read(text.as_bytes(), &ReadOptions::default()).unwrap_err();
    assert_eq!((refusal.problems.len(), refusal.left_out), (100, 900));
}

#[test]
fn plain_diffs_are_read_with_and_without_times() {
    let stamp = "2026-02-09 16:05:01.000000000 +0000";
    for text in [
        plain("d/x"),
        format!("--- a/d/x\t{stamp}\n+++ b/d/x\t{stamp}\n{HUNK}"),
        format!("--- a/d/x {stamp}\n+++ b/d/x {stamp}\n{HUNK}"),
        format!(
            "diff -ru a/d/x b/d/x\n--- a/d/x\t{stamp}\n+++ b/d/x\t{stamp}\n{HUNK}Only in b: y\n"
        ),
        format!("--- old/d/x\n+++ new/d/x\n{HUNK}"),
        plain("d/x").replace("+++ b/d/x\n@@ -1 +1 @@", "+++ b/d/x\n@@ -1,1 +1,1 @@ fn main()"),
    ] {
        let mut files = tree(&[("d/x", "a\n")]);
        applied(&text, &mut files, &ApplyOptions::default());
        assert_eq!(files, tree(&[("d/x", "b\n")]), "{text}");
    }
}

#[test]
fn plain_diffs_make_and_delete_files() {
    let epoch = "1970-01-01 00:00:00.000000000 +0000";
    for text in [
        "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n".to_owned(),
        format!("--- a/x\t{epoch}\n+++ b/x\n@@ -0,0 +1 @@\n+a\n"),
    ] {
        let mut files = tree(&[]);
        let told = applied(&text, &mut files, &ApplyOptions::default());
        assert_eq!((files.clone(), told.files[0].op), (tree(&[("x", "a\n")]), Op::Create));
        applied(&text, &mut files, &common::reversed());
        assert_eq!(files, tree(&[]));
    }
    let mut files = tree(&[("x", "a\n")]);
    applied("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", &mut files, &ApplyOptions::default());
    assert_eq!(files, tree(&[]));
}

#[test]
fn parts_of_names_are_stripped_as_asked() {
    let read = |text: &str, strip| {
        let options = ReadOptions { strip, ..ReadOptions::default() };
        let read = Patch::read(text.as_bytes(), &options).unwrap();
        read.files()[0].name().unwrap().text().unwrap().to_owned()
    };
    assert_eq!(read(&format!("--- d/x\n+++ d/x\n{HUNK}"), 0), "d/x");
    assert_eq!(read(&plain("d/x"), 2), "x");
    let rename = "diff --git one/a/x one/b/y\nrename from a/x\nrename to b/y\n";
    assert_eq!(read(rename, 2), "y");
    assert_eq!(read(rename, 1), "b/y");
}

#[test]
fn headers_may_end_in_carriage_returns_and_contents_keep_theirs() {
    let text = git("x").replace('\n', "\r\n");
    let mut files = tree(&[("x", "a\r\n")]);
    applied(text, &mut files, &ApplyOptions::default());
    assert_eq!(files, tree(&[("x", "b\r\n")]));
}

#[test]
fn empty_lines_of_context_may_have_lost_their_space() {
    let text = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n\n-a\n+b\n\n";
    let mut files = tree(&[("x", "\na\n\n")]);
    applied(text, &mut files, &ApplyOptions::default());
    assert_eq!(files, tree(&[("x", "\nb\n\n")]));
}

#[test]
fn what_a_patch_touches_is_known_before_it_runs() {
    let text = format!(
        "{}diff --git a/n b/n\nnew file mode 120000\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+t\n\
         \\ No newline at end of file\n\
         diff --git a/o b/p\nrename from o\nrename to p\n\
         diff --git a/c b/d\ncopy from c\ncopy to d\n\
         diff --git a/t b/t\ndeleted file mode 100644\n\
         diff --git a/t b/t\nnew file mode 100755\n",
        git("m")
    );
    let read = patch(text.as_bytes());
    let touch = |path, effect, becomes, other| Touch { path, effect, becomes, other };
    let executable = Some(Kind::File { executable: true });
    assert_eq!(
        read.touches(false),
        [
            touch("c", Effect::Read, None, Some("d")),
            touch("d", Effect::Create, None, Some("c")),
            touch("m", Effect::Modify, None, None),
            touch("n", Effect::Create, Some(Kind::Link), None),
            touch("o", Effect::Remove, None, Some("p")),
            touch("p", Effect::Create, None, Some("o")),
            touch("t", Effect::Replace, executable, None),
        ]
    );
    let back: Vec<(&str, Effect)> = read.touches(true).iter().map(|t| (t.path, t.effect)).collect();
    assert_eq!(
        back,
        [
            ("d", Effect::Remove),
            ("m", Effect::Modify),
            ("n", Effect::Remove),
            ("o", Effect::Create),
            ("p", Effect::Remove),
            ("t", Effect::Replace),
        ]
    );
}

#[test]
fn nothing_is_a_diff_only_where_that_is_allowed() {
    let options = ReadOptions { allow_empty: true, ..ReadOptions::default() };
    assert!(Patch::read(b"\n", &options).unwrap().files().is_empty());
    assert!(Patch::read(b"no patch\n", &options).is_err());
}

#[test]
fn codes_are_stable_words() {
    let mut seen = std::collections::BTreeSet::new();
    for code in Code::ALL {
        let text = code.as_str();
        assert!(text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{text}");
        assert!(seen.insert(text), "{text} twice");
    }
}
