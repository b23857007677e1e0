//! The journal seen from outside: audit events, exports, proofs and checkpoints, verified on a
//! machine without a home, and every way to tamper with them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{BIN, Bench, Output, output};
use countersign_model::{CompiledSchema, Lifecycle};
use rusqlite::Connection;
use serde_json::{Value, json};

/// A home with calls of every ending.
fn busy() -> Bench {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    bench.call("text.digest", &json!({"text": "x"})).ok();
    bench.call("file.write", &json!({"path": "a.txt", "content": "x"})).ok();
    bench.call("file.read", &json!({"path": "a.txt"})).ok();
    bench.call("file.read", &json!({"path": "gone.txt"}));
    bench.call("file.delete", &json!({"path": "a.txt"}));
    bench.call("text.digest", &json!({"wrong": "\u{7f}\u{202e}"}));
    bench.write("big.txt", "x".repeat(1_048_577));
    bench.call("file.read", &json!({"path": "big.txt"}));
    bench
}

/// RFC-0001 section 8.1, as a schema.
fn audit_event() -> CompiledSchema {
    let hash = json!({"type": "string", "pattern": "^[0-9a-f]{64}$"});
    let id = json!({"type": "string", "format": "uuid"});
    let states: Vec<_> = Lifecycle::ALL.iter().map(|state| state.as_str()).collect();
    let classes = [
        "ValidationError",
        "AuthorizationError",
        "ResourceError",
        "ExecutionError",
        "TimeoutError",
        "StateError",
    ];
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "eventId": hash,
            "timestamp": {"type": "integer", "minimum": 1_600_000_000_000_u64},
            "toolId": {"type": "string", "pattern": "^[a-z][a-z0-9-]*(\\.[a-z][a-z0-9-]*)+$"},
            "toolVersion": {"type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+"},
            "executionId": id,
            "state": {"enum": states},
            "userId": {"type": "string", "pattern": "^(human|agent|service):"},
            "capabilities": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
            "duration": {"type": "integer", "minimum": 0},
            "error": {
                "type": "object",
                "properties": {
                    "class": {"enum": classes},
                    "code": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"},
                    "message": {"type": "string", "minLength": 1},
                    "hint": {"type": "string"},
                    "executionId": id,
                    "details": true
                },
                "required": ["class", "code", "message"],
                "additionalProperties": false
            },
            "inputHash": hash,
            "outputHash": hash
        },
        "required": [
            "eventId", "timestamp", "toolId", "toolVersion", "executionId", "state",
            "capabilities", "inputHash"
        ],
        "additionalProperties": false,
        "allOf": [
            {
                "if": {"properties": {"state": {"enum": ["FAILED", "DENIED", "ABORTED", "ROLLED_BACK"]}}},
                "then": {"required": ["error"]},
                "else": {"not": {"required": ["error"]}}
            },
            {
                "if": {"properties": {"state": {"const": "COMPLETED"}}},
                "then": {"required": ["outputHash", "duration"]},
                "else": {"not": {"required": ["outputHash"]}}
            }
        ]
    });
    CompiledSchema::compile(&schema).unwrap()
}

