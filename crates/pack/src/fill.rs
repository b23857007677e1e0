//! A pack as it fills: what is still free, what is in, what stayed out.

use std::collections::BTreeMap;

use countersign_model::Digest;

use crate::content::{beginning, count_lines, longest_fit};
use crate::pack::{Cut, Excluded, Item, ItemType, Reason, Redaction};
use crate::redact::{Clean, redact, shown};
use crate::render::{ANY_NUMBER, block};
use crate::request::Request;
use crate::tokens::{Counter, LONGEST_TOKEN};

/// So much of what was left out is named; all of it is counted.
const MAX_EXCLUDED: usize = 200;
/// With fewer tokens left, nothing is looked at any more.
const LEAST_ROOM: u64 = 24;
/// A text that is cut is looked at as far as this for each token; few are denser.
const BYTES_A_TOKEN: u64 = 16;
/// Of one file, no more is ever read.
const MAX_READ: u64 = 8 << 20;
/// Of files that do not go in, no more is read together, beside what the budget explains.
const IDLE_READ: u64 = 8 << 20;
/// So many files are read and do not fit before the search for smaller ones ends.
const MAX_MISSES: u32 = 64;

/// A text that wants to go in.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) kind: ItemType,
    /// A path as it is, not as it is shown.
    pub(crate) source: &'a str,
    pub(crate) text: String,
    /// Whether this is all of it.
    pub(crate) whole: bool,
}

#[derive(Debug)]
pub(crate) struct Fill {
    counter: Counter,
    room: u64,
    max_item: u64,
    read_left: u64,
    misses: u32,
    pub(crate) items: Vec<Item>,
    pub(crate) redactions: Vec<Redaction>,
    pub(crate) excluded: Vec<Excluded>,
    pub(crate) excluded_counts: BTreeMap<Reason, u64>,
}

impl Fill {
    pub(crate) fn new(request: &Request, counter: Counter, frame: u64) -> Self {
        Fill {
            counter,
            room: request.token_budget.saturating_sub(frame),
            max_item: request.max_item_tokens(),
            read_left: IDLE_READ + request.token_budget * BYTES_A_TOKEN,
            misses: 0,
            items: Vec::new(),
            redactions: Vec::new(),
            excluded: Vec::new(),
            excluded_counts: BTreeMap::new(),
        }
    }

    pub(crate) fn leave_out(&mut self, kind: ItemType, source: &str, reason: Reason) {
        self.note(kind, source, reason, None);
    }

    fn note(&mut self, kind: ItemType, source: &str, reason: Reason, tokens: Option<u64>) {
        *self.excluded_counts.entry(reason).or_default() += 1;
        if self.excluded.len() < MAX_EXCLUDED {
            let source = self.name(source);
            self.excluded.push(Excluded { kind, source, reason, tokens });
        }
    }

    /// A source as it is shown. A secret in a name is redacted like any other.
    fn name(&mut self, source: &str) -> String {
        let Clean { text, redactions } = shown(source);
        let redaction =
            |(_, kind): (u64, &str)| Redaction { source: text.clone(), line: 0, kind: kind.into() };
        self.redactions.extend(redactions.into_iter().map(redaction));
        text
    }

    /// What one item may have at most, as it stands.
    fn limit(&self) -> u64 {
        self.room.min(self.max_item)
    }

    /// Why it makes no sense to read anything more, if so.
    pub(crate) fn closed(&self) -> Option<Reason> {
        if self.room < LEAST_ROOM {
            Some(Reason::Budget)
        } else if self.misses >= MAX_MISSES || self.read_left == 0 {
            Some(Reason::WorkLimit)
        } else {
            None
        }
    }

    /// How much is read of something of this size. What cannot fit as a whole is read as far as it
    /// could be cut.
    pub(crate) fn reading(&self, size: u64) -> u64 {
        let limit = self.limit();
        let most = if size <= limit * LONGEST_TOKEN { size } else { limit * BYTES_A_TOKEN };
        most.min(MAX_READ)
    }

    /// Reading is paid for by size, not by what was read, so that a larger budget never pays more.
    pub(crate) fn pay(&mut self, size: u64) {
        self.read_left = self.read_left.saturating_sub(size.min(MAX_READ));
    }

    /// Something was read in vain.
    pub(crate) fn miss(&mut self) {
        self.misses = self.misses.saturating_add(1);
    }

