//! Reports written to hurt: each ends soon, within its limits, and is never taken for a success.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::io::{BufReader, Read};

use countersign_reports::{
    LintFormat, MAX_DIAGNOSTICS, MAX_FAILING, MAX_NAME, MAX_OTHERS, MAX_PROBLEMS, Places,
    TestFormat, TestReport, Unreadable, Why, lints, tests,
};
use proptest::prelude::*;

const TESTS: [TestFormat; 9] = [
    TestFormat::Junit,
    TestFormat::LibtestText,
    TestFormat::LibtestJson,
    TestFormat::PytestText,
    TestFormat::UnittestText,
    TestFormat::GoTestJson,
    TestFormat::Tap,
    TestFormat::JestJson,
    TestFormat::Text,
];

const LINTS: [LintFormat; 6] = [
    LintFormat::Sarif,
    LintFormat::CargoJson,
    LintFormat::RuffJson,
    LintFormat::EslintJson,
    LintFormat::Rustfmt,
    LintFormat::Lines,
];

fn read(format: TestFormat, bytes: &[u8]) -> Result<TestReport, Unreadable> {
    tests(format, &mut BufReader::new(bytes), &Places::default())
}

/// What holds for whatever is read.
fn check(report: &TestReport) {
    let counts = report.counts;
    let parts = [counts.passed, counts.failed, counts.errored, counts.skipped];
    assert_eq!(counts.total, parts.iter().sum::<u64>());
    assert_eq!(counts.total, report.cases.len() as u64 + report.cases_left_out);
    let failing = report.failing().count();
    assert!(failing <= MAX_FAILING && report.cases.len() - failing <= MAX_OTHERS);
    assert!(report.problems.len() <= MAX_PROBLEMS);
    assert!(report.cases.iter().all(|case| case.name.len() <= MAX_NAME));
    let json = serde_json::to_string(report).unwrap();
    assert_eq!(&serde_json::from_str::<TestReport>(&json).unwrap(), report);
}

fn check_all(bytes: &[u8]) {
    for format in TESTS {
        if let Ok(report) = read(format, bytes) {
            check(&report);
        }
    }
    for format in LINTS {
        if let Ok(report) = lints(format, "t", &mut BufReader::new(bytes), &Places::default()) {
            let counts = report.counts;
            assert_eq!(counts.total, counts.error + counts.warning + counts.note + counts.help);
            assert_eq!(counts.total, report.diagnostics.len() as u64 + report.diagnostics_left_out);
            assert!(report.diagnostics.len() <= MAX_DIAGNOSTICS);
        }
    }
}

#[test]
fn nesting_is_bounded() {
    for open in ["[", "{\"a\":", "{\"runs\":[", "<a>", "    ", "<testsuite>", "[{\"messages\":["] {
        check_all(open.repeat(50_000).as_bytes());
    }
    let tap: String = (0..500).map(|depth| format!("{}ok 1 - x\n", "    ".repeat(depth))).collect();
    check_all(tap.as_bytes());
}

#[test]
fn long_lines_and_odd_bytes_are_bounded() {
    check_all("x".repeat(10 * 1024 * 1024).as_bytes());
    let long = "x".repeat(5 * 1024 * 1024);
    check_all(format!("test {long} ... ok\n").as_bytes());
    check_all(format!("running 1 test\ntest {long} ... FAILED\n").as_bytes());
    check_all(
        format!("{{\"Action\":\"output\",\"Package\":\"p\",\"Output\":\"{long}\"}}\n").as_bytes(),
    );
    check_all(format!("<testsuite><testcase name=\"{long}\"/></testsuite>").as_bytes());
    check_all(format!("<testsuite {}/>", "a=\"1\" ".repeat(100_000)).as_bytes());
    check_all(":".repeat(1024 * 1024).as_bytes());
    check_all(&b"\0\xff\xfe\x1b[31m ... ok\r\n".repeat(1000));
    check_all(&"a.py:1:".repeat(200_000).into_bytes());
}

#[test]
fn entities_are_not_grown() {
    let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;\">]>\
                <testsuite><testcase name=\"&b;\"><failure>&b;</failure></testcase></testsuite>";
    assert_eq!(read(TestFormat::Junit, bomb.as_bytes()).unwrap_err().why, Why::DocumentType);
    let undefined =
        "<testsuite><testcase name=\"&b;\"><failure>&b;&lt;&#x41;</failure></testcase></testsuite>";
    let report = read(TestFormat::Junit, undefined.as_bytes()).unwrap();
    assert_eq!(report.cases[0].name, "&b;");
    assert_eq!(report.cases[0].details.as_deref(), Some("&b;<A"));
}

#[test]
fn a_piece_of_xml_without_an_end_is_too_large() {
    let endless = BufReader::new("<testsuite><![CDATA[".as_bytes().chain(std::io::repeat(b'x')));
    let error = tests(TestFormat::Junit, &mut { endless }, &Places::default()).unwrap_err();
    assert_eq!(error.why, Why::TooLarge);
}

