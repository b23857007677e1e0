//! What every command promises: one JSON document with `--json`, stable exit codes, words that a
//! stranger understands, and nothing on a terminal that the text itself could steer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use common::{BIN, Bench, clean, collect, output};
use serde_json::{Value, json};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn digest(text: &str) -> Vec<String> {
    let input = json!({"text": text}).to_string();
    ["call", "text.digest", "--input", &input].map(str::to_owned).to_vec()
}

/// Commands that work on any home, each with what it needs.
fn every_command(bench: &Bench, grant: &str, file: &str) -> Vec<Vec<String>> {
    let export = bench.dir().join("export.jsonl").display().to_string();
    let proof = bench.dir().join("proof.json").display().to_string();
    let other = bench.dir().join("other").display().to_string();
    let quick = bench.dir().join("quick").display().to_string();
    let key = bench.json(&["audit", "key"]).ok().json()["key"].as_str().unwrap().to_owned();
    let lines = [
        "call text.digest --input {\"text\":\"x\"}".to_owned(),
        "call text.digest --input {}".to_owned(),
        "call file.read --as agent:z --root . --input {\"path\":\"a\"}".to_owned(),
        "call no.tool".to_owned(),
        "tool list".to_owned(),
        "tool show file.read".to_owned(),
        "tool show no.tool".to_owned(),
        format!("tool lint {file} {file}"),
        "tool lint nowhere.json".to_owned(),
        "grant issue --to agent:q --capability state.read --scope **".to_owned(),
        "grant list".to_owned(),
        "grant list --all --to agent:q".to_owned(),
        format!("grant show {grant}"),
        "grant show 00000000-0000-7000-8000-000000000000".to_owned(),
        format!("grant delegate {grant} --as agent:a --to agent:b --scope k --expires 1m"),
        format!("grant revoke {grant} --reason done"),
        "execution list".to_owned(),
        "execution list --limit 1 --state completed".to_owned(),
        "execution show last".to_owned(),
        "execution show nothing".to_owned(),
        "audit list".to_owned(),
        "audit list --limit 0".to_owned(),
        "audit show 0".to_owned(),
        "audit show 9999".to_owned(),
        "audit checkpoint".to_owned(),
        "audit key".to_owned(),
        "audit verify".to_owned(),
        format!("audit export {export}"),
        "audit export -".to_owned(),
        format!("audit verify --file {export} --key {key}"),
        "audit verify --file nowhere --key nowhere".to_owned(),
        "audit prove last".to_owned(),
        format!("audit prove 0 --out {proof}"),
        "stats".to_owned(),
        "recover".to_owned(),
        "init".to_owned(),
        format!("init {other}"),
        format!("quickstart {quick}"),
        "doctor".to_owned(),
        "sandbox syscalls".to_owned(),
        "sandbox explain".to_owned(),
        "sandbox explain text.digest".to_owned(),
        "sandbox explain no.tool".to_owned(),
        "execution plan last".to_owned(),
        "execution artifacts last".to_owned(),
        "sandbox run".to_owned(),
        "sandbox run --time 0 -- true".to_owned(),
        "sandbox run --workspace nowhere -- true".to_owned(),
        "sandbox run --input nowhere -- true".to_owned(),
        "completions bash".to_owned(),
        "frobnicate".to_owned(),
        "call".to_owned(),
        "grant issue --to agent:q".to_owned(),
        "execution list --state LOST".to_owned(),
        "stats --since yesterday".to_owned(),
    ];
    lines.iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

fn delegable(bench: &Bench) -> String {
    let args = ["grant", "issue", "--to", "agent:a", "--capability", "state.read"];
    let more = ["--scope", "**", "--delegable"];
    let granted = bench.json(&[&args[..], &more].concat()).ok().json();
    granted[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn every_command_prints_one_json_document_and_nothing_else() {
    let bench = Bench::new();
    let grant = delegable(&bench);
    let file = bench.home().join("tools/file.read.json").display().to_string();
    for command in every_command(&bench, &grant, &file) {
        let args: Vec<&str> = command.iter().map(String::as_str).collect();
        // The flag may stand before or after the command.
        let flagged = match args.len() % 2 {
            0 => [&["--json"], &args[..]].concat(),
            _ => [&args[..], &["--json"]].concat(),
        };
        let output = bench.run(&flagged);
        let document = output.json();
        assert_eq!(output.stderr, "", "{args:?}");
        let failed = document["success"] == false;
        let is_lint = args.starts_with(&["tool", "lint"]);
        assert_eq!(failed, output.code != 0 && !is_lint, "{args:?}: {output:#?}");
        if failed {
            let error = &document["error"];
            let code = error["code"].as_str().unwrap();
            let is_upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            assert!(code.chars().all(is_upper), "{args:?}: {code}");
            assert!(error["class"].as_str().unwrap().ends_with("Error"), "{args:?}");
            let message = error["message"].as_str().unwrap();
            assert!(!message.ends_with(':') && !message.is_empty(), "{args:?}: {message}");
            let speaks_for_itself = matches!(code, "FILE_UNREADABLE" | "INPUT_INVALID");
            assert!(error["hint"].is_string() || speaks_for_itself, "{args:?}: {error}");
        }
    }
}

#[test]
fn text_in_a_pipe_has_no_escape_sequences_and_errors_go_to_stderr() {
    let bench = Bench::new();
    let grant = delegable(&bench);
    let file = bench.home().join("tools/file.read.json").display().to_string();
    for command in every_command(&bench, &grant, &file) {
        let args: Vec<&str> = command.iter().map(String::as_str).collect();
        let output = bench.run(&args);
        assert!(!output.stdout.contains('\u{1b}'), "{args:?}: {}", output.stdout);
        assert!(!output.stderr.contains('\u{1b}'), "{args:?}: {}", output.stderr);
        match output.code {
            0 => assert_eq!(output.stderr, "", "{args:?}"),
            _ => assert!(!output.stderr.is_empty() || !output.stdout.is_empty(), "{args:?}"),
        }
        let said = format!("{}{}", output.stdout, output.stderr);
        for internal in ["panicked", "RUST_BACKTRACE", "src/", "Some(", "unwrap"] {
            assert!(!said.contains(internal), "{args:?}: {said}");
        }
    }
}

#[test]
fn colours_can_be_forced_and_no_color_wins() {
    let bench = Bench::new();
    let forced = output(bench.command(&["tool", "list"]).env("CLICOLOR_FORCE", "1"));
    assert!(forced.stdout.contains('\u{1b}'), "{}", forced.stdout);
    let mut plain = bench.command(&["tool", "list"]);
    let plain = output(plain.env("NO_COLOR", "1"));
    assert!(!plain.stdout.contains('\u{1b}'), "{}", plain.stdout);
}

#[test]
fn a_call_prints_exactly_the_promised_members() {
    let bench = Bench::new();
    let done = bench.call("text.digest", &json!({"text": "x"})).ok().json();
    let common = ["success", "executionId", "state", "durationMs", "attempts", "receipt"];
    assert_eq!(keys(&done), common.into_iter().chain(["output"]).collect());
    assert_eq!((&done["success"], &done["attempts"]), (&json!(true), &json!(1)));
    assert!(done["durationMs"].is_u64());
    assert_eq!(keys(&done["receipt"]), BTreeSet::from(["entry", "hash", "checkpoint"]));

    let refused = bench.call("file.read", &json!({"path": "a"})).json();
    assert_eq!(keys(&refused), common.into_iter().chain(["error"]).collect());
    let error = &refused["error"];
    let shape = BTreeSet::from(["class", "code", "message", "hint", "executionId", "details"]);
    assert!(keys(error).is_subset(&shape), "{error}");
    assert_eq!(error["executionId"], refused["executionId"]);

    // The receipt names an entry that is in the journal, with that hash.
    let entry = refused["receipt"]["entry"].to_string();
    let shown = bench.json(&["audit", "show", &entry]).ok().json();
    assert_eq!(shown["hash"], refused["receipt"]["hash"]);
    let call = &shown["entry"]["fact"]["call"];
    assert_eq!(call["execution"], refused["executionId"], "{shown}");
}

#[test]
fn exit_codes_tell_endings_apart() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    bench.write("big.txt", "x".repeat(1_048_577));
    let code = |tool: &str, input: Value| bench.call(tool, &input).code;
    assert_eq!(code("text.digest", json!({"text": "x"})), 0);
    assert_eq!(code("file.read", json!({"path": "gone.txt"})), 1);
    assert_eq!(code("file.read", json!({"path": 1})), 2);
    assert_eq!(code("file.shred", json!({})), 2);
    assert_eq!(code("file.delete", json!({"path": "big.txt"})), 3);
    assert_eq!(code("file.read", json!({"path": "big.txt"})), 5);
    fs::write(bench.home().join("state/journal.db"), "not a database").unwrap();
    assert_eq!(code("text.digest", json!({"text": "x"})), 70);
}

#[test]
fn a_wrong_command_line_is_an_error_like_any_other() {
    let bench = Bench::new();
    for args in [
        &["frobnicate"][..],
        &["call"],
        &["call", "text.digest", "--input"],
        &["call", "text.digest", "--unknown"],
        &["grant", "issue"],
        &["audit", "verify", "--file", "x"],
        &["audit", "verify", "--key", "x"],
        &["audit", "show", "minus-one"],
        &["execution", "list", "--limit", "many"],
        &["completions", "tcsh-ng"],
        &["tool"],
        &[],
    ] {
        let person = bench.run(args);
        assert_eq!((person.code, person.stdout.as_str()), (2, ""), "{args:?}");
        assert!(person.stderr.contains("--help"), "{args:?}: {}", person.stderr);
        let program = bench.json(args);
        let error = program.fails(2, "USAGE");
        assert_eq!(program.stderr, "", "{args:?}");
        assert_eq!(error["class"], "ValidationError");
    }
    let missing = bench.json(&["grant", "issue", "--scope", "**"]).fails(2, "USAGE");
    let message = missing["message"].as_str().unwrap();
    assert!(message.contains("--to") && message.contains("--capability"), "{message}");
    bench.run(&["--version"]).ok();
    assert!(bench.run(&["call", "--help"]).ok().stdout.contains("Exit codes"));
}

/// A value that we refuse ourselves comes with its own code and says what would be right.
#[test]
fn a_refused_value_says_what_would_be_right() {
    let bench = Bench::new();
    let grant = ["grant", "issue", "--scope", "**", "--to"];
    for (args, code, hint) in [
        (&["call", "text.digest", "--as", "bob"][..], "PRINCIPAL_INVALID", "human:NAME"),
        (&["call", "text digest"], "TOOL_ID_INVALID", "tool ids match"),
        (&["stats", "--since", "yesterday"], "TIME_INVALID", "15m"),
        (&["execution", "list", "--state", "LOST"], "STATE_UNKNOWN", "ROLLED_BACK"),
        (
            &[&grant[..], &["all", "--capability", "state.read"]].concat(),
            "GRANTEE_INVALID",
            "tool:",
        ),
        (
            &[&grant[..], &["agent:a", "--capability", "filesystem.raed"]].concat(),
            "CAPABILITY_UNKNOWN",
            "filesystem.read",
        ),
        (
            &[&grant[..], &["agent:a", "--capability", "filesystem"]].concat(),
            "CAPABILITY_UNKNOWN",
            "filesystem.write",
        ),
    ] {
        let error = bench.json(args).fails(2, code);
        assert!(error["hint"].as_str().unwrap().contains(hint), "{error}");
        let person = bench.run(args);
        assert_eq!(person.code, 2);
        assert!(person.stderr.contains(hint) && person.stderr.contains(code), "{person:#?}");
    }
}

#[test]
fn input_comes_from_an_argument_a_file_or_standard_input() {
    let bench = Bench::new();
    bench.write("input.json", r#"{"text":"hello"}"#);
    let sha = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let call = ["--json", "call", "text.digest", "--input"];
    let given = bench.run(&[&call[..], &[r#"{"text":"hello"}"#]].concat());
    let file = bench.run(&[&call[..], &["@input.json"]].concat());
    let piped = bench.run_with_input(&[&call[..], &["-"]].concat(), br#"{"text":"hello"}"#);
    for output in [given, file, piped] {
        assert_eq!(output.ok().json()["output"]["sha256"], sha);
    }
    let nothing = bench.run_with_input(&[&call[..], &["-"]].concat(), b"");
    nothing.fails(2, "INPUT_NOT_JSON");
    let missing = bench.run(&[&call[..], &["@nowhere.json"]].concat()).fails(2, "INPUT_UNREADABLE");
    assert!(missing["message"].as_str().unwrap().contains("nowhere.json"));
    bench.run(&[&call[..], &["@."]].concat()).fails(2, "INPUT_UNREADABLE");
    let endless = vec![b' '; 17 << 20];
    bench.run_with_input(&[&call[..], &["-"]].concat(), &endless).fails(2, "INPUT_TOO_LARGE");
    // Five calls came to be: the unreadable ones and the endless one did not.
    assert_eq!(bench.stats()["executions"], 4);
}

#[test]
fn a_missing_home_says_how_to_make_one() {
    let bench = Bench::bare();
    for args in [
        &["call", "text.digest"][..],
        &["tool", "list"],
        &["grant", "list"],
        &["execution", "list"],
        &["audit", "list"],
        &["audit", "verify"],
        &["stats"],
        &["recover"],
    ] {
        let error = bench.json(args).fails(2, "HOME_MISSING");
        assert!(error["hint"].as_str().unwrap().contains("countersign init"), "{error}");
        let person = bench.run(args);
        assert!(person.stderr.starts_with("error: there is no home at "), "{}", person.stderr);
        assert!(person.stderr.contains("hint: make one with `countersign init`"));
    }
    assert!(!bench.home().exists(), "looking made nothing");
}

#[test]
fn a_home_is_found_by_flag_then_environment_then_here() {
    let bench = Bench::bare();
    let here = |args: &[&str]| output(clean(Command::new(BIN)).args(args).current_dir(bench.ws()));
    here(&["init"]).ok();
    assert!(bench.ws().join(".countersign/state/journal.db").exists());
    here(&["call", "text.digest", "--input", r#"{"text":"x"}"#]).ok();
    bench.run(&["init"]).ok();
    assert_eq!(bench.stats()["executions"], 0, "the environment comes before here");
    let flag = bench.ws().join(".countersign").display().to_string();
    let flagged = bench.json(&["--home", &flag, "stats"]).ok().json();
    assert_eq!(flagged["executions"], 1, "the flag comes before the environment");
    let empty = output(bench.command(&["--json", "stats"]).env("COUNTERSIGN_HOME", ""));
    assert_eq!(empty.ok().json()["executions"], 1, "an empty variable is none");
}

#[test]
fn init_does_not_touch_what_is_there() {
    let bench = Bench::new();
    let key = bench.json(&["audit", "key"]).ok().json();
    let error = bench.json(&["init"]).fails(2, "HOME_EXISTS");
    assert!(error["hint"].as_str().unwrap().contains("--home"), "{error}");
    assert_eq!(bench.json(&["audit", "key"]).ok().json(), key);
    fs::create_dir(bench.dir().join("full")).unwrap();
    fs::write(bench.dir().join("full/mine.txt"), "mine").unwrap();
    let full = bench.dir().join("full").display().to_string();
    bench.json(&["init", &full]).fails(2, "HOME_EXISTS");
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);

    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &str| fs::metadata(bench.home().join(path)).unwrap().permissions().mode();
    assert_eq!(mode("state") & 0o077, 0, "the state is private");
    assert_eq!(mode("state/keys/journal.key") & 0o077, 0);
}

#[test]
fn a_misspelt_setting_stops_everything() {
    let bench = Bench::new();
    let config = bench.home().join("countersign.toml");
    for (text, named) in [
        ("[input]\nmax_byte = 1\n", "max_byte"),
        ("[limits]\n", "limits"),
        ("[retry]\nmax_retries = 1000\n", "between 0 and 10"),
        ("input = \n", "countersign.toml"),
    ] {
        fs::write(&config, text).unwrap();
        for args in [&["call", "text.digest"][..], &["tool", "list"], &["stats"]] {
            let error = bench.json(args).fails(2, "CONFIG_INVALID");
            assert!(error["message"].as_str().unwrap().contains(named), "{error}");
        }
    }
    fs::remove_file(&config).unwrap();
    bench.call("text.digest", &json!({"text": "defaults"})).ok();
}

#[test]
fn completions_name_every_command() {
    let bench = Bench::bare();
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.run(&["completions", shell]).ok().stdout;
        let known = "quickstart workspace action artifact grant execution audit recover doctor \
             sandbox syscalls";
        for command in known.split(' ') {
            assert!(script.contains(command), "{shell}: {command}");
        }
        let document = bench.json(&["completions", shell]).ok().json();
        assert_eq!(document["script"].as_str().unwrap().trim_end(), script.trim_end());
    }
}

#[test]
fn the_quickstart_shows_every_ending_and_can_be_repeated() {
    let bench = Bench::bare();
    let run = |args: &[&str]| output(clean(Command::new(BIN)).args(args).current_dir(bench.ws()));
    let first = run(&["quickstart"]).ok().stdout;
    for word in ["COMPLETED", "DENIED", "ROLLED_BACK", "verified", "Next, try:", "export "] {
        assert!(first.contains(word), "{word}: {first}");
    }
    let dir = bench.ws().join("countersign-quickstart");
    let note = dir.join("workspace/notes/today.md");
    assert_eq!(fs::read_to_string(&note).unwrap(), "Water the plants.\n");
    let second = run(&["quickstart", "--json"]).ok().json();
    let states: Vec<_> =
        second["calls"].as_array().unwrap().iter().map(|call| call["state"].clone()).collect();
    assert_eq!(states[..3], ["COMPLETED", "DENIED", "ROLLED_BACK"]);
    // A machine that cannot contain programs says so, and the tour goes on.
    match second["calls"][3]["error"]["code"].as_str() {
        None => {
            assert_eq!(states[3..5], ["COMPLETED", "ROLLED_BACK"]);
            assert_eq!(second["calls"][3]["output"], json!({"words": 4}));
            assert_eq!(second["calls"][4]["error"]["code"], "TIME_LIMIT");
            assert!(first.contains("/etc/shadow: No such file"), "{first}");
        }
        Some("CANNOT_ENFORCE") => assert!(first.contains("countersign doctor"), "{first}"),
        Some(other) => panic!("{other}: {second:#}"),
    }
    assert_eq!(states[states.len() - 2..], ["VALIDATED", "COMPLETED"], "asked, and approved");
    assert_eq!(second["calls"][1]["error"]["code"], "GRANT_OUT_OF_SCOPE");
    assert_eq!(second["calls"][2]["error"]["code"], "OUTPUT_INVALID");
    assert_eq!(fs::read_to_string(&note).unwrap(), "Water the plants.\n");
    let third = run(&["quickstart"]).ok().stdout;
    assert!(third.contains("verified all") && third.contains("ROLLED_BACK"), "{third}");

    // What it says to type next works, word for word, in a shell.
    let commands: Vec<&str> =
        first.lines().skip_while(|line| *line != "Next, try:").skip(1).collect();
    assert_eq!(commands.len(), 9, "{commands:#?}");
    let script = format!("set -e\n{}\n", commands.join("\n"));
    let typed = output(clean(Command::new("sh")).args(["-c", &script]).current_dir(bench.ws()));
    assert_eq!(typed.code, 0, "{script}\n{typed:#?}");
    assert!(typed.stdout.contains("Water the plants."), "{}", typed.stdout);
}

/// Whatever the width of a terminal, a pipe gets whole lines.
#[test]
fn a_pipe_gets_whole_lines_however_narrow_the_terminal() {
    let bench = Bench::bare();
    let wide = bench.dir().join("a place with spaces and 'quotes' and [brackets]");
    let dir = wide.display().to_string();
    let mut command = clean(Command::new(BIN));
    command.args(["quickstart", &dir]).current_dir(bench.ws());
    let said = output(command.env("COLUMNS", "20")).ok().stdout;
    let line = |start: &str| {
        let found = said.lines().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("{start}: {said}")).to_owned()
    };
    assert!(line("Four sample tools").ends_with("for an hour."));
    assert!(line("✗ DENIED").contains("[GRANT_OUT_OF_SCOPE]"));
    assert!(line("export COUNTERSIGN_HOME=").contains(r"'\''quotes'\''"));
    for state in ["COMPLETED", "DENIED", "ROLLED_BACK"] {
        assert!(said.contains(state), "{said}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let bench = Bench::new();
    for number in 0..20 {
        let args = digest(&number.to_string());
        bench.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    }
    for args in [
        &["audit", "list"][..],
        &["--json", "audit", "list"],
        &["audit", "export", "-"],
        &["execution", "list"],
        &["--json", "tool", "list"],
        &["completions", "bash"],
        &["--help"],
        &["call", "text.digest", "--input", r#"{"text":"x"}"#],
    ] {
        // The reader is gone before anything is written.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = bench.command(args);
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let ended = collect(command.spawn().unwrap().wait_with_output().unwrap());
        drop(command);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{args:?}");
    }
    // The reader takes one line.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = bench.command(&["audit", "export", "-"]);
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    let mut start = [0u8; 10];
    reader.read_exact(&mut start).unwrap();
    drop(reader);
    let ended = collect(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(bench.stats()["completed"], 21, "the call itself was made");
}

#[test]
fn an_output_that_cannot_be_written_is_said() {
    let bench = Bench::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = bench.command(&["tool", "list"]);
    command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
    let ended = collect(command.spawn().unwrap().wait_with_output().unwrap());
    assert_eq!(ended.code, 70);
    assert!(ended.stderr.contains("OUTPUT_UNWRITTEN"), "{}", ended.stderr);
}

#[test]
fn text_that_steers_a_terminal_or_hides_is_shown_inert() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write,state.read,state.write");
    let hostile = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}gnp.exe\u{200b}\u{9b}31m\u{7f}\r\u{feff}";
    bench.write("evil.txt", hostile);
    bench.write(&format!("{}.txt", "\u{202e}name\u{1b}[31m"), "x");
    let mut described = bench.declaration("text.digest");
    described["id"] = json!("evil.digest");
    described["description"] = json!(hostile);
    described["name"] = json!(hostile);
    bench.declare("evil.json", &described);
    let agent = ["--as", "agent:a", "--root", "."];
    let call = |tool: &str, input: Value| {
        let input = input.to_string();
        let mut command = bench.command(&[&["call", tool, "--input", &input], &agent[..]].concat());
        // Forced colours are what a terminal gets: our own escapes and nothing else.
        output(command.env("CLICOLOR_FORCE", "1"))
    };
    let shown = |args: &[&str]| output(bench.command(args).env("CLICOLOR_FORCE", "1"));
    let mut said = vec![
        call("file.read", json!({"path": "evil.txt"})).ok(),
        call("file.list", json!({"path": "."})),
        call("file.read", json!({"path": hostile})),
        call("file.write", json!({"path": hostile, "content": "x"})),
        call("file.write", json!({"path": "\u{202e}txt.a", "content": hostile})),
        call("text.digest", json!({hostile: 1})),
        call("state.get", json!({"key": hostile})),
        shown(&["execution", "show", "last"]),
        shown(&["execution", "list"]),
        shown(&["tool", "list"]),
        shown(&["tool", "show", "evil.digest"]),
        shown(&["audit", "list"]),
        shown(&["execution", "show", hostile]),
        shown(&["tool", "lint", hostile]),
        shown(&["call", hostile]),
        shown(&["call", "text.digest", "--input", hostile]),
        shown(&["call", "text.digest", "--as", hostile]),
        shown(&["--home", hostile, "stats"]),
        shown(&["init", &format!("{hostile}/home")]),
        shown(&[
            "grant",
            "issue",
            "--to",
            "agent:a",
            "--capability",
            "state.read",
            "--scope",
            hostile,
        ]),
        shown(&[hostile]),
    ];
    let size = bench.verify()["size"].as_u64().unwrap();
    said.extend((0..size).map(|entry| shown(&["audit", "show", &entry.to_string()])));
    for (number, output) in said.iter().enumerate() {
        for text in [&output.stdout, &output.stderr] {
            let plain = without_our_styles(text);
            let bad = plain.chars().find(|&c| {
                (c.is_control() && c != '\n')
                    || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{feff}')
            });
            assert_eq!(bad, None, "output {number}: {plain:?}");
        }
    }
    // A program gets the exact text back.
    let exact = bench.call("file.read", &json!({"path": "evil.txt"})).ok();
    assert_eq!(exact.json()["output"]["content"], hostile);
    let raw = exact.stdout.chars().find(|&c| (c.is_control() && c != '\n') || c == '\u{202e}');
    assert_eq!(raw, None, "JSON is harmless on a terminal, too");
}

/// Removes `ESC [ … m`, which is all that we write ourselves.
fn without_our_styles(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ';');
        match end {
            Some(end) if after[end..].starts_with('m') => rest = &after[end + 1..],
            _ => {
                plain.push('\u{1b}');
                rest = after;
            }
        }
    }
    plain + rest
}

#[test]
fn a_call_names_who_calls() {
    let bench = Bench::new();
    let call = ["--json", "call", "text.digest", "--input", r#"{"text":"x"}"#];
    let who = |change: &dyn Fn(&mut Command)| {
        let mut command = bench.command(&call);
        change(&mut command);
        output(&mut command).ok();
        let last = bench.json(&["execution", "show", "last"]).ok().json();
        last["call"]["principal"].as_str().unwrap().to_owned()
    };
    assert_eq!(who(&|_| {}), "human:tester");
    assert_eq!(who(&|command| _ = command.env("COUNTERSIGN_AS", "service:ci")), "service:ci");
    let named = |command: &mut Command| {
        command.env("COUNTERSIGN_AS", "service:ci").args(["--as", "agent:b"]);
    };
    assert_eq!(who(&named), "agent:b");
    assert_eq!(who(&|command| _ = command.env_remove("USER")), "human:operator");
    let odd = output(bench.command(&call).env("USER", "two words"));
    let error = odd.fails(2, "PRINCIPAL_INVALID");
    assert!(error["hint"].as_str().unwrap().contains("--as"), "{error}");
    let bad = output(bench.command(&call).env("COUNTERSIGN_AS", "nobody"));
    bad.fails(2, "PRINCIPAL_INVALID");
}

#[test]
fn structured_logs_go_to_stderr_when_asked_for() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read");
    let logged = |tool: &str, input: &str| {
        let args = ["--json", "call", tool, "--as", "agent:a", "--root", ".", "--input", input];
        let mut command = bench.command(&args);
        let ended =
            output(command.env("COUNTERSIGN_LOG", "info").env("COUNTERSIGN_LOG_FORMAT", "json"));
        let id = ended.json()["executionId"].clone();
        let lines = ended.stderr.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        assert!(lines.iter().all(|line| line["fields"]["execution"] == id), "{lines:#?}");
        let words = lines.iter().map(|line| line["fields"]["message"].as_str().unwrap().to_owned());
        words.collect::<Vec<_>>()
    };
    assert!(logged("text.digest", r#"{"text":"x"}"#).contains(&"completed".to_owned()));
    assert!(logged("text.digest", "{}").contains(&"validation failed".to_owned()));
    assert!(logged("file.delete", r#"{"path":"a"}"#).contains(&"authorisation denied".to_owned()));
    let rolled_back = logged("file.read", r#"{"path":"a"}"#);
    for word in ["authorised", "rolled back"] {
        assert!(rolled_back.contains(&word.to_owned()), "{rolled_back:?}");
    }
    bench.write("big", "x".repeat(1_048_577));
    let stopped = logged("file.read", r#"{"path":"big"}"#);
    assert!(stopped.contains(&"limit reached or call stopped".to_owned()), "{stopped:?}");
}

#[test]
fn an_input_that_could_not_be_read_is_pinned_but_not_kept() {
    let bench = Bench::new();
    let call = ["--json", "call", "text.digest", "--input", "{\"text\": nonsense}"];
    bench.run(&call).fails(2, "INPUT_NOT_JSON");
    let shown = bench.json(&["execution", "show", "last"]).ok().json();
    assert_eq!(shown["input"], Value::Null);
    let digest = countersign_model::Digest::of(b"{\"text\": nonsense}").to_string();
    assert_eq!(shown["call"]["input"]["digest"], json!(digest));
    let person = bench.run(&["execution", "show", "last"]).ok().stdout;
    assert!(person.contains("not kept") && person.contains("INPUT_NOT_JSON"), "{person}");
}

#[test]
fn many_violations_are_counted_for_people_and_listed_for_programs() {
    let bench = Bench::new();
    let members: serde_json::Map<_, _> =
        (0..60).map(|number| (format!("m{number:02}"), json!(number))).collect();
    let mut strict = bench.declaration("text.digest");
    strict["id"] = json!("strict.digest");
    let text = json!({"type": "string", "description": "A text"});
    for name in members.keys() {
        strict["inputSchema"]["properties"][name] = text.clone();
    }
    bench.declare("strict.json", &strict);
    let answer = bench.call("strict.digest", &Value::Object(members.clone()));
    let error = answer.fails(2, "INPUT_INVALID");
    assert_eq!(error["details"].as_array().unwrap().len(), 61, "60 types and one missing member");
    let input = Value::Object(members).to_string();
    let person = bench.run(&["call", "strict.digest", "--input", &input]);
    assert_eq!(person.code, 2);
    assert!(person.stdout.contains("and 40 more; --json shows them all"), "{}", person.stdout);
    assert!(person.stdout.contains("hint: see what it takes with `countersign tool show"));
}

#[test]
fn a_bench_needs_a_directory() {
    let bench = Bench::bare();
    bench.write("file", "x");
    let error = bench.json(&["bench", "calls", "--dir", "file"]).fails(2, "BENCH_UNWRITABLE");
    assert!(error["message"].as_str().unwrap().starts_with("file cannot be used"), "{error}");
    let missing = bench.ws().join("missing");
    let dir = missing.to_str().unwrap();
    bench.json(&["bench", "calls", "--dir", dir]).fails(2, "BENCH_UNWRITABLE");
    assert!(!missing.exists(), "a misspelt directory is not made");
}
