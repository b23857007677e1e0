//! Files that a command writes for somebody else.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use countersign_host::{Clock, SystemClock};
use countersign_model::Failure;

/// Fills a file that is whole or absent: written beside its name and renamed. What is no regular
/// file, a pipe or a device, is written to as it is and never replaced.
pub(crate) fn write(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            let file = OpenOptions::new().write(true).open(path);
            finish(path, file, fill).map(|_| ())
        }
        _ => write_aside(path, fill),
    }
}

fn write_aside(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let aside = beside(path);
    let written = finish(path, File::create_new(&aside), fill).and_then(|file| {
        let moved = file.sync_all().and_then(|()| fs::rename(&aside, path));
        moved.map_err(|error| unwritable(path, &error))
    });
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

fn finish(
    path: &Path,
    file: io::Result<File>,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<File, Failure> {
    let mut out = BufWriter::new(file.map_err(|error| unwritable(path, &error))?);
    fill(&mut out)?;
    out.into_inner().map_err(|error| unwritable(path, error.error()))
}

/// A name that nobody else can have guessed.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".new-{}", SystemClock.new_id()));
    PathBuf::from(name)
}

pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    Failure::validation("FILE_UNWRITABLE", message)
        .hint("name a file in a directory that you may write to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_whole_and_links_are_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a"), dir.path().join("l"));
        let put = |path: &Path, text: &str| {
            write(path, |out| out.write_all(text.as_bytes()).map_err(|e| unwritable(path, &e)))
        };
        put(&file, "one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        put(&link, "two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let failed = write(&file, |_| Err(Failure::state("TEST", "no")));
        assert_eq!(failed.unwrap_err().code, "TEST");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside");
        assert_eq!(put(&dir.path().join("x/y"), "").unwrap_err().code, "FILE_UNWRITABLE");
    }
}
