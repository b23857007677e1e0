//! `run_tests` on real repositories in four languages, with suites that pass, fail, hang, crash, quit
//! early and are empty, in the real sandbox.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;
mod projects;

use std::ffi::OsStr;
use std::process::Command;

use common::desk::has;
use projects::{Answer, LEFT_BEHIND, Project, alive, mark, rust_in_boxes};
use serde_json::{Value, json};

/// How suites are written in one language.
struct Language {
    /// The command that is found for it.
    id: &'static str,
    /// Everything but the tests.
    files: &'static [(&'static str, &'static str)],
    tests: &'static str,
    /// What stands above and below every test.
    head: &'static str,
    tail: &'static str,
    /// Passes, after it has left files wherever it can.
    passing: &'static str,
    /// Fails at its third line.
    failing: &'static str,
    /// Starts a process that sleeps, says so, and then waits for ever.
    hanging: &'static str,
    /// Each ends the process of the test in its own way.
    crashing: &'static [&'static str],
    /// Seconds in which the suite certainly has come to its tests.
    patience: u32,
    configure: fn(&Project),
}

const PYTHON: Language = Language {
    id: "unittest",
    files: &[("app.py", "def add(a, b):\n    return a + b\n")],
    tests: "test_app.py",
    head: "import ctypes, os, pathlib, subprocess, time, unittest\nclass App(unittest.TestCase):\n",
    tail: "",
    passing: "    def test_passing(self):
        for place in ('.', '/tmp', '/out'):
            pathlib.Path(place, 'LEFT').write_text('x')
        self.assertEqual(1 + 1, 2)
",
    failing: "    def test_failing(self):
        one = 1
        self.assertEqual(one + 1, 3)
",
    hanging: "    def test_hanging(self):
        subprocess.Popen(['sleep', 'MARK'], start_new_session=True)
        print('it sleeps', flush=True)
        time.sleep(86400)
",
    crashing: &[
        "    def test_crashing(self):\n        os._exit(3)\n",
        "    def test_crashing(self):\n        os._exit(0)\n",
        "    def test_crashing(self):\n        os.abort()\n",
        "    def test_crashing(self):\n        ctypes.string_at(0)\n",
    ],
    patience: 3,
    configure: |_| {},
};

const GO: Language = Language {
    id: "go-test",
    files: &[
        ("go.mod", "module example.org/app\n\ngo 1.19\n"),
        ("app.go", "package app\n\nfunc Add(a, b int) int { return a + b }\n"),
    ],
    tests: "app_test.go",
    head: "package app\n
import (\n\t\"os\"\n\t\"os/exec\"\n\t\"syscall\"\n\t\"testing\"\n\t\"time\"\n)\n
var _, _, _, _ = os.Exit, exec.Command, syscall.Kill, time.Sleep\nvar _ *testing.T\n\n",
    tail: "",
    passing: "func TestPassing(t *testing.T) {
\tfor _, place := range []string{\".\", \"/tmp\", \"/out\"} {
\t\tif err := os.WriteFile(place+\"/LEFT\", []byte(\"x\"), 0o644); err != nil {
\t\t\tt.Fatal(err)
\t\t}
\t}
}
",
    failing: "func TestFailing(t *testing.T) {
\tif Add(1, 1) != 3 {
\t\tt.Errorf(\"one and one is no three\")
\t}
}
",
    hanging: "func TestHanging(t *testing.T) {
\tchild := exec.Command(\"sleep\", \"MARK\")
\tchild.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
\tif err := child.Start(); err != nil {
\t\tt.Fatal(err)
\t}
\tt.Log(\"it sleeps\")
\ttime.Sleep(24 * time.Hour)
}
",
    crashing: &[
        "func TestCrashing(t *testing.T) {\n\tos.Exit(3)\n}\n",
        "func TestCrashing(t *testing.T) {\n\tos.Exit(0)\n}\n",
        "func TestCrashing(t *testing.T) {\n\tsyscall.Kill(os.Getpid(), syscall.SIGSEGV)\n\
         \ttime.Sleep(time.Minute)\n}\n",
    ],
    patience: 20,
    configure: |_| {},
};

const JAVASCRIPT: Language = Language {
    id: "node",
    files: &[
        ("package.json", "{\"name\": \"app\", \"scripts\": {\"test\": \"node --test\"}}\n"),
        ("app.js", "exports.add = (a, b) => a + b\n"),
    ],
    tests: "app.test.js",
    head: "const { add } = require('./app.js')\nconst assert = require('node:assert')
const fs = require('node:fs')\nconst child = require('node:child_process')
const test = require('node:test')\n",
    tail: "",
    passing: "test('passing', () => {
  for (const place of ['.', '/tmp', '/out']) fs.writeFileSync(place + '/LEFT', 'x')
  assert.equal(add(1, 1), 2)
})
",
    failing: "test('failing', () => {
  const two = add(1, 1)
  assert.equal(two, 3)
})
",
    hanging: "test('hanging', async () => {
  child.spawn('sleep', ['MARK'], { detached: true, stdio: 'ignore' })
  console.log('it sleeps')
  await new Promise((done) => setTimeout(done, 86400000))
})
",
    crashing: &[
        "test('crashing', () => { process.abort() })\n",
        "test('crashing', () => { process.exit(3) })\n",
        "test('crashing', () => { process.kill(process.pid, 'SIGSEGV') })\n",
    ],
    patience: 4,
    configure: |_| {},
};

