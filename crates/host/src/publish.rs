//! Publishing committed effects. Idempotent: recovery runs it again after a crash.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use countersign_journal::Blobs;
use countersign_model::effect::{Effect, Image};
use countersign_model::{Digest, ExecutionId, Failure};

use countersign_repository::{Leash, Program, RefChange, RefOutcome, Repository, Signature};

use crate::clock::{Clock, SystemClock};
use crate::path::RelPath;
use crate::root::{Root, Standing, std_failure};
use crate::work::{PATIENCE, object};

/// What to do about an effect that cannot be brought about now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Keep the call open and its paths claimed; recovery tries again.
    Wait,
    /// A human decided to leave things as they are.
    GiveUp,
}

/// Contents by their digests, which were taken of these very bytes.
pub(crate) type Contents = HashMap<Digest, Vec<u8>>;

/// Where contents come from: memory if they are still there, otherwise the store.
#[derive(Clone, Copy)]
pub(crate) struct Source<'s> {
    pub(crate) blobs: &'s Blobs,
    pub(crate) contents: &'s Contents,
}

impl<'s> From<&'s Blobs> for Source<'s> {
    fn from(blobs: &'s Blobs) -> Self {
        static NOTHING: LazyLock<Contents> = LazyLock::new(Contents::new);
        Source { blobs, contents: &NOTHING }
    }
}

impl Source<'_> {
    fn write(self, digest: &Digest, file: &mut File) -> Result<(), Failure> {
        match self.contents.get(digest) {
            Some(bytes) => Ok(file.write_all(bytes).map_err(|error| std_failure(&error))?),
            None => Ok(self.blobs.copy_to(digest, file)?),
        }
    }
}

/// Brings every effect about and returns the paths that had to be left alone, because they held
/// neither what was there before the call nor what the call wrote.
pub(crate) fn publish(
    root: Result<&Root, &Failure>,
    source: Source<'_>,
    execution: ExecutionId,
    effects: &[Effect],
    patience: Patience,
) -> Result<Vec<String>, Failure> {
    let many = effects.iter().filter(|effect| effect.needs_publishing()).count() > 1;
    let together = root.ok().filter(|_| many).and_then(|root| root.for_many().ok());
    let root = together.as_ref().map_or(root, Ok);
    let made = effects.iter().filter(|effect| !effect.is_removal()).map(Effect::target).collect();
    let (unsettled, aside) = (Vec::new(), Vec::new());
    let mut publisher = Publisher { root, execution, patience, made, unsettled, aside };
    for (index, effect) in effects.iter().enumerate().filter(|(_, e)| e.needs_publishing()) {
        let temporary = publisher.temporary(index);
        let done = match effect {
            Effect::RefMoved { after, before, reference, repository } => {
                move_ref(repository, reference, after, before.as_deref())
            }
            _ => root
                .map_err(Clone::clone)
                .and_then(|root| publish_one(root, source, effect, &temporary)),
        };
        publisher.settle(index, effect, done)?;
    }
    publisher.finish()
}

/// What became of one effect.
enum Done {
    Settled,
    /// The path holds something that is not ours to overwrite.
    NotOurs,
    /// Written beside its place, to be put there when it is on disk.
    Aside,
}

impl Done {
    fn settled_if(is_settled: bool) -> Self {
        if is_settled { Done::Settled } else { Done::NotOurs }
    }
}

struct Publisher<'p> {
    root: Result<&'p Root, &'p Failure>,
    execution: ExecutionId,
    patience: Patience,
    /// Where something comes to stand.
    made: HashSet<&'p str>,
    unsettled: Vec<String>,
    aside: Vec<(usize, &'p Effect)>,
}

impl<'p> Publisher<'p> {
    fn temporary(&self, index: usize) -> String {
        format!(".countersign-{}-{index}", self.execution)
    }

