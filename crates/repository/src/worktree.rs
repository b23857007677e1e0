//! A private worktree: `repo.git`, which borrows its objects from the user's repository, and
//! `tree/`, the files, with nothing of git in it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use countersign_model::Failure;

use crate::checkout::{self, Submodule};
use crate::files::{self, Scratch, broken};
use crate::git::Git;
use crate::id::ObjectId;
use crate::layout;
use crate::leash::Leash;
use crate::presence;
use crate::program::Program;
use crate::repository::{self, Repository};

#[derive(Debug, Clone)]
pub struct Worktree {
    pub(crate) git: Git,
    directory: PathBuf,
    base: ObjectId,
}

impl Worktree {
    /// Lays out a commit in a new directory. Either all of it is there afterwards, or nothing.
    pub fn create(
        directory: &Path,
        from: &Repository,
        base: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<Self, Failure> {
        if fs::symlink_metadata(directory).is_ok() {
            return Err(exists(directory));
        }
        from.check_commit(base, leash)?;
        let new = Scratch::directory(directory)?;
        let worktree = Self::build(from.git.program(), new.path(), from, base, leash);
        worktree.map_err(|failure| incomplete(from, failure))?;
        // Whoever was faster has put theirs there, and only whole ones are.
        let faster = |failure| match fs::symlink_metadata(directory) {
            Ok(_) => exists(directory),
            Err(_) => failure,
        };
        new.settle(directory).map_err(faster)?;
        Ok(Self::at(from.git.program(), directory, base))
    }

    fn build(
        program: &Program,
        directory: &Path,
        from: &Repository,
        base: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        layout::make(&directory.join("repo.git"), from, base)?;
        let worktree = Self::at(program, directory, base);
        files::make_directory(&worktree.tree())?;
        let laid =
            checkout::lay_out(&worktree.git, base, &worktree.tree(), &worktree.index(), leash)?;
        laid.record(worktree.git.directory())
    }

    /// Opens what `create` made.
    pub fn open(
        program: &Program,
        directory: &Path,
        leash: &mut Leash<'_>,
    ) -> Result<Self, Failure> {
        let worktree = Self::found(program, directory)?;
        worktree.check(leash)?;
        Ok(worktree)
    }

    /// The same with the [`state`](Self::state) of everything in it; one look at whether the base is
    /// there does for both.
    pub fn open_with_state(
        program: &Program,
        directory: &Path,
        leash: &mut Leash<'_>,
    ) -> Result<(Self, ObjectId), Failure> {
        let worktree = Self::found(program, directory)?;
        let state = worktree.state(leash)?;
        Ok((worktree, state))
    }

    fn found(program: &Program, directory: &Path) -> Result<Self, Failure> {
        let record = layout::read_record(&directory.join("repo.git"));
        Ok(Self::at(program, directory, &record.ok_or_else(|| lost(directory))?.base))
    }

    /// Removes a worktree and whatever attempts to make it left behind. Nothing there is fine.
    pub fn remove(directory: &Path) -> Result<(), Failure> {
        let failed = |error| broken("remove", directory, &error);
        files::remove_all(directory).map_err(failed)?;
        files::sweep(directory).map_err(failed)
    }

    fn at(program: &Program, directory: &Path, base: &ObjectId) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        // Many small objects are made durable together.
        let git = Git::of(program, &directory.join("repo.git")).set("core.fsyncMethod", "batch");
        Worktree { git, directory, base: *base }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the files are.
    pub fn tree(&self) -> PathBuf {
        self.directory.join("tree")
    }

    /// The commit it was made from.
    pub fn base(&self) -> &ObjectId {
        &self.base
    }

    /// The tree of a commit or tree.
    pub fn tree_of(&self, id: &ObjectId, leash: &mut Leash<'_>) -> Result<ObjectId, Failure> {
        let call = self.git.call(["cat-file", "--batch-check=%(objecttype) %(objectname)"]);
        let answer = call.feed(format!("{id}^{{tree}}\n")).line(leash)?;
        let tree = answer.strip_prefix("tree ").and_then(|id| id.parse().ok());
        match tree {
            Some(tree) => Ok(tree),
            None => self.diagnose(Err(no_tree(id)), leash),
        }
    }

    /// The submodules of the tree that was laid out last; their directories are empty.
    pub fn submodules(&self) -> Result<Vec<Submodule>, Failure> {
        checkout::recorded(self.git.directory())
    }

    /// Lays out any tree or commit afresh in a new directory elsewhere.
    pub fn materialise(
        &self,
        id: &ObjectId,
        directory: &Path,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        if fs::symlink_metadata(directory).is_ok() {
            return Err(exists(directory));
        }
        let new = Scratch::directory(directory)?;
        let index = self.scratch("index");
        let laid = checkout::lay_out(&self.git, id, new.path(), index.path(), leash);
        self.diagnose(laid, leash)?;
        new.settle(directory)
    }

    /// Puts `tree/` back to exactly a tree or commit: what is not in it is gone.
    pub fn restore(&self, id: &ObjectId, leash: &mut Leash<'_>) -> Result<(), Failure> {
        let _held = self.hold(leash)?;
        let new = Scratch::directory(&self.tree())?;
        let index = self.scratch("index");
        let laid = checkout::lay_out(&self.git, id, new.path(), index.path(), leash);
        let laid = self.diagnose(laid, leash)?;
        laid.record(self.git.directory())?;
        // An index that does not fit the tree only costs time, so the order does not matter.
        fs::rename(index.path(), self.index())
            .map_err(|error| broken("replace", &self.index(), &error))?;
        match self.tree().exists() {
            true => new.exchange(&self.tree()),
            false => new.settle(&self.tree()),
        }
    }

    /// Keeps an object, and everything it names, for as long as the worktree exists.
    pub fn pin(&self, id: &ObjectId, leash: &mut Leash<'_>) -> Result<(), Failure> {
        let name = format!("refs/countersign/pin/{id}");
        let kept = self.git.call(["update-ref", &name, &id.to_string()]).quiet(leash);
        self.diagnose(kept, leash)
    }

    /// The ref under which a pinned object is kept goes; the object may be pruned later.
    pub fn unpin(&self, id: &ObjectId, leash: &mut Leash<'_>) -> Result<(), Failure> {
        let name = format!("refs/countersign/pin/{id}");
        self.git.call(["update-ref", "-d", &name]).quiet(leash)
    }

    /// That the files and the base are still there.
    pub fn check(&self, leash: &mut Leash<'_>) -> Result<(), Failure> {
        self.check_with(None, leash).map(drop)
    }

    /// The same, and whether another tree is there as well.
    pub(crate) fn check_with(
        &self,
        tree: Option<&ObjectId>,
        leash: &mut Leash<'_>,
    ) -> Result<bool, Failure> {
        if !self.tree().is_dir() || !self.git.directory().join("HEAD").is_file() {
            return Err(lost(&self.directory));
        }
        if let Some(is_there) = self.sees(tree) {
            return Ok(is_there);
        }
        let call = self.git.call(["cat-file", "--batch-check=%(objecttype) %(objectname)"]);
        let also = tree.map_or_else(String::new, |tree| format!("{tree}\n"));
        let found = call.feed(format!("{0}\n{0}^{{tree}}\n{also}", self.base)).line(leash);
        let found = match found {
            Err(failure) if !is_suspicious(&failure) => return Err(failure),
            found => found.unwrap_or_default(),
        };
        let mut kinds = found.lines().map(|line| line.split_once(' ').unwrap_or_default());
        let (Some(("commit", _)), Some(("tree", base_tree))) = (kinds.next(), kinds.next()) else {
            return Err(base_lost(&self.base));
        };
        let _ = fs::write(self.base_tree_file(), format!("{} {base_tree}\n", self.base));
        Ok(kinds.next().is_some_and(|(kind, _)| kind == "tree"))
    }

    /// The same without git, if a look at names is enough to say that all is there.
    fn sees(&self, tree: Option<&ObjectId>) -> Option<bool> {
        let text = fs::read_to_string(self.base_tree_file()).ok()?;
        let (base, base_tree) = text.trim_end().split_once(' ')?;
        if base != self.base.to_string() {
            return None;
        }
        let wanted = [Some(self.base), base_tree.parse().ok(), tree.copied()];
        let wanted: Vec<ObjectId> = wanted.into_iter().flatten().collect();
        let enough = wanted.len() == 2 + usize::from(tree.is_some());
        let is_here = enough && presence::all(&self.git.directory().join("objects"), &wanted);
        is_here.then_some(tree.is_some())
    }

    /// Which tree the base has: git said so once, and it cannot change.
    fn base_tree_file(&self) -> PathBuf {
        self.git.directory().join("countersign-base")
    }

    /// Turns a failure of git into what is behind it, if that is a worktree or a base that is gone.
    pub(crate) fn diagnose<T>(
        &self,
        result: Result<T, Failure>,
        leash: &mut Leash<'_>,
    ) -> Result<T, Failure> {
        match result {
            Err(failure) if is_suspicious(&failure) => {
                self.check(leash)?;
                Err(failure)
            }
            other => other,
        }
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.git.directory().join("index")
    }

    /// A file in the git directory for the time of one command.
    pub(crate) fn scratch(&self, name: &str) -> Scratch {
        Scratch::file(self.git.directory(), name)
    }

    /// Holds the worktree against others who look at all of it or lay it out anew. The kernel lets
    /// go when the holder dies, so a lock of the index that is found now has no owner.
    pub(crate) fn hold(&self, leash: &mut Leash<'_>) -> Result<File, Failure> {
        let path = self.git.directory().join("lock");
        let file = File::open(&path).map_err(|_| lost(&self.directory))?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => leash.check()?,
                Err(TryLockError::Error(error)) => return Err(broken("lock", &path, &error)),
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = fs::remove_file(self.index().with_added_extension("lock"));
        Ok(file)
    }

    /// That an object of a kind is here.
    pub(crate) fn check_kind(
        &self,
        id: &ObjectId,
        kind: &str,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        let found = repository::kind(&self.git, id, leash)?;
        if found.as_deref() == Some(kind) {
            return Ok(());
        }
        let message = format!("there is no {kind} `{id}`");
        self.diagnose(Err(Failure::validation("OBJECT_UNKNOWN", message)), leash)
    }
}

/// Whether something that is gone may be behind a failure; time and the caller's word are not.
fn is_suspicious(failure: &Failure) -> bool {
    let codes = ["GIT_FAILED", "OBJECT_UNKNOWN", "DIRECTORY_LOST", "FILES_FAILED"];
    codes.contains(&failure.code.as_ref())
}

fn exists(directory: &Path) -> Failure {
    let message = format!("there is something at `{}` already", directory.display());
    Failure::state("WORKTREE_EXISTS", message)
}

fn lost(directory: &Path) -> Failure {
    let message = format!("the private worktree `{}` is no longer whole", directory.display());
    Failure::state("WORKTREE_LOST", message).hint("make it anew from its base")
}

fn base_lost(base: &ObjectId) -> Failure {
    let message = format!("the base commit `{base}` can no longer be read");
    Failure::state("BASE_LOST", message)
        .hint("was the repository moved, or the branch deleted and pruned? bring it back")
}

fn no_tree(id: &ObjectId) -> Failure {
    Failure::validation("OBJECT_UNKNOWN", format!("there is no tree or commit `{id}`"))
}

/// A repository that never had everything is another matter than one that lost something.
fn incomplete(from: &Repository, failure: Failure) -> Failure {
    if !from.is_partial() || !["GIT_FAILED", "OBJECT_UNKNOWN"].contains(&failure.code.as_ref()) {
        return failure;
    }
    let message = "the repository is a partial clone and lacks contents of the base";
    let mut told = Failure::state("BASE_INCOMPLETE", message)
        .hint("fetch them: `git fetch --refetch --no-filter`, or check the branch out once");
    told.details = failure.details;
    told
}
