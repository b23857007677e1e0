//! What the tools themselves print, from small projects made here. A tool that is not installed is
//! named in a line that says so.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at the first surprise, and says what it leaves out"
)]

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_reports::detect::{self, Ask, Listing, Source};
use countersign_reports::{
    Ending, Outcome, Places, ProblemKind, Severity, TestReport, Verdict, judge_lints, judge_tests,
    lints, tests,
};

/// A project on disk, and a directory for reports beside it.
struct Made {
    _holder: tempfile::TempDir,
    workspace: PathBuf,
    out: PathBuf,
    listing: Listing,
}

fn make(files: &[(&str, &str)]) -> Made {
    let holder = tempfile::tempdir().unwrap();
    let base = holder.path().canonicalize().unwrap();
    let (workspace, out) = (base.join("workspace"), base.join("out"));
    fs::create_dir_all(&out).unwrap();
    let mut listing = Listing::new();
    for (path, text) in files {
        let file = workspace.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        listing = listing.with(path, text);
    }
    Made { _holder: holder, workspace, out, listing }
}

fn is_installed(program: &str, arguments: &[&str]) -> bool {
    let found = Command::new(program).args(arguments).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: `{program} {}` does not work here", arguments.join(" "));
    }
    found
}

struct Ran {
    code: i32,
    said: Vec<u8>,
}

fn run<F>(made: &Made, command: &detect::Command<F>) -> Ran {
    let (program, arguments) = command.argv.split_first().unwrap();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(made.workspace.join(&command.working_directory))
        .envs(&command.environment)
        .env_remove("RUST_BACKTRACE")
        .env("CARGO_TARGET_DIR", made.out.join("target"))
        .output()
        .unwrap();
    let said = match &command.report.from {
        Source::Stdout => output.stdout,
        Source::Stderr => output.stderr,
        Source::Streams => [output.stdout, output.stderr].concat(),
        Source::File(path) => fs::read(path).unwrap_or_default(),
    };
    Ran { code: output.status.code().unwrap(), said }
}

fn ask(made: &Made) -> Ask {
    Ask { out: made.out.to_str().unwrap().to_owned(), ..Ask::default() }
}

fn places<'a>(workspace: &'a Path, directory: &'a str, module: Option<&'a str>) -> Places<'a> {
    Places { workspace: workspace.to_str().unwrap(), directory, go_module: module }
}

/// Detects the only test command, runs it, reads its report and judges it.
fn tested(made: &Made) -> (TestReport, Verdict) {
    let commands = detect::tests(&made.listing, &ask(made)).unwrap();
    assert_eq!(commands.len(), 1, "{commands:?}");
    let command = &commands[0];
    let ran = run(made, command);
    let places = places(&made.workspace, &command.working_directory, command.go_module.as_deref());
    let report = tests(command.report.format, &mut BufReader::new(&*ran.said), &places);
    let verdict = judge_tests(&Ending::Exited(ran.code), report.as_ref());
    (
        report.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&ran.said))),
        verdict,
    )
}

/// Name, file and line of each failing case.
fn failing(report: &TestReport) -> Vec<(&str, &str, u32)> {
    let place = |case: &'_ countersign_reports::Case| (case.file.clone(), case.line);
    for case in report.failing() {
        assert!(place(case).0.is_some() && place(case).1.is_some(), "{case:?}");
    }
    let told = report.failing();
    told.map(|case| (case.name.as_str(), case.file.as_deref().unwrap(), case.line.unwrap()))
        .collect()
}

const MANIFEST: &str = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

#[test]
fn cargo_tests() {
    let made = make(&[
        ("Cargo.toml", MANIFEST),
        (
            "src/lib.rs",
            "/// ```\n/// assert!(true);\n/// ```\npub fn f() {}\n#[test]\nfn good() {}\n\
             #[test]\nfn bad() {\n    println!(\"running 7 tests\");\n    assert_eq!(1, 2);\n}\n\
             #[test]\n#[ignore = \"later\"]\nfn ignored() {}\n",
        ),
        ("tests/more.rs", "#[test]\nfn outer() { None::<u8>.unwrap(); }\n"),
    ]);
    let (report, verdict) = tested(&made);
    assert_eq!(report.problems, []);
    let counts = report.counts;
    assert_eq!((counts.passed, counts.failed, counts.skipped), (2, 2, 1));
    assert_eq!(failing(&report), [("bad", "src/lib.rs", 10), ("outer", "tests/more.rs", 2)]);
    assert_eq!(verdict.outcome, Outcome::Failed);
}

