//! A text as words, each with what it may mean in an order.

use std::ops::Range;
use std::sync::LazyLock;

use super::matcher::byte;

/// What a word can be. A word may be several things.
pub(super) mod class {
    /// ignore, disregard, forget
    pub(crate) const OVERRIDE: u32 = 1;
    /// previous, above, system, your
    pub(crate) const EARLIER: u32 = 1 << 1;
    /// instructions, rules, guidelines
    pub(crate) const ORDERS: u32 = 1 << 2;
    /// policy, allowlist, sandbox
    pub(crate) const POLICY: u32 = 1 << 3;
    /// change, disable, widen
    pub(crate) const CHANGE: u32 = 1 << 4;
    /// should, must
    pub(crate) const MODAL: u32 = 1 << 5;
    /// not, never
    pub(crate) const NOT: u32 = 1 << 6;
    /// the, your, all
    pub(crate) const DEFINITE: u32 = 1 << 7;
    /// you, assistant, agent
    pub(crate) const ADDRESS: u32 = 1 << 8;
    /// run, fetch, approve
    pub(crate) const ACTION: u32 = 1 << 9;
    /// please
    pub(crate) const PLEASE: u32 = 1 << 10;
    /// now
    pub(crate) const NOW: u32 = 1 << 11;
    /// resource, memory: what makes a limit one of ours
    pub(crate) const RESOURCE: u32 = 1 << 12;
    /// limit, limits
    pub(crate) const LIMIT: u32 = 1 << 13;
    /// download, fetch, install: what is done to an address
    pub(crate) const OBTAIN: u32 = 1 << 14;
    /// changed, disabled: what should have happened to a policy
    pub(crate) const CHANGED: u32 = 1 << 15;
    /// agent, operator, core: somebody who is spoken to at the beginning of a sentence
    pub(crate) const HEARER: u32 = 1 << 16;
    /// following, below
    pub(crate) const FOLLOWING: u32 = 1 << 17;
    /// command, script
    pub(crate) const COMMAND: u32 = 1 << 18;
    /// then: the next word is the first of a step
    pub(crate) const STEP: u32 = 1 << 19;
}

use class::{
    ACTION, ADDRESS, CHANGE, CHANGED, COMMAND, DEFINITE, EARLIER, FOLLOWING, HEARER, LIMIT, MODAL,
    NOT, NOW, OBTAIN, ORDERS, OVERRIDE, PLEASE, POLICY, RESOURCE, STEP,
};

