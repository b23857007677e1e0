//! Counts and keeps cases, within the limits.

use crate::report::{
    Case, Counts, MAX_FAILING, MAX_OTHERS, MAX_PROBLEMS, MAX_SUITES, Problem, ProblemKind, Status,
    Suite, TestFormat, TestReport,
};
use crate::text::{MAX_DETAILS, MAX_MESSAGE, MAX_NAME, clean, clean_opt};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Counts,
    cases: Vec<Case>,
    failing: usize,
    left_out: u64,
    suites: Vec<Suite>,
    problems: Vec<Problem>,
}

impl Tally {
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Where the case is kept, if it is.
    pub(crate) fn add(&mut self, case: Case) -> Option<usize> {
        let counted = self.counts.add(case.status, 1);
        if counted == 0 || !self.has_room(case.status) {
            self.left_out = self.left_out.saturating_add(counted);
            return None;
        }
        self.failing += usize::from(case.status.is_failing());
        self.cases.push(fitted(case));
        self.cases.len().checked_sub(1)
    }

    /// Completes a case of which more is told later. Its status stays.
    pub(crate) fn amend(&mut self, index: usize, complete: impl FnOnce(&mut Case)) {
        if let Some(case) = self.cases.get_mut(index) {
            let status = case.status;
            complete(case);
            *case = fitted(Case { status, ..case.clone() });
        }
    }

    fn has_room(&self, status: Status) -> bool {
        if status.is_failing() {
            self.failing < MAX_FAILING
        } else {
            self.cases.len() - self.failing < MAX_OTHERS
        }
    }

    /// Counts cases of which the tool tells only the number.
    pub(crate) fn add_unlisted(&mut self, status: Status, many: u64) {
        let counted = self.counts.add(status, many);
        self.left_out = self.left_out.saturating_add(counted);
    }

    pub(crate) fn suite(&mut self, name: &str, counts: Counts) {
        if self.suites.len() < MAX_SUITES {
            self.suites.push(Suite { name: clean(name, MAX_NAME), counts });
        }
    }

    pub(crate) fn problem(&mut self, kind: ProblemKind, message: impl AsRef<str>) {
        add_problem(&mut self.problems, kind, message.as_ref());
    }

    pub(crate) fn done(self, format: TestFormat) -> TestReport {
        TestReport {
            format,
            counts: self.counts,
            cases: self.cases,
            cases_left_out: self.left_out,
            suites: self.suites,
            problems: self.problems,
        }
    }
}

/// The first problems are enough; the last place is for saying that there are more.
pub(crate) fn add_problem(problems: &mut Vec<Problem>, kind: ProblemKind, message: &str) {
    if problems.len() < MAX_PROBLEMS {
        problems.push(Problem { kind, message: clean(message, MAX_MESSAGE) });
    } else if let Some(last) = problems.last_mut() {
        "and more, which are not listed".clone_into(&mut last.message);
    }
}

/// Passing cases keep name, status and duration; everything has its size.
fn fitted(case: Case) -> Case {
    let failing = case.status.is_failing();
    let kept = |text: Option<String>, max| text.and_then(|text| clean_opt(&text, max));
    Case {
        name: clean(&case.name, MAX_NAME),
        suite: kept(case.suite, MAX_NAME),
        status: case.status,
        file: kept(case.file, MAX_NAME).filter(|_| failing),
        line: case.line.filter(|_| failing),
        duration_ms: case.duration_ms,
        message: kept(case.message, MAX_MESSAGE).filter(|_| case.status != Status::Passed),
        details: kept(case.details, MAX_DETAILS).filter(|_| failing),
    }
}
