//! What tests and linters have in common, and where they differ.

use std::collections::BTreeMap;
use std::io::BufRead;

use countersign_host::config::{ActionsConfig, CommandConfig};
use countersign_reports::detect::{Ask, Command, Project, Undetected, linters, tests};
use countersign_reports::{
    Case, Ending, LintFormat, LintReport, Outcome, Places, TestFormat, TestReport, Unreadable,
    Verdict, judge_lints, judge_tests,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(super) type Counts = BTreeMap<&'static str, u64>;

/// One kind of checking.
pub(super) trait Checker {
    type Format: Copy + DeserializeOwned + Serialize;
    type Report: Serialize;
    const REPORT: &'static str;
    const LOG: &'static str;
    /// What is counted.
    const NAMES: &'static [&'static str];

    fn configured(config: &ActionsConfig) -> &[CommandConfig];
    fn detect(project: &dyn Project, ask: &Ask) -> Result<Vec<Command<Self::Format>>, Undetected>;
    fn read(
        format: Self::Format,
        tool: &str,
        reader: &mut dyn BufRead,
        places: &Places<'_>,
    ) -> Result<Self::Report, Unreadable>;
    fn judge(&self, ending: &Ending, report: Result<&Self::Report, &Unreadable>) -> Verdict;
    fn counts(report: &Self::Report) -> Counts;
    fn summary(counts: &Counts, commands: usize, timed_out: bool) -> String;
}

pub(super) struct Tests;

impl Checker for Tests {
    type Format = TestFormat;
    type Report = TestReport;
    const REPORT: &'static str = "test_report";
    const LOG: &'static str = "test_log";
    const NAMES: &'static [&'static str] = &["total", "passed", "failed", "errored", "skipped"];

    fn configured(config: &ActionsConfig) -> &[CommandConfig] {
        &config.tests
    }

    fn detect(project: &dyn Project, ask: &Ask) -> Result<Vec<Command<TestFormat>>, Undetected> {
        tests(project, ask)
    }

    fn read(
        format: TestFormat,
        _tool: &str,
        reader: &mut dyn BufRead,
        places: &Places<'_>,
    ) -> Result<TestReport, Unreadable> {
        countersign_reports::tests(format, reader, places).map(sorted)
    }

    fn judge(&self, ending: &Ending, report: Result<&TestReport, &Unreadable>) -> Verdict {
        judge_tests(ending, report)
    }

    fn counts(report: &TestReport) -> Counts {
        let counts = &report.counts;
        let all = [counts.total, counts.passed, counts.failed, counts.errored, counts.skipped];
        Self::NAMES.iter().copied().zip(all).collect()
    }

    fn summary(counts: &Counts, commands: usize, timed_out: bool) -> String {
        let of = |name| counts.get(name).copied().unwrap_or_default();
        let (total, failing) = (of("total"), of("failed") + of("errored"));
        let late = if timed_out { ", and time ran out" } else { "" };
        let by = if commands == 1 { String::new() } else { format!(" by {commands} commands") };
        format!("{total} tests executed{by}, {failing} failed{late}")
    }
}

/// Tools that run tests side by side tell of them in another order each time.
fn sorted(mut report: TestReport) -> TestReport {
    fn place(case: &Case) -> (&Option<String>, &Option<String>, &str, Option<u32>) {
        (&case.suite, &case.file, &case.name, case.line)
    }
    report.cases.sort_by(|a, b| place(a).cmp(&place(b)));
    report.suites.sort_by(|a, b| a.name.cmp(&b.name));
    report
}

/// From which severity on something is wrong.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailOn {
    #[default]
    Error,
    Warning,
    Note,
}

pub(super) struct Lints {
    pub(super) fail_on: FailOn,
}

impl Checker for Lints {
    type Format = LintFormat;
    type Report = LintReport;
    const REPORT: &'static str = "lint_report";
    const LOG: &'static str = "lint_log";
    const NAMES: &'static [&'static str] = &["errors", "warnings", "notes"];

    fn configured(config: &ActionsConfig) -> &[CommandConfig] {
        &config.linters
    }

    fn detect(project: &dyn Project, ask: &Ask) -> Result<Vec<Command<LintFormat>>, Undetected> {
        linters(project, ask)
    }

    fn read(
        format: LintFormat,
        tool: &str,
        reader: &mut dyn BufRead,
        places: &Places<'_>,
    ) -> Result<LintReport, Unreadable> {
        countersign_reports::lints(format, tool, reader, places)
    }

    fn judge(&self, ending: &Ending, report: Result<&LintReport, &Unreadable>) -> Verdict {
        let verdict = judge_lints(ending, report);
        let Ok(report) = report else { return verdict };
        let found = match self.fail_on {
            FailOn::Error => 0,
            FailOn::Warning => report.counts.warning,
            FailOn::Note => report.counts.total - report.counts.error,
        };
        match verdict.outcome {
            Outcome::Passed if found > 0 => {
                let sentence = format!("{found} findings that count as failures");
                Verdict { outcome: Outcome::Failed, sentence }
            }
            _ => verdict,
        }
    }

    fn counts(report: &LintReport) -> Counts {
        let counts = &report.counts;
        let all = [counts.error, counts.warning, counts.note + counts.help];
        Self::NAMES.iter().copied().zip(all).collect()
    }

    fn summary(counts: &Counts, commands: usize, timed_out: bool) -> String {
        let of = |name| counts.get(name).copied().unwrap_or_default();
        let late = if timed_out { ", and time ran out" } else { "" };
        let (errors, warnings) = (of("errors"), of("warnings"));
        format!("{commands} linters found {errors} errors and {warnings} warnings{late}")
    }
}