/// Sorted, so that those with one initial stand together.
const WORDS: &[(&str, u32)] = &[
    ("above", EARLIER),
    ("add", CHANGE),
    ("added", CHANGED),
    ("agent", HEARER),
    ("ai", HEARER),
    ("all", EARLIER | DEFINITE),
    ("allow-list", POLICY),
    ("allowed", CHANGED),
    ("allowlist", POLICY),
    ("allowlisted", CHANGED),
    ("approval", POLICY),
    ("approvals", POLICY),
    ("approve", ACTION),
    ("assistant", ADDRESS),
    ("below", FOLLOWING),
    ("bypass", CHANGE | OVERRIDE),
    ("bypassed", CHANGED),
    ("cannot", NOT),
    ("change", CHANGE),
    ("changed", CHANGED),
    ("claude", ADDRESS),
    ("clone", OBTAIN),
    ("command", COMMAND),
    ("commands", COMMAND),
    ("constraints", ORDERS),
    ("core", HEARER),
    ("cpu", RESOURCE),
    ("current", DEFINITE),
    ("delete", CHANGE),
    ("deny-list", POLICY),
    ("denylist", POLICY),
    ("directives", ORDERS),
    ("disable", CHANGE),
    ("disabled", CHANGED),
    ("disregard", OVERRIDE | CHANGE),
    ("download", ACTION | OBTAIN),
    ("earlier", EARLIER),
    ("edit", CHANGE),
    ("edited", CHANGED),
    ("every", DEFINITE),
    ("execute", ACTION | OBTAIN),
    ("existing", DEFINITE | EARLIER),
    ("expand", CHANGE),
    ("expanded", CHANGED),
    ("extend", CHANGE),
    ("extended", CHANGED),
    ("fetch", ACTION | OBTAIN),
    ("firewall", POLICY),
    ("following", FOLLOWING),
    ("forget", OVERRIDE),
    ("gpt", ADDRESS),
    ("guardrail", POLICY),
    ("guardrails", POLICY),
    ("guidelines", ORDERS),
    ("ignore", OVERRIDE | CHANGE),
    ("install", ACTION | OBTAIN),
    ("instructions", ORDERS),
    ("invoke", ACTION),
    ("lift", CHANGE),
    ("lifted", CHANGED),
    ("limit", LIMIT),
    ("limits", LIMIT),
    ("llm", ADDRESS),
    ("loosen", CHANGE),
    ("loosened", CHANGED),
    ("memory", RESOURCE),
    ("modified", CHANGED),
    ("modify", CHANGE),
    ("must", MODAL),
    ("my", DEFINITE),
    ("need", MODAL),
    ("needs", MODAL),
    ("neglect", OVERRIDE),
    ("network", DEFINITE | RESOURCE),
    ("never", NOT),
    ("no", NOT),
    ("not", NOT),
    ("now", NOW),
    ("open", ACTION),
    ("operator", HEARER),
    ("ought", MODAL),
    ("our", DEFINITE),
    ("overridden", CHANGED),
    ("override", OVERRIDE | CHANGE),
    ("permissions", POLICY),
    ("please", PLEASE),
    ("policies", POLICY | ORDERS),
    ("policy", POLICY | ORDERS),
    ("preceding", EARLIER),
    ("previous", EARLIER),
    ("prior", EARLIER),
    ("promote", ACTION),
    ("prompt", ORDERS),
    ("raise", CHANGE),
    ("raised", CHANGED),
    ("recommend", MODAL),
    ("recommended", MODAL),
    ("relax", CHANGE),
    ("relaxed", CHANGED),
    ("remove", CHANGE),
    ("removed", CHANGED),
    ("replace", CHANGE),
    ("replaced", CHANGED),
    ("resource", RESOURCE),
    ("restrictions", POLICY),
    ("rule", ORDERS),
    ("rules", ORDERS),
    ("run", ACTION | OBTAIN),
    ("safety", DEFINITE | EARLIER),
    ("sandbox", POLICY),
    ("script", COMMAND),
    ("security", DEFINITE | EARLIER),
    ("send", ACTION),
    ("shall", MODAL),
    ("should", MODAL),
    ("skip", CHANGE),
    ("skipped", CHANGED),
    ("suspend", CHANGE),
    ("suspended", CHANGED),
    ("system", EARLIER | DEFINITE),
    ("that", DEFINITE),
    ("the", DEFINITE),
    ("then", STEP),
    ("these", DEFINITE),
    ("this", DEFINITE),
    ("those", DEFINITE),
    ("time", RESOURCE),
    ("tool-exec", ADDRESS),
    ("turn", CHANGE),
    ("turned", CHANGED),
    ("update", CHANGE),
    ("updated", CHANGED),
    ("upload", ACTION),
    ("validation", POLICY),
    ("validator", POLICY),
    ("visit", ACTION | OBTAIN),
    ("weaken", CHANGE),
    ("weakened", CHANGED),
    ("whitelist", POLICY | CHANGE),
    ("whitelisted", CHANGED),
    ("widen", CHANGE),
    ("widened", CHANGED),
    ("without", NOT),
    ("you", ADDRESS),
    ("your", EARLIER | DEFINITE),
];

#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    pub(super) at: usize,
    pub(super) class: u32,
    /// A sentence, a line or a step begins here.
    pub(super) first: bool,
    /// What stands before belongs to something else: a sentence ended, or an empty line.
    pub(super) apart: bool,
}