const RUST: Language = Language {
    id: "cargo-test",
    files: &[("Cargo.toml", "[package]\nname = \"app\"\nedition = \"2021\"\n")],
    tests: "src/lib.rs",
    head: "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n\n#[cfg(test)]\nmod tests {\n",
    tail: "}\n",
    passing: "    #[test]
    fn passing() {
        for place in [\".\", \"/tmp\", \"/out\"] {
            std::fs::write(format!(\"{place}/LEFT\"), \"x\").unwrap();
        }
        assert_eq!(super::add(1, 1), 2);
    }
",
    failing: "    #[test]
    fn failing() {
        assert_eq!(super::add(1, 1), 3);
    }
",
    hanging: "    #[test]
    fn hanging() {
        std::process::Command::new(\"setsid\").args([\"sleep\", \"MARK\"]).spawn().unwrap();
        // Past libtest, which keeps what a test prints until it ends.
        std::fs::write(\"/proc/self/fd/2\", \"it sleeps\\n\").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(86400));
    }
",
    crashing: &[
        "    #[test]\n    fn crashing() {\n        std::process::abort();\n    }\n",
        "    #[test]\n    fn crashing() {\n        std::process::exit(3);\n    }\n",
        "    #[test]\n    fn crashing() {\n        std::process::exit(0);\n    }\n",
    ],
    patience: 20,
    configure: |project| project.configure(&rust_in_boxes().unwrap()),
};

impl Language {
    /// A repository with these tests. `None`, and it is said, where there are no boxes.
    fn project(&self, tests: &[&str]) -> Option<Project> {
        let source = format!("{}{}{}", self.head, tests.concat(), self.tail);
        let source = source.replace("LEFT", LEFT_BEHIND);
        let files = [self.files, &[(self.tests, source.as_str())]].concat();
        let project = Project::with_programs(&files)?;
        (self.configure)(&project);
        Some(project)
    }

    /// At which line of its file a test fails that stands first.
    fn failing_line(&self) -> usize {
        self.head.lines().count() + 3
    }
}

/// Runs a suite, and looks at everything that does not depend on how it ended.
#[track_caller]
fn tried(project: &Project, language: &Language, input: &Value) -> (Answer, Value, String) {
    let before = project.owned();
    let answer = project.tests("run_1", input);
    assert!(before == project.owned(), "the checkout or the repository changed");
    project.nothing_left("run_1");
    let (output, command) = (answer.output(), answer.command());
    assert_eq!(answer.envelope["run_id"], "run_1");
    assert_eq!(answer.envelope["summary"], output["summary"]);
    assert_eq!(command["id"], language.id);
    assert_eq!(output["base"], project.git(&["rev-parse", "HEAD"]));
    assert_eq!(output["tree"], project.git(&["rev-parse", "HEAD^{tree}"]));
    let report = project.report(&answer, "test_report");
    for same in ["passed", "counts", "base", "tree", "scope"] {
        assert_eq!(report[same], output[same], "{same}");
    }
    let log = project.log(&answer, "test_log");
    assert!(log.starts_with("$ "), "{log}");
    project.bench.verify();
    (answer, report["commands"][0]["report"].clone(), log)
}

fn passes(language: &Language) {
    let Some(project) = language.project(&[language.passing]) else { return };
    let (first, _, _) = tried(&project, language, &json!({}));
    let first = first.is("success", 0);
    assert_eq!(first.envelope["error"], Value::Null);
    assert_eq!(first.output()["passed"], true);
    let counts = json!({"total": 1, "passed": 1, "failed": 0, "errored": 0, "skipped": 0});
    assert_eq!(first.output()["counts"], counts, "{:#}", first.envelope);
    assert_eq!(first.command()["exit_code"], 0);
    // The same again is given, and not run.
    let (again, _, _) = tried(&project, language, &json!({}));
    let again = again.is("replayed", 0);
    assert_eq!(again.envelope["replayed_from"], first.execution());
    assert_eq!(again.output(), first.output());
    assert_ne!(again.execution(), first.execution());
}

fn fails(language: &Language) {
    let Some(project) = language.project(&[language.failing, language.passing]) else { return };
    let (first, report, _) = tried(&project, language, &json!({}));
    let first = first.fails("failed", 1, "TESTS_FAILED");
    let counts = json!({"total": 2, "passed": 1, "failed": 1, "errored": 0, "skipped": 0});
    assert_eq!(first.output()["counts"], counts, "{:#}", first.envelope);
    assert_eq!(first.command()["outcome"], "failed");
    assert_ne!(first.command()["exit_code"], 0);
    let cases = report["cases"].as_array().unwrap();
    let failing: Vec<_> = cases.iter().filter(|case| case["status"] == "failed").collect();
    assert_eq!(failing.len(), 1, "{report:#}");
    let name = failing[0]["name"].as_str().unwrap().to_lowercase();
    assert!(name.contains("failing"), "{report:#}");
    assert_eq!(failing[0]["file"], language.tests, "{report:#}");
    assert_eq!(failing[0]["line"], language.failing_line(), "{report:#}");
    // What failed may have been a mishap: it runs again.
    let (again, _, _) = tried(&project, language, &json!({}));
    let again = again.fails("failed", 1, "TESTS_FAILED");
    assert_eq!(again.envelope["replayed_from"], Value::Null);
    assert_ne!(again.execution(), first.execution());
    // Executed once more from the record: nothing differs but what a clock decides.
    let verify = ["replay", first.execution(), "--mode", "verify"];
    let verified = project.bench.json(&verify).ok().json();
    assert_eq!(verified["same"], true, "{verified:#}");
}

fn hangs(language: &Language) {
    let mark = mark();
    let hanging = language.hanging.replace("MARK", &mark);
    let Some(project) = language.project(&[&hanging]) else { return };
    let input = json!({"timeout_sec": language.patience});
    let (answer, _, log) = tried(&project, language, &input);
    let answer = answer.fails("timed_out", 5, "TIME_LIMIT");
    assert_eq!(answer.envelope["error"]["class"], "TimeoutError", "{:#}", answer.envelope);
    assert_eq!(answer.output()["timed_out"], true);
    assert_eq!(answer.output()["passed"], false);
    let took = answer.command()["duration_ms"].as_u64().unwrap();
    let patience = u64::from(language.patience) * 1000;
    assert!(took >= patience, "{took}");
    assert!(log.contains("it sleeps"), "it was stopped too early: {log}");
    assert_eq!(alive(&mark), [""; 0]);
}

fn crashes(language: &Language) {
    for crashing in language.crashing {
        let Some(project) = language.project(&[crashing, language.passing]) else { return };
        let (answer, _, _) = tried(&project, language, &json!({}));
        let answer = answer.fails("failed", 1, "TESTS_FAILED");
        assert_eq!(answer.output()["passed"], false, "{crashing}");
        let outcome = answer.command()["outcome"].as_str().unwrap();
        assert!(["failed", "errored"].contains(&outcome), "{crashing}: {:#}", answer.envelope);
    }
}

fn is_empty(language: &Language) {
    // A class of Python needs a body.
    let nothing = if language.id == "unittest" { "    pass\n" } else { "" };
    let Some(project) = language.project(&[nothing]) else { return };
    let (answer, _, _) = tried(&project, language, &json!({}));
    let answer = answer.fails("failed", 1, "TESTS_FAILED");
    assert_eq!(answer.command()["outcome"], "nothing_ran", "{:#}", answer.envelope);
    let (counts, skipped) = (&answer.output()["counts"], &answer.output()["counts"]["skipped"]);
    // Node tells of the file itself.
    assert_eq!((&counts["passed"], &counts["total"]), (&json!(0), skipped));
}

macro_rules! suites {
    ($language:ident, $available:expr, $($name:ident => $check:ident),+) => {
        $(#[test]
        fn $name() {
            if $available {
                $check(&$language);
            }
        })+
    };
}

suites!(PYTHON, has("python3"), python_passes => passes, python_fails => fails,
    python_hangs => hangs, python_crashes => crashes, python_without_a_test => is_empty);
suites!(GO, has("go"), go_passes => passes, go_fails => fails, go_hangs => hangs,
    go_crashes => crashes, go_without_a_test => is_empty);
suites!(JAVASCRIPT, has("node"), javascript_passes => passes, javascript_fails => fails,
    javascript_hangs => hangs, javascript_crashes => crashes,
    javascript_without_a_test => is_empty);
suites!(RUST, rust_in_boxes().is_some(), rust_passes => passes, rust_fails => fails,
    rust_hangs => hangs, rust_crashes => crashes, rust_without_a_test => is_empty);

/// Without control groups the kernel does not hold root to a number of processes.
#[test]
fn a_suite_does_not_run_where_its_limits_cannot_be_enforced() {
    let Some(project) = PYTHON.project(&[PYTHON.passing]) else { return };
    let hide = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let hidden = |program: &OsStr, args: &[&OsStr]| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", hide, "sh"]).arg(program).args(args);
        command
    };
    let can_hide = hidden("true".as_ref(), &[]).output();
    if !rustix::process::geteuid().is_root() || !can_hide.is_ok_and(|done| done.status.success()) {
        println!("skipped: hiding control groups takes root and `unshare`");
        return;
    }
    let plain = project.action("run_tests", "run_1", &json!({}), &[]);
    let mut boxed = hidden(plain.get_program(), &plain.get_args().collect::<Vec<_>>());
    boxed.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    boxed.current_dir(plain.get_current_dir().unwrap());
    let answer = Answer::of(&common::output(&mut boxed));
    let answer = answer.fails("failed", 6, "CANNOT_ENFORCE");
    assert!(answer.message().contains("`processes`"), "{:#}", answer.envelope);
    project.nothing_left("run_1");
    project.bench.verify();
}