#[test]
fn many_cases_are_counted_and_few_are_kept() {
    let many = 100_000;
    let tap: String = (1..=many)
        .map(|n| format!("{}ok {n} - t\n", if n % 2 == 0 { "not " } else { "" }))
        .collect();
    let report = read(TestFormat::Tap, format!("1..{many}\n{tap}").as_bytes()).unwrap();
    check(&report);
    assert_eq!((report.counts.total, report.counts.failed), (many, many / 2));
    assert_eq!(report.cases.len(), MAX_FAILING + MAX_OTHERS);
    assert_eq!(report.problems, []);

    let open: String = (0..200_000)
        .map(|n| format!("{{\"Action\":\"run\",\"Package\":\"p{n}\",\"Test\":\"T\"}}\n"))
        .collect();
    let report = read(TestFormat::GoTestJson, open.as_bytes()).unwrap();
    assert_eq!(report.problems.len(), MAX_PROBLEMS);

    let lines = "a.c:1: warning: w\n".repeat(5000) + "a.c:2: error: e\n";
    let report = lints(LintFormat::Lines, "t", &mut lines.as_bytes(), &Places::default()).unwrap();
    assert_eq!((report.counts.warning, report.counts.error), (5000, 1));
    assert_eq!(report.diagnostics.last().unwrap().line, Some(2));
}

/// Lines that mean something to one format or another.
fn line() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "running 2 tests",
        "test a ... ok",
        "test b ... FAILED",
        "failures:",
        "---- b stdout ----",
        "thread 'b' panicked at src/lib.rs:1:2:",
        "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        "{\"reason\":\"build-finished\",\"success\":false}",
        "{ \"type\": \"suite\", \"event\": \"started\", \"test_count\": 18446744073709551615 }",
        "{ \"type\": \"suite\", \"event\": \"ok\", \"passed\": 18446744073709551615, \"failed\": 1 }",
        "{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"T\"}",
        "{\"Action\":\"fail\",\"Package\":\"p\",\"Test\":\"T\",\"Elapsed\":1e300}",
        "{\"Action\":\"fail\",\"Package\":\"p\"}",
        "TAP version 14",
        "1..18446744073709551615",
        "1..2",
        "ok 1 - a",
        "not ok 2 - b # TODO",
        "    ok 1 - in",
        "    1..1",
        "  ---",
        "  at: 'x.js:1:2'",
        "  ...",
        "Bail out!",
        "# Subtest: x",
        "test_a (t.T.test_a) ... FAIL",
        "FAIL: test_a (t.T.test_a)",
        "Ran 18446744073709551615 tests in 0.1s",
        "FAILED (failures=1, skipped=4294967295)",
        "OK",
        "=== test session starts ===",
        "___ test_a ___",
        "FAILED t.py::test_a - x",
        "t.py::test_b PASSED [ 1%]",
        "=== 4294967295 failed, 1 passed in 0.1s ===",
        "Tests: 1 failed, 4294967295 passed",
        "<testsuite tests=\"18446744073709551615\" failures=\"18446744073709551615\" errors=\"9\">",
        "<testcase name=\"a\" time=\"NaN\"><failure>x.py:1: y</failure></testcase>",
        "</testsuite>",
        "Diff in x.rs:1:",
        "a.py:1:2: error: x  [y]",
    ]);
    prop_oneof![8 => known.prop_map(str::to_owned), 1 => ".{0,40}"]
}

proptest! {
    #[test]
    fn counts_add_up_whatever_is_said(lines in prop::collection::vec(line(), 0..40)) {
        check_all(lines.join("\n").as_bytes());
    }

    #[test]
    fn junit_counts_are_those_of_its_cases(cases in prop::collection::vec(0..4_u8, 0..50)) {
        let element = |kind: &u8| match kind {
            0 => "<testcase name='p'/>",
            1 => "<testcase name='f'><failure/></testcase>",
            2 => "<testcase name='e'><error/></testcase>",
            _ => "<testcase name='s'><skipped/></testcase>",
        };
        let count = |kind: u8| cases.iter().filter(|case| **case == kind).count();
        let body: String = cases.iter().map(element).collect();
        let text = format!(
            "<testsuite tests='{}' failures='{}' errors='{}'>{body}</testsuite>",
            cases.len(), count(1), count(2)
        );
        let report = read(TestFormat::Junit, text.as_bytes()).unwrap();
        check(&report);
        prop_assert_eq!(&report.problems, &[]);
        let counts = report.counts;
        let told = [counts.passed, counts.failed, counts.errored, counts.skipped];
        prop_assert_eq!(told, [0, 1, 2, 3].map(|kind| count(kind) as u64));
        prop_assert_eq!(report.ran_nothing(), count(3) == cases.len());
    }

    /// However a log is cut, what is left is not a success.
    #[test]
    fn a_truncated_report_is_never_clean(passing in 1..20_usize, cut in 1..60_usize) {
        let tests: String = (0..passing).map(|n| format!("test t{n} ... ok\n")).collect();
        let libtest = format!("running {passing} tests\n{tests}\ntest result: ok. {passing} passed; \
            0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n");
        let cases = "<testcase name='p'/>".repeat(passing);
        let junit = format!("<testsuite tests='{passing}'>{cases}</testsuite>");
        let tap: String = (1..=passing).map(|n| format!("ok {n} - t\n")).collect();
        let tap = format!("TAP version 13\n1..{passing}\n{tap}");
        for (format, text) in
            [(TestFormat::LibtestText, &libtest), (TestFormat::Junit, &junit), (TestFormat::Tap, &tap)]
        {
            prop_assert_eq!(&read(format, text.as_bytes()).unwrap().problems, &[]);
            // The very end of the closing line only tells what was filtered out, and how long.
            let spare = if format == TestFormat::LibtestText { 60 } else { 8 };
            let end = text.len().saturating_sub(spare + cut);
            if let Ok(report) = read(format, &text.as_bytes()[..end]) {
                prop_assert!(!report.problems.is_empty() || report.ran_nothing(), "{}", &text[..end]);
            }
        }
    }
}
