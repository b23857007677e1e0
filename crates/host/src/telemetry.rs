//! The five emission points of RFC-0001 section 8.3, in one place: every fact passes through here.
//!
//! Metrics are not counted on the side. They are computed from the journal when asked for, so they
//! cannot disagree with it; see [`crate::stats`].

use countersign_model::event::{CallEvent, Denied};
use countersign_model::record::CallSummary;

/// Emits one structured event for a fact about a call.
pub(crate) fn emit(event: &CallEvent, call: &CallSummary) {
    let execution = call.execution;
    let (tool, state) = (&call.tool, call.state);
    match event {
        CallEvent::Failed { error } => {
            tracing::warn!(target: "countersign::call", %execution, %tool, %state, code = %error.code, "validation failed");
        }
        CallEvent::Authorized(decision) => {
            tracing::info!(target: "countersign::call", %execution, %tool, %state, attempt = decision.attempt, grants = decision.grants.len(), "authorised");
        }
        CallEvent::Denied(Denied { error, .. }) => {
            tracing::warn!(target: "countersign::call", %execution, %tool, %state, principal = %call.principal, code = %error.code, "authorisation denied");
        }
        CallEvent::Aborted { error } => {
            tracing::warn!(target: "countersign::call", %execution, %tool, %state, code = %error.code, "limit reached or call stopped");
        }
        CallEvent::Completed(done) => {
            tracing::info!(target: "countersign::call", %execution, %tool, %state, duration_ms = done.duration_ms, cpu_micros = done.usage.cpu_micros, "completed");
        }
        CallEvent::Replayed(replayed) => {
            tracing::info!(target: "countersign::call", %execution, %tool, %state, of = %replayed.of, "replayed");
        }
        CallEvent::RolledBack(back) => {
            tracing::warn!(target: "countersign::call", %execution, %tool, %state, code = %back.error.code, restored = back.restored(), retry = back.retry.is_some(), "rolled back");
        }
        CallEvent::Refused(consent) => {
            tracing::warn!(target: "countersign::call", %execution, %tool, %state, by = %consent.by, "refused");
        }
        CallEvent::Withdrawn(withdrawn) => {
            tracing::info!(target: "countersign::call", %execution, %tool, %state, by = %withdrawn.by, "withdrawn");
        }
        CallEvent::Approved(consent) => {
            tracing::info!(target: "countersign::call", %execution, %tool, %state, by = %consent.by, "approved");
        }
        CallEvent::Declared(_)
        | CallEvent::Asked(_)
        | CallEvent::Validated {}
        | CallEvent::Started(_)
        | CallEvent::Committed(_) => {
            tracing::info!(target: "countersign::call", %execution, %tool, %state, event = event.name(), "transition");
        }
    }
}
