//! Which orders there were, and what became of them. An order runs once, whoever asks and however
//! many hosts work on one journal: its executions are named after it, and the journal lets every
//! execution begin only once.

use std::sync::Arc;

use countersign_model::record::CallSummary;
use countersign_model::{ExecutionId, Failure, Lifecycle, Principal, Timestamp};

use super::Order;
use crate::host::Host;
use crate::meter::Cancel;
use crate::pipeline::{CallCommand, Outcome};

/// An order that people said no to, or that nobody answered, may be brought again; not for ever.
const MOST_ROUNDS: u32 = 64;

/// An order that the journal knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Ordered {
    pub call: CallSummary,
    pub order: Order,
    pub standing: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// People are asked, and not enough have answered.
    Waiting,
    /// Enough people agreed; it has not run yet.
    Approved,
    /// It never ran and never will: denied, refused, expired, withdrawn, void, or stopped before
    /// its start. It may be brought again.
    Dropped,
    /// It runs, or was left behind by a process that ended.
    Running,
    /// It ran, well or not.
    Ran,
}

impl Ordered {
    /// Whether people are asked, and it has neither run nor been dropped.
    pub fn waits(&self) -> bool {
        matches!(self.standing, Standing::Waiting | Standing::Approved)
    }
}

impl Standing {
    pub const fn is_over(self) -> bool {
        matches!(self, Standing::Dropped | Standing::Ran)
    }

    pub fn of(call: &CallSummary) -> Self {
        let approved = call.approval.as_ref().is_some_and(|asked| asked.is_enough());
        match call.state {
            Lifecycle::Failed | Lifecycle::Denied => Standing::Dropped,
            // Something was short before it could start: nothing ran.
            Lifecycle::RolledBack if call.host.is_none() => Standing::Dropped,
            Lifecycle::Completed | Lifecycle::RolledBack => Standing::Ran,
            Lifecycle::Declared | Lifecycle::Validated if approved => Standing::Approved,
            Lifecycle::Declared | Lifecycle::Validated => Standing::Waiting,
            _ => Standing::Running,
        }
    }
}

impl Host {
    /// The newest execution of an order, if there was one.
    pub fn ordered(&self, id: &str, made: Timestamp) -> Result<Option<Ordered>, Failure> {
        Ok(self.newest(id, made)?.1)
    }

    /// Asks people about an order. It waits for them, or was denied before anybody was asked.
    pub fn order(
        &self,
        order: &Order,
        made: Timestamp,
        principal: Principal,
        chain: Vec<Principal>,
    ) -> Result<Outcome, Failure> {
        let (execution, newest) = self.newest(&order.id, made)?;
        if let Some(known) = newest.filter(|known| known.standing != Standing::Dropped) {
            return Err(known_already(&known));
        }
        let input = serde_json::to_vec(order)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        let tool = Arc::new(order.tool()?);
        let command = CallCommand {
            chain,
            ..CallCommand::new(tool.declaration.tool_ref(), input, principal)
        };
        self.call_as(execution, tool, command)
    }

    /// Runs an order that people approved.
    pub fn run_order(&self, ordered: &Ordered, cancel: Cancel) -> Result<Outcome, Failure> {
        self.take_up(ordered.call.execution, cancel.into())
    }

    /// Where the next execution of an order would stand, and the one before it.
    fn newest(&self, id: &str, made: Timestamp) -> Result<(ExecutionId, Option<Ordered>), Failure> {
        let mut before = None;
        for round in 0..MOST_ROUNDS {
            let execution = self.execution_of(id, made, round);
            let Some(call) = self.home.store.call(execution)? else {
                return Ok((execution, before));
            };
            let standing = Standing::of(&call);
            if standing != Standing::Dropped {
                let order = self.order_of(&call)?;
                return Ok((execution, Some(Ordered { call, order, standing })));
            }
            // One that failed before it could be kept has left nothing to read.
            before = self.order_of(&call).ok().map(|order| Ordered { call, order, standing });
        }
        let message = format!("`{id}` was brought {MOST_ROUNDS} times and never ran");
        Err(Failure::state("ORDER_SPENT", message).hint("write it anew, with an id of its own"))
    }

    fn order_of(&self, call: &CallSummary) -> Result<Order, Failure> {
        let bytes = self.home.payload(call.execution, &call.input)?;
        let corrupt = |error: serde_json::Error| {
            Failure::state("JOURNAL_CORRUPT", format!("an order cannot be read: {error}"))
        };
        Order::from_input(&serde_json::from_slice(&bytes).map_err(corrupt)?)
    }

    /// The same for the same order and round, and known to nobody outside beforehand.
    fn execution_of(&self, id: &str, made: Timestamp, round: u32) -> ExecutionId {
        let words = [round.to_be_bytes().as_slice(), id.as_bytes()].concat();
        self.execution_named("orders", &words, made)
    }
}

fn known_already(known: &Ordered) -> Failure {
    let Ordered { call, order, standing } = known;
    let (id, execution) = (&order.id, call.execution);
    let failure = match standing {
        Standing::Waiting | Standing::Approved | Standing::Dropped => {
            Failure::validation("ORDER_WAITS", format!("`{id}` waits for people already"))
                .hint(format!("see it with `countersign approval show {execution}`"))
        }
        Standing::Running => {
            Failure::validation("ORDER_RUNS", format!("`{id}` runs at this moment"))
        }
        Standing::Ran => {
            Failure::validation("ORDER_RAN", format!("`{id}` ran before, and runs once"))
                .hint("write it anew, with an id of its own")
        }
    };
    failure.of_execution(execution)
}
