//! Where a call works, and what of the host a built-in tool may lean on.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_journal::{Blobs, NoteSigner, Store};
use countersign_model::scope::pattern_for;
use countersign_model::{ArtifactId, ArtifactRecord, Capability, Digest, Failure, Need};

use crate::backends::Backends;
use crate::config::ActionsConfig;
use crate::path::RelPath;
use crate::root::{Root, Standing};
use crate::work::WorkPlace;

/// What every call of a host shares.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) blobs: Blobs,
    /// Where what tools make goes; elsewhere only for a rehearsal.
    pub(crate) made: Blobs,
    /// Signs receipts.
    pub(crate) journal_key: NoteSigner,
    pub(crate) backends: Backends,
    pub(crate) staging: PathBuf,
    /// Paths of this machine that programs may read.
    pub(crate) show: Arc<[PathBuf]>,
    pub(crate) actions: Arc<ActionsConfig>,
}

/// The content of an artifact, and its digest.
type Read = (Digest, Arc<Vec<u8>>);

#[derive(Debug, Clone)]
pub struct Place {
    root: Option<Arc<Root>>,
    work: Option<Arc<WorkPlace>>,
    services: Services,
    /// The artifact that was read last: what a footprint rests on is what the tool works with.
    read: Arc<Mutex<Option<Read>>>,
}

impl Place {
    pub(crate) fn new(
        root: Option<Arc<Root>>,
        work: Option<Arc<WorkPlace>>,
        services: Services,
    ) -> Self {
        Place { root, work, services, read: Arc::default() }
    }

    /// The path as grants name it.
    pub fn resource(&self, path: &RelPath) -> Result<String, Failure> {
        Ok(self.root()?.resource(path))
    }

    /// A need of everything beneath the root.
    pub fn need_of_all(&self, capability: Capability) -> Result<Need, Failure> {
        let root = self.root()?.path().trim_end_matches('/').to_owned();
        Ok(Need::every(capability, format!("{}/**", pattern_for(&root))))
    }

    /// The run that the call belongs to.
    pub fn work(&self) -> Result<&WorkPlace, Failure> {
        self.work.as_deref().ok_or_else(|| {
            Failure::validation("WORKSPACE_REQUIRED", "this works on a registered workspace")
                .hint("run it with `countersign action run NAME --workspace ID`")
        })
    }

    pub fn actions(&self) -> &ActionsConfig {
        &self.services.actions
    }

    /// An artifact that is there and whose content was not let go of.
    pub fn artifact(&self, id: &ArtifactId) -> Result<ArtifactRecord, Failure> {
        present(self.services.store.artifact(id)?, id.as_str())
    }

    /// Its content, checked against its digest.
    pub fn artifact_bytes(
        &self,
        record: &ArtifactRecord,
        most: u64,
    ) -> Result<Arc<Vec<u8>>, Failure> {
        if record.size > most {
            let message = format!("`{}` has {} bytes, more than {most}", record.name, record.size);
            return Err(Failure::resource("ARTIFACT_TOO_LARGE", message));
        }
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = last.as_ref().filter(|(digest, _)| *digest == record.digest) {
            return Ok(Arc::clone(bytes));
        }
        let bytes = Arc::new(self.services.blobs.get(&record.digest)?);
        *last = Some((record.digest, Arc::clone(&bytes)));
        Ok(bytes)
    }

    /// Whether a symbolic link stands at a path.
    pub fn is_link(&self, path: &RelPath) -> Result<bool, Failure> {
        Ok(matches!(self.root()?.standing(path)?, Standing::Link(_)))
    }

    pub(crate) fn root(&self) -> Result<&Arc<Root>, Failure> {
        self.root.as_ref().ok_or_else(|| {
            Failure::validation("ROOT_REQUIRED", "this tool works on files and needs a root")
                .hint("name the directory it may work beneath, such as --root ./project")
        })
    }

    pub(crate) fn shared_root(&self) -> Option<&Arc<Root>> {
        self.root.as_ref()
    }

    pub(crate) fn shared_work(&self) -> Option<&Arc<WorkPlace>> {
        self.work.as_ref()
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }
}

/// An artifact that can be used, or why it cannot.
pub(crate) fn present(
    found: Option<ArtifactRecord>,
    named: &str,
) -> Result<ArtifactRecord, Failure> {
    let named = named.escape_debug();
    let Some(record) = found else {
        return Err(Failure::validation(
            "ARTIFACT_UNKNOWN",
            format!("there is no artifact `{named}`"),
        )
        .hint("list them with `countersign artifact list`"));
    };
    match record.collected_at {
        None => Ok(record),
        Some(at) => {
            let message = format!("the content of `{named}` was let go of at {at}");
            Err(Failure::state("ARTIFACT_COLLECTED", message)
                .hint("run the action that made it again"))
        }
    }
}
