//! A whole run through the library: from a patch to a published commit and a verified bundle.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where it fails"
)]

mod common;

use common::{Bench, git};
use countersign_actions::{Status, bundle};
use countersign_model::SandboxMode;
use serde_json::json;

const PATCH: &str =
    "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n";

#[test]
fn a_run_from_patch_to_published_commit() {
    let bench = Bench::new();
    let repository = bench.repository();
    let before = git(&repository, &["rev-parse", "HEAD"]);
    bench.put("run_1", "fix.patch", PATCH);
    let applied = bench.run("apply_patch", json!({"patch": "fix.patch"}));
    assert_eq!(applied.status, Status::Success, "{applied:#?}");
    assert_eq!(
        std::fs::read_to_string(repository.join("src/lib.rs")).unwrap(),
        "one\ntwo\nthree\n"
    );

    let diff = bench.run("generate_diff_report", json!({}));
    assert_eq!(diff.status, Status::Success, "{diff:#?}");
    assert!(String::from_utf8(bench.artifact(&diff, "diff.patch")).unwrap().contains("+zwei"));
    let again = bench.run("generate_diff_report", json!({}));
    assert_eq!((again.status, again.replayed_from), (Status::Replayed, diff.execution_id));
    assert_eq!(again.artifacts, diff.artifacts);

    let pack = bench.run("build_context_pack", json!({"task": "look", "token_budget": 4000}));
    assert_eq!(pack.status, Status::Success, "{pack:#?}");

    let tree = bench.tree("run_1");
    let inputs =
        json!({"message": "say it in German", "paths": ["src/lib.rs"], "expected_tree": tree});
    let blocked = bench.run("commit_changes", inputs.clone());
    assert_eq!(blocked.status, Status::Blocked, "{blocked:#?}");
    let mode = Some(SandboxMode::RepoWrite);
    let done = bench.run_in("run_1", "commit_changes", inputs.clone(), mode);
    assert_eq!(done.status, Status::Success, "{done:#?}");
    let tip = git(&repository, &["rev-parse", "countersign/run_1"]);
    assert_eq!(done.output.as_ref().unwrap()["commit"], json!(tip));
    let told = git(&repository, &["log", "-1", "--format=%P %B", "countersign/run_1"]);
    assert!(told.starts_with(&before) && told.contains("Countersign-Run: run_1"), "{told}");
    assert_eq!(git(&repository, &["status", "--porcelain"]), "");
    let twice = bench.run_in("run_1", "commit_changes", inputs, mode);
    assert_eq!((twice.status, twice.replayed_from), (Status::Replayed, done.execution_id));
    assert_eq!(git(&repository, &["rev-parse", "countersign/run_1"]), tip);

    let first = bench.run("summarize_run", json!({}));
    let second = bench.run("summarize_run", json!({}));
    assert_eq!(bench.artifact(&first, "summary"), bench.artifact(&second, "summary"));
    assert_eq!(bench.artifact(&first, "summary.md"), bench.artifact(&second, "summary.md"));

    let bundled = bench.run("prepare_review_bundle", json!({}));
    assert_eq!(bundled.status, Status::Success, "{bundled:#?}");
    let bytes = bench.artifact(&bundled, "review_bundle");
    let key = bench.host.home().journal_key.verifier().clone();
    let verified = bundle::verify(bytes.as_slice(), &key).unwrap();
    assert!(verified.is_whole(), "{:#?}", verified.problems);
    assert_eq!(verified.manifest.tree, tree);
    assert!(verified.receipts >= 5);
}
