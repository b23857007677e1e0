//! EXECUTING: a transaction is open and the tool works inside it.

use std::sync::Arc;
use std::time::Duration;

use countersign_journal::{AppendError, Batch, Conflict, Expect};
use countersign_model::digest::canonical_json;
use countersign_model::effect::Payload;
use countersign_model::event::{self, CallEvent, Connection, Enforcement, Usage};
use countersign_model::{Authorization, Failure, TransactionId, WorkspaceAccess};
use countersign_sandbox::plan::Network;
use countersign_sandbox::{Backend, Plan, Spec};
use serde_json::Value;

use super::declare::Asked;
use super::program::{ProgramWork, Sandbox};
use super::repeat::{Past, runs_already};
use super::wait::Agreed;
use super::{Authorized, Call, Step};
use crate::approvals::void;
use crate::backends::unavailable;
use crate::meter::{cancelled, max_file_size};
use crate::registry::Implementation;
use crate::snapshot::Snapshot;
use crate::tool::{Footprint, NativeTool, Repeats, Staged};

/// How often a running call looks whether it was cancelled or its grants were revoked.
pub(super) const WATCH_INTERVAL: Duration = Duration::from_millis(25);

/// A transaction is open; nothing has run yet.
#[derive(Debug)]
pub struct Executing<'h> {
    pub(super) call: Call<'h>,
    pub(super) open: Open,
    means: Means,
}

/// What will do the work.
#[derive(Debug)]
enum Means {
    /// With the plan of the boxes that it makes, if it runs programs.
    Native(Arc<dyn NativeTool>, Option<Box<Boxes>>),
    Program(Sandbox),
}

/// What holds the programs of a built-in tool, whatever they are.
#[derive(Debug)]
struct Boxes {
    plan: Plan,
    backend: String,
}

/// An open transaction: everything that commit and rollback need.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) approval: Option<Arc<Agreed>>,
    pub(super) asked: Arc<Asked>,
    pub(super) attempt: u32,
    pub(super) authorization: Authorization,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) usage: Usage,
    pub(super) trace: Trace,
}

/// What a program left in the world beside its changes, whether it succeeded or not.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) connections: Vec<Connection>,
    pub(super) stdout: Option<Payload>,
    pub(super) stderr: Option<Payload>,
}

impl Trace {
    /// Somebody outside may have acted on what was sent.
    pub(super) fn reached_out(&self) -> bool {
        self.connections.iter().any(|made| made.sent > 0)
    }
}

/// The tool has returned; its changes are staged.
#[derive(Debug)]
pub struct Executed<'h> {
    pub(super) call: Call<'h>,
    pub(super) open: Open,
    pub(super) output: Value,
    pub(super) work: Work,
}

/// Changes that nobody else can see yet.
#[derive(Debug)]
pub(super) enum Work {
    Native(Staged),
    Program(Box<ProgramWork>),
}

/// Why the host stopped waiting for a tool.
pub(super) enum Stopped {
    /// The tool itself failed: its state is rolled back.
    Failed(Failure),
    /// The host ended it: ABORTED, then rolled back.
    Aborted(Failure),
    /// The journal failed.
    Broken(AppendError),
}

impl<'h> Authorized<'h> {
    /// Opens the transaction: takes the state that a rollback must restore.
    pub fn begin(self) -> Step<'h, Executing<'h>> {
        let Authorized { mut call, asked, attempt, approval, authorization } = self;
        let key = call.key_of(&asked);
        let past = key.map(|key| call.look_back(key)).transpose()?.flatten();
        let prepared = match past {
            Some(Past::Done(earlier)) => return Err(call.give(*earlier)),
            Some(Past::InTheWay(failure)) => Err(failure),
            None => call.prepare(&asked, approval.as_deref()),
        };
        let (snapshot, means) = match prepared {
            Ok((snapshot, means)) => (snapshot, Ok(means)),
            Err(failure) => (Snapshot::default(), Err(failure)),
        };
        let (snapshot, usage, trace) = (Arc::new(snapshot), Usage::default(), Trace::default());
        let open = Open { approval, asked, attempt, authorization, snapshot, usage, trace };
        let started = means.and_then(|means| Ok((call.keep_plan(&means)?, means)));
        let (plan, means) = match started {
            Ok(started) => started,
            // Nothing began, so there is nothing to undo: AUTHORIZED to ABORTED to ROLLED_BACK.
            Err(failure) => return Err(call.abort(open, failure)),
        };
        let host = call.host.announce().map_err(|error| call.broken(error.into()))?;
        call.unbegun = Some(call.recorder.mark()).filter(|_| means.repeats() == Repeats::Once);
        call.note(CallEvent::Started(event::Started {
            attempt,
            backend: means.backend(),
            transaction: TransactionId::from_uuid(call.host.clock.new_id()),
            host,
            hosts: means.hosts(&open.asked.input),
            key,
            once: means.repeats() == Repeats::Once,
            plan,
            limits: call.tool.declaration.resource_limits,
            enforcement: means.enforcement(&open.asked.footprint),
            writes: open.snapshot.write_set(),
            before: open.snapshot.digest(),
        }))?;
        call.host.enter(call.recorder.execution());
        Ok(Executing { call, open, means })
    }
}

