//! JavaScript: the test tool that the package names, ESLint and the TypeScript compiler.

use serde_json::Value;

use super::node_script::{Script, Tool};
use super::project::{ancestors, inside, join, name};
use super::scope::{Picked, as_argument};
use super::{Command, Looking, Report, Source, TestCommand, Undetected, texts, typescript};
use crate::report::{LintFormat, TestFormat};

const ENVIRONMENT: [(&str, &str); 3] = [("CI", "true"), ("FORCE_COLOR", "0"), ("NO_COLOR", "1")];
const SCRIPTS: [&str; 8] = ["js", "mjs", "cjs", "jsx", "ts", "tsx", "mts", "cts"];

/// A script that cannot be taken apart, at a package that has others inside of it.
const UMBRELLA: &str = "npm-test-of-workspaces";

pub(super) fn tests(looking: &mut Looking<'_, TestFormat>) -> Result<(), Undetected> {
    let package = looking.read("package.json").and_then(|text| serde_json::from_str(&text).ok());
    let package: Value = package.unwrap_or_default();
    let script = package.pointer("/scripts/test").and_then(Value::as_str).map(str::trim);
    let script = script.filter(|text| !text.is_empty() && !text.contains("no test specified"));
    let manifest = looking.root.join("package.json");
    // Hooks around the script are npm's to run.
    let hooked = ["/scripts/pretest", "/scripts/posttest"]
        .iter()
        .any(|hook| package.pointer(hook).is_some());
    match (script, script.filter(|_| !hooked).and_then(Script::of)) {
        (Some(_), Some(plain)) => {
            run(looking, &plain, &format!("the script `test` in {manifest}"))?;
        }
        (Some(_), None) => npm_test(looking, &package, &manifest)?,
        (None, _) => {
            if let Some((tool, why)) = without_script(looking, &package) {
                run(looking, &tool.alone(), &why)?;
            }
        }
    }
    Ok(())
}

fn without_script<F>(looking: &Looking<'_, F>, package: &Value) -> Option<(Tool, String)> {
    let manifest = looking.root.join("package.json");
    for tool in [Tool::Vitest, Tool::Jest, Tool::Mocha] {
        let listed =
            |list: &str| package.get(list).and_then(|list| list.get(tool.name())).is_some();
        if listed("devDependencies") || listed("dependencies") {
            return Some((tool, format!("{} in {manifest}", tool.name())));
        }
    }
    let file = looking.files().find(|path| is_named_test(path))?;
    Some((Tool::Node, looking.root.join(file)))
}

fn run(
    looking: &mut Looking<'_, TestFormat>,
    script: &Script,
    why: &str,
) -> Result<(), Undetected> {
    let (mut argv, report) = start(looking, script.tool);
    argv.extend(script.arguments.iter().cloned());
    if let Some(filter) = looking.filter() {
        argv.extend(match script.tool {
            Tool::Jest | Tool::Vitest => vec!["-t".to_owned(), filter.as_pattern()],
            Tool::Mocha => vec!["--fgrep".to_owned(), filter.as_str().to_owned()],
            Tool::Node => vec![format!("--test-name-pattern={}", filter.as_pattern())],
        });
    }
    let files = chosen_tests(looking);
    if !files.is_empty() && !script.has_positional() {
        if script.tool == Tool::Jest {
            argv.push("--runTestsByPath".to_owned());
        }
        argv.extend(files);
    }
    let mut command = Command::new(script.tool.name(), &looking.root.directory, argv, report)
        .with_environment(&ENVIRONMENT)
        .because(why);
    if script.tool != Tool::Node {
        command = command.needing(&["node"]);
    }
    command.environment.extend(script.environment.clone());
    looking.made.push(command);
    Ok(())
}

/// The tool with a reporter for machines.
fn start(looking: &Looking<'_, TestFormat>, tool: Tool) -> (Vec<String>, Report<TestFormat>) {
    let file = |format, out: &str| Report { format, from: Source::File(out.to_owned()) };
    let program = installed(looking, tool.name());
    match tool {
        Tool::Node => {
            let argv = texts(["node", "--test", "--test-reporter=tap"]);
            (argv, Report { format: TestFormat::Tap, from: Source::Stdout })
        }
        Tool::Jest => {
            let out = looking.out("jest.json");
            let output = format!("--outputFile={out}");
            let argv = texts([&program, "--ci", "--json", "--testLocationInResults", &output]);
            (argv, file(TestFormat::JestJson, &out))
        }
        Tool::Vitest => {
            let out = looking.out("vitest.xml");
            let output = format!("--outputFile={out}");
            (texts([&program, "run", "--reporter=junit", &output]), file(TestFormat::Junit, &out))
        }
        Tool::Mocha => {
            let out = looking.out("mocha.xml");
            let output = format!("output={out}");
            let argv = texts([&program, "--reporter", "xunit", "--reporter-option", &output]);
            (argv, file(TestFormat::Junit, &out))
        }
    }
}

