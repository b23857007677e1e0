//! What would happen to a call. Nothing is run, and nothing is written.

use std::sync::Arc;

use countersign_model::json::parse_strict;
use countersign_model::{Authorization, CallFacts, Decision, Failure, Timestamp, Verdict};
use countersign_policy::Policies;
use serde_json::Value;

use super::CallCommand;
use super::case::Case;
use super::declare::check_input;
use crate::facts::Circumstances;
use crate::host::Host;
use crate::root::Root;
use crate::work::WorkPlace;

/// A call that was only tried.
#[derive(Debug)]
pub struct Simulation {
    pub facts: CallFacts,
    pub input: Value,
    pub verdict: Verdict,
    /// What grants say, whatever policy does.
    pub grants: Result<Authorization, Failure>,
    pub would: Would,
}

#[derive(Debug)]
pub enum Would {
    Run,
    /// Wait for people.
    Ask {
        approvers: u32,
        expires_at: Timestamp,
    },
    Refuse(Failure),
}

impl Host {
    /// What would become of a call now, under the policies of this home or under others. `Err` means
    /// that there would be no decision: an unknown tool, an input that does not fit.
    pub fn simulate(
        &self,
        command: CallCommand,
        policies: Option<&Policies>,
    ) -> Result<Simulation, Failure> {
        let tool = self.registry.resolve(&command.tool)?;
        let own = policies.is_none().then(|| self.policies()).transpose()?;
        let Some(policies) = policies.or(own.as_deref()) else {
            return Err(Failure::state("INTERNAL", "there are no policies to try"));
        };
        let CallCommand { chain, consumes, mode, principal, toolset, .. } = command;
        let circumstances = Circumstances { chain, consumes, mode, principal, toolset };
        let input = parse_strict(&command.input, &self.home.config.input.limits())?;
        let input = check_input(tool, input)?;
        let root = match (&command.work, command.root) {
            (Some(work), _) => Some(work.root().map(Arc::new)),
            (None, root) => root.map(|path| Root::open(&path, self.home.path()).map(Arc::new)),
        };
        let case = Case { host: self, tool, policies, circumstances: &circumstances };
        self.try_out(case, input, root.transpose()?, command.work)
    }

    fn try_out(
        &self,
        case: Case<'_>,
        input: Value,
        root: Option<Arc<Root>>,
        work: Option<Arc<WorkPlace>>,
    ) -> Result<Simulation, Failure> {
        let asked = case.look_at(input, root, work)?;
        let (book, now) = (case.book_for(&asked)?, self.clock.now());
        // Asked apart from the decision as well: a simulation shows all three answers.
        let judged = case.judge_by_policy(&asked, now);
        let grants = case.granted(&asked, &book, now);
        let would = match case.decide(&asked, &book, now) {
            Err(refusal) => Would::Refuse(refusal.error),
            Ok((decided, _)) => self.would(&decided.verdict, now),
        };
        let (facts, verdict, input) = (judged.facts, judged.verdict, asked.input.clone());
        Ok(Simulation { facts, input, verdict, grants, would })
    }

    fn would(&self, verdict: &Verdict, now: Timestamp) -> Would {
        match verdict.decision {
            Decision::Allow => Would::Run,
            _ => Would::Ask {
                approvers: verdict.approvers.max(1),
                expires_at: now.plus_millis(self.home.config.approval.patience_ms(verdict)),
            },
        }
    }
}
