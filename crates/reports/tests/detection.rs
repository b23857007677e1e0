//! Which commands projects of many kinds are given, and how a scope narrows them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use countersign_reports::TestFormat;
use countersign_reports::detect::{
    Ask, Filter, Listing, Scope, Source, Undetected, linters, tests,
};

fn project(files: &[(&str, &str)]) -> Listing {
    files.iter().fold(Listing::new(), |listing, (path, text)| listing.with(path, text))
}

fn changed(paths: &[&str]) -> Ask {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    Ask { scope: Scope::Changed(paths), ..Ask::default() }
}

fn named(paths: &[&str]) -> Ask {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    Ask { scope: Scope::Paths(paths), ..Ask::default() }
}

fn filtered(text: &str) -> Ask {
    Ask { filter: Some(Filter::new(text).unwrap()), ..Ask::default() }
}

/// Each command as `id: arguments`.
fn test_lines(listing: &Listing, ask: &Ask) -> Vec<String> {
    let found = tests(listing, ask).unwrap();
    found.iter().map(|command| format!("{}: {}", command.id, command.argv.join(" "))).collect()
}

fn lint_lines(listing: &Listing, ask: &Ask) -> Vec<String> {
    let found = linters(listing, ask).unwrap();
    found.iter().map(|command| format!("{}: {}", command.id, command.argv.join(" "))).collect()
}

const CARGO: &str = "cargo-test: cargo test --offline --no-fail-fast --message-format=json";

fn workspace() -> Listing {
    project(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nexclude = [\"fuzz\"]"),
        ("README.md", ""),
        ("crates/a/Cargo.toml", "[package]\nname = \"a\""),
        ("crates/a/src/lib.rs", ""),
        ("crates/b/Cargo.toml", "[package]\nname = \"b\"\n[dependencies]\nx = {package = \"a\"}"),
        (
            "crates/c/Cargo.toml",
            "[package]\nname = \"c\"\n[target.'cfg(unix)'.dev-dependencies]\nb = {}",
        ),
        ("crates/d/Cargo.toml", "[package]\nname = \"d\""),
        ("fuzz/Cargo.toml", "[package]\nname = \"f\"\n[package.metadata]\ncargo-fuzz = true"),
        ("crates/a/tests/fixtures/x/Cargo.toml", "[package]\nname = \"x\""),
    ])
}

#[test]
fn a_cargo_workspace_is_one_project() {
    assert_eq!(test_lines(&workspace(), &Ask::default()), [format!("{CARGO} --workspace")]);
    assert_eq!(
        lint_lines(&workspace(), &Ask::default()),
        [
            "clippy: cargo clippy --offline --all-targets --message-format=json --workspace",
            "rustfmt: cargo fmt --check --all",
        ]
    );
    let command = &tests(&workspace(), &Ask::default()).unwrap()[0];
    assert_eq!(command.why, "Cargo.toml");
    assert_eq!(command.report.from, Source::Stdout);
    let shown = command.to_string();
    assert!(shown.contains("cargo test --offline") && shown.contains("because of Cargo.toml"));
}

#[test]
fn a_changed_package_takes_along_those_that_use_it() {
    let check = |ask: Ask, expected: &str| {
        assert_eq!(test_lines(&workspace(), &ask), [format!("{CARGO} {expected}")]);
    };
    check(changed(&["crates/a/src/lib.rs"]), "-p a -p b -p c");
    check(changed(&["crates/b/src/lib.rs"]), "-p b -p c");
    check(changed(&["crates/d/README.md"]), "-p d");
    check(changed(&["crates/d/src/lib.rs", "Cargo.lock"]), "--workspace");
    check(changed(&[".cargo/config.toml"]), "--workspace");
    check(named(&["crates/a/src/lib.rs"]), "-p a");
    check(named(&["crates"]), "--workspace");
}

#[test]
fn a_package_name_never_becomes_an_option() {
    let listing = project(&[
        ("Cargo.toml", "[workspace]"),
        ("a/Cargo.toml", "[package]\nname = \"--config=evil\""),
    ]);
    assert_eq!(test_lines(&listing, &changed(&["a/x.rs"])), [format!("{CARGO} --workspace")]);
}

