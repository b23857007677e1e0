//! Publishing committed effects. Idempotent: recovery runs it again after a crash.

use countersign_journal::Blobs;
use countersign_model::effect::Effect;
use countersign_model::{ExecutionId, Failure};

use crate::path::RelPath;
use crate::root::Root;

/// What to do about an effect that cannot be brought about now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Keep the call open and its paths claimed; recovery tries again.
    Wait,
    /// A human decided to leave things as they are.
    GiveUp,
}

/// Brings every effect about and returns the paths that had to be left alone, because they held
/// neither what was there before the call nor what the call wrote.
pub(crate) fn publish(
    root: Result<&Root, &Failure>,
    blobs: &Blobs,
    execution: ExecutionId,
    effects: &[Effect],
    patience: Patience,
) -> Result<Vec<String>, Failure> {
    let mut unsettled = Vec::new();
    for (index, effect) in effects.iter().enumerate() {
        if !effect.needs_publishing() {
            continue;
        }
        let temporary = format!(".countersign-{execution}-{index}");
        let settled = root
            .map_err(Clone::clone)
            .and_then(|root| publish_one(root, blobs, effect, &temporary));
        match settled {
            Ok(true) => continue,
            Ok(false) => {}
            Err(failure) if patience == Patience::Wait && !is_final(&failure) => {
                return Err(pending(&failure, execution));
            }
            Err(failure) => {
                tracing::error!(%execution, target = effect.target(), %failure, "not published");
            }
        }
        if let (Ok(root), Ok(path)) = (root, RelPath::parse(effect.target())) {
            // A publisher that died may have left its half-written file beside it.
            root.discard(&path, &temporary);
        }
        unsettled.push(effect.target().to_owned());
    }
    Ok(unsettled)
}

/// `false` if the path holds something that is not ours to overwrite.
fn publish_one(
    root: &Root,
    blobs: &Blobs,
    effect: &Effect,
    temporary: &str,
) -> Result<bool, Failure> {
    match effect {
        Effect::DirectoryCreated { path } => root.make_directory(&RelPath::parse(path)?),
        Effect::FileWritten { path, before, after } => {
            let path = RelPath::parse(path)?;
            if root.is_still(&path, Some(*after))? {
                return Ok(true);
            }
            if !root.is_still(&path, *before)? {
                return Ok(false);
            }
            root.replace(&path, &blobs.get(&after.digest)?, after.mode, temporary)?;
            Ok(true)
        }
        Effect::FileDeleted { path, before } => {
            let path = RelPath::parse(path)?;
            if root.is_still(&path, None)? {
                return Ok(true);
            }
            let ours = root.is_still(&path, Some(*before))?;
            if ours {
                root.remove(&path)?;
            }
            Ok(ours)
        }
        Effect::StatePut { .. } | Effect::StateDeleted { .. } => Ok(true),
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
