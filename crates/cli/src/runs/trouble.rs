//! Refusals of the engine, as the command line says them.

use countersign_flow::{CreateRefusal, Problem, Refusal};
use countersign_model::Failure;
use countersign_workflow::Trouble;
use serde_json::json;

/// The same in the words of every command: a stable code, and what to do next.
pub(crate) fn told(trouble: Trouble) -> Failure {
    let message = trouble.to_string();
    let invalid = |code: &'static str, hint: &str| Failure::validation(code, &message).hint(hint);
    match trouble {
        Trouble::Failure(failure) => failure,
        Trouble::NoRun => invalid("RUN_UNKNOWN", "list them with `countersign run list`"),
        Trouble::NoWorkflow(_) => {
            invalid("WORKFLOW_UNKNOWN", "list them with `countersign workflow list`")
        }
        Trouble::Broken(id, problems) => broken(&format!("the workflow `{id}`"), &problems),
        Trouble::Create(refusal) => create(&refusal),
        Trouble::Command(refusal) => command(&refusal),
        Trouble::Fork(countersign_flow::ForkRefusal::Options(refusal)) => create(&refusal),
        Trouble::Fork(_) => {
            invalid("FORK_INVALID", "`countersign run events` numbers them; see `run fork --help`")
        }
        Trouble::Active(_) => invalid("RUN_ACTIVE", "wait for its end, or cancel it"),
        Trouble::Answered => invalid("RUN_ASKED_TWICE", "look with `countersign run list`"),
    }
}

/// A document with problems. All of them stand in the details, the first in the message.
pub(crate) fn broken(what: &str, problems: &[Problem]) -> Failure {
    let first = problems.first().map(ToString::to_string).unwrap_or_default();
    let message = match problems.len() {
        1 => format!("{what} has a problem: {first}"),
        count => format!("{what} has {count} problems, the first: {first}"),
    };
    Failure {
        details: Some(json!({"problems": problems})),
        ..Failure::validation("WORKFLOW_INVALID", message)
    }
    .hint("mend the file; `countersign workflow lint` and `countersign blueprint lint` say where")
}

fn create(refusal: &CreateRefusal) -> Failure {
    match refusal {
        CreateRefusal::Invalid(problems) => {
            let said = problems.iter().map(|p| p.message.as_str()).collect::<Vec<_>>().join("; ");
            let failure = Failure::validation("RUN_INVALID", format!("no run was begun: {said}"));
            Failure { details: Some(json!({"problems": problems})), ..failure }
                .hint("see what it takes with `countersign workflow show`")
        }
        CreateRefusal::Capability { .. } => {
            Failure::validation("CAPABILITY_NOT_PROVIDED", refusal.to_string())
                .hint("the node types that are offered stand in docs/workflows.md")
        }
        CreateRefusal::TooDeep(_) => Failure::validation("RUN_INVALID", refusal.to_string())
            .hint("workflows call one another too deep; `limits` in docs/workflows.md"),
        CreateRefusal::MockForbidden => {
            Failure::validation("RUN_INVALID", refusal.to_string()).hint("leave `mockProvider` out")
        }
    }
}

fn command(refusal: &Refusal) -> Failure {
    let message = refusal.to_string();
    let (code, hint) = match refusal {
        Refusal::Forbidden { .. } => {
            return Failure::authorization("ANSWER_FORBIDDEN", message)
                .hint("somebody whom the gate names has to answer it");
        }
        Refusal::NotFound => {
            ("NODE_UNKNOWN", "`countersign run show` says which node waits, and for what")
        }
        Refusal::AlreadyResolved => ("ANSWERED_ALREADY", "see `countersign run show`"),
        Refusal::RunEnded { .. } => ("RUN_ENDED", "a fork can go another way: `run fork`"),
        Refusal::Conflict { .. } => ("RUN_NOT_READY", "see `countersign run show`"),
        Refusal::Invalid(_) | Refusal::Correlation(_) => {
            ("ANSWER_INVALID", "`countersign run show` says what is asked")
        }
        Refusal::Stale => ("RUN_MOVED_ON", "see `countersign run show`"),
    };
    Failure::validation(code, message).hint(hint)
}
