//! Which calls can be executed again, and whether they give the same.

use std::sync::Arc;

use countersign_journal::Blobs;
use countersign_model::effect::{Artifact, Payload};
use countersign_model::event::{CallEvent, Committed, Declared, Fact};
use countersign_model::record::CallSummary;
use countersign_model::{
    Capability, ExecutionId, Failure, Lifecycle, Principal, Timestamp, ToolId, ToolRef,
};
use countersign_repository::{Leash, Program, Worktree};
use serde::Serialize;
use serde_json::Value;

use super::differ::{self, Difference};
use super::record::{Item, Kind};
use super::rehearse::Replica;
use super::rules::{ArtifactRule, RuleBook, Rules};
use crate::host::Host;
use crate::meter::Cancel;
use crate::registry::{Implementation, Tool};
use crate::tool::{Rehearsed, Repeats, comparable};
use crate::work::{PATIENCE, object};

/// Larger contents are told apart by their digests alone.
const MOST_READ: u64 = 64 << 20;

/// A call that was thought about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    pub execution: ExecutionId,
    pub tool: ToolId,
    /// Why it is not executed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skip {
    pub code: &'static str,
    pub reason: String,
}

/// A call that was executed again.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    pub execution: ExecutionId,
    pub tool: ToolId,
    /// Whether everything that can be compared is the same.
    pub same: bool,
    pub findings: Vec<Finding>,
}

/// What is known about one piece.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "found", rename_all = "camelCase")]
pub enum Finding {
    Same {
        what: String,
    },
    Different {
        what: String,
        difference: Difference,
    },
    NotCompared {
        what: String,
        reason: String,
    },
    /// What was recorded is not what lies in the store now.
    Damaged {
        what: String,
        reason: String,
    },
    /// It went well then, and not now.
    Failed {
        error: Failure,
    },
}

impl Finding {
    fn is_bad(&self) -> bool {
        !matches!(self, Finding::Same { .. } | Finding::NotCompared { .. })
    }
}

fn skip(code: &'static str, reason: impl Into<String>) -> Option<Skip> {
    Some(Skip { code, reason: reason.into() })
}

/// What the journal says about a call that went well.
struct Past {
    declared: Declared,
    committed: Committed,
    started_at: Timestamp,
    /// Where its first fact stands.
    first: u64,
}

impl Host {
    /// Which of these calls can be executed again, and why the others cannot. Nothing runs yet.
    pub fn plan_verification(
        &self,
        executions: &[ExecutionId],
        rules: RuleBook,
    ) -> Result<Vec<Planned>, Failure> {
        let plan = |execution: &ExecutionId| {
            let call = self.home.store.call(*execution)?.ok_or_else(|| {
                let message = format!("there is no execution `{execution}`");
                Failure::validation("EXECUTION_UNKNOWN", message)
            })?;
            let skip = self.why_not(&call, rules)?;
            Ok(Planned { execution: *execution, tool: call.tool, skip })
        };
        executions.iter().map(plan).collect()
    }

    /// Executes a call again and compares. Only people may: programs of the workspace may run.
    pub fn verify_again(
        &self,
        execution: ExecutionId,
        by: &Principal,
        rules: RuleBook,
        cancel: &Cancel,
    ) -> Result<Verified, Failure> {
        if !by.is_human() {
            let message = format!("`{by}` may not execute calls again");
            return Err(Failure::authorization("PEOPLE_ONLY", message)
                .hint("ask a human to do it, or call the tool yourself"));
        }
        let planned = self.plan_verification(&[execution], rules)?;
        if let Some(skip) = planned.into_iter().find_map(|planned| planned.skip) {
            return Err(Failure::validation("REPLAY_IMPOSSIBLE", skip.reason));
        }
        let past = self.past(execution)?.ok_or_else(|| lost("its facts"))?;
        let replica = self.replica(execution, &past)?;
        let rules = rules(&past.declared.tool);
        let fresh = self.fresh()?;
        let mut findings = Vec::new();
        match self.rehearse(&replica, &fresh, cancel) {
            Ok(now) => {
                let made = Blobs::new(fresh.blobs());
                let pair = Pair { host: self, execution, past: &past, now: &now, made, rules };
                findings = pair.compare()?;
            }
            Err(failure) if failure.code == "CANCELLED" => return Err(failure),
            Err(error) => findings.push(Finding::Failed { error }),
        }
        let same = !findings.iter().any(Finding::is_bad);
        Ok(Verified { execution, tool: past.declared.tool, same, findings })
    }

