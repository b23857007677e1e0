//! A shelf that is gone with its process: for tests, and for hosts that promise nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use countersign_model::{Failure, Timestamp};

use super::{Claim, Entry, OperationKey, Shelf, Stored};

#[derive(Debug, Default)]
pub struct MemoryShelf(Mutex<HashMap<OperationKey, Entry>>);

impl Shelf for MemoryShelf {
    fn look_or_claim(
        &self,
        key: &OperationKey,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Option<Entry>, Failure> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(key).filter(|entry| entry.counts(now)) {
            return Ok(Some(entry.clone()));
        }
        entries.retain(|_, entry| entry.counts(now));
        entries.insert(key.clone(), Entry::InFlight(claim.clone()));
        Ok(None)
    }

    fn settle(
        &self,
        key: &OperationKey,
        claim: &Claim,
        stored: Option<&Stored>,
    ) -> Result<(), Failure> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.get(key) != Some(&Entry::InFlight(claim.clone())) {
            return Ok(());
        }
        match stored {
            Some(stored) => entries.insert(key.clone(), Entry::Done(stored.clone())),
            None => entries.remove(key),
        };
        Ok(())
    }

    fn sweep(&self, now: Timestamp) -> Result<(), Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, entry| entry.counts(now));
        Ok(())
    }
}
