//! Python: pytest or unittest, ruff and mypy.

use std::collections::BTreeSet;

use super::project::{ancestors, inside, is_python_test, name, parent, read_small};
use super::scope::{Picked, as_argument};
use super::{Command, Looking, Report, Source, Undetected, texts};
use crate::report::{LintFormat, TestFormat};

/// Test files that are read to see which of the two they are written for.
const MAX_LOOKED_INTO: usize = 50;

/// Nothing is left beside the sources, and the order of sets is the same each time.
const ENVIRONMENT: [(&str, &str); 2] = [("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONHASHSEED", "0")];

pub(super) fn tests(looking: &mut Looking<'_, TestFormat>) -> Result<(), Undetected> {
    let files: Vec<String> =
        looking.files().filter(|path| is_python_test(name(path))).map(str::to_owned).collect();
    match pytest_because(looking, &files) {
        Some(why) => pytest(looking, why),
        None if files.is_empty() => Ok(()),
        None => {
            unittest(looking, &files);
            Ok(())
        }
    }
}

/// What says that pytest is used.
fn pytest_because<F>(looking: &Looking<'_, F>, files: &[String]) -> Option<String> {
    let mentions = |file: &str, word: &str| looking.read(file).is_some_and(|t| t.contains(word));
    let settings = [
        ("pytest.ini", ""),
        ("pyproject.toml", "pytest"),
        ("setup.cfg", "pytest"),
        ("tox.ini", "pytest"),
        ("setup.py", "pytest"),
        ("requirements.txt", "pytest"),
        ("requirements-dev.txt", "pytest"),
        ("dev-requirements.txt", "pytest"),
    ];
    let setting = settings.iter().find(|(file, word)| mentions(file, word));
    let setting = setting.map(|(file, word)| match *word {
        "" => looking.root.join(file),
        word => format!("{word} in {}", looking.root.join(file)),
    });
    let conftest = || looking.files().find(|path| name(path) == "conftest.py").map(str::to_owned);
    let written = || files.iter().take(MAX_LOOKED_INTO).find(|file| wants_pytest(looking, file));
    setting
        .or_else(|| conftest().map(|path| looking.root.join(&path)))
        .or_else(|| written().map(|path| looking.root.join(path)))
}

/// unittest knows only classes; tests that are functions need pytest.
fn wants_pytest<F>(looking: &Looking<'_, F>, file: &str) -> bool {
    let text = looking.read(file).unwrap_or_default();
    let unittest = text.contains("unittest") || text.contains("TestCase");
    let functions = text
        .lines()
        .any(|line| line.starts_with("def test_") || line.starts_with("async def test_"));
    text.contains("import pytest") || text.contains("from pytest") || functions || !unittest
}

fn pytest(looking: &mut Looking<'_, TestFormat>, why: String) -> Result<(), Undetected> {
    let out = looking.out("pytest.xml");
    // Only this suite's own settings: no cache is left behind, and no summary is cut.
    let mut argv = texts(["python3", "-m", "pytest", "-p", "no:cacheprovider"]);
    argv.push(format!("--junitxml={out}"));
    if let Some(filter) = looking.filter() {
        if !is_plain_expression(filter.as_str()) {
            let (tool, filter) = ("pytest".to_owned(), filter.as_str().to_owned());
            return Err(Undetected::FilterNotTaken { tool, filter });
        }
        argv.extend(["-k".to_owned(), filter.as_str().to_owned()]);
    }
    let chosen = chosen_tests(looking);
    if !chosen.is_empty() {
        argv.push("--".to_owned());
        argv.extend(chosen);
    }
    let report = Report { format: TestFormat::Junit, from: Source::File(out) };
    let mut command = Command::new("pytest", &looking.root.directory, argv, report)
        .with_environment(&ENVIRONMENT)
        .because(why);
    command.modules.push("pytest".to_owned());
    looking.made.push(command);
    Ok(())
}

/// For pytest a filter is an expression; one word of it is a piece of a name.
fn is_plain_expression(filter: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "_.:[]+-".contains(c);
    filter.chars().all(plain) && !["and", "or", "not", "True", "False", "None"].contains(&filter)
}

/// Test files and directories of the scope; nothing means all. A changed source file can break
/// any test, and one that is named has no tests of its own.
fn chosen_tests<F>(looking: &Looking<'_, F>) -> Vec<String> {
    let Picked::Some { paths, changed } = &looking.picked else { return Vec::new() };
    let mut chosen = Vec::new();
    for path in paths {
        // What was deleted cannot be run.
        let there = looking.has(path);
        let directory = !changed && looking.files().any(|file| inside(path, file).is_some());
        if is_python_test(name(path)) && (there || *changed) {
            chosen.extend(there.then(|| as_argument(path)));
        } else if directory {
            chosen.push(as_argument(path));
        } else {
            return Vec::new();
        }
    }
    chosen
}

