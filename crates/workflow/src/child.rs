//! Runs that runs begin.

use countersign_flow::event::RunError;
use countersign_flow::run::End;
use countersign_flow::trace::node_span;
use countersign_flow::view::ChildView;
use countersign_flow::{ChildEnd, Command, CreateRefusal, Outcome, RunState, Status, WorkKey};
use countersign_model::RunId;
use serde_json::{Map, Value};

use crate::create::Begin;
use crate::engine::{Engine, told};
use crate::trouble::Trouble;

impl Engine {
    /// Begins a child under its id, or finds that it was begun.
    pub(crate) fn child(
        &self,
        run: &RunId,
        key: &WorkKey,
        run_id: String,
        workflow: String,
        inputs: Map<String, Value>,
    ) -> Result<Outcome, Trouble> {
        let id: RunId = run_id.parse()?;
        if self.summary(&id)?.is_some() {
            return Ok(Outcome::ChildStarted { run_id });
        }
        let parent = self.summary(run)?.ok_or(Trouble::NoRun)?;
        let seed = self.view(run)?.seed;
        let span = node_span(run.as_str(), &key.node, key.round, key.attempt);
        let begin = Begin {
            inputs,
            run: Some(id),
            parent: Some(seed.parent_of(&key.node)),
            trace: seed.trace.as_ref().map(|trace| trace.under(&span)),
            ..Begin::new(workflow, parent.tenant, parent.principal)
        };
        match self.create(begin) {
            Ok(_) => Ok(Outcome::ChildStarted { run_id }),
            Err(trouble) => refused(trouble).map(Outcome::ChildRefused),
        }
    }

    /// How a child ended, if it has; its end wakes the parent.
    pub(crate) fn ended(&self, child: &RunId) -> Result<Option<Outcome>, Trouble> {
        let view = match self.view(child) {
            Err(Trouble::NoRun) => return Ok(Some(Outcome::ChildRefused(lost()))),
            view => view?,
        };
        let error = match &view.state.end {
            None => return Ok(None),
            Some(End::Failed(error, _)) => Some(error.clone()),
            Some(_) => None,
        };
        let status = view.state.status();
        let variables = view.state.variables.into_iter().collect();
        Ok(Some(Outcome::ChildEnded(ChildEnd { status, variables, error })))
    }

    pub(crate) fn cancel_child(&self, parent: &RunId, child: &RunId) -> Result<(), Trouble> {
        let reason = Some("parent-cancelled".to_owned());
        let wanted = Command::Cancel { reason, by: None, parent: Some(parent.to_string()) };
        match self.command(child, &wanted) {
            Ok(_) | Err(Trouble::NoRun | Trouble::Command(_)) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    /// Where the children of a run stand.
    pub(crate) fn children(&self, state: &RunState) -> Result<Vec<ChildView>, Trouble> {
        let mut children = Vec::new();
        for id in state.children.iter().filter_map(|child| child.run.as_deref()) {
            let Some(summary) = self.summary(&id.parse()?)? else { continue };
            if let Some(status) = status_named(&summary.status) {
                children.push(ChildView { run_id: id.to_owned(), status });
            }
        }
        Ok(children)
    }
}

fn status_named(name: &str) -> Option<Status> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

fn lost() -> RunError {
    RunError::new("child_failed", "the child run is not there")
}

/// What keeps a child from being begun is the parent's to deal with; a journal that fails is not.
fn refused(trouble: Trouble) -> Result<RunError, Trouble> {
    match trouble {
        Trouble::NoWorkflow(_) => Ok(RunError::new("workflow_not_found", trouble.to_string())),
        Trouble::Broken(..) => Ok(RunError::new("workflow_invalid", trouble.to_string())),
        Trouble::Create(CreateRefusal::Capability { .. }) => {
            Ok(RunError::new("capability_not_provided", trouble.to_string()))
        }
        Trouble::Create(CreateRefusal::TooDeep(_)) => {
            Ok(RunError::new("recursion_limit_exceeded", trouble.to_string()))
        }
        Trouble::Create(_) => Ok(RunError::new("validation_error", trouble.to_string())),
        Trouble::Failure(failure) if !failure.code.starts_with("JOURNAL_") => Ok(told(&failure)),
        other => Err(other),
    }
}
