//! Typed results. Their JSON is what the actions hand out, so names and shapes are a promise.

use serde::{Deserialize, Serialize};

/// Failing cases are kept whole, and this many of them.
pub const MAX_FAILING: usize = 500;
/// Passed and skipped cases are kept by name.
pub const MAX_OTHERS: usize = 2000;
pub const MAX_DIAGNOSTICS: usize = 2000;
pub const MAX_PROBLEMS: usize = 50;
pub(crate) const MAX_SUITES: usize = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestFormat {
    /// JUnit XML, as pytest, vitest, mocha, gradle, node and many others write it.
    Junit,
    /// What `cargo test` prints, with or without cargo's own JSON lines in between.
    LibtestText,
    LibtestJson,
    PytestText,
    UnittestText,
    GoTestJson,
    /// TAP 13 and 14.
    Tap,
    /// `jest --json`, also written by vitest.
    JestJson,
    /// Whatever a script prints: every text format above is tried, and the summaries that mocha,
    /// jest, vitest and node print for people.
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LintFormat {
    Sarif,
    CargoJson,
    RuffJson,
    EslintJson,
    /// `cargo fmt --check`.
    Rustfmt,
    /// Lines such as `file:line:column: message` or `file(line,column): error TS1: message`.
    Lines,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestReport {
    pub format: TestFormat,
    pub counts: Counts,
    /// In the order of the report.
    pub cases: Vec<Case>,
    /// Cases that were counted and are not listed, because there were too many or because the
    /// tool told only their number.
    pub cases_left_out: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<Suite>,
    /// Where the report contradicts itself or stops early. Not empty: it is no proof of success.
    pub problems: Vec<Problem>,
}

impl TestReport {
    /// Nothing was tried: there was no case, or all of them were skipped.
    pub fn ran_nothing(&self) -> bool {
        self.counts.tried() == 0
    }

    pub fn failing(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| case.status.is_failing())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    pub total: u64,
    pub passed: u64,
    pub failed: u64,
    pub errored: u64,
    pub skipped: u64,
}

impl Counts {
    pub fn tried(&self) -> u64 {
        self.total.saturating_sub(self.skipped)
    }

    pub fn failing(&self) -> u64 {
        self.failed.saturating_add(self.errored)
    }

    /// How many of them were counted: a report may claim any number, and the total never
    /// disagrees with its parts.
    pub(crate) fn add(&mut self, status: Status, many: u64) -> u64 {
        let one = match status {
            Status::Passed => &mut self.passed,
            Status::Failed => &mut self.failed,
            Status::Errored => &mut self.errored,
            Status::Skipped => &mut self.skipped,
        };
        let many = many.min(u64::MAX - self.total);
        *one += many;
        self.total += many;
        many
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Passed,
    Failed,
    /// It broke outside of what it tests: a fixture, a crash, a file that could not be loaded.
    Errored,
    Skipped,
}

impl Status {
    pub fn is_failing(self) -> bool {
        matches!(self, Status::Failed | Status::Errored)
    }
}

/// One test. Only failing ones have a place, a message and details; a skipped one may have a
/// message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

impl Case {
    pub(crate) fn new(name: &str, status: Status) -> Case {
        Case {
            name: name.to_owned(),
            suite: None,
            status,
            file: None,
            line: None,
            duration_ms: None,
            message: None,
            details: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    pub name: String,
    pub counts: Counts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    pub kind: ProblemKind,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// A total in the report is not what its cases add up to.
    CountsDisagree,
    /// The report ends before it is complete.
    Truncated,
    /// More or fewer tests than were announced.
    PlanNotMet,
    /// The run was given up.
    BailedOut,
    BuildFailed,
    /// Something that belongs to the report could not be understood.
    NotUnderstood,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LintReport {
    pub format: LintFormat,
    pub counts: LintCounts,
    /// In the order of the report.
    pub diagnostics: Vec<Diagnostic>,
    /// Diagnostics that were counted and are not listed.
    pub diagnostics_left_out: u64,
    /// Where the report contradicts itself or stops early.
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LintCounts {
    pub total: u64,
    pub error: u64,
    pub warning: u64,
    pub note: u64,
    pub help: u64,
}

impl LintCounts {
    pub(crate) fn add(&mut self, severity: Severity) {
        let one = match severity {
            Severity::Error => &mut self.error,
            Severity::Warning => &mut self.warning,
            Severity::Note => &mut self.note,
            Severity::Help => &mut self.help,
        };
        *one = one.saturating_add(1);
        self.total = self.total.saturating_add(1);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diagnostic {
    pub tool: String,
    pub severity: Severity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub message: String,
    /// Absent when the tool speaks of no file in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_column: Option<u32>,
}

impl Diagnostic {
    pub(crate) fn new(tool: &str, severity: Severity, message: &str) -> Diagnostic {
        Diagnostic {
            tool: tool.to_owned(),
            severity,
            rule: None,
            message: message.to_owned(),
            file: None,
            line: None,
            column: None,
            end_line: None,
            end_column: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
    Note,
    Help,
}