    fn replica(&self, execution: ExecutionId, past: &Past) -> Result<Replica, Failure> {
        let tool = self.tool_then(&past.declared)?;
        let bytes = self.home.payload(execution, &past.declared.input)?;
        let input = serde_json::from_slice(&bytes)
            .map_err(|error| Failure::state("JOURNAL_CORRUPT", error.to_string()))?;
        let (declared, started_at) = (past.declared.clone(), past.started_at);
        Ok(Replica { execution, declared, input, started_at, tool })
    }

    fn tool_then(&self, declared: &Declared) -> Result<Arc<Tool>, Failure> {
        let (id, version) = (declared.tool.clone(), Some(declared.version.clone()));
        Ok(Arc::clone(self.registry.find(&ToolRef { id, version })?))
    }

    fn past(&self, execution: ExecutionId) -> Result<Option<Past>, Failure> {
        let (mut declared, mut committed, mut started_at, mut first) = (None, None, None, None);
        for stored in self.home.store.call_entries(execution)? {
            first = first.or(Some(stored.entry.seq));
            let Fact::Call(fact) = stored.entry.fact else { continue };
            match fact.event {
                CallEvent::Declared(event) => declared = Some(event),
                CallEvent::Started(_) => started_at = Some(stored.entry.time),
                CallEvent::Committed(event) => committed = Some(event),
                _ => {}
            }
        }
        let found = declared.zip(committed).zip(started_at).zip(first);
        Ok(found.map(|(((declared, committed), started_at), first)| Past {
            declared,
            committed,
            started_at,
            first,
        }))
    }

    /// Everything that stands in the way, the plainest first.
    fn why_not(&self, call: &CallSummary, rules: RuleBook) -> Result<Option<Skip>, Failure> {
        if !call.terminal {
            return Ok(skip("NOT_ENDED", format!("it has not ended: it is {}", call.state)));
        }
        if let Some(of) = call.replayed {
            let reason = format!("nothing ran: it gave the result of {of}; verify that one");
            return Ok(skip("REPLAYED", reason));
        }
        if call.state != Lifecycle::Completed {
            let code = call.error.as_ref().map(|error| format!(" with {}", error.code));
            let reason = format!("it ended {}{}", call.state, code.unwrap_or_default());
            return Ok(skip("NOT_COMPLETED", reason));
        }
        let Some(past) = self.past(call.execution)? else {
            return Ok(skip("NOT_COMPLETED", "the journal does not say that it ran"));
        };
        let tool = match self.tool_then(&past.declared) {
            Ok(tool) => tool,
            Err(failure) => return Ok(skip("TOOL_GONE", failure.message)),
        };
        if let Some(skip) = changed(&tool, &past.declared).or_else(|| unrepeatable(&tool)) {
            return Ok(Some(skip));
        }
        if let Some(skip) = self.unrecorded(&tool, &past)? {
            return Ok(Some(skip));
        }
        match rules(&call.tool).reads_journal {
            true => self.run_went_on(call, &past, rules),
            false => Ok(None),
        }
    }

    /// Something that it went by is not known any more, or never was.
    fn unrecorded(&self, tool: &Tool, past: &Past) -> Result<Option<Skip>, Failure> {
        let declared = &past.declared;
        if declared.work.is_none() && declared.root.is_some() && works_on_files(tool) {
            let reason = "it worked on a directory, and what was in there is not recorded";
            return Ok(skip("NO_RECORDED_TREE", reason));
        }
        if declared.work.is_some() && matches!(tool.implementation, Implementation::Program(_)) {
            return Ok(skip("NO_RECORDED_TREE", "programs do not work on recorded trees"));
        }
        if tool.declaration.required_capabilities.iter().any(|one| is_state(*one)) {
            let reason = "it uses state, and what that was is not recorded";
            return Ok(skip("STATE_NOT_RECORDED", reason));
        }
        for given in &declared.consumes {
            if let Err(failure) = self.present_artifact(
                self.home.store.artifact(&given.artifact)?,
                given.artifact.as_str(),
            ) {
                return Ok(skip("INPUT_GONE", failure.message));
            }
        }
        match &declared.work {
            Some(work) => Ok(self.tree_lost(work)),
            None => Ok(None),
        }
    }

