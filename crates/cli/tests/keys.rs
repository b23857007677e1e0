//! Principals and keys from the command line: shown once and stored nowhere, who is let in and who
//! is not, and what it leaves in the journal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(clippy::print_stdout, reason = "a test that was skipped says so")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Bench, Output, clean, collect, output};
use serde_json::{Value, json};

/// A command line without quotes, as JSON.
fn run(bench: &Bench, words: &str) -> Output {
    bench.json(&words.split(' ').collect::<Vec<_>>())
}

/// A home with `human:ada` and `agent:a`.
fn bench() -> Bench {
    let bench = Bench::new();
    run(&bench, "principal add human:ada").ok();
    run(&bench, "principal add agent:a").ok();
    bench
}

/// Makes a key; its id and its token.
fn create(bench: &Bench, words: &str) -> (String, String) {
    handed_out(&run(bench, &format!("key create {words}")))
}

fn handed_out(output: &Output) -> (String, String) {
    assert_eq!(output.code, 0, "{output:#?}");
    let (value, text) = (output.json(), |value: &Value| value.as_str().unwrap().to_owned());
    (text(&value["key"]["id"]), text(&value["token"]))
}

/// What the home says of a token, given in the environment.
fn check(bench: &Bench, token: &str) -> Output {
    output(bench.command(&["--json", "key", "check"]).env("COUNTERSIGN_KEY", token))
}

/// Every file of the home, byte for byte.
fn contents(bench: &Bench) -> Vec<u8> {
    let (mut bytes, mut open) = (Vec::new(), vec![bench.home()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => bytes.extend(fs::read(path).unwrap()),
            }
        }
    }
    bytes
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

#[test]
fn a_key_is_shown_once_and_stored_nowhere() {
    let bench = bench();
    // Held open, so that the log beside the database is there to be searched.
    let journal = rusqlite::Connection::open(bench.home().join("state/journal.db")).unwrap();
    journal.query_row("SELECT count(*) FROM entries", [], |row| row.get::<_, i64>(0)).unwrap();
    let (id, token) = create(&bench, "--principal human:ada --tenant acme --expires 30d");
    assert!(bench.home().join("state/journal.db-wal").exists());
    check(&bench, &token).ok();
    let stored = contents(&bench);
    let secret = token.get(37..80).unwrap();
    assert!(holds(&stored, id.as_bytes()), "the id is there");
    for hidden in [&token, secret, &secret[..12], "csk_"] {
        assert!(!holds(&stored, hidden.as_bytes()), "{hidden} is in the home");
    }
    let bytes: Vec<u8> = decode(secret);
    assert!(!holds(&stored, &bytes), "the secret's bytes are in the home");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!holds(&stored, hex.as_bytes()), "the secret is in the home as hex");
    for words in ["key list --all", &format!("key show {id}"), "principal show human:ada"] {
        let shown = run(&bench, words).ok().stdout;
        assert!(shown.contains(&id) && !shown.contains(secret), "{words}");
    }
}

