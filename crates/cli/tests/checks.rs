//! `run_linters`, commands of the configuration, scopes, long logs, and suites that try to get out.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what is left out"
)]

mod common;
mod projects;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use common::desk::has;
use projects::{Answer, Project, alive, mark, rust_in_boxes, write_files};
use serde_json::{Value, json};

/// Takes the project apart from its configuration.
fn configured(files: &[(&str, &str)], toml: &str) -> Option<Project> {
    let project = Project::with_programs(files).filter(|_| has("python3"))?;
    project.configure(toml);
    Some(project)
}

/// One command of the configuration.
fn command(list: &str, argv: &[&str], format: &str, report: Option<&str>) -> String {
    let report = report.map(|file| format!("report = {file:?}\n")).unwrap_or_default();
    format!("[[actions.{list}]]\nid = \"own\"\nargv = {argv:?}\nformat = {format:?}\n{report}")
}

fn diagnostics(project: &Project, answer: &Answer) -> Vec<Value> {
    let report = project.report(answer, "lint_report");
    let commands = report["commands"].as_array().unwrap().clone();
    let all = commands
        .into_iter()
        .filter_map(|mut c| c["report"]["diagnostics"].as_array_mut().map(std::mem::take));
    all.flatten().collect()
}

fn outcome<'a>(answer: &'a Answer, id: &str) -> &'a Value {
    let commands = answer.output()["commands"].as_array().unwrap();
    let found = commands.iter().find(|command| command["id"] == id);
    &found.unwrap_or_else(|| panic!("no {id}: {:#}", answer.envelope))["outcome"]
}

const CARGO: &str = "[package]\nname = \"app\"\nedition = \"2021\"\n";

#[test]
fn clippy_and_rustfmt_say_where_something_is_wrong() {
    let Some(toolchain) = rust_in_boxes() else { return };
    let wrong = "pub fn is_on(on: bool) -> bool {\n    if on == true { true } else { false }\n}\n";
    let files = [("Cargo.toml", CARGO), ("src/lib.rs", wrong)];
    let Some(project) = Project::with_programs(&files) else { return };
    project.configure(&toolchain);
    let before = project.owned();
    let found = project.lint("run_1", &json!({"fail_on": "warning"}));
    let found = found.fails("failed", 1, "LINT_FAILED");
    assert_eq!(
        (outcome(&found, "clippy"), outcome(&found, "rustfmt")),
        (&json!("failed"), &json!("failed"))
    );
    let all = diagnostics(&project, &found);
    let rule = all.iter().find(|d| d["rule"] == "clippy::bool_comparison");
    let rule = rule.unwrap_or_else(|| panic!("{all:#?}"));
    assert_eq!((&rule["file"], &rule["line"]), (&json!("src/lib.rs"), &json!(2)), "{rule}");
    assert_eq!((&rule["severity"], &rule["column"]), (&json!("warning"), &json!(8)), "{rule}");
    let layout = all.iter().filter(|d| d["tool"] == "rustfmt").count();
    assert!(layout > 0, "{all:#?}");
    project.log(&found, "lint_log");
    project.nothing_left("run_1");
    assert!(before == project.owned());
    // Warnings alone are no failure unless that is asked for.
    let lenient = project.lint("run_1", &json!({"tools": ["clippy"]})).is("success", 0);
    assert!(lenient.output()["counts"]["warnings"].as_u64() > Some(0), "{:#}", lenient.envelope);
    let right = project.diff_of(|path| {
        fs::write(path.join("src/lib.rs"), "pub fn is_on(on: bool) -> bool {\n    on\n}\n")
            .unwrap();
    });
    project.patch("run_1", &right).is("success", 0);
    let clean = project.lint("run_1", &json!({"fail_on": "warning"})).is("success", 0);
    assert_eq!(clean.output()["commands"].as_array().unwrap().len(), 2);
}

