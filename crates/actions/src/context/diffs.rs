//! The diffs of all changed files, made by one command and kept in a file: a command for each file
//! would take longer than all the rest of a pack.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use countersign_model::Failure;

/// Lines that are longer than this begin no diff of a file.
const LONGEST_HEADER: usize = 16 << 10;

const MARK: &[u8] = b"diff --git ";

#[derive(Debug)]
pub(super) struct Diffs {
    file: File,
    /// Where the diff of a file is, by its first line.
    places: HashMap<Vec<u8>, Range<u64>>,
}

impl Diffs {
    /// Keeps what `write` writes.
    pub(super) fn make(
        file: File,
        write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut marking = Marking::new(file);
        write(&mut marking)?;
        marking.finish().map_err(|error| lost(&error))
    }

    /// At most so much of the diff of a path; none if the path has none under its plain name.
    pub(super) fn of(&mut self, path: &str, at_most: u64) -> Result<Option<Vec<u8>>, Failure> {
        let header = format!("diff --git a/{path} b/{path}").into_bytes();
        let Some(place) = self.places.get(&header) else { return Ok(None) };
        let mut bytes = Vec::new();
        let mut read = || {
            self.file.seek(SeekFrom::Start(place.start))?;
            let most = at_most.min(place.end - place.start);
            (&self.file).take(most).read_to_end(&mut bytes)
        };
        read().map_err(|error| lost(&error))?;
        Ok(Some(bytes))
    }
}

fn lost(error: &io::Error) -> Failure {
    Failure::state("REPORT_LOST", format!("a diff cannot be kept: {error}"))
        .hint("free some space, and try again")
}

/// Writes on, and notes where each diff begins. Lines of contents begin with another character.
struct Marking {
    out: BufWriter<File>,
    at: u64,
    /// The line that is being written, as much as could be a header.
    line: Vec<u8>,
    line_start: u64,
    open: Option<(Vec<u8>, u64)>,
    places: HashMap<Vec<u8>, Range<u64>>,
}

impl Marking {
    fn new(file: File) -> Self {
        let (out, places) = (BufWriter::with_capacity(1 << 18, file), HashMap::new());
        Marking { out, at: 0, line: Vec::new(), line_start: 0, open: None, places }
    }

    fn end_line(&mut self) {
        if self.line.starts_with(MARK) {
            let header = std::mem::take(&mut self.line);
            self.close(self.line_start);
            self.open = Some((header, self.line_start));
        }
        self.line.clear();
        self.line_start = self.at;
    }

    /// A file that became a link has two parts, one after the other.
    fn close(&mut self, end: u64) {
        if let Some((header, start)) = self.open.take() {
            self.places.entry(header).and_modify(|place| place.end = end).or_insert(start..end);
        }
    }

    fn finish(mut self) -> io::Result<Diffs> {
        self.close(self.at);
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Diffs { file, places: self.places })
    }
}

impl Write for Marking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.at += piece.len() as u64;
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = LONGEST_HEADER.saturating_sub(self.line.len());
            self.line.extend(text.iter().take(room));
            if text.len() < piece.len() {
                self.end_line();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_own_part_however_the_diff_arrives() {
        let (a, b) =
            ("diff --git a/x y b/x y\n@@\n+diff --git a/b b/b\n", "diff --git a/b b/b\n-1\n");
        let all = [a, b, b].concat();
        for step in [1, 7, 1000] {
            let write = |out: &mut dyn Write| {
                all.as_bytes().chunks(step).for_each(|piece| out.write_all(piece).unwrap());
                Ok(())
            };
            let mut diffs = Diffs::make(tempfile::tempfile().unwrap(), write).unwrap();
            assert_eq!(diffs.of("x y", 1000).unwrap().unwrap(), a.as_bytes());
            assert_eq!(diffs.of("b", 1000).unwrap().unwrap(), [b, b].concat().as_bytes());
            assert_eq!(diffs.of("b", 4).unwrap().unwrap(), b"diff");
            assert_eq!(diffs.of("a", 1000).unwrap(), None);
        }
    }
}
