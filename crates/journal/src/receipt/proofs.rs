//! Whether entries are in the tree that the checkpoint signs, at their places and in their order.

use super::report::{Check, Proven as Tree};
use super::statement::Proven;
use super::verify::Verification;
use crate::checkpoint::Checkpoint;
use crate::entry::Entry;
use crate::merkle::{leaf_hash, root_from_path};

/// The call's entries and those of what it rests on, as far as they can be read.
pub(super) struct Entries {
    pub(super) call: Vec<Entry>,
    pub(super) basis: Vec<Entry>,
}

impl Verification<'_> {
    pub(super) fn checkpoint(&mut self) -> Option<Checkpoint> {
        match self.key.open(&self.statement.predicate.checkpoint) {
            Ok(checkpoint) => {
                let what = format!("{} entries of {}", checkpoint.size, checkpoint.origin);
                self.report.reached(Check::Checkpoint, what);
                Some(checkpoint)
            }
            Err(error) => {
                let code = "CHECKPOINT_INVALID";
                self.report.problem(Check::Checkpoint, code, None, error.to_string());
                None
            }
        }
    }

    pub(super) fn entries(&mut self, checkpoint: Option<&Checkpoint>) -> Entries {
        let predicate = &self.statement.predicate;
        let call = self.part(&predicate.entries, checkpoint);
        let basis = self.part(&predicate.basis, checkpoint);
        let (n, m) = (predicate.entries.len(), predicate.basis.len());
        let what = format!("{n} entries of the call, {m} of what it rests on");
        self.report.reached(Check::Inclusion, what);
        if let (Some(checkpoint), Some(last)) = (checkpoint, predicate.entries.last()) {
            let Checkpoint { origin, size, root } = checkpoint.clone();
            self.report.proven = Some(Tree { origin, size, root, last: leaf_hash(&last.entry.0) });
        }
        Entries { call, basis }
    }

    fn part(&mut self, proven: &[Proven], checkpoint: Option<&Checkpoint>) -> Vec<Entry> {
        let mut after = None;
        let mut entries = Vec::new();
        for one in proven {
            if after.is_some_and(|after| one.seq <= after) {
                let message = format!("entry {} does not follow the one before it", one.seq);
                self.faulty("ENTRY_ORDER", one.seq, message);
            }
            after = Some(one.seq);
            entries.extend(self.entry(one, checkpoint));
        }
        entries
    }

    pub(super) fn faulty(&mut self, code: &'static str, seq: u64, message: impl Into<String>) {
        self.report.problem(Check::Inclusion, code, Some(seq), message);
    }

    fn entry(&mut self, proven: &Proven, checkpoint: Option<&Checkpoint>) -> Option<Entry> {
        let (seq, bytes) = (proven.seq, &proven.entry.0);
        let leads_to = |c: &Checkpoint| {
            root_from_path(leaf_hash(bytes), seq, c.size, &proven.path) == Some(c.root)
        };
        if !checkpoint.is_none_or(leads_to) {
            let message = format!("entry {seq} is not in the tree that the checkpoint signs");
            self.faulty("ENTRY_NOT_INCLUDED", seq, message);
        }
        match Entry::parse(bytes) {
            Ok(entry) if entry.seq == seq => Some(entry),
            Ok(entry) => {
                let message = format!("entry {} stands in the place of entry {seq}", entry.seq);
                self.faulty("ENTRY_ORDER", seq, message);
                None
            }
            Err(error) => {
                self.faulty("ENTRY_UNREADABLE", seq, format!("entry {seq}: {error}"));
                None
            }
        }
    }
}
