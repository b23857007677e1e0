//! What the published workflows do with memories, each through the memory itself.

use countersign_flow::event::RunError;
use countersign_flow::{Outcome, WorkKey, Written};
use countersign_model::{Digest, RunId};
use serde_json::{Map, Value, json};

use crate::engine::Engine;
use crate::live::View;
use crate::memory::{Entry, Memory, Note};
use crate::trouble::Trouble;

/// How long what is written here is good.
const AN_HOUR: i64 = 3_600_000;

impl Engine {
    pub(crate) fn remember(
        &self,
        run: &RunId,
        key: &WorkKey,
        action: &str,
        config: &Value,
        agent: Option<&Value>,
    ) -> Result<Outcome, Trouble> {
        let view = self.view(run)?;
        let own = agent.and_then(|agent| agent.get("memoryRef")?.as_str()).map(str::to_owned);
        let own = own.unwrap_or_else(|| format!("workflow/{}/{}", view.summary.workflow, key.node));
        let mut probe = Probe::new(self, run, key, &view, own);
        let variables = match action {
            "write-then-read" => probe.written_and_read(),
            "redaction-probe" => probe.redacted(config),
            "ttl-probe" => probe.expired(),
            "cross-tenant-probe" => probe.elsewhere(config),
            _ => {
                let message = format!("`{action}` is nothing that a memory does");
                let error = RunError::new("capability_not_provided", message);
                return Ok(Outcome::Failed { error, retryable: false });
            }
        }?;
        Ok(Outcome::Remembered { written: probe.written, variables })
    }
}

fn shown(entries: &[Entry]) -> Value {
    entries.iter().map(Entry::shown).collect()
}

struct Probe<'e> {
    engine: &'e Engine,
    memory: Memory<'e>,
    /// What the work is called: its entries are named after it, so that it writes them once.
    name: String,
    own: String,
    written: Vec<Written>,
}

impl<'e> Probe<'e> {
    fn new(engine: &'e Engine, run: &RunId, key: &WorkKey, view: &View, own: String) -> Self {
        let tenant = view.summary.tenant.clone();
        let memory = engine
            .memory(tenant, view.summary.principal.clone())
            .seen_by(run.clone(), view.seed.created_at);
        let name = format!("{run}\n{}\n{}\n{}", key.node, key.round, key.attempt);
        Probe { engine, memory, name, own, written: Vec::new() }
    }

    fn put(&mut self, content: String, expires_in: Option<i64>) -> Result<Entry, Trouble> {
        let words = format!("{}\n{}", self.name, self.written.len());
        let bytes = Digest::of(words.as_bytes()).into_bytes();
        let id: String = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let now = self.engine.host().clock().now();
        let note = Note {
            id: format!("mem-{id}"),
            content,
            tags: vec!["conformance".to_owned()],
            expires_at: expires_in.map(|ms| now.plus_millis(ms)),
        };
        let entry = self.memory.put(&self.own, note)?;
        let (memory_ref, id, tags) = (self.own.clone(), entry.id.clone(), entry.tags.clone());
        self.written.push(Written { memory_ref, id, tags });
        Ok(entry)
    }

    fn read_back(&self, entry: &Entry) -> Result<Map<String, Value>, Trouble> {
        let found = self.memory.get(&self.own, &entry.id)?;
        Ok(Map::from_iter([("memoryReadback".to_owned(), json!(found.map(|entry| entry.shown())))]))
    }

    fn written_and_read(&mut self) -> Result<Map<String, Value>, Trouble> {
        let entry = self.put("the round trip of a memory".to_owned(), None)?;
        self.read_back(&entry)
    }

    /// A secret that the run resolved is written as it is; what is kept must not have it.
    fn redacted(&mut self, config: &Value) -> Result<Map<String, Value>, Trouble> {
        let name = config.get("byokSecretId").and_then(Value::as_str).unwrap_or_default();
        let Some(secret) = self.engine.settings().secrets.get(name) else {
            let message = format!("this host holds no secret `{name}`");
            let failure = countersign_model::Failure::validation("CREDENTIAL_NOT_FOUND", message);
            return Err(failure.into());
        };
        let entry = self.put(format!("the secret of the run is {secret}, keep it"), None)?;
        self.read_back(&entry)
    }

    fn expired(&mut self) -> Result<Map<String, Value>, Trouble> {
        self.put("this was good until an hour ago".to_owned(), Some(-AN_HOUR))?;
        self.put("this is good for an hour".to_owned(), Some(AN_HOUR))?;
        let listed = self.memory.list(&self.own, None, None)?;
        Ok(Map::from_iter([("memoryList".to_owned(), shown(&listed))]))
    }

    /// What is under the name of another tenant's memory, beside what is under the own one.
    fn elsewhere(&mut self, config: &Value) -> Result<Map<String, Value>, Trouble> {
        let entry = self.put("this belongs to the tenant of the run".to_owned(), None)?;
        let named = config.get("probeMemoryRef").and_then(Value::as_str).unwrap_or_default();
        let found = self.memory.list(named, None, None)?;
        let own = self.memory.list(&self.own, None, None)?;
        Ok(Map::from_iter([
            ("crossTenantProbe".to_owned(), shown(&found)),
            ("ownerEntryId".to_owned(), json!(entry.id)),
            ("ownerProbe".to_owned(), shown(&own)),
        ]))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use crate::common::{Bench, single};
    use crate::{Secrets, Settings};
    use countersign_flow::{Event, Offers, Status};

    /// What is left of a process that died after it wrote and before it said so.
    #[test]
    fn work_that_is_done_again_writes_nothing_again() {
        for action in ["write-then-read", "redaction-probe", "ttl-probe", "cross-tenant-probe"] {
            let config = json!({"memoryAction": action, "byokSecretId": "s"});
            let bench = Bench::new(&[single("w", "core.identity", config.clone())]);
            let (offers, secrets) =
                (Offers::conformance(), Secrets::default().with("s", "open sesame"));
            let engine = bench.engine_with(Settings { offers, secrets, ..Settings::default() });
            let run = engine.create(bench.begin("w")).unwrap().run;
            assert_eq!(bench.wait(&engine, &run), Status::Completed);
            let events = engine.events(&run, 0).unwrap();
            let first: Vec<String> = events
                .iter()
                .filter_map(|event| match &event.event {
                    Event::MemoryWritten { memory_id, .. } => Some(memory_id.clone()),
                    _ => None,
                })
                .collect();
            assert!(!first.is_empty(), "{action}");
            let size = bench.size();
            let key = WorkKey { node: "node".to_owned(), round: 1, attempt: 0, step: 0 };
            let again = engine.remember(&run, &key, action, &config, None).unwrap();
            let Outcome::Remembered { written, .. } = again else { panic!("{again:?}") };
            let second: Vec<String> = written.into_iter().map(|one| one.id).collect();
            assert_eq!((second, bench.size()), (first, size), "{action}");
        }
    }
}
