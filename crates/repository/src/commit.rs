//! New trees and commits. They are made in the private git directory; nobody else sees them yet.

use std::collections::{BTreeMap, BTreeSet};

use countersign_model::Failure;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::diff::Change;
use crate::id::ObjectId;
use crate::leash::Leash;
use crate::path;
use crate::worktree::Worktree;

/// Who wrote or made a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    pub name: String,
    pub email: String,
}

/// Everything that a commit is made of. The same parts give the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommit<'c> {
    pub tree: ObjectId,
    pub parents: &'c [ObjectId],
    pub author: Signature,
    pub committer: Signature,
    /// Seconds since 1970, written as universal time.
    pub time: u64,
    pub message: &'c str,
}

impl Signature {
    /// `NAME <EMAIL>`, if nothing in it could be taken for something else.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let is_plain = |text: &str| {
            let odd = |c: char| c.is_control() || matches!(c, '<' | '>');
            !text.is_empty() && text.trim() == text && !text.contains(odd)
        };
        if is_plain(&self.name) && is_plain(&self.email) && !self.email.contains(' ') {
            return Ok(());
        }
        Err(Failure::validation("SIGNATURE_INVALID", "a name and an address are needed")
            .hint("without `<`, `>`, line breaks, or blanks around them"))
    }
}

impl Worktree {
    /// Writes a commit. No hook runs and nothing is signed.
    pub fn commit(&self, new: &NewCommit<'_>, leash: &mut Leash<'_>) -> Result<ObjectId, Failure> {
        let bytes = new.bytes()?;
        self.check_kind(&new.tree, "tree", leash)?;
        for parent in new.parents {
            self.check_kind(parent, "commit", leash)?;
        }
        self.write_commit(bytes, leash)
    }

    pub(crate) fn write_commit(
        &self,
        bytes: Vec<u8>,
        leash: &mut Leash<'_>,
    ) -> Result<ObjectId, Failure> {
        let call = self.git.call(["hash-object", "-t", "commit", "-w", "--stdin"]);
        let id = call.feed(bytes).line(leash);
        named(&self.diagnose(id, leash)?)
    }

    /// The base tree with exactly the named paths as they are in another tree: added, changed or
    /// deleted there. A path that does not differ is refused, and so is a choice that cannot be
    /// made alone, such as a file below what is a file in the base.
    pub fn tree_with(
        &self,
        base: &ObjectId,
        from: &ObjectId,
        paths: &[String],
        leash: &mut Leash<'_>,
    ) -> Result<ObjectId, Failure> {
        let changes = self.changed_paths(base, from, leash)?;
        let changes: BTreeMap<&str, &Change> =
            changes.iter().map(|change| (change.path.as_str(), change)).collect();
        let chosen = choose(&changes, paths)?;
        let index = self.scratch("index");
        let git = self.git.index(index.path());
        let read = git.call(["read-tree", &base.to_string()]).quiet(leash);
        self.diagnose(read, leash)?;
        let info = ["update-index", "--replace", "-z", "--index-info"];
        git.call(info).feed(lines(&chosen)).quiet(leash)?;
        let tree = named(&git.call(["write-tree"]).line(leash)?)?;
        let made = self.changed_paths(base, &tree, leash)?;
        let made: BTreeSet<&str> = made.iter().map(|change| change.path.as_str()).collect();
        if made.iter().eq(chosen.keys()) {
            return Ok(tree);
        }
        Err(entangled())
    }
}

impl NewCommit<'_> {
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Failure> {
        self.author.check()?;
        self.committer.check()?;
        if self.message.trim().is_empty() || self.message.contains('\0') {
            return Err(Failure::validation("MESSAGE_INVALID", "a commit needs a message")
                .hint("of text, without NUL"));
        }
        let mut text = format!("tree {}\n", self.tree);
        text.extend(self.parents.iter().map(|parent| format!("parent {parent}\n")));
        for (role, Signature { name, email }) in
            [("author", &self.author), ("committer", &self.committer)]
        {
            text.push_str(&format!("{role} {name} <{email}> {} +0000\n", self.time));
        }
        text.push('\n');
        text.push_str(self.message);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text.into_bytes())
    }
}

/// The changes of the named paths, in order; each must be one.
fn choose<'c>(
    changes: &BTreeMap<&'c str, &'c Change>,
    paths: &[String],
) -> Result<BTreeMap<&'c str, &'c Change>, Failure> {
    let mut chosen = BTreeMap::new();
    let mut unchanged = Vec::new();
    for path in paths {
        path::check(path)?;
        match changes.get_key_value(path.as_str()) {
            Some((path, change)) => drop(chosen.insert(*path, *change)),
            None => unchanged.push(path.as_str()),
        }
    }
    match (unchanged.first(), chosen.is_empty()) {
        (Some(first), _) => Err(not_changed(first, &unchanged)),
        (None, true) => Err(Failure::validation("PATHS_MISSING", "no path is named")),
        (None, false) => Ok(chosen),
    }
}

/// Removals first: a file may stand where a directory was.
fn lines(chosen: &BTreeMap<&str, &Change>) -> Vec<u8> {
    let (added, removed): (Vec<_>, Vec<_>) =
        chosen.iter().partition(|(_, change)| change.new.is_some());
    let mut lines = String::new();
    for (path, change) in removed.into_iter().chain(added) {
        match (change.new, change.old) {
            (Some(new), _) => lines.push_str(&format!("{} {}\t{path}\0", new.mode, new.id)),
            (None, Some(old)) => {
                lines.push_str(&format!("0 {}\t{path}\0", old.id.format().zero()));
            }
            (None, None) => {}
        }
    }
    lines.into_bytes()
}

pub(crate) fn named(id: &str) -> Result<ObjectId, Failure> {
    id.parse().map_err(|_| Failure::execution("GIT_FAILED", "git did not name an object"))
}

fn not_changed(first: &str, all: &[&str]) -> Failure {
    let message = format!("`{}` has not changed", first.escape_debug());
    Failure::validation("PATH_UNCHANGED", message)
        .hint("name the files that have changed, one by one; a renamed file is two paths")
        .details(json!({"paths": all}))
}

fn entangled() -> Failure {
    Failure::validation("PATHS_ENTANGLED", "the named paths cannot be taken without others")
        .hint("also name the file or directory that they replace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_cannot_be_taken_for_something_else() {
        let check = |name: &str, email: &str| {
            Signature { name: name.to_owned(), email: email.to_owned() }.check().is_ok()
        };
        assert!(check("Ada Lovelace", "ada@example.com"));
        for (name, email) in [
            ("", "a@b"),
            ("a", ""),
            ("a <x>", "a@b"),
            ("a\nparent", "a@b"),
            ("a", "a@b> 0 +0000\n"),
            (" a", "a@b"),
            ("a", "a b"),
        ] {
            assert!(!check(name, email), "{name:?} {email:?}");
        }
    }
}
