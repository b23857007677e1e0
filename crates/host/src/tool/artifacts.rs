//! Named outputs of built-in tools, kept by their content as they are made.

use std::io::{Read, Write};
use std::sync::Arc;

use countersign_journal::Blobs;
use countersign_model::effect::{Artifact, Payload};
use countersign_model::{ArtifactId, ArtifactRecord, Digest, ExecutionId, Failure};

use super::{Staged, ToolContext};
use crate::receipts;

const LONGEST_NAME: usize = 200;

/// Contents up to this size wait in memory for the commit, where they share its syncs, as long as
/// they are not too many.
const SMALL: usize = 4 << 20;
const MOST_WAITING: usize = 16 << 20;

/// Counts what is written to it.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ToolContext {
    /// Keeps an output. Only the commit makes it an artifact: before, nothing names it.
    pub fn make_artifact(
        &mut self,
        name: &str,
        media_type: &str,
        content: &mut impl Read,
    ) -> Result<Artifact, Failure> {
        self.meter.check()?;
        self.check_artifact_name(name)?;
        let payload = self.keep_output(content)?;
        self.meter.note_written(payload.size);
        let artifact = Artifact {
            digest: payload.digest,
            media_type: Some(media_type.to_owned()),
            name: name.to_owned(),
            size: payload.size,
        };
        self.staged.artifacts.push(artifact.clone());
        Ok(artifact)
    }

    fn keep_output(&mut self, content: &mut impl Read) -> Result<Payload, Failure> {
        let mut start = Vec::new();
        let read = content.by_ref().take(SMALL as u64 + 1).read_to_end(&mut start);
        read.map_err(|error| Failure::execution("IO_ERROR", error.to_string()))?;
        let waiting: usize = self.staged.contents.iter().map(|(_, bytes)| bytes.len()).sum();
        if start.len() <= SMALL && waiting + start.len() <= MOST_WAITING {
            let payload = Payload::of(&start);
            self.staged.contents.push((payload.digest, start));
            return Ok(payload);
        }
        let mut batch = self.place.services().made.batch();
        let payload = batch.put(&mut start.as_slice().chain(content))?;
        batch.finish()?;
        Ok(payload)
    }

    /// Takes a content that is in the store already.
    pub fn adopt_artifact(&mut self, artifact: Artifact) -> Result<ArtifactId, Failure> {
        self.check_artifact_name(&artifact.name)?;
        let id = self.artifact_id(&artifact.name);
        self.staged.artifacts.push(artifact);
        Ok(id)
    }

    pub fn artifact_id(&self, name: &str) -> ArtifactId {
        ArtifactId::of(self.caller.execution, name)
    }

    fn check_artifact_name(&self, name: &str) -> Result<(), Failure> {
        let plain = !name.is_empty()
            && name.len() <= LONGEST_NAME
            && !name.chars().any(char::is_control)
            && !ArtifactId::is_meant(name);
        if !plain {
            let message = format!("`{}` cannot name an artifact", name.escape_debug());
            return Err(Failure::validation("ARTIFACT_NAME_INVALID", message)
                .hint("use up to 200 printable characters, and nothing that looks like an id"));
        }
        if self.staged.artifacts.iter().any(|made| made.name == name) {
            let message = format!("the call has made `{name}` already");
            return Err(Failure::validation("ARTIFACT_EXISTS", message));
        }
        Ok(())
    }

    /// The content of an artifact, charged to the call.
    pub fn read_artifact(&mut self, record: &ArtifactRecord) -> Result<Arc<Vec<u8>>, Failure> {
        self.meter.charge_memory(record.size)?;
        self.meter.note_read(record.size);
        self.place.artifact_bytes(record, record.size)
    }

    /// Whether the store holds exactly this content: by reading all of it, unless this process wrote
    /// it a moment ago and the kernel says that nobody has touched it since.
    pub fn check_blob(&self, digest: &Digest, size: u64) -> Result<(), Failure> {
        let found = match self.place.services().blobs.size_as_written(digest) {
            Some(found) => found,
            None => {
                let mut counted = Counted(0);
                self.copy_blob(digest, &mut counted)?;
                counted.0
            }
        };
        match found == size {
            true => Ok(()),
            false => {
                let message = format!("the content has {found} bytes, not {size}");
                Err(Failure::validation("SIZE_MISMATCH", message))
            }
        }
    }

    /// What proves an earlier call to an outsider, without what it was given and gave back. The
    /// second value is the key that it is verified with.
    pub fn receipt(&self, execution: ExecutionId) -> Result<(Vec<u8>, String), Failure> {
        let services = self.place.services();
        let key = &services.journal_key;
        let made = receipts::of(&*services.store, &services.blobs, key, execution)?;
        Ok((made, key.verifier().to_string()))
    }

    /// Writes a content of the store elsewhere without holding it; checked as it goes.
    pub fn copy_blob(&self, digest: &Digest, target: &mut dyn Write) -> Result<(), Failure> {
        self.meter.check()?;
        if let Some((_, bytes)) = self.staged.contents.iter().find(|(of, _)| of == digest) {
            let written = target.write_all(bytes);
            return written.map_err(|error| Failure::execution("IO_ERROR", error.to_string()));
        }
        let services = self.place.services();
        let made = services.made.holds(digest);
        let blobs = if made { &services.made } else { &services.blobs };
        Ok(blobs.copy_to(digest, target)?)
    }
}

impl Staged {
    /// Keeps what waits in memory.
    pub(crate) fn keep_outputs(&self, blobs: &Blobs) -> Result<(), Failure> {
        let mut batch = blobs.batch();
        self.contents.iter().try_for_each(|(digest, bytes)| batch.put_known(*digest, bytes))?;
        Ok(batch.finish()?)
    }
}
