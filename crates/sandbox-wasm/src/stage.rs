//! The directories of one call: filled before the guest starts, handed over when it has ended.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use countersign_model::Failure;
use countersign_model::event::Usage;
use countersign_sandbox::backend::{Staged, StagedForm, StagedWorkspace};
use countersign_sandbox::{Cleanup, Ending, Job, Plan, SetupOp};
use rustix::fs::{Mode, OFlags};

use crate::scratch::{Borrowed, Scratch, ScratchRoot};
use crate::tree::{self, TreeError};
use crate::watch::measure;

/// Scratch roots, by the place they are in.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<PathBuf, Arc<ScratchRoot>>>);

impl Places {
    /// Writable directories beneath the job's own place, the workspace already in them.
    pub(crate) fn prepare(&self, job: &Job) -> Result<Option<Borrowed>, Failure> {
        let writes = |op: &SetupOp| matches!(op, SetupOp::Writable { .. } | SetupOp::Copy { .. });
        if !job.plan.sandbox.iter().any(writes) {
            return Ok(None);
        }
        let copied = job.plan.sandbox.iter().find_map(|op| match op {
            SetupOp::Copy { source, .. } => Some(source),
            _ => None,
        });
        let root = self.root(&job.spill).map_err(unusable)?;
        let borrowed = Borrowed::new(root, copied.is_some()).map_err(unusable)?;
        if let (Some(source), Some(scratch)) = (copied, borrowed.get()) {
            copy_workspace(source, scratch, &job.plan)?;
        }
        Ok(Some(borrowed))
    }

    fn root(&self, place: &Path) -> io::Result<Arc<ScratchRoot>> {
        let mut roots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = roots.get(place) {
            return Ok(Arc::clone(root));
        }
        let root = Arc::new(ScratchRoot::make(place)?);
        roots.insert(place.to_owned(), Arc::clone(&root));
        Ok(root)
    }
}

fn copy_workspace(source: &str, scratch: &Scratch, plan: &Plan) -> Result<(), Failure> {
    let Some(target) = &scratch.workspace else { return Ok(()) };
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let source = rustix::fs::open(source, flags, Mode::empty());
    let source = source.map_err(|error| unusable(error.into()))?;
    match tree::copy(source.as_fd(), target.as_fd(), &plan.limits) {
        Ok(_) => Ok(()),
        Err(TreeError::Limit(limit)) => Err(plan.limits.reached(limit)),
        Err(TreeError::Io(error)) => Err(unusable(error)),
        Err(TreeError::Kind(name)) => {
            let message =
                format!("the workspace has `{name}`, which is neither file, directory nor link");
            Err(Failure::validation("WORKSPACE_UNSUPPORTED", message))
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to `map_err`")]
fn unusable(error: io::Error) -> Failure {
    let message = format!("the tool's files cannot be prepared: {error}");
    Failure::resource("SCRATCH_UNAVAILABLE", message)
}

/// Hands over what was written. The last files count as well: they may be the ones too many.
pub(crate) fn finish(
    ending: Ending,
    borrowed: Option<Borrowed>,
    plan: &Plan,
    usage: &mut Usage,
) -> (Ending, Staged) {
    let Some(borrowed) = borrowed else { return (ending, Staged::default()) };
    let Some(scratch) = borrowed.get() else { return (ending, Staged::default()) };
    if scratch.is_clean() {
        borrowed.give_back_clean();
        return (ending, Staged::default());
    }
    let ending = match (measure(scratch, &plan.limits), ending) {
        (Ok(size), ending) => {
            usage.bytes_written = size.bytes;
            ending
        }
        (Err(limit), Ending::Exited { .. }) => limit,
        (Err(_), ending) => ending,
    };
    match hand_over(scratch) {
        Ok(staged) => (ending, Staged { cleanup: Cleanup::new(move || drop(borrowed)), ..staged }),
        Err(error) => (Ending::Stopped { failure: unusable(error) }, Staged::default()),
    }
}

fn hand_over(scratch: &Scratch) -> io::Result<Staged> {
    let form = StagedForm::Whole;
    let workspace = scratch.workspace.as_ref().map(OwnedFd::try_clone).transpose()?;
    Ok(Staged {
        out: Some(scratch.out.try_clone()?),
        workspace: workspace.map(|directory| StagedWorkspace { directory, form }),
        cleanup: Cleanup::default(),
    })
}
