//! The key of whoever acts, and the files that keys are kept in.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_model::{Failure, Token};

use crate::output_file::unwritable;
use crate::ui::shell_word;

/// More than a key takes, and little enough to read whatever is named by mistake.
const LONGEST: u64 = 4096;

#[derive(Debug, Clone, Args)]
pub(crate) struct KeyArgs {
    /// The file with the key of whoever acts; - is standard input
    /// [default: $COUNTERSIGN_KEY_FILE, then the key in $COUNTERSIGN_KEY]
    // Not read by the parser: its help would show what the variables hold.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// The key that proves who acts, if one was named.
pub(crate) fn acting_key(args: &KeyArgs) -> Result<Option<Token>, Failure> {
    let file = args.key_file.clone().or_else(|| set("COUNTERSIGN_KEY_FILE").map(PathBuf::from));
    if let Some(path) = file {
        return read(&path).map(Some);
    }
    let Some(text) = set("COUNTERSIGN_KEY") else { return Ok(None) };
    text.to_str().unwrap_or_default().trim().parse().map(Some)
}

impl KeyArgs {
    /// The key that was named, for a command that needs one.
    pub(crate) fn token(&self) -> Result<Token, Failure> {
        acting_key(self)?.ok_or_else(|| {
            Failure::validation("KEY_MISSING", "no key was named")
                .hint("name a file with --key-file or COUNTERSIGN_KEY_FILE, or set COUNTERSIGN_KEY")
        })
    }
}

/// An empty variable is none.
fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn read(path: &Path) -> Result<Token, Failure> {
    let mut text = String::new();
    let found = if path == Path::new("-") {
        io::stdin().take(LONGEST).read_to_string(&mut text)
    } else {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        check_private(path, &file)?;
        file.take(LONGEST).read_to_string(&mut text)
    };
    found.map_err(|error| unreadable(path, &error))?;
    text.trim().parse()
}

/// Asked of the open file, so that it cannot be another one by the time it is read.
fn check_private(path: &Path, file: &File) -> Result<(), Failure> {
    let mode = file.metadata().map_err(|error| unreadable(path, &error))?.mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let message = format!("{} can be read by others (mode {:03o})", path.display(), mode & 0o777);
    Err(Failure::authorization("KEY_FILE_EXPOSED", message)
        .hint(format!("run `chmod 600 {}`, and rotate the key", shell_word(path.display()))))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("the key file {} cannot be read: {error}", path.display());
    Failure::validation("KEY_FILE_UNREADABLE", message)
        .hint("name a file that holds one key, as `countersign key create --out FILE` writes it")
}

/// A new file for a key, for its owner only. Made before the key, so that a key is never recorded
/// and then lost for want of a place; what is there already is never written over.
pub(crate) fn create(path: &Path) -> Result<File, Failure> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let message = format!("{} exists already", path.display());
            Failure::validation("FILE_EXISTS", message).hint("name a new file")
        }
        _ => unwritable(path, &error),
    })
}

pub(crate) fn fill(path: &Path, mut file: File, token: &Token) -> Result<(), Failure> {
    let written = writeln!(file, "{}", *token.reveal()).and_then(|()| file.sync_all());
    written.map_err(|error| unwritable(path, &error))
}
