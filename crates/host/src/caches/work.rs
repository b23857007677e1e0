//! Workspaces, runs, artifacts and what was done before, derived anew from the journal.

use std::collections::{BTreeMap, BTreeSet};

use countersign_journal::{ArtifactFilter, RecordKey, Store, WorkCounts};
use countersign_model::effect::Artifact;
use countersign_model::event::CallEvent;
use countersign_model::record::CallSummary;
use countersign_model::{
    ArtifactEvent, ArtifactId, ArtifactRecord, Digest, ExecutionId, RecordFact, RunFact, RunId,
    Timestamp, Workspace, WorkspaceEvent, WorkspaceId,
};

use super::differs;
use crate::inspect::Unsound;

#[derive(Default)]
pub(super) struct WorkTables {
    workspaces: BTreeMap<WorkspaceId, Workspace>,
    runs: BTreeMap<RunId, BTreeSet<ExecutionId>>,
    artifacts: BTreeMap<ArtifactId, ArtifactRecord>,
    consumers: BTreeMap<ArtifactId, BTreeSet<ExecutionId>>,
    keyed: BTreeMap<Digest, ExecutionId>,
    /// How many events there are, and whether the last one is among them.
    flows: BTreeMap<RunId, (u64, bool)>,
    flow_facts: u64,
    records: BTreeMap<(String, String, String), (u64, Option<Digest>)>,
}

impl WorkTables {
    pub(super) fn workspace(&mut self, event: WorkspaceEvent) {
        match event {
            WorkspaceEvent::Added { workspace } => {
                self.workspaces.insert(workspace.id.clone(), workspace);
            }
            WorkspaceEvent::Removed { workspace, .. } => {
                self.workspaces.remove(&workspace);
            }
            WorkspaceEvent::Reset { .. } => {}
        }
    }

    pub(super) fn run(&mut self, fact: &RunFact) {
        self.flow_facts += 1;
        self.flows.insert(fact.run.clone(), (fact.end(), fact.is_last()));
    }

    pub(super) fn record(&mut self, fact: RecordFact) {
        let key = (fact.tenant, fact.space, fact.key);
        self.records.insert(key, (fact.version, fact.value.map(|value| value.digest)));
    }

    pub(super) fn artifact(&mut self, event: &ArtifactEvent) {
        let ArtifactEvent::Collected { artifacts, at, .. } = event;
        for id in artifacts {
            if let Some(record) = self.artifacts.get_mut(id) {
                record.collected_at = Some(*at);
            }
        }
    }

    /// Takes in one fact of a call; `call` is the call with it.
    pub(super) fn call(&mut self, at: Timestamp, call: &CallSummary, event: &CallEvent) {
        match event {
            CallEvent::Declared(declared) => {
                if let Some(work) = &call.work {
                    self.runs.entry(work.run.clone()).or_default().insert(call.execution);
                }
                for given in &declared.consumes {
                    let consumers = self.consumers.entry(given.artifact.clone()).or_default();
                    consumers.insert(call.execution);
                }
            }
            CallEvent::Started(started) if started.once => self.begun(call, started.key),
            CallEvent::Committed(committed) => {
                committed.artifacts.iter().for_each(|made| self.made(at, call, made));
            }
            CallEvent::Completed(_) => self.begun(call, call.key),
            CallEvent::RolledBack(undone) if !undone.unknown => self.undone(call),
            _ => {}
        }
    }

    fn begun(&mut self, call: &CallSummary, key: Option<Digest>) {
        self.keyed.extend(key.map(|key| (key, call.execution)));
    }

    fn undone(&mut self, call: &CallSummary) {
        if let Some(key) = call.key.filter(|key| self.keyed.get(key) == Some(&call.execution)) {
            self.keyed.remove(&key);
        }
    }

    fn made(&mut self, at: Timestamp, call: &CallSummary, made: &Artifact) {
        let record = ArtifactRecord::of(at, call, made);
        self.artifacts.insert(record.id.clone(), record);
    }

    pub(super) fn compare(&self, store: &dyn Store) -> Result<(), Unsound> {
        if store.workspaces()? != self.workspaces.values().cloned().collect::<Vec<_>>() {
            return Err(differs("the list of workspaces"));
        }
        self.compare_artifacts(store)?;
        self.compare_links(store)?;
        self.compare_flows(store)?;
        for (key, execution) in &self.keyed {
            if store.keyed(key)? != Some(*execution) {
                return Err(differs(&format!("what is known to be done by execution {execution}")));
            }
        }
        // Everything that should be there is; whatever else is there was never recorded.
        match store.work_counts()? == self.counts() {
            true => Ok(()),
            false => Err(differs("the number of artifacts, calls of runs or things done")),
        }
    }

    fn compare_artifacts(&self, store: &dyn Store) -> Result<(), Unsound> {
        let mut foreign = None;
        store.visit_artifacts(&ArtifactFilter::default(), &mut |record| {
            if self.artifacts.get(&record.id) != Some(&record) {
                foreign = Some(record.id);
            }
            Ok(())
        })?;
        foreign.map_or(Ok(()), |id| Err(differs(&format!("the record of artifact {id}"))))
    }

    fn compare_links(&self, store: &dyn Store) -> Result<(), Unsound> {
        for (artifact, calls) in &self.consumers {
            if store.consumers(artifact)?.into_iter().collect::<BTreeSet<_>>() != *calls {
                return Err(differs(&format!("the list of calls that used {artifact}")));
            }
        }
        for (run, calls) in &self.runs {
            if store.run_calls(run)?.into_iter().collect::<BTreeSet<_>>() != *calls {
                return Err(differs(&format!("the list of calls of run `{run}`")));
            }
        }
        Ok(())
    }

    fn compare_flows(&self, store: &dyn Store) -> Result<(), Unsound> {
        for (run, told) in &self.flows {
            let kept = store.run(run)?.map(|kept| (kept.events, kept.ended_at.is_some()));
            if kept != Some(*told) {
                return Err(differs(&format!("the record of run `{run}`")));
            }
        }
        for ((tenant, space, key), told) in &self.records {
            let place =
                RecordKey { tenant: tenant.clone(), space: space.clone(), key: key.clone() };
            let kept = store.record(&place)?;
            let kept = kept.map(|kept| (kept.version, kept.value.map(|value| Digest::of(&value))));
            if kept.as_ref() != Some(told) {
                return Err(differs(&format!("document `{key}` of {tenant}")));
            }
        }
        Ok(())
    }

    fn counts(&self) -> WorkCounts {
        let links = |sets: &mut dyn Iterator<Item = usize>| sets.sum::<usize>() as u64;
        WorkCounts {
            artifacts: self.artifacts.len() as u64,
            consumers: links(&mut self.consumers.values().map(BTreeSet::len)),
            keyed: self.keyed.len() as u64,
            records: self.records.len() as u64,
            run_calls: links(&mut self.runs.values().map(BTreeSet::len)),
            run_facts: self.flow_facts,
            runs: self.flows.len() as u64,
        }
    }
}
