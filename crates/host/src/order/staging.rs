//! The files that an order reads: kept by digest when people are asked, laid out anew for each run
//! from bytes that were just checked.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use countersign_model::{ExecutionId, Failure};

use super::{Order, OrderInput, Standing};
use crate::host::Host;

/// How the directories are called that hold such files while they are needed.
const PREFIX: &str = "in-";

/// Removed when nobody needs it any more.
#[derive(Debug)]
pub(crate) struct StagedInputs(PathBuf);

impl StagedInputs {
    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }
}

impl Drop for StagedInputs {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// What cannot be removed now is removed by the next recovery.
fn remove(directory: &Path) {
    let _ = fs::set_permissions(directory, Permissions::from_mode(0o700));
    let _ = fs::remove_dir_all(directory);
}

impl Host {
    /// Takes in a file that orders may name by its digest. Answers with what was taken.
    pub fn take_input(&self, name: &str, mut content: impl Read) -> Result<OrderInput, Failure> {
        let mut batch = self.home.blobs.batch();
        let payload = batch.put(&mut content)?;
        batch.finish()?;
        Ok(OrderInput { name: name.to_owned(), sha256: payload.digest, size: payload.size })
    }

    pub(crate) fn stage_inputs(
        &self,
        order: &Order,
        execution: ExecutionId,
    ) -> Result<StagedInputs, Failure> {
        // A name of its own: another process may be about to run the same order, and only one will.
        let name = format!("{PREFIX}{execution}.{}", self.clock.new_id());
        let directory = self.home.staging().join(name);
        let failed = |error: io::Error| {
            let message = format!("the inputs cannot be laid out: {error}");
            Failure::resource("INPUTS_UNSTAGED", message).hint("free some space, and try again")
        };
        DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        // From here on, whatever happens, it is removed.
        let staged = StagedInputs(directory);
        for input in &order.inputs {
            let mut file = create(&staged.0.join(&input.name)).map_err(failed)?;
            self.home.blobs.copy_to(&input.sha256, &mut file)?;
        }
        fs::set_permissions(&staged.0, Permissions::from_mode(0o555)).map_err(failed)?;
        Ok(staged)
    }

    /// Removes what processes left behind that ended in the middle of a run.
    pub(crate) fn sweep_inputs(&self) -> Result<(), Failure> {
        let Ok(entries) = fs::read_dir(self.home.staging()) else { return Ok(()) };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('.').next());
            let Some(execution) = id.and_then(|id| id.parse::<ExecutionId>().ok()) else {
                continue;
            };
            let call = self.home.store.call(execution)?;
            if call.is_none_or(|call| Standing::of(&call).is_over()) {
                remove(&entry.path());
            }
        }
        Ok(())
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)
}