impl Word {
    pub(super) fn is(&self, class: u32) -> bool {
        self.class & class != 0
    }
}

/// The words of a text in order.
pub(super) fn words(bytes: &[u8]) -> Vec<Word> {
    let mut words = Vec::with_capacity(bytes.len() / 6);
    let (mut at, mut first, mut apart) = (0, true, true);
    let mut breaks = 0u8;
    while at < bytes.len() {
        let length = word_length(bytes, at);
        if length > 0 {
            let class = class_of(bytes.get(at..at + length));
            words.push(Word { at, class, first, apart });
            (first, apart, breaks) = (class & (STEP | NOW | PLEASE) != 0, false, 0);
            at += length;
            continue;
        }
        let sign = byte(bytes, at);
        breaks = if sign == b'\n' { breaks.saturating_add(1) } else { breaks };
        let ends = matches!(sign, b'.' | b'!' | b'?' | b';') && !is_inner(byte(bytes, at + 1));
        apart |= ends || breaks > 1;
        first |=
            ends || matches!(sign, b'\n' | b':' | b',' | b'(' | b'"' | b'`' | b'*' | b'>' | b'-');
        at += 1;
    }
    words
}

fn is_inner(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Letters, digits and `_`, with `-`, `'`, `.` and `/` between them.
fn word_length(bytes: &[u8], at: usize) -> usize {
    let mut length = 0;
    loop {
        let sign = byte(bytes, at + length);
        let joins = matches!(sign, b'-' | b'\'' | b'.' | b'/')
            && length > 0
            && is_inner(byte(bytes, at + length + 1));
        if !is_inner(sign) && !joins {
            return length;
        }
        length += 1;
    }
}

fn class_of(word: Option<&[u8]>) -> u32 {
    let word = word.unwrap_or_default();
    let word = word.strip_suffix(b"'s").unwrap_or(word);
    let mut lower = [0u8; 16];
    let Some(space) = lower.get_mut(..word.len()) else { return 0 };
    space.copy_from_slice(word);
    space.make_ascii_lowercase();
    if space.ends_with(b"n't") {
        return class::NOT;
    }
    let first = space.first().copied().unwrap_or(0);
    let same = INITIALS.get(usize::from(first.wrapping_sub(b'a'))).cloned().unwrap_or(0..0);
    let mut candidates = WORDS.get(same).unwrap_or_default().iter();
    candidates.find(|(known, _)| known.as_bytes() == space).map_or(0, |(_, class)| *class)
}

/// Where the words with one initial stand in the table.
static INITIALS: LazyLock<Vec<Range<usize>>> = LazyLock::new(|| {
    let initial = |word: &(&str, u32)| word.0.bytes().next().unwrap_or(0);
    let start = |letter: u8| WORDS.partition_point(|word| initial(word) < letter);
    (b'a'..=b'z').map(|letter| start(letter)..start(letter + 1)).collect()
});

/// The words after one, as long as they belong together, at most so many.
pub(super) fn after(words: &[Word], index: usize, most: usize) -> &[Word] {
    let rest = words.get(index + 1..).unwrap_or_default();
    let end = rest.iter().take(most).position(|word| word.apart);
    rest.get(..end.unwrap_or(most.min(rest.len()))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(WORDS.is_sorted_by(|one, other| one.0 < other.0));
        assert!(WORDS.iter().all(|(word, _)| word.len() <= 16));
    }

    #[test]
    fn names_are_one_word_and_sentences_end() {
        let text = b"test_policy_should_change passed. The policy";
        let words = words(text);
        assert_eq!(words.iter().map(|word| word.at).collect::<Vec<_>>(), [0, 26, 34, 38]);
        assert!(!words[0].is(POLICY) && words[2].apart && words[3].is(POLICY));
        assert_eq!(after(&words, 0, 5).len(), 1);
    }
}
