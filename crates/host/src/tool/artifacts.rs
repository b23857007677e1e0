//! Named outputs of built-in tools, kept by their content as they are made.

use std::io::{Read, Write};

use countersign_model::effect::Artifact;
use countersign_model::{ArtifactId, ArtifactRecord, Digest, ExecutionId, Failure};

use super::ToolContext;
use crate::receipts;

const LONGEST_NAME: usize = 200;

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
        let mut batch = self.place.services().made.batch();
        let payload = batch.put(content)?;
        batch.finish()?;
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
    pub fn read_artifact(&mut self, record: &ArtifactRecord) -> Result<Vec<u8>, Failure> {
        self.meter.charge_memory(record.size)?;
        self.meter.note_read(record.size);
        self.place.artifact_bytes(record, record.size)
    }

    /// Whether the store holds exactly this content, by reading all of it.
    pub fn check_blob(&self, digest: &Digest, size: u64) -> Result<(), Failure> {
        let mut counted = Counted(0);
        self.copy_blob(digest, &mut counted)?;
        match counted.0 == size {
            true => Ok(()),
            false => {
                let message = format!("the content has {} bytes, not {size}", counted.0);
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
        let services = self.place.services();
        let made = services.made.holds(digest);
        let blobs = if made { &services.made } else { &services.blobs };
        Ok(blobs.copy_to(digest, target)?)
    }
}
