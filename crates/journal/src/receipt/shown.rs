//! Whether values that people or policies went by are about this very call.

use countersign_model::approval::Subject;
use countersign_model::event::{Asked, Declared};
use countersign_model::{CallFacts, Decision, ExecutionId};

pub(super) fn facts_fit(bytes: &[u8], declared: &Declared) -> Result<CallFacts, String> {
    let facts: CallFacts = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match contradiction(&facts, declared) {
        Some(what) => Err(format!("{what} is not that of the call")),
        None => Ok(facts),
    }
}

fn contradiction(facts: &CallFacts, declared: &Declared) -> Option<&'static str> {
    let tool = &facts.tool;
    let pairs = [
        (facts.principal != declared.principal || facts.chain != declared.chain, "who asks"),
        (tool.id != declared.tool || tool.version != declared.version, "the tool"),
        (tool.declaration != declared.declaration, "the declaration"),
        (tool.files != declared.files, "the tool's files"),
        (facts.mode != declared.mode || facts.toolset != declared.toolset, "the mode or toolset"),
    ];
    pairs.into_iter().find_map(|(differs, what)| differs.then_some(what))
}

pub(super) fn shown_fits(
    bytes: &[u8],
    execution: ExecutionId,
    declared: &Declared,
    asked: &Asked,
) -> Result<(), String> {
    let shown: Subject = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let verdict = &shown.verdict;
    let pairs = [
        (shown.execution != execution, "the execution"),
        (shown.input != declared.input, "the input"),
        (shown.expires_at != asked.expires_at, "the time to answer"),
        (verdict.decision != Decision::RequireApproval, "the verdict"),
        (verdict.approvers.max(1) != asked.approvers, "the number of people"),
    ];
    let differs = pairs.into_iter().find_map(|(differs, what)| differs.then_some(what));
    match differs.or_else(|| contradiction(&shown.facts, declared)) {
        Some(what) => Err(format!("approvers were shown something else: {what} differs")),
        None => Ok(()),
    }
}
