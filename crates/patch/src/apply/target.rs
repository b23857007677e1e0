//! A content as lines, and where lines of a kind are in it.

use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;

use memchr::memchr_iter;

/// A content with the places where its lines begin.
#[derive(Debug)]
pub(crate) struct Target<'c> {
    content: &'c [u8],
    /// The beginning of each line, and the end of the last one.
    starts: Vec<u32>,
    index: Option<Vec<(u32, u32)>>,
}

impl<'c> Target<'c> {
    /// None when the content is too large for this.
    pub(crate) fn new(content: &'c [u8]) -> Option<Target<'c>> {
        let size = u32::try_from(content.len()).ok()?;
        let mut starts = Vec::with_capacity(memchr_iter(b'\n', content).count() + 2);
        starts.push(0);
        // The content fits into 32 bits, so every place in it does.
        starts.extend(memchr_iter(b'\n', content).map(|at| at as u32 + 1));
        if starts.last() != Some(&size) {
            starts.push(size);
        }
        Some(Target { content, starts, index: None })
    }

    pub(crate) fn content(&self) -> &'c [u8] {
        self.content
    }

    /// How many lines there are.
    pub(crate) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Where a line begins; behind the last one, the end.
    pub(crate) fn start(&self, line: usize) -> usize {
        self.starts.get(line).map_or(self.content.len(), |start| *start as usize)
    }

    #[inline]
    pub(crate) fn line(&self, line: usize) -> Option<&'c [u8]> {
        let (start, end) = (self.starts.get(line)?, self.starts.get(line + 1)?);
        self.content.get(*start as usize..*end as usize)
    }

    /// The lines from `start` up to `end`.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'c [u8] {
        self.content.get(self.start(start)..self.start(end)).unwrap_or_default()
    }

    /// Whether the last line lacks its newline, so that nothing can be put behind it.
    pub(crate) fn is_unterminated(&self) -> bool {
        self.content.last().is_some_and(|byte| *byte != b'\n')
    }

    /// Which entries of the index may be equal to `line`, in order: those with the same hash.
    pub(crate) fn alike(&mut self, line: &[u8]) -> Range<usize> {
        if self.index.is_none() {
            self.index = Some(self.hashed());
        }
        let (index, hash) = (self.index(), hash(line));
        let first = index.partition_point(|(other, _)| *other < hash);
        let rest = index.get(first..).unwrap_or_default();
        first..first + rest.partition_point(|(other, _)| *other == hash)
    }

    /// Hashes with the numbers of their lines; empty before anything was looked for.
    pub(crate) fn index(&self) -> &[(u32, u32)] {
        self.index.as_deref().unwrap_or_default()
    }

    fn hashed(&self) -> Vec<(u32, u32)> {
        let line = |number: u32| self.line(number as usize).unwrap_or_default();
        let numbers = 0..u32::try_from(self.count()).unwrap_or(u32::MAX);
        let mut index: Vec<_> = numbers.map(|number| (hash(line(number)), number)).collect();
        index.sort_unstable();
        index
    }
}

/// The same on every machine and day, unlike the hash of a map. Collisions cost time only, and
/// time is budgeted.
fn hash(line: &[u8]) -> u32 {
    let mut hasher = DefaultHasher::new();
    hasher.write(line);
    (hasher.finish() >> 32) as u32
}
