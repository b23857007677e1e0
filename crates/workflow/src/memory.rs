//! What agents remember from one run to the next: entries of a tenant, kept as documents in the
//! journal. Another tenant's are out of reach by construction: every key begins with the tenant.

use countersign_journal::{AppendError, Batch, Conflict, Expect, RecordKey};
use countersign_model::effect::Payload;
use countersign_model::event::Fact;
use countersign_model::{Digest, Failure, Principal, RecordFact, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::redact::clean;
use crate::trouble::Trouble;

const SPACE: &str = "memory";

/// Larger contents are refused.
pub const MOST_BYTES: usize = 64 * 1024;

/// So many entries are listed where nobody says how many.
const LISTED: usize = 100;

/// One thing that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    pub id: String,
    pub content: String,
    pub tags: Vec<String>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Entry {
    /// With moments as the protocol writes them.
    pub fn shown(&self) -> Value {
        let mut shown = json!({
            "id": self.id,
            "content": self.content,
            "tags": self.tags,
            "createdAt": self.created_at.to_string(),
        });
        if let (Some(members), Some(at)) = (shown.as_object_mut(), self.expires_at) {
            members.insert("expiresAt".to_owned(), json!(at.to_string()));
        }
        shown
    }
}

/// What somebody wants to be remembered.
#[derive(Debug, Clone, Default)]
pub struct Note {
    /// The same id is written once.
    pub id: String,
    pub content: String,
    pub tags: Vec<String>,
    pub expires_at: Option<Timestamp>,
}

/// An entry as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kept {
    entry: Entry,
    memory_ref: String,
    /// The run that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
}

/// The memories of one tenant.
#[derive(Debug, Clone)]
pub struct Memory<'e> {
    engine: &'e Engine,
    tenant: String,
    by: Principal,
    /// Who looks: the run, and when it began.
    reader: Option<(RunId, Timestamp)>,
}

impl Engine {
    pub fn memory(&self, tenant: impl Into<String>, by: Principal) -> Memory<'_> {
        Memory { engine: self, tenant: tenant.into(), by, reader: None }
    }
}

