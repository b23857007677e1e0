//! What the journal refers to: read once, in order, and only what is needed is held.

use std::collections::{HashMap, HashSet};

use countersign_journal::JournalError;
use countersign_model::effect::{Artifact, Effect, Payload};
use countersign_model::event::{CallEvent, CallFact, Declared, Fact};
use countersign_model::record::CallFold;
use countersign_model::{
    ArtifactEvent, ArtifactId, Digest, ExecutionId, Failure, PolicyEvent, RunId, Timestamp,
};
use serde_json::Value;

use crate::home::Home;
use crate::order::ORDER_TOOL;

/// Every content that facts need, and every artifact with those who refer to it.
#[derive(Debug, Default)]
pub(super) struct References {
    read: u64,
    fold: CallFold,
    /// Contents that facts name: payloads, plans, streams, old and new files, policies.
    pinned: HashSet<Digest>,
    /// Digests that stand in outputs: contents that a tool kept beside its artifacts.
    mentioned: HashSet<Digest>,
    of_artifacts: HashSet<Digest>,
    pub(super) made: Vec<Made>,
    pub(super) collected: HashSet<ArtifactId>,
    pub(super) calls: HashMap<ExecutionId, CallNote>,
}

/// An artifact as a collection sees it.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) id: ArtifactId,
    pub(super) at: Timestamp,
    pub(super) digest: Digest,
    pub(super) producer: ExecutionId,
    pub(super) run: Option<RunId>,
    pub(super) is_bundle: bool,
}

/// A call that refers to artifacts, or is open.
#[derive(Debug)]
pub(super) struct CallNote {
    pub(super) at: Timestamp,
    pub(super) run: Option<RunId>,
    pub(super) ended: bool,
    pub(super) consumes: Vec<ArtifactId>,
    /// The call whose artifacts it gave again.
    pub(super) gave: Option<ExecutionId>,
    input: Payload,
}

/// How the artifact is called that names others.
const BUNDLE: &str = "review_bundle";

impl References {
    /// Takes in the journal up to so many entries.
    pub(super) fn read(&mut self, home: &Home, size: u64) -> Result<(), Failure> {
        home.store.visit(self.read..size, &mut |stored| {
            self.read = stored.entry.seq + 1;
            match &stored.entry.fact {
                Fact::Call(call) => self.call(home, stored.entry.time, call),
                Fact::Artifact(ArtifactEvent::Collected { artifacts, .. }) => {
                    self.collected.extend(artifacts.iter().cloned());
                    Ok(())
                }
                Fact::Policy(PolicyEvent::Adopted(adopted)) => {
                    self.pinned.insert(adopted.policy.digest);
                    Ok(())
                }
                _ => Ok(()),
            }
        })?;
        self.pin_inputs_of_open_calls(home);
        Ok(())
    }

    pub(super) fn is_pinned(&self, digest: &Digest) -> bool {
        self.pinned.contains(digest)
    }

    pub(super) fn is_mentioned(&self, digest: &Digest) -> bool {
        self.mentioned.contains(digest)
    }

    pub(super) fn is_of_artifact(&self, digest: &Digest) -> bool {
        self.of_artifacts.contains(digest)
    }

    fn call(&mut self, home: &Home, at: Timestamp, call: &CallFact) -> Result<(), JournalError> {
        let execution = call.execution;
        pins(&call.event, &mut |digest| {
            self.pinned.insert(digest);
        });
        match &call.event {
            CallEvent::Declared(declared) => self.declared(home, at, execution, declared),
            CallEvent::Committed(committed) => {
                self.mention(home, execution, &committed.output);
                committed.artifacts.iter().for_each(|made| self.made(at, execution, made));
            }
            CallEvent::Replayed(replayed) => {
                if let Some(note) = self.calls.get_mut(&execution) {
                    note.gave = Some(replayed.of);
                }
            }
            _ => {}
        }
        let told = self.fold.take_in(at, call);
        let told = told.map_err(|_| JournalError::Corrupt("a call has an impossible story".into()));
        if told?.state.is_terminal() {
            self.ended(execution);
        }
        Ok(())
    }

    fn declared(
        &mut self,
        home: &Home,
        at: Timestamp,
        execution: ExecutionId,
        declared: &Declared,
    ) {
        let note = CallNote {
            at,
            run: declared.work.as_ref().map(|work| work.run.clone()),
            ended: false,
            consumes: declared.consumes.iter().map(|given| given.artifact.clone()).collect(),
            gave: None,
            input: declared.input,
        };
        if declared.tool.as_str() == ORDER_TOOL {
            // The files that it reads are kept as what it was given.
            digests_in(home, execution, &note.input, &mut self.pinned);
        }
        self.calls.insert(execution, note);
    }

    /// Only those are remembered that refer to something.
    fn ended(&mut self, execution: ExecutionId) {
        let Some(note) = self.calls.get_mut(&execution) else { return };
        note.ended = true;
        if note.consumes.is_empty() && note.gave.is_none() {
            self.calls.remove(&execution);
        }
    }

    fn made(&mut self, at: Timestamp, producer: ExecutionId, made: &Artifact) {
        self.of_artifacts.insert(made.digest);
        self.made.push(Made {
            id: ArtifactId::of(producer, &made.name),
            at,
            digest: made.digest,
            producer,
            run: self.calls.get(&producer).and_then(|note| note.run.clone()),
            is_bundle: made.name == BUNDLE,
        });
    }

    fn mention(&mut self, home: &Home, execution: ExecutionId, output: &Payload) {
        digests_in(home, execution, output, &mut self.mentioned);
    }

