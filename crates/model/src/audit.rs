//! The audit event of RFC-0001 section 8.1: one for every transition, derived from the journal.

use semver::Version;
use serde::Serialize;

use crate::capability::Capability;
use crate::digest::Digest;
use crate::error::Failure;
use crate::event::CallEvent;
use crate::id::{ExecutionId, ToolId};
use crate::principal::Principal;
use crate::record::CallSummary;
use crate::state::Lifecycle;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// The hash of the journal entry: unique, and checkable against the chain.
    pub event_id: Digest,
    pub timestamp: Timestamp,
    pub tool_id: ToolId,
    pub tool_version: Version,
    pub execution_id: ExecutionId,
    pub state: Lifecycle,
    pub user_id: Principal,
    pub capabilities: Vec<Capability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    pub input_hash: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_hash: Option<Digest>,
}

impl AuditEvent {
    /// `call` is the call as it stood right after `event`. The commit point is no transition.
    pub fn of(
        event_id: Digest,
        at: Timestamp,
        event: &CallEvent,
        call: &CallSummary,
    ) -> Option<Self> {
        let state = event.leads_to()?;
        let ended = call.duration_ms.filter(|_| {
            matches!(
                state,
                Lifecycle::Completed
                    | Lifecycle::Failed
                    | Lifecycle::Denied
                    | Lifecycle::RolledBack
            )
        });
        Some(AuditEvent {
            event_id,
            timestamp: at,
            tool_id: call.tool.clone(),
            tool_version: call.version.clone(),
            execution_id: call.execution,
            state,
            user_id: call.principal.clone(),
            capabilities: call.capabilities.clone(),
            duration: ended,
            error: call.error.clone(),
            input_hash: call.input.digest,
            output_hash: call.output.map(|output| output.digest),
        })
    }
}
