//! A user's own repository. It is only read here: the commands run no filter, no hook and write
//! nothing. `publish` is the one place that adds to it.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_model::Failure;

use crate::git::Git;
use crate::id::{ObjectFormat, ObjectId};
use crate::leash::Leash;
use crate::path;
use crate::program::Program;

/// A repository as it was found.
#[derive(Debug, Clone)]
pub struct Repository {
    pub(crate) git: Git,
    path: PathBuf,
    common: PathBuf,
    format: ObjectFormat,
    bare: bool,
    shallow: bool,
    partial: bool,
    branch: Option<String>,
}

impl Repository {
    /// Opens the repository whose top level, or bare directory, is `path`. Directories above it
    /// are not searched: a workspace is what its name says.
    pub fn open(program: &Program, path: &Path, leash: &mut Leash<'_>) -> Result<Self, Failure> {
        let path = fs::canonicalize(path).map_err(|error| not_there(path, &error))?;
        let git_dir = find_git_dir(program, &path, leash)?;
        let git = Git::of(program, &git_dir);
        let common = git.call(["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        let common = common.path(leash)?;
        let format = object_format(&git, leash)?;
        let bare = git_dir == path;
        let shallow = common.join("shallow").exists();
        let partial = is_partial(&git, leash)?;
        let branch = head_branch(&git, leash)?;
        Ok(Repository { git, path, common, format, bare, shallow, partial, branch })
    }

    /// The canonical path of its top level.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn format(&self) -> ObjectFormat {
        self.format
    }

    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// Whether its history ends before the beginning.
    pub fn is_shallow(&self) -> bool {
        self.shallow
    }

    /// Whether it may lack contents that only a server has. Nothing is ever fetched.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// The branch that is checked out, born or not; `None` if none is.
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// The directory of what all of its worktrees share.
    pub(crate) fn common_dir(&self) -> &Path {
        &self.common
    }

    /// The commit that a branch stands at.
    pub fn resolve(&self, branch: &str, leash: &mut Leash<'_>) -> Result<ObjectId, Failure> {
        let name = format!("refs/heads/{branch}");
        if path::check_ref(&self.git, &name, leash).is_err() {
            return Err(unknown_branch(branch));
        }
        match self.look_up(&name, leash)? {
            Some((id, kind)) if kind == "commit" => Ok(id),
            Some((id, kind)) => Err(not_a_commit(&id, &kind)),
            None if self.branch() == Some(branch) => Err(unborn(branch)),
            None => Err(unknown_branch(branch)),
        }
    }

    /// Where a ref stands, by its full name.
    pub fn reference(
        &self,
        name: &str,
        leash: &mut Leash<'_>,
    ) -> Result<Option<ObjectId>, Failure> {
        path::check_ref(&self.git, name, leash)?;
        Ok(self.look_up(name, leash)?.map(|(id, _)| id))
    }

    /// That an id names a commit which is here.
    pub fn check_commit(&self, id: &ObjectId, leash: &mut Leash<'_>) -> Result<(), Failure> {
        check_commit(&self.git, id, leash)
    }

    fn look_up(
        &self,
        name: &str,
        leash: &mut Leash<'_>,
    ) -> Result<Option<(ObjectId, String)>, Failure> {
        let format = "--format=%(refname) %(objectname) %(objecttype)";
        let found = self.git.call(["for-each-ref", format, name]).line(leash)?;
        // A pattern also finds what lies below it.
        let exact = found.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let Some((id, kind)) = exact.and_then(|line| line.split_once(' ')) else {
            return Ok(None);
        };
        Ok(id.parse().ok().map(|id| (id, kind.to_owned())))
    }
}

/// That an id names a commit which is here, or can be borrowed.
pub(crate) fn check_commit(git: &Git, id: &ObjectId, leash: &mut Leash<'_>) -> Result<(), Failure> {
    match kind(git, id, leash)?.as_deref() {
        Some("commit") => Ok(()),
        Some(kind) => Err(not_a_commit(id, kind)),
        None => Err(unknown_object(id)),
    }
}

/// Which kind of object an id names: `commit`, `tree`, `blob` or `tag`.
pub(crate) fn kind(
    git: &Git,
    id: &ObjectId,
    leash: &mut Leash<'_>,
) -> Result<Option<String>, Failure> {
    let call = git.call(["cat-file", "--batch-check=%(objecttype)"]);
    let answer = call.feed(format!("{id}\n")).line(leash)?;
    Ok((!answer.ends_with(" missing")).then_some(answer))
}

fn find_git_dir(program: &Program, path: &Path, leash: &mut Leash<'_>) -> Result<PathBuf, Failure> {
    // The directory above is where the search ends, so that only `path` itself is looked at.
    let above = path.parent().unwrap_or(path);
    let git = Git::looking_from(program, path).with("GIT_CEILING_DIRECTORIES", above);
    let call = git.call(["rev-parse", "--absolute-git-dir"]);
    let git_dir = call.path(leash).map_err(|failure| no_repository(path, failure))?;
    let git_dir = fs::canonicalize(&git_dir).map_err(|error| not_there(&git_dir, &error))?;
    let is_bare =
        git_dir == path && git.call(["rev-parse", "--is-bare-repository"]).line(leash)? == "true";
    if is_bare {
        return Ok(git_dir);
    }
    let top = git.call(["rev-parse", "--show-toplevel"]).path(leash);
    let top = top.map_err(|failure| no_repository(path, failure))?;
    if fs::canonicalize(top).is_ok_and(|top| top == path) {
        return Ok(git_dir);
    }
    Err(not_a_repository(path))
}

fn object_format(git: &Git, leash: &mut Leash<'_>) -> Result<ObjectFormat, Failure> {
    let name = git.call(["rev-parse", "--show-object-format"]).line(leash)?;
    ObjectFormat::named(&name).ok_or_else(|| {
        let message = format!("the object format `{}` is not known", name.escape_debug());
        Failure::validation("FORMAT_UNKNOWN", message)
    })
}

fn is_partial(git: &Git, leash: &mut Leash<'_>) -> Result<bool, Failure> {
    let keys = r"^(extensions\.partialclone|remote\..*\.promisor)$";
    let (ending, _) = git.call(["config", "--get-regexp", keys]).capture(leash, 1 << 20)?;
    Ok(ending.status.success())
}

fn head_branch(git: &Git, leash: &mut Leash<'_>) -> Result<Option<String>, Failure> {
    let (ending, said) = git.call(["symbolic-ref", "-q", "HEAD"]).capture(leash, 1 << 16)?;
    if !ending.status.success() {
        return Ok(None);
    }
    let name = String::from_utf8_lossy(&said);
    Ok(name.trim_end().strip_prefix("refs/heads/").map(str::to_owned))
}

fn not_there(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("`{}` cannot be opened: {error}", path.display());
    Failure::validation("NOT_A_REPOSITORY", message).hint("name the directory of a git repository")
}

/// A failure to find a repository is one of its own; time and the caller's word are not.
fn no_repository(path: &Path, failure: Failure) -> Failure {
    if failure.code != "GIT_FAILED" {
        return failure;
    }
    let mut found = not_a_repository(path);
    found.details = failure.details;
    found
}

fn not_a_repository(path: &Path) -> Failure {
    let message = format!("`{}` is not the top of a git repository", path.display());
    Failure::validation("NOT_A_REPOSITORY", message)
        .hint("name the top level of a checkout, or a bare repository")
}

fn unknown_branch(branch: &str) -> Failure {
    let message = format!("there is no branch `{}`", branch.escape_debug());
    Failure::validation("BRANCH_UNKNOWN", message).hint("name a branch of the repository")
}

fn unborn(branch: &str) -> Failure {
    let message = format!("the branch `{}` has no commit yet", branch.escape_debug());
    Failure::validation("BRANCH_UNBORN", message).hint("make a first commit")
}

fn not_a_commit(id: &ObjectId, kind: &str) -> Failure {
    Failure::validation("NOT_A_COMMIT", format!("`{id}` is a {kind}, not a commit"))
}

fn unknown_object(id: &ObjectId) -> Failure {
    Failure::validation("OBJECT_UNKNOWN", format!("there is no object `{id}`"))
}
