//! Whether two trees that grew from one base can be brought together, and where they cannot.

use std::collections::BTreeMap;

use countersign_model::Failure;
use serde::{Deserialize, Serialize};

use crate::commit::{NewCommit, Signature, named};
use crate::git::Git;
use crate::hunks::{self, Overlap};
use crate::id::ObjectId;
use crate::leash::Leash;
use crate::parse::{self, Mode, Side};
use crate::path;
use crate::worktree::Worktree;

/// The most that a report of conflicts may take.
const REPORT: usize = 256 << 20;

/// The most that the differences of one file may take; of larger ones no lines are told.
const FILE: usize = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use = "a conflict means that nothing was merged"]
pub enum Merge {
    /// The tree that holds the changes of both.
    Clean(ObjectId),
    Conflicts(Vec<Conflict>),
}

/// One path that people have to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Conflict {
    pub path: String,
    pub kind: ConflictKind,
    /// Other paths of the same conflict, where something was renamed.
    pub others: Vec<String>,
    pub base: Option<Side>,
    pub ours: Option<Side>,
    pub theirs: Option<Side>,
    /// Which lines both sides changed; empty where lines do not matter or the file is too large.
    pub lines: Vec<Overlap>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConflictKind {
    /// Both changed the same lines.
    Content,
    /// Both added a file of this name.
    AddAdd,
    Binary,
    ModifyDelete,
    Rename,
    FileDirectory,
    Submodule,
    /// As git calls it.
    Other(String),
}

