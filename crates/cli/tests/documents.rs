//! Requests in every language on their whole way, with the real binary and the real sandbox: from a
//! draft to an accepted result, byte for byte what the program read and left.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what it leaves out"
)]

mod common;

use std::fs;
use std::process::Command;

use common::Bench;
use common::desk::{Ask, Delivered, elsewhere, has};
use countersign_model::Digest;

const NUMBERS: &str = "3\n14\n15\n";

const PYTHON: &str = r#"
import json, sys
numbers = [int(line) for line in open("/in/numbers.txt")]
json.dump({"sum": sum(numbers), "arguments": sys.argv[1:]}, open("/out/report.json", "w"))
print("summed", len(numbers))
print("told aside", file=sys.stderr)
"#;

const NODE: &str = r#"
const fs = require("fs");
const numbers = fs.readFileSync("/in/numbers.txt", "utf8").trim().split("\n").map(Number);
const sum = numbers.reduce((a, b) => a + b);
fs.writeFileSync("/out/report.json", JSON.stringify({ sum, arguments: process.argv.slice(2) }));
console.log("summed", numbers.length);
console.error("told aside");
"#;

const TS: &str = r#"
import { readFileSync, writeFileSync } from "node:fs";
const numbers: number[] = readFileSync("/in/numbers.txt", "utf8").trim().split("\n").map(Number);
const sum: number = numbers.reduce((a: number, b: number): number => a + b);
writeFileSync("/out/report.json", JSON.stringify({ sum, arguments: process.argv.slice(2) }));
console.log("summed", numbers.length);
console.error("told aside");
"#;

const RUBY: &str = r#"
require "json"
numbers = File.readlines("/in/numbers.txt").map(&:to_i)
File.write("/out/report.json", JSON.generate({ sum: numbers.sum, arguments: ARGV }))
puts "summed #{numbers.size}"
warn "told aside"
"#;

const GO: &str = r#"
package main

import (
    "bufio"
    "encoding/json"
    "fmt"
    "os"
    "strconv"
)

func main() {
    file, err := os.Open("/in/numbers.txt")
    if err != nil {
        panic(err)
    }
    sum, count := 0, 0
    for lines := bufio.NewScanner(file); lines.Scan(); count++ {
        number, _ := strconv.Atoi(lines.Text())
        sum += number
    }
    report, _ := json.Marshal(map[string]any{"sum": sum, "arguments": os.Args[1:]})
    if err := os.WriteFile("/out/report.json", report, 0o644); err != nil {
        panic(err)
    }
    fmt.Println("summed", count)
    fmt.Fprintln(os.Stderr, "told aside")
}
"#;

/// One language from a draft to a result.
fn whole_way(language: &str, command: &str, program: &str, source: &str, more: &[&str]) {
    let Some(bench) = Bench::for_requests() else { return };
    let ask = Ask {
        slug: language,
        language,
        command,
        files: vec![(program, source.as_bytes()), ("numbers.txt", NUMBERS.as_bytes())],
        outputs: vec!["report.json=The sum of the numbers"],
        more: more.to_vec(),
    };
    let delivered = bench.result_of(&ask);
    assert_eq!(delivered.exit, 0, "{}", delivered.text);
    as_it_should_be(&delivered, command);
    bench.verify();
}

