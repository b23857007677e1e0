//! What differs between two executions of the same action, written down: everything else must be the
//! same.

use countersign_host::again::{ArtifactRule, Rules};
use countersign_model::ToolId;

/// How long a program ran, and the plan of its box, which names the place where it was laid out.
const COMMANDS: &[&str] = &["/commands/*/duration_ms", "/commands/*/plan"];

/// The same of a check's output, with the digest of a log that tells durations.
const CHECK: &[&str] = &["/commands/*/duration_ms", "/commands/*/plan", "/log_sha256"];

const TOLD: &str = "a log tells how long things took, and what programs say of themselves";

/// What a failing case says in full holds addresses, thread numbers and durations.
const CASES: &[&str] = &[
    "/commands/*/duration_ms",
    "/commands/*/plan",
    "/commands/*/report/cases/*/duration_ms",
    "/commands/*/report/cases/*/details",
];

const TESTS: &[ArtifactRule] = &[
    ArtifactRule { name: "test_report", values: CASES, ..ArtifactRule::EXACT },
    ArtifactRule { name: "test_log", incomparable: Some(TOLD), ..ArtifactRule::EXACT },
];

const LINTS: &[ArtifactRule] = &[
    ArtifactRule { name: "lint_report", values: COMMANDS, ..ArtifactRule::EXACT },
    ArtifactRule { name: "lint_log", incomparable: Some(TOLD), ..ArtifactRule::EXACT },
];

/// Between two runs: when calls were made, how long they took, and what came of that.
const SUMMARY: &[ArtifactRule] = &[
    ArtifactRule {
        name: "summary",
        values_apart: &[
            "/total_ms",
            "/calls/*/declared_at",
            "/calls/*/duration_ms",
            "/calls/*/replayed_from",
            "/calls/*/said",
            "/calls/*/artifacts/*/digest",
            "/calls/*/artifacts/*/size",
        ],
        ..ArtifactRule::EXACT
    },
    ArtifactRule {
        name: "summary.md",
        incomparable_apart: Some("it tells when calls were made and how long they took"),
        ..ArtifactRule::EXACT
    },
];

/// A commit names the call and the moment that it was made at.
const COMMIT: &[ArtifactRule] = &[ArtifactRule {
    name: "commit",
    values_apart: &["/commit", "/parent"],
    ..ArtifactRule::EXACT
}];

/// A bundle holds receipts of calls.
const BUNDLE: &[ArtifactRule] = &[ArtifactRule {
    name: "review_bundle",
    incomparable_apart: Some("it holds receipts, which name calls and moments"),
    ..ArtifactRule::EXACT
}];

/// The rules of an action; of any other tool every value counts.
pub fn rules(tool: &ToolId) -> Rules {
    let exact = Rules::default();
    match tool.as_str() {
        "action.run-tests" => Rules { output: CHECK, artifacts: TESTS, ..exact },
        "action.run-linters" => Rules { output: CHECK, artifacts: LINTS, ..exact },
        "action.summarize-run" => {
            Rules { output_apart: &["/digest"], artifacts: SUMMARY, reads_journal: true, ..exact }
        }
        "action.commit-changes" => {
            Rules { output_apart: &["/commit", "/parent", "/summary"], artifacts: COMMIT, ..exact }
        }
        "action.push-branch" => Rules { output_apart: &["/commit", "/summary"], ..exact },
        "action.prepare-review-bundle" => Rules {
            output_apart: &["/digest", "/manifest", "/size", "/summary"],
            artifacts: BUNDLE,
            reads_journal: true,
            ..exact
        },
        _ => exact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::ACTIONS;

    #[test]
    fn rules_name_only_what_actions_leave() {
        for action in ACTIONS {
            let rules = rules(&action.tool_id().unwrap());
            for rule in rules.artifacts {
                assert!(action.outputs.contains(&rule.name), "{}: {}", action.name, rule.name);
            }
        }
    }
}
