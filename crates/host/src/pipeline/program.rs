//! Running a program: in a sandbox, watched from outside, and judged by what it leaves.

use std::io::{Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use countersign_model::digest::canonical_json;
use countersign_model::effect::Payload;
use countersign_model::event::Usage;
use countersign_model::json::{JsonLimits, parse_strict};
use countersign_model::{Authorization, Failure, WorkspaceAccess};
use countersign_sandbox::staging::walk::Entry;
use countersign_sandbox::staging::{Bounds, Change, OutFile, scan_out, scan_workspace};
use countersign_sandbox::{
    Backend, Captured, Ended, Ending, Gateway, Job, Limits, Observer, Plan, Spec, Staged,
};
use serde_json::{Value, json};

use super::declare::Asked;
use super::execute::{Executed, Open, WATCH_INTERVAL, Work};
use super::{Call, Halt, Step};
use crate::backends::unavailable;
use crate::inert::{beginning, tail};
use crate::meter::cancelled;
use crate::order::{self, StagedInputs};
use crate::path::RelPath;
use crate::program::ProgramTool;
use crate::publish::lost_root;
use crate::refusal::forbidden_by_mode;
use crate::registry::Implementation;
use crate::root::{Root, control};
use crate::workers::panic_text;

/// Output nests no deeper than input may.
const OUTPUT_DEPTH: usize = 64;

/// A sandbox that is planned and not yet made.
#[derive(Debug, Clone)]
pub(super) struct Sandbox {
    pub(super) plan: Arc<Plan>,
    pub(super) backend: Arc<dyn Backend>,
    gateway: Option<Arc<dyn Gateway>>,
    warm: u32,
    /// Kept as long as the program may read them.
    _inputs: Option<Arc<StagedInputs>>,
}

/// What a program left: its staging, and what was found in it.
#[derive(Debug)]
pub(super) struct ProgramWork {
    pub(super) staged: Staged,
    pub(super) changes: Vec<Change>,
    pub(super) out: Vec<OutFile>,
}

/// The eye that is kept on a running program. Its deadline is the backend's own affair.
struct Watch<'a, 'h> {
    call: &'a Call<'h>,
    authorization: &'a Authorization,
    next: Instant,
}

impl Observer for Watch<'_, '_> {
    fn tick(&mut self) -> Result<(), Failure> {
        if self.call.given.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        self.next = now + WATCH_INTERVAL;
        self.call.check_grants(self.authorization)
    }
}

impl<'h> Call<'h> {
    /// Plans the sandbox of a program whose files are still the ones that were pinned.
    pub(super) fn prepare_sandbox(
        &self,
        program: &ProgramTool,
        asked: &Asked,
    ) -> Result<Sandbox, Failure> {
        let backend = program.backend(&self.host.backends)?;
        program.files.check()?;
        let root = asked.place.shared_root().map(|root| &**root);
        let root = root.filter(|_| asked.footprint.workspace.is_some());
        let spec = match root {
            Some(root) if !root.is_in_place() => return Err(lost_root()),
            Some(root) => self.tool.spec_beneath(root, &self.host.home)?,
            None => self.tool.spec(None, &self.host.home)?,
        };
        let gateway = match spec.hosts.is_empty() {
            true => None,
            false => {
                let gateway = self.host.backends.gateway.clone();
                Some(gateway.ok_or_else(|| unavailable("the egress proxy"))?)
            }
        };
        let inputs = match &program.order {
            Some(order) => {
                Some(Arc::new(self.host.stage_inputs(order, self.recorder.execution())?))
            }
            None => None,
        };
        let inputs_at = inputs.as_ref().map(|inputs| inputs.directory().to_owned());
        let plan = Arc::new(backend.plan(&Spec { inputs: inputs_at, ..spec })?);
        Ok(Sandbox { plan, backend, gateway, warm: program.warm(), _inputs: inputs })
    }

    pub(super) fn run_program(
        mut self,
        mut open: Open,
        sandbox: &Sandbox,
    ) -> Step<'h, Executed<'h>> {
        // A program can have effects of its own, so the fact that it runs comes first.
        if let Err(stopped) = self.record_running(&open.authorization) {
            return Err(self.stop(open, stopped));
        }
        let mut ended = match self.run_in(sandbox, &open) {
            Ok(ended) => ended,
            Err(failure) => return Err(self.abort(open, failure)),
        };
        open.usage = Usage { wall_ms: ended.wall_ms, ..ended.usage };
        open.trace.connections = std::mem::take(&mut ended.connections);
        open.trace.stderr = match self.keep_stream(&mut ended.stderr) {
            Ok(kept) => kept,
            Err(failure) => return Err(self.roll_back(open, failure)),
        };
        if self.tool.order().is_some() {
            open.trace.stdout = match self.keep_stream(&mut ended.stdout) {
                Ok(kept) => kept,
                Err(failure) => return Err(self.roll_back(open, failure)),
            };
        }
        match self.judge(&open, &sandbox.plan.limits, &mut ended) {
            Ok((output, work)) => {
                let work = Work::Program(Box::new(work));
                Ok(Executed { call: self, open, output, work })
            }
            Err(failure) => Err(self.fail(open, ended, failure)),
        }
    }

    /// A command reads nothing; a tool reads its input.
    fn standard_input(&self, open: &Open) -> Result<Vec<u8>, Failure> {
        match self.tool.order() {
            Some(_) => Ok(Vec::new()),
            None => canonical_json(&open.asked.input)
                .map_err(|error| Failure::state("INTERNAL", error.to_string())),
        }
    }

    fn run_in(&self, sandbox: &Sandbox, open: &Open) -> Result<Ended, Failure> {
        let input = self.standard_input(open)?;
        let job = Job {
            plan: Arc::clone(&sandbox.plan),
            input,
            spill: self.host.home.staging(),
            gateway: sandbox.gateway.clone(),
            warm: sandbox.warm,
        };
        let mut watch =
            Watch { call: self, authorization: &open.authorization, next: Instant::now() };
        catch_unwind(AssertUnwindSafe(|| sandbox.backend.run(job, &mut watch)))
            .unwrap_or_else(|cause| Err(self.panicked(&panic_text(&*cause).0)))
    }

    /// The output and the changes of a program that did what it should.
    fn judge(
        &self,
        open: &Open,
        limits: &Limits,
        ended: &mut Ended,
    ) -> Result<(Value, ProgramWork), Failure> {
        if let Some(failure) = ended.ending.failure(limits) {
            return Err(failure);
        }
        // Whoever changed the files while it ran has had other code run than was pinned.
        if let Implementation::Program(program) = &self.tool.implementation {
            program.files.check()?;
        }
        let output = match self.tool.order() {
            Some(_) => order::output(ended),
            None => read_output(&ended.stdout, limits)?,
        };
        let staged = std::mem::take(&mut ended.staged);
        let bounds = bounds(open, limits);
        let changes = match (open.asked.footprint.workspace, &staged.workspace) {
            (Some(WorkspaceAccess::Write), Some(workspace)) => {
                let manifest = open.snapshot.workspace.as_ref();
                let original = open.asked.place.root()?.directory();
                let mut same = |path: &str, entry: Option<&Entry>| match manifest {
                    Some(manifest) => manifest.check(&RelPath::parse(path)?, entry),
                    None => Ok(()),
                };
                let changes = scan_workspace(workspace, original, &bounds, &mut same)?;
                self.check_mode(open.asked.place.root()?, &changes)?;
                changes
            }
            (Some(WorkspaceAccess::Write), None) => {
                return Err(Failure::state("STAGING_LOST", "what the tool wrote was lost"));
            }
            _ => Vec::new(),
        };
        let out = staged.out.as_ref().map(|out| scan_out(out, &bounds)).transpose()?;
        let out = out.unwrap_or_default();
        if let Some(order) = self.tool.order() {
            order.check_outputs(out.iter().map(|file| file.name.as_str()))?;
        }
        Ok((output, ProgramWork { staged, changes, out }))
    }

    /// Whatever a program did to its copy, what the mode protects is not published.
    fn check_mode(&self, root: &Root, changes: &[Change]) -> Result<(), Failure> {
        let mode = self.circumstances.mode;
        let paths = changes.iter().map(|change| change.path().to_owned());
        control::forbidden(mode, root, paths)
            .map_or(Ok(()), |path| Err(forbidden_by_mode(mode, &path)))
    }

    /// Ends an attempt whose program failed, with what it said last. Limits and the host's own
    /// decisions abort a call; a program's own failure does not.
    fn fail(mut self, mut open: Open, mut ended: Ended, failure: Failure) -> Box<Halt<'h>> {
        if open.trace.stdout.is_none() {
            open.trace.stdout = match self.keep_stream(&mut ended.stdout) {
                Ok(kept) => kept,
                Err(failure) => return self.roll_back(open, failure),
            };
        }
        let said = tail(&mut ended.stderr);
        let failure = match said {
            // What a command said is told by its result, which withholds what must not be told.
            Some(said) if self.tool.order().is_none() => {
                with_detail(failure, "stderr", json!(said))
            }
            _ => failure,
        };
        match ended.ending {
            Ending::Limit { .. } | Ending::Stopped { .. } => self.abort(open, failure),
            Ending::Exited { .. } | Ending::Signalled { .. } => self.roll_back(open, failure),
        }
    }

    /// Keeps what a program said, beside the facts or as a blob.
    fn keep_stream(&mut self, said: &mut Captured) -> Result<Option<Payload>, Failure> {
        if said.total == 0 {
            return Ok(None);
        }
        if let Some(spill) = &mut said.spill {
            let failed = |error: std::io::Error| {
                Failure::state("INTERNAL", format!("the output was lost: {error}"))
            };
            spill.seek(SeekFrom::Start(0)).map_err(failed)?;
            let mut batch = self.host.home.blobs.batch();
            let payload = batch.put(spill)?;
            batch.finish()?;
            return Ok(Some(payload));
        }
        let payload = Payload::of(&said.inline);
        self.host.home.keep(&mut self.recorder, payload, said.inline.clone())?;
        Ok(Some(payload))
    }
}

