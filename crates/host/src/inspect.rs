//! Checking a whole home: the chain, the signatures, and the tables that answers are made from.

use countersign_journal::JournalError;
use countersign_journal::verify::{Edges, Fault, Verified, Verifier};
use countersign_model::Failure;

use crate::caches::Caches;
use crate::home::Home;

/// Why a home does not verify.
#[derive(Debug)]
pub enum Unsound {
    /// The journal itself was damaged or changed.
    Journal(Fault),
    /// The journal is whole, but what was cached from it says something else.
    Cache {
        what: String,
    },
    Unreadable(JournalError),
}

impl From<JournalError> for Unsound {
    fn from(error: JournalError) -> Self {
        Unsound::Unreadable(error)
    }
}

impl From<Unsound> for Failure {
    fn from(unsound: Unsound) -> Failure {
        let hint = "do not trust what follows it; restore state/ from a backup";
        match unsound {
            Unsound::Journal(fault) => {
                let details = serde_json::json!({"entry": fault.entry()});
                Failure::state("AUDIT_FAILED", fault.to_string()).hint(hint).details(details)
            }
            Unsound::Cache { what } => {
                let message = format!("{what} differs from what the journal says");
                Failure::state("AUDIT_FAILED", message).hint(hint)
            }
            Unsound::Unreadable(error) => error.into(),
        }
    }
}

/// Verifies every entry up to the signed head, that every call is a legal story, and that the
/// cached calls agree with it. `progress` is told how many entries were checked.
pub fn verify_home(
    home: &Home,
    earlier: &[String],
    mut progress: impl FnMut(u64),
) -> Result<Verified, Unsound> {
    let head = home.store.head()?;
    let key = home.journal_key.verifier().clone();
    let mut verifier = Verifier::new(key, &head.checkpoint, 0, head.size, Edges::default())
        .map_err(Unsound::Journal)?;
    for note in earlier {
        verifier.must_extend(note).map_err(Unsound::Journal)?;
    }
    let mut caches = Caches::new(&*home.store);
    let mut found = Ok(());
    let mut seen = 0;
    home.store.visit_raw(0..head.size, &mut |bytes| {
        if found.is_ok() {
            found = verifier.entry(&bytes).map_err(Unsound::Journal);
        }
        if found.is_ok() {
            found = caches.entry(&bytes);
        }
        seen += 1;
        progress(seen);
        Ok(())
    })?;
    found?;
    let verified = verifier.finish().map_err(Unsound::Journal)?;
    caches.compare(head.size)?;
    Ok(verified)
}
