//! Asking twice is asking once: the answer to a mutation is kept under the key that the client
//! chose, and given again.
//!
//! Only successes are kept. A refusal changed nothing, so asking again is right; a failure of the
//! host is not an answer.

mod memory;

use std::fmt;

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use countersign_model::{Digest, Failure, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::error::Refusal;

pub use memory::MemoryShelf;

pub const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
pub const REPLAY_HEADER: HeaderName = HeaderName::from_static("openwop-idempotent-replay");

/// How long an answer is kept.
pub const KEPT_MILLIS: i64 = 24 * 3_600_000;

/// How long somebody may be at work before others may believe that they died.
pub const LEASE_MILLIS: i64 = 120_000;

/// When to ask again whether the first one is done.
pub const RETRY_SECONDS: u32 = 1;

const MAX_KEY: usize = 255;

/// What an answer is kept under.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OperationKey {
    pub key: String,
    /// Method and path.
    pub operation: String,
    pub tenant: String,
}

/// Whoever is at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    pub body: Digest,
    pub holder: Uuid,
    pub since: Timestamp,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stored {
    pub answer: String,
    pub at: Timestamp,
    pub body: Digest,
    pub status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    InFlight(Claim),
    Done(Stored),
}

/// What is to be done with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    Execute,
    Replay(Stored),
    /// The same key with another body or condition.
    Mismatch,
    InFlight,
}

impl Entry {
    fn body(&self) -> &Digest {
        match self {
            Entry::InFlight(claim) => &claim.body,
            Entry::Done(stored) => &stored.body,
        }
    }

    /// Whether it still counts. What does not is as good as absent.
    pub fn counts(&self, now: Timestamp) -> bool {
        match self {
            Entry::InFlight(claim) => now.millis_since(claim.since) < LEASE_MILLIS,
            Entry::Done(stored) => now.millis_since(stored.at) < KEPT_MILLIS,
        }
    }
}

/// The whole rule.
pub fn judge(entry: Option<&Entry>, asked: &Digest, now: Timestamp) -> Judgement {
    match entry.filter(|entry| entry.counts(now)) {
        None => Judgement::Execute,
        Some(entry) if entry.body() != asked => Judgement::Mismatch,
        Some(Entry::InFlight(_)) => Judgement::InFlight,
        Some(Entry::Done(stored)) => Judgement::Replay(stored.clone()),
    }
}

/// Whether an answer is kept.
pub fn is_kept(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Where answers are kept. Calls may block; each is one step that nobody else comes between.
pub trait Shelf: fmt::Debug + Send + Sync {
    /// What counts now under this key; if nothing does, the claim is put there.
    fn look_or_claim(
        &self,
        key: &OperationKey,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Option<Entry>, Failure>;

    /// Puts the answer in the place of the claim, or takes the claim away. Whoever lost the claim
    /// changes nothing.
    fn settle(
        &self,
        key: &OperationKey,
        claim: &Claim,
        stored: Option<&Stored>,
    ) -> Result<(), Failure>;

    /// Lets go of answers that nobody can ask for again.
    fn sweep(&self, now: Timestamp) -> Result<(), Failure>;
}

/// The key that the client chose, if it chose one.
pub fn chosen(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all(HEADER).iter();
    let (Some(value), more) = (values.next(), values.next()) else { return Ok(None) };
    let text =
        value.to_str().ok().filter(|text| (1..=MAX_KEY).contains(&text.len()) && more.is_none());
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        Refusal::invalid("`Idempotency-Key` has to stand once, with 1 to 255 ASCII characters")
    })
}

pub(crate) fn mismatch() -> Refusal {
    let message = "this `Idempotency-Key` was used with another body or condition";
    Refusal::new(StatusCode::CONFLICT, "idempotency_key_conflict", message)
}

