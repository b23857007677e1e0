//! `go test -json`: events of packages and of tests, interleaved.

use std::collections::HashMap;

use serde::Deserialize;

use super::{Told, empty, place};
use crate::lines::Line;
use crate::place::{Places, Spot, file_and_line};
use crate::report::{Case, Counts, MAX_FAILING, ProblemKind, Status, TestFormat, TestReport};
use crate::tally::Tally;
use crate::text::{Block, millis};
use crate::unreadable::Unreadable;

/// Tests and packages that have begun and not ended, and what they said. A run has thousands at
/// most; more of them are counted, and not explained.
const MAX_OPEN: usize = 20_000;
const MAX_HELD: usize = 32 * 1024 * 1024;

pub(super) struct GoTest<'a> {
    places: Places<'a>,
    tally: Tally,
    packages: HashMap<String, Package>,
    open: usize,
    held: usize,
    heard: bool,
}

#[derive(Default)]
struct Package {
    seen: Counts,
    said: Block,
    tests: HashMap<String, Block>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: String,
    test: Option<String>,
    elapsed: Option<f64>,
    output: Option<String>,
}

impl<'a> GoTest<'a> {
    pub(super) fn new(places: &Places<'a>) -> Self {
        let tally = Tally::default();
        GoTest { places: *places, tally, packages: HashMap::new(), open: 0, held: 0, heard: false }
    }

    fn hear(&mut self, event: &Event) {
        self.heard = true;
        match (event.action.as_str(), event.test.as_deref()) {
            ("run", Some(test)) => self.said(event, Some(test), ""),
            ("output", test) => {
                self.said(event, test, event.output.as_deref().unwrap_or_default());
            }
            ("start", None) => self.said(event, None, ""),
            ("build-fail", _) => self.build_failed(&event.package),
            (action, Some(test)) => {
                if let Some(status) = status(action) {
                    self.test_ends(event, test, status);
                }
            }
            (action, None) => {
                if let Some(status) = status(action) {
                    self.package_ends(event, status);
                }
            }
        }
    }

    fn package(&mut self, name: &str) -> Option<&mut Package> {
        if !self.packages.contains_key(name) {
            if self.open >= MAX_OPEN {
                return None;
            }
            self.open += 1;
            self.packages.insert(name.to_owned(), Package::default());
        }
        self.packages.get_mut(name)
    }

    fn said(&mut self, event: &Event, test: Option<&str>, output: &str) {
        let (full, heavy) = (self.open >= MAX_OPEN, self.held >= MAX_HELD);
        let Some(package) = self.package(&event.package) else { return };
        let mut opened = 0;
        let block = match test {
            None => &mut package.said,
            Some(test) if package.tests.contains_key(test) || !full => {
                opened = usize::from(!package.tests.contains_key(test));
                package.tests.entry(test.to_owned()).or_default()
            }
            Some(_) => return,
        };
        let before = block.as_str().len();
        if !output.is_empty() && !heavy && !is_framing(output) {
            block.push(output.trim_end_matches('\n'));
        }
        self.held += block.as_str().len() - before;
        self.open += opened;
    }

    fn test_ends(&mut self, event: &Event, test: &str, status: Status) {
        let mut said = None;
        if let Some(package) = self.package(&event.package) {
            package.seen.add(status, 1);
            said = package.tests.remove(test);
        }
        if let Some(said) = &said {
            self.open = self.open.saturating_sub(1);
            self.held = self.held.saturating_sub(said.as_str().len());
        }
        let mut case = Case::new(test, status);
        case.suite = Some(event.package.clone());
        case.duration_ms = event.elapsed.and_then(millis);
        self.explain(&mut case, &event.package, said.as_ref());
        self.tally.add(case);
    }

    fn explain(&self, case: &mut Case, package: &str, said: Option<&Block>) {
        let said = said.map(Block::as_str).unwrap_or_default();
        let told: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        // The last thing a test says is why it failed; a panic is the first that counts.
        let panic = told.iter().find(|line| line.starts_with("panic: "));
        let message = panic.or(told.iter().rev().find(|line| go_place(line).is_some()));
        let message = message.or(told.last()).copied().unwrap_or_default();
        place(case, self.spot(package, message, &told));
        case.message = Some(message.to_owned());
        case.details = Some(said.to_owned());
    }

    fn spot(&self, package: &str, message: &str, told: &[&str]) -> Option<Spot> {
        if let Some((file, line)) = go_place(message) {
            return Some(Spot { file: self.places.of_go_package(package, file), line });
        }
        // The frames of a panic are absolute.
        let frames = told.iter().filter(|line| line.starts_with('/'));
        frames.flat_map(|line| self.places.spots(line)).next()
    }

    /// A test that a package leaves open when it ends died with it; a package that fails while
    /// all of its tests passed failed by itself.
    fn package_ends(&mut self, event: &Event, status: Status) {
        let Some(package) = self.packages.remove(&event.package) else { return };
        let held = package.tests.values().chain([&package.said]).map(|said| said.as_str().len());
        self.held = self.held.saturating_sub(held.sum());
        self.open = self.open.saturating_sub(1 + package.tests.len());
        let mut tests: Vec<(&String, &Block)> = package.tests.iter().collect();
        tests.sort_by_key(|(name, _)| *name);
        for (name, said) in tests {
            let mut case = Case::new(name, Status::Errored);
            case.suite = Some(event.package.clone());
            self.explain(&mut case, &event.package, Some(said));
            self.tally.add(case);
        }
        let mut counts = package.seen;
        counts.add(Status::Errored, package.tests.len() as u64);
        if status == Status::Failed && counts.failing() == 0 {
            self.broken_package(event, &package.said);
        }
        if counts.total > 0 {
            self.tally.suite(&event.package, counts);
        }
    }

