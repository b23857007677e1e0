//! Claims that rules should change. Only a shape of English is known here: whoever words it
//! otherwise is not found, and the document says so.

use super::Found;
use super::views::View;
use super::words::class::{
    CHANGE, CHANGED, DEFINITE, EARLIER, LIMIT, MODAL, NOT, ORDERS, OVERRIDE, PLEASE, POLICY,
    RESOURCE,
};
use super::words::{Word, after};

/// How far apart a policy and what should happen to it may stand.
const NEAR: usize = 8;

pub(super) fn find(view: &View<'_>, found: &mut Vec<Found>) {
    let words = view.words();
    for (index, word) in words.iter().enumerate() {
        let rule = if word.is(OVERRIDE) && overrides(words, index) {
            "override-orders"
        } else if word.is(CHANGE) && orders_change(words, index) {
            "change-policy"
        } else if word.is(MODAL) && wishes_change(words, index) {
            "policy-should-change"
        } else {
            continue;
        };
        found.push(Found { offset: word.at, rule });
    }
}

/// `ignore all previous instructions`, `forget the rules above`.
fn overrides(words: &[Word], index: usize) -> bool {
    let near = after(words, index, 6);
    !is_denied(words, index) && has(near, ORDERS) && has(near, EARLIER)
}

/// `disable the sandbox`, `please add this host to the allowlist`.
fn orders_change(words: &[Word], index: usize) -> bool {
    let asked =
        words.get(index).is_some_and(|word| word.first) || has(behind(words, index, 1), PLEASE);
    let near = after(words, index, NEAR);
    let definite =
        |at: usize| has(near.get(at.saturating_sub(2)..at).unwrap_or_default(), DEFINITE);
    asked && (0..near.len()).any(|at| is_policy(near, at) && definite(at))
}

/// `the policy should be changed`, `you must widen the allowlist`.
fn wishes_change(words: &[Word], index: usize) -> bool {
    let verb = after(words, index, 6);
    let changes = verb.iter().position(|word| word.is(CHANGE | CHANGED));
    let Some(place) = changes.filter(|place| !has(verb.get(..*place).unwrap_or_default(), NOT))
    else {
        return false;
    };
    let ahead = after(words, index + 1 + place, NEAR);
    let behind = behind(words, index, NEAR);
    let between = verb.get(..place).unwrap_or_default();
    [ahead, behind, between].iter().any(|near| (0..near.len()).any(|at| is_policy(near, at)))
}

fn has(words: &[Word], class: u32) -> bool {
    words.iter().any(|word| word.is(class))
}

/// A policy by name, or a limit of something that the host limits.
fn is_policy(words: &[Word], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| words.get(at));
    words.get(at).is_some_and(|word| {
        word.is(POLICY) || (word.is(LIMIT) && before.is_some_and(|before| before.is(RESOURCE)))
    })
}

/// The words before one that belong together with it, at most so many.
pub(super) fn behind(words: &[Word], index: usize, most: usize) -> &[Word] {
    let from = index.saturating_sub(most);
    let own = words.get(from..=index).unwrap_or_default();
    let start = own.iter().rposition(|word| word.apart).unwrap_or(0);
    words.get(from + start..index).unwrap_or_default()
}

pub(super) fn is_denied(words: &[Word], index: usize) -> bool {
    has(behind(words, index, 2), NOT)
}
