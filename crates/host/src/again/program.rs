//! Programs that see nothing but their input: they run again in a box of their own.

use std::sync::Arc;

use countersign_model::digest::{Hasher, canonical_json};
use countersign_model::effect::Artifact;
use countersign_model::{Digest, Failure};
use countersign_sandbox::staging::{Bounds, OutFile, scan_out, walk};
use countersign_sandbox::{Ended, Job, Limits, Observer};
use serde_json::Value;

use crate::host::Host;
use crate::meter::{Cancel, cancelled};
use crate::pipeline::read_output;
use crate::program::ProgramTool;
use crate::registry::Tool;
use crate::tool::Rehearsed;

/// Ends the program when nobody wants its answer any more.
struct Watch<'a>(&'a Cancel);

impl Observer for Watch<'_> {
    fn tick(&mut self) -> Result<(), Failure> {
        if self.0.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }
}

impl Host {
    pub(super) fn rehearse_program(
        &self,
        tool: &Tool,
        program: &ProgramTool,
        input: &Value,
        cancel: &Cancel,
    ) -> Result<Rehearsed, Failure> {
        let backend = program.backend(&self.backends)?;
        program.files.check()?;
        let plan = Arc::new(backend.plan(&tool.spec(None, &self.home)?)?);
        let input =
            canonical_json(input).map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        let spill = self.home.staging();
        let job = Job { plan: Arc::clone(&plan), input, spill, gateway: None, warm: 0 };
        let ended = backend.run(job, &mut Watch(cancel))?;
        if let Some(failure) = ended.ending.failure(&plan.limits) {
            return Err(failure);
        }
        program.files.check()?;
        let output = read_output(&ended.stdout, &plan.limits)?;
        let artifacts = artifacts(&ended, &plan.limits)?;
        Ok(Rehearsed { output, artifacts, effects: Vec::new() })
    }
}

fn artifacts(ended: &Ended, limits: &Limits) -> Result<Vec<Artifact>, Failure> {
    let Some(out) = &ended.staged.out else { return Ok(Vec::new()) };
    let bounds = Bounds { entries: limits.inodes, original: 0, bytes: limits.total_size };
    let artifact = |file: OutFile| {
        let read = || -> std::io::Result<(Digest, u64)> {
            let content = walk::open_beneath(out, &file.name)?;
            let size = content.metadata()?.len();
            Ok((Hasher::of_all(content)?, size))
        };
        let (digest, size) = read().map_err(|error| {
            Failure::execution("STAGING_UNREADABLE", format!("/out cannot be read: {error}"))
        })?;
        Ok(Artifact { digest, media_type: None, name: file.name.clone(), size })
    };
    scan_out(out, &bounds)?.into_iter().map(artifact).collect()
}
