//! A run in the words of a result. Everything comes from the journal.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use countersign_documents::request::{
    Ceilings, Destination, Network, Request, Stage, judge as judge_document,
};
use countersign_documents::result::{
    Against, Backend, Capture, Captured, Ending, Judged, Limits, Note, Outcome, Produced, Recorded,
    Rendered, render,
};
use countersign_documents::scan::Known;
use countersign_host::Host;
use countersign_host::order::Ordered;
use countersign_model::effect::{Artifact, Payload};
use countersign_model::event::Connection;
use countersign_model::{ErrorClass, Failure, Timestamp};

use crate::Desk;
use crate::inbox::Delivered;
use crate::story::Story;

/// What runs programs where the journal does not say: it was never reached.
const NOTHING: &str = "none";

/// A run told again, and the document about it.
pub(crate) struct Told {
    pub(crate) story: Story,
    pub(crate) request: Request,
    pub(crate) recorded: Recorded,
    pub(crate) rendered: Rendered,
}

impl Desk<'_> {
    pub(crate) fn tell(&self, ordered: &Ordered) -> Result<Told, Failure> {
        let story = Story::of(self.host, ordered)?;
        let request = self.request_of(&story)?;
        let outcome = outcome(self.host, &story, &request)?;
        let rendered = render(&outcome);
        let recorded = Recorded::of(&outcome, &rendered);
        Ok(Told { story, request, recorded, rendered })
    }

    /// The request as it was approved. Limits of this host may have changed since.
    fn request_of(&self, story: &Story) -> Result<Request, Failure> {
        let mut given = self.given(None, Stage::Draft);
        // Judged for the moment of the run: clocks and rules may have moved since.
        given.now = given.now.max(story.ended_at);
        given.ceilings = Ceilings { cpu: u32::MAX, memory_mb: u32::MAX, time_sec: u32::MAX };
        let judged = judge_document(story.order.document.as_bytes(), &given);
        let mut request = judged.accepted().ok_or_else(|| {
            Failure::state("JOURNAL_CORRUPT", "the document of an order cannot be read")
        })?;
        // What a draft claims about its approval counts for nothing.
        (request.approved, request.approved_by) = (None, None);
        Ok(request)
    }
}

impl Told {
    pub(crate) fn against<'a>(&'a self, name: &'a str, now: Timestamp) -> Against<'a> {
        let (request, journal) = (Some(&self.request), Some(&self.recorded));
        Against { file_name: Some(name), now, request, journal }
    }

    pub(crate) fn delivered(self, path: PathBuf, judged: &Judged) -> Delivered {
        let reasons = judged.judgement.reasons().to_vec();
        Delivered { result: self.rendered.id, path, accepted: reasons.is_empty(), reasons }
    }
}

/// What the host knows about a run, in the words of a result.
fn outcome(host: &Host, story: &Story, request: &Request) -> Result<Outcome, Failure> {
    let known = Known::of(request.inputs.iter().map(|input| input.sha256.to_string()));
    let mut notes = notes(story, request);
    notes.retain(|_, count| *count > 0);
    Ok(Outcome {
        backend: backend(story),
        command: request.command.line.clone(),
        created: story.ended_at,
        destinations: destinations(story, request),
        ending: ending(story),
        limits: Limits {
            cpu: request.cpu_limit,
            memory_mb: u32::try_from(story.limits.max_memory >> 20).unwrap_or(u32::MAX),
            time_sec: u32::try_from(story.limits.max_execution_time / 1000).unwrap_or(u32::MAX),
        },
        notes,
        produced: produced(story, request),
        request_id: request.id.clone(),
        runtime_ms: story.usage.wall_ms,
        stderr: capture(host, story, story.stderr, &known)?,
        stdout: capture(host, story, story.stdout, &known)?,
    })
}

fn backend(story: &Story) -> Backend {
    let named = story.backend.as_deref().unwrap_or(NOTHING);
    match named.split_once('/') {
        Some((name, version)) => {
            Backend { name: name.to_owned(), version: Some(version.to_owned()) }
        }
        None => Backend { name: named.to_owned(), version: None },
    }
}