#[test]
fn go_vet_says_where_something_is_wrong() {
    let wrong =
        "package app\n\nimport \"fmt\"\n\nfunc Say() {\n\tfmt.Printf(\"%d\\n\", \"x\")\n}\n";
    let files = [("go.mod", "module example.org/app\n\ngo 1.19\n"), ("app.go", wrong)];
    let Some(project) = Project::with_programs(&files).filter(|_| has("go")) else { return };
    let found = project.lint("run_1", &json!({})).fails("failed", 1, "LINT_FAILED");
    assert_eq!(found.command()["id"], "go-vet");
    let all = diagnostics(&project, &found);
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!((&all[0]["file"], &all[0]["line"]), (&json!("app.go"), &json!(6)), "{all:#?}");
    assert!(all[0]["message"].as_str().unwrap().contains("%d"), "{all:#?}");
    let right = project.diff_of(|path| {
        fs::write(path.join("app.go"), wrong.replace("%d", "%s")).unwrap();
    });
    project.patch("run_1", &right).is("success", 0);
    project.lint("run_1", &json!({})).is("success", 0);
}

#[test]
fn sarif_and_lines_are_read_from_commands_of_the_configuration() {
    let sarif = json!({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "own"}}, "results": [
        {"ruleId": "R1", "level": "error", "message": {"text": "no"}, "locations": [{"physicalLocation":
            {"artifactLocation": {"uri": "app.py"}, "region": {"startLine": 3, "startColumn": 5}}}]}]}]});
    let files = [
        ("found.sarif", &*sarif.to_string()),
        (
            "sarif.py",
            "import shutil, sys\nshutil.copy('found.sarif', '/out/own.sarif')\nsys.exit(1)\n",
        ),
        ("lines.py", "import sys\nprint('app.py:3:5: error: no')\nsys.exit(1)\n"),
        ("app.py", "x = 1\n"),
    ];
    for (toml, rule) in [
        (command("linters", &["python3", "sarif.py"], "sarif", Some("own.sarif")), json!("R1")),
        (
            command("linters", &["python3", "sarif.py"], "sarif", Some("/out/own.sarif")),
            json!("R1"),
        ),
        (command("linters", &["python3", "lines.py"], "lines", None), Value::Null),
    ] {
        let Some(project) = configured(&files, &toml) else { return };
        let found = project.lint("run_1", &json!({})).fails("failed", 1, "LINT_FAILED");
        assert_eq!(found.output()["counts"], json!({"errors": 1, "warnings": 0, "notes": 0}));
        assert_eq!(found.command()["exit_code"], 1);
        let all = diagnostics(&project, &found);
        assert_eq!(all.len(), 1, "{all:#?}");
        let place = json!([all[0]["file"], all[0]["line"], all[0]["column"], all[0]["severity"]]);
        assert_eq!(place, json!(["app.py", 3, 5, "error"]), "{all:#?}");
        assert_eq!(all[0]["rule"], rule, "{all:#?}");
        project.nothing_left("run_1");
    }
}

const JUNIT: &str = r#"import sys
cases = '<testcase classname="app" name="good"/><testcase classname="app" name="bad" file="app.py" line="7"><failure message="no">app.py:7</failure></testcase>'
open('/out/report.xml', 'w').write(f'<testsuite name="s" tests="2" failures="1">{cases}</testsuite>')
sys.exit(int(sys.argv[1]))
"#;

