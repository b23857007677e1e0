//! TAP 13 and 14: numbered points, plans, subtests by indentation, and YAML beneath a point.
//!
//! A point that closes a subtest only sums it up, so the tests of the subtest are counted and not
//! the sum, unless it fails while none of them did.

use super::tap_yaml::{self, Yaml};
use super::{Told, empty, place};
use crate::lines::Line;
use crate::place::{Places, Spot, file_and_line};
use crate::report::{Case, ProblemKind, Status, TestFormat, TestReport};
use crate::tally::Tally;
use crate::text::{MAX_NAME, clean, first_line};
use crate::unreadable::Unreadable;

const INDENT: usize = 4;
const MAX_DEPTH: usize = 64;

pub(super) struct Tap<'a> {
    places: Places<'a>,
    tally: Tally,
    /// From the outermost; what is deeper belongs to the next point of the level above.
    levels: Vec<Level>,
    point: Option<Point>,
    yaml: Option<Yaml>,
    told_failures: Option<u64>,
    heard: bool,
}

#[derive(Default)]
struct Level {
    plan: Option<u64>,
    points: u64,
    cases: u64,
    failing: u64,
    /// `# Subtest: …` names the level beneath it.
    heading: Option<String>,
}

/// A test point whose explanation may still follow.
struct Point {
    depth: usize,
    name: String,
    ok: bool,
    directive: Option<(Directive, String)>,
    said: Yaml,
    /// What its subtest had, when it sums one up.
    inner: Option<Level>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Skip,
    Todo,
}

impl<'a> Tap<'a> {
    pub(super) fn new(places: &Places<'a>) -> Self {
        Tap {
            places: *places,
            tally: Tally::default(),
            levels: vec![Level::default()],
            point: None,
            yaml: None,
            told_failures: None,
            heard: false,
        }
    }

    fn body_line(&mut self, depth: usize, text: &str) {
        if let Some(name) = text.strip_prefix("# Subtest: ") {
            self.at(depth, |level| level.heading = Some(clean(name, MAX_NAME)));
        } else if let Some(number) = text.strip_prefix("# fail ").filter(|_| depth == 0) {
            self.told_failures = number.trim().parse().ok();
        } else if let Some(reason) = text.strip_prefix("Bail out!") {
            self.heard = true;
            self.tally.problem(ProblemKind::BailedOut, format!("bailed out: {}", reason.trim()));
        } else if let Some(plan) = plan(text) {
            self.heard = true;
            self.at(depth, |level| level.plan = Some(plan));
        } else if let Some(point) = parse_point(depth, text) {
            self.heard = true;
            self.add_point(point);
        } else if text.starts_with("TAP version ") {
            self.heard = true;
        }
    }

    /// Makes the level at a depth the last one, with those between.
    fn go_to(&mut self, depth: usize) {
        self.flush();
        let depth = depth.min(MAX_DEPTH);
        while self.levels.len() <= depth {
            self.levels.push(Level::default());
        }
        while self.levels.len() > depth + 1 {
            // Deeper levels end here without a point that sums them up.
            if let Some(level) = self.levels.pop() {
                self.check_plan(&level);
                self.raise(&level);
            }
        }
    }

    fn at(&mut self, depth: usize, change: impl FnOnce(&mut Level)) {
        self.go_to(depth);
        if let Some(level) = self.levels.last_mut() {
            change(level);
        }
    }

    fn add_point(&mut self, mut point: Point) {
        self.flush();
        let inner = point.depth.min(MAX_DEPTH) + 1;
        if self.levels.len() > inner + 1 {
            self.go_to(inner);
        }
        if self.levels.len() == inner + 1 {
            point.inner =
                self.levels.pop().filter(|level| level.points > 0 || level.plan.is_some());
        }
        self.at(point.depth, |level| level.points += 1);
        self.point = Some(point);
    }

    fn raise(&mut self, level: &Level) {
        if let Some(above) = self.levels.last_mut() {
            above.cases += level.cases;
            above.failing += level.failing;
        }
    }

    fn check_plan(&mut self, level: &Level) {
        let above = self.levels.last().and_then(|above| above.heading.as_deref());
        let name = above.unwrap_or("the report");
        match level.plan {
            Some(plan) if plan != level.points => {
                let message = format!("{name} planned {plan} tests and told of {}", level.points);
                self.tally.problem(ProblemKind::PlanNotMet, message);
            }
            None if level.points > 0 => {
                let message = format!("{name} has no plan, so its end may be missing");
                self.tally.problem(ProblemKind::Truncated, message);
            }
            _ => {}
        }
    }

