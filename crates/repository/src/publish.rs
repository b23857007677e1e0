//! Bringing a commit into the user's repository: first its objects, which nobody sees, then one
//! comparison and exchange of a ref. Both can be done again after any interruption.

use std::fs::File;
use std::time::Duration;

use countersign_model::Failure;
use serde::Serialize;

use crate::commit::Signature;
use crate::files::{Scratch, broken};
use crate::git::Git;
use crate::id::ObjectId;
use crate::leash::Leash;
use crate::path;
use crate::repository::{self, Repository};
use crate::worktree::Worktree;

/// How long the exchange of one ref may take, on a disk that is busy.
const EXCHANGE: Duration = Duration::from_secs(60);

/// Where a ref shall stand, if it stands where it is believed to.
#[derive(Debug, Clone)]
pub struct RefChange<'r> {
    /// By its full name: `refs/heads/NAME`.
    pub name: &'r str,
    pub new: ObjectId,
    /// `None` if the ref must not exist yet.
    pub old: Option<ObjectId>,
    /// For the log of the ref.
    pub message: &'r str,
    pub by: &'r Signature,
    /// Seconds since 1970.
    pub time: u64,
}

/// What became of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
#[must_use = "a ref that has moved was not changed"]
pub enum RefOutcome {
    Updated,
    /// Somebody, perhaps an earlier attempt, had put it there.
    AlreadyThere,
    /// It stands elsewhere than believed, or nowhere, and was left alone.
    Moved {
        to: Option<ObjectId>,
    },
}

/// The outcome, and what it means for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefUpdate {
    #[serde(flatten)]
    pub outcome: RefOutcome,
    /// The ref is the branch of a checkout, whose files and index are now behind it.
    pub checked_out: bool,
}

impl Worktree {
    /// Copies a commit's objects into the user's repository, durably. Nothing refers to them
    /// there, so this changes nothing for the user and can be done any number of times.
    pub fn transfer(
        &self,
        to: &Repository,
        commit: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        self.check_kind(commit, "commit", leash)?;
        let git = to.git.set("core.fsyncMethod", "fsync");
        if !is_whole(&git, commit, leash)? {
            let pack = self.scratch("transfer");
            let packed = self.pack(commit, &pack, leash);
            self.diagnose(packed, leash)?;
            unpack(&git, &pack, leash)?;
        }
        match is_whole(&git, commit, leash)? {
            true => Ok(()),
            false => Err(incomplete(commit)),
        }
    }

    /// Everything of a commit that is not borrowed.
    fn pack(
        &self,
        commit: &ObjectId,
        pack: &Scratch,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        let file = File::create_new(pack.path());
        let file = file.map_err(|error| broken("write", pack.path(), &error))?;
        let call = self.git.call(["pack-objects", "--revs", "--local", "--stdout", "--quiet"]);
        call.feed(format!("{commit}\n^{}\n", self.base())).into_file(leash, file)
    }
}

/// The objects are checked one by one before they are let in.
fn unpack(git: &Git, pack: &Scratch, leash: &mut Leash<'_>) -> Result<(), Failure> {
    let file = File::open(pack.path());
    let file = file.map_err(|error| broken("read", pack.path(), &error))?;
    let call = git.call(["index-pack", "--stdin", "--strict"]).feed_file(file);
    let ending = call.run(leash, &mut |_| Ok(()))?;
    match ending.said.contains("fsck error") {
        true => Err(refused(ending.failure())),
        false => ending.success(),
    }
}

/// Whether a commit and everything that it needs are there.
fn is_whole(git: &Git, commit: &ObjectId, leash: &mut Leash<'_>) -> Result<bool, Failure> {
    if repository::kind(git, commit, leash)?.as_deref() != Some("commit") {
        return Ok(false);
    }
    let id = commit.to_string();
    let walk = ["rev-list", "--objects", "--quiet", &id, "--not", "--all"];
    let (ending, _) = git.call(walk).capture(leash, 1 << 20)?;
    Ok(ending.status.success())
}

impl Repository {
    /// Moves a ref, if it stands where it is believed to; the commit must have been transferred.
    pub fn update_ref(
        &self,
        change: &RefChange<'_>,
        leash: &mut Leash<'_>,
    ) -> Result<RefUpdate, Failure> {
        change.by.check()?;
        path::check_ref(&self.git, change.name, leash)?;
        self.check_commit(&change.new, leash)?;
        let outcome = self.exchange(change, leash)?;
        let checked_out = self.is_checked_out(change.name, leash)?;
        Ok(RefUpdate { outcome, checked_out })
    }

