//! Files that prove something to an outsider. `docs/journal-format.md` describes them for people
//! who want to write a verifier of their own.
//!
//! An export is text: a header line, then the entries of a range, one per line, byte for byte as
//! they were hashed. A proof is one JSON object: one entry and its RFC 6962 audit path.

use std::io::{BufRead, Read, Write};
use std::ops::Range;

use countersign_model::Digest;
use serde::{Deserialize, Serialize};

use crate::checkpoint::VerifierKey;
use crate::entry::{Entry, MAX_ENTRY};
use crate::error::JournalError;
use crate::merkle::{leaf_hash, root_from_path};
use crate::store::Store;
use crate::verify::{Edges, Fault, Verified, Verifier};

const EXPORT_FORMAT: &str = "countersign-journal/1";
const PROOF_FORMAT: &str = "countersign-proof/1";

/// No honest line is longer: inside a proof every byte of an entry may be escaped by another.
const MAX_LINE: u64 = 2 * MAX_ENTRY as u64 + (64 << 10);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    first: u64,
    end: u64,
    /// Roots of the complete subtrees that tile the entries before and after the range.
    left: Vec<Digest>,
    right: Vec<Digest>,
    checkpoint: String,
}

/// Writes the entries of `range`, which must not reach beyond the journal's head.
pub fn write(
    store: &dyn Store,
    range: Range<u64>,
    out: &mut dyn Write,
) -> Result<(), JournalError> {
    let head = store.head()?;
    let end = range.end.min(head.size);
    let first = range.start.min(end);
    let header = Header {
        format: EXPORT_FORMAT.to_owned(),
        first,
        end,
        left: store.tile_hashes(0..first)?,
        right: store.tile_hashes(end..head.size)?,
        checkpoint: head.checkpoint,
    };
    write_line(out, &to_json(&header)?)?;
    store.visit_raw(first..end, &mut |bytes| Ok(write_line(out, &bytes)?))?;
    Ok(out.flush()?)
}

fn write_line(out: &mut dyn Write, line: &[u8]) -> std::io::Result<()> {
    out.write_all(line)?;
    out.write_all(b"\n")
}

fn to_json<T: Serialize>(value: &T) -> Result<Vec<u8>, JournalError> {
    serde_json::to_vec(value).map_err(|e| JournalError::Internal(e.to_string()))
}

/// One entry, and the path from it to a signed root.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    format: String,
    /// The entry's exact bytes.
    entry: String,
    seq: u64,
    path: Vec<Digest>,
    checkpoint: String,
}

pub fn prove(store: &dyn Store, seq: u64) -> Result<Proof, JournalError> {
    let head = store.head()?;
    if seq >= head.size {
        return Err(JournalError::NoEntry { seq, size: head.size });
    }
    let mut entry = Vec::new();
    store.visit_raw(seq..seq + 1, &mut |bytes| {
        entry = bytes;
        Ok(())
    })?;
    let entry = String::from_utf8(entry)
        .map_err(|_| JournalError::Corrupt(format!("entry {seq} is not text")))?;
    let path = store.inclusion_path(seq, head.size)?;
    Ok(Proof { format: PROOF_FORMAT.to_owned(), entry, seq, path, checkpoint: head.checkpoint })
}

impl Proof {
    /// Writes the proof as [`verify`] reads it: one line.
    pub fn write(&self, out: &mut dyn Write) -> Result<(), JournalError> {
        write_line(out, &to_json(self)?)?;
        Ok(out.flush()?)
    }

    fn verify(&self, key: &VerifierKey) -> Result<Verified, Fault> {
        let seq = self.seq;
        let checkpoint = key.open(&self.checkpoint)?;
        let entry = Entry::parse(self.entry.as_bytes())
            .map_err(|e| Fault::Unreadable { seq, why: e.to_string() })?;
        if entry.seq != seq {
            return Err(Fault::OutOfOrder { expected: seq, found: entry.seq });
        }
        let leaf = leaf_hash(self.entry.as_bytes());
        if root_from_path(leaf, seq, checkpoint.size, &self.path) != Some(checkpoint.root) {
            return Err(Fault::Changed { seq });
        }
        let (origin, size, root) = (checkpoint.origin, checkpoint.size, checkpoint.root);
        Ok(Verified { origin, first: seq, end: seq + 1, size, root })
    }
}

/// Checks an export or a proof. `earlier` are older checkpoints that it must continue.
pub fn verify(
    input: &mut dyn BufRead,
    key: &VerifierKey,
    earlier: &[String],
) -> Result<Verified, Fault> {
    let mut lines = Lines { input, buffer: Vec::new() };
    let first = lines.next()?.ok_or_else(|| header_fault("its first line is missing or cut"))?;
    match serde_json::from_slice::<Proof>(first) {
        Ok(proof) => {
            check_spelling(first, &proof, &proof.format, PROOF_FORMAT)?;
            verify_proof(&proof, lines, key, earlier)
        }
        Err(_) => {
            let header: Header =
                serde_json::from_slice(first).map_err(|e| Fault::Header(e.to_string()))?;
            check_spelling(first, &header, &header.format, EXPORT_FORMAT)?;
            verify_export(header, lines, key, earlier)
        }
    }
}

fn header_fault(why: &str) -> Fault {
    Fault::Header(why.to_owned())
}

/// The first line has one spelling, so that no byte of a file can change unnoticed.
fn check_spelling<T: Serialize>(
    line: &[u8],
    value: &T,
    format: &str,
    known: &str,
) -> Result<(), Fault> {
    if format != known {
        return Err(Fault::Header(format!("`{format}` is not a known format")));
    }
    let canonical = to_json(value).is_ok_and(|json| json == line);
    canonical.then_some(()).ok_or_else(|| header_fault("its first line was rewritten"))
}

fn verify_proof(
    proof: &Proof,
    mut lines: Lines<'_>,
    key: &VerifierKey,
    earlier: &[String],
) -> Result<Verified, Fault> {
    if !earlier.is_empty() {
        return Err(header_fault("a proof of one entry cannot show what the journal continues"));
    }
    if lines.next()?.is_some() || lines.is_cut() {
        return Err(header_fault("something follows the proof"));
    }
    proof.verify(key)
}

fn verify_export(
    header: Header,
    mut lines: Lines<'_>,
    key: &VerifierKey,
    earlier: &[String],
) -> Result<Verified, Fault> {
    let edges = Edges { left: header.left, right: header.right };
    let mut verifier =
        Verifier::new(key.clone(), &header.checkpoint, header.first, header.end, edges)?;
    for note in earlier {
        verifier.must_extend(note)?;
    }
    while let Some(line) = lines.next()? {
        verifier.entry(line)?;
    }
    if lines.is_cut() {
        verifier.fragment()?;
    }
    verifier.finish()
}

/// Lines of bounded length.
struct Lines<'i> {
    input: &'i mut dyn BufRead,
    buffer: Vec<u8>,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<&[u8]>, Fault> {
        self.buffer.clear();
        let mut limited = Read::take(&mut *self.input, MAX_LINE);
        let read = limited
            .read_until(b'\n', &mut self.buffer)
            .map_err(|e| Fault::Header(format!("it cannot be read: {e}")))?;
        if read as u64 == MAX_LINE {
            return Err(header_fault("a line is longer than any entry can be"));
        }
        // What follows the last line end was cut off in the middle: it counts as missing.
        Ok(self.buffer.strip_suffix(b"\n"))
    }

    /// Whether the last line had no end.
    fn is_cut(&self) -> bool {
        !self.buffer.is_empty()
    }
}
