//! What is in a tree, and how it came to be.

use std::io::Write;

use countersign_model::Failure;
use serde::{Deserialize, Serialize};

use crate::batch::{self, Content};
use crate::complaint::{inert, unwritten};
use crate::id::ObjectId;
use crate::leash::Leash;
use crate::parse::{self, Mode, TreeEntry};
use crate::path;
use crate::worktree::Worktree;

/// The most that a listing may take.
const LISTING: usize = 1 << 30;

/// The most that a history may take.
const HISTORY: usize = 64 << 20;

/// How much of a subject is kept.
const SUBJECT: usize = 1000;

/// A file, link or submodule of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub path: String,
    pub mode: Mode,
    pub id: ObjectId,
    /// In bytes; a submodule has none.
    pub size: Option<u64>,
}

/// Everything in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// In git's order, which is that of bytes.
    pub entries: Vec<Entry>,
    /// How many more there are whose names are not UTF-8.
    pub not_utf8: usize,
}

/// A file or link with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    pub id: ObjectId,
    pub mode: Mode,
    pub bytes: Vec<u8>,
}

/// A commit, as histories tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Past {
    pub id: ObjectId,
    pub author: String,
    /// When it was written, in ISO 8601 with the author's own offset.
    pub date: String,
    pub subject: String,
}

impl Worktree {
    /// All paths of a tree or commit.
    pub fn list(&self, tree: &ObjectId, leash: &mut Leash<'_>) -> Result<Listing, Failure> {
        let tree = tree.to_string();
        let call = self.git.call(["ls-tree", "-r", "-z", "-l", "--full-tree", &tree]);
        let output = call.bytes(leash, LISTING);
        let output = self.diagnose(output, leash)?;
        let mut listing = Listing { entries: Vec::new(), not_utf8: 0 };
        for entry in parse::fields(&output).filter_map(parse::tree_entry) {
            match path::text(entry.path) {
                Ok(path) => listing.entries.push(Entry::read(path, &entry)),
                Err(_) => listing.not_utf8 += 1,
            }
        }
        Ok(listing)
    }

    /// The entry at one path of a tree or commit. A directory is none.
    pub fn entry(
        &self,
        tree: &ObjectId,
        at: &str,
        leash: &mut Leash<'_>,
    ) -> Result<Option<Entry>, Failure> {
        path::check(at)?;
        let tree = tree.to_string();
        let call = self.git.call(["ls-tree", "-z", "-l", "--full-tree", &tree, "--", at]);
        let output = call.bytes(leash, LISTING);
        let output = self.diagnose(output, leash)?;
        let found = parse::fields(&output).filter_map(parse::tree_entry);
        let mut found = found.filter(|entry| entry.path == at.as_bytes());
        Ok(found.next().map(|entry| Entry::read(at.to_owned(), &entry)))
    }

    /// The file or link at one path of a tree or commit, if it has at most `most` bytes.
    pub fn read_blob(
        &self,
        tree: &ObjectId,
        at: &str,
        most: usize,
        leash: &mut Leash<'_>,
    ) -> Result<Option<Blob>, Failure> {
        let Some(Entry { id, mode, size: Some(_), .. }) = self.entry(tree, at, leash)? else {
            return Ok(None);
        };
        let call = self.git.call(["cat-file", "blob", &id.to_string()]);
        let bytes = call.bytes(leash, most);
        let bytes = self.diagnose(bytes, leash)?;
        Ok(Some(Blob { id, mode, bytes }))
    }

    /// Writes a blob of any size as it comes.
    pub fn write_blob(
        &self,
        id: &ObjectId,
        out: &mut dyn Write,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        let call = self.git.call(["cat-file", "blob", &id.to_string()]);
        let ending = call.run(leash, &mut |piece| out.write_all(piece).map_err(|e| unwritten(&e)));
        let done = ending.and_then(crate::run::Ending::success);
        self.diagnose(done, leash)
    }

    /// Reads many blobs with one process, in order; `visit` gets the place in `ids` and what is
    /// there. Contents of more than `most` bytes are passed over.
    pub fn read_blobs(
        &self,
        ids: &[ObjectId],
        most: u64,
        visit: &mut dyn FnMut(usize, Content<'_>) -> Result<(), Failure>,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        let asked: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let call = self.git.call(["cat-file", "--batch", "--buffer"]).feed(asked);
        let mut reader = batch::Reader::new(most, visit);
        let ending = call.run(leash, &mut |piece| reader.take(piece));
        let read = reader.visited();
        let done = ending.and_then(crate::run::Ending::success);
        self.diagnose(done, leash)?;
        if read == ids.len() {
            return Ok(());
        }
        Err(Failure::execution("GIT_FAILED", "git stopped in the middle of an answer"))
    }

    /// The one blob whose id begins with these hexadecimal digits; `None` if there is none, or
    /// more than one.
    pub fn blob_by_prefix(
        &self,
        prefix: &str,
        leash: &mut Leash<'_>,
    ) -> Result<Option<ObjectId>, Failure> {
        let is_hex = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        if !(4..=64).contains(&prefix.len()) || !prefix.bytes().all(is_hex) {
            return Err(Failure::validation(
                "OBJECT_UNKNOWN",
                "the beginning of an object id is at least 4 lowercase hexadecimal digits",
            ));
        }
        let named = self.git.call(["rev-parse", &format!("--disambiguate={prefix}")]);
        let named = named.bytes(leash, LISTING)?;
        let check = ["cat-file", "--batch-check=%(objecttype) %(objectname)"];
        let kinds = self.git.call(check).feed(named).line(leash)?;
        let mut blobs = kinds.lines().filter_map(|line| line.strip_prefix("blob "));
        let first = blobs.next().and_then(|id| id.parse().ok());
        Ok(if blobs.next().is_none() { first } else { None })
    }

    /// The last `most` commits that led to the base, latest first.
    pub fn history(&self, most: usize, leash: &mut Leash<'_>) -> Result<Vec<Past>, Failure> {
        let (count, base) = (format!("--max-count={most}"), self.base().to_string());
        let format = "--format=%H%x00%an%x00%aI%x00%s%x00";
        let call = ["rev-list", "--no-commit-header", "--encoding=UTF-8", &count, format, &base];
        let output = self.git.call(call).bytes(leash, HISTORY);
        let output = self.diagnose(output, leash)?;
        Ok(past(&output))
    }
}

impl Entry {
    fn read(path: String, entry: &TreeEntry<'_>) -> Self {
        Entry { path, mode: entry.mode, id: entry.id, size: entry.size }
    }
}

/// Four fields a commit; the line break after one stands before the next.
fn past(output: &[u8]) -> Vec<Past> {
    let fields: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
    let commits = fields.chunks_exact(4).filter_map(|chunk| match chunk {
        [id, author, date, subject] => Some(Past {
            id: ObjectId::from_hex(id.strip_prefix(b"\n").unwrap_or(id))?,
            author: inert(author),
            date: one_spelling(inert(date)),
            subject: inert(subject).chars().take(SUBJECT).collect(),
        }),
        _ => None,
    });
    commits.collect()
}

/// Universal time is written in two ways, depending on the version of git.
fn one_spelling(date: String) -> String {
    match date.strip_suffix("+00:00") {
        Some(time) => format!("{time}Z"),
        None => date,
    }
}