    /// Counts the last point, with all that was said beneath it.
    fn flush(&mut self) {
        if let Some(yaml) = self.yaml.take()
            && let Some(point) = &mut self.point
        {
            point.said = yaml;
        }
        let Some(point) = self.point.take() else { return };
        if let Some(inner) = &point.inner {
            self.check_plan(inner);
            self.raise(inner);
            if inner.cases > 0 && (point.status() != Status::Failed || inner.failing > 0) {
                return;
            }
        }
        let case = self.case(&point);
        if let Some(level) = self.levels.last_mut() {
            level.cases += 1;
            level.failing += u64::from(case.status.is_failing());
        }
        self.tally.add(case);
    }

    fn case(&self, point: &Point) -> Case {
        let said = &point.said;
        let mut case = Case::new(&point.name, point.status());
        if self.told_no_test(point) {
            case.status = Status::Skipped;
            case.message = Some("this file ran and told of no test".to_owned());
        }
        case.suite = self.suite(point.depth);
        case.duration_ms = said.milliseconds();
        if let Some((_, reason)) = &point.directive {
            case.message = Some(reason.clone());
        }
        if case.status.is_failing() {
            let message = said.get(&["message", "error"]).or(said.get(&["stack"]));
            case.message = Some(first_line(message.unwrap_or(said.plain())).to_owned());
            place(&mut case, self.spot(said));
            case.details = Some(said.plain().to_owned());
        }
        case
    }

    /// Node counts a file that told of no test as one that passed.
    fn told_no_test(&self, point: &Point) -> bool {
        let heading = self.levels.get(point.depth).and_then(|level| level.heading.as_deref());
        let plain = point.ok && point.inner.is_none() && point.directive.is_none();
        plain && point.name.starts_with('/') && heading == Some(&clean(&point.name, MAX_NAME))
    }

    /// The names of the subtests around a point, which were told before it.
    fn suite(&self, depth: usize) -> Option<String> {
        let names = self.levels.iter().take(depth);
        let names: Vec<&str> = names.filter_map(|level| level.heading.as_deref()).collect();
        (!names.is_empty()).then(|| names.join(" > "))
    }

    fn spot(&self, said: &Yaml) -> Option<Spot> {
        let own = said.get(&["stack"]).and_then(|stack| self.places.spot_in(stack));
        let told = said.get(&["location", "at"]).and_then(file_and_line);
        let told = told.map(|(file, line)| Spot { file: self.places.relative(file), line });
        let pair = said.get(&["file", "at.file"]).zip(said.number(&["line", "at.line"]));
        let pair = pair.map(|(file, line)| Spot { file: self.places.relative(file), line });
        own.or(pair).or(told).or_else(|| self.places.spot_in(said.plain()))
    }
}

impl Point {
    fn status(&self) -> Status {
        match (&self.directive, self.ok) {
            (Some((Directive::Skip, _)), _) | (Some((Directive::Todo, _)), false) => {
                Status::Skipped
            }
            (_, true) => Status::Passed,
            (_, false) => Status::Failed,
        }
    }
}

impl Told for Tap<'_> {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text;
        if let Some(yaml) = &mut self.yaml {
            if yaml.line(text) == tap_yaml::Next::More {
                return;
            }
            self.flush();
            return;
        }
        let body = text.trim_start_matches(' ');
        let spaces = text.len() - body.len();
        if let Some(point) = &mut self.point {
            let beneath = spaces > point.depth * INDENT;
            if beneath && body.trim_end() == "---" {
                self.yaml = Some(Yaml::new(spaces));
                return;
            }
            // Some tools put plain text beneath a point.
            let is_tap = plan(body).is_some() || parse_point(0, body).is_some();
            if beneath && (!spaces.is_multiple_of(INDENT) || !(is_tap || body.starts_with('#'))) {
                point.said.plain_line(body);
                return;
            }
        }
        if spaces.is_multiple_of(INDENT) {
            self.body_line(spaces / INDENT, body.trim_end());
        }
    }

    fn done(mut self: Box<Self>) -> Result<TestReport, Unreadable> {
        if let Some(yaml) = self.yaml.take() {
            self.tally.problem(ProblemKind::Truncated, "the report ends inside of a block");
            self.yaml = Some(yaml);
        }
        if !self.heard {
            return Err(empty());
        }
        self.go_to(0);
        if let Some(level) = self.levels.pop() {
            self.check_plan(&level);
        }
        if self.told_failures.is_some_and(|told| (told > 0) != (self.tally.counts().failing() > 0))
        {
            let message = "the failures told at the end are not among the tests";
            self.tally.problem(ProblemKind::CountsDisagree, message);
        }
        Ok(self.tally.done(TestFormat::Tap))
    }
}

/// `1..4`, maybe with a reason for having none.
fn plan(text: &str) -> Option<u64> {
    let rest = text.strip_prefix("1..")?;
    rest.split('#').next()?.trim().parse().ok()
}

