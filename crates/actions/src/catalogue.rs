//! Which actions there are, and what each declares about itself.

use std::sync::Arc;

use countersign_host::builtin;
use countersign_host::config::ActionsConfig;
use countersign_host::registry::Handlers;
use countersign_host::tool::{NativeTool, Repeats};
use countersign_model::{Declaration, Failure, ResourceLimits, SandboxMode, ToolId};

use crate::{apply, bundle, checks, commit, context, diff, push, put, summary};

/// How long an action may take; how long that is stands in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Fast,
    Medium,
    Long,
}

impl Class {
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::Fast => "fast",
            Class::Medium => "medium",
            Class::Long => "long",
        }
    }

    pub fn millis(self, config: &ActionsConfig) -> u64 {
        let seconds = match self {
            Class::Fast => config.fast_sec,
            Class::Medium => config.medium_sec,
            Class::Long => config.long_sec,
        };
        u64::from(seconds) * 1000
    }
}

/// One action of the contract.
#[derive(Debug)]
pub struct Action {
    pub name: &'static str,
    pub class: Class,
    /// What it needs at least to do its work.
    pub mode: SandboxMode,
    /// Artifacts that it leaves.
    pub outputs: &'static [&'static str],
    /// Places in its input that name artifacts.
    pub(crate) references: &'static [&'static str],
    /// The output that says whether it went well, and what it is called if it did not.
    pub(crate) verdict: Option<&'static str>,
    declaration: &'static str,
    tool: fn() -> Arc<dyn NativeTool>,
}

macro_rules! action {
    ($name:literal, $file:literal, $class:ident, $mode:ident, $outputs:expr, $references:expr,
     $verdict:expr, $tool:expr) => {
        Action {
            name: $name,
            class: Class::$class,
            mode: SandboxMode::$mode,
            outputs: &$outputs,
            references: &$references,
            verdict: $verdict,
            declaration: include_str!(concat!("../declarations/action.", $file, ".json")),
            tool: || Arc::new($tool),
        }
    };
}

pub const ACTIONS: &[Action] = &[
    action!(
        "build_context_pack",
        "build-context-pack",
        Fast,
        ReadOnly,
        ["context_pack", "context_pack.txt"],
        [],
        None,
        context::BuildContextPack
    ),
    action!(
        "apply_patch",
        "apply-patch",
        Medium,
        WorkspaceWrite,
        ["patch_applied"],
        ["patch"],
        None,
        apply::ApplyPatch
    ),
    action!(
        "run_linters",
        "run-linters",
        Long,
        ReadOnly,
        ["lint_report", "lint_log"],
        [],
        Some("LINT_FAILED"),
        checks::RunLinters
    ),
    action!(
        "run_tests",
        "run-tests",
        Long,
        ReadOnly,
        ["test_report", "test_log"],
        [],
        Some("TESTS_FAILED"),
        checks::RunTests
    ),
    action!(
        "generate_diff_report",
        "generate-diff-report",
        Medium,
        ReadOnly,
        ["diff_report", "diff.patch", "diff.txt", "diff.html"],
        [],
        None,
        diff::GenerateDiffReport
    ),
    action!(
        "prepare_review_bundle",
        "prepare-review-bundle",
        Medium,
        ReadOnly,
        ["review_bundle"],
        ["artifacts"],
        None,
        bundle::PrepareReviewBundle
    ),
    action!(
        "summarize_run",
        "summarize-run",
        Fast,
        ReadOnly,
        ["summary", "summary.md"],
        [],
        None,
        summary::SummarizeRun
    ),
    action!(
        "commit_changes",
        "commit-changes",
        Medium,
        RepoWrite,
        ["commit"],
        [],
        None,
        commit::CommitChanges
    ),
    action!("push_branch", "push-branch", Medium, RepoWrite, [], [], None, push::PushBranch),
    action!("put_artifact", "put-artifact", Medium, ReadOnly, [], [], None, put::PutArtifact),
];

/// The action of this name.
pub fn find(name: &str) -> Result<&'static Action, Failure> {
    ACTIONS.iter().find(|action| action.name == name).ok_or_else(|| {
        let known: Vec<_> = ACTIONS.iter().map(|action| action.name).collect();
        let message = format!("there is no action `{}`", name.escape_debug());
        Failure::validation("ACTION_UNKNOWN", message)
            .hint(format!("there are {}", known.join(", ")))
    })
}

/// The action behind a tool, if it is one.
pub fn by_tool(tool: &ToolId) -> Option<&'static Action> {
    ACTIONS.iter().find(|action| action.tool_id().is_ok_and(|id| id == *tool))
}

impl Action {
    pub fn tool_id(&self) -> Result<ToolId, Failure> {
        format!("action.{}", self.name.replace('_', "-")).parse()
    }

    pub fn repeats(&self) -> Repeats {
        (self.tool)().repeats()
    }

    /// What it declares, with the limits of this home.
    pub fn declaration(&self, config: &ActionsConfig) -> Result<Declaration, Failure> {
        let declared = Declaration::parse(self.declaration.as_bytes()).map_err(|findings| {
            let first = findings.first().map(|finding| finding.message.clone());
            let message = format!("{}: {}", self.name, first.unwrap_or_default());
            Failure::state("INTERNAL", message)
        })?;
        let resource_limits = ResourceLimits {
            max_execution_time: self.class.millis(config),
            max_memory: 1 << 30,
            ..declared.resource_limits
        };
        Ok(Declaration { resource_limits, ..declared })
    }
}

/// Everything that is built in: the tools of every home, and the actions.
pub fn handlers(config: &ActionsConfig) -> Result<Handlers, Failure> {
    ACTIONS.iter().try_fold(builtin::handlers(), |handlers, action| {
        Ok(handlers.with_tool(action.declaration(config)?, (action.tool)()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_declared_under_its_own_name() {
        let config = ActionsConfig::default();
        for action in ACTIONS {
            let declared = action.declaration(&config).unwrap();
            assert_eq!(declared.id, action.tool_id().unwrap(), "{}", action.name);
            let idempotent = action.repeats() == Repeats::Idempotent;
            assert_eq!(declared.idempotent, idempotent, "{}", action.name);
            let (limits, class) = (declared.resource_limits, action.class);
            assert_eq!(limits.max_execution_time, class.millis(&config), "{}", action.name);
        }
    }

    #[test]
    fn an_unknown_action_is_an_error_that_names_the_others() {
        let failure = find("run_everything").unwrap_err();
        assert_eq!(failure.code, "ACTION_UNKNOWN");
        assert!(failure.hint.unwrap().contains("run_tests"));
    }
}