    fn settle(
        &mut self,
        index: usize,
        effect: &'p Effect,
        done: Result<Done, Failure>,
    ) -> Result<(), Failure> {
        // Where something else comes to stand, an earlier try may have put it there already. The
        // effect that puts it there is the one to tell.
        let deferred = effect.is_removal() && self.made.contains(effect.target());
        match done {
            Ok(Done::Settled) => return Ok(()),
            Ok(Done::NotOurs) if deferred => return Ok(()),
            Ok(Done::NotOurs) => {}
            Ok(Done::Aside) => {
                self.aside.push((index, effect));
                return Ok(());
            }
            Err(failure) if self.patience == Patience::Wait && !is_final(&failure) => {
                return Err(pending(&failure, self.execution));
            }
            Err(failure) => {
                let execution = self.execution;
                tracing::error!(%execution, target = effect.target(), %failure, "not published");
            }
        }
        if let (Ok(root), Ok(path), true) =
            (self.root, RelPath::parse(effect.target()), effect.is_file())
        {
            // A publisher that died may have left its half-written file beside it.
            root.discard(&path, &self.temporary(index));
        }
        self.unsettled.push(effect.target().to_owned());
        Ok(())
    }

    /// Changes share their syncs: contents first, so that a name never stands for less than all of
    /// its file, and then everything.
    fn finish(mut self) -> Result<Vec<String>, Failure> {
        let (Ok(root), execution) = (self.root, self.execution) else { return Ok(self.unsettled) };
        if !root.is_for_many() {
            return Ok(self.unsettled);
        }
        let sync = || root.sync_all().map_err(|failure| pending(&failure, execution));
        sync()?;
        for (index, effect) in std::mem::take(&mut self.aside) {
            let placed = RelPath::parse(effect.target())
                .and_then(|path| root.put_in_place(&path, &self.temporary(index)));
            self.settle(index, effect, placed.map(|()| Done::Settled))?;
        }
        sync()?;
        Ok(self.unsettled)
    }
}

fn publish_one(
    root: &Root,
    source: Source<'_>,
    effect: &Effect,
    temporary: &str,
) -> Result<Done, Failure> {
    let path = || RelPath::parse(effect.target());
    let settled = match effect {
        Effect::DirectoryChanged { before, after, .. } => {
            change_directory(root, &path()?, *before, *after)
        }
        Effect::DirectoryCreated { mode, .. } => make_directory(root, &path()?, *mode),
        Effect::DirectoryDeleted { .. } => match root.standing(&path()?)? {
            Standing::Nothing => Ok(true),
            Standing::Directory { .. } => root.remove_directory(&path()?),
            _ => Ok(false),
        },
        Effect::FileWritten { before, after, .. } => {
            return write_file(root, source, &path()?, (*before, *after), temporary);
        }
        Effect::FileDeleted { before, .. } => delete_file(root, &path()?, *before),
        Effect::LinkWritten { before, after, .. } => {
            write_link(root, &path()?, (before.as_deref(), after), temporary)
        }
        Effect::LinkDeleted { before, .. } => delete_link(root, &path()?, before),
        Effect::RefMoved { .. } | Effect::StatePut { .. } | Effect::StateDeleted { .. } => Ok(true),
    };
    settled.map(Done::settled_if)
}

/// Moves a branch from where it was to where it is to be, once. Whatever else it points to by now is
/// somebody else's work.
fn move_ref(
    repository: &str,
    reference: &str,
    after: &str,
    before: Option<&str>,
) -> Result<Done, Failure> {
    let mut leash = Leash::lasting(PATIENCE);
    let repository = Repository::open(&Program::find()?, Path::new(repository), &mut leash)?;
    let by =
        Signature { name: "Countersign".to_owned(), email: "countersign@localhost".to_owned() };
    let change = RefChange {
        name: reference,
        new: object(after)?,
        old: before.map(object).transpose()?,
        message: "countersign: publish a run",
        by: &by,
        time: SystemClock.now().as_millis().try_into().unwrap_or(0u64) / 1000,
    };
    Ok(match repository.update_ref(&change, &mut leash)?.outcome {
        RefOutcome::Updated | RefOutcome::AlreadyThere => Done::Settled,
        RefOutcome::Moved { .. } => Done::NotOurs,
    })
}