#[test]
fn junit_is_read_from_a_command_of_the_configuration() {
    let files = [("suite.py", JUNIT), ("app.py", "x = 1\n")];
    let argv = ["python3", "suite.py", "1"];
    let toml = command("tests", &argv, "junit", Some("report.xml"));
    let Some(project) = configured(&files, &toml) else { return };
    let found = project.tests("run_1", &json!({})).fails("failed", 1, "TESTS_FAILED");
    let counts = json!({"total": 2, "passed": 1, "failed": 1, "errored": 0, "skipped": 0});
    assert_eq!(found.output()["counts"], counts);
    let report = project.report(&found, "test_report");
    let cases = &report["commands"][0]["report"]["cases"];
    assert_eq!(
        (&cases[1]["name"], &cases[1]["file"], &cases[1]["line"]),
        (&json!("bad"), &json!("app.py"), &json!(7))
    );
    // A report that says failed and a tool that says fine: nobody can tell.
    project.configure(&command(
        "tests",
        &["python3", "suite.py", "0"],
        "junit",
        Some("report.xml"),
    ));
    let odd = project.tests("run_1", &json!({})).fails("failed", 1, "TESTS_FAILED");
    assert_eq!(odd.command()["outcome"], "errored");
    // A tool that says fine and leaves no report.
    project.configure(&command("tests", &["true"], "junit", Some("report.xml")));
    let none = project.tests("run_1", &json!({})).fails("failed", 1, "TESTS_FAILED");
    assert_eq!(none.command()["outcome"], "errored");
}

#[test]
fn commands_that_say_nothing_are_errors() {
    let files = [("app.py", "x = 1\n")];
    let Some(project) = configured(&files, "") else { return };
    for (list, action) in [("tests", "run_tests"), ("linters", "run_linters")] {
        for argv in [&[][..], &[""]] {
            project.configure(&command(list, argv, "tap", None));
            let output = common::output(&mut project.action(action, "run_1", &json!({}), &[]));
            let error = output.json()["error"].clone();
            assert_eq!((output.code, &error["code"]), (2, &json!("CONFIG_INVALID")), "{output:?}");
            assert!(error["message"].as_str().unwrap().contains(list), "{error}");
        }
        project.configure(&command(list, &["true"], "runes", None));
        let odd = project.act(action, "run_1", &json!({}), &[]);
        let odd = odd.fails("failed", 2, "CONFIG_INVALID");
        assert!(odd.message().contains("runes"), "{}", odd.message());
        let format = if list == "tests" { "tap" } else { "lines" };
        project.configure(&command(list, &["true"], format, None));
        for input in [json!({"scope": "changed"}), json!({"scope": "paths", "paths": ["app.py"]})] {
            let narrow = project.act(action, "run_1", &input, &[]);
            narrow.fails("failed", 2, "SCOPE_UNSUPPORTED");
        }
    }
    // A project that says nothing of tests, and scopes that mean nothing.
    project.configure("");
    project.tests("run_1", &json!({})).fails("failed", 2, "NOTHING_TO_RUN");
    project.tests("run_1", &json!({"scope": "changed"})).fails("failed", 2, "NOTHING_CHANGED");
    project.tests("run_1", &json!({"scope": "paths"})).fails("failed", 2, "PATHS_REQUIRED");
    project.tests("run_1", &json!({"paths": ["app.py"]})).fails("failed", 2, "PATHS_UNUSED");
    project.tests("run_1", &json!({"tools": []})).fails("failed", 2, "INPUT_INVALID");
}

#[test]
fn a_tool_that_is_not_installed_is_named() {
    let toml = command("tests", &["no-such-tool-anywhere", "--run"], "tap", None);
    let Some(project) = configured(&[("a", "a\n")], &toml) else { return };
    let missing = project.tests("run_1", &json!({})).fails("failed", 1, "TESTS_FAILED");
    assert_eq!(missing.command()["outcome"], "errored");
    let reason = missing.command()["reason"].as_str().unwrap();
    assert!(reason.contains("no-such-tool-anywhere"), "{reason}");
    let log = project.log(&missing, "test_log");
    assert!(log.contains("no-such-tool-anywhere"), "{log}");
    // One that is there beside it does not make it a success.
    let both = format!(
        "{toml}\n[[actions.tests]]\nid = \"fine\"\nargv = [\"printf\", \"1..1\\nok 1\\n\"]\nformat = \"tap\"\n"
    );
    project.configure(&both);
    let half = project.tests("run_1", &json!({})).fails("failed", 1, "TESTS_FAILED");
    assert_eq!(
        (outcome(&half, "own"), outcome(&half, "fine")),
        (&json!("errored"), &json!("passed"))
    );
    project.tests("run_1", &json!({"tools": ["fine"]})).is("success", 0);
    let unknown = project.tests("run_1", &json!({"tools": ["finer"]}));
    unknown.fails("failed", 2, "COMMAND_UNKNOWN");
}