/// Whom the run reached, as the proxy recorded it. A connection may be refused after something was
/// sent. Where the record was lost with the host, everybody whom it could have reached.
fn destinations(story: &Story, request: &Request) -> Vec<Destination> {
    if let (true, Network::Allowlist(hosts)) = (story.unknown, &request.network) {
        return hosts.clone();
    }
    let reached = |made: &&Connection| made.denied.is_none() || made.sent > 0 || made.received > 0;
    let reached = story.connections.iter().filter(reached);
    reached.map(|made| Destination { host: made.host.clone(), port: made.port }).collect()
}

fn produced(story: &Story, request: &Request) -> Vec<Produced> {
    let described = |name: &str| {
        let output = request.outputs.iter().find(|output| output.path == name)?;
        Some(output.description.clone()).filter(|text| !text.is_empty())
    };
    let one = |file: &Artifact| Produced {
        description: described(&file.name),
        path: file.name.clone(),
        sha256: file.digest,
    };
    story.artifacts.iter().map(one).collect()
}

fn ending(story: &Story) -> Ending {
    let Some(error) = &story.error else { return Ending::Exited(0) };
    let number = |name: &str| u8::try_from(detail(error, name)?).ok();
    let silent = story.stdout.is_none() && story.stderr.is_none();
    match error.code.as_ref() {
        "COMMAND_NOT_STARTED" | "APPROVAL_VOID" => Ending::NotStarted,
        "CANNOT_ENFORCE" | "SANDBOX_FAILED" if silent && story.usage.wall_ms == 0 => {
            Ending::NotStarted
        }
        "TOOL_FAILED" => Ending::Exited(number("exitCode").unwrap_or(u8::MAX)),
        "TOOL_KILLED" => number("signal").map_or(Ending::Stopped, Ending::Signalled),
        "OUTPUT_UNDECLARED" | "STAGING_REFUSED" | "STAGING_UNREADABLE" => Ending::Refused(0),
        "SANDBOX_FAILED" | "SANDBOX_LOST" | "OUTPUT_LOST" => Ending::Stopped,
        _ => match error.class {
            ErrorClass::TimeoutError => Ending::TimedOut,
            ErrorClass::ResourceError => Ending::LimitReached,
            // Cancelled, revoked, or its host failed or died with it.
            _ => Ending::Stopped,
        },
    }
}

/// A number among the details of a failure.
fn detail(error: &Failure, name: &str) -> Option<u64> {
    error.details.as_ref()?.get(name)?.as_u64()
}

fn notes(story: &Story, request: &Request) -> BTreeMap<Note, u64> {
    let denied = story.connections.iter().filter(|made| made.denied.is_some()).count();
    let left = |path: &str| story.artifacts.iter().any(|file| file.name == path);
    let missing = request.outputs.iter().filter(|output| !left(&output.path)).count();
    let of = |codes: &[&str]| {
        let error = story.error.as_ref().filter(|error| codes.contains(&&*error.code));
        error.map_or(0, |error| detail(error, "files").unwrap_or(1))
    };
    BTreeMap::from([
        (Note::ConnectionDenied, denied as u64),
        (Note::MissingOutput, missing as u64),
        (Note::NetworkUnknown, u64::from(story.unknown)),
        (Note::RefusedFile, of(&["STAGING_REFUSED", "STAGING_UNREADABLE"])),
        (Note::UnexpectedFile, of(&["OUTPUT_UNDECLARED"])),
    ])
}

/// Hands a stream on as it is read, however long it is.
struct Into<'c, 'k>(&'c mut Capture<'k>);

impl Write for Into<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn capture(
    host: &Host,
    story: &Story,
    stream: Option<Payload>,
    known: &Known,
) -> Result<Captured, Failure> {
    let mut capture = Capture::new(known);
    if let Some(payload) = stream {
        host.home().copy_payload(story.execution, &payload, &mut Into(&mut capture))?;
    }
    Ok(capture.finish())
}