impl Means {
    fn enforcement(&self, footprint: &Footprint) -> Enforcement {
        match self {
            Means::Native(native, boxes) => {
                native_enforcement(&**native, boxes.as_deref(), footprint)
            }
            Means::Program(sandbox) => sandbox_enforcement(sandbox, footprint),
        }
    }

    /// What will run a program, as `name/version`.
    fn backend(&self) -> Option<String> {
        match self {
            Means::Native(_, boxes) => boxes.as_ref().map(|boxes| boxes.backend.clone()),
            Means::Program(sandbox) => Some(named(&*sandbox.backend)),
        }
    }

    /// What a program can reach, through the proxy.
    fn hosts(&self, input: &Value) -> Vec<String> {
        match self {
            Means::Program(Sandbox { plan, .. }) => match &plan.network {
                Network::None => Vec::new(),
                Network::Proxy { hosts } => hosts.clone(),
            },
            Means::Native(native, _) => native.hosts(input),
        }
    }

    fn repeats(&self) -> Repeats {
        match self {
            Means::Native(native, _) => native.repeats(),
            Means::Program(_) => Repeats::Always,
        }
    }
}

/// What really holds a native tool to its limits.
fn native_enforcement(
    native: &dyn NativeTool,
    boxes: Option<&Boxes>,
    footprint: &Footprint,
) -> Enforcement {
    let files =
        footprint.needs.iter().any(|need| need.capability.as_str().starts_with("filesystem"));
    if let Some(Boxes { plan, .. }) = boxes {
        return plan_enforcement(plan, Some("dropped".to_owned()));
    }
    Enforcement {
        isolation: 0,
        time: if native.is_prompt() { "checked" } else { "deadline" }.to_owned(),
        memory: "accounted".to_owned(),
        files: files.then(|| "beneath-root".to_owned()),
        ..Enforcement::default()
    }
}

/// What holds a program to its limits, as the plan of its sandbox says.
fn sandbox_enforcement(sandbox: &Sandbox, footprint: &Footprint) -> Enforcement {
    plan_enforcement(&sandbox.plan, footprint.workspace.map(|_| "staged".to_owned()))
}

fn plan_enforcement(plan: &Plan, files: Option<String>) -> Enforcement {
    let barrier = |name: &str| plan.enforcement.get(name).cloned();
    Enforcement {
        files,
        isolation: plan.isolation,
        memory: barrier("memory").unwrap_or_else(|| "not enforced".to_owned()),
        sandbox: plan.enforcement.clone(),
        time: "deadline".to_owned(),
        weaker: plan.weaker.clone(),
    }
}

impl<'h> Executing<'h> {
    pub fn run(self) -> Step<'h, Executed<'h>> {
        let Executing { call, open, means } = self;
        match means {
            Means::Native(native, _) => call.run_native(open, native),
            Means::Program(sandbox) => call.run_program(open, &sandbox),
        }
    }
}

