//! Reports of test and lint tools: the first byte chooses the format, the others are the report.
//! Whatever is read is within its limits, and its numbers add up.
#![no_main]

use std::io::BufReader;

use countersign_reports::detect::{Ask, Listing, Scope, linters, tests as test_commands};
use countersign_reports::{
    Ending, LintFormat, LintReport, MAX_DIAGNOSTICS, MAX_FAILING, MAX_OTHERS, Outcome, Places,
    TestFormat, TestReport, judge_lints, judge_tests, lints, tests,
};
use libfuzzer_sys::fuzz_target;

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

const MANIFESTS: [&str; 5] =
    ["Cargo.toml", "package.json", "go.mod", "pyproject.toml", "tsconfig.json"];

fn check_tests(report: &TestReport) {
    let counts = report.counts;
    assert_eq!(counts.total, counts.passed + counts.failed + counts.errored + counts.skipped);
    assert_eq!(counts.total, report.cases.len() as u64 + report.cases_left_out);
    let failing = report.failing().count();
    assert!(failing <= MAX_FAILING && report.cases.len() <= failing + MAX_OTHERS);
    let verdict = judge_tests(&Ending::Exited(0), Ok(report));
    if verdict.outcome == Outcome::Passed {
        assert!(counts.passed > 0 && counts.failing() == 0 && report.problems.is_empty());
    }
}

fn check_lints(report: &LintReport) {
    let counts = report.counts;
    assert_eq!(counts.total, counts.error + counts.warning + counts.note + counts.help);
    assert_eq!(counts.total, report.diagnostics.len() as u64 + report.diagnostics_left_out);
    assert!(report.diagnostics.len() <= MAX_DIAGNOSTICS);
    let verdict = judge_lints(&Ending::Exited(0), Ok(report));
    assert!(verdict.outcome != Outcome::Passed || counts.error == 0);
}

fn detect(text: &str) {
    let mut listing = Listing::new().with("src/lib.rs", "").with("test_a.py", text);
    for manifest in MANIFESTS {
        listing = listing.with(manifest, text);
    }
    let scope = Scope::Changed(vec!["src/lib.rs".to_owned()]);
    for ask in [Ask::default(), Ask { scope, ..Ask::default() }] {
        for command in test_commands(&listing, &ask).unwrap_or_default() {
            assert!(!command.argv.is_empty() && !command.to_string().is_empty());
        }
        let _ = linters(&listing, &ask);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let places = Places { go_module: Some("x.org/m"), ..Places::default() };
    let choice = usize::from(*first) % (TESTS.len() + LINTS.len() + 1);
    let mut reader = BufReader::with_capacity(64, bytes);
    if let Some(format) = TESTS.get(choice) {
        if let Ok(report) = tests(*format, &mut reader, &places) {
            check_tests(&report);
        }
    } else if let Some(format) = LINTS.get(choice - TESTS.len()) {
        if let Ok(report) = lints(*format, "fuzz", &mut reader, &places) {
            check_lints(&report);
        }
    } else {
        detect(&String::from_utf8_lossy(bytes));
    }
});