const LOUD: &str = "import sys
line = b'#' + b'x' * 1022 + b'\\n'
for _ in range(100 * 1024):
    sys.stdout.buffer.write(line)
sys.stdout.buffer.write(b'1..2\\nok 1 - first\\n%s 2 - last\\n' % sys.argv[1].encode())
sys.stdout.flush()
sys.exit(sys.argv[1] != 'ok')
";

#[test]
fn a_log_is_cut_and_the_verdict_still_right() {
    for (word, status, exit) in [("ok", "success", 0), ("not ok", "failed", 1)] {
        let toml = format!(
            "[actions]\nmax_log_mb = 2\n\n{}",
            command("tests", &["python3", "loud.py", word], "tap", None)
        );
        let Some(project) = configured(&[("loud.py", LOUD)], &toml) else { return };
        let answer = project.tests("run_1", &json!({})).is(status, exit);
        assert_eq!(answer.output()["counts"]["total"], 2);
        assert_eq!(answer.output()["counts"]["failed"], exit);
        let log = project.log(&answer, "test_log");
        assert!((2 << 20..(2 << 20) + 200).contains(&log.len()), "{}", log.len());
        let end = log.lines().last().unwrap();
        let cut: usize = end.trim_start_matches('[').split(' ').next().unwrap().parse().unwrap();
        assert!(end.ends_with(" more bytes were cut off]"), "{end}");
        assert!((98 << 20..99 << 20).contains(&cut), "{end}");
    }
}

/// Tries everything that it should not be able to do, and says what worked.
const PRISONER: &str = r##"
import os, pathlib, signal, socket, sys, time
home, repository, port, parent = sys.argv[1:5]
attempts = {
    "read the home": lambda: os.listdir(home),
    "read the key": lambda: os.listdir(home + "/keys"),
    "read the repository": lambda: os.listdir(repository),
    "read the passwords": lambda: open("/etc/shadow").read(),
    "read root's home": lambda: os.listdir("/root")[0],
    "reach the host": lambda: socket.create_connection(("127.0.0.1", int(port)), 2),
    "reach the world": lambda: socket.create_connection(("1.1.1.1", 53), 2),
    "look a name up": lambda: socket.getaddrinfo("example.org", 80)[0],
    "see others": lambda: [p for p in os.listdir("/proc") if p.isdigit() and b"countersign" in open(f"/proc/{p}/cmdline", "rb").read().split(b"\0")[0]][0],
    "signal others": lambda: os.kill(int(parent), 0),
    "write to the system": lambda: pathlib.Path("/usr/escaped").write_text("x"),
    "write to etc": lambda: pathlib.Path("/etc/escaped").write_text("x"),
    "write beside the workspace": lambda: pathlib.Path("../escaped").write_text("x"),
    "write to the repository": lambda: pathlib.Path(repository, "escaped").write_text("x"),
    "write to the home": lambda: pathlib.Path(home, "escaped").write_text("x"),
    "mount": lambda: os.system("mount -t tmpfs none /mnt 2>/dev/null") == 0 or 1 / 0,
}
attempts = {name: attempts[name] for name in sys.argv[5:] or attempts}
print(f"1..{len(attempts)}")
for number, (name, attempt) in enumerate(attempts.items(), 1):
    try:
        attempt()
        print(f"not ok {number} - {name}")
    except Exception as why:
        print(f"ok {number} - {name}")
"##;