#[test]
fn cargo_builds_that_fail_and_suites_that_crash() {
    let broken = make(&[("Cargo.toml", MANIFEST), ("src/lib.rs", "pub fn f() -> u8 { \"x\" }\n")]);
    let (report, verdict) = tested(&broken);
    assert_eq!(report.problems[0].kind, ProblemKind::BuildFailed);
    assert_eq!(failing(&report)[0], ("E0308", "src/lib.rs", 1));
    assert_eq!(verdict.outcome, Outcome::Errored);

    let crash = "#[test]\nfn gone() { std::process::exit(0) }\n";
    let crashing = make(&[("Cargo.toml", MANIFEST), ("src/lib.rs", ""), ("tests/x.rs", crash)]);
    let (report, verdict) = tested(&crashing);
    assert_eq!(report.problems[0].kind, ProblemKind::Truncated);
    assert_eq!(verdict.outcome, Outcome::Errored, "{}", verdict.sentence);

    let empty = make(&[("Cargo.toml", MANIFEST), ("src/lib.rs", "")]);
    assert_eq!(tested(&empty).1.outcome, Outcome::NothingRan);
}

#[test]
fn cargo_linters() {
    let made = make(&[
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", "pub fn f(v: &Vec<u8>) -> bool { v.len() == 0 }\n"),
    ]);
    for command in detect::linters(&made.listing, &ask(&made)).unwrap() {
        if !is_installed(
            "cargo",
            &[if command.tool == "clippy" { "clippy" } else { "fmt" }, "--version"],
        ) {
            continue;
        }
        let ran = run(&made, &command);
        let places = places(&made.workspace, "", None);
        let report = lints(command.report.format, &command.tool, &mut &*ran.said, &places).unwrap();
        assert_eq!(report.problems, []);
        let found = &report.diagnostics[0];
        assert_eq!((found.file.as_deref(), found.line), (Some("src/lib.rs"), Some(1)));
        let verdict = judge_lints(&Ending::Exited(ran.code), Ok(&report));
        if command.tool == "clippy" {
            let rules: Vec<_> =
                report.diagnostics.iter().filter_map(|d| d.rule.as_deref()).collect();
            assert!(rules.contains(&"clippy::len_zero"), "{rules:?}");
            assert_eq!((found.severity, verdict.outcome), (Severity::Warning, Outcome::Passed));
        } else {
            assert_eq!(verdict.outcome, Outcome::Failed);
        }
    }
}

#[test]
fn python_unittest() {
    if !is_installed("python3", &["--version"]) {
        return;
    }
    let made = make(&[(
        "tests/test_u.py",
        "import unittest, sys\nclass T(unittest.TestCase):\n    def test_good(self):\n        \
         print('noise', file=sys.stderr)\n    def test_bad(self):\n        \"\"\"Doc line\"\"\"\n        \
         self.assertEqual(1, 2)\n    def test_err(self): raise ValueError('x')\n    \
         @unittest.skip('why')\n    def test_skip(self): pass\n    @unittest.expectedFailure\n    \
         def test_xf(self): self.fail()\n    def test_sub(self):\n        for i in range(2):\n            \
         with self.subTest(i=i): self.assertEqual(i, 1)\n",
    )]);
    let (report, verdict) = tested(&made);
    assert_eq!(report.problems, []);
    let counts = report.counts;
    assert_eq!((counts.failed, counts.errored, counts.skipped, counts.passed), (2, 1, 1, 2));
    let places: Vec<_> = failing(&report).into_iter().map(|(_, file, line)| (file, line)).collect();
    let file = "tests/test_u.py";
    assert_eq!(places, [(file, 7), (file, 8), (file, 15)]);
    assert_eq!(verdict.outcome, Outcome::Failed);

    let empty = make(&[("test_u.py", "import unittest\n")]);
    let (report, verdict) = tested(&empty);
    assert!(report.ran_nothing());
    assert_eq!(verdict.outcome, Outcome::NothingRan);
}

#[test]
fn python_pytest() {
    if !is_installed("python3", &["-m", "pytest", "--version"]) {
        return;
    }
    let made = make(&[(
        "sub/test_a.py",
        "import pytest\ndef test_good(): pass\ndef test_bad():\n    x = 1\n    assert x == 2\n\
         @pytest.mark.skip(reason='later')\ndef test_skip(): pass\n@pytest.fixture\ndef broken():\n    \
         yield\n    raise ValueError('td')\ndef test_teardown(broken): pass\n",
    )]);
    let (report, verdict) = tested(&made);
    assert_eq!(report.problems, []);
    let file = "sub/test_a.py";
    assert_eq!(failing(&report), [("test_bad", file, 5), ("test_teardown", file, 11)]);
    assert_eq!(verdict.outcome, Outcome::Failed);
    assert_eq!(tested(&make(&[("test_a.py", "import pytest\n")])).1.outcome, Outcome::NothingRan);
}