fn parse_point(depth: usize, text: &str) -> Option<Point> {
    let (ok, rest) = match text.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("ok")?),
    };
    // A number may be left out, but `ok, then` is what people print.
    let rest = rest.strip_prefix(' ').unwrap_or(rest).trim_start();
    if !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit() || "-#".contains(c)) {
        return None;
    }
    let described = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let described = described.strip_prefix("- ").unwrap_or(described);
    let (name, directive) = split_directive(described);
    let name = if name.is_empty() { rest } else { name };
    let name = name.replace("\\#", "#");
    Some(Point { depth, name, ok, directive, said: Yaml::default(), inner: None })
}

/// `name # SKIP reason`; a `#` that is escaped or part of the name stays.
fn split_directive(text: &str) -> (&str, Option<(Directive, String)>) {
    let Some((name, comment)) =
        text.rsplit_once(" #").or_else(|| text.strip_prefix('#').map(|comment| ("", comment)))
    else {
        return (text.trim(), None);
    };
    let comment = comment.trim();
    let (word, reason) = comment.split_once(' ').unwrap_or((comment, ""));
    let directive = match word.to_ascii_lowercase() {
        word if word.starts_with("skip") => Directive::Skip,
        word if word.starts_with("todo") => Directive::Todo,
        _ => return (text.trim(), None),
    };
    (name.trim(), Some((directive, reason.trim().to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::told;

    fn read(text: &str) -> TestReport {
        told(&mut text.as_bytes(), Tap::new(&Places::default())).unwrap()
    }

    fn kinds(text: &str) -> Vec<ProblemKind> {
        read(text).problems.iter().map(|problem| problem.kind).collect()
    }

    #[test]
    fn points_directives_and_plans() {
        let report = read(
            "TAP version 14\n1..5\nok 1 - a\nnot ok 2 - b \\# c\n  ---\n  message: 'it broke'\n  \
             at:\n    file: t/b.t\n    line: 12\n  ...\nok 3 # skip no network\n\
             not ok 4 - d # TODO later\nok - e # 1\n",
        );
        assert_eq!(report.problems, []);
        let counts = report.counts;
        assert_eq!((counts.total, counts.passed, counts.failed, counts.skipped), (5, 2, 1, 2));
        let bad = &report.cases[1];
        assert_eq!((bad.name.as_str(), bad.message.as_deref()), ("b # c", Some("it broke")));
        assert_eq!((bad.file.as_deref(), bad.line), (Some("t/b.t"), Some(12)));
        assert_eq!(report.cases[2].message.as_deref(), Some("no network"));
        assert_eq!(report.cases[4].name, "e # 1");
    }

    #[test]
    fn subtests_are_counted_and_their_sums_are_not() {
        let report = read(
            "TAP version 13\n# Subtest: outer\n    # Subtest: in\n        ok 1 - x\n        \
             not ok 2 - y\n        1..2\n    not ok 1 - in\n    1..1\nnot ok 1 - outer\n1..1\n",
        );
        assert_eq!(report.problems, []);
        assert_eq!((report.counts.total, report.counts.failed), (2, 1));
        assert_eq!(report.cases[1].suite.as_deref(), Some("outer > in"));
    }

    #[test]
    fn a_sum_that_fails_alone_is_a_failure() {
        let report = read("1..1\n    1..1\n    ok 1 - x\nnot ok 1 - hook\n");
        assert_eq!((report.counts.total, report.counts.failed), (2, 1));
    }

    #[test]
    fn plans_that_are_not_met_and_runs_given_up() {
        assert_eq!(kinds("1..3\nok 1\n"), [ProblemKind::PlanNotMet]);
        assert_eq!(kinds("1..1\nok 1\nok 2\n"), [ProblemKind::PlanNotMet]);
        assert_eq!(kinds("ok 1\n"), [ProblemKind::Truncated]);
        assert_eq!(kinds("1..1\nok 1\nBail out! no disk\n"), [ProblemKind::BailedOut]);
        assert_eq!(kinds("1..1\nnot ok 1\n  ---\n  a: b\n"), [ProblemKind::Truncated]);
        assert_eq!(kinds("1..1\nok 1\n# fail 1\n"), [ProblemKind::CountsDisagree]);
        let nothing = read("TAP version 13\n1..0 # skip all\n");
        assert!(nothing.ran_nothing() && nothing.problems.is_empty());
    }

    #[test]
    fn plain_text_beneath_a_point_explains_it() {
        let report = read(
            "not ok 1 group bad\n  deep\n  Error: deep\n      at Context (t/a.test.js:3:27)\n\
             ok 2 group later # SKIP -\n# tests 1\n# fail 1\n1..2\n",
        );
        assert_eq!(report.problems, []);
        let bad = &report.cases[0];
        assert_eq!((bad.file.as_deref(), bad.line), (Some("t/a.test.js"), Some(3)));
        assert_eq!(bad.message.as_deref(), Some("deep"));
    }
}
