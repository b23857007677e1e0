//! The only code that writes to the journal.

use std::ops::Range;

use countersign_model::event::{Fact, GrantEvent};
use countersign_model::{Digest, ExecutionId};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::prepared::{Prepared, PreparedCall};
use super::queue::Job;
use super::rows::{self, HeadRow};
use super::trust::Trusted;
use super::{people, policies, runs, work};
use crate::checkpoint::{Checkpoint, NoteSigner};
use crate::entry::{EncodedFact, Subject};
use crate::error::{AppendError, Conflict, JournalError};
use crate::merkle::{Frontier, Node};
use crate::store::{Appended, Expect, KeyChange};

/// Inner nodes are kept at every eighth level.
pub(super) const NODE_STRIDE: u32 = 8;

type Outcome = Result<Appended, AppendError>;

/// Commits a group of batches in one transaction. A batch whose expectations no longer hold is left
/// out; a failure of the journal itself leaves out all of them.
pub(super) fn commit_group(
    connection: &mut Connection,
    signer: &NoteSigner,
    trusted: &mut Option<Trusted>,
    mut jobs: Vec<Job>,
) -> Vec<(Job, Outcome)> {
    let batches: Vec<Prepared> =
        jobs.iter_mut().map(|job| std::mem::take(&mut job.batch)).collect();
    match append_all(connection, signer, trusted, batches) {
        Ok(outcomes) => jobs.into_iter().zip(outcomes).collect(),
        Err(error) => {
            tracing::error!(%error, "the journal could not be written");
            jobs.into_iter().map(|job| (job, Err(error.clone().into()))).collect()
        }
    }
}

fn append_all(
    connection: &mut Connection,
    signer: &NoteSigner,
    trusted: &mut Option<Trusted>,
    batches: Vec<Prepared>,
) -> Result<Vec<Outcome>, JournalError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut writer = Writer::new(&transaction, signer, trusted.as_ref())?;
    let mut placed = Vec::with_capacity(batches.len());
    for batch in batches {
        placed.push(match writer.append(batch) {
            Err(AppendError::Journal(error)) if !is_own_fault(&error) => return Err(error),
            place => place,
        });
    }
    let head = writer.finish(signer)?;
    transaction.commit()?;
    let checkpoint = head.note.clone();
    *trusted = Some(head);
    let seal = |(entries, hash)| Appended { entries, hash, checkpoint: checkpoint.clone() };
    Ok(placed.into_iter().map(|place| place.map(seal)).collect())
}

/// Whether a batch failed because of what it says, so that the others can go on.
fn is_own_fault(error: &JournalError) -> bool {
    matches!(error, JournalError::Unrecordable(_))
}

fn refuse_claimed(resource: &str, by: Option<ExecutionId>) -> Result<(), AppendError> {
    match by {
        Some(by) => Err(Conflict::Claimed { resource: resource.to_owned(), by }.into()),
        None => Ok(()),
    }
}

type Place = (Range<u64>, Digest);

struct Writer<'c> {
    transaction: &'c Transaction<'c>,
    /// What the journal held before this group; none if it held nothing.
    head: Option<Trusted>,
    tip: Tip,
    changed: bool,
}

/// Where the journal ends: all that a batch moves outside the database.
#[derive(Clone)]
struct Tip {
    frontier: Frontier,
    hash: Digest,
    grants_version: u64,
    nodes: Vec<Node>,
}

impl<'c> Writer<'c> {
    fn new(
        transaction: &'c Transaction<'c>,
        signer: &NoteSigner,
        known: Option<&Trusted>,
    ) -> Result<Self, JournalError> {
        let head = rows::head(transaction)?;
        let is_new = known.is_none() && head.checkpoint.is_empty();
        let trusted = match is_new {
            true => None,
            false => Some(Trusted::check(transaction, &head, signer.verifier(), known)?),
        };
        let HeadRow { frontier, hash, grants_version, .. } = head;
        let tip = Tip { frontier, hash, grants_version, nodes: Vec::new() };
        Ok(Writer { transaction, head: trusted, tip, changed: false })
    }