#[test]
fn go_tests_and_vet() {
    if !is_installed("go", &["version"]) {
        return;
    }
    let test = "package m\nimport \"testing\"\nfunc TestGood(t *testing.T) {}\n\
        func TestBad(t *testing.T) {\n\tt.Errorf(\"want %d\", 1)\n}\n\
        func TestSkip(t *testing.T) { t.Skip(\"later\") }\n";
    let panics = "package p\nimport \"testing\"\nfunc TestPanic(t *testing.T) {\n\
        \tvar m map[string]int\n\tm[\"a\"] = 1\n}\n";
    let module = "module example.com/m\n\ngo 1.19\n";
    let made = make(&[("go.mod", module), ("a_test.go", test), ("p/p_test.go", panics)]);
    let (report, verdict) = tested(&made);
    assert_eq!(report.problems, []);
    let counts = report.counts;
    assert_eq!((counts.passed, counts.failing(), counts.skipped), (1, 2, 1));
    assert_eq!(failing(&report), [("TestBad", "a_test.go", 5), ("TestPanic", "p/p_test.go", 5)]);
    assert_eq!(verdict.outcome, Outcome::Failed);

    let vetted = "package m\nimport \"fmt\"\nfunc F() {\n\tfmt.Printf(\"%d\", \"x\")\n}\n";
    let broken = "package b\nfunc F() { x }\n";
    let broken_test = "package b\nimport \"testing\"\nfunc TestB(t *testing.T) {}\n";
    let made = make(&[
        ("go.mod", module),
        ("a.go", vetted),
        ("b/b.go", broken),
        ("b/b_test.go", broken_test),
    ]);
    let (report, verdict) = tested(&made);
    assert_eq!(report.problems[0].kind, ProblemKind::BuildFailed);
    assert_eq!(verdict.outcome, Outcome::Errored);
    let command = &detect::linters(&made.listing, &ask(&made)).unwrap()[0];
    let ran = run(&made, command);
    let places = places(&made.workspace, "", None);
    let report = lints(command.report.format, &command.tool, &mut &*ran.said, &places).unwrap();
    let told: Vec<_> = report.diagnostics.iter().map(|d| (d.file.as_deref(), d.line)).collect();
    assert!(
        told.contains(&(Some("a.go"), Some(4))) && told.contains(&(Some("b/b.go"), Some(2))),
        "{told:?}"
    );
    assert_eq!(judge_lints(&Ending::Exited(ran.code), Ok(&report)).outcome, Outcome::Failed);
}

#[test]
fn node_tests() {
    if !is_installed("node", &["--test", "--test-reporter=tap", "--version"]) {
        return;
    }
    let made = make(&[
        ("package.json", r#"{"scripts":{"test":"node --test"}}"#),
        (
            "a.test.js",
            "const { test, describe, it } = require('node:test');\ntest('good', () => {});\n\
             test('bad', () => {\n  throw new Error('deep # hash');\n});\n\
             test('skipped', { skip: 'later' }, () => {});\n\
             test('todo', { todo: true }, () => { throw new Error('x'); });\n\
             describe('group', () => {\n  it('in', () => {});\n  it('in bad', () => {\n    throw 1;\n  });\n});\n",
        ),
    ]);
    let (report, verdict) = tested(&made);
    assert_eq!(report.problems, []);
    let counts = report.counts;
    assert_eq!((counts.passed, counts.failing(), counts.skipped), (2, 2, 2));
    let told: Vec<_> =
        report.failing().map(|case| (case.name.as_str(), case.file.as_deref())).collect();
    assert_eq!(told, [("bad", Some("a.test.js")), ("in bad", Some("a.test.js"))]);
    assert_eq!(report.cases[1].line, Some(4));
    assert_eq!(verdict.outcome, Outcome::Failed);

    let json = r#"{"scripts":{"test":"node --test empty"}}"#;
    let passing = make(&[
        ("package.json", json),
        ("empty/a.test.js", "require('node:test').test('x', () => {})"),
    ]);
    let (report, verdict) = tested(&passing);
    assert_eq!(
        (report.counts.passed, verdict.outcome),
        (1, Outcome::Passed),
        "{}",
        verdict.sentence
    );
}

#[test]
fn node_by_way_of_its_script() {
    if !is_installed("npm", &["--version"]) || !is_installed("node", &["--version"]) {
        return;
    }
    let test = "const { test } = require('node:test');\ntest('good', () => {});\n\
                test('bad', () => { throw new Error('no'); });\n";
    let json = r#"{"scripts":{"test":"true && node --test"}}"#;
    let (report, verdict) = tested(&make(&[("package.json", json), ("a.test.js", test)]));
    assert_eq!((report.counts.passed, report.counts.failed), (1, 1), "{report:?}");
    assert_eq!(verdict.outcome, Outcome::Failed);
}
