//! The answers of `cat-file --batch`, taken apart as they come.

use countersign_model::Failure;

use crate::id::ObjectId;

/// A header is an id, a kind and a size: more than this is something else.
const HEADER: usize = 256;

/// What an id that was asked for turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'c> {
    Bytes(&'c [u8]),
    /// More than was allowed, and how much.
    TooLarge(u64),
    /// There is no such blob.
    Missing,
}

type Visit<'v> = &'v mut dyn FnMut(usize, Content<'_>) -> Result<(), Failure>;

enum Expecting {
    Header,
    /// Bytes of an object that are still to come, and the line break after them.
    Content {
        left: u64,
        kept: bool,
    },
    LineBreak {
        size: u64,
        kept: bool,
    },
}

pub(crate) struct Reader<'v> {
    most: u64,
    visit: Visit<'v>,
    visited: usize,
    buffer: Vec<u8>,
    size: u64,
    expecting: Expecting,
}

impl<'v> Reader<'v> {
    pub(crate) fn new(most: u64, visit: Visit<'v>) -> Self {
        let (buffer, expecting) = (Vec::new(), Expecting::Header);
        Reader { most, visit, visited: 0, buffer, size: 0, expecting }
    }

    /// How many answers were complete.
    pub(crate) fn visited(&self) -> usize {
        self.visited
    }

    pub(crate) fn take(&mut self, mut piece: &[u8]) -> Result<(), Failure> {
        while !piece.is_empty() {
            piece = match self.expecting {
                Expecting::Header => self.header(piece)?,
                Expecting::Content { left, kept } => self.content(piece, left, kept),
                Expecting::LineBreak { size, kept } => self.finish(piece, size, kept)?,
            };
        }
        Ok(())
    }

    fn header<'p>(&mut self, piece: &'p [u8]) -> Result<&'p [u8], Failure> {
        let end = piece.iter().position(|byte| *byte == b'\n');
        let (line, rest) = piece.split_at_checked(end.unwrap_or(piece.len())).unwrap_or_default();
        self.buffer.extend_from_slice(line);
        if self.buffer.len() > HEADER {
            return Err(odd());
        }
        if end.is_none() {
            return Ok(rest);
        }
        let header = std::mem::take(&mut self.buffer);
        self.begin(&header)?;
        Ok(rest.get(1..).unwrap_or_default())
    }

    fn begin(&mut self, header: &[u8]) -> Result<(), Failure> {
        let words: Vec<&[u8]> = header.split(|byte| *byte == b' ').collect();
        match *words.as_slice() {
            [_, b"missing"] => self.tell(Content::Missing),
            [id, kind, size] if ObjectId::from_hex(id).is_some() => {
                let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
                self.size = size.ok_or_else(odd)?;
                let kept = kind == b"blob" && self.size <= self.most;
                // Only a blob is an answer; the size of others is passed over as "not there".
                if kind != b"blob" {
                    self.size = u64::MAX;
                }
                let left = size.unwrap_or_default();
                self.expecting = match left {
                    0 => Expecting::LineBreak { size: self.size, kept },
                    left => Expecting::Content { left, kept },
                };
                Ok(())
            }
            _ => Err(odd()),
        }
    }

    fn content<'p>(&mut self, piece: &'p [u8], left: u64, kept: bool) -> &'p [u8] {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        let (part, rest) = piece.split_at_checked(here).unwrap_or_default();
        if kept {
            self.buffer.extend_from_slice(part);
        }
        self.expecting = match left - here as u64 {
            0 => Expecting::LineBreak { size: self.size, kept },
            left => Expecting::Content { left, kept },
        };
        rest
    }

    fn finish<'p>(&mut self, piece: &'p [u8], size: u64, kept: bool) -> Result<&'p [u8], Failure> {
        let rest = piece.strip_prefix(b"\n").ok_or_else(odd)?;
        self.expecting = Expecting::Header;
        let bytes = std::mem::take(&mut self.buffer);
        match (kept, size) {
            (true, _) => self.tell(Content::Bytes(&bytes))?,
            (false, u64::MAX) => self.tell(Content::Missing)?,
            (false, size) => self.tell(Content::TooLarge(size))?,
        }
        Ok(rest)
    }

    fn tell(&mut self, content: Content<'_>) -> Result<(), Failure> {
        let place = self.visited;
        self.visited += 1;
        (self.visit)(place, content)
    }
}

fn odd() -> Failure {
    Failure::execution("GIT_FAILED", "git gave an answer that is not understood")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn read(pieces: &[&[u8]], most: u64) -> Result<Vec<String>, Failure> {
        let mut seen = Vec::new();
        let mut visit = |place: usize, content: Content<'_>| {
            seen.push(format!("{place} {content:?}"));
            Ok(())
        };
        let mut reader = Reader::new(most, &mut visit);
        pieces.iter().try_for_each(|piece| reader.take(piece))?;
        Ok(seen)
    }

    fn answers() -> Vec<u8> {
        format!(
            "{ID} blob 3\na\nb\n{ID} blob 0\n\n{ID} missing\n{ID} tree 2\nxy\n{ID} blob 9\n\
             123456789\n"
        )
        .into_bytes()
    }

    #[test]
    fn answers_are_told_apart() {
        let told = read(&[&answers()], 5).unwrap();
        let expected =
            ["0 Bytes([97, 10, 98])", "1 Bytes([])", "2 Missing", "3 Missing", "4 TooLarge(9)"];
        assert_eq!(told, expected);
        assert!(read(&[b"what is this\n"], 5).is_err());
        assert!(read(&[&[b'x'; 300]], 5).is_err());
    }

    proptest! {
        #[test]
        fn however_they_are_cut(at in 0usize..200) {
            let all = answers();
            let (head, tail) = all.split_at(at.min(all.len()));
            prop_assert_eq!(read(&[head, tail], 5), read(&[&all], 5));
        }

        #[test]
        fn whatever_comes_nothing_breaks(bytes: Vec<u8>) {
            let _ = read(&[&bytes], 5);
        }
    }
}