    /// Checks first and writes then, so that a refused batch leaves nothing behind.
    fn append(&mut self, mut batch: Prepared) -> Result<Place, AppendError> {
        self.check(&mut batch)?;
        let place =
            if batch.may_be_refused() { self.try_write(&batch) } else { self.write(&batch) };
        self.changed |= place.is_ok();
        Ok(place?)
    }

    /// Writes a batch that the tables may yet refuse, and takes it back if they do.
    fn try_write(&mut self, batch: &Prepared) -> Result<Place, JournalError> {
        let before = self.tip.clone();
        self.run("SAVEPOINT batch")?;
        let place = self.write(batch);
        if place.as_ref().is_err_and(is_own_fault) {
            self.run("ROLLBACK TO batch")?;
            self.tip = before;
        }
        self.run("RELEASE batch")?;
        place
    }

    fn run(&self, sql: &str) -> Result<(), JournalError> {
        self.transaction.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn write(&mut self, batch: &Prepared) -> Result<Place, JournalError> {
        let first = self.tip.frontier.size();
        for fact in &batch.facts {
            self.append_fact(fact)?;
        }
        for change in &batch.keys {
            self.change_key(change)?;
        }
        self.put_runs(batch)?;
        if let Some(call) = &batch.call {
            self.put_call(call, first, batch)?;
        }
        if let Some(call) = batch.release_claims {
            let sql = "DELETE FROM claims WHERE call = ?1";
            self.transaction.prepare_cached(sql)?.execute([call.as_uuid().as_bytes()])?;
        }
        Ok((first..self.tip.frontier.size(), self.tip.hash))
    }

    fn check(&self, batch: &mut Prepared) -> Result<(), AppendError> {
        for expect in &batch.expect {
            self.check_one(expect)?;
        }
        if let Some(reply) = &batch.reply
            && runs::reply(self.transaction, &reply.key)?.is_some()
        {
            return Err(Conflict::Reply.into());
        }
        for resource in &batch.claims {
            let taken = match rows::claim(self.transaction, resource)? {
                None => rows::claim_beneath(self.transaction, resource)?,
                taken => taken,
            };
            refuse_claimed(resource, taken)?;
        }
        for resource in &batch.unclaimed {
            refuse_claimed(resource, rows::claim(self.transaction, resource)?)?;
        }
        Ok(batch.guard.take().map_or(Ok(()), |guard| guard.run())?)
    }

    fn check_one(&self, expect: &Expect) -> Result<(), AppendError> {
        match expect {
            Expect::CallAt { execution, events } => {
                if rows::call_events(self.transaction, *execution)? != *events {
                    return Err(Conflict::Call(*execution).into());
                }
            }
            Expect::GrantLive(grant) => {
                if !rows::grant_is_live(self.transaction, *grant)? {
                    return Err(Conflict::Grant(*grant).into());
                }
            }
            Expect::PeopleAt(version) => {
                if people::version(self.transaction)? != *version {
                    return Err(Conflict::People.into());
                }
            }
            Expect::WaitingBelow { principal, most } => {
                if rows::are_waiting(self.transaction, principal, *most)? {
                    return Err(
                        Conflict::Waiting { principal: principal.clone(), most: *most }.into()
                    );
                }
            }
            Expect::FirstOf(key) => {
                if let Some(by) = work::keyed(self.transaction, key)? {
                    return Err(Conflict::Done(by).into());
                }
            }
            Expect::RunAt { run, events } => {
                if runs::events(self.transaction, run)? != *events {
                    return Err(Conflict::Run(run.clone()).into());
                }
            }
            Expect::ScopeFree { tenant, scope } => {
                if let Some(run) = runs::active(self.transaction, tenant, scope)? {
                    return Err(Conflict::Active(run).into());
                }
            }
            Expect::RecordAt { record, version } => {
                if !runs::is_at(self.transaction, record, *version)? {
                    return Err(Conflict::Record(record.key.clone()).into());
                }
            }
            Expect::SizeIs(size) => {
                if self.tip.frontier.size() != *size {
                    return Err(Conflict::Grown.into());
                }
            }
            Expect::KeyIs { key, digest } => {
                if rows::key_digest(self.transaction, key)? != *digest {
                    return Err(Conflict::Key(key.clone()).into());
                }
            }
        }
        Ok(())
    }

    fn append_fact(&mut self, fact: &EncodedFact) -> Result<(), JournalError> {
        let Tip { frontier, hash, nodes, .. } = &mut self.tip;
        let seq = frontier.size();
        let sealed = fact.seal(seq, hash);
        let sql = "INSERT INTO entries (seq, hash, body) VALUES (?1, ?2, ?3)";
        let values = params![seq, sealed.hash.as_bytes(), sealed.bytes];
        self.transaction.prepare_cached(sql)?.execute(values)?;
        frontier.push(sealed.hash, |node| {
            if node.height.is_multiple_of(NODE_STRIDE) {
                nodes.push(node);
            }
        });
        *hash = sealed.hash;
        match &fact.subject {
            Subject::Grant(event) => self.put_grant(event),
            Subject::People(fact) => self.put_people(fact, seq + 1),
            Subject::Policy(event) => policies::put(self.transaction, seq, event),
            Subject::Workspace(event) => work::put_workspace(self.transaction, event),
            Subject::Artifact(event) => work::put_artifact_event(self.transaction, event),
            Subject::Run { run, first } => runs::put_fact(self.transaction, run, *first, seq),
            // Documents are put with their contents.
            Subject::Home | Subject::Call(..) | Subject::Record(_) => Ok(()),
        }
    }

    fn put_grant(&mut self, event: &GrantEvent) -> Result<(), JournalError> {
        self.tip.grants_version += 1;
        match event {
            GrantEvent::Issued { grant } => {
                let sql = "INSERT INTO grants (id, body) VALUES (?1, ?2)";
                let id = grant.body.id;
                let values = params![id.as_uuid().as_bytes(), rows::to_json(grant)?];
                self.transaction.prepare_cached(sql)?.execute(values)?;
            }
            GrantEvent::Revoked { grant, at, .. } => {
                let sql = "UPDATE grants SET revoked_at = ifnull(revoked_at, ?2) WHERE id = ?1";
                let values = params![grant.as_uuid().as_bytes(), at.as_millis()];
                if self.transaction.prepare_cached(sql)?.execute(values)? == 0 {
                    let why = format!("grant {grant} was never issued");
                    return Err(JournalError::Unrecordable(why));
                }
            }
        }
        Ok(())
    }

    /// `version` is the journal's size with this fact in it, so it only grows.
    fn put_people(&self, fact: &Fact, version: u64) -> Result<(), JournalError> {
        let before = people::book(self.transaction)?;
        let mut after = before.clone();
        after.take_in(fact).map_err(JournalError::Unrecordable)?;
        people::put(self.transaction, &before, &after, version)
    }

    fn change_key(&self, change: &KeyChange) -> Result<(), JournalError> {
        match &change.value {
            Some(value) => {
                let sql = "INSERT OR REPLACE INTO keys (key, digest, value) VALUES (?1, ?2, ?3)";
                let digest = Digest::of(value);
                let values = params![change.key, digest.as_bytes(), value];
                self.transaction.prepare_cached(sql)?.execute(values)?;
            }
            None => {
                let sql = "DELETE FROM keys WHERE key = ?1";
                self.transaction.prepare_cached(sql)?.execute([&change.key])?;
            }
        }
        Ok(())
    }

    /// `first` is where the facts of this batch begin in the journal.
    fn put_call(
        &self,
        call: &PreparedCall,
        first: u64,
        batch: &Prepared,
    ) -> Result<(), JournalError> {
        let PreparedCall { call, principal, json } = call;
        let id = call.execution.as_uuid().as_bytes();
        let facts = (first..).zip(&batch.facts);
        let new: Vec<_> =
            facts.filter(|(_, fact)| fact.is_about(call.execution)).map(|(seq, _)| seq).collect();
        // A call that begins with this batch has nothing to add to.
        let new_call = new.len() as u64 == u64::from(call.events);
        let mut entries = match new_call {
            true => Vec::new(),
            false => rows::call_seqs(self.transaction, call.execution)?,
        };
        entries.extend(new);
        let sql = "INSERT OR REPLACE INTO calls
            (id, tool, principal, state, events, terminal, declared_at, entries, summary)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        self.transaction.prepare_cached(sql)?.execute(params![
            id,
            call.tool.as_str(),
            principal,
            call.state.as_str(),
            call.events,
            call.terminal,
            call.declared_at.as_millis(),
            rows::encode_seqs(&entries),
            json,
        ])?;
        if new_call {
            work::put_call(self.transaction, call)?;
        }
        for (seq, fact) in (first..).zip(&batch.facts) {
            if let Subject::Call(about, Some(mark)) = &fact.subject
                && *about == call.execution
            {
                work::put_mark(self.transaction, seq, call, mark)?;
            }
        }
        self.put_values(id, batch)
    }

    fn put_runs(&self, batch: &Prepared) -> Result<(), JournalError> {
        for fact in &batch.facts {
            if let Subject::Record(fact) = &fact.subject {
                runs::put_record(self.transaction, fact, &batch.values)?;
            }
        }
        if let Some(run) = &batch.run {
            runs::put_run(self.transaction, run, &batch.values)?;
        }
        batch.reply.as_ref().map_or(Ok(()), |reply| runs::put_reply(self.transaction, reply))
    }

    /// What stands beside a call: the paths it is publishing to, and the values its facts pin.
    fn put_values(&self, id: &[u8; 16], batch: &Prepared) -> Result<(), JournalError> {
        let sql = "INSERT INTO claims (resource, call) VALUES (?1, ?2)";
        for resource in &batch.claims {
            self.transaction.prepare_cached(sql)?.execute(params![resource, id])?;
        }
        let sql = "INSERT OR IGNORE INTO payloads (call, digest, bytes) VALUES (?1, ?2, ?3)";
        for (digest, bytes) in &batch.payloads {
            self.transaction.prepare_cached(sql)?.execute(params![id, digest.as_bytes(), bytes])?;
        }
        Ok(())
    }

    /// Signs the new head. Every commit is signed, so a journal that was cut short is noticed.
    fn finish(self, signer: &NoteSigner) -> Result<Trusted, JournalError> {
        let Writer { transaction, head, tip, changed } = self;
        if let Some(head) = head.filter(|_| !changed) {
            return Ok(head);
        }
        // Replaced, because a node is a cache of the entries: what stood there cannot be right.
        let sql = "INSERT OR REPLACE INTO nodes (height, idx, hash) VALUES (?1, ?2, ?3)";
        for node in &tip.nodes {
            let values = params![node.height, node.index, node.hash.as_bytes()];
            transaction.prepare_cached(sql)?.execute(values)?;
        }
        let (size, root) = (tip.frontier.size(), tip.frontier.root());
        let note = signer.sign(size, root);
        let row = HeadRow {
            frontier: tip.frontier,
            hash: tip.hash,
            checkpoint: note.clone(),
            grants_version: tip.grants_version,
        };
        rows::put_head(transaction, &row)?;
        let origin = signer.verifier().name().to_owned();
        Ok(Trusted { note, signed: Checkpoint { origin, size, root } })
    }
}