    /// Whether the tree that it found cannot be laid out any more.
    fn tree_lost(&self, work: &countersign_model::Work) -> Option<Skip> {
        let find = || -> Result<(), Failure> {
            self.workspace(&work.workspace)?;
            let mut leash = Leash::lasting(PATIENCE);
            let directory = self.home.worktree(&work.workspace, &work.run);
            let worktree = Worktree::open(&Program::find()?, directory.path(), &mut leash)?;
            worktree.tree_of(&object(&work.tree)?, &mut leash).map(drop)
        };
        find().err().and_then(|failure| skip("TREE_GONE", failure.message))
    }

    /// A tool that tells of its run can only tell the same while nothing else happened there.
    fn run_went_on(
        &self,
        call: &CallSummary,
        past: &Past,
        rules: RuleBook,
    ) -> Result<Option<Skip>, Failure> {
        let Some(work) = &call.work else { return Ok(None) };
        for other in self.home.store.run_calls(&work.run)? {
            let Some(summary) = self.home.store.call(other)? else { continue };
            if other == call.execution || rules(&summary.tool).reads_journal {
                continue;
            }
            let entries = self.home.store.call_entries(other)?;
            if entries.last().is_some_and(|last| last.entry.seq > past.first) {
                let reason = "it tells of its run, which has gone on since";
                return Ok(skip("RUN_WENT_ON", reason));
            }
        }
        Ok(None)
    }
}

/// Other code would run than ran then.
fn changed(tool: &Tool, declared: &Declared) -> Option<Skip> {
    if tool.digest != declared.declaration {
        let (then, now) = (declared.declaration.short(), tool.digest.short());
        let reason = format!("its declaration was {then} then and is {now} now");
        return skip("DECLARATION_CHANGED", reason);
    }
    if tool.files_digest() != declared.files {
        return skip("FILES_CHANGED", "the files of its program have changed");
    }
    None
}

fn unrepeatable(tool: &Tool) -> Option<Skip> {
    let declaration = &tool.declaration;
    let repeats = match &tool.implementation {
        Implementation::Native(native) => native.repeats(),
        Implementation::Program(_) => Repeats::Always,
    };
    if repeats == Repeats::Once {
        return skip("ONCE_ONLY", "what it does must not be done twice");
    }
    let promises = declaration.deterministic || declaration.idempotent;
    if !promises && repeats != Repeats::Idempotent {
        let reason = "it promises neither to be deterministic nor to be idempotent";
        return skip("NO_PROMISE", reason);
    }
    if let Implementation::Program(program) = &tool.implementation
        && (program.order.is_some() || program.hosts().is_ok_and(|hosts| !hosts.is_empty()))
    {
        return skip("REACHES_OUT", "it reaches hosts, and what it does there cannot be undone");
    }
    None
}

fn works_on_files(tool: &Tool) -> bool {
    let needs_files = tool
        .declaration
        .required_capabilities
        .iter()
        .any(|capability| capability.as_str().starts_with("filesystem"));
    match &tool.implementation {
        Implementation::Program(program) => needs_files || program.workspace().is_some(),
        Implementation::Native(_) => needs_files,
    }
}

fn is_state(capability: Capability) -> bool {
    capability.as_str().starts_with("state")
}

fn lost(what: &str) -> Failure {
    Failure::state("JOURNAL_CORRUPT", format!("the journal has lost {what}"))
}

/// A call then and now.
struct Pair<'p> {
    host: &'p Host,
    execution: ExecutionId,
    past: &'p Past,
    now: &'p Rehearsed,
    /// What was made now.
    made: Blobs,
    rules: Rules,
}

