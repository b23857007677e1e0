//! A workspace that is made up, held in memory.

use std::collections::{BTreeMap, BTreeSet};

use countersign_model::Failure;
use countersign_pack::{Change, ChangeStatus, Commit, Entry, EntryKind, Sources};

/// Files, what changed in them, and what was asked of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) changes: Vec<Change>,
    pub(crate) diffs: BTreeMap<String, Vec<u8>>,
    pub(crate) commits: Vec<Commit>,
    pub(crate) links: Vec<String>,
    pub(crate) unreadable: BTreeSet<String>,
    /// Turns the lists by so many places, since their order must not matter.
    pub(crate) turned: usize,
    pub(crate) reads: usize,
    pub(crate) bytes_read: u64,
}

#[allow(dead_code, reason = "each test file uses a part")]
impl Made {
    pub(crate) fn file(mut self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.files.insert(path.to_owned(), text.as_ref().to_vec());
        self
    }

    pub(crate) fn changed(
        mut self,
        path: &str,
        status: ChangeStatus,
        diff: impl AsRef<[u8]>,
    ) -> Self {
        self.changes.push(Change { path: path.to_owned(), status, from: None });
        self.diffs.insert(path.to_owned(), diff.as_ref().to_vec());
        self
    }

    pub(crate) fn commit(mut self, id: &str, author: &str, date: &str, subject: &str) -> Self {
        let [id, author, date, subject] = [id, author, date, subject].map(str::to_owned);
        self.commits.push(Commit { id, author, date, subject });
        self
    }
}

fn turned<T: Clone>(mut list: Vec<T>, places: usize) -> Vec<T> {
    let places = places.checked_rem(list.len()).unwrap_or(0);
    list.rotate_left(places);
    if places % 2 == 1 {
        list.reverse();
    }
    list
}

fn absent(path: &str) -> Failure {
    Failure::execution("NO_SUCH_FILE", format!("`{path}` is not there"))
}

impl Sources for Made {
    fn entries(&mut self) -> Result<Vec<Entry>, Failure> {
        let entry = |(path, bytes): (&String, &Vec<u8>)| Entry {
            path: path.clone(),
            size: bytes.len() as u64,
            kind: EntryKind::File,
        };
        let link = |path: &String| Entry { path: path.clone(), size: 9, kind: EntryKind::Symlink };
        let all = self.files.iter().map(entry).chain(self.links.iter().map(link)).collect();
        Ok(turned(all, self.turned))
    }

    fn changes(&mut self) -> Result<Vec<Change>, Failure> {
        Ok(turned(self.changes.clone(), self.turned))
    }

    fn history(&mut self, at_most: usize) -> Result<Vec<Commit>, Failure> {
        Ok(self.commits.iter().take(at_most).cloned().collect())
    }

    fn read(&mut self, path: &str, at_most: u64) -> Result<Vec<u8>, Failure> {
        self.reads += 1;
        if self.unreadable.contains(path) {
            return Err(absent(path));
        }
        let bytes = self.files.get(path).ok_or_else(|| absent(path))?;
        let read: Vec<u8> = bytes.iter().take(at_most as usize).copied().collect();
        self.bytes_read += read.len() as u64;
        Ok(read)
    }

    fn diff(&mut self, path: &str, at_most: u64) -> Result<Vec<u8>, Failure> {
        let bytes = self.diffs.get(path).ok_or_else(|| absent(path))?;
        Ok(bytes.iter().take(at_most as usize).copied().collect())
    }
}

/// A small project with a bit of everything.
#[allow(dead_code, reason = "each test file uses a part")]
pub(crate) fn project() -> Made {
    let token = format!("ghp_{}", "Fake0Key1".repeat(4));
    let diff = "diff --git a/src/lib.rs b/src/lib.rs\n--- a/src/lib.rs\n+++ b/src/lib.rs\n\
                @@ -1,2 +1,2 @@\n-pub(crate) fn one() -> u8 { 0 }\n+pub(crate) fn one() -> u8 { 1 }\n pub(crate) fn two() {}\n";
    let added = "diff --git a/src/new.rs b/src/new.rs\nnew file mode 100644\n--- /dev/null\n\
                 +++ b/src/new.rs\n@@ -0,0 +1 @@\n+pub(crate) fn new() {}\n";
    Made::default()
        .file("AGENTS.md", "# Agents\n\nRun the tests before you say done.\n")
        .file("README.md", "# Example\n\nA project that does not exist.\n")
        .file("src/AGENTS.md", "No unsafe code in here.\n")
        .file("docs/AGENTS.md", "Write short sentences.\n")
        .file("src/lib.rs", "pub(crate) fn one() -> u8 { 1 }\npub fn two() {}\n")
        .file("src/new.rs", "pub(crate) fn new() {}\n")
        .file(
            "src/config.rs",
            format!("pub const TOKEN: &str = \"{token}\";\r\npub const N: u8 = 3;\r\n"),
        )
        .file("src/größe.rs", "// Die Größe: 日本語 🦀\nfn grüße() {}")
        .file("Cargo.lock", "version = 4\n")
        .file(".env", format!("TOKEN={token}\n"))
        .file("web/.npmrc", format!("//registry.example.org/:_authToken={token}\n"))
        .file("logo.png", b"\x89PNG\r\n\x1a\n\0")
        .file("data/blob", b"a\0b")
        .file("data/latin", b"caf\xe9\n")
        .changed("src/lib.rs", ChangeStatus::Modified, diff)
        .changed("src/new.rs", ChangeStatus::Added, added)
        .changed("src/old.rs", ChangeStatus::Deleted, "--- a/src/old.rs\n+++ /dev/null\n-x\n")
        .changed("Cargo.lock", ChangeStatus::Modified, "-version = 3\n+version = 4\n")
        .changed(".env", ChangeStatus::Modified, format!("+TOKEN={token}\n"))
        .commit("0123456789abcdef0123", "Ada", "2026-02-09", "Count to one")
        .commit("fedcba98765432100123", "Grace\nHopper", "2026-02-08", "Begin")
}
