//! A home is sound only if its tables of workspaces, runs and artifacts say what its journal says.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where it fails"
)]

mod common;

use common::Bench;
use countersign_actions::Status;
use countersign_host::Home;
use countersign_host::home::Layout;
use countersign_host::inspect::verify_home;
use countersign_model::{Failure, SandboxMode};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

const PATCH: &str =
    "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n";

/// A home in which a run put an artifact, used it, committed, and did something twice.
fn lived_in() -> TempDir {
    let bench = Bench::new();
    bench.put("run_1", "fix.patch", PATCH);
    bench.run("apply_patch", json!({"patch": "fix.patch"}));
    bench.run("generate_diff_report", json!({}));
    assert_eq!(bench.run("generate_diff_report", json!({})).status, Status::Replayed);
    let tree = bench.tree("run_1");
    let inputs = json!({"message": "m", "paths": ["src/lib.rs"], "expected_tree": tree});
    let mode = Some(SandboxMode::RepoWrite);
    let done = bench.run_in("run_1", "commit_changes", inputs, mode);
    assert_eq!(done.status, Status::Success, "{done:#?}");
    bench.dir
}

fn inspect(dir: &TempDir) -> Result<(), String> {
    let home = Home::open_for_inspection(&dir.path().join("home")).unwrap();
    verify_home(&home, &[], |_| {}).map(drop).map_err(|unsound| Failure::from(unsound).message)
}

#[test]
fn an_edited_table_is_named() {
    let dir = lived_in();
    let journal = Layout(&dir.path().join("home")).journal();
    assert_eq!(inspect(&dir), Ok(()));
    let whole = std::fs::read(&journal).unwrap();
    for (sql, named) in [
        ("DELETE FROM workspaces", "workspaces"),
        (
            "UPDATE workspaces SET body =
             CAST(replace(CAST(body AS TEXT), 'main', 'evil') AS BLOB)",
            "workspaces",
        ),
        ("DELETE FROM run_calls", "run `run_1`"),
        ("INSERT INTO run_calls SELECT 'run_2', call FROM run_calls LIMIT 1", "the number"),
        ("DELETE FROM artifacts WHERE name = 'diff.patch'", "the number"),
        ("UPDATE artifacts SET name = 'other' WHERE name = 'fix.patch'", "listed as"),
        ("UPDATE artifacts SET run = 'run_2' WHERE name = 'fix.patch'", "listed as"),
        (
            "UPDATE artifacts SET body =
             CAST(replace(CAST(body AS TEXT), 'text/x-diff', 'text/html') AS BLOB)",
            "artifact art_",
        ),
        ("DELETE FROM consumers", "calls that used"),
        ("INSERT INTO consumers SELECT 'art_x', call FROM consumers", "the number"),
        ("DELETE FROM keyed", "known to be done"),
        ("INSERT INTO keyed SELECT zeroblob(32), call FROM keyed LIMIT 1", "the number"),
        ("UPDATE keyed SET call = zeroblob(16)", "known to be done"),
    ] {
        std::fs::write(&journal, &whole).unwrap();
        let raw = Connection::open(&journal).unwrap();
        raw.execute_batch(sql).unwrap();
        drop(raw);
        let said = inspect(&dir).expect_err(sql);
        assert!(said.contains(named), "{sql}: {said}");
    }
}
