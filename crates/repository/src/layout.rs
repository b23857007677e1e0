//! What stands in the private git directory before any command runs in it.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use countersign_model::Failure;
use serde::{Deserialize, Serialize};

use crate::files::{broken, make_directory, write_new};
use crate::id::{ObjectFormat, ObjectId};
use crate::repository::Repository;

/// Ranks above every `.gitattributes` of a tree: no byte is converted on its way in or out, no
/// driver is chosen, and whether a file is shown in a diff is decided by its contents alone.
const ATTRIBUTES: &str = "* -text !eol !crlf -ident -filter !working-tree-encoding !diff !merge \
                          !conflict-marker-size !whitespace\n";

const RECORD: &str = "countersign.json";
const SUBMODULES: &str = "submodules";

/// What a worktree knows of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) version: u32,
    pub(crate) base: ObjectId,
}

/// Makes a git directory that borrows every object of the user's repository.
pub(crate) fn make(git_dir: &Path, from: &Repository, base: &ObjectId) -> Result<(), Failure> {
    for part in ["", "info", "objects", "objects/info", "objects/pack", "refs", "refs/countersign"]
    {
        make_directory(&git_dir.join(part))?;
    }
    let record = Record { version: 1, base: *base };
    let record = serde_json::to_vec(&record).unwrap_or_default();
    let alternates = alternates(&from.common_dir().join("objects"));
    let base_ref = format!("{base}\n");
    let files: [(&str, &[u8]); 7] = [
        ("HEAD", b"ref: refs/heads/none\n"),
        ("config", config(base.format()).as_bytes()),
        ("info/attributes", ATTRIBUTES.as_bytes()),
        ("objects/info/alternates", &alternates),
        ("refs/countersign/base", base_ref.as_bytes()),
        ("lock", b""),
        (RECORD, &record),
    ];
    files.iter().try_for_each(|(name, bytes)| write_new(&git_dir.join(name), bytes))?;
    copy_shallow(from, git_dir)
}

pub(crate) fn read_record(git_dir: &Path) -> Option<Record> {
    let bytes = fs::read(git_dir.join(RECORD)).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|record: &Record| record.version == 1)
}

/// Which submodules the tree that was laid out last has: an empty directory says nothing of them.
pub(crate) fn submodules_file(git_dir: &Path) -> std::path::PathBuf {
    git_dir.join(SUBMODULES)
}

fn config(format: ObjectFormat) -> &'static str {
    match format {
        ObjectFormat::Sha1 => "[core]\nrepositoryformatversion = 0\nbare = true\n",
        ObjectFormat::Sha256 => {
            "[core]\nrepositoryformatversion = 1\nbare = true\n[extensions]\nobjectformat = sha256\n"
        }
    }
}

/// One line, quoted: a path may hold anything.
fn alternates(objects: &Path) -> Vec<u8> {
    let mut line = vec![b'"'];
    for byte in objects.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            b' '..=b'~' => line.push(*byte),
            other => line.extend(format!("\\{other:03o}").bytes()),
        }
    }
    line.extend(b"\"\n");
    line
}

/// Where a history ends early must be known on this side, too.
fn copy_shallow(from: &Repository, git_dir: &Path) -> Result<(), Failure> {
    let source = from.common_dir().join("shallow");
    match fs::read(&source) {
        Ok(bytes) => write_new(&git_dir.join("shallow"), &bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(broken("read", &source, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_can_be_borrowed_from() {
        assert_eq!(alternates(Path::new("/a b/ä")), b"\"/a b/\\303\\244\"\n");
        assert_eq!(alternates(Path::new("/\"\\\n")), b"\"/\\\"\\\\\\012\"\n");
    }
}