#[test]
fn audit_events_are_those_of_the_rfc_one_for_every_transition() {
    let bench = busy();
    let schema = audit_event();
    let listed = bench.json(&["audit", "list"]).ok().json();
    let events = listed.as_array().unwrap();
    for event in events {
        let violations = schema.check(event);
        assert!(violations.is_empty(), "{event:#}\n{violations:#?}");
    }
    let ids: std::collections::BTreeSet<_> =
        events.iter().map(|event| event["eventId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), events.len(), "event ids are unique");
    let mut story: std::collections::BTreeMap<&str, Vec<&str>> = Default::default();
    for event in events {
        let id = event["executionId"].as_str().unwrap();
        story.entry(id).or_default().push(event["state"].as_str().unwrap());
    }
    let full = ["DECLARED", "VALIDATED", "AUTHORIZED", "EXECUTING", "COMPLETED"];
    let stories: Vec<_> = story.values().cloned().collect();
    assert_eq!(
        stories,
        [
            full.to_vec(),
            full.to_vec(),
            full.to_vec(),
            vec!["DECLARED", "VALIDATED", "AUTHORIZED", "EXECUTING", "ROLLED_BACK"],
            vec!["DECLARED", "VALIDATED", "DENIED"],
            vec!["DECLARED", "FAILED"],
            vec!["DECLARED", "VALIDATED", "AUTHORIZED", "EXECUTING", "ABORTED", "ROLLED_BACK"],
        ]
    );
    // An event's id is the hash of its entry, and its hashes are those of what went in and out.
    let completed = events.iter().find(|event| event["state"] == "COMPLETED").unwrap();
    let id = completed["executionId"].as_str().unwrap();
    let shown = bench.json(&["execution", "show", id]).ok().json();
    let last = shown["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["hash"], completed["eventId"]);
    assert_eq!(shown["call"]["input"]["digest"], completed["inputHash"]);
    let canonical = countersign_model::Digest::of(br#"{"text":"x"}"#).to_string();
    assert_eq!(completed["inputHash"], json!(canonical), "SHA-256 of the canonical input");

    let count = |args: &[&str]| {
        let listed = bench.json(&[&["audit", "list"], args].concat()).ok().json();
        listed.as_array().unwrap().len()
    };
    assert_eq!(count(&["--state", "DENIED"]), 1);
    assert_eq!(count(&["--state", "COMPLETED", "--tool", "text.digest"]), 1);
    assert_eq!(count(&["--limit", "4"]), 4);
    assert_eq!(count(&["--until", "1h"]), 0);
    assert_eq!(count(&["--principal", "agent:b"]), 0);
    let person = bench.run(&["audit", "list"]).ok().stdout;
    assert_eq!(person.lines().count(), events.len());
}

/// An export, its key, and an empty machine to verify it on.
struct Outside {
    dir: tempfile::TempDir,
    lines: Vec<String>,
}

impl Outside {
    fn of(bench: &Bench, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = bench.dir().join("export.jsonl").display().to_string();
        bench.run(&[&["audit", "export", &file], args].concat()).ok();
        let lines = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        let key = bench.run(&["audit", "key"]).ok().stdout;
        fs::write(dir.path().join("key"), key).unwrap();
        Outside { dir, lines }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs with an empty environment, in a directory that holds the files and nothing else.
    fn run(&self, args: &[&str]) -> Output {
        output(Command::new(BIN).env_clear().current_dir(self.path()).args(args))
    }

    fn verify(&self, content: impl AsRef<[u8]>) -> Output {
        fs::write(self.path().join("export"), content).unwrap();
        self.run(&["--json", "audit", "verify", "--file", "export", "--key", "key"])
    }

    fn text(&self) -> String {
        joined(&self.lines)
    }
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn an_export_verifies_on_a_machine_without_a_home() {
    let bench = busy();
    let size = bench.verify()["size"].as_u64().unwrap();
    let outside = Outside::of(&bench, &[]);
    let verified = outside.verify(outside.text()).ok().json();
    assert_eq!((&verified["ok"], &verified["first"]), (&json!(true), &json!(0)));
    assert_eq!((&verified["end"], &verified["size"]), (&json!(size), &json!(size)));
    assert_eq!(verified["root"], bench.verify()["root"]);
    let person = outside.run(&["audit", "verify", "--file", "export", "--key", "key"]).ok();
    assert!(person.stdout.starts_with(&format!("verified {size} entries, 0 to ")), "{person:#?}");
    let left: Vec<_> =
        fs::read_dir(outside.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "verification leaves nothing behind: {left:?}");

    // The key may be given as it is, and a range needs no more than the whole.
    let key = fs::read_to_string(outside.path().join("key")).unwrap();
    outside.run(&["audit", "verify", "--file", "export", "--key", key.trim()]).ok();
    let last = (size - 1).to_string();
    for (from, to) in [("0", "1"), ("3", "9"), ("5", "5"), (last.as_str(), last.as_str())] {
        let range = Outside::of(&bench, &["--from", from, "--to", to]);
        let verified = range.verify(range.text()).ok().json();
        assert_eq!(verified["first"].to_string(), from);
        assert_eq!(verified["end"].to_string(), to);
    }
    // Standard output carries the same bytes as the file.
    let piped = bench.run(&["audit", "export", "-"]).ok().stdout;
    assert_eq!(piped, outside.text());
    let too_far = (size + 1).to_string();
    bench.json(&["audit", "export", "x", "--to", &too_far]).fails(2, "RANGE_INVALID");
    bench.json(&["audit", "export", "x", "--from", "2", "--to", "1"]).fails(2, "RANGE_INVALID");
    bench.json(&["audit", "export", "no/such/place"]).fails(2, "FILE_UNWRITABLE");
    assert!(!bench.ws().join("x").exists());
    assert_eq!(fs::read_dir(bench.ws()).unwrap().count(), 2, "no half-written file is left");
}

#[test]
fn every_kind_of_tampering_is_found_and_named() {
    let bench = busy();
    let outside = Outside::of(&bench, &[]);
    let honest = &outside.lines;
    let count = honest.len() - 1;
    // Line n holds entry n - 1.
    let line = |entry: usize| entry + 1;
    let found = |what: &str, text: String, entries: &[usize]| {
        let output = outside.verify(text);
        assert_eq!(output.code, 2, "{what}: {output:#?}");
        let error = output.fails(2, "AUDIT_FAILED");
        let named = error["details"]["entry"].as_u64().map(|entry| entry as usize);
        let expected: Vec<_> = entries.iter().copied().map(Some).collect();
        assert!(
            expected.contains(&named) || (entries.is_empty() && named.is_none()),
            "{what}: {error}"
        );
        if let Some(entry) = named {
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(&entry.to_string()), "{what}: {message}");
        }
    };
    for entry in [0, 1, 4, count / 2, count - 2, count - 1] {
        let mut lines = honest.clone();
        let text = &mut lines[line(entry)];
        let at = text.find("\"time\":").unwrap() + 8;
        let digit = if &text[at..=at] == "7" { "8" } else { "7" };
        text.replace_range(at..=at, digit);
        found("a changed byte", joined(&lines), &[entry]);

        let mut lines = honest.clone();
        lines.remove(line(entry));
        found("a removed entry", joined(&lines), &[entry]);

        let mut lines = honest.clone();
        let again = lines[line(entry)].clone();
        lines.insert(line(entry), again);
        found("an inserted entry", joined(&lines), &[entry + 1]);

        let mut lines = honest.clone();
        lines[line(entry)] = "{}".to_owned();
        found("a replaced entry", joined(&lines), &[entry]);
    }
    for entry in [1, count / 2, count - 2] {
        let mut lines = honest.clone();
        lines.swap(line(entry), line(entry + 1));
        found("reordered entries", joined(&lines), &[entry]);
    }
    for kept in [1, count / 2, count - 1] {
        found("a truncated tail", joined(&honest[..line(kept)]), &[kept]);
    }
    let text = outside.text();
    found("a cut last line", text[..text.len() - 1].to_owned(), &[count - 1]);
    found("half a last line", text[..text.len() - 40].to_owned(), &[count - 1]);
    found("something after the end", format!("{text}x"), &[count]);
    found("an entry after the end", format!("{text}{}\n", honest[line(count - 1)]), &[count]);
    found("an empty file", String::new(), &[]);
    found("no header", joined(&honest[1..]), &[]);
    found("another file", "hello\n".to_owned(), &[]);
    found("a rewritten header", text.replacen("{\"format\"", "{ \"format\"", 1), &[]);
    found("another format", text.replacen("journal/1", "journal/2", 1), &[]);
}

#[test]
fn a_forged_checkpoint_and_a_wrong_key_are_found() {
    let bench = busy();
    let outside = Outside::of(&bench, &[]);
    let mut header: Value = serde_json::from_str(&outside.lines[0]).unwrap();
    let size = (outside.lines.len() - 1).to_string();
    let honest = header["checkpoint"].as_str().unwrap().to_owned();
    let smaller = honest.replacen(&format!("\n{size}\n"), "\n3\n", 1);
    assert_ne!(smaller, honest);
    let other_home = Bench::new();
    other_home.call("text.digest", &json!({"text": "x"})).ok();
    let foreign = other_home.run(&["audit", "checkpoint"]).ok().stdout;
    let unsigned = honest.split("\n\n").next().unwrap().to_owned() + "\n\n";
    for (what, checkpoint) in [("smaller", smaller), ("foreign", foreign), ("unsigned", unsigned)] {
        header["checkpoint"] = json!(checkpoint);
        let mut lines = outside.lines.clone();
        // Only the checkpoint changes; the order of the members stays.
        lines[0] = lines[0].replacen(
            &serde_json::to_string(&honest).unwrap(),
            &serde_json::to_string(&checkpoint).unwrap(),
            1,
        );
        let output = outside.verify(joined(&lines));
        assert_eq!(output.code, 2, "{what}: {output:#?}");
        output.fails(2, "AUDIT_FAILED");
    }
    let other_key = other_home.run(&["audit", "key"]).ok().stdout;
    outside.verify(outside.text()).ok();
    fs::write(outside.path().join("other"), other_key).unwrap();
    let verify = ["--json", "audit", "verify", "--file", "export", "--key"];
    outside.run(&[&verify[..], &["other"]].concat()).fails(2, "AUDIT_FAILED");
    fs::write(outside.path().join("other"), "not a key").unwrap();
    let error = outside.run(&[&verify[..], &["other"]].concat()).fails(2, "KEY_INVALID");
    assert!(error["hint"].as_str().unwrap().contains("audit key"), "{error}");
    outside.run(&[&verify[..], &["a+b+c"]].concat()).fails(2, "KEY_INVALID");
    outside.run(&[&verify[..], &["nowhere"]].concat()).fails(2, "FILE_UNREADABLE");
    // A whole journal of another home, internally sound, is not this one.
    let theirs = Outside::of(&other_home, &[]);
    outside.verify(theirs.text()).fails(2, "AUDIT_FAILED");
}

#[test]
fn a_proof_shows_one_entry_and_nothing_else() {
    let bench = busy();
    let outside = Outside::of(&bench, &[]);
    let count = outside.lines.len() - 1;
    for seq in 0..count {
        let proof = bench.run(&["audit", "prove", &seq.to_string()]).ok().stdout;
        let verified = outside.verify(&proof).ok().json();
        assert_eq!((&verified["first"], &verified["end"]), (&json!(seq), &json!(seq + 1)));
    }
    let file = bench.dir().join("proof.json").display().to_string();
    bench.run(&["audit", "prove", "last", "--out", &file]).ok();
    let text = fs::read_to_string(&file).unwrap();
    let proof: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(proof["seq"], count - 1, "the last call's last entry");
    let last = bench.json(&["execution", "show", "last"]).ok().json();
    let id = last["call"]["execution"].as_str().unwrap();
    assert_eq!(bench.run(&["audit", "prove", id]).ok().stdout, text);
    assert_eq!(bench.json(&["audit", "prove", id]).ok().stdout, text, "it is JSON already");

    let entry = proof["entry"].as_str().unwrap();
    let changed = entry.replacen("ROLLED", "ROLLEX", 1).replacen("big.txt", "bag.txt", 1);
    assert_ne!(changed, entry);
    let forged = text.replacen(
        &serde_json::to_string(entry).unwrap(),
        &serde_json::to_string(&changed).unwrap(),
        1,
    );
    let error = outside.verify(forged).fails(2, "AUDIT_FAILED");
    assert_eq!(error["details"]["entry"], count - 1, "{error}");
    outside.verify(format!("{text}{text}")).fails(2, "AUDIT_FAILED");
    outside.verify(text.trim_end()).fails(2, "AUDIT_FAILED");
    bench.json(&["audit", "prove", "99999"]).fails(2, "ENTRY_UNKNOWN");
    bench.json(&["audit", "prove", "never"]).fails(2, "ID_INVALID");
}

#[test]
fn an_older_checkpoint_finds_a_journal_that_was_cut_back_or_rewritten() {
    let bench = busy();
    let keep = |name: &str, bench: &Bench| {
        let path = bench.dir().join(name);
        fs::write(&path, bench.run(&["audit", "checkpoint"]).ok().stdout).unwrap();
        path.display().to_string()
    };
    let old = keep("old", &bench);
    let copy = bench.dir().join("backup");
    let copied = Command::new("cp").arg("-r").arg(bench.home()).arg(&copy).status().unwrap();
    assert!(copied.success());
    bench.call("text.digest", &json!({"text": "more"})).ok();
    let new = keep("new", &bench);
    bench.run(&["audit", "verify", "--checkpoint", &old, "--checkpoint", &new]).ok();
    let outside = Outside::of(&bench, &[]);
    outside.verify(outside.text()).ok();
    let verify = ["--json", "audit", "verify", "--file", "export", "--key", "key", "--checkpoint"];
    outside.run(&[&verify[..], &[&old]].concat()).ok();

    // The older state of the home is sound by itself, but it is not the continuation.
    let copy = copy.display().to_string();
    bench.run(&["--home", &copy, "audit", "verify", "--checkpoint", &old]).ok();
    let cut = bench.json(&["--home", &copy, "audit", "verify", "--checkpoint", &new]);
    let error = cut.fails(70, "AUDIT_FAILED");
    assert!(error["message"].as_str().unwrap().contains("cut off"), "{error}");
    // Going on from the older state makes a fork.
    for _ in 0..2 {
        bench.json(&["--home", &copy, "call", "text.digest", "--input", r#"{"text":"fork"}"#]).ok();
    }
    let forked = bench.json(&["--home", &copy, "audit", "verify", "--checkpoint", &new]);
    let error = forked.fails(70, "AUDIT_FAILED");
    assert!(error["message"].as_str().unwrap().contains("rewritten"), "{error}");
    let missing = bench.json(&["audit", "verify", "--checkpoint", "nowhere"]);
    missing.fails(2, "FILE_UNREADABLE");
    bench.write("junk", "junk");
    let junk = bench.json(&["audit", "verify", "--checkpoint", "junk"]);
    assert_ne!(junk.code, 0, "{junk:#?}");
    // One entry cannot show what the journal continues.
    fs::write(outside.path().join("export"), bench.run(&["audit", "prove", "1"]).ok().stdout)
        .unwrap();
    outside.run(&[&verify[..], &[&old]].concat()).fails(2, "AUDIT_FAILED");
}

#[test]
fn checkpoint_key_and_show_say_the_same_to_people_and_programs() {
    let bench = busy();
    let person = bench.run(&["audit", "checkpoint"]).ok().stdout;
    let program = bench.json(&["audit", "checkpoint"]).ok().json();
    assert_eq!(program["checkpoint"].as_str().unwrap(), person);
    assert_eq!(person.lines().nth(1).unwrap(), program["size"].to_string());
    let key = bench.run(&["audit", "key"]).ok().stdout;
    assert_eq!(program["key"].as_str().unwrap(), key.trim_end());
    let public = fs::read_to_string(bench.home().join("state/keys/journal.pub")).unwrap();
    assert_eq!(public, key);
    let first = bench.json(&["audit", "show", "0"]).ok().json();
    let created = &first["entry"]["fact"]["home"]["created"];
    assert_eq!(created["journalKey"].as_str().unwrap(), key.trim_end(), "{first}");
    let next = bench.json(&["audit", "show", "1"]).ok().json();
    assert_eq!(next["entry"]["prev"], first["hash"]);
    let shown = bench.run(&["audit", "show", "1"]).ok().stdout;
    assert!(shown.contains("about grant") && shown.contains(first["hash"].as_str().unwrap()));
    let error = bench.json(&["audit", "show", "9999"]).fails(2, "ENTRY_UNKNOWN");
    assert!(error["hint"].as_str().unwrap().contains("numbered 0 to "), "{error}");
    bench.json(&["audit", "show", "18446744073709551615"]).fails(2, "ENTRY_UNKNOWN");
}

/// Each change is made to a fresh copy of one home.
#[test]
fn a_home_that_was_tampered_with_names_the_entry() {
    let bench = busy();
    let size = bench.verify()["size"].as_u64().unwrap();
    let tamper = |what: &str, sql: &str, entry: Option<u64>| {
        let copy = bench.dir().join("copy");
        let _ = fs::remove_dir_all(&copy);
        let copied = Command::new("cp").arg("-r").arg(bench.home()).arg(&copy).status().unwrap();
        assert!(copied.success());
        let database = Connection::open(copy.join("state/journal.db")).unwrap();
        database.execute_batch(sql).unwrap_or_else(|e| panic!("{what}: {e}"));
        drop(database);
        let copy = copy.display().to_string();
        let output = bench.json(&["--home", &copy, "audit", "verify"]);
        assert_eq!(output.code, 70, "{what}: {output:#?}");
        let error = output.json()["error"].clone();
        assert_eq!(error["class"], "StateError", "{what}");
        if let Some(entry) = entry {
            assert_eq!(error["code"], "AUDIT_FAILED", "{what}: {error}");
            assert_eq!(error["details"]["entry"], entry, "{what}: {error}");
            assert!(
                error["message"].as_str().unwrap().contains(&entry.to_string()),
                "{what}: {error}"
            );
            assert!(error["hint"].as_str().unwrap().contains("backup"), "{what}");
        }
        let person = bench.run(&["--home", &copy, "audit", "verify"]);
        assert_eq!(person.code, 70, "{what}");
        assert!(person.stderr.starts_with("error: "), "{what}: {}", person.stderr);
    };
    let edit = |seq: u64| {
        format!(
            "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), '\"seq\":{seq}', '\"seq\":{seq}0') AS BLOB) WHERE seq = {seq}"
        )
    };
    tamper("a changed entry", &edit(5), Some(5));
    tamper("a changed first entry", &edit(0), Some(0));
    let touch = |seq: u64| {
        format!(
            "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'agent:a', 'agent:b') AS BLOB) WHERE seq = {seq}"
        )
    };
    // Entry 3 names the policies, entry 4 is the first call's declaration, and names the caller.
    tamper("another caller", &touch(4), Some(4));
    let half = size / 2;
    tamper("a removed entry", &format!("DELETE FROM entries WHERE seq = {half}"), Some(half));
    tamper(
        "a removed tail",
        &format!("DELETE FROM entries WHERE seq >= {}", size - 2),
        Some(size - 2),
    );
    let swap = format!(
        "UPDATE entries SET seq = -1 WHERE seq = {half}; UPDATE entries SET seq = {half} WHERE seq = {half} + 1; UPDATE entries SET seq = {half} + 1 WHERE seq = -1"
    );
    tamper("swapped entries", &swap, Some(half));
    tamper("an emptied journal", "DELETE FROM entries", Some(0));
    tamper("a smaller head", &format!("UPDATE head SET size = {}", size - 1), None);
    tamper("a larger head", &format!("UPDATE head SET size = {}", size + 1), None);
    tamper(
        "a forged checkpoint",
        "UPDATE head SET checkpoint = substr(checkpoint, 1, length(checkpoint) - 9) || 'forged=='
         || char(10)",
        None,
    );
    tamper("no head", "DELETE FROM head", None);
    tamper(
        "a cached ending",
        "UPDATE calls SET state = 'COMPLETED', summary = CAST(replace(CAST(summary AS TEXT), 'DENIED', 'COMPLETED') AS BLOB) WHERE state = 'DENIED'",
        None,
    );
    tamper("a forgotten call", "DELETE FROM calls WHERE state = 'DENIED'", None);
    tamper("a forgotten table", "DROP TABLE entries", None);
}

/// A list that cannot be finished does not look finished.
#[test]
fn a_damaged_journal_gives_no_half_list() {
    let bench = busy();
    let database = Connection::open(bench.home().join("state/journal.db")).unwrap();
    database.execute_batch("UPDATE entries SET body = 'x' WHERE seq = 6").unwrap();
    database.execute_batch("UPDATE calls SET summary = 'x' WHERE state = 'DENIED'").unwrap();
    drop(database);
    for args in
        [&["audit", "list"][..], &["execution", "list"], &["stats"], &["audit", "show", "6"]]
    {
        let output = bench.json(args);
        output.fails(70, "JOURNAL_CORRUPT");
        let person = bench.run(args);
        assert_eq!(person.code, 70, "{args:?}");
        assert!(person.stderr.contains("[JOURNAL_CORRUPT]"), "{args:?}: {}", person.stderr);
    }
    bench.json(&["audit", "verify"]).fails(70, "AUDIT_FAILED");
}

/// Once a part of a long list is out, a failure cuts it: it does not parse, and stderr says why.
#[test]
fn a_long_list_that_cannot_be_finished_is_cut() {
    let bench = Bench::new();
    let host = countersign_host::Host::open(&bench.home()).unwrap();
    for number in 0..200 {
        let input = json!({"text": number.to_string()}).to_string().into_bytes();
        let (tool, by) = ("text.digest".parse().unwrap(), "agent:a".parse().unwrap());
        let outcome = host.call(countersign_host::CallCommand::new(tool, input, by));
        outcome.unwrap().result.unwrap();
    }
    drop(host);
    let whole = bench.json(&["audit", "list"]).ok();
    assert!(whole.stdout.len() > 100_000, "longer than what is held back, and more than a page");
    assert_eq!(whole.json().as_array().unwrap().len(), 1000);
    let size = bench.verify()["size"].as_u64().unwrap();
    let database = Connection::open(bench.home().join("state/journal.db")).unwrap();
    let damage = "UPDATE entries SET body = 'x' WHERE seq = ?1";
    database.execute(damage, [size - 4]).unwrap();
    drop(database);
    let cut = bench.json(&["audit", "list"]);
    assert_eq!(cut.code, 70);
    assert!(serde_json::from_str::<Value>(&cut.stdout).is_err(), "it must not look whole");
    assert!(cut.stderr.contains("[JOURNAL_CORRUPT]"), "{}", cut.stderr);
}
