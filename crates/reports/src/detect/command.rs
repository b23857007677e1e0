//! A command as a list of arguments, with where its report is found.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::report::{LintFormat, TestFormat};

pub type TestCommand = Command<TestFormat>;
pub type LintCommand = Command<LintFormat>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command<F> {
    /// The tool and, below the root of the workspace, where: `pytest@services/a`.
    pub id: String,
    pub tool: String,
    /// The program first. Never a line for a shell.
    pub argv: Vec<String>,
    /// Relative to the workspace; empty for its root.
    pub working_directory: String,
    pub report: Report<F>,
    pub environment: BTreeMap<String, String>,
    /// Programs that must be there; with a slash in it, relative to the working directory.
    pub needs: Vec<String>,
    /// Modules that Python must find.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// For [`crate::Places`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_module: Option<String>,
    /// What in the project led to it.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report<F> {
    pub format: F,
    pub from: Source,
}

/// Where a command leaves its report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Stdout,
    Stderr,
    /// Both streams, the first and then the second: scripts print where they like.
    Streams,
    File(String),
}

impl<F> Command<F> {
    pub(super) fn new(tool: &str, directory: &str, argv: Vec<String>, report: Report<F>) -> Self {
        let at = if directory.is_empty() { String::new() } else { format!("@{directory}") };
        Command {
            id: format!("{tool}{at}"),
            tool: tool.to_owned(),
            needs: argv.first().cloned().into_iter().collect(),
            argv,
            working_directory: directory.to_owned(),
            report,
            environment: BTreeMap::new(),
            modules: Vec::new(),
            go_module: None,
            why: String::new(),
        }
    }

    pub(super) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    pub(super) fn with_environment(mut self, pairs: &[(&str, &str)]) -> Self {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.environment.extend(pairs);
        self
    }

    pub(super) fn needing(mut self, programs: &[&str]) -> Self {
        self.needs.extend(programs.iter().map(|program| (*program).to_owned()));
        self
    }
}

/// For people to read; quoting only shows where an argument ends.
impl<F> fmt::Display for Command<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{name}={} ", Shown(value))?;
        }
        for (at, argument) in self.argv.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{}", Shown(argument))?;
        }
        let place = if self.working_directory.is_empty() { "." } else { &self.working_directory };
        write!(f, "  (in {}, because of {})", Shown(place), Shown(&self.why))
    }
}

struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+%".contains(c);
        if !self.0.is_empty() && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        write!(
            f,
            "'{}'",
            self.0.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
        )
    }
}