fn as_it_should_be(delivered: &Delivered, command: &str) {
    let Delivered { text, said, .. } = delivered;
    assert_eq!((&said["ran"], &said["state"]), (&true.into(), &"COMPLETED".into()), "{said:#}");
    assert_eq!(delivered.front("exit_code"), "0", "{text}");
    assert_eq!(delivered.front("executor"), "tool-exec");
    assert_eq!(delivered.front("backend"), "countersign-linux");
    assert_eq!(delivered.front("network_used"), "none");
    assert_eq!(delivered.stdout(), ["| summed 3"]);
    assert_eq!(delivered.stderr(), ["| told aside"]);
    assert_eq!(delivered.front("stdout_sha256"), Digest::of(b"summed 3\n").to_string());
    assert_eq!(delivered.front("stderr_sha256"), Digest::of(b"told aside\n").to_string());
    assert_eq!(delivered.labelled("## Provenance", "Command: "), command);
    assert_eq!(delivered.labelled("## Summary", "- Whether it succeeded: "), "yes, exit code 0");
    assert_eq!(delivered.notes(), "None observed");
    assert_eq!(delivered.names(), ["report.json"]);
    assert_eq!(delivered.section("## Outputs")[1], "  Description: The sum of the numbers");
    let report = fs::read(delivered.files().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report, serde_json::json!({"sum": 32, "arguments": ["--fast", "two words"]}));
}

#[test]
fn python_goes_the_whole_way() {
    whole_way("python", "python /in/main.py --fast 'two words'", "main.py", PYTHON, &[]);
}

#[test]
fn node_goes_the_whole_way() {
    if has("node") {
        whole_way("node", "node main.js --fast 'two words'", "main.js", NODE, &[]);
    }
}

/// What the installed node can do is asked of node itself.
#[test]
fn typescript_goes_the_whole_way() {
    if !has("node") {
        return;
    }
    let stripping = ["--experimental-strip-types", "--version"];
    let able = Command::new("node").args(stripping).output().is_ok_and(|ran| ran.status.success());
    if !able {
        println!("skipped: the installed node cannot strip types, which takes 22.6 or newer");
        return;
    }
    let command = "node --experimental-strip-types --no-warnings /in/main.mts --fast 'two words'";
    whole_way("ts", command, "main.mts", TS, &[]);
}

#[test]
fn ruby_goes_the_whole_way() {
    if has("ruby") {
        whole_way("ruby", "ruby main.rb --fast 'two words'", "main.rb", RUBY, &[]);
    }
}

/// A newer Go builds its standard library first.
const TO_BUILD: &[&str] = &["--cpu", "2", "--memory", "1024", "--time", "300"];

#[test]
fn go_goes_the_whole_way() {
    if has("go") {
        whole_way("go", "go run /in/main.go --fast 'two words'", "main.go", GO, TO_BUILD);
    }
}

/// A package of several files, in a module that says no more than its name: Go would like to
/// complete that, and must not.
#[test]
fn a_package_in_go_is_run_as_it_was_brought() {
    if !has("go") {
        return;
    }
    let Some(bench) = Bench::for_requests() else { return };
    let main = "package main\n\nfunc main() { greet() }\n";
    let greet = "package main\n\nimport \"fmt\"\n\nfunc greet() { fmt.Println(\"hello\") }\n";
    let ask = Ask {
        slug: "package",
        language: "go",
        command: "go run .",
        files: vec![
            ("main.go", main.as_bytes()),
            ("greet.go", greet.as_bytes()),
            ("go.mod", b"module example.org/greeting\n"),
        ],
        outputs: vec![],
        more: TO_BUILD.to_vec(),
    };
    let delivered = bench.result_of(&ask);
    assert_eq!((delivered.exit, delivered.stdout()), (0, vec!["| hello"]), "{}", delivered.text);
}

