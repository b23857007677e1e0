//! Recorded calls decided again by other policies, from the facts that were kept with them.

use countersign_journal::CallFilter;
use countersign_model::record::CallSummary;
use countersign_model::{CallFacts, Failure, Verdict};
use countersign_policy::Policies;

use crate::home::Home;

/// What other policies would have changed.
#[derive(Debug, Default)]
pub struct Replay {
    /// How many calls were decided again.
    pub decided: u64,
    /// Calls that never got as far as policy, or whose input was not kept.
    pub skipped: u64,
    pub differences: Vec<Difference>,
}

/// A call that other policies decide otherwise.
#[derive(Debug)]
pub struct Difference {
    pub call: CallSummary,
    pub facts: CallFacts,
    pub before: Verdict,
    pub after: Verdict,
}

impl Home {
    /// Decides the newest `last` calls again. The clock is that of each call: a rule about nights
    /// sees the night in which it was made.
    pub fn replay(&self, policies: &Policies, last: u64) -> Result<Replay, Failure> {
        let filter = CallFilter { limit: Some(last), ..CallFilter::default() };
        let mut calls = Vec::new();
        self.store.visit_calls(&filter, &mut |call| {
            calls.push(call);
            Ok(())
        })?;
        let mut replay = Replay::default();
        for call in calls {
            self.replay_one(policies, call, &mut replay)?;
        }
        Ok(replay)
    }

    fn replay_one(
        &self,
        policies: &Policies,
        call: CallSummary,
        replay: &mut Replay,
    ) -> Result<(), Failure> {
        let (Some(judged), Some(input)) = (self.judged(&call)?, self.input(&call)) else {
            replay.skipped += 1;
            return Ok(());
        };
        replay.decided += 1;
        let (before, facts) = (judged.verdict, judged.facts);
        let after = policies.decide(&facts, &input);
        if outcome(&before) != outcome(&after) {
            replay.differences.push(Difference { call, facts, before, after });
        }
        Ok(())
    }
}

/// What a verdict means for whoever calls: the same outcome by other rules is no difference.
fn outcome(verdict: &Verdict) -> (countersign_model::Decision, u32, Option<u64>) {
    (verdict.decision, verdict.approvers, verdict.expires_after_ms)
}
