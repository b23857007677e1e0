//! Whether the head of the journal is what was signed. Asked when a journal is opened and again
//! before every commit: a signature must never be put on top of what somebody else changed.

use rusqlite::{Connection, OptionalExtension, Row};

use super::rows::{self, HeadRow};
use crate::checkpoint::{Checkpoint, VerifierKey};
use crate::error::JournalError;
use crate::merkle::leaf_hash;

/// The newest checkpoint that this process saw. The journal can only grow from there.
#[derive(Debug, Clone)]
pub(super) struct Trusted {
    pub(super) note: String,
    pub(super) signed: Checkpoint,
}

impl Trusted {
    /// Checks `head` and the entry it ends with; the cost does not grow with the journal.
    pub(super) fn check(
        connection: &Connection,
        head: &HeadRow,
        key: &VerifierKey,
        known: Option<&Trusted>,
    ) -> Result<Trusted, JournalError> {
        let trusted = Self::signed(head, key, known)?;
        let tree = (head.frontier.size(), head.frontier.root());
        if (trusted.signed.size, trusted.signed.root) != tree {
            return Err(corrupt("its head is not what was signed"));
        }
        if known.is_some_and(|known| !trusted.may_follow(known)) {
            return Err(corrupt("it was cut back while it was in use"));
        }
        check_last(connection, head)?;
        Ok(trusted)
    }

    /// A note that was checked once, or written by this process, is not checked again.
    fn signed(
        head: &HeadRow,
        key: &VerifierKey,
        known: Option<&Trusted>,
    ) -> Result<Trusted, JournalError> {
        if let Some(known) = known.filter(|known| known.note == head.checkpoint) {
            return Ok(known.clone());
        }
        let signed = key.open(&head.checkpoint).map_err(|e| corrupt(&e.to_string()))?;
        Ok(Trusted { note: head.checkpoint.clone(), signed })
    }

    fn may_follow(&self, known: &Trusted) -> bool {
        let (new, old) = (&self.signed, &known.signed);
        new.size > old.size || (new.size == old.size && new.root == old.root)
    }
}

/// The last entry is the one that the head names; whether it can be read is for readers to find.
fn check_last(connection: &Connection, head: &HeadRow) -> Result<(), JournalError> {
    let sql = "SELECT seq, hash, body FROM entries ORDER BY seq DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = |row: &Row<'_>| Ok((row.get::<_, u64>(0)?, rows::digest(row, 1)?, rows::body(row)));
    let size = head.frontier.size();
    let fits = match statement.query_row([], found).optional()? {
        Some((seq, hash, body)) => {
            seq + 1 == size && hash == head.hash && leaf_hash(&body?) == hash
        }
        None => size == 0,
    };
    fits.then_some(()).ok_or_else(|| corrupt("its last entries are missing or not signed"))
}

fn corrupt(why: &str) -> JournalError {
    JournalError::Corrupt(why.to_owned())
}
