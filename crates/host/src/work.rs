//! Workspaces, and the private worktrees in which runs work on them.
//!
//! A workspace is a repository that people registered. A run never touches its checkout: it has a
//! worktree of its own, made from an exact commit, and what it does there becomes part of the
//! repository only when it is published.

mod registry;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign_model::{ArtifactRecord, Failure, RunId, Work, Workspace, WorkspaceId};
use countersign_repository::{Leash, ObjectId, Program, Repository, Worktree};

use crate::host::Host;
use crate::root::Root;
use crate::tool::present;

/// Laying out a large repository takes a while; nothing here should take longer.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The private directory of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory(PathBuf);

impl RunDirectory {
    pub(crate) fn new(path: PathBuf) -> Self {
        RunDirectory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where the files of the run are.
    pub fn files(&self) -> PathBuf {
        self.0.join("tree")
    }
}

/// The worktree of a run as a call found it.
#[derive(Debug, Clone)]
pub struct WorkPlace {
    pub workspace: Workspace,
    pub work: Work,
    pub directory: RunDirectory,
    program: Program,
}

impl WorkPlace {
    pub(crate) fn new(
        workspace: Workspace,
        work: Work,
        directory: RunDirectory,
        program: Program,
    ) -> Self {
        WorkPlace { workspace, work, directory, program }
    }

    /// Known to grants by the name of the workspace.
    pub(crate) fn root(&self) -> Result<Root, Failure> {
        Root::of_worktree(&self.directory.files(), &self.workspace.path)
    }

    pub fn worktree(&self, leash: &mut Leash<'_>) -> Result<Worktree, Failure> {
        Worktree::open(&self.program, self.directory.path(), leash)
    }

    pub fn repository(&self, leash: &mut Leash<'_>) -> Result<Repository, Failure> {
        Repository::open(&self.program, Path::new(&self.workspace.path), leash)
    }

    pub fn base(&self) -> Result<ObjectId, Failure> {
        object(&self.work.base)
    }

    pub fn tree(&self) -> Result<ObjectId, Failure> {
        object(&self.work.tree)
    }
}

pub(crate) fn object(id: &str) -> Result<ObjectId, Failure> {
    id.parse().map_err(|_| Failure::state("JOURNAL_CORRUPT", format!("`{id}` is no object id")))
}

impl Host {
    /// The worktree of a run, made from the tip of the workspace's branch if the run is new.
    pub fn open_work(&self, workspace: &WorkspaceId, run: &RunId) -> Result<WorkPlace, Failure> {
        let workspace = self.workspace(workspace)?;
        let earlier = self.run_of(run)?;
        if let Some(earlier) = earlier.as_ref().filter(|work| work.workspace != workspace.id) {
            let message = format!("run `{run}` works on `{}`", earlier.workspace);
            return Err(Failure::validation("RUN_ELSEWHERE", message)
                .hint("name another run: each works on one workspace"));
        }
        let directory = self.home.worktree(&workspace.id, run);
        let program = Program::find()?;
        let mut leash = Leash::lasting(PATIENCE);
        let (worktree, tree) = match directory.path().exists() {
            true => Worktree::open_with_state(&program, directory.path(), &mut leash)?,
            false if earlier.is_some() => return Err(worktree_lost(&directory)),
            false => {
                let repository =
                    Repository::open(&program, Path::new(&workspace.path), &mut leash)?;
                let base = repository.resolve(&workspace.branch, &mut leash)?;
                let made = self.make_worktree(&directory, &repository, &base, &mut leash)?;
                let tree = made.state(&mut leash)?;
                (made, tree)
            }
        };
        let work = Work {
            base: worktree.base().to_string(),
            run: run.clone(),
            tree: tree.to_string(),
            workspace: workspace.id.clone(),
        };
        Ok(WorkPlace { workspace, work, directory, program })
    }

    pub(crate) fn make_worktree(
        &self,
        directory: &RunDirectory,
        repository: &Repository,
        base: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<Worktree, Failure> {
        let parent = directory.path().parent().unwrap_or_else(|| Path::new("/"));
        DirBuilder::new().mode(0o700).recursive(true).create(parent).map_err(|error| {
            Failure::state("WORKTREE_UNWRITABLE", format!("no worktree can be made: {error}"))
                .hint("free some space, and try again")
        })?;
        match Worktree::create(directory.path(), repository, base, leash) {
            // Another process was faster.
            Err(failure) if failure.code == "WORKTREE_EXISTS" => {
                Worktree::open(&Program::find()?, directory.path(), leash)
            }
            made => made,
        }
    }

    /// The worktree that a call found, if it still is as the call found it.
    pub(crate) fn work_again(&self, work: &Work) -> Result<WorkPlace, Failure> {
        let found = self.open_work(&work.workspace, &work.run)?;
        if found.work == *work {
            return Ok(found);
        }
        let message = format!("the worktree of run `{}` has changed", work.run);
        Err(Failure::validation("WORKSPACE_CHANGED", message))
    }

    /// An artifact that can be used, or why it cannot.
    pub fn present_artifact(
        &self,
        found: Option<ArtifactRecord>,
        named: &str,
    ) -> Result<ArtifactRecord, Failure> {
        present(found, named)
    }

    /// On what a run works, if it has made a call.
    pub fn run_of(&self, run: &RunId) -> Result<Option<Work>, Failure> {
        let Some(first) = self.home.store.first_call(run)? else { return Ok(None) };
        Ok(self.home.store.call(first)?.and_then(|call| call.work))
    }
}

fn worktree_lost(directory: &RunDirectory) -> Failure {
    let message = format!("the worktree at {} is gone", directory.path().display());
    Failure::state("WORKTREE_LOST", message)
        .hint("make it anew with `countersign workspace reset ID --run RUN`")
}
