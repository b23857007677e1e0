//! Which workspaces there are. The journal says so; only people change it.

use std::fs;
use std::path::Path;

use countersign_journal::{AppendError, Batch, JournalError};
use countersign_model::effect::Effect;
use countersign_model::event::{CallEvent, CallFact, Fact};
use countersign_model::{
    ErrorClass, Failure, Principal, RunId, Workspace, WorkspaceEvent, WorkspaceId,
};
use countersign_repository::{Leash, ObjectId, Program, Repository, Worktree};

use super::{PATIENCE, WorkPlace, object};
use crate::host::Host;

impl Host {
    pub fn workspaces(&self) -> Result<Vec<Workspace>, Failure> {
        Ok(self.home.store.workspaces()?)
    }

    pub fn workspace(&self, id: &WorkspaceId) -> Result<Workspace, Failure> {
        let all = self.workspaces()?;
        let known: Vec<_> = all.iter().map(|one| one.id.to_string()).collect();
        all.into_iter().find(|one| one.id == *id).ok_or_else(|| {
            let hint = match known.is_empty() {
                true => "register one with `countersign workspace add ID PATH`".to_owned(),
                false => format!("registered are {}", known.join(", ")),
            };
            Failure::validation("WORKSPACE_UNKNOWN", format!("there is no workspace `{id}`"))
                .hint(hint)
        })
    }

    /// Registers a repository. Without a branch, the one that is checked out.
    pub fn add_workspace(
        &self,
        id: WorkspaceId,
        path: &Path,
        branch: Option<&str>,
        by: &Principal,
    ) -> Result<Workspace, Failure> {
        only_people(by)?;
        if self.workspaces()?.iter().any(|one| one.id == id) {
            let message = format!("there is a workspace `{id}` already");
            return Err(Failure::validation("WORKSPACE_EXISTS", message)
                .hint("choose another id, or remove that one first"));
        }
        let mut leash = Leash::lasting(PATIENCE);
        let repository = Repository::open(&Program::find()?, path, &mut leash)?;
        let branch = branch.or(repository.branch()).ok_or_else(no_branch)?.to_owned();
        let base = repository.resolve(&branch, &mut leash)?.to_string();
        let path = repository.path().to_str().map(str::to_owned).ok_or_else(|| {
            Failure::validation("WORKSPACE_PATH_INVALID", "its path is not UTF-8")
        })?;
        self.refuse_home(Path::new(&path))?;
        let added_at = self.clock.now();
        let workspace = Workspace { added_at, added_by: by.clone(), base, branch, id, path };
        self.note_workspace(WorkspaceEvent::Added { workspace: workspace.clone() })?;
        Ok(workspace)
    }

    /// A home inside of what actions work on is fine, the other way round is not.
    fn refuse_home(&self, path: &Path) -> Result<(), Failure> {
        let home = fs::canonicalize(self.home.path()).unwrap_or_else(|_| self.home.path().into());
        match path.starts_with(&home) {
            false => Ok(()),
            true => Err(Failure::validation("PATH_IN_HOME", "the home is no workspace")
                .hint("register a repository that lies elsewhere")),
        }
    }

    /// Forgets a workspace and removes the worktrees of its runs. What a run has not published is
    /// lost, so without `force` nothing happens while there is any.
    pub fn remove_workspace(
        &self,
        id: &WorkspaceId,
        by: &Principal,
        force: bool,
    ) -> Result<Vec<RunId>, Failure> {
        only_people(by)?;
        self.workspace(id)?;
        let runs = self.runs_on(id)?;
        let unpublished: Vec<_> =
            runs.iter().filter(|run| self.has_changes(id, run)).map(ToString::to_string).collect();
        if !unpublished.is_empty() && !force {
            let message = format!("runs have changes in `{id}`: {}", unpublished.join(", "));
            return Err(Failure::validation("WORKSPACE_IN_USE", message)
                .hint("commit or reset them, or remove it with --force"));
        }
        let at = self.clock.now();
        let (workspace, by) = (id.clone(), by.clone());
        self.note_workspace(WorkspaceEvent::Removed { at, by, workspace })?;
        for run in &runs {
            Worktree::remove(self.home.worktree(id, run).path())?;
        }
        let _ = fs::remove_dir(self.home.worktrees(id));
        Ok(runs)
    }

    /// What cannot be read may hold anything.
    fn has_changes(&self, id: &WorkspaceId, run: &RunId) -> bool {
        let look = || self.is_unpublished(&self.existing_work(id, run)?);
        look().unwrap_or(true)
    }

