//! The tree of everything that stands in `tree/`, ignored files too.
//!
//! The files are found by our own walk, not by git's: git would pass over a nested `.git`, over
//! sockets and over what it takes for another repository, without a word. Git is shown all of them
//! once; after that we name the tree ourselves, as long as little has changed.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::SystemTime;

use countersign_model::{Digest, Failure};
use serde_json::json;

use crate::checkout::{self, INDEX};
use crate::git::Git;
use crate::id::ObjectId;
use crate::leash::{Leash, Tick};
use crate::parse::{self, Mode, Stage};
use crate::recall::{self, Recalled, Sight, Stamp};
use crate::table::Table;
use crate::worktree::Worktree;

/// How many directories are walked between two looks at the leash.
const STRIDE: usize = 64;

/// So many directories to look into are worth a thread.
const WORTH_SHARING: usize = 16;

impl Worktree {
    /// Records everything in `tree/` and names it. Two equal trees have the same id. Directories
    /// without files are not part of a tree.
    pub fn state(&self, leash: &mut Leash<'_>) -> Result<ObjectId, Failure> {
        let _held = self.hold(leash)?;
        let recalled = Recalled::read(self.git.directory());
        let is_there = self.check_with(recalled.as_ref().map(|recalled| &recalled.tree), leash)?;
        let state = self.look(recalled.filter(|_| is_there), leash);
        self.diagnose(state, leash)
    }

    fn look(&self, recalled: Option<Recalled>, leash: &mut Leash<'_>) -> Result<ObjectId, Failure> {
        let moment = SystemTime::now();
        let found = walk(&self.tree(), leash)?;
        let submodules = checkout::recorded_lines(self.git.directory())?;
        let sight = found.sight(&submodules);
        if let Some(recalled) = recalled.filter(|recalled| recalled.is_of(&sight)) {
            return Ok(recalled.tree);
        }
        // Submodules are git's to judge.
        let renewed = match submodules.is_empty() {
            true => self.renew(&found, moment, leash)?,
            false => None,
        };
        let tree = match renewed {
            Some(tree) => tree,
            None => self.record(&found, moment, leash)?,
        };
        if found.files.values().all(|stamp| stamp.is_settled(moment)) {
            recall::note(self.git.directory(), &tree, &sight);
        }
        Ok(tree)
    }

    /// The tree by what is known of its files, if most are as they were.
    fn renew(
        &self,
        found: &Found,
        moment: SystemTime,
        leash: &mut Leash<'_>,
    ) -> Result<Option<ObjectId>, Failure> {
        let (git_dir, format) = (self.git.directory(), self.base().format());
        let Some(table) = Table::read(git_dir, format) else { return Ok(None) };
        let (root, objects) = (self.tree(), git_dir.join("objects"));
        let renewed = table.renew((&root, &objects), format, (&found.files, moment), leash)?;
        Ok(renewed.map(|(table, tree)| {
            table.note(git_dir);
            tree
        }))
    }

    fn record(
        &self,
        found: &Found,
        moment: SystemTime,
        leash: &mut Leash<'_>,
    ) -> Result<ObjectId, Failure> {
        let git = self.git.work_tree(&self.tree()).index(&self.index());
        let all = ["update-index", "--add", "--replace", "-z", "--stdin"];
        let call = git.call(all).feed(joined(&found.files));
        let ending = call.run(leash, &mut |_| Ok(()))?;
        let Corrected { entries, submodules, listed } = correct(&git, found, leash)?;
        // Git ignores names that it does not like, and does not call that an error.
        if entries != found.files.len() + submodules {
            return Err(ignored(&ending.said));
        }
        ending.success()?;
        let id = git.call(["write-tree"]).line(leash)?;
        let id =
            id.parse().map_err(|_| Failure::execution("GIT_FAILED", "git did not name a tree"))?;
        let listed = parse::stages(&listed).map(|entry| (entry.path, entry.mode, entry.id));
        if let Some(table) = Table::of_recorded(&id, (&found.files, moment), listed) {
            table.note(self.git.directory());
        }
        Ok(id)
    }
}

/// An index that has what stands in `tree/`.
struct Corrected {
    entries: usize,
    submodules: usize,
    listed: Vec<u8>,
}

/// Takes out of the index what is no longer there, and puts submodules in or out, for which an
/// empty directory stands. Mostly there is nothing to correct, and one listing is enough.
fn correct(git: &Git, found: &Found, leash: &mut Leash<'_>) -> Result<Corrected, Failure> {
    let listed = git.call(["ls-files", "--stage", "-z"]).bytes(leash, INDEX)?;
    let recorded = checkout::recorded_lines(git.directory())?;
    let mut missing: HashMap<&[u8], Stage<'_>> = parse::stages(&recorded)
        .filter(|submodule| found.empty.contains(submodule.path))
        .map(|submodule| (submodule.path, submodule))
        .collect();
    let (mut entries, submodules) = (0usize, missing.len());
    let mut lines = Vec::new();
    for entry in parse::stages(&listed) {
        entries += 1;
        let is_right = match entry.mode {
            Mode::SUBMODULE => missing.get(entry.path).is_some_and(|one| one.line == entry.line),
            _ => found.files.contains_key(entry.path),
        };
        if is_right {
            missing.remove(entry.path);
        } else {
            lines.extend(removal(&entry));
        }
    }
    for submodule in missing.values() {
        lines.extend_from_slice(submodule.line);
        lines.push(0);
    }
    if lines.is_empty() {
        return Ok(Corrected { entries, submodules, listed });
    }
    let call = git.call(["update-index", "--replace", "-z", "--index-info"]);
    call.feed(lines).quiet(leash)?;
    let listed = git.call(["ls-files", "--stage", "-z"]).bytes(leash, INDEX)?;
    Ok(Corrected { entries: parse::stages(&listed).count(), submodules, listed })
}

