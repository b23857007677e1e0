//! The lines of the input, one after the other, with their numbers.

use memchr::memchr;

/// A place in the input: the line that begins there and its number. Copied to look ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines<'a> {
    source: &'a [u8],
    start: usize,
    end: usize,
    number: u32,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(source: &'a [u8]) -> Lines<'a> {
        let mut lines = Lines { source, start: 0, end: 0, number: 0 };
        lines.advance();
        lines
    }

    /// The line here with its newline; none at the end.
    #[inline]
    pub(crate) fn line(&self) -> Option<&'a [u8]> {
        self.source.get(self.start..self.end).filter(|line| !line.is_empty())
    }

    /// The line here without its end, for headers: a carriage return is part of the end.
    pub(crate) fn header(&self) -> Option<&'a [u8]> {
        let line = self.line()?;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// What follows `prefix` on the line here, as a header.
    pub(crate) fn after(&self, prefix: &[u8]) -> Option<&'a [u8]> {
        self.line()?.starts_with(prefix).then(|| self.header()?.get(prefix.len()..)).flatten()
    }

    pub(crate) fn starts_with(&self, prefix: &[u8]) -> bool {
        self.line().is_some_and(|line| line.starts_with(prefix))
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        let rest = self.source.get(self.end..).unwrap_or_default();
        self.start = self.end;
        self.end = memchr(b'\n', rest).map_or(self.source.len(), |at| self.end + at + 1);
        self.number = self.number.saturating_add(1);
    }

    pub(crate) fn next(mut self) -> Lines<'a> {
        self.advance();
        self
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn line_number(&self) -> u64 {
        self.number.into()
    }

    /// Everything from another place up to here.
    pub(crate) fn since(&self, other: &Lines<'a>) -> &'a [u8] {
        self.source.get(other.start..self.start).unwrap_or_default()
    }
}
