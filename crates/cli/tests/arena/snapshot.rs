//! What a directory holds, to be compared byte for byte with what it holds later.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use super::program::Change;

/// A file that is larger is compared by its size alone; nothing here is meant to be.
const READ_AT_MOST: u64 = 4 << 20;

/// Paths relative to the root, as bytes; the root itself is `.`.
pub(crate) type Snapshot = BTreeMap<Vec<u8>, Entry>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    kind: &'static str,
    mode: u32,
    uid: u32,
    size: u64,
    /// The bytes of a file or the target of a link.
    content: Vec<u8>,
}

pub(crate) fn snapshot(root: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let relative = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let relative = if relative.is_empty() { b".".to_vec() } else { relative };
        found.insert(relative, entry(&path));
        if fs::symlink_metadata(&path).is_ok_and(|now| now.is_dir()) {
            // A directory that cannot be read, or a path too long to be named, counts as it is.
            let children = fs::read_dir(&path).into_iter().flatten();
            waiting.extend(children.flatten().map(|child| child.path()));
        }
    }
    found
}

fn entry(path: &Path) -> Entry {
    let Ok(now) = fs::symlink_metadata(path) else {
        return Entry { kind: "unreachable", mode: 0, uid: 0, size: 0, content: Vec::new() };
    };
    let kind = now.file_type();
    let (kind, content) = if kind.is_symlink() {
        let target = fs::read_link(path).unwrap_or_default();
        ("link", target.into_os_string().as_bytes().to_vec())
    } else if kind.is_dir() {
        ("directory", Vec::new())
    } else if kind.is_file() {
        let readable = now.len() <= READ_AT_MOST;
        let bytes = readable.then(|| fs::read(path).unwrap_or_else(|_| b"(closed)".to_vec()));
        ("file", bytes.unwrap_or_default())
    } else if kind.is_fifo() {
        ("fifo", Vec::new())
    } else if kind.is_socket() {
        ("socket", Vec::new())
    } else {
        ("device", Vec::new())
    };
    let size = if kind == "file" { now.len() } else { 0 };
    Entry { kind, mode: now.mode() & 0o7777, uid: now.uid(), size, content }
}

/// Every difference, as a sign and a path.
pub(crate) fn changes(before: &Snapshot, after: &Snapshot) -> Vec<(char, Vec<u8>)> {
    let mut found = Vec::new();
    for (path, entry) in before {
        match after.get(path) {
            None => found.push(('-', path.clone())),
            Some(now) if now != entry => found.push(('~', path.clone())),
            Some(_) => {}
        }
    }
    let new = after.keys().filter(|path| !before.contains_key(*path));
    found.extend(new.map(|path| ('+', path.clone())));
    found
}

/// What changed and should not have, and what should have changed and did not.
pub(crate) fn surprises(what: &str, expected: &[Change], found: &[(char, Vec<u8>)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (sign, path) in found {
        if !expected.iter().any(|change| change.covers(*sign, path)) {
            wrong.push(format!("{what}: unexpected {sign}{}", path.escape_ascii()));
        }
    }
    for change in expected.iter().filter(|change| change.sign != '?') {
        if !found.iter().any(|(sign, path)| change.covers(*sign, path)) {
            wrong.push(format!("{what}: missing {}{}", change.sign, change.path.escape_ascii()));
        }
    }
    wrong.truncate(12);
    wrong
}

/// What may never be published, whatever a program does.
pub(crate) fn poison(root: &Path, before: &Snapshot, after: &Snapshot, owner: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, entry) in after.iter().filter(|(path, entry)| before.get(*path) != Some(entry)) {
        let mut say = |what: &str| wrong.push(format!("published {what}: {}", path.escape_ascii()));
        if entry.mode & 0o7000 != 0 && entry.kind != "link" {
            say("a setuid, setgid or sticky bit");
        }
        if ["fifo", "socket", "device"].contains(&entry.kind) {
            say(entry.kind);
        }
        if entry.uid != owner && entry.kind != "unreachable" {
            say(&format!("for user {}", entry.uid));
        }
        if entry.kind == "link" && leads_out(root, path, &entry.content) {
            say("a link that leads out");
        }
    }
    wrong.truncate(12);
    wrong
}

fn leads_out(root: &Path, link: &[u8], target: &[u8]) -> bool {
    let link = root.join(Path::new(std::ffi::OsStr::from_bytes(link)));
    let target = Path::new(std::ffi::OsStr::from_bytes(target));
    let root = root.canonicalize().unwrap();
    if let Ok(real) = link.canonicalize() {
        return target.is_absolute() || !real.starts_with(&root);
    }
    // It leads nowhere for now, so what is written in it has to do.
    let mut place = link.parent().and_then(|above| above.canonicalize().ok()).unwrap_or_default();
    for part in target.components() {
        match part {
            Component::ParentDir => place = place.parent().map(PathBuf::from).unwrap_or_default(),
            Component::CurDir => {}
            Component::Normal(name) => place.push(name),
            Component::RootDir | Component::Prefix(_) => return true,
        }
        if !place.starts_with(&root) {
            return true;
        }
    }
    false
}