#[test]
fn a_suite_stays_in_its_box() {
    let Some(project) = configured(&[("prisoner.py", PRISONER)], "") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (home, path) = (project.bench.home(), project.path.clone());
    let (home, path) = (home.to_str().unwrap(), path.to_str().unwrap());
    let me = std::process::id().to_string();
    let argv = ["python3", "prisoner.py", home, path, &port, &me];
    // Outside of a box it works, or the test would prove nothing.
    let harmless = ["read the home", "read the repository", "reach the host", "signal others"];
    let outside = Command::new(argv[0])
        .args(&argv[1..])
        .args(harmless)
        .current_dir(&project.path)
        .output()
        .unwrap();
    let outside = String::from_utf8(outside.stdout).unwrap();
    assert_eq!(outside.matches("not ok").count(), harmless.len(), "{outside}");
    project.configure(&command("tests", &argv, "tap", None));
    let answer = project.tests("run_1", &json!({}));
    let log = project.log(&answer, "test_log");
    let escapes: Vec<_> = log.lines().filter(|line| line.starts_with("not ok")).collect();
    assert_eq!(escapes, [""; 0], "{log}");
    let answer = answer.is("success", 0);
    assert_eq!(answer.output()["counts"]["passed"], 16);
    assert!(!Path::new("/usr/escaped").exists() && !Path::new("/etc/escaped").exists());
    project.nothing_left("run_1");
    assert!(!project.bench.home().join("escaped").exists());
}

#[test]
fn what_the_time_ends_takes_its_children_along() {
    let mark = mark();
    // Two generations, in sessions of their own, that ignore being asked to end.
    let script = format!(
        "trap '' TERM INT HUP\nsetsid sh -c \"trap '' TERM; setsid sleep {mark}; true\" &\necho '# it sleeps'\nsleep {mark}\n"
    );
    let toml = command("tests", &["sh", "suite.sh"], "tap", None);
    let Some(project) = configured(&[("suite.sh", &script)], &toml) else { return };
    let answer = project.tests("run_1", &json!({"timeout_sec": 2}));
    let answer = answer.fails("timed_out", 5, "TIME_LIMIT");
    assert!(project.log(&answer, "test_log").contains("it sleeps"));
    assert_eq!(alive(&mark), [""; 0]);
    // What a suite leaves running when it ends by itself ends too.
    let script = format!("setsid sleep {mark} >/dev/null 2>&1 &\nprintf '1..1\\nok 1\\n'\n");
    let change = project.diff_of(|path| fs::write(path.join("suite.sh"), script).unwrap());
    project.patch("run_1", &change).is("success", 0);
    project.tests("run_1", &json!({})).is("success", 0);
    assert_eq!(alive(&mark), [""; 0]);
}

const TWO: &str = "import unittest\nclass T(unittest.TestCase):\n    def test_one(self):\n        pass\n    def test_two(self):\n        pass\n";

#[test]
fn a_scope_and_a_filter_run_less() {
    let go = "package p\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {}\nfunc TestTwo(t *testing.T) {}\n";
    let files = [
        ("py/setup.cfg", "\n"),
        ("py/test_app.py", TWO),
        ("go/go.mod", "module example.org/app\n\ngo 1.19\n"),
        ("go/a/a.go", "package p\n"),
        ("go/a/a_test.go", go),
        ("go/b/b.go", "package p\n"),
        ("go/b/b_test.go", go),
    ];
    let Some(project) = configured(&files, "").filter(|_| has("go")) else { return };
    let count = |input: Value| {
        let answer = project.tests("run_1", &input).is("success", 0);
        let commands = answer.output()["commands"].as_array().unwrap().clone();
        let ids: Vec<String> =
            commands.iter().map(|c| c["id"].as_str().unwrap().to_owned()).collect();
        (ids.join(" "), answer.output()["counts"]["total"].as_u64().unwrap())
    };
    assert_eq!(count(json!({})), ("go-test@go unittest@py".to_owned(), 6));
    assert_eq!(count(json!({"tools": ["unittest@py"]})), ("unittest@py".to_owned(), 2));
    let paths = |paths: Value| json!({"scope": "paths", "paths": paths});
    assert_eq!(count(paths(json!(["go"]))), ("go-test@go".to_owned(), 4));
    assert_eq!(count(paths(json!(["go/a"]))), ("go-test@go".to_owned(), 2));
    assert_eq!(count(paths(json!(["py/test_app.py"]))), ("unittest@py".to_owned(), 2));
    let filtered = json!({"scope": "paths", "paths": ["go/a"], "filter": "TestOne"});
    assert_eq!(count(filtered), ("go-test@go".to_owned(), 1));
    assert_eq!(count(json!({"tools": ["unittest@py"], "filter": "test_two"})).1, 1);
    // A filter that fits nothing is not a success.
    let none = project.tests("run_1", &json!({"tools": ["unittest@py"], "filter": "nothing"}));
    none.fails("failed", 1, "TESTS_FAILED");
    for outside in ["../x", "/etc", "go/../../x"] {
        project.tests("run_1", &paths(json!([outside]))).fails("failed", 2, "NOTHING_TO_RUN");
    }
    project.tests("run_1", &json!({"scope": "changed"})).fails("failed", 2, "NOTHING_CHANGED");
    let change = project.diff_of(|path| {
        write_files(path, &[("go/b/b_test.go", &go.replace("TestTwo", "TestThree"))]);
    });
    project.patch("run_1", &change).is("success", 0);
    assert_eq!(count(json!({"scope": "changed"})), ("go-test@go".to_owned(), 2));
}

