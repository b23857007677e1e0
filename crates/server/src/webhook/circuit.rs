//! When a receiver that fails is no longer tried.

use std::collections::VecDeque;

use countersign_model::Timestamp;
use serde::{Deserialize, Serialize};

/// After so many failures in a row nothing is sent for an hour.
const IN_A_ROW: usize = 4;
const PAUSE_MILLIS: i64 = 3_600_000;
/// After so many within a week nothing is sent ever again.
const IN_A_WEEK: usize = 100;
const WEEK_MILLIS: i64 = 7 * 24 * 3_600_000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Circuit {
    /// Times of the failures of the last week, oldest first.
    failures: VecDeque<Timestamp>,
    failed: bool,
    in_a_row: usize,
    open_until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// One attempt.
    Go,
    Wait(Timestamp),
    /// The webhook has failed for good.
    Never,
}

impl Circuit {
    pub fn judge(&self, now: Timestamp) -> Verdict {
        match self.open_until {
            _ if self.failed => Verdict::Never,
            Some(until) if now < until => Verdict::Wait(until),
            _ => Verdict::Go,
        }
    }

    /// Whether nothing was sent for a while.
    pub fn was_open(&self) -> bool {
        self.open_until.is_some()
    }

    /// What follows from one attempt.
    #[must_use]
    pub fn after(mut self, delivered: bool, now: Timestamp) -> Circuit {
        if delivered {
            (self.in_a_row, self.open_until) = (0, None);
            return self;
        }
        let old = |at: &Timestamp| now.millis_since(*at) >= WEEK_MILLIS;
        while self.failures.front().is_some_and(old) {
            self.failures.pop_front();
        }
        self.failures.push_back(now);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.failed |= self.failures.len() >= IN_A_WEEK;
        if self.in_a_row >= IN_A_ROW {
            self.open_until = Some(now.plus_millis(PAUSE_MILLIS));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn failing(circuit: Circuit, times: impl IntoIterator<Item = i64>) -> Circuit {
        times.into_iter().fold(circuit, |circuit, time| circuit.after(false, at(time)))
    }

    #[test]
    fn four_failures_make_a_pause_and_one_success_ends_it() {
        let three = failing(Circuit::default(), 0..3);
        assert_eq!(three.judge(at(3)), Verdict::Go);
        let four = failing(three.clone(), [3]);
        assert_eq!(four.judge(at(4)), Verdict::Wait(at(3 + PAUSE_MILLIS)));
        assert_eq!(four.judge(at(3 + PAUSE_MILLIS)), Verdict::Go);
        let again = failing(four.clone(), [3 + PAUSE_MILLIS]);
        assert_eq!(again.judge(at(4 + PAUSE_MILLIS)), Verdict::Wait(at(3 + 2 * PAUSE_MILLIS)));
        assert_eq!(four.after(true, at(9)).judge(at(9)), Verdict::Go);
        assert_eq!(failing(three.after(true, at(4)), [5, 6, 7]).judge(at(8)), Verdict::Go);
    }

    #[test]
    fn a_hundred_in_a_week_are_the_end() {
        let many = failing(Circuit::default(), 0..99);
        assert_ne!(many.judge(at(i64::MAX)), Verdict::Never);
        assert_eq!(failing(many.clone(), [100]).judge(at(i64::MAX)), Verdict::Never);
        assert_eq!(failing(many, [100 + WEEK_MILLIS]).judge(at(i64::MAX)), Verdict::Go);
    }

    proptest! {
        #[test]
        fn memory_is_bounded(steps in prop::collection::vec((any::<bool>(), 0..PAUSE_MILLIS * 3), 0..400)) {
            let (mut circuit, mut now) = (Circuit::default(), 0);
            for (delivered, wait) in steps {
                now += wait;
                if circuit.judge(at(now)) == Verdict::Go {
                    circuit = circuit.after(delivered, at(now));
                }
                prop_assert!(circuit.failures.len() <= IN_A_WEEK);
            }
        }
    }
}