fn bounds(open: &Open, limits: &Limits) -> Bounds {
    let original = open.snapshot.workspace.as_ref().map_or(0, |manifest| manifest.len());
    // Where staging is a copy, everything that was there before is in it as well. What others add
    // meanwhile makes a conflict, not a refusal.
    let original = original.saturating_mul(2).saturating_add(10_000);
    Bounds { entries: limits.inodes.saturating_add(original), original, bytes: limits.total_size }
}

/// Standard output is one JSON value.
pub(crate) fn read_output(stdout: &Captured, limits: &Limits) -> Result<Value, Failure> {
    if stdout.is_cut() {
        let message = format!(
            "the tool's output has {} bytes, more than {}",
            stdout.total, limits.inline_output
        );
        return Err(Failure::resource("OUTPUT_TOO_LARGE", message)
            .hint("write large results into files beneath /out and name them in the output"));
    }
    if stdout.total == 0 {
        return Err(invalid("the tool wrote nothing to its standard output".to_owned()));
    }
    let max_bytes = usize::try_from(limits.inline_output).unwrap_or(usize::MAX);
    let limits = JsonLimits { max_bytes, max_depth: OUTPUT_DEPTH };
    parse_strict(&stdout.inline, &limits).map_err(|failure| {
        let why = failure.message.replacen("the input", "the output", 1);
        invalid(format!(
            "the tool's output cannot be used: {why}; it begins with `{}`",
            beginning(&stdout.inline)
        ))
    })
}

/// Details that are an object get one more field.
fn with_detail(mut failure: Failure, name: &str, value: Value) -> Failure {
    match &mut failure.details {
        None => failure.details(json!({ name: value })),
        Some(Value::Object(details)) => {
            details.insert(name.to_owned(), value);
            failure
        }
        Some(_) => failure,
    }
}

fn invalid(message: String) -> Failure {
    Failure::validation("OUTPUT_INVALID", message).hint(
        "a tool writes exactly one JSON value to standard output and all else to standard error",
    )
}
