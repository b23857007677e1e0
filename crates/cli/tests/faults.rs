//! A damaged database, a disk that is full and one that cannot be written: a clear error, exit 70,
//! and nothing that was recorded is lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::io::Write;
use std::process::Command;

use common::{BIN, Bench, clean, output};
use rusqlite::Connection;
use serde_json::{Value, json};

fn three_calls(bench: &Bench) {
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    bench.call("file.write", &json!({"path": "a.txt", "content": "x"})).ok();
    bench.call("text.digest", &json!({"text": "x"})).ok();
    bench.call("file.delete", &json!({"path": "a.txt"})).fails(3, "GRANT_MISSING");
}

#[test]
fn a_corrupt_database_is_an_error_and_comes_back_from_a_backup() {
    let bench = Bench::new();
    three_calls(&bench);
    let path = bench.home().join("state/journal.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(database);
    let whole = fs::read(&path).unwrap();
    let mut middle = whole.clone();
    middle[4096..].fill(0x5a);
    let damages: [(&str, Vec<u8>); 4] = [
        ("garbage", b"not a database at all, but long enough to look at".repeat(100)),
        ("empty", Vec::new()),
        ("cut short", whole[..4096].to_vec()),
        ("overwritten behind the first page", middle),
    ];
    for (what, bytes) in damages {
        fs::write(&path, &bytes).unwrap();
        for args in [
            &["call", "text.digest", "--input", r#"{"text":"x"}"#][..],
            &["execution", "list"],
            &["grant", "list"],
            &["audit", "list"],
            &["audit", "verify"],
            &["stats"],
            &["recover"],
        ] {
            let error = bench.json(args).fails(70, "JOURNAL_CORRUPT");
            assert_eq!(error["class"], "StateError", "{what}: {args:?}");
            assert!(error["hint"].as_str().unwrap().contains("backup"), "{what}: {error}");
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "{what}: the evidence is left as it is");
    }
    for name in ["journal.db-wal", "journal.db-shm"] {
        let _ = fs::remove_file(bench.home().join("state").join(name));
    }
    fs::write(&path, &whole).unwrap();
    bench.verify();
    assert_eq!(bench.stats()["executions"], 3);
    bench.call("text.digest", &json!({"text": "on we go"})).ok();
    bench.verify();
}

#[test]
fn a_lost_key_stops_everything() {
    let bench = Bench::new();
    three_calls(&bench);
    let path = bench.home().join("state/keys/journal.key");
    let key = fs::read(&path).unwrap();
    fs::write(&path, "no key").unwrap();
    let error = bench.call("text.digest", &json!({"text": "x"})).fails(70, "JOURNAL_CORRUPT");
    assert!(error["message"].as_str().unwrap().contains("journal.key"), "{error}");
    // Another home's key is a key, but not the one that signed this journal.
    let other = Bench::new();
    fs::copy(other.home().join("state/keys/journal.key"), &path).unwrap();
    let error = bench.call("text.digest", &json!({"text": "x"}));
    assert_eq!(error.code, 70, "{error:#?}");
    fs::write(&path, key).unwrap();
    bench.verify();
    assert_eq!(bench.stats()["executions"], 3);
}

/// Runs a shell script as root of its own namespaces, where it may mount; `None` where the machine
/// does not allow that.
fn in_namespace(script: &str) -> Option<String> {
    let unshare = ["--user", "--map-root-user", "--mount"];
    let allowed = Command::new("unshare")
        .args(unshare)
        .args(["sh", "-c", "mount -t tmpfs -o size=64k none /mnt"])
        .output();
    if !allowed.is_ok_and(|tried| tried.status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: this machine refuses unshare and mount");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = clean(Command::new("unshare"));
    command.args(unshare).args(["sh", "-eu", "-c", script]).current_dir(dir.path());
    command.env("BIN", BIN).env("T", dir.path());
    let ended = output(&mut command);
    assert_eq!(ended.code, 0, "{script}\n{ended:#?}");
    Some(ended.stdout)
}

/// Splits what a script printed into `== name exit` sections with one JSON document each.
fn sections(text: &str) -> Vec<(String, i32, Value)> {
    let parts = text.split("== ").skip(1).map(|part| {
        let (head, body) = part.split_once('\n').unwrap();
        let (name, exit) = head.split_once(' ').unwrap();
        let body = serde_json::from_str(body).unwrap_or_else(|e| panic!("{name}: {e}: {body}"));
        (name.to_owned(), exit.parse().unwrap(), body)
    });
    parts.collect()
}

/// Defines `say NAME ARGS…`: runs the binary and prints its exit code and what it said.
const SAY: &str = r#"
say() {
    name=$1; shift
    code=0; "$BIN" --json "$@" > "$T/said" || code=$?
    echo "== $name $code"; cat "$T/said"
}
digest() { say "$1" call text.digest --input '{"text":"x"}'; }
"#;

#[test]
fn a_full_disk_stops_calls_and_loses_nothing() {
    let script = format!(
        r#"{SAY}
mkdir "$T/disk"
mount -t tmpfs -o size=2m none "$T/disk"
export COUNTERSIGN_HOME="$T/disk/home"
mkdir "$T/disk/ws"; cd "$T/disk/ws"
say init init
say grant grant issue --to human:tester --capability filesystem.read,filesystem.write,state.write --scope '**'
digest first
say write call file.write --root . --input '{{"path":"f.txt","content":"old"}}'
dd if=/dev/zero of="$T/disk/filler" bs=4096 2>/dev/null || true
digest full
say fullwrite call file.write --root . --input '{{"path":"f.txt","content":"new"}}'
say fullput call state.put --input '{{"key":"k","value":1}}'
say fullgrant grant issue --to agent:b --capability state.read --scope k
echo "== content 0"; printf '"%s"\n' "$(cat f.txt)"
rm "$T/disk/filler"
say verify audit verify
say stats stats
digest again
say writeagain call file.write --root . --input '{{"path":"f.txt","content":"new"}}'
say verifyagain audit verify
say grants grant list
"#
    );
    let Some(text) = in_namespace(&script) else { return };
    let said = sections(&text);
    let of = |name: &str| {
        let found = said.iter().find(|(section, ..)| section == name);
        let (_, exit, body) = found.unwrap_or_else(|| panic!("{name}: {text}"));
        (*exit, body)
    };
    for name in [
        "init",
        "grant",
        "first",
        "write",
        "verify",
        "stats",
        "again",
        "writeagain",
        "verifyagain",
        "grants",
    ] {
        assert_eq!(of(name).0, 0, "{name}: {}", of(name).1);
    }
    for name in ["full", "fullwrite", "fullput", "fullgrant"] {
        let (exit, body) = of(name);
        assert_eq!((exit, &body["error"]["code"]), (70, &json!("JOURNAL_FULL")), "{name}: {body}");
        assert!(body["error"]["hint"].as_str().unwrap().contains("free some space"), "{body}");
    }
    assert_eq!(of("content").1, "old");
    assert_eq!(of("stats").1["completed"], 2);
    assert_eq!(of("stats").1["open"], 0);
    assert_eq!(of("grants").1.as_array().unwrap().len(), 3);
}

/// The disk fills up in the middle of work: whatever was said to be done is there.
#[test]
fn a_disk_that_fills_up_keeps_what_was_acknowledged() {
    let script = format!(
        r#"{SAY}
mkdir "$T/disk"
mount -t tmpfs -o size=2m none "$T/disk"
export COUNTERSIGN_HOME="$T/disk/home"
mkdir "$T/disk/ws"; cd "$T/disk/ws"
say init init
say grant grant issue --to human:tester --capability filesystem.read,filesystem.write --scope '**'
content=$(head -c 30000 /dev/zero | tr '\0' x)
for n in $(seq 60); do
    say "write-$n" call file.write --root . --input "{{\"path\":\"$n.txt\",\"content\":\"$n$content\"}}"
done
say files call file.list --root . --input '{{"path":"."}}'
mount -o remount,size=8m "$T/disk"
say recover recover
say verify audit verify
say stats stats
say list call file.list --root . --input '{{"path":"."}}'
"#
    );
    let Some(text) = in_namespace(&script) else { return };
    let said = sections(&text);
    let writes: Vec<_> = said.iter().filter(|(name, ..)| name.starts_with("write-")).collect();
    assert_eq!(writes.len(), 60);
    let done: Vec<_> = writes.iter().filter(|(_, exit, _)| *exit == 0).collect();
    assert!(!done.is_empty() && done.len() < 60, "{} of 60 writes were done", done.len());
    for (name, exit, body) in &writes {
        let code = body["error"]["code"].as_str();
        let fine = match exit {
            0 => code.is_none(),
            // Nothing happened: the journal, or the disk for the contents, is full.
            70 => code == Some("JOURNAL_FULL") || code == Some("JOURNAL_POISONED"),
            5 => code == Some("DISK_FULL"),
            // Committed, and finished by recovery.
            7 => code == Some("PUBLISH_PENDING"),
            _ => false,
        };
        assert!(fine, "{name} {exit}: {body}");
    }
    let of = |wanted: &str| said.iter().find(|(name, ..)| name == wanted).unwrap();
    for name in ["recover", "verify", "stats", "list"] {
        assert_eq!(of(name).1, 0, "{name}: {}", of(name).2);
    }
    let stats = &of("stats").2;
    assert_eq!((&stats["open"], &stats["unknown"]), (&json!(0), &json!(0)), "{stats}");
    let names: Vec<_> = of("list").2["output"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect();
    for (name, ..) in &done {
        let file = format!("{}.txt", name.strip_prefix("write-").unwrap());
        assert!(names.contains(&file), "{file} was acknowledged and is gone");
    }
    assert!(names.iter().all(|name| name.ends_with(".txt")), "{names:?}");
}

#[test]
fn a_home_that_cannot_be_written_says_so() {
    let script = format!(
        r#"{SAY}
mkdir "$T/disk" "$T/ws"
mount -t tmpfs -o size=4m none "$T/disk"
export COUNTERSIGN_HOME="$T/disk/home"
cd "$T/ws"
say init init
say grant grant issue --to human:tester --capability filesystem.read,filesystem.write --scope '**'
digest first
mount -o remount,ro "$T/disk"
digest readonly
say write call file.write --root . --input '{{"path":"f.txt","content":"x"}}'
say issue grant issue --to agent:b --capability state.read --scope k
say stats stats
say list execution list
say verify audit verify
say export audit export "$T/export"
COUNTERSIGN_HOME="$T/disk/other" say other init
mount -o remount,rw "$T/disk"
digest again
say verifyagain audit verify
say statsagain stats
"#
    );
    let Some(text) = in_namespace(&script) else { return };
    let said = sections(&text);
    let of = |name: &str| {
        let found = said.iter().find(|(section, ..)| section == name);
        let (_, exit, body) = found.unwrap_or_else(|| panic!("{name}: {text}"));
        (*exit, body)
    };
    for name in ["readonly", "write", "issue"] {
        let (exit, body) = of(name);
        let code = &body["error"]["code"];
        assert_eq!((exit, code), (70, &json!("JOURNAL_READ_ONLY")), "{name}: {body}");
        assert!(body["error"]["hint"].as_str().unwrap().contains("writable"), "{body}");
    }
    for name in ["stats", "list", "verify", "export"] {
        assert_eq!(of(name).0, 0, "looking needs no write access: {name}: {}", of(name).1);
    }
    assert_eq!((of("other").0, &of("other").1["error"]["code"]), (70, &json!("HOME_UNWRITABLE")));
    for name in ["init", "grant", "first", "again", "verifyagain", "statsagain"] {
        assert_eq!(of(name).0, 0, "{name}: {}", of(name).1);
    }
    assert_eq!(of("statsagain").1["completed"], 2);
    assert_eq!(of("statsagain").1["executions"], 2);
}

#[test]
fn a_workspace_that_cannot_be_written_is_never_a_success() {
    let script = format!(
        r#"{SAY}
mkdir "$T/ws"
export COUNTERSIGN_HOME="$T/home"
mount -t tmpfs -o size=64k none "$T/ws"
cd "$T/ws"
say init init
say grant grant issue --to human:tester --capability filesystem.read,filesystem.write,filesystem.delete --scope '**'
say before call file.write --root . --input '{{"path":"f.txt","content":"old"}}'
dd if=/dev/zero of=filler bs=4096 2>/dev/null || true
say full call file.write --root . --input '{{"path":"g.txt","content":"new"}}'
rm filler
say recover recover
say settled call file.list --root . --input '{{"path":"."}}'
mount -o remount,ro "$T/ws"
say readonly call file.write --root . --input '{{"path":"h.txt","content":"new"}}'
mount -o remount,rw "$T/ws"
say again recover
say list call file.list --root . --input '{{"path":"."}}'
say verify audit verify
say stats stats
"#
    );
    let Some(text) = in_namespace(&script) else { return };
    let said = sections(&text);
    let of = |name: &str| {
        let found = said.iter().find(|(section, ..)| section == name);
        let (_, exit, body) = found.unwrap_or_else(|| panic!("{name}: {text}"));
        (*exit, body)
    };
    // Refused while it can still be refused: before the commit point.
    for (name, code, expected) in [("full", "DISK_FULL", 5), ("readonly", "FILE_FORBIDDEN", 1)] {
        let (exit, body) = of(name);
        assert_eq!((exit, &body["error"]["code"]), (expected, &json!(code)), "{name}: {body}");
        assert_eq!(body["state"], "ROLLED_BACK", "{name}: {body}");
    }
    for name in ["before", "recover", "settled", "again", "list", "verify", "stats"] {
        assert_eq!(of(name).0, 0, "{name}: {}", of(name).1);
    }
    assert_eq!(of("stats").1["open"], 0, "{text}");
}

#[test]
fn output_that_finds_no_room_ends_the_command_and_says_so() {
    let script = format!(
        r#"{SAY}
mkdir "$T/disk"
mount -t tmpfs -o size=2m none "$T/disk"
export TMPDIR="$T/disk"
flood='head -c 8000000 /dev/zero | tr "\\0" x; sleep 100'
say flood sandbox run --may-be-weaker processes -- sh -c "$flood"
say after sandbox run --may-be-weaker processes -- true
echo "== left 0"; ls -A "$T/disk" | wc -l
"#
    );
    let Some(text) = in_namespace(&script) else { return };
    let said = sections(&text);
    let of = |name: &str| said.iter().find(|(section, ..)| section == name).unwrap();
    let (_, exit, flood) = of("flood");
    assert_eq!((*exit, &flood["error"]["code"]), (5, &json!("DISK_FULL")), "{flood:#}");
    assert_eq!(flood["ending"]["kind"], "stopped");
    assert!(flood["usage"]["wallMs"].as_u64().unwrap() < 20_000, "it did not wait for the program");
    assert_eq!(of("after").1, 0, "{}", of("after").2);
    assert_eq!(of("left").2, json!(0));
}
