//! Calls that have a name before they begin: whoever asks first begins, all others find what came of
//! it. A process that dies between a decision and its call leaves no doubt whether the call was made.

use countersign_model::digest::Hasher;
use countersign_model::record::CallSummary;
use countersign_model::{ExecutionId, Failure, HostId, Lifecycle, Timestamp};
use serde_json::Value;
use std::sync::Arc;
use uuid::Builder;

use super::{CallCommand, Outcome, Receipt};
use crate::host::Host;

impl Host {
    /// The same for the same words and moment, and known to nobody outside beforehand.
    pub fn execution_named(&self, purpose: &str, words: &[u8], made: Timestamp) -> ExecutionId {
        let mut hasher = Hasher::default();
        hasher.update(&self.home.derive_key(purpose));
        hasher.update(words);
        let digest = hasher.finish().into_bytes();
        let mut random = [0; 10];
        random.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        let millis = u64::try_from(made.as_millis()).unwrap_or_default();
        ExecutionId::from_uuid(Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// Runs the call of this name, or says what came of it. A call that waits for people is taken up
    /// if they have agreed. `CALL_RUNS` means that it is at work elsewhere at this moment.
    pub fn call_once(
        &self,
        execution: ExecutionId,
        command: CallCommand,
    ) -> Result<Outcome, Failure> {
        let Some(call) = self.home.store.call(execution)? else {
            let tool = Arc::clone(self.registry.resolve(&command.tool)?);
            return self.call_as(execution, tool, command).map_err(|failure| {
                match failure.code.as_ref() {
                    // Another process was faster.
                    "EXECUTION_TAKEN_OVER" => runs(execution),
                    _ => failure,
                }
            });
        };
        match call.state {
            _ if call.terminal => self.ended(&call),
            Lifecycle::Validated if call.approval.is_some() => {
                self.take_up(execution, command.given)
            }
            _ => Err(runs(execution)),
        }
    }

    /// How a call ended that somebody else brought to its end.
    pub fn ended(&self, call: &CallSummary) -> Result<Outcome, Failure> {
        let result = match (&call.error, &call.output) {
            (Some(error), _) => Err(error.clone().of_execution(call.execution)),
            (None, Some(output)) => Ok(self.output(call, output)?),
            (None, None) => Ok(Value::Null),
        };
        Ok(Outcome {
            execution: call.execution,
            state: call.state,
            result,
            duration_ms: call.duration_ms.unwrap_or_default(),
            attempts: call.attempts,
            receipt: Receipt::none(),
            unsettled: call.unsettled.clone(),
            artifacts: Vec::new(),
            connections: Vec::new(),
            stderr: None,
            stdout: None,
            replayed: call.replayed,
        })
    }

    fn output(
        &self,
        call: &CallSummary,
        output: &countersign_model::effect::Payload,
    ) -> Result<Value, Failure> {
        let bytes = self.home.payload(call.execution, output)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            Failure::state("JOURNAL_CORRUPT", format!("an output cannot be read: {error}"))
        })
    }

    /// Who this process is to others. While it lives, its runs are left to it.
    pub fn identity(&self) -> Result<HostId, Failure> {
        Ok(self.announce()?)
    }

    /// Whether another process still lives.
    pub fn is_alive(&self, host: HostId) -> Result<bool, Failure> {
        Ok(countersign_journal::presence::is_alive(&self.home.hosts(), host)?)
    }
}

fn runs(execution: ExecutionId) -> Failure {
    Failure::state("CALL_RUNS", format!("execution {execution} is at work at this moment"))
        .hint("wait for its end")
        .of_execution(execution)
}
