//! A look at a stretch of the journal: whether each entry names the one before it, and whether all
//! of them together are what was signed. For whoever asks again and again, so the work is bounded.

use countersign_model::Digest;

use crate::checkpoint::VerifierKey;
use crate::entry::Entry;
use crate::error::JournalError;
use crate::merkle::{Frontier, leaf_hash, tiling};
use crate::store::{Head, Store};

/// How far one look goes, however much was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    pub entries: u64,
    pub bytes: usize,
}

/// An entry that does not name the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    pub seq: u64,
    /// The hash of the entry before it, as it stands there.
    pub expected: Digest,
    /// What the entry names; nothing if it cannot be read.
    pub actual: Option<Digest>,
}

/// What was found between two entries, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    pub from: u64,
    pub to: u64,
    /// The first of them; one change can break no more than two.
    pub breaks: Vec<Break>,
    /// The root over all entries up to `to`.
    pub root: Digest,
    /// The newest checkpoint bears the journal's signature.
    pub is_signed: bool,
    /// Entries and signed root belong together.
    pub fits: bool,
}

const MOST_BREAKS: usize = 100;

impl Walked {
    pub fn is_sound(&self) -> bool {
        self.breaks.is_empty() && self.is_signed && self.fits
    }
}

/// Walks from `from` to `to`, as far as there are entries and `reach` allows.
pub fn walk(
    store: &dyn Store,
    key: &VerifierKey,
    (from, to): (u64, u64),
    reach: Reach,
) -> Result<Walked, JournalError> {
    let head = store.head()?;
    let last = head.size.saturating_sub(1);
    let from = from.min(last);
    let to = to.min(last).min(from.saturating_add(reach.entries.saturating_sub(1))).max(from);
    let mut walker = Walker::new(store, from, reach.bytes)?;
    // One more on each side: what the first names, and what the last is named as.
    let begin = from.saturating_sub(1);
    let end = to.saturating_add(2).min(head.size);
    let visited = store.visit_raw(begin..end, &mut |bytes| walker.entry(&bytes, to));
    match visited {
        Ok(()) | Err(JournalError::Enough) => walker.finish(store, key, &head),
        Err(error) => Err(error),
    }
}

/// Nothing where the journal is damaged: that is a finding, not a failure to look.
fn sound<T>(read: Result<T, JournalError>) -> Result<Option<T>, JournalError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(JournalError::Corrupt(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

struct Walker {
    from: u64,
    /// Where the next entry stands.
    at: u64,
    /// The last one that was walked, and the budget that is left.
    to: u64,
    bytes: usize,
    before: Option<Digest>,
    breaks: Vec<Break>,
    frontier: Frontier,
    named: Option<Option<Digest>>,
}

impl Walker {
    fn new(store: &dyn Store, from: u64, bytes: usize) -> Result<Walker, JournalError> {
        // Without its edge the tree fits nothing, which is what is to be told.
        let peaks = sound(store.tile_hashes(0..from))?.unwrap_or_default();
        let frontier = Frontier::from_peaks(from, peaks).unwrap_or_default();
        // The first of all names nothing.
        let before = (from == 0).then_some(Digest::ZERO);
        let at = from.saturating_sub(1);
        let (breaks, named) = (Vec::new(), None);
        Ok(Walker { from, at, to: from, bytes, before, breaks, frontier, named })
    }

    fn entry(&mut self, bytes: &[u8], to: u64) -> Result<(), JournalError> {
        let (seq, hash) = (self.at, leaf_hash(bytes));
        self.at = self.at.saturating_add(1);
        if seq < self.from {
            self.before = Some(hash);
            return Ok(());
        }
        let prev = Entry::parse(bytes).ok().filter(|entry| entry.seq == seq);
        let prev = prev.map(|entry| entry.prev);
        // The first is always looked at, so that whoever asks on comes forward.
        if seq > to || (seq > self.from && self.bytes == 0) {
            self.named = Some(prev);
            return Err(JournalError::Enough);
        }
        self.link(seq, prev);
        self.bytes = self.bytes.saturating_sub(bytes.len());
        self.frontier.push(hash, |_| {});
        (self.before, self.to) = (Some(hash), seq);
        Ok(())
    }

    fn link(&mut self, seq: u64, actual: Option<Digest>) {
        let Some(expected) = self.before.filter(|expected| actual != Some(*expected)) else {
            return;
        };
        if self.breaks.len() < MOST_BREAKS {
            self.breaks.push(Break { seq, expected, actual });
        }
    }

    fn finish(
        mut self,
        store: &dyn Store,
        key: &VerifierKey,
        head: &Head,
    ) -> Result<Walked, JournalError> {
        let root = self.frontier.root();
        // What follows the last one vouches for it; behind the end that is the head.
        let named = self.named.unwrap_or(Some(head.hash));
        if self.breaks.last().is_none_or(|last| last.seq != self.to) && head.size > 0 {
            self.link(self.to, named);
        }
        let signed = key.open(&head.checkpoint).ok().filter(|signed| signed.size == head.size);
        let whole = self.whole(store, head.size)?;
        let fits = signed.as_ref().is_some_and(|signed| Some(signed.root) == whole);
        let Walker { from, to, breaks, .. } = self;
        Ok(Walked { from, to, breaks, root, is_signed: signed.is_some(), fits })
    }

    /// The root of the whole tree, with the subtrees behind what was walked.
    fn whole(&self, store: &dyn Store, size: u64) -> Result<Option<Digest>, JournalError> {
        let mut tree = self.frontier.clone();
        let behind = tree.size()..size;
        let Some(hashes) = sound(store.tile_hashes(behind.clone()))? else { return Ok(None) };
        let fits =
            tiling(behind).zip(hashes).all(|((height, _), hash)| tree.push_subtree(height, hash));
        Ok(fits.then(|| tree.root()))
    }
}