impl Pair<'_> {
    fn compare(&self) -> Result<Vec<Finding>, Failure> {
        let mut findings = vec![self.output()?];
        let committed = &self.past.committed;
        for then in &committed.artifacts {
            let now = self.now.artifacts.iter().find(|now| now.name == then.name);
            findings.push(self.artifact(then, now)?);
            findings.extend(self.damage(then)?);
        }
        let is_new = |now: &&Artifact| !committed.artifacts.iter().any(|t| t.name == now.name);
        for now in self.now.artifacts.iter().filter(is_new) {
            let what = label(&now.name);
            let difference =
                Difference::Content { then: "nothing".into(), now: now.digest.to_string() };
            findings.push(Finding::Different { what, difference });
        }
        findings.push(self.effects());
        Ok(findings)
    }

    fn output(&self) -> Result<Finding, Failure> {
        let what = "output".to_owned();
        let kept = self.host.home.payload(self.execution, &self.past.committed.output);
        let bytes = match kept {
            Ok(bytes) => bytes,
            Err(failure) => return Ok(Finding::Damaged { what, reason: failure.message }),
        };
        let mut then: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Failure::state("JOURNAL_CORRUPT", error.to_string()))?;
        let mut now = self.now.output.clone();
        differ::mask(&mut then, self.rules.output);
        differ::mask(&mut now, self.rules.output);
        Ok(finding(what, differ::values(&then, &now, 1).pop()))
    }

    fn artifact(&self, then: &Artifact, now: Option<&Artifact>) -> Result<Finding, Failure> {
        let what = label(&then.name);
        let Some(now) = now else {
            let difference =
                Difference::Content { then: then.digest.to_string(), now: "nothing".into() };
            return Ok(Finding::Different { what, difference });
        };
        let rule = self.rules.artifact(&then.name);
        if then.digest == now.digest {
            return Ok(Finding::Same { what });
        }
        let contents = self.contents(then, now);
        let difference = match &contents {
            Some((then, now)) => within(then, now, rule),
            None => Some(Difference::Content {
                then: then.digest.to_string(),
                now: now.digest.to_string(),
            }),
        };
        Ok(match (difference, rule.incomparable) {
            (None, _) => Finding::Same { what },
            (Some(_), Some(reason)) => Finding::NotCompared { what, reason: reason.to_owned() },
            (Some(difference), None) => Finding::Different { what, difference },
        })
    }

    /// Both contents, if they are there and not too large.
    fn contents(&self, then: &Artifact, now: &Artifact) -> Option<(Vec<u8>, Vec<u8>)> {
        if then.size.max(now.size) > MOST_READ {
            return None;
        }
        let kept = self.host.home.blobs.get(&then.digest).ok()?;
        let made = self.made.get(&now.digest).or_else(|_| self.host.home.blobs.get(&now.digest));
        Some((kept, made.ok()?))
    }

    /// Whether what was recorded is still what lies there.
    fn damage(&self, then: &Artifact) -> Result<Option<Finding>, Failure> {
        let payload = Payload { digest: then.digest, size: then.size };
        let (kind, name, owner) = (Kind::Artifact, Some(then.name.clone()), self.execution);
        let item = Item { kind, name, payload, owner };
        let what = label(&then.name);
        Ok(self.host.home.trouble(&item)?.map(|(code, reason)| match code {
            "CONTENT_COLLECTED" => Finding::NotCompared { what, reason: format!("it {reason}") },
            _ => Finding::Damaged { what, reason: format!("what was recorded {reason}") },
        }))
    }

    fn effects(&self) -> Finding {
        let then = Value::Array(comparable(&self.past.committed.effects));
        let now = Value::Array(self.now.effects.clone());
        finding("effects".to_owned(), differ::values(&then, &now, 1).pop())
    }
}

fn label(name: &str) -> String {
    format!("artifact `{}`", name.escape_debug())
}

fn finding(what: String, difference: Option<Difference>) -> Finding {
    match difference {
        None => Finding::Same { what },
        Some(difference) => Finding::Different { what, difference },
    }
}

/// Where two contents differ, apart from what may.
fn within(then: &[u8], now: &[u8], rule: ArtifactRule) -> Option<Difference> {
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    if !rule.values.is_empty()
        && let (Some(mut then), Some(mut now)) = (json(then), json(now))
    {
        differ::mask(&mut then, rule.values);
        differ::mask(&mut now, rule.values);
        return differ::values(&then, &now, 1).pop();
    }
    differ::bytes(then, now)
}
