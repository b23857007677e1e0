//! Go: tests and vet, package by package.

use std::collections::BTreeSet;

use super::project::{ancestors, parent};
use super::scope::Picked;
use super::{Command, Looking, Report, Source, Undetected, texts};
use crate::report::{LintFormat, TestFormat};

pub(super) fn tests(looking: &mut Looking<'_, TestFormat>) -> Result<(), Undetected> {
    let mut argv = texts(["go", "test", "-json"]);
    if let Some(filter) = looking.filter() {
        // Names of subtests are matched part by part, and have no blanks.
        argv.push(format!("-run={}", filter.as_pattern().replace("\\/", "/").replace(' ', "_")));
    }
    argv.extend(packages(looking, true));
    let report = Report { format: TestFormat::GoTestJson, from: Source::Stdout };
    push(looking, "go-test", argv, report);
    Ok(())
}

pub(super) fn linters(looking: &mut Looking<'_, LintFormat>) {
    let mut argv = texts(["go", "vet"]);
    argv.extend(packages(looking, false));
    let report = Report { format: LintFormat::Lines, from: Source::Stderr };
    push(looking, "go-vet", argv, report);
}

fn push<F>(looking: &mut Looking<'_, F>, tool: &str, argv: Vec<String>, report: Report<F>) {
    let mut command = Command::new(tool, &looking.root.directory, argv, report)
        .with_environment(&[("GOFLAGS", ""), ("GOPROXY", "off"), ("GOTOOLCHAIN", "local")])
        .because(looking.root.join("go.mod"));
    command.go_module = module(looking);
    looking.made.push(command);
}

fn module<F>(looking: &Looking<'_, F>) -> Option<String> {
    let text = looking.read("go.mod")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("module "))?;
    let path = line.split("//").next()?.trim().trim_matches('"');
    (!path.is_empty()).then(|| path.to_owned())
}

/// Directories of Go files. A changed source file can break any package that uses it, so only
/// changed tests narrow a test run; vet looks at each package by itself.
fn packages<F>(looking: &Looking<'_, F>, for_tests: bool) -> Vec<String> {
    let all = texts(["./..."]);
    let Picked::Some { paths, changed } = &looking.picked else { return all };
    let directories: BTreeSet<&str> =
        looking.files().filter(|path| path.ends_with(".go")).map(parent).collect();
    let mut picked = BTreeSet::new();
    for path in paths {
        let far = if for_tests { !path.ends_with("_test.go") } else { !path.ends_with(".go") };
        if *changed && far {
            return all;
        }
        if !changed && inner(&directories, path) {
            picked.insert(format!("./{path}/..."));
            continue;
        }
        match ancestors(path).find(|above| directories.contains(above)) {
            Some(directory) => picked.insert(format!("./{directory}")),
            None => return all,
        };
    }
    picked.into_iter().collect()
}

/// Whether a named path is a directory with packages in it.
fn inner(directories: &BTreeSet<&str>, path: &str) -> bool {
    let below = |directory: &&str| super::project::inside(path, directory).is_some();
    directories.contains(path) || directories.iter().any(below)
}