fn decode(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for letter in text.chars() {
        bits = bits << 6 | LETTERS.find(letter).unwrap() as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    assert_eq!(bytes.len(), 32);
    bytes
}

/// A pipe gets the key and nothing else; a person reads the rest beside it.
#[test]
fn the_key_stands_alone_on_standard_output() {
    let bench = bench();
    let made = bench.run(&["key", "create", "--principal", "human:ada"]).ok();
    let token = made.stdout.strip_suffix('\n').unwrap();
    assert_eq!((token.len(), token.lines().count()), (87, 1), "{made:#?}");
    assert!(made.stderr.contains("not shown again"), "{made:#?}");
    assert!(made.stderr.contains("good for approve, call, read until "), "{made:#?}");
    assert!(!made.stderr.contains(token), "{made:#?}");
    let args = ["--json", "key", "check", "--key-file", "-"];
    let checked = bench.run_with_input(&args, made.stdout.as_bytes()).ok().json();
    assert_eq!(checked["principal"], "human:ada");
}

#[test]
fn what_a_key_is_good_for_has_defaults_and_limits() {
    let bench = bench();
    let key =
        run(&bench, "key create --principal agent:a --tenant acme").ok().json()["key"].clone();
    let mut names: Vec<_> = key.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let mut expected = vec!["createdAt", "createdBy", "expiresAt", "hash", "id", "principal"];
    expected.extend(["replacedBy", "revokedAt", "scopes", "status", "tenant", "verifier"]);
    assert_eq!(names, expected);
    assert_eq!(key["scopes"], json!(["call", "read"]));
    assert_eq!((&key["status"], &key["tenant"]), (&json!("live"), &json!("acme")));
    assert_eq!(key["createdBy"], "human:tester");
    let lifetime = key["expiresAt"].as_i64().unwrap() - key["createdAt"].as_i64().unwrap();
    assert!((lifetime - 90 * 86_400_000).abs() < 60_000, "{lifetime}");
    for (words, exit, code) in [
        ("--principal agent:a --scope approve", 3, "HUMANS_ONLY"),
        ("--principal agent:a --scope call,admin", 3, "HUMANS_ONLY"),
        ("--principal agent:a --scope write", 2, "KEY_SCOPE_INVALID"),
        ("--principal agent:a --scope runs:*", 2, "KEY_SCOPE_INVALID"),
        ("--principal agent:b", 2, "PRINCIPAL_UNKNOWN"),
        ("--principal human:а", 2, "PRINCIPAL_INVALID"),
        ("--principal agent:a --expires 367d", 2, "KEY_TOO_LONG"),
        ("--principal agent:a --expires 2000-01-01T00:00:00Z", 2, "KEY_EXPIRED"),
        ("--principal agent:a --expires soon", 2, "TIME_INVALID"),
        ("--principal agent:a --tenant a/b", 2, "TENANT_INVALID"),
    ] {
        let error = run(&bench, &format!("key create {words}")).fails(exit, code);
        assert!(error["hint"].is_string(), "{error}");
    }
    assert_eq!(run(&bench, "key list --all").json().as_array().unwrap().len(), 1);
    create(&bench, "--principal human:ada --scope admin --scope approve");
}

#[test]
fn agents_and_services_manage_neither_principals_nor_keys() {
    let bench = bench();
    let (id, _) = create(&bench, "--principal agent:a");
    let size = bench.verify()["size"].clone();
    for words in [
        "principal add agent:b",
        "principal remove human:ada",
        "key create --principal agent:a",
        &format!("key rotate {id}"),
        &format!("key revoke {id}"),
    ] {
        for machine in ["agent:a", "service:ci"] {
            let error = run(&bench, &format!("{words} --as {machine}")).fails(3, "HUMANS_ONLY");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("widen their own rights"), "{message}");
        }
    }
    assert_eq!(bench.verify()["size"], size, "nothing was recorded");
}