/// Said and left out where pytest is not installed where boxes look for it.
fn has_pytest() -> bool {
    let asked = Command::new("/usr/bin/python3").args(["-c", "import pytest"]).output();
    let there = asked.is_ok_and(|asked| asked.status.success());
    if !there {
        println!("skipped: pytest is not installed");
    }
    there
}

#[test]
fn pytest_says_what_failed() {
    let tests = "import os, pytest, time\n\ndef test_good():\n    assert 1 + 1 == 2\n\ndef test_bad():\n    one = 1\n    assert one == 2\n
@pytest.mark.skip(reason='later')\ndef test_later():\n    pass\n\n@pytest.fixture\ndef broken():\n    raise OSError('no')\n\ndef test_errored(broken):\n    pass\n";
    let Some(project) = configured(&[("test_app.py", tests)], "").filter(|_| has_pytest()) else {
        return;
    };
    let found = project.tests("run_1", &json!({})).fails("failed", 1, "TESTS_FAILED");
    assert_eq!(found.command()["id"], "pytest");
    let counts = json!({"total": 4, "passed": 1, "failed": 1, "errored": 1, "skipped": 1});
    assert_eq!(found.output()["counts"], counts, "{:#}", found.envelope);
    let report = project.report(&found, "test_report");
    let cases = report["commands"][0]["report"]["cases"].as_array().unwrap().clone();
    let bad = cases.iter().find(|case| case["name"] == "test_bad").unwrap();
    assert_eq!((&bad["file"], &bad["line"]), (&json!("test_app.py"), &json!(8)), "{bad}");
    project.nothing_left("run_1");
    let good = project.tests("run_1", &json!({"filter": "test_good"})).is("success", 0);
    assert_eq!(good.output()["counts"]["total"], 1);
    let none = project.tests("run_1", &json!({"filter": "test_none"}));
    let none = none.fails("failed", 1, "TESTS_FAILED");
    assert_eq!(none.command()["outcome"], "nothing_ran", "{:#}", none.envelope);
    for body in ["os._exit(0)", "os.abort()", "time.sleep(86400)"] {
        let change = project.diff_of(|path| {
            let text = format!(
                "import os, time\ndef test_good():\n    pass\ndef test_end():\n    {body}\n"
            );
            fs::write(path.join("test_app.py"), text).unwrap();
        });
        let run = format!("run_{}", body.len());
        project.patch(&run, &change).is("success", 0);
        let ended = project.tests(&run, &json!({"timeout_sec": 3}));
        let timed = body.starts_with("time");
        let ended = ended.is(if timed { "timed_out" } else { "failed" }, if timed { 5 } else { 1 });
        assert_eq!(ended.command()["outcome"], "errored", "{body}");
    }
}
