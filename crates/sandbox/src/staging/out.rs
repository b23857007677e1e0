//! `/out`: files, by the names that they have there.

use std::os::fd::{AsFd, BorrowedFd};

use countersign_model::Failure;

use super::names::join;
use super::walk::{Kind, list, make_readable, open_directory};
use super::{Bounds, refused, too_large, too_many, unreadable};

/// A file that the program left for whoever called it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutFile {
    /// Its path beneath `/out`.
    pub name: String,
    pub size: u64,
}

/// Every file beneath `/out`, sorted by directory and name. Directories matter only as part of names.
pub fn scan_out(directory: impl AsFd, bounds: &Bounds) -> Result<Vec<OutFile>, Failure> {
    let mut scan = Scan { bounds, left: bounds.entries, bytes: 0, files: Vec::new() };
    scan.directory(directory.as_fd(), "")?;
    Ok(scan.files)
}

struct Scan<'b> {
    bounds: &'b Bounds,
    left: u64,
    bytes: u64,
    files: Vec<OutFile>,
}

impl Scan<'_> {
    fn directory(&mut self, directory: BorrowedFd<'_>, path: &str) -> Result<(), Failure> {
        let entries = list(directory, self.left).map_err(|error| unreadable(path, error))?;
        let entries = entries.ok_or_else(|| too_many(self.bounds.entries))?;
        self.left -= entries.len() as u64;
        for entry in entries {
            let place = join(path, &entry.name)?;
            match entry.kind() {
                Kind::Directory => {
                    let open = make_readable(directory, &entry)
                        .and_then(|()| open_directory(directory, &entry.name));
                    let open = open.map_err(|error| unreadable(&place, error))?;
                    self.directory(open.as_fd(), &place)?;
                }
                Kind::File => {
                    make_readable(directory, &entry).map_err(|error| unreadable(&place, error))?;
                    self.file(place, entry.size())?;
                }
                Kind::Link => return Err(refused(&place, "is a link")),
                Kind::Whiteout | Kind::Other => {
                    return Err(refused(&place, "is a socket, FIFO or device"));
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, name: String, size: u64) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.bounds.bytes {
            return Err(too_large(self.bounds.bytes));
        }
        self.files.push(OutFile { name, size });
        Ok(())
    }
}
