//! What was found in a stream, counted by kind, without keeping the stream.

use std::collections::BTreeMap;

use super::{Found, Known, Views, binary};

/// The four kinds of content that a result must not carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Secret,
    Payload,
    Claim,
    Instruction,
}

impl Family {
    pub const ALL: [Family; 4] =
        [Family::Secret, Family::Payload, Family::Claim, Family::Instruction];
}

/// How often each kind was found.
pub type Counts = BTreeMap<Family, u64>;

/// Looks at bytes as they pass, in windows that overlap, so that memory does not grow with them.
#[derive(Debug)]
pub struct Stream<'k> {
    known: &'k Known,
    buffer: Vec<u8>,
    /// How much of the buffer also was the end of the window before.
    carried: usize,
    counts: Counts,
}

const WINDOW: usize = 64 * 1024;
const OVERLAP: usize = 8 * 1024;

impl<'k> Stream<'k> {
    pub fn new(known: &'k Known) -> Self {
        Stream { known, buffer: Vec::new(), carried: 0, counts: Counts::new() }
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = WINDOW.saturating_sub(self.buffer.len()).min(bytes.len());
            let (now, later) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() >= WINDOW {
                self.look(WINDOW - OVERLAP / 2);
                self.buffer.drain(..WINDOW - OVERLAP);
                self.carried = OVERLAP;
            }
        }
    }

    pub fn finish(mut self) -> Counts {
        self.look(self.buffer.len());
        self.counts
    }

    /// Counts what begins before `end` and was not counted with the window before. What begins in
    /// an overlap is seen with as much around it on either side as half of it.
    fn look(&mut self, end: usize) {
        let own = self.carried / 2..end;
        for (family, found) in scan_bytes(&self.buffer, self.known) {
            let fresh = found.iter().filter(|found| own.contains(&found.offset)).count();
            if fresh > 0 {
                *self.counts.entry(family).or_default() += fresh as u64;
            }
        }
    }
}

/// Everything that is found in bytes, by kind.
pub fn scan_bytes(bytes: &[u8], known: &Known) -> BTreeMap<Family, Vec<Found>> {
    let text = String::from_utf8_lossy(bytes);
    let views = Views::of(&text, known);
    let mut payloads = views.payloads();
    payloads.extend(binary(bytes));
    payloads.sort_unstable();
    payloads.dedup();
    let all = [
        (Family::Secret, views.secrets()),
        (Family::Payload, payloads),
        (Family::Claim, views.claims()),
        (Family::Instruction, views.instructions()),
    ];
    all.into_iter().filter(|(_, found)| !found.is_empty()).collect()
}