    fn exchange(
        &self,
        change: &RefChange<'_>,
        leash: &mut Leash<'_>,
    ) -> Result<RefOutcome, Failure> {
        let standing = self.reference(change.name, leash)?;
        if standing == Some(change.new) {
            return Ok(RefOutcome::AlreadyThere);
        }
        self.refuse_symbolic(change.name, leash)?;
        let (new, old) = (change.new, change.old.unwrap_or(change.new.format().zero()));
        let (new, old) = (new.to_string(), old.to_string());
        let call = ["update-ref", "--no-deref", "-m", change.message, change.name, &new, &old];
        leash.check()?;
        // Not to be stopped half-way: that would leave a lock in the user's repository.
        let call = self.signed(change).call(call);
        let (ending, _) = call.capture(&mut Leash::lasting(EXCHANGE), 1 << 16)?;
        if ending.status.success() {
            return Ok(RefOutcome::Updated);
        }
        match self.reference(change.name, leash)? {
            to if to == Some(change.new) => Ok(RefOutcome::AlreadyThere),
            to if to != change.old => Ok(RefOutcome::Moved { to }),
            _ => Err(not_moved(change.name, &ending.said, ending.failure())),
        }
    }

    /// The log of a ref says who moved it.
    fn signed(&self, change: &RefChange<'_>) -> Git {
        self.git
            .set("core.fsyncMethod", "fsync")
            // Another publisher holds the lock for as long as a disk takes; a dead one for ever.
            .set("core.filesRefLockTimeout", "5000")
            .with("GIT_COMMITTER_NAME", &change.by.name)
            .with("GIT_COMMITTER_EMAIL", &change.by.email)
            .with("GIT_COMMITTER_DATE", format!("@{} +0000", change.time))
    }

    /// A ref that only names another is not moved: two names would move.
    fn refuse_symbolic(&self, name: &str, leash: &mut Leash<'_>) -> Result<(), Failure> {
        let (ending, _) = self.git.call(["symbolic-ref", "-q", name]).capture(leash, 1 << 16)?;
        if !ending.status.success() {
            return Ok(());
        }
        let message = format!("`{name}` only names another ref");
        Err(Failure::validation("REF_SYMBOLIC", message).hint("name the ref behind it"))
    }

    /// Whether a ref is the branch of a checkout of the user's: moving it leaves files and index
    /// behind.
    pub fn is_checked_out(&self, name: &str, leash: &mut Leash<'_>) -> Result<bool, Failure> {
        let is_ours =
            self.branch().is_some_and(|ours| name.strip_prefix("refs/heads/") == Some(ours));
        if is_ours && !self.is_bare() {
            return Ok(true);
        }
        let format = "--format=%(refname)%00%(worktreepath)";
        let places = self.git.call(["for-each-ref", format, name]).line(leash)?;
        let place = places.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\0'));
        // A bare repository has a branch, but no files that could be behind it.
        Ok(place
            .is_some_and(|place| !place.is_empty() && self.common_dir().to_str() != Some(place)))
    }
}

fn refused(failure: Failure) -> Failure {
    let message = "git refuses what is in the commit: somebody could be harmed by checking it out";
    let mut told = Failure::validation("OBJECTS_REFUSED", message)
        .hint("see the details; often it is a setting in `.gitmodules`");
    told.details = failure.details;
    told
}

fn not_moved(name: &str, said: &str, failure: Failure) -> Failure {
    let mut told = if said.contains(".lock'") && said.contains("File exists") {
        Failure::state("REF_LOCKED", format!("`{name}` is locked by another process, or was"))
            .hint("if no git is running there, remove the lock file that is named in the details")
    } else if said.contains("cannot lock ref") {
        Failure::validation("REF_CONFLICT", format!("`{name}` cannot stand beside another ref"))
            .hint("choose another name")
    } else {
        return failure;
    };
    told.details = failure.details;
    told
}

fn incomplete(commit: &ObjectId) -> Failure {
    let message = format!("the repository lacks objects that the commit `{commit}` needs");
    Failure::state("BASE_LOST", message).hint("was the branch deleted and pruned? bring it back")
}