#[test]
fn a_monorepo_has_several_projects() {
    let listing = project(&[
        ("svc/api/go.mod", "module example.com/api // x\n"),
        ("svc/api/a.go", ""),
        ("svc/api/in/b_test.go", ""),
        ("svc/web/package.json", r#"{"scripts":{"test":"vitest"}}"#),
        ("svc/web/x.js", ""),
        (
            "svc/ml/pyproject.toml",
            "[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\nfiles = \"src\"\n",
        ),
        ("svc/core/Cargo.toml", "[package]\nname = \"core\""),
        ("svc/web/node_modules/dep/package.json", r#"{"scripts":{"test":"jest"}}"#),
    ]);
    let everything = test_lines(&listing, &Ask::default());
    let ids: Vec<&str> = everything.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(ids, ["go-test@svc/api", "cargo-test@svc/core", "pytest@svc/ml", "vitest@svc/web"]);
    let directories: Vec<String> = tests(&listing, &Ask::default())
        .unwrap()
        .into_iter()
        .map(|c| c.working_directory)
        .collect();
    assert_eq!(directories, ["svc/api", "svc/core", "svc/ml", "svc/web"]);

    assert_eq!(
        test_lines(&listing, &changed(&["svc/web/x.js"])),
        [
            "vitest@svc/web: node_modules/.bin/vitest run --reporter=junit --outputFile=/out/1-vitest.xml"
        ]
    );
    // A file of nobody may concern everybody.
    assert_eq!(test_lines(&listing, &changed(&["Makefile"])).len(), 4);
    assert_eq!(test_lines(&listing, &named(&["svc/api", "svc/core"])).len(), 2);
    let nothing = tests(&listing, &named(&["docs"])).unwrap_err();
    assert_eq!(nothing, Undetected::NothingInScope { what: "tested" });
    assert_eq!(
        lint_lines(&listing, &named(&["svc/ml"])),
        [
            "ruff@svc/ml: ruff check --output-format=json --no-cache --no-fix -- .",
            "mypy@svc/ml: python3 -m mypy --show-column-numbers --show-error-end --no-error-summary \
             --no-color-output --no-pretty --cache-dir=/dev/null",
        ]
    );
}

#[test]
fn go_is_narrowed_by_directories() {
    let listing = project(&[
        ("go.mod", "module x.org/m\n"),
        ("a.go", ""),
        ("in/b.go", ""),
        ("in/b_test.go", ""),
        ("in/deep/c.go", ""),
    ]);
    let check = |ask: Ask, expected: &str| {
        assert_eq!(test_lines(&listing, &ask), [format!("go-test: go test -json {expected}")]);
    };
    check(Ask::default(), "./...");
    check(changed(&["in/b_test.go"]), "./in");
    check(changed(&["in/b.go"]), "./...");
    check(named(&["in/b.go"]), "./in");
    check(named(&["in"]), "./in/...");
    check(filtered("TestA/b c.d"), "-run=TestA/b_c\\.d ./...");
    assert_eq!(lint_lines(&listing, &changed(&["in/b.go"])), ["go-vet: go vet ./in"]);
    assert_eq!(tests(&listing, &Ask::default()).unwrap()[0].go_module.as_deref(), Some("x.org/m"));
}

#[test]
fn python_has_two_test_tools() {
    let unittest = "import unittest\nclass T(unittest.TestCase):\n    def test_x(self): pass\n";
    let plain = project(&[("tests/test_a.py", unittest), ("app.py", "")]);
    assert_eq!(
        test_lines(&plain, &filtered("test_x")),
        ["unittest@tests: python3 -m unittest discover -v -s tests -k test_x"]
    );
    let command = &tests(&plain, &Ask::default()).unwrap()[0];
    assert_eq!(
        (command.report.format, &command.report.from),
        (TestFormat::UnittestText, &Source::Stderr)
    );

    let package = project(&[("tests/test_a.py", unittest), ("tests/__init__.py", "")]);
    assert_eq!(
        test_lines(&package, &Ask::default()),
        ["unittest: python3 -m unittest discover -v"]
    );

    const PYTEST: &str =
        "pytest: python3 -m pytest -p no:cacheprovider --junitxml=/out/1-pytest.xml";
    let functions = project(&[("test_a.py", "def test_x():\n    pass\n"), ("app.py", "")]);
    let check = |ask: Ask, expected: &str| {
        assert_eq!(test_lines(&functions, &ask), [format!("{PYTEST}{expected}")]);
    };
    check(Ask::default(), "");
    check(changed(&["test_a.py"]), " -- test_a.py");
    check(changed(&["test_a.py", "app.py"]), "");
    check(changed(&["test_gone.py"]), "");
    check(filtered("test_x"), " -k test_x");
    assert!(matches!(
        tests(&functions, &filtered("a or __import__('os')")),
        Err(Undetected::FilterNotTaken { .. })
    ));
    let configured = project(&[("test_a.py", unittest), ("conftest.py", "")]);
    assert_eq!(test_lines(&configured, &Ask::default()), [PYTEST]);
}

#[test]
fn javascript_is_asked_by_its_own_tool() {
    let package = |json: &str| project(&[("package.json", json), ("a.test.js", ""), ("x.js", "")]);
    let check = |json: &str, ask: Ask, expected: &str| {
        assert_eq!(test_lines(&package(json), &ask), [expected.to_owned()], "{json}");
    };
    let jest = "jest: node_modules/.bin/jest --ci --json --testLocationInResults \
                --outputFile=/out/1-jest.json";
    check(r#"{"devDependencies":{"jest":"1"}}"#, Ask::default(), jest);
    check(
        r#"{"scripts":{"test":"jest --config j.json"}}"#,
        filtered("a(b"),
        &format!("{jest} --config j.json -t a\\(b"),
    );
    check(
        r#"{"scripts":{"test":"jest"}}"#,
        changed(&["a.test.js"]),
        &format!("{jest} --runTestsByPath a.test.js"),
    );
    check(r#"{"scripts":{"test":"jest"}}"#, changed(&["a.test.js", "x.js"]), jest);
    check(
        r#"{"scripts":{"test":"mocha"}}"#,
        filtered("x y"),
        "mocha: node_modules/.bin/mocha --reporter xunit --reporter-option output=/out/1-mocha.xml \
         --fgrep x y",
    );
    let node = "node: node --test --test-reporter=tap";
    check("{}", Ask::default(), node);
    check(
        r#"{"scripts":{"test":"node --test"}}"#,
        filtered("x"),
        &format!("{node} --test-name-pattern=x"),
    );
    check(
        r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#,
        Ask::default(),
        node,
    );
    let npm = "npm-test: npm test --silent";
    check(r#"{"scripts":{"test":"tsc && jest"}}"#, Ask::default(), npm);
    check(r#"{"scripts":{"test":"jest","pretest":"make"}}"#, Ask::default(), npm);
    assert!(matches!(
        tests(&package(r#"{"scripts":{"test":"make test"}}"#), &filtered("x")),
        Err(Undetected::FilterNotTaken { .. })
    ));
}

#[test]
fn packages_in_a_javascript_workspace_are_run_by_themselves() {
    let listing = project(&[
        (
            "package.json",
            r#"{"workspaces":["packages/*"],"scripts":{"test":"npm test --workspaces && x"}}"#,
        ),
        ("packages/a/package.json", r#"{"scripts":{"test":"mocha"}}"#),
        ("node_modules/.bin/mocha", ""),
    ]);
    let found = tests(&listing, &Ask::default()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].argv[0], "../../node_modules/.bin/mocha");
}

#[test]
fn javascript_linters() {
    let listing = project(&[
        ("package.json", "{}"),
        ("eslint.config.mjs", ""),
        ("-x.js", ""),
        (
            "tsconfig.json",
            r#"{"files":[],"references":[{"path":"./tsconfig.app.json"},{"path":"lib"}]}"#,
        ),
        ("tsconfig.app.json", "{}"),
        ("lib/tsconfig.json", "{}"),
    ]);
    let eslint = "eslint: node_modules/.bin/eslint --no-color --format json --";
    let all = lint_lines(&listing, &Ask::default());
    assert_eq!(all[0], format!("{eslint} ."));
    let tsc = "node_modules/.bin/tsc --noEmit --pretty false -p";
    assert_eq!(
        all[1..],
        [
            format!("tsc@lib/tsconfig.json: {tsc} ./lib/tsconfig.json"),
            format!("tsc@tsconfig.app.json: {tsc} ./tsconfig.app.json"),
        ]
    );
    assert_eq!(lint_lines(&listing, &changed(&["-x.js"]))[0], format!("{eslint} ./-x.js"));
    assert_eq!(lint_lines(&listing, &changed(&["eslint.config.mjs"]))[0], format!("{eslint} ."));
}

#[test]
fn nothing_says_what_was_looked_for() {
    let listing = project(&[("README.md", ""), ("src/main.c", "")]);
    let error = tests(&listing, &Ask::default()).unwrap_err().to_string();
    assert!(error.contains("Cargo.toml") && error.contains("go.mod"), "{error}");
    assert!(linters(&listing, &Ask::default()).is_err());
    assert_eq!(tests(&listing, &changed(&[])).unwrap_err(), Undetected::EmptyScope);
    let outside = tests(&listing, &named(&["../x"])).unwrap_err();
    assert_eq!(outside, Undetected::BadPath("../x".to_owned()));
}

#[test]
fn manifests_of_strangers_do_no_harm() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let listing = project(&[
        ("Cargo.toml", &format!("a = {deep}")),
        ("package.json", &deep),
        ("go.mod", "\0\u{fffd}"),
        ("pyproject.toml", &"[".repeat(100_000)),
        ("tsconfig.json", &deep),
    ]);
    assert_eq!(tests(&listing, &Ask::default()).unwrap().len(), 2);
    assert!(linters(&listing, &Ask::default()).is_ok());
    let many = (0..100).fold(Listing::new(), |l, n| l.with(&format!("p{n}/go.mod"), ""));
    assert_eq!(tests(&many, &Ask::default()).unwrap_err(), Undetected::TooManyRoots(100));
}
