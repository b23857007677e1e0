//! `summarize_run`: what a run did, as the journal tells it. The same run gives the same bytes: no
//! clock is asked, and calls that only summarise are left out.

mod markdown;

use countersign_host::tool::{Footprint, NativeTool, Place, ToolContext};
use countersign_journal::Store;
use countersign_model::effect::Effect;
use countersign_model::event::{CallEvent, Fact};
use countersign_model::record::CallSummary;
use countersign_model::{
    ArtifactId, Digest, ExecutionId, Failure, Lifecycle, Principal, RunId, Timestamp,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::left::{Left, reads_workspace};

/// Tools whose calls say nothing about the work.
const SELF: &str = "action.summarize-run";

#[derive(Debug)]
pub(crate) struct SummarizeRun;

impl NativeTool for SummarizeRun {
    fn footprint(&self, _input: &Value, place: &Place) -> Result<Footprint, Failure> {
        reads_workspace(place)
    }

    fn run(&self, _input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let run = context.place().work()?.work.run.clone();
        let story = tell(&**context.journal(), &run)?;
        let mut left = Left::default();
        let made = left.json(context, "summary", &story)?;
        let text = markdown::render(&story);
        left.make(context, "summary.md", "text/markdown", &mut text.as_bytes())?;
        Ok(json!({
            "summary": story.headline(),
            "artifacts": left.list(),
            "run": run,
            "calls": story.calls.len(),
            "completed": story.count(Lifecycle::Completed),
            "failed": story.calls.len() - story.count(Lifecycle::Completed),
            "digest": made.digest,
        }))
    }
}

/// All that the journal says about a run.
#[derive(Debug, Serialize)]
pub(crate) struct Story {
    contract: u32,
    pub(crate) run: RunId,
    pub(crate) workspace: Option<String>,
    pub(crate) base: Option<String>,
    pub(crate) calls: Vec<Told>,
    total_ms: u64,
}

/// One call of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) execution: ExecutionId,
    pub(crate) tool: String,
    pub(crate) principal: Principal,
    pub(crate) declared_at: Timestamp,
    pub(crate) state: Lifecycle,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) said: Option<String>,
    /// Whether what was checked was found to be good, for actions that check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) passed: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approved_by: Vec<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replayed_from: Option<ExecutionId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changed: Vec<Changed>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) artifacts: Vec<Made>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Changed {
    pub(crate) how: &'static str,
    pub(crate) what: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Made {
    pub(crate) artifact_id: ArtifactId,
    pub(crate) name: String,
    digest: Digest,
    size: u64,
}

impl Story {
    pub(crate) fn count(&self, state: Lifecycle) -> usize {
        self.calls.iter().filter(|call| call.state == state).count()
    }

    fn headline(&self) -> String {
        let (all, done) = (self.calls.len(), self.count(Lifecycle::Completed));
        let checked = self.calls.iter().filter(|call| call.passed == Some(false)).count();
        format!("{all} calls, {done} completed, {} not, {checked} checks failed", all - done)
    }
}

/// What a run did, oldest first.
pub(crate) fn tell(store: &dyn Store, run: &RunId) -> Result<Story, Failure> {
    let mut story = Story {
        contract: 1,
        run: run.clone(),
        workspace: None,
        base: None,
        calls: Vec::new(),
        total_ms: 0,
    };
    for execution in store.run_calls(run)? {
        let Some(call) = store.call(execution)? else { continue };
        if let Some(work) = &call.work {
            story.workspace = Some(work.workspace.to_string());
            story.base = Some(work.base.clone());
        }
        if call.tool.as_str() == SELF {
            continue;
        }
        story.total_ms += call.duration_ms.unwrap_or_default();
        story.calls.push(tell_call(store, &call)?);
    }
    Ok(story)
}

fn tell_call(store: &dyn Store, call: &CallSummary) -> Result<Told, Failure> {
    let mut told = Told {
        execution: call.execution,
        tool: call.tool.to_string(),
        principal: call.principal.clone(),
        declared_at: call.declared_at,
        state: call.state,
        duration_ms: call.duration_ms,
        error: call.error.as_ref().map(|error| error.code.to_string()),
        said: None,
        passed: None,
        approved_by: call.approval.as_ref().map(|asked| asked.given.clone()).unwrap_or_default(),
        replayed_from: call.replayed,
        changed: Vec::new(),
        artifacts: Vec::new(),
    };
    for stored in store.call_entries(call.execution)? {
        let Fact::Call(fact) = stored.entry.fact else { continue };
        if let CallEvent::Committed(committed) = fact.event {
            told.changed = committed.effects.iter().map(changed).collect();
            told.artifacts = committed
                .artifacts
                .into_iter()
                .map(|made| Made {
                    artifact_id: ArtifactId::of(call.execution, &made.name),
                    name: made.name,
                    digest: made.digest,
                    size: made.size,
                })
                .collect();
        }
    }
    note_output(store, call, &mut told)?;
    Ok(told)
}

/// What an action said of itself. An output that was let go of is missed, not invented.
fn note_output(store: &dyn Store, call: &CallSummary, told: &mut Told) -> Result<(), Failure> {
    let Some(output) = call.output else { return Ok(()) };
    let Some(bytes) = store.payload(call.execution, &output.digest)? else { return Ok(()) };
    let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return Ok(()) };
    told.said = value.get("summary").and_then(Value::as_str).map(str::to_owned);
    told.passed = value.get("passed").and_then(Value::as_bool);
    Ok(())
}

fn changed(effect: &Effect) -> Changed {
    let how = match effect {
        Effect::DirectoryCreated { .. } => "made directory",
        Effect::DirectoryChanged { .. } => "changed directory",
        Effect::DirectoryDeleted { .. } => "deleted directory",
        Effect::FileWritten { before: None, .. } => "made",
        Effect::FileWritten { .. } => "changed",
        Effect::FileDeleted { .. } => "deleted",
        Effect::LinkWritten { .. } => "linked",
        Effect::LinkDeleted { .. } => "deleted link",
        Effect::RefMoved { .. } => "moved branch",
        Effect::StatePut { .. } => "set",
        Effect::StateDeleted { .. } => "removed",
    };
    Changed { how, what: effect.target().to_owned() }
}

/// Branches that a run moved and where to, oldest first.
pub(crate) fn moved_refs(store: &dyn Store, run: &RunId) -> Result<Vec<(String, String)>, Failure> {
    let mut moved = Vec::new();
    for execution in store.run_calls(run)? {
        for stored in store.call_entries(execution)? {
            let Fact::Call(fact) = stored.entry.fact else { continue };
            let CallEvent::Committed(committed) = fact.event else { continue };
            moved.extend(committed.effects.into_iter().filter_map(|effect| match effect {
                Effect::RefMoved { reference, after, .. } => Some((reference, after)),
                _ => None,
            }));
        }
    }
    Ok(moved)
}