/// The machine is shown to the host without any of its programs.
#[test]
fn a_missing_interpreter_is_named_and_the_run_still_has_a_result() {
    let Some(bench) = Bench::for_requests() else { return };
    let hide = "mount -t tmpfs none /usr/local/bin; mount -t tmpfs none /usr/bin";
    for (language, program, package) in [
        ("python", "python", "python3"),
        ("node", "node", "nodejs"),
        ("ruby", "ruby", "ruby"),
        ("go", "go run", "golang-go"),
    ] {
        let (extension, command) = match language {
            "python" => ("py", "python main.py".to_owned()),
            "node" => ("js", "node main.js".to_owned()),
            "ruby" => ("rb", "ruby main.rb".to_owned()),
            _ => ("go", "go run main.go".to_owned()),
        };
        let file = format!("main.{extension}");
        let ask = Ask {
            slug: language,
            language,
            command: &command,
            files: vec![(&file, b"")],
            outputs: vec!["report.json"],
            more: vec![],
        };
        let id = bench.approved(&ask).id;
        let Some(output) = elsewhere(&bench, hide, &["--json", "request", "run", &id]) else {
            return;
        };
        let error = output.json()["error"].clone();
        assert_eq!((output.code, &error["code"]), (1, &"COMMAND_NOT_STARTED".into()), "{output:?}");
        let name = program.split(' ').next().unwrap();
        assert!(error["message"].as_str().unwrap().contains(&format!("`{name}")), "{error:#}");
        let hint = error["hint"].as_str().unwrap();
        for words in [&format!("apt-get install {package}`"), "[sandbox] show", "/usr/bin"] {
            assert!(hint.contains(words), "{words}: {hint}");
        }
        let delivered = Delivered::of(&output);
        delivered.conforms(&bench);
        assert_eq!(delivered.front("exit_code"), "127");
        assert_eq!(delivered.notes(), "NOT_STARTED 1; MISSING_OUTPUT 1");
        let succeeded = delivered.labelled("## Summary", "- Whether it succeeded: ");
        assert_eq!(succeeded, "no, it could not be started");
        assert_eq!(delivered.names(), [""; 0]);
    }
}

#[test]
fn people_are_told_which_interpreter_is_missing() {
    let Some(bench) = Bench::for_requests() else { return };
    let id = bench.approved(&Ask::python("people", "", &[])).id;
    let hide = "mount -t tmpfs none /usr/bin";
    let Some(output) = elsewhere(&bench, hide, &["request", "run", &id]) else { return };
    assert_eq!(output.code, 1, "{output:?}");
    let said = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["failed:", "`python3`", "hint: install the interpreter", "result accepted:"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// A command that fails says so; what it left is nobody's.
#[test]
fn a_command_that_fails_has_a_result_and_leaves_nothing() {
    let Some(bench) = Bench::for_requests() else { return };
    let script =
        "open('/out/report.json', 'w').write('half')\nprint('so far')\nraise SystemExit(3)";
    let delivered = bench.result_of(&Ask::python("fails", script, &["report.json"]));
    assert_eq!((delivered.exit, delivered.front("exit_code")), (1, "3"));
    assert_eq!(delivered.stdout(), ["| so far"]);
    assert_eq!(delivered.notes(), "MISSING_OUTPUT 1");
    assert_eq!(delivered.names(), [""; 0]);
    let succeeded = delivered.labelled("## Summary", "- Whether it succeeded: ");
    assert_eq!(succeeded, "no, exit code 3");
}

/// More than 200 lines are not shown; all of them are beside the document.
#[test]
fn a_long_stream_is_cut_and_kept_whole() {
    let Some(bench) = Bench::for_requests() else { return };
    let script = "for number in range(1000):\n    print('line', number)";
    let delivered = bench.result_of(&Ask::python("long", script, &[]));
    let (stdout, whole) = (delivered.stdout(), delivered.files().join("stdout.txt"));
    assert_eq!(stdout.len(), 201, "{}", delivered.text);
    assert_eq!((stdout[0], stdout[199]), ("| line 0", "| line 199"));
    let note = "[truncated: shown 200 of 1000 lines; full text in stdout.txt]";
    assert_eq!(stdout[200], note);
    let expected: String = (0..1000).map(|number| format!("line {number}\n")).collect();
    assert_eq!(fs::read_to_string(whole).unwrap(), expected);
    let digest = Digest::of(expected.as_bytes()).to_string();
    assert_eq!(delivered.front("stdout_sha256"), digest);
    assert_eq!(delivered.artifacts(), [("stdout.txt".to_owned(), digest)]);
}