    /// What an open call was told to use may have no other name yet.
    fn pin_inputs_of_open_calls(&mut self, home: &Home) {
        for (execution, note) in self.calls.iter().filter(|(_, note)| !note.ended) {
            digests_in(home, *execution, &note.input, &mut self.pinned);
        }
    }
}

/// Every content that a fact names.
fn pins(event: &CallEvent, pin: &mut dyn FnMut(Digest)) {
    let payloads = match event {
        CallEvent::Declared(declared) => [Some(declared.input), None, None],
        CallEvent::Asked(asked) => [Some(asked.subject), None, None],
        CallEvent::Authorized(authorized) => [authorized.facts, None, None],
        CallEvent::Denied(denied) => [denied.facts, None, None],
        CallEvent::Started(started) => [started.plan, None, None],
        CallEvent::Replayed(replayed) => [Some(replayed.output), None, None],
        CallEvent::Completed(completed) => [Some(completed.output), None, None],
        CallEvent::RolledBack(back) => [back.stdout, back.stderr, None],
        CallEvent::Committed(committed) => {
            committed.effects.iter().for_each(|effect| contents(effect, pin));
            [Some(committed.output), committed.stdout, committed.stderr]
        }
        CallEvent::Validated {}
        | CallEvent::Failed { .. }
        | CallEvent::Approved(_)
        | CallEvent::Refused(_)
        | CallEvent::Withdrawn(_)
        | CallEvent::Aborted { .. } => [None; 3],
    };
    payloads.into_iter().flatten().for_each(|payload| pin(payload.digest));
}

/// Old and new contents of files: what was replaced can be brought back.
fn contents(effect: &Effect, pin: &mut dyn FnMut(Digest)) {
    match effect {
        Effect::FileWritten { after, before, .. } => {
            pin(after.digest);
            before.iter().for_each(|before| pin(before.digest));
        }
        Effect::FileDeleted { before, .. } => pin(before.digest),
        _ => {}
    }
}

/// Every text of a kept value that is a digest. What was not kept mentions nothing.
fn digests_in(home: &Home, execution: ExecutionId, payload: &Payload, found: &mut HashSet<Digest>) {
    let Ok(bytes) = home.payload(execution, payload) else { return };
    if let Ok(value) = serde_json::from_slice(&bytes) {
        digests(&value, found);
    }
}

fn digests(value: &Value, found: &mut HashSet<Digest>) {
    match value {
        Value::String(text) => found.extend(text.parse::<Digest>()),
        Value::Array(items) => items.iter().for_each(|item| digests(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| digests(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::effect::Image;
    use countersign_model::event::{
        Asked, Authorized, Committed, Completed, Denied, Replayed, RolledBack, Usage,
    };

    fn payload(text: &str) -> Payload {
        Payload::of(text.as_bytes())
    }

    fn committed() -> Committed {
        let image =
            |text: &str| Image { digest: Digest::of(text.as_bytes()), mode: 0o644, size: 1 };
        let path = || "f".to_owned();
        Committed {
            artifacts: Vec::new(),
            connections: Vec::new(),
            effects: vec![
                Effect::FileWritten {
                    after: image("new"),
                    before: Some(image("old")),
                    path: path(),
                },
                Effect::FileDeleted { before: image("deleted"), path: path() },
            ],
            output: payload("output"),
            stderr: Some(payload("stderr")),
            stdout: Some(payload("stdout")),
        }
    }

    fn rolled_back() -> RolledBack {
        RolledBack {
            error: Failure::state("TEST", "no"),
            before: Digest::ZERO,
            after: Digest::ZERO,
            usage: Usage::default(),
            duration_ms: 0,
            retry: None,
            connections: Vec::new(),
            stdout: Some(payload("stdout")),
            stderr: Some(payload("stderr")),
            unknown: false,
        }
    }

    #[test]
    fn every_content_that_a_fact_names_is_pinned() {
        let of: ExecutionId = "019a7c3e-0000-7000-8000-000000000001".parse().unwrap();
        let (expires_at, error) = (Timestamp::from_millis(1), Failure::state("TEST", "no"));
        let facts = Some(payload("facts"));
        let cases: Vec<(CallEvent, &[&str])> = vec![
            (
                CallEvent::Asked(Asked { approvers: 1, expires_at, subject: payload("subject") }),
                &["subject"],
            ),
            (
                CallEvent::Authorized(Authorized {
                    approval: None,
                    attempt: 1,
                    capabilities: Vec::new(),
                    facts,
                    grants: Vec::new(),
                    verdict: None,
                }),
                &["facts"],
            ),
            (CallEvent::Denied(Denied { error, facts, verdict: None }), &["facts"]),
            (
                CallEvent::Replayed(Replayed { key: Digest::ZERO, of, output: payload("output") }),
                &["output"],
            ),
            (
                CallEvent::Committed(committed()),
                &["new", "old", "deleted", "output", "stdout", "stderr"],
            ),
            (
                CallEvent::Completed(Completed {
                    duration_ms: 0,
                    output: payload("output"),
                    unsettled: Vec::new(),
                    usage: Usage::default(),
                }),
                &["output"],
            ),
            (CallEvent::RolledBack(rolled_back()), &["stdout", "stderr"]),
            (CallEvent::Validated {}, &[]),
        ];
        for (event, expected) in cases {
            let mut found = Vec::new();
            pins(&event, &mut |digest| found.push(digest));
            let expected: Vec<_> =
                expected.iter().map(|text| Digest::of(text.as_bytes())).collect();
            assert_eq!(found, expected, "{}", event.name());
        }
    }
}