impl Worktree {
    /// Tries to bring two trees or commits together that grew from one base. No merge driver runs,
    /// also none of git's own that would take both sides.
    pub fn merge_check(
        &self,
        base: &ObjectId,
        ours: &ObjectId,
        theirs: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<Merge, Failure> {
        let base = self.stand_in(base, &[], leash)?;
        let ours = self.stand_in(ours, &[base], leash)?.to_string();
        let theirs = self.stand_in(theirs, &[base], leash)?.to_string();
        let call = ["merge-tree", "--write-tree", "-z", "--messages", &ours, &theirs];
        let (ending, output) = merging(&self.git).call(call).capture(leash, REPORT)?;
        match ending.status.code() {
            Some(0) => Ok(Merge::Clean(merged_tree(&output)?)),
            Some(1) => self.conflicts(&output, leash).map(Merge::Conflicts),
            _ => self.diagnose(Err(ending.failure()), leash),
        }
    }

    /// A commit that is there only for its tree and place: every version of git takes those.
    fn stand_in(
        &self,
        id: &ObjectId,
        parents: &[ObjectId],
        leash: &mut Leash<'_>,
    ) -> Result<ObjectId, Failure> {
        let tree = self.tree_of(id, leash)?;
        let nobody = Signature { name: "none".to_owned(), email: "none".to_owned() };
        let (author, committer) = (nobody.clone(), nobody);
        let new = NewCommit { tree, parents, author, committer, time: 0, message: "compare" };
        self.write_commit(new.bytes()?, leash)
    }

    fn conflicts(&self, output: &[u8], leash: &mut Leash<'_>) -> Result<Vec<Conflict>, Failure> {
        let mut conflicts = report(output).ok_or_else(unreadable)??;
        for conflict in &mut conflicts {
            conflict.lines = self.lines_of(conflict, leash)?;
        }
        Ok(conflicts)
    }

    fn lines_of(
        &self,
        conflict: &Conflict,
        leash: &mut Leash<'_>,
    ) -> Result<Vec<Overlap>, Failure> {
        let regular = |side: Option<Side>| side.filter(|s| s.mode.is_regular()).map(|s| s.id);
        let has_lines = matches!(conflict.kind, ConflictKind::Content | ConflictKind::AddAdd);
        let sides = (regular(conflict.ours), regular(conflict.theirs));
        let (true, (Some(ours), Some(theirs))) = (has_lines, sides) else { return Ok(Vec::new()) };
        let Some(base) = regular(conflict.base) else {
            return Ok(hunks::differences(&self.compare(&ours, &theirs, leash)?));
        };
        let ours = self.compare(&base, &ours, leash)?;
        let theirs = self.compare(&base, &theirs, leash)?;
        Ok(hunks::overlaps(&hunks::read(&ours), &hunks::read(&theirs)))
    }

    /// The differences of two blobs, without context; nothing if they are too large.
    fn compare(
        &self,
        old: &ObjectId,
        new: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let (old, new) = (old.to_string(), new.to_string());
        let how = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--unified=0"];
        let exact = ["--inter-hunk-context=0", "--diff-algorithm=myers", &old, &new];
        match self.git.call([&how[..], &exact].concat()).bytes(leash, FILE) {
            Err(failure) if failure.code == "OUTPUT_TOO_LARGE" => Ok(Vec::new()),
            other => other,
        }
    }
}

fn merging(git: &Git) -> Git {
    git.set("merge.renames", "true")
        .set("merge.renameLimit", "1000")
        .set("merge.directoryRenames", "conflict")
        .set("merge.conflictStyle", "merge")
}

fn merged_tree(output: &[u8]) -> Result<ObjectId, Failure> {
    let id = parse::fields(output).next().unwrap_or_default();
    named(&String::from_utf8_lossy(id))
}

/// The sides of every path that is in conflict.
type Sides = BTreeMap<Vec<u8>, [Option<Side>; 3]>;

/// A tree, then entries of an index, an empty field, and messages with their paths. `None` if that
/// is not what stands there.
pub(crate) fn report(output: &[u8]) -> Option<Result<Vec<Conflict>, Failure>> {
    let mut fields = parse::fields(output);
    fields.next().and_then(ObjectId::from_hex)?;
    let mut sides = Sides::new();
    for line in fields.by_ref().take_while(|field| !field.is_empty()) {
        let stage = parse::stage(line)?;
        let of_path = sides.entry(stage.path.to_vec()).or_default();
        let place = of_path.get_mut(usize::from(stage.stage.checked_sub(1)?))?;
        *place = Some(Side { mode: stage.mode, id: stage.id });
    }
    let mut found: BTreeMap<Vec<u8>, (ConflictKind, Vec<Vec<u8>>)> = BTreeMap::new();
    while let Some(count) = fields.next() {
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let paths: Vec<Vec<u8>> = fields.by_ref().take(count).map(<[u8]>::to_vec).collect();
        let (kind, _message) = (fields.next()?, fields.next()?);
        let Some(kind) = conflict_kind(kind) else { continue };
        let (first, others) = paths.split_first()?;
        // A path may be told of twice; that it is binary says more than that it differs.
        match found.get(first) {
            Some((ConflictKind::Content, _)) | None => {
                found.insert(first.clone(), (kind, others.to_vec()));
            }
            Some(_) => {}
        }
    }
    tell_of_the_rest(&sides, &mut found);
    Some(
        found
            .into_iter()
            .map(|(path, (kind, others))| tell(&path, kind, &others, &sides))
            .collect(),
    )
}

/// Nothing in conflict goes without saying, whatever the messages were about.
fn tell_of_the_rest(sides: &Sides, found: &mut BTreeMap<Vec<u8>, (ConflictKind, Vec<Vec<u8>>)>) {
    let named: Vec<Vec<u8>> = found.values().flat_map(|(_, others)| others.clone()).collect();
    for path in sides.keys().filter(|path| !named.contains(path)) {
        let unnamed = || (ConflictKind::Other("unnamed".to_owned()), Vec::new());
        found.entry(path.clone()).or_insert_with(unnamed);
    }
}

fn tell(
    at: &[u8],
    kind: ConflictKind,
    others: &[Vec<u8>],
    sides: &Sides,
) -> Result<Conflict, Failure> {
    let [base, ours, theirs] = sides.get(at).copied().unwrap_or_default();
    let is_submodule = [ours, theirs].iter().flatten().any(|side| side.mode == Mode::SUBMODULE);
    let kind = match kind {
        ConflictKind::Content if is_submodule => ConflictKind::Submodule,
        ConflictKind::Content if base.is_none() => ConflictKind::AddAdd,
        kind => kind,
    };
    let others = others.iter().map(|path| path::text(path)).collect::<Result<_, _>>()?;
    let lines = Vec::new();
    Ok(Conflict { path: path::text(at)?, kind, others, base, ours, theirs, lines })
}

fn conflict_kind(name: &[u8]) -> Option<ConflictKind> {
    let name = String::from_utf8_lossy(name);
    let inner = name.strip_prefix("CONFLICT (")?.strip_suffix(')')?;
    Some(match inner {
        "contents" => ConflictKind::Content,
        "binary" => ConflictKind::Binary,
        "modify/delete" => ConflictKind::ModifyDelete,
        "file/directory" => ConflictKind::FileDirectory,
        other if other.starts_with("submodule") => ConflictKind::Submodule,
        other if other.contains("rename") => ConflictKind::Rename,
        other => ConflictKind::Other(other.to_owned()),
    })
}

fn unreadable() -> Failure {
    Failure::execution("GIT_FAILED", "git told of conflicts in a way that is not understood")
}
