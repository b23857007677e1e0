//! The durable, ordered, hash-chained record of every fact.
//!
//! This crate owns the disk format: entries and their hashes, the Merkle tree over them, signed
//! checkpoints, blobs, and the export that anyone can verify without us. It knows nothing of how a
//! call is decided or run.

// The builders of the integration tests serve the unit tests too, and call this crate by its name.
#[cfg(test)]
extern crate self as countersign_journal;

pub mod blobs;
pub mod checkpoint;
pub mod entry;
pub mod error;
pub mod export;
pub mod keys;
mod mark;
pub mod merkle;
pub mod presence;
pub mod range;
pub mod receipt;
pub mod sqlite;
pub mod store;
pub mod verify;

pub use blobs::{BlobBatch, Blobs, sync_together};
pub use checkpoint::{Checkpoint, CheckpointError, NoteSigner, VerifierKey};
pub use entry::Entry;
pub use error::{AppendError, Conflict, JournalError};
pub use sqlite::SqliteStore;
pub use store::{
    Appended, ArtifactFilter, Batch, CallFilter, Expect, GrantRow, Guard, Head, KeyChange, People,
    Record, RecordKey, Reply, ReplyKey, RunFilter, Store, StoredEntry, WorkCounts,
};
