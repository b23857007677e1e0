//! Programs that a built-in tool runs, each in a box of its own over the call's workspace. What they
//! change there is dropped; what they leave in `/out` is kept for the tool to read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use countersign_model::digest::canonical_json;
use countersign_model::effect::Payload;
use countersign_model::{Failure, ResourceLimits, WorkspaceAccess};
use countersign_sandbox::staging::{Bounds, OutFile, scan_out, walk};
use countersign_sandbox::{
    Backend, Captured, Ended, Ending, Job, Limits, Observer, Plan, Spec, Staged, Stream,
};

use super::progress::News;
use super::{Progress, ToolContext};
use crate::backends::unavailable;
use crate::meter::Meter;

/// A program and what it may use.
#[derive(Debug, Clone)]
pub struct Command {
    pub argv: Vec<String>,
    /// Beneath the workspace; empty for its top.
    pub directory: String,
    pub environment: BTreeMap<String, String>,
    pub limits: ResourceLimits,
}

/// A program that ran.
#[derive(Debug)]
pub struct Ran {
    pub ending: Ending,
    pub stdout: Captured,
    pub stderr: Captured,
    pub wall_ms: u64,
    /// What was enforced, barrier by barrier.
    pub enforcement: BTreeMap<String, String>,
    /// Every set-up operation of the box, kept as a blob.
    pub plan: Payload,
    out: Vec<OutFile>,
    staged: Staged,
}

impl Ran {
    /// A file that the program left beneath `/out`.
    pub fn open_out(&self, name: &str) -> Result<Option<File>, Failure> {
        let known = self.out.iter().any(|file| file.name == name);
        let Some(out) = self.staged.out.as_ref().filter(|_| known) else { return Ok(None) };
        walk::open_beneath(out, name).map(Some).map_err(|error| {
            let message = format!("`{}` cannot be read: {error}", name.escape_debug());
            Failure::execution("STAGING_UNREADABLE", message)
        })
    }

    /// The same, all of it at once.
    pub fn read_out(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, Failure> {
        let Some(file) = self.open_out(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| Failure::execution("STAGING_UNREADABLE", error.to_string()))?;
        if bytes.len() as u64 > most {
            let message = format!("`{}` has more than {most} bytes", name.escape_debug());
            return Err(Failure::resource("REPORT_TOO_LARGE", message));
        }
        Ok(Some(bytes))
    }
}

/// Ends the program when the call ends, and passes on what it says.
struct Watch<'a> {
    meter: &'a Meter,
    progress: &'a Progress,
}

impl Observer for Watch<'_> {
    fn tick(&mut self) -> Result<(), Failure> {
        self.meter.check()
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.progress.tell(News::Output(stream, bytes));
    }
}

impl ToolContext {
    /// Runs a program over a private layer of the workspace. An ending that the program chose is no
    /// failure of the call; the end of the call's time or its cancellation is.
    pub fn run_program(&mut self, command: &Command) -> Result<Ran, Failure> {
        self.meter.check()?;
        let backend = self.process_backend()?;
        let plan = Arc::new(backend.plan(&self.spec(command)?)?);
        let bytes = canonical_json(&*plan)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        let kept = Payload::of(&bytes);
        self.place.services().made.put(&bytes)?;
        let job = Job {
            plan: Arc::clone(&plan),
            input: Vec::new(),
            spill: self.place.services().staging.clone(),
            gateway: None,
            warm: 0,
        };
        let mut watch = Watch { meter: &self.meter, progress: &self.caller.progress };
        let ended = backend.run(job, &mut watch)?;
        self.meter.note_program(&ended.usage);
        self.ran(&plan, kept, ended)
    }

    fn process_backend(&self) -> Result<Arc<dyn Backend>, Failure> {
        let process = self.place.services().backends.process.clone();
        process.ok_or_else(|| unavailable("the runtime `process`"))
    }

    fn spec(&self, command: &Command) -> Result<Spec, Failure> {
        let root = self.place.root()?;
        let services = self.place.services();
        let mut environment = services.actions.environment.clone();
        environment.extend(command.environment.clone());
        let directory = Some(command.directory.clone()).filter(|path| !path.is_empty());
        Ok(Spec {
            directory,
            environment,
            limits: Limits::declared(&command.limits),
            read_only: services.show.to_vec(),
            workspace: Some((root.location().to_owned(), WorkspaceAccess::Write)),
            ..Spec::of(command.argv.clone())
        })
    }

    fn ran(&self, plan: &Plan, kept: Payload, ended: Ended) -> Result<Ran, Failure> {
        if let Ending::Stopped { failure } = &ended.ending {
            return Err(failure.clone());
        }
        let bounds =
            Bounds { entries: plan.limits.inodes, original: 0, bytes: plan.limits.total_size };
        let staged = ended.staged;
        let out = staged.out.as_ref().map(|out| scan_out(out, &bounds)).transpose()?;
        Ok(Ran {
            ending: ended.ending,
            stdout: ended.stdout,
            stderr: ended.stderr,
            wall_ms: ended.wall_ms,
            enforcement: plan.enforcement.clone(),
            plan: kept,
            out: out.unwrap_or_default(),
            staged,
        })
    }
}