    /// Whether a worktree holds something that is neither its base nor what the run committed.
    pub fn is_unpublished(&self, place: &WorkPlace) -> Result<bool, Failure> {
        let mut leash = Leash::lasting(PATIENCE);
        let (worktree, tree) = (place.worktree(&mut leash)?, place.tree()?);
        if worktree.tree_of(worktree.base(), &mut leash)? == tree {
            return Ok(false);
        }
        for commit in self.published_by(&place.work.run)? {
            // What can no longer be read here proves nothing.
            if worktree.tree_of(&commit, &mut leash).is_ok_and(|committed| committed == tree) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Commits that a run put onto branches.
    fn published_by(&self, run: &RunId) -> Result<Vec<ObjectId>, Failure> {
        let mut commits = Vec::new();
        for execution in self.home.store.run_calls(run)? {
            for stored in self.home.store.call_entries(execution)? {
                let Fact::Call(CallFact { event: CallEvent::Committed(committed), .. }) =
                    stored.entry.fact
                else {
                    continue;
                };
                commits.extend(committed.effects.iter().filter_map(|effect| match effect {
                    Effect::RefMoved { after, .. } => after.parse::<ObjectId>().ok(),
                    _ => None,
                }));
            }
        }
        Ok(commits)
    }

    /// The worktree of a run that has one already, or once had one; nothing is made.
    pub fn existing_work(&self, id: &WorkspaceId, run: &RunId) -> Result<WorkPlace, Failure> {
        self.workspace(id)?;
        if !self.home.worktree(id, run).path().exists() && self.run_of(run)?.is_none() {
            return Err(no_such_run(id, run));
        }
        self.open_work(id, run)
    }

    /// Runs that have a worktree on a workspace.
    pub fn runs_on(&self, id: &WorkspaceId) -> Result<Vec<RunId>, Failure> {
        let Ok(found) = fs::read_dir(self.home.worktrees(id)) else { return Ok(Vec::new()) };
        let names = found.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut runs: Vec<RunId> = names.filter_map(|name| name.parse().ok()).collect();
        runs.sort();
        Ok(runs)
    }

    /// Puts the worktree of a run back to its base, or makes it anew.
    pub fn reset_run(
        &self,
        id: &WorkspaceId,
        run: &RunId,
        by: &Principal,
    ) -> Result<WorkPlace, Failure> {
        only_people(by)?;
        let workspace = self.workspace(id)?;
        let directory = self.home.worktree(id, run);
        let mut leash = Leash::lasting(PATIENCE);
        let before = match self.existing_work(id, run) {
            Err(failure) if failure.class == ErrorClass::ValidationError => return Err(failure),
            before => before.ok(),
        };
        let base = match (&before, self.run_of(run)?) {
            (Some(place), _) => place.work.base.clone(),
            (None, Some(work)) => work.base,
            (None, None) => workspace.base.clone(),
        };
        let event = WorkspaceEvent::Reset {
            at: self.clock.now(),
            base: base.clone(),
            by: by.clone(),
            run: run.clone(),
            tree: before.as_ref().map(|place| place.work.tree.clone()),
            workspace: id.clone(),
        };
        self.note_workspace(event)?;
        match before {
            Some(place) => {
                let worktree = place.worktree(&mut leash)?;
                worktree.pin(&place.tree()?, &mut leash)?;
                worktree.restore(worktree.base(), &mut leash)?;
            }
            None => {
                Worktree::remove(directory.path())?;
                let program = Program::find()?;
                let repository =
                    Repository::open(&program, Path::new(&workspace.path), &mut leash)?;
                self.make_worktree(&directory, &repository, &object(&base)?, &mut leash)?;
            }
        }
        self.open_work(id, run)
    }

    fn note_workspace(&self, event: WorkspaceEvent) -> Result<(), Failure> {
        let facts = vec![(self.clock.now(), Fact::Workspace(event))];
        let appended = self.home.store.append(Batch { facts, ..Batch::default() });
        match appended {
            Err(AppendError::Journal(JournalError::Unrecordable(_))) => {
                Err(Failure::state("CONFLICT", "somebody else changed this workspace meanwhile"))
            }
            other => Ok(other.map(drop)?),
        }
    }
}

fn only_people(by: &Principal) -> Result<(), Failure> {
    if by.is_human() {
        return Ok(());
    }
    let message = format!("`{by}` may not change which workspaces there are");
    Err(Failure::authorization("PEOPLE_ONLY", message).hint("ask a human to do it"))
}

fn no_such_run(id: &WorkspaceId, run: &RunId) -> Failure {
    Failure::validation("RUN_UNKNOWN", format!("run `{run}` has no worktree on `{id}`"))
        .hint(format!("see its runs with `countersign workspace show {id}`"))
}

fn no_branch() -> Failure {
    Failure::validation("BRANCH_UNKNOWN", "no branch is checked out there")
        .hint("name one with --branch")
}