/// The last resort: the script as it is, whatever it prints.
fn npm_test(
    looking: &mut Looking<'_, TestFormat>,
    package: &Value,
    manifest: &str,
) -> Result<(), Undetected> {
    let umbrella = package.get("workspaces").is_some();
    if let Some(filter) = looking.filter() {
        let (tool, filter) = ("npm test".to_owned(), filter.as_str().to_owned());
        return if umbrella { Ok(()) } else { Err(Undetected::FilterNotTaken { tool, filter }) };
    }
    let report = Report { format: TestFormat::Text, from: Source::Streams };
    let argv = texts(["npm", "test", "--silent"]);
    let mut command = Command::new("npm-test", &looking.root.directory, argv, report)
        .with_environment(&ENVIRONMENT)
        .with_environment(&[
            ("npm_config_offline", "true"),
            ("npm_config_update_notifier", "false"),
        ])
        .because(format!("the script `test` in {manifest}"));
    if umbrella {
        UMBRELLA.clone_into(&mut command.tool);
    }
    looking.made.push(command);
    Ok(())
}

/// The script of a package that holds others mostly runs those; they have commands of their own.
pub(super) fn without_umbrellas(mut commands: Vec<TestCommand>) -> Vec<TestCommand> {
    let inner = |outer: &TestCommand, all: &[TestCommand]| {
        let below = |other: &&TestCommand| {
            other.id != outer.id
                && inside(&outer.working_directory, &other.working_directory).is_some()
        };
        let ours = ["node", "jest", "vitest", "mocha", "npm-test"];
        all.iter().filter(below).any(|other| ours.contains(&other.tool.as_str()))
    };
    let all = commands.clone();
    commands.retain(|command| command.tool != UMBRELLA || !inner(command, &all));
    for command in &mut commands {
        if command.tool == UMBRELLA {
            "npm-test".clone_into(&mut command.tool);
        }
    }
    commands
}

/// The tool of the package, or the one that a package above shares with it.
pub(super) fn installed<F>(looking: &Looking<'_, F>, tool: &str) -> String {
    let own = format!("node_modules/.bin/{tool}");
    let mut up = String::new();
    for above in ancestors(&looking.root.directory) {
        if looking.project.has(&join(above, &own)) {
            return format!("{up}{own}");
        }
        up.push_str("../");
    }
    own
}

fn has_extension(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| SCRIPTS.contains(&extension))
}

/// `a.test.js`, `a.spec.ts`
fn is_named_test(path: &str) -> bool {
    let file = name(path);
    has_extension(path) && (file.contains(".test.") || file.contains(".spec."))
}

fn is_test(path: &str) -> bool {
    is_named_test(path) || (has_extension(path) && path.split('/').any(|part| part == "__tests__"))
}

/// Test files of the scope; nothing means all, as for any change that is not in a test.
fn chosen_tests<F>(looking: &Looking<'_, F>) -> Vec<String> {
    let Picked::Some { paths, .. } = &looking.picked else { return Vec::new() };
    if !paths.iter().all(|path| is_test(path)) {
        return Vec::new();
    }
    paths.iter().filter(|path| looking.has(path)).map(|path| as_argument(path)).collect()
}

pub(super) fn linters(looking: &mut Looking<'_, LintFormat>) {
    if let Some(why) = eslint_because(looking) {
        let program = installed(looking, "eslint");
        let mut argv = texts([&program, "--no-color", "--format", "json", "--"]);
        argv.extend(sources(looking));
        let report = Report { format: LintFormat::EslintJson, from: Source::Stdout };
        let command = Command::new("eslint", &looking.root.directory, argv, report)
            .needing(&["node"])
            .because(why);
        looking.made.push(command);
    }
    typescript::linters(looking);
}

fn eslint_because<F>(looking: &Looking<'_, F>) -> Option<String> {
    let is_settings = |path: &&str| {
        !path.contains('/') && (path.starts_with("eslint.config.") || path.starts_with(".eslintrc"))
    };
    if let Some(file) = looking.files().find(is_settings) {
        return Some(looking.root.join(file));
    }
    let package: Value = serde_json::from_str(&looking.read("package.json")?).ok()?;
    let settings = package.get("eslintConfig").is_some();
    settings.then(|| format!("eslintConfig in {}", looking.root.join("package.json")))
}

/// Files of the scope for a linter that looks at one at a time.
fn sources<F>(looking: &Looking<'_, F>) -> Vec<String> {
    let all = texts(["."]);
    let Picked::Some { paths, changed } = &looking.picked else { return all };
    let mut chosen = Vec::new();
    for path in paths {
        let script = has_extension(path) && !name(path).starts_with("eslint.config.");
        let directory = !changed && looking.files().any(|file| inside(path, file).is_some());
        if directory || (script && looking.has(path)) {
            chosen.push(as_argument(path));
        } else if !script {
            // Perhaps the settings of the linter.
            return all;
        }
    }
    if chosen.is_empty() { all } else { chosen }
}
