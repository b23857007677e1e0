//! Output of a program: a bounded part at hand, the rest in a file without a name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Takes output as it arrives.
#[derive(Debug)]
pub struct Capture {
    inline: Vec<u8>,
    keep: u64,
    hard: u64,
    total: u64,
    directory: PathBuf,
    spill: Option<File>,
}

/// The output of a program that has ended.
#[derive(Debug, Default)]
pub struct Captured {
    /// The beginning, as far as it is kept at hand.
    pub inline: Vec<u8>,
    pub total: u64,
    /// All of it, when that is more than `inline`.
    pub spill: Option<File>,
}

/// More arrived than may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

impl Capture {
    /// Keeps `keep` bytes at hand and at most `hard` in all.
    pub fn new(keep: u64, hard: u64, directory: &Path) -> Self {
        let directory = directory.to_owned();
        Capture { inline: Vec::new(), keep: keep.min(hard), hard, total: 0, directory, spill: None }
    }

    /// Takes what fits, and says if something did not.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<Result<(), Overflow>> {
        let room = usize::try_from(self.hard - self.total).unwrap_or(usize::MAX);
        let (fits, too_much) = bytes.split_at(bytes.len().min(room));
        self.total += fits.len() as u64;
        let room = usize::try_from(self.keep).unwrap_or(usize::MAX) - self.inline.len();
        let (inline, rest) = fits.split_at(fits.len().min(room));
        if let Some(file) = &mut self.spill {
            file.write_all(fits)?;
        } else if !rest.is_empty() {
            let mut file = unnamed_file(&self.directory)?;
            file.write_all(&self.inline)?;
            file.write_all(fits)?;
            self.spill = Some(file);
        }
        self.inline.extend_from_slice(inline);
        Ok(if too_much.is_empty() { Ok(()) } else { Err(Overflow) })
    }

    pub fn finish(self) -> Captured {
        Captured { inline: self.inline, total: self.total, spill: self.spill }
    }
}

impl Captured {
    /// Whether `inline` is not all there is.
    pub fn is_cut(&self) -> bool {
        self.total > self.inline.len() as u64
    }

    /// All of it, from the beginning.
    pub fn read_all(&mut self) -> io::Result<Vec<u8>> {
        let Some(file) = &mut self.spill else { return Ok(self.inline.clone()) };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// A file that vanishes with its last descriptor, even when this process is killed.
pub fn unnamed_file(directory: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        return Ok(File::from(file));
    }
    // Some file systems have no files without a name.
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    Ok(File::from(rustix::fs::memfd_create("countersign-output", flags)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_at_hand_is_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(4, 10, dir.path());
        assert_eq!(capture.take(b"ab").unwrap(), Ok(()));
        assert!(capture.spill.is_none());
        assert_eq!(capture.take(b"cdef").unwrap(), Ok(()));
        assert_eq!(capture.take(b"ghijkl").unwrap(), Err(Overflow));
        let mut captured = capture.finish();
        assert_eq!((captured.inline.as_slice(), captured.total), (&b"abcd"[..], 10));
        assert!(captured.is_cut());
        assert_eq!(captured.read_all().unwrap(), b"abcdefghij");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
