//! A stream as it passes: its head, its length, its digest, and what was found in it.

use countersign_model::Digest;
use countersign_model::digest::Hasher;

use super::MAX_SHOWN_BYTES;
use crate::scan::{Counts, Known, Stream};

/// More of a stream is never shown, so more of it is never kept.
pub const HEAD_BYTES: usize = MAX_SHOWN_BYTES;

/// All that a result needs to know about a stream. It is small, however long the stream was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    pub bytes: u64,
    pub found: Counts,
    /// The first bytes; all of them when there are no more.
    pub head: Vec<u8>,
    pub lines: u64,
    pub sha256: Digest,
}

impl Captured {
    /// A stream that is in memory anyway.
    pub fn of(bytes: &[u8], known: &Known) -> Captured {
        let mut capture = Capture::new(known);
        capture.push(bytes);
        capture.finish()
    }
}

/// Takes a stream in pieces of any size.
#[derive(Debug)]
pub struct Capture<'k> {
    bytes: u64,
    ends: u64,
    hasher: Hasher,
    head: Vec<u8>,
    last: u8,
    scan: Stream<'k>,
}

impl<'k> Capture<'k> {
    /// What is known is not taken for a secret: the digests of the inputs, say.
    pub fn new(known: &'k Known) -> Self {
        Capture {
            bytes: 0,
            ends: 0,
            hasher: Hasher::default(),
            head: Vec::new(),
            last: b'\n',
            scan: Stream::new(known),
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.ends += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.last = *last;
        self.hasher.update(bytes);
        self.scan.push(bytes);
    }

    pub fn finish(self) -> Captured {
        let lines = self.ends + u64::from(self.last != b'\n');
        let (bytes, head) = (self.bytes, self.head);
        Captured { bytes, found: self.scan.finish(), head, lines, sha256: self.hasher.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_people_count_them() {
        let known = Known::default();
        for (text, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n", 1), ("\n\n", 2)] {
            let captured = Captured::of(text.as_bytes(), &known);
            assert_eq!((captured.lines, captured.bytes), (lines, text.len() as u64), "{text:?}");
            assert_eq!(captured.sha256, Digest::of(text.as_bytes()));
        }
    }

    #[test]
    fn pieces_make_no_difference_and_the_head_stays_small() {
        let known = Known::default();
        let text = "a line of some length\n".repeat(10_000);
        let whole = Captured::of(text.as_bytes(), &known);
        assert_eq!((whole.head.len(), whole.lines), (HEAD_BYTES, 10_000));
        let mut capture = Capture::new(&known);
        text.as_bytes().chunks(777).for_each(|piece| capture.push(piece));
        assert_eq!(capture.finish(), whole);
    }
}