    fn broken_package(&mut self, event: &Event, said: &Block) {
        if said.as_str().contains("[build failed]") || said.as_str().contains("[setup failed]") {
            self.build_failed(&event.package);
            return;
        }
        let mut case = Case::new("(package)", Status::Errored);
        case.suite = Some(event.package.clone());
        self.explain(&mut case, &event.package, Some(said));
        self.tally.add(case);
    }

    fn build_failed(&mut self, package: &str) {
        let package = package.split(' ').next().unwrap_or(package);
        let message = format!("the tests of {package} could not be built");
        self.tally.problem(ProblemKind::BuildFailed, message);
    }

    /// What older versions print between the events.
    fn plain(&mut self, line: &str) {
        let failed = line.strip_prefix("FAIL\t").and_then(|rest| {
            rest.strip_suffix(" [build failed]").or(rest.strip_suffix(" [setup failed]"))
        });
        if let Some(package) = failed {
            self.heard = true;
            self.build_failed(package);
        }
    }
}

impl Told for GoTest<'_> {
    fn line(&mut self, line: &Line<'_>) {
        if !line.text.starts_with('{') {
            self.plain(line.text);
            return;
        }
        match serde_json::from_str(line.text) {
            Ok(event) => self.hear(&event),
            Err(_) if !line.text.contains("\"Action\"") => {}
            Err(_) => {
                let message = "a line is not what go test writes, or it is cut";
                self.tally.problem(ProblemKind::NotUnderstood, message);
            }
        }
    }

    fn done(mut self: Box<Self>) -> Result<TestReport, Unreadable> {
        if !self.heard {
            return Err(empty());
        }
        let mut open: Vec<&String> = self.packages.keys().collect();
        open.sort();
        let open: Vec<String> = open.into_iter().take(MAX_FAILING).cloned().collect();
        for package in open {
            let message = format!("{package} began and never ended");
            self.tally.problem(ProblemKind::Truncated, message);
        }
        Ok(self.tally.done(TestFormat::GoTestJson))
    }
}

fn status(action: &str) -> Option<Status> {
    match action {
        "pass" | "bench" => Some(Status::Passed),
        "fail" => Some(Status::Failed),
        "skip" => Some(Status::Skipped),
        _ => None,
    }
}

/// Lines that only say what the events say.
fn is_framing(output: &str) -> bool {
    let output = output.trim_start();
    ["=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS", "--- FAIL", "--- SKIP"]
        .iter()
        .any(|frame| output.starts_with(frame))
}

/// `a_test.go:4: want 1`
fn go_place(line: &str) -> Option<(&str, u32)> {
    let token = line.split(' ').next()?.strip_suffix(':')?;
    file_and_line(token).filter(|(file, _)| file.ends_with(".go"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::told;

    fn read(lines: &[&str]) -> TestReport {
        let places = Places { go_module: Some("x.org/m"), ..Places::default() };
        told(&mut lines.join("\n").as_bytes(), GoTest::new(&places)).unwrap()
    }

    const RUN: &str = r#"{"Action":"run","Package":"x.org/m/sub","Test":"TestA"}"#;
    const SAY: &str = r#"{"Action":"output","Package":"x.org/m/sub","Test":"TestA","Output":"    a_test.go:4: want 1\n"}"#;
    const FAIL: &str = r#"{"Action":"fail","Package":"x.org/m/sub","Test":"TestA","Elapsed":0.25}"#;
    const END: &str = r#"{"Action":"fail","Package":"x.org/m/sub","Elapsed":0.3}"#;

    #[test]
    fn a_failure_has_its_place() {
        let report = read(&[RUN, SAY, FAIL, END]);
        assert_eq!(report.problems, []);
        let case = &report.cases[0];
        assert_eq!((case.file.as_deref(), case.line), (Some("sub/a_test.go"), Some(4)));
        assert_eq!(case.message.as_deref(), Some("a_test.go:4: want 1"));
        assert_eq!((case.duration_ms, report.counts.failed), (Some(250), 1));
    }

    #[test]
    fn what_is_left_open_died() {
        let report = read(&[RUN, SAY, END]);
        assert_eq!((report.counts.errored, report.problems.len()), (1, 0));
        assert_eq!(read(&[RUN, SAY]).problems[0].kind, ProblemKind::Truncated);
        let package =
            read(&[r#"{"Action":"start","Package":"p"}"#, r#"{"Action":"fail","Package":"p"}"#]);
        assert_eq!(package.counts.errored, 1);
    }

    #[test]
    fn builds_that_fail_are_told_in_every_way() {
        let old = "FAIL\tx.org/m/broken [build failed]";
        let events = r#"{"ImportPath":"p","Action":"build-fail","Package":"p"}"#;
        let output = r#"{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}"#;
        for lines in [vec![old], vec![events], vec![output, r#"{"Action":"fail","Package":"p"}"#]] {
            assert_eq!(read(&lines).problems[0].kind, ProblemKind::BuildFailed);
        }
    }
}