fn removal(entry: &Stage<'_>) -> Vec<u8> {
    let mut line = format!("0 {}\t", entry.id.format().zero()).into_bytes();
    line.extend_from_slice(entry.path);
    line.push(0);
    line
}

fn joined(files: &BTreeMap<Vec<u8>, Stamp>) -> Vec<u8> {
    let mut all = Vec::with_capacity(files.keys().map(|file| file.len() + 1).sum());
    for file in files.keys() {
        all.extend_from_slice(file);
        all.push(0);
    }
    all
}

/// What stands in a directory.
#[derive(Debug, Default)]
struct Found {
    files: BTreeMap<Vec<u8>, Stamp>,
    empty: BTreeSet<Vec<u8>>,
}

impl Found {
    /// Takes in what stands in one directory, and tells the directories below.
    fn take_in(&mut self, root: &Path, directory: Vec<u8>) -> Result<Vec<Vec<u8>>, Failure> {
        let below = list(root, &directory)?;
        if below.is_empty() {
            self.empty.insert(directory);
        }
        let mut deeper = Vec::new();
        for (path, kind) in below {
            match kind {
                Kind::Directory => deeper.push(path),
                Kind::File(stamp) => drop(self.files.insert(path, stamp)),
            }
        }
        Ok(deeper)
    }

    fn sight(&self, submodules: &[u8]) -> Digest {
        let mut sight = Sight::default();
        self.files.iter().for_each(|(path, stamp)| sight.add(path, Some(stamp)));
        self.empty.iter().for_each(|path| sight.add(path, None));
        sight.add(submodules, None);
        sight.finish()
    }
}

/// The first levels alone, and then, where there is something to share, two halves at the same time.
fn walk(root: &Path, leash: &mut Leash<'_>) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut waiting = VecDeque::from([Vec::new()]);
    while waiting.len() < WORTH_SHARING {
        let Some(directory) = waiting.pop_front() else { return Ok(found) };
        waiting.extend(found.take_in(root, directory)?);
    }
    let half = waiting.split_off(waiting.len() / 2);
    let stop = AtomicBool::new(false);
    let (own, other) = thread::scope(|scope| {
        let mut goes_on = || match stop.load(Ordering::Relaxed) {
            true => Err(stopped()),
            false => Ok(()),
        };
        let other = scope.spawn(move || descend(root, half, &mut goes_on));
        let own = descend(root, waiting, &mut || leash.check());
        stop.store(own.is_err(), Ordering::Relaxed);
        (own, other.join())
    });
    for part in [own?, other.unwrap_or_else(|_| Err(stopped()))?] {
        found.files.extend(part.files);
        found.empty.extend(part.empty);
    }
    Ok(found)
}

fn descend(
    root: &Path,
    mut waiting: VecDeque<Vec<u8>>,
    goes_on: Tick<'_>,
) -> Result<Found, Failure> {
    let (mut found, mut seen) = (Found::default(), 0usize);
    while let Some(directory) = waiting.pop_back() {
        seen += 1;
        if seen.is_multiple_of(STRIDE) {
            goes_on()?;
        }
        waiting.extend(found.take_in(root, directory)?);
    }
    Ok(found)
}

fn stopped() -> Failure {
    Failure::execution("TREE_UNREADABLE", "looking at the files was stopped")
}

enum Kind {
    File(Stamp),
    Directory,
}

fn list(root: &Path, directory: &[u8]) -> Result<Vec<(Vec<u8>, Kind)>, Failure> {
    let place = root.join(std::ffi::OsStr::from_bytes(directory));
    let failed = |error: std::io::Error| unreadable(directory, &error);
    let mut below = Vec::new();
    for entry in fs::read_dir(place).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_vec();
        let path = match directory {
            [] => name.clone(),
            above => [above, b"/", &name].concat(),
        };
        if name.eq_ignore_ascii_case(b".git") {
            return Err(nested(&path));
        }
        let kind = entry.file_type().map_err(failed)?;
        match (kind.is_dir(), kind.is_file() || kind.is_symlink()) {
            (true, _) => below.push((path, Kind::Directory)),
            (_, true) => {
                let stamp = Stamp::of(&entry.metadata().map_err(failed)?);
                below.push((path, Kind::File(stamp)));
            }
            _ => return Err(special(&path)),
        }
    }
    Ok(below)
}

fn unreadable(directory: &[u8], error: &std::io::Error) -> Failure {
    let message = format!("the directory `{}` cannot be read: {error}", directory.escape_ascii());
    Failure::state("TREE_UNREADABLE", message)
}

fn nested(path: &[u8]) -> Failure {
    let message = format!("`{}` belongs to git and cannot be recorded", path.escape_ascii());
    Failure::state("TREE_HOLDS_REPOSITORY", message)
        .hint("remove it: a workspace holds files, not other repositories")
}

fn ignored(said: &str) -> Failure {
    Failure::validation("PATH_INVALID", "git refuses the name of a file")
        .hint("rename the file that is named in the details")
        .details(json!({"said": said}))
}

fn special(path: &[u8]) -> Failure {
    let message = format!("`{}` is not a file, link or directory", path.escape_ascii());
    Failure::state("TREE_HOLDS_SPECIAL", message).hint("remove the pipe, socket or device")
}
