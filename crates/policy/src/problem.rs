//! What is wrong with a policy, and where.

use std::fmt;

use countersign_model::Failure;
use miette::Diagnostic;
use serde::Serialize;

/// One finding. Errors stop a policy set from being used; warnings do not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    pub severity: Severity,
    pub code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// A line and a column, counted from one; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Place {
    pub(crate) fn of(text: &str, offset: usize) -> Place {
        Lines::of(text).place(offset)
    }
}

/// Where the lines of a text start: a file has many rules, and each has a place.
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines { text, starts: std::iter::once(0).chain(after).collect() }
    }

    pub(crate) fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let before = self.text.get(start..offset).unwrap_or_default().chars().count();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place { line: count(line), column: count(before).saturating_add(1) }
    }
}

impl Problem {
    pub(crate) fn error(code: &'static str, message: impl Into<String>) -> Self {
        Problem {
            file: String::new(),
            line: None,
            column: None,
            severity: Severity::Error,
            code,
            rule: None,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Problem { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// What Cedar found, at the place that it names.
    pub(crate) fn found(code: &'static str, finding: &dyn Diagnostic, text: &str) -> Self {
        let offset =
            finding.labels().and_then(|mut labels| labels.next()).map(|label| label.offset());
        let mut problem = Self::error(code, finding.to_string());
        problem.hint = finding.help().map(|help| help.to_string());
        match offset {
            Some(offset) => problem.at(Place::of(text, offset)),
            None => problem,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn in_file(mut self, file: &str) -> Self {
        file.clone_into(&mut self.file);
        self
    }

    pub(crate) fn at(mut self, place: Place) -> Self {
        self.line = Some(place.line);
        self.column = Some(place.column);
        self
    }

    pub(crate) fn of_rule(mut self, rule: &str) -> Self {
        self.rule = Some(rule.to_owned());
        self
    }

    pub(crate) fn from_failure(code: &'static str, failure: Failure) -> Self {
        Problem { hint: failure.hint, ..Self::error(code, failure.message) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        write!(f, ": {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        for (offset, line, column) in [(0, 1, 1), (1, 1, 2), (3, 1, 3), (4, 2, 1), (99, 2, 2)] {
            assert_eq!(Place::of("aé\nb", offset), Place { line, column }, "{offset}");
        }
    }

    #[test]
    fn a_problem_is_printed_with_its_place() {
        let problem = Problem::error("X", "no").in_file("a.cedar");
        assert_eq!(problem.to_string(), "a.cedar: no");
        assert_eq!(problem.at(Place { line: 2, column: 7 }).to_string(), "a.cedar:2:7: no");
    }
}