impl Call<'_> {
    /// Takes the state that a rollback must restore, and what will do the work, if the call may
    /// start at all.
    fn prepare(
        &self,
        asked: &Asked,
        agreed: Option<&Agreed>,
    ) -> Result<(Snapshot, Means), Failure> {
        // A call may be cancelled before it begins, or in the pause before a retry.
        if self.given.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let limits = &self.tool.declaration.resource_limits;
        let store = &*self.host.home.store;
        let means = match &self.tool.implementation {
            Implementation::Native(native) => {
                let boxes = native.runs_programs().then(|| self.boxes(asked)).transpose()?;
                Means::Native(Arc::clone(native), boxes.map(Box::new))
            }
            Implementation::Program(program) => {
                Means::Program(self.prepare_sandbox(program, asked)?)
            }
        };
        let snapshot =
            Snapshot::take(&asked.place, &asked.footprint, store, max_file_size(limits))?;
        if let Some(agreed) = agreed {
            self.check_workspace(agreed, asked, &snapshot)?;
        }
        self.host.resources.check(limits)?;
        Ok((snapshot, means))
    }

    /// What would hold any program of the tool: known, and possible, before it starts.
    fn boxes(&self, asked: &Asked) -> Result<Boxes, Failure> {
        let backend = self.host.backends.process.clone();
        let backend = backend.ok_or_else(|| unavailable("the runtime `process`"))?;
        let root = asked.place.root()?.location().to_owned();
        let plan = backend.plan(&Spec {
            workspace: Some((root, WorkspaceAccess::Write)),
            read_only: self.host.home.config.sandbox.show.clone(),
            ..Spec::of(vec!["true".to_owned()])
        })?;
        Ok(Boxes { plan, backend: named(&*backend) })
    }

    /// Keeps the plan of a sandbox beside the facts: it says all that will be done.
    fn keep_plan(&mut self, means: &Means) -> Result<Option<Payload>, Failure> {
        let Means::Program(Sandbox { plan, .. }) = means else { return Ok(None) };
        let bytes = canonical_json(&**plan)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        let payload = Payload::of(&bytes);
        self.host.home.keep(&mut self.recorder, payload, bytes)?;
        Ok(Some(payload))
    }

    /// Whether everything that the call rests on still holds.
    pub(super) fn check_grants(&self, authorization: &Authorization) -> Result<(), Failure> {
        let book = self.host.grant_book()?;
        let revoked = authorization
            .grants
            .iter()
            .find(|id| book.get(id).is_none_or(|record| record.revoked_at.is_some()));
        match revoked {
            Some(id) => Err(revoked_failure(&id.to_string())),
            None => check_expiry(authorization, self.recorder.now()),
        }
    }

    /// Makes EXECUTING durable, provided that the grants behind it still stand.
    pub(super) fn record_running(&mut self, authorization: &Authorization) -> Result<(), Stopped> {
        if self.recorder.is_flushed() {
            return Ok(());
        }
        let grants = authorization.grants.iter().copied().map(Expect::GrantLive);
        let first = self.first_of();
        let expect = grants.chain(self.people.map(Expect::PeopleAt)).chain(first).collect();
        let flushed = self.recorder.flush_with(Batch { expect, ..Batch::default() });
        self.people = None;
        let unbegun = self.unbegun.take();
        if let (Err(AppendError::Conflict(_)), Some(mark)) = (&flushed, unbegun) {
            // It did not begin, so nothing may say that it did: it may be another that did.
            self.recorder.rewind(mark);
        }
        flushed.map_err(|error| match error {
            AppendError::Conflict(Conflict::People) => Stopped::Aborted(void(&["who may approve"])),
            AppendError::Conflict(Conflict::Done(by)) => Stopped::Aborted(runs_already(by)),
            AppendError::Conflict(Conflict::Grant(id)) => {
                Stopped::Aborted(revoked_failure(&id.to_string()))
            }
            error => Stopped::Broken(error),
        })
    }
}

/// As `name/version`.
fn named(backend: &dyn Backend) -> String {
    format!("{}/{}", backend.name(), env!("CARGO_PKG_VERSION"))
}

fn revoked_failure(id: &str) -> Failure {
    Failure::authorization("GRANT_REVOKED", format!("grant {id} was revoked while the call ran"))
        .hint("nothing of this call was kept; ask for a new grant")
}

/// A grant that ran out while the tool worked no longer allows its effects.
pub(super) fn check_expiry(
    authorization: &Authorization,
    now: countersign_model::Timestamp,
) -> Result<(), Failure> {
    match authorization.expires_at {
        Some(expiry) if expiry <= now => {
            let message = format!("a grant behind the call expired at {expiry}, while it ran");
            Err(Failure::authorization("GRANT_EXPIRED", message))
        }
        _ => Ok(()),
    }
}
