//! A batch as the writer wants it: everything that does not depend on its place in the chain is
//! already done.

use countersign_model::record::CallSummary;
use countersign_model::{Digest, ExecutionId, RunSummary};

use super::rows;
use crate::entry::EncodedFact;
use crate::error::JournalError;
use crate::store::{Batch, Expect, Guard, KeyChange, Reply};

#[derive(Debug, Default)]
pub(super) struct Prepared {
    pub(super) facts: Vec<EncodedFact>,
    pub(super) expect: Vec<Expect>,
    pub(super) guard: Option<Guard>,
    pub(super) payloads: Vec<(Digest, Vec<u8>)>,
    pub(super) keys: Vec<KeyChange>,
    pub(super) call: Option<PreparedCall>,
    pub(super) run: Option<PreparedRun>,
    pub(super) values: Vec<(Digest, Vec<u8>)>,
    pub(super) reply: Option<Reply>,
    pub(super) claims: Vec<String>,
    pub(super) unclaimed: Vec<String>,
    pub(super) release_claims: Option<ExecutionId>,
}

#[derive(Debug)]
pub(super) struct PreparedCall {
    pub(super) call: CallSummary,
    pub(super) principal: String,
    pub(super) json: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct PreparedRun {
    pub(super) run: RunSummary,
    pub(super) json: Vec<u8>,
}

impl Prepared {
    pub(super) fn new(batch: Batch) -> Result<Self, JournalError> {
        let encode = |(time, fact)| EncodedFact::new(time, fact);
        let prepare = |call: CallSummary| {
            let (principal, json) = (call.principal.to_string(), rows::to_json(&call)?);
            Ok::<_, JournalError>(PreparedCall { call, principal, json })
        };
        let prepare_run = |run: RunSummary| {
            let json = rows::to_json(&run)?;
            Ok::<_, JournalError>(PreparedRun { run, json })
        };
        Ok(Prepared {
            facts: batch.facts.into_iter().map(encode).collect::<Result<_, _>>()?,
            expect: batch.expect,
            guard: batch.guard,
            payloads: batch.payloads,
            keys: batch.keys,
            call: batch.call.map(prepare).transpose()?,
            run: batch.run.map(prepare_run).transpose()?,
            values: batch.values,
            reply: batch.reply,
            claims: batch.claims,
            unclaimed: batch.unclaimed,
            release_claims: batch.release_claims,
        })
    }

    /// Whether it says something that only the tables can judge: a grant or a key that may be there
    /// already, a path that may be claimed twice.
    pub(super) fn may_be_refused(&self) -> bool {
        !self.claims.is_empty()
            || self.reply.is_some()
            || self.facts.iter().any(|fact| fact.may_be_refused())
    }
}