/// Every branch that is to be moved still points to where the call saw it.
pub(crate) fn check_refs(effects: &[Effect]) -> Result<(), Failure> {
    for effect in effects {
        let Effect::RefMoved { before, reference, repository, .. } = effect else { continue };
        let mut leash = Leash::lasting(PATIENCE);
        let repository = Repository::open(&Program::find()?, Path::new(repository), &mut leash)?;
        let now = repository.reference(reference, &mut leash)?.map(|id| id.to_string());
        if now != *before {
            let message = format!("`{reference}` was moved meanwhile");
            return Err(Failure::state("CONFLICT", message)
                .hint("nothing was published; look at what is there now, and try again"));
        }
    }
    Ok(())
}

/// `false`, here and below, if the path holds something that is not ours to overwrite.
fn change_directory(root: &Root, path: &RelPath, before: u32, after: u32) -> Result<bool, Failure> {
    match root.standing(path)? {
        Standing::Directory { mode } if mode == after => Ok(true),
        Standing::Directory { mode } if mode == before => root.set_mode(path, after),
        _ => Ok(false),
    }
}

fn make_directory(root: &Root, path: &RelPath, mode: Option<u32>) -> Result<bool, Failure> {
    match (root.standing(path)?, mode) {
        (Standing::Directory { mode: now }, Some(mode)) if now == mode => Ok(true),
        // Made by an earlier try that did not come to set its permissions.
        (Standing::Directory { .. }, Some(mode)) => root.set_mode(path, mode),
        _ => root.make_directory(path, mode),
    }
}

fn write_file(
    root: &Root,
    source: Source<'_>,
    path: &RelPath,
    (before, after): (Option<Image>, Image),
    temporary: &str,
) -> Result<Done, Failure> {
    let either: Vec<Image> = [Some(after), before].into_iter().flatten().collect();
    let ours = match root.holds_one(path, &either)? {
        Some(found) if found == after => return Ok(Done::Settled),
        Some(_) => true,
        None => before.is_none() && root.standing(path)? == Standing::Nothing,
    };
    if !ours {
        return Ok(Done::NotOurs);
    }
    let content = |file: &mut File| source.write(&after.digest, file);
    root.write_aside(path, after.mode, temporary, content)?;
    if root.is_for_many() {
        return Ok(Done::Aside);
    }
    root.put_in_place(path, temporary).map(|()| Done::Settled)
}

fn delete_file(root: &Root, path: &RelPath, before: Image) -> Result<bool, Failure> {
    match root.standing(path)? {
        Standing::Nothing => Ok(true),
        Standing::File if root.holds(path, before)? => root.remove(path).map(|()| true),
        _ => Ok(false),
    }
}

fn write_link(
    root: &Root,
    path: &RelPath,
    (before, after): (Option<&str>, &str),
    temporary: &str,
) -> Result<bool, Failure> {
    let ours = match root.standing(path)? {
        Standing::Link(target) if target == after.as_bytes() => return Ok(true),
        Standing::Link(target) => Some(target.as_slice()) == before.map(str::as_bytes),
        Standing::Nothing => before.is_none(),
        _ => false,
    };
    if ours {
        root.write_link(path, after, temporary)?;
    }
    Ok(ours)
}

fn delete_link(root: &Root, path: &RelPath, before: &str) -> Result<bool, Failure> {
    match root.standing(path)? {
        Standing::Nothing => Ok(true),
        Standing::Link(target) if target == before.as_bytes() => root.remove(path).map(|()| true),
        _ => Ok(false),
    }
}

/// Somebody put something else in the place: the change cannot be made there, now or later. Every
/// other failure may pass: a disk comes back, space is freed, a blob is restored.
fn is_final(failure: &Failure) -> bool {
    let others = [
        "FILE_NOT_FOUND",
        "NOT_A_DIRECTORY",
        "NOT_A_FILE",
        "PATH_HARD_LINK",
        "PATH_IN_HOME",
        "PATH_SYMLINK",
    ];
    others.contains(&failure.code.as_ref())
}

fn pending(failure: &Failure, execution: ExecutionId) -> Failure {
    let message = format!("the call is committed, but its changes are not all in place: {failure}");
    Failure::state("PUBLISH_PENDING", message).hint(format!(
        "mend the cause and run `countersign recover`; to leave it as it is: `countersign recover \
         --give-up {execution}`"
    ))
}

pub(crate) fn lost_root() -> Failure {
    Failure::state("ROOT_LOST", "the call's root is gone, or another directory has taken its place")
}
