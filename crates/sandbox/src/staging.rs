//! What a program left behind, read as evidence from a stranger.
//!
//! The program is dead and its staging is ours, so nothing moves any more; what is in there is
//! hostile all the same. Everything is read by descriptor and nothing through a link. The result is
//! an ordered list of changes, or the reason why none of them may be published. Whether they may be
//! published at all is for others to decide.

mod compare;
mod names;
mod out;
pub mod walk;

use countersign_model::Failure;

pub use compare::{Same, scan_workspace};
pub use names::check_target;
pub use out::{OutFile, scan_out};

/// Directories inside of directories.
pub const DEEPEST: usize = 64;

/// How much a scan takes in before it refuses to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Entries of the staged tree.
    pub entries: u64,
    /// Entries of the original tree, as far as it must be read.
    pub original: u64,
    /// Bytes of all changed files together. Two names of one file count twice, since they become
    /// two files.
    pub bytes: u64,
}

/// One change. Paths are relative to the tree and written with `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A directory that stays has other permissions.
    DirectoryChanged {
        path: String,
        before: u32,
        after: u32,
    },
    Removed {
        path: String,
        was: Was,
    },
    DirectoryMade {
        path: String,
        mode: u32,
    },
    /// A file is new, or has other content or permissions.
    FileWritten {
        path: String,
        mode: u32,
        size: u64,
        replaces: bool,
    },
    LinkWritten {
        path: String,
        target: String,
        before: Option<String>,
    },
}

/// What stood where something was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Was {
    File,
    Link { target: String },
    Directory { mode: u32 },
}

impl Change {
    pub fn path(&self) -> &str {
        match self {
            Change::DirectoryChanged { path, .. }
            | Change::Removed { path, .. }
            | Change::DirectoryMade { path, .. }
            | Change::FileWritten { path, .. }
            | Change::LinkWritten { path, .. } => path,
        }
    }
}

/// Something in the staging that is never published.
fn refused(path: &str, why: &str) -> Failure {
    let shown: String = path.chars().take(200).collect();
    Failure::execution(
        "STAGING_REFUSED",
        format!("the tool left `{}`, which {why}", shown.escape_debug()),
    )
    .hint("only files, directories and links that stay inside can be kept; nothing was changed")
}

fn too_many(entries: u64) -> Failure {
    let message = format!("the tool left more than the {entries} files that it may make");
    Failure::resource("INODE_LIMIT", message)
        .hint("raise maxInodes in the tool's declaration, or write one archive into /out")
}

fn too_large(bytes: u64) -> Failure {
    let message = format!("the tool left more than the {bytes} bytes in files that it may write");
    Failure::resource("TOTAL_SIZE_LIMIT", message)
        .hint("raise maxTotalSize in the tool's declaration, or give it less to do")
}

fn unreadable(path: &str, error: impl std::fmt::Display) -> Failure {
    let message = format!("`{}` cannot be read: {error}", path.escape_debug());
    Failure::execution("STAGING_UNREADABLE", message)
}