fn unittest(looking: &mut Looking<'_, TestFormat>, files: &[String]) {
    for start in start_directories(looking, files) {
        let below: Vec<&str> =
            files.iter().filter_map(|file| inside(&start, file)).map(name).collect();
        let mut argv = texts(["python3", "-m", "unittest", "discover", "-v"]);
        if !start.is_empty() {
            argv.extend(["-s".to_owned(), as_argument(&start)]);
        }
        if !below.iter().any(|file| file.starts_with("test")) {
            argv.extend(texts(["-p", "*_test.py"]));
        }
        if let Some(filter) = looking.filter() {
            argv.extend(["-k".to_owned(), filter.as_str().to_owned()]);
        }
        let report = Report { format: TestFormat::UnittestText, from: Source::Stderr };
        let why = files.iter().find(|file| inside(&start, file).is_some());
        let why = why.map(|file| looking.root.join(file)).unwrap_or_default();
        let mut command = Command::new("unittest", &looking.root.directory, argv, report)
            .with_environment(&ENVIRONMENT)
            .because(why);
        if !start.is_empty() {
            command.id = format!("unittest@{}", looking.root.join(&start));
        }
        looking.made.push(command);
    }
}

/// Discovery goes down only into packages, so each tree without `__init__.py` begins anew.
fn start_directories<F>(looking: &Looking<'_, F>, files: &[String]) -> BTreeSet<String> {
    let outermost = |file: &String| {
        let package = |directory: &&str| looking.has(&format!("{directory}/__init__.py"));
        let mut above = ancestors(parent(file)).skip_while(package);
        above.next().unwrap_or_default().to_owned()
    };
    files.iter().map(outermost).collect()
}

pub(super) fn linters(looking: &mut Looking<'_, LintFormat>) {
    if let Some(why) = configured(looking, "ruff", &["ruff.toml", ".ruff.toml"]) {
        let mut argv = texts(["ruff", "check", "--output-format=json", "--no-cache", "--no-fix"]);
        argv.push("--".to_owned());
        argv.extend(sources(looking));
        let report = Report { format: LintFormat::RuffJson, from: Source::Stdout };
        let command = Command::new("ruff", &looking.root.directory, argv, report).because(why);
        looking.made.push(command);
    }
    if let Some(why) = configured(looking, "mypy", &["mypy.ini", ".mypy.ini"]) {
        mypy(looking, why);
    }
}

/// Types of one file depend on others, so it always looks at all of them.
fn mypy(looking: &mut Looking<'_, LintFormat>, why: String) {
    let mut argv = texts([
        "python3",
        "-m",
        "mypy",
        "--show-column-numbers",
        "--show-error-end",
        "--no-error-summary",
        "--no-color-output",
        "--no-pretty",
        "--cache-dir=/dev/null",
    ]);
    if !names_its_files(looking) {
        argv.push(".".to_owned());
    }
    let report = Report { format: LintFormat::Lines, from: Source::Stdout };
    let mut command = Command::new("mypy", &looking.root.directory, argv, report)
        .with_environment(&ENVIRONMENT)
        .because(why);
    command.modules.push("mypy".to_owned());
    looking.made.push(command);
}

fn names_its_files<F>(looking: &Looking<'_, F>) -> bool {
    let files = ["mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg"];
    files.iter().filter_map(|file| looking.read(file)).any(|text| {
        let section = text.split("mypy]").nth(1).unwrap_or_default();
        let own = section.split("\n[").next().unwrap_or_default();
        own.lines().any(|line| {
            ["files", "packages", "modules"].iter().any(|key| {
                line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
            })
        })
    })
}

fn configured<F>(looking: &Looking<'_, F>, tool: &str, files: &[&str]) -> Option<String> {
    if let Some(file) = files.iter().find(|file| looking.has(file)) {
        return Some(looking.root.join(file));
    }
    let sections = [
        ("pyproject.toml", format!("[tool.{tool}")),
        ("setup.cfg", format!("[{tool}")),
        ("tox.ini", format!("[{tool}")),
    ];
    let found = sections.iter().find(|(file, section)| {
        let text = read_small(looking.project, &looking.root.join(file)).unwrap_or_default();
        text.lines().any(|line| line.starts_with(section.as_str()))
    })?;
    Some(format!("{}] in {}", found.1, looking.root.join(found.0)))
}

/// Python files of the scope for a linter that looks at one at a time.
fn sources<F>(looking: &Looking<'_, F>) -> Vec<String> {
    let all = texts(["."]);
    let Picked::Some { paths, changed } = &looking.picked else { return all };
    let mut chosen = Vec::new();
    for path in paths {
        let python = path.ends_with(".py") || path.ends_with(".pyi") || path.ends_with(".ipynb");
        let directory = !changed && looking.files().any(|file| inside(path, file).is_some());
        if directory || (python && looking.has(path)) {
            chosen.push(as_argument(path));
        } else if !python {
            // Perhaps the settings of the linter.
            return all;
        }
    }
    if chosen.is_empty() { all } else { chosen }
}