#[test]
fn a_key_that_is_not_right_is_refused_by_name() {
    let bench = bench();
    let (id, token) = create(&bench, "--principal agent:a");
    check(&bench, &token).ok();
    for wrong in [
        token.replace("csk_", "cs_"),
        token[..60].to_owned(),
        token.to_uppercase(),
        swapped(&token, 50),
        swapped(&token, 86),
        format!("{token}0"),
        "hunter2".to_owned(),
    ] {
        let refused = check(&bench, &wrong);
        refused.fails(3, "KEY_INVALID");
        assert!(!refused.stdout.contains(&token[40..70]), "an error repeats a secret");
    }
    // Well formed, but of another home; or ours by id, with another secret.
    let (_, foreign) = create(&self::bench(), "--principal agent:a");
    check(&bench, &foreign).fails(3, "KEY_UNKNOWN");
    check(&bench, &with_secret_of(&token, &foreign)).fails(3, "KEY_UNKNOWN");
    run(&bench, "key check").fails(2, "KEY_MISSING");
    run(&bench, &format!("key revoke {id} --reason lost")).ok();
    check(&bench, &token).fails(3, "KEY_REVOKED");
    let (_, short) = create(&bench, "--principal agent:a --expires 1s");
    std::thread::sleep(Duration::from_millis(1100));
    check(&bench, &short).fails(3, "KEY_EXPIRED");
    let statuses = |all: &str| {
        let listed = run(&bench, &format!("key list{all}")).ok().json();
        listed.as_array().unwrap().iter().map(|key| key["status"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (statuses(""), statuses(" --all")),
        (vec![], vec![json!("revoked"), json!("expired")])
    );
}

/// One letter wrong.
fn swapped(token: &str, at: usize) -> String {
    let other = if token.as_bytes()[at] == b'a' { "b" } else { "a" };
    format!("{}{other}{}", &token[..at], &token[at + 1..])
}

/// The id of one token with the secret of another, and a checksum that fits.
fn with_secret_of(id: &str, secret: &str) -> String {
    let body = format!("{}{}", &id[..36], &secret[36..80]);
    let sum =
        countersign_model::Digest::of(format!("countersign-key-checksum-v1\n{body}").as_bytes());
    format!("{body}_{}", &sum.to_string()[..6])
}

#[test]
fn a_rotated_key_works_beside_its_successor_until_the_overlap_ends() {
    let bench = bench();
    let (first, old) =
        create(&bench, "--principal agent:a --tenant acme --scope read --expires 2h");
    let (second, new) = handed_out(&run(&bench, &format!("key rotate {first} --overlap 2s")));
    let shown = check(&bench, &old).ok().json();
    assert_eq!((&shown["status"], &shown["replacedBy"]), (&json!("retiring"), &json!(second)));
    let shown = check(&bench, &new).ok().json();
    assert_eq!((&shown["replaces"], &shown["tenant"]), (&json!(first), &json!("acme")));
    assert_eq!((&shown["scopes"], &shown["status"]), (&json!(["read"]), &json!("live")));
    std::thread::sleep(Duration::from_millis(2100));
    check(&bench, &old).fails(3, "KEY_EXPIRED");
    check(&bench, &new).ok();
    run(&bench, &format!("key rotate {first}")).fails(3, "KEY_EXPIRED");
    let (third, newest) = handed_out(&run(&bench, &format!("key rotate {second} --at-once")));
    check(&bench, &new).fails(3, "KEY_EXPIRED");
    let person = bench.run(&["key", "rotate", &third]).ok();
    assert!(
        person.stderr.contains("The old key") && person.stdout.starts_with("csk_"),
        "{person:#?}"
    );
    run(&bench, &format!("key rotate {third}")).fails(2, "KEY_ROTATED");
    check(&bench, &newest).ok();
    let text = bench.run(&["key", "show", &third]).ok().stdout;
    assert!(
        text.contains(&format!("replaces {second}")) && text.contains("replaced by "),
        "{text}"
    );
}

#[test]
fn a_removed_principal_loses_its_keys_at_once_and_for_ever() {
    let bench = bench();
    let (id, token) = create(&bench, "--principal human:ada");
    let removed = run(&bench, "principal remove human:ada --reason left").ok().json();
    assert_eq!(removed, json!({"removed": "human:ada", "revoked": [id]}));
    check(&bench, &token).fails(3, "PRINCIPAL_UNKNOWN");
    run(&bench, "principal remove human:ada").fails(2, "PRINCIPAL_UNKNOWN");
    let listed = |all: &str| run(&bench, &format!("principal list{all}")).ok().json();
    assert_eq!(listed("").as_array().unwrap().len(), 1);
    assert_eq!(listed(" --all")[0]["status"], "removed");
    run(&bench, "principal add human:ada").ok();
    check(&bench, &token).fails(3, "KEY_REVOKED");
}

#[test]
fn principals_are_added_listed_and_shown() {
    let bench = Bench::new();
    let none = bench.run(&["principal", "list"]).ok().stdout;
    assert_eq!(none, "no principals; see `countersign principal add --help`\n");
    assert_eq!(
        bench.run(&["key", "list"]).ok().stdout,
        "no keys; see `countersign key create --help`\n"
    );
    let args = ["principal", "add", "service:ci", "--description", "the \u{202e}night shift"];
    let added = bench.json(&args).ok().json();
    assert_eq!(added["principal"], "service:ci");
    assert_eq!((&added["addedBy"], &added["status"]), (&json!("human:tester"), &json!("present")));
    assert_eq!(added["goodKeys"], 0);
    bench.json(&args).fails(2, "PRINCIPAL_EXISTS");
    run(&bench, "principal add ci").fails(2, "PRINCIPAL_INVALID");
    run(&bench, "principal show agent:x").fails(2, "PRINCIPAL_UNKNOWN");
    create(&bench, "--principal service:ci");
    let shown = run(&bench, "principal show service:ci").ok().json();
    assert_eq!(shown["keys"].as_array().unwrap().len(), 1);
    assert_eq!(shown["goodKeys"], 1);
    let person = bench.run(&["principal", "show", "service:ci"]).ok().stdout;
    assert!(
        person.starts_with("present service:ci 1 good key the \\u{202e}night shift\n"),
        "{person}"
    );
    assert!(person.contains("live     service:ci for call, read until "), "{person}");
    let unknown = "00000000-0000-7000-8000-000000000000";
    for words in ["key show", "key revoke", "key rotate"] {
        let error = run(&bench, &format!("{words} {unknown}")).fails(2, "KEY_UNKNOWN");
        assert!(error["hint"].as_str().unwrap().contains("key list"), "{error}");
    }
}

#[test]
fn a_key_file_is_for_its_owner_only() {
    let bench = bench();
    let path = bench.ws().join("ada.key");
    let file = path.to_str().unwrap();
    let made = run(&bench, &format!("key create --principal human:ada --out {file}")).ok().json();
    assert_eq!((&made["file"], &made["token"]), (&json!(file), &Value::Null));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let check = |args: &[&str], variables: &[(&str, &str)]| {
        let args = [&["--json", "key", "check"], args].concat();
        output(bench.command(&args).envs(variables.iter().copied()))
    };
    let whose = |output: Output| output.ok().json()["principal"].clone();
    assert_eq!(whose(check(&["--key-file", file], &[])), "human:ada");
    assert_eq!(whose(check(&[], &[("COUNTERSIGN_KEY_FILE", file)])), "human:ada");
    // A file goes before a key in the environment, and an option before both.
    let (_, agent) = create(&bench, "--principal agent:a");
    let both = [("COUNTERSIGN_KEY_FILE", file), ("COUNTERSIGN_KEY", &*agent)];
    assert_eq!(whose(check(&[], &both)), "human:ada");
    let empty = [("COUNTERSIGN_KEY_FILE", ""), ("COUNTERSIGN_KEY", &*agent)];
    assert_eq!(whose(check(&[], &empty)), "agent:a", "an empty variable is none");
    let wrong = [("COUNTERSIGN_KEY_FILE", "missing"), ("COUNTERSIGN_KEY", &*agent)];
    check(&[], &wrong).fails(2, "KEY_FILE_UNREADABLE");
    assert_eq!(whose(check(&["--key-file", file], &wrong)), "human:ada");
    for mode in [0o640, 0o604, 0o620, 0o610] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = check(&["--key-file", file], &[]).fails(3, "KEY_FILE_EXPOSED");
        assert!(error["hint"].as_str().unwrap().contains("chmod 600"), "{error}");
    }
    // Nothing that is there is written over, and nothing is made that has no place.
    let size = bench.verify()["size"].clone();
    run(&bench, &format!("key create --principal human:ada --out {file}")).fails(2, "FILE_EXISTS");
    run(&bench, "key create --principal human:ada --out no/such/dir").fails(2, "FILE_UNWRITABLE");
    run(&bench, "key create --principal human:bob --out bob.key").fails(2, "PRINCIPAL_UNKNOWN");
    assert!(!bench.ws().join("bob.key").exists(), "what was not filled is not left");
    assert_eq!(bench.verify()["size"], size);
    let help = output(bench.command(&["key", "check", "--help"]).env("COUNTERSIGN_KEY", &agent));
    assert!(!help.ok().stdout.contains(&agent), "help shows a key");
}

#[test]
fn the_journal_with_principals_and_keys_verifies_here_and_elsewhere() {
    let bench = bench();
    let (id, _) = create(&bench, "--principal human:ada");
    run(&bench, &format!("key rotate {id} --overlap 1h")).ok();
    run(&bench, &format!("key revoke {id} --reason lost")).ok();
    run(&bench, "principal remove agent:a").ok();
    let size = bench.verify()["size"].as_u64().unwrap();
    assert_eq!(size, 8, "home, two added, two made, one retired, one revoked, one removed");
    let subject = |seq: u64| {
        let shown = bench.run(&["audit", "show", &seq.to_string()]).ok().stdout;
        shown.lines().find_map(|line| line.strip_prefix("  about ")).unwrap().to_owned()
    };
    assert_eq!((subject(1), subject(3)), ("principal human:ada".to_owned(), format!("key {id}")));
    let revoked = bench.json(&["audit", "show", "6"]).ok().json();
    let fact = &revoked["entry"]["fact"]["key"]["revoked"];
    assert_eq!((&fact["reason"], &fact["by"]), (&json!("lost"), &json!("human:tester")));
    fs::write(bench.ws().join("key"), bench.run(&["audit", "key"]).ok().stdout).unwrap();
    bench.run(&["audit", "export", "journal.export"]).ok();
    let elsewhere = Bench::bare();
    for name in ["key", "journal.export"] {
        fs::copy(bench.ws().join(name), elsewhere.ws().join(name)).unwrap();
    }
    let args = ["audit", "verify", "--file", "journal.export", "--key", "key"];
    assert_eq!(elsewhere.json(&args).ok().json()["size"], 8);
    // Whoever edits the table is found.
    let journal = rusqlite::Connection::open(bench.home().join("state/journal.db")).unwrap();
    journal.execute("DELETE FROM key_records", []).unwrap();
    bench.json(&["audit", "verify"]).fails(70, "AUDIT_FAILED");
}

/// On a narrow terminal no line is cut: whatever is longer than the line is one word, whole.
#[test]
fn a_narrow_terminal_gets_short_lines_and_whole_words() {
    let bench = bench();
    create(&bench, "--principal human:ada --tenant a-tenant-with-a-long-name");
    for command in ["principal list", "key list", "principal show human:ada"] {
        let typed = format!("stty rows 20 cols 40 && exec {} {command}", common::BIN);
        let mut script = clean(Command::new("script"));
        script.args(["-qec", &typed, "/dev/null"]).env("COUNTERSIGN_HOME", bench.home());
        script.env("NO_COLOR", "1").env("TERM", "dumb").current_dir(bench.ws());
        let Ok(child) = script.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() else {
            println!("skipped: there is no script(1)");
            return;
        };
        let shown = collect(child.wait_with_output().unwrap()).ok().stdout;
        assert!(shown.contains("human:ada"), "{shown}");
        for line in shown.lines().map(str::trim_end) {
            let whole = line.split_whitespace().count() <= 1;
            assert!(line.chars().count() <= 40 || whole, "{command}: {line:?}");
        }
    }
}