    /// Takes a text in, as a whole or its first lines, or says why not.
    pub(crate) fn offer(&mut self, offer: Offer<'_>) -> bool {
        let Some(clean) = redact(offer.text) else {
            self.miss();
            self.leave_out(offer.kind, offer.source, Reason::Secret);
            return false;
        };
        self.offer_clean(offer.kind, offer.source, clean, offer.whole)
    }

    pub(crate) fn offer_clean(
        &mut self,
        kind: ItemType,
        source: &str,
        clean: Clean,
        whole: bool,
    ) -> bool {
        let (name, limit) = (shown(source).text, self.limit());
        if whole && let Some(tokens) = self.count(kind, &name, None, &clean.text, limit) {
            self.take(kind, source, tokens, None, clean);
            return true;
        }
        let Some((tokens, cut, length)) = self.cut(kind, &name, &clean.text, whole) else {
            self.miss();
            let reason = if limit < self.max_item { Reason::Budget } else { Reason::TooLarge };
            let small = whole && clean.text.len() as u64 <= self.max_item * BYTES_A_TOKEN;
            let tokens = || self.counter.count(&block(ANY_NUMBER, kind, &name, None, &clean.text));
            let tokens = small.then(tokens);
            self.note(kind, source, reason, tokens);
            return false;
        };
        let mut clean = clean;
        clean.text.truncate(length);
        clean.redactions.retain(|(line, _)| *line <= cut.lines);
        self.take(kind, source, tokens, Some(cut), clean);
        true
    }

    /// All or nothing, and of any size: only the budget counts.
    pub(crate) fn offer_whole(&mut self, kind: ItemType, source: &str, clean: Clean) -> bool {
        let tokens = self.count(kind, source, None, &clean.text, self.room);
        tokens.map(|tokens| self.take(kind, source, tokens, None, clean)).is_some()
    }

    /// The first version that fits, each smaller than the one before.
    pub(crate) fn offer_first(
        &mut self,
        kind: ItemType,
        source: &str,
        versions: impl Iterator<Item = String>,
    ) {
        let limit = self.limit();
        for version in versions {
            if let Some(clean) = redact(version)
                && let Some(tokens) = self.count(kind, source, None, &clean.text, limit)
            {
                return self.take(kind, source, tokens, None, clean);
            }
        }
        self.leave_out(kind, source, Reason::Budget);
    }

    pub(crate) fn limit_for_versions(&self) -> u64 {
        self.limit()
    }

    fn count(
        &self,
        kind: ItemType,
        source: &str,
        cut: Option<Cut>,
        content: &str,
        limit: u64,
    ) -> Option<u64> {
        if content.len() as u64 / LONGEST_TOKEN > limit {
            return None;
        }
        self.counter.count_within(&block(ANY_NUMBER, kind, source, cut, content), limit)
    }

    /// As many first lines as fit: their tokens, the note about the cut and their bytes.
    fn cut(
        &self,
        kind: ItemType,
        source: &str,
        text: &str,
        whole: bool,
    ) -> Option<(u64, Cut, usize)> {
        let limit = self.limit();
        if limit < Request::LEAST_FILE_TOKENS {
            return None;
        }
        let all = whole.then(|| count_lines(text));
        let note = |lines| Cut { lines, of_lines: all };
        let tokens = |text: &str, lines| self.count(kind, source, Some(note(lines)), text, limit);
        let start = beginning(text, limit * BYTES_A_TOKEN);
        let (fit, lines) = longest_fit(start, |text, lines| tokens(text, lines).is_some())?;
        Some((tokens(fit, lines)?, note(lines), fit.len()))
    }

    fn take(&mut self, kind: ItemType, source: &str, tokens: u64, cut: Option<Cut>, clean: Clean) {
        let source = self.name(source);
        let Clean { text, redactions } = clean;
        let redaction = |(line, kind): (u64, &str)| Redaction {
            source: source.clone(),
            line,
            kind: kind.into(),
        };
        self.redactions.extend(redactions.into_iter().map(redaction));
        self.room = self.room.saturating_sub(tokens);
        let (priority, digest) = (kind.priority(), Digest::of(text.as_bytes()));
        self.items.push(Item { kind, source, tokens, priority, digest, cut, content: text });
    }
}