impl Memory<'_> {
    /// As a run sees it: what was there when it began, and what it wrote itself. What others write
    /// meanwhile would make its outcome depend on chance.
    #[must_use]
    pub fn seen_by(mut self, run: RunId, began: Timestamp) -> Self {
        self.reader = Some((run, began));
        self
    }

    /// Entries of a memory that are still good, the newest first. No limit means the usual one.
    pub fn list(
        &self,
        memory: &str,
        tag: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Vec<Entry>, Trouble> {
        let store = &self.engine.host().home().store;
        let found = store.records(Some(&self.tenant), SPACE, &prefix(memory))?;
        let values = found.into_iter().filter_map(|(_, record)| record.value);
        let kept = values.map(|value| read(&value)).collect::<Result<Vec<Kept>, _>>()?;
        let seen = kept.into_iter().filter(|kept| self.shows(kept));
        let mut entries: Vec<Entry> = seen.map(|kept| kept.entry).collect();
        entries.retain(|entry| tag.is_none_or(|tag| entry.tags.iter().any(|own| own == tag)));
        entries.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        entries.truncate(limit.filter(|limit| *limit > 0).unwrap_or(LISTED));
        Ok(entries)
    }

    pub fn get(&self, memory: &str, id: &str) -> Result<Option<Entry>, Trouble> {
        let kept = self.kept(&self.key(memory, id))?;
        Ok(kept.filter(|kept| self.shows(kept)).map(|kept| kept.entry))
    }

    /// Writes an entry, unless it was written before: then that one stands.
    pub fn put(&self, memory: &str, note: Note) -> Result<Entry, Trouble> {
        if note.content.len() > MOST_BYTES {
            let message = format!("an entry has at most {MOST_BYTES} bytes");
            return Err(Failure::validation("MEMORY_TOO_LARGE", message).into());
        }
        let key = self.key(memory, &note.id);
        let entry = self.cleaned(note);
        let run = self.reader.as_ref().map(|(run, _)| run.clone());
        let kept = Kept { entry, memory_ref: memory.to_owned(), run };
        let bytes = serde_json::to_vec(&kept)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        match self.append(&key, 0, Some(bytes))? {
            true => Ok(kept.entry),
            // Written before, and perhaps removed since; either way nothing is written again.
            false => Ok(self.kept(&key)?.map_or(kept.entry, |first| first.entry)),
        }
    }

    /// Whether there was something to remove.
    pub fn delete(&self, memory: &str, id: &str) -> Result<bool, Trouble> {
        let key = self.key(memory, id);
        loop {
            let found = self.engine.host().home().store.record(&key)?;
            let Some(found) = found.filter(|found| found.value.is_some()) else { return Ok(false) };
            if self.append(&key, found.version, None)? {
                return Ok(true);
            }
        }
    }

    fn key(&self, memory: &str, id: &str) -> RecordKey {
        let (tenant, space) = (self.tenant.clone(), SPACE.to_owned());
        RecordKey { tenant, space, key: format!("{}{id}", prefix(memory)) }
    }

    fn kept(&self, key: &RecordKey) -> Result<Option<Kept>, Trouble> {
        let found = self.engine.host().home().store.record(key)?;
        Ok(found.and_then(|record| record.value).map(|value| read(&value)).transpose()?)
    }

    fn shows(&self, kept: &Kept) -> bool {
        let now = self.engine.host().clock().now();
        let good = kept.entry.expires_at.is_none_or(|at| at > now);
        let seen = self.reader.as_ref().is_none_or(|(run, began)| {
            kept.entry.created_at <= *began || kept.run.as_ref() == Some(run)
        });
        good && seen
    }

    /// Credentials are taken out before anything is written.
    fn cleaned(&self, note: Note) -> Entry {
        let secrets = &self.engine.settings().secrets;
        let text = |text: String| {
            let mut value = json!(text);
            clean(&mut value, secrets);
            value.as_str().map_or(text, str::to_owned)
        };
        let tags = note.tags.into_iter().filter(|tag| !tag.is_empty());
        Entry {
            id: note.id,
            content: text(note.content),
            tags: tags.map(text).collect(),
            created_at: self.engine.host().clock().now(),
            expires_at: note.expires_at,
        }
    }

    /// The next version of a document, if it stands at `version`. Whether it did.
    fn append(
        &self,
        record: &RecordKey,
        version: u64,
        value: Option<Vec<u8>>,
    ) -> Result<bool, Trouble> {
        let (host, at) = (self.engine.host(), self.engine.host().clock().now());
        let pinned = value.as_ref().map(|bytes| Payload::of(bytes));
        let fact = RecordFact {
            at,
            by: self.by.clone(),
            key: record.key.clone(),
            space: record.space.clone(),
            tenant: record.tenant.clone(),
            value: pinned,
            version: version.saturating_add(1),
        };
        let batch = Batch {
            facts: vec![(at, Fact::Record(fact))],
            expect: vec![Expect::RecordAt { record: record.clone(), version }],
            values: pinned.map(|pinned| pinned.digest).into_iter().zip(value).collect(),
            ..Batch::default()
        };
        match host.home().store.append(batch) {
            Ok(_) => Ok(true),
            Err(AppendError::Conflict(Conflict::Record(_))) => Ok(false),
            Err(error) => Err(Failure::from(error).into()),
        }
    }
}

/// Entries of one memory stand together, and no name of a memory is the beginning of another's.
fn prefix(memory: &str) -> String {
    let bytes = Digest::of(memory.as_bytes()).into_bytes();
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name}/")
}

fn read(bytes: &[u8]) -> Result<Kept, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::state("JOURNAL_CORRUPT", format!("an entry of a memory cannot be read: {error}"))
    })
}