pub(crate) fn in_flight() -> Refusal {
    let message = "the first request with this `Idempotency-Key` is still at work";
    Refusal::new(StatusCode::CONFLICT, "idempotency_in_flight", message)
        .detail("retryAfter", json!(RETRY_SECONDS))
        .header(header::RETRY_AFTER, &RETRY_SECONDS.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn body(n: u8) -> Digest {
        Digest::of(&[n])
    }

    fn claim(n: u8, since: i64) -> Claim {
        Claim { body: body(n), holder: Uuid::from_u128(u128::from(n)), since: at(since) }
    }

    fn stored(n: u8, when: i64) -> Stored {
        Stored { answer: format!("{{\"n\":{n}}}"), at: at(when), body: body(n), status: 201 }
    }

    #[test]
    fn an_answer_is_given_again_for_a_day() {
        let done = Entry::Done(stored(1, 0));
        let judged = |n: u8, now: i64| judge(Some(&done), &body(n), at(now));
        assert_eq!(judged(1, KEPT_MILLIS - 1), Judgement::Replay(stored(1, 0)));
        assert_eq!(judged(1, KEPT_MILLIS), Judgement::Execute);
        assert_eq!(judged(2, 1), Judgement::Mismatch);
        assert_eq!(judge(None, &body(1), at(0)), Judgement::Execute);
    }

    #[test]
    fn whoever_died_at_work_does_not_block_for_ever() {
        let entry = Entry::InFlight(claim(1, 0));
        assert_eq!(judge(Some(&entry), &body(1), at(LEASE_MILLIS - 1)), Judgement::InFlight);
        assert_eq!(judge(Some(&entry), &body(1), at(LEASE_MILLIS)), Judgement::Execute);
    }

    #[test]
    fn keys_have_bounds() {
        let of = |texts: &[&str]| {
            let mut headers = HeaderMap::new();
            for text in texts {
                headers.append(HEADER, text.parse().unwrap());
            }
            chosen(&headers).map_err(|refusal| refusal.status.as_u16())
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["k"]), Ok(Some("k".to_owned())));
        assert!(of(&[&"k".repeat(255)]).is_ok());
        for bad in [&[&*"k".repeat(256)][..], &[""], &["a", "a"]] {
            assert_eq!(of(bad), Err(400));
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Ask(u8),
        /// The one who was let in ends well, or not.
        End(bool),
        Wait(i64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..3u8).prop_map(Step::Ask),
            3 => any::<bool>().prop_map(Step::End),
            1 => (0..LEASE_MILLIS / 2).prop_map(Step::Wait),
            1 => Just(Step::Wait(KEPT_MILLIS)),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        /// One at a time is let in; who comes later gets the same answer, a refusal, or nothing
        /// different from what was answered last.
        #[test]
        fn of_many_one_executes(steps in steps()) {
            let shelf = MemoryShelf::default();
            let key = OperationKey {
                key: "k".to_owned(),
                operation: "POST /v1/runs".to_owned(),
                tenant: "t".to_owned(),
            };
            let mut now = 0_i64;
            let mut inside: Option<Claim> = None;
            let mut kept: Option<Stored> = None;
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Wait(millis) => now += millis,
                    Step::End(well) => if let Some(claim) = inside.take() {
                        let answer = Stored { body: claim.body, ..stored(0, now) };
                        shelf.settle(&key, &claim, well.then_some(&answer)).unwrap();
                        kept = well.then_some(answer);
                    },
                    Step::Ask(n_body) => {
                        let mine = Claim { holder: Uuid::from_u128(n as u128), ..claim(n_body, now) };
                        let found = shelf.look_or_claim(&key, &mine, at(now)).unwrap();
                        match judge(found.as_ref(), &mine.body, at(now)) {
                            Judgement::Execute => {
                                let alive = inside.as_ref().is_some_and(|old| now - old.since.as_millis() < LEASE_MILLIS);
                                prop_assert!(!alive, "two at work");
                                let fresh = kept.as_ref().is_some_and(|k| now - k.at.as_millis() < KEPT_MILLIS);
                                prop_assert!(!fresh, "executed again");
                                inside = Some(mine);
                                kept = None;
                            }
                            Judgement::Replay(answer) => prop_assert_eq!(Some(&answer), kept.as_ref()),
                            Judgement::Mismatch | Judgement::InFlight => {
                                prop_assert!(inside.is_some() || kept.is_some());
                            }
                        }
                    }
                }
            }
        }
    }
}
