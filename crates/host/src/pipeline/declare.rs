//! DECLARED and VALIDATED: the tool exists, and the input is what it asks for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_model::digest::canonical_json;
use countersign_model::effect::Payload;
use countersign_model::event::{self, CallEvent};
use countersign_model::json::parse_strict;
use countersign_model::{Declaration, ErrorClass, ExecutionId, Failure, Violation};
use serde_json::{Value, json};

use super::wait::Agreed;
use super::{Call, CallCommand, Halt, Step};
use crate::facts::Circumstances;
use crate::host::Host;
use crate::recorder::Recorder;
use crate::registry::{Implementation, Tool};
use crate::root::Root;
use crate::tool::{Footprint, Place};
use crate::work::WorkPlace;

/// The tool exists and its declaration is pinned.
#[derive(Debug)]
pub struct Declared<'h> {
    call: Call<'h>,
    input: Result<Value, Failure>,
    root: Option<Result<Arc<Root>, Failure>>,
    work: Option<Arc<WorkPlace>>,
    obstacle: Option<Failure>,
}

/// The input conforms to the tool's schema, and what the call will touch is known.
#[derive(Debug)]
pub struct Validated<'h> {
    pub(super) call: Call<'h>,
    pub(super) asked: Arc<Asked>,
    pub(super) attempt: u32,
    /// What people agreed to, if they were asked.
    pub(super) approval: Option<Arc<Agreed>>,
}

/// What was asked, unchanged for the rest of the call's life.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) input: Value,
    pub(crate) place: Place,
    pub(crate) footprint: Footprint,
}

impl<'h> Declared<'h> {
    pub(super) fn enter(
        host: &'h Host,
        execution: ExecutionId,
        tool: Arc<Tool>,
        command: CallCommand,
    ) -> Result<Self, Failure> {
        let input = parse_strict(&command.input, &host.home.config.input.limits());
        let (payload, kept) = input_payload(&command.input, &input)?;
        let root = match (&command.work, &command.root) {
            (Some(work), _) => Some(work.root().map(Arc::new)),
            (None, root) => {
                root.as_ref().map(|path| Root::open(path, host.home.path()).map(Arc::new))
            }
        };
        let policies = host.policies_in_force()?;
        let circumstances = Circumstances {
            chain: command.chain,
            consumes: command.consumes,
            mode: command.mode,
            principal: command.principal,
            toolset: command.toolset,
        };
        let declared = event::Declared {
            chain: circumstances.chain.clone(),
            consumes: circumstances.consumes.clone(),
            mode: circumstances.mode,
            toolset: circumstances.toolset.clone(),
            tool: tool.declaration.id.clone(),
            version: tool.declaration.version.clone(),
            declaration: tool.digest,
            files: tool.files_digest(),
            principal: circumstances.principal.clone(),
            input: payload,
            work: command.work.as_ref().map(|place| place.work.clone()),
            root: match (&root, command.root) {
                (Some(Ok(root)), _) => Some(root.path().to_owned()),
                (_, asked) => asked.map(|path| path.to_string_lossy().into_owned()),
            },
        };
        let (store, clock) = (Arc::clone(&host.home.store), Arc::clone(&host.clock));
        let recorder = Recorder::begin(store, clock, execution, declared);
        let CallCommand { given, fresh, work, obstacle, .. } = command;
        let mut call = Call {
            host,
            tool,
            recorder,
            given,
            fresh,
            policies,
            circumstances,
            people: None,
            unbegun: None,
        };
        if let Some(bytes) = kept {
            host.home.keep(&mut call.recorder, payload, bytes)?;
        }
        Ok(Declared { call, input, root, work, obstacle })
    }

    /// Checks the input, all of it, and reports every violation with its place.
    pub fn validate(mut self) -> Step<'h, Validated<'h>> {
        let input = match self.input.and_then(|input| check_input(&self.call.tool, input)) {
            Ok(input) => input,
            Err(error) => return Err(self.call.unfit(error)),
        };
        self.call = self.call.unobstructed(self.obstacle.take())?;
        let root = self.root.transpose();
        let work = self.work;
        match root.and_then(|root| self.call.case().look_at(input, root, work)) {
            Ok(asked) => Ok(Validated { call: self.call, asked, attempt: 1, approval: None }),
            Err(error) => Err(self.call.unfit(error)),
        }
    }
}

impl<'h> Call<'h> {
    fn unfit(self, error: Failure) -> Box<Halt<'h>> {
        self.end(CallEvent::Failed { error: error.clone() }, error)
    }

    /// Validated, unless something stands in the way: who may not is denied, whatever else is missing
    /// makes the request a wrong one.
    fn unobstructed(mut self, obstacle: Option<Failure>) -> Step<'h, Self> {
        match obstacle {
            Some(error) if error.class != ErrorClass::AuthorizationError => Err(self.unfit(error)),
            obstacle => {
                self.note(CallEvent::Validated {})?;
                match obstacle {
                    Some(error) => Err(self.deny(error.into())),
                    None => Ok(self),
                }
            }
        }
    }
}

pub(super) fn check_input(tool: &Tool, input: Value) -> Result<Value, Failure> {
    match tool.input.check(&input) {
        violations if violations.is_empty() => Ok(input),
        violations => Err(invalid_input(&tool.declaration, &violations)),
    }
}

pub(crate) fn footprint(
    implementation: &Implementation,
    input: &Value,
    place: &Place,
) -> Result<Footprint, Failure> {
    let native = match implementation {
        Implementation::Native(native) => native,
        Implementation::Program(program) => return program.footprint(place),
    };
    // On the caller's thread: a tool that panics here must not take the caller with it.
    catch_unwind(AssertUnwindSafe(|| native.footprint(input, place))).unwrap_or_else(|_| {
        tracing::error!("a tool panicked over its footprint");
        Err(Failure::execution("TOOL_CRASHED", "the tool crashed").hint("the log says more"))
    })
}

/// A readable input is known by its canonical form; anything else by its raw bytes, which are not
/// worth keeping.
fn input_payload(
    raw: &[u8],
    input: &Result<Value, Failure>,
) -> Result<(Payload, Option<Vec<u8>>), Failure> {
    let Ok(value) = input else { return Ok((Payload::of(raw), None)) };
    let bytes = canonical_json(value)
        .map_err(|error| Failure::validation("INPUT_NOT_CANONICAL", error.to_string()))?;
    Ok((Payload::of(&bytes), Some(bytes)))
}

fn invalid_input(declaration: &Declaration, violations: &[Violation]) -> Failure {
    violated("INPUT_INVALID", "the input does not fit the tool's inputSchema", violations)
        .hint(format!("see what it takes with `countersign tool show {}`", declaration.tool_ref()))
}

pub(super) fn violated(code: &'static str, what: &str, violations: &[Violation]) -> Failure {
    let first = violations.first().map_or(String::new(), |v| {
        let place = if v.pointer.is_empty() { "the whole value" } else { &v.pointer };
        format!(": {} (at {place})", v.message)
    });
    let more = match violations.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    Failure::validation(code, format!("{what}{first}{more}")).details(json!(violations))
}
