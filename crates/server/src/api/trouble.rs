//! Why something could not be done with a run, in the words of the protocol.

use axum::http::StatusCode;
use countersign_flow::fork::ForkRefusal;
use countersign_flow::{CreateRefusal, Problem, Refusal as Decided, Status};
use countersign_workflow::Trouble;
use serde_json::json;

use crate::error::Refusal;

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Refusal {
        let message = trouble.to_string();
        match trouble {
            Trouble::NoRun => Refusal::named_not_found("run_not_found"),
            Trouble::NoWorkflow(_) => Refusal::named_not_found("workflow_not_found"),
            Trouble::Broken(_, problems) => invalid(&problems),
            Trouble::Create(refusal) => created(refusal, message),
            Trouble::Command(refusal) => decided(&refusal, message),
            Trouble::Fork(refusal) => forked(refusal, message),
            Trouble::Active(run) => {
                Refusal::new(StatusCode::CONFLICT, "run_already_active", message)
                    .detail("activeRunId", json!(run))
                    .detail("activeHost", json!("cloud"))
                    .detail("retryAfter", json!(1))
                    .header(axum::http::header::RETRY_AFTER, "1")
            }
            Trouble::Answered => crate::idempotency::in_flight(),
            Trouble::Failure(failure) => failure.into(),
        }
    }
}

fn invalid(problems: &[Problem]) -> Refusal {
    let first = problems.first().map(ToString::to_string).unwrap_or_default();
    Refusal::invalid(first).detail("problems", json!(problems))
}

fn created(refusal: CreateRefusal, message: String) -> Refusal {
    match refusal {
        CreateRefusal::Invalid(problems) => invalid(&problems),
        CreateRefusal::Capability { required, type_id, node_id } => {
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "capability_required", message)
                .detail("requiredCapability", json!(required))
                .detail("offendingTypeId", json!(type_id))
                .detail("nodeId", json!(node_id))
        }
        CreateRefusal::TooDeep(_) => Refusal::invalid(message),
        CreateRefusal::MockForbidden => {
            Refusal::new(StatusCode::FORBIDDEN, "mock_provider_forbidden", message)
        }
    }
}

fn decided(refusal: &Decided, message: String) -> Refusal {
    match refusal {
        Decided::NotFound => Refusal::named_not_found("interrupt_not_found"),
        Decided::AlreadyResolved => {
            Refusal::new(StatusCode::CONFLICT, "interrupt_already_resolved", message)
        }
        Decided::RunEnded { status: Status::Cancelled, .. } => {
            Refusal::new(StatusCode::GONE, "interrupt_gone", message)
        }
        Decided::RunEnded { status, .. } | Decided::Conflict { status } => {
            Refusal::conflict(message).detail("runStatus", json!(status.as_str()))
        }
        Decided::Invalid(_) => Refusal::invalid(message),
        Decided::Correlation(_) => {
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "correlation_mismatch", message)
        }
        Decided::Forbidden { .. } => Refusal::forbidden(message),
        Decided::Stale => Refusal::conflict(message),
    }
}

fn forked(refusal: ForkRefusal, message: String) -> Refusal {
    match refusal {
        ForkRefusal::Options(refusal) => created(refusal, message),
        ForkRefusal::PastEnd(_) => {
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_error", message)
        }
        ForkRefusal::Broken(_) => Refusal::internal(),
        _ => Refusal::invalid(message),
    }
}
