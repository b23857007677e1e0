//! A result against its request, and against what the journal holds.

use std::collections::BTreeMap;

use countersign_model::{Digest, Timestamp};

use super::fields::FrontMatter;
use super::lines::Value;
use super::{Artifact, Body, Outcome, Pipe, Rendered, ToolResult, note};
use crate::code::Code;
use crate::reason::Findings;
use crate::request::{Destination, Network, Request};

/// What the journal knows about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub artifacts: Vec<Artifact>,
    pub backend: String,
    pub command: String,
    pub created: Timestamp,
    pub destinations: Vec<Destination>,
    pub exit_code: u8,
    pub request_id: String,
    pub runtime_ms: u64,
    pub stderr_sha256: Digest,
    pub stdout_sha256: Digest,
    /// What stands under `Unexpected behavior:`.
    pub unexpected: String,
}

impl Recorded {
    /// What a host records of a run and of the result that it wrote about it.
    pub fn of(outcome: &Outcome, rendered: &Rendered) -> Recorded {
        Recorded {
            artifacts: rendered.artifacts.clone(),
            backend: outcome.backend.safe_name(),
            command: outcome.command.clone(),
            created: outcome.created,
            destinations: outcome.reached().into_iter().cloned().collect(),
            exit_code: outcome.ending.exit_code(),
            request_id: outcome.request_id.clone(),
            runtime_ms: outcome.runtime_ms,
            stderr_sha256: outcome.stderr.sha256,
            stdout_sha256: outcome.stdout.sha256,
            unexpected: rendered.unexpected.clone(),
        }
    }
}

/// A result that is believed, as the journal would hold it.
impl From<&ToolResult> for Recorded {
    fn from(result: &ToolResult) -> Recorded {
        Recorded {
            artifacts: result.artifacts.clone(),
            backend: result.backend.clone(),
            command: result.command.clone(),
            created: result.created,
            destinations: result.destinations.clone(),
            exit_code: result.exit_code,
            request_id: result.request_id.clone(),
            runtime_ms: result.runtime_ms,
            stderr_sha256: result.stderr_sha256,
            stdout_sha256: result.stdout_sha256,
            unexpected: result.unexpected.clone(),
        }
    }
}

/// How much longer than its limit a run may be seen: starting and ending it takes time.
const GRACE_MS: u64 = 5_000;

pub(super) fn with_request(
    fields: &FrontMatter,
    body: &Body<'_>,
    request: &Request,
    findings: &mut Findings,
) {
    if fields.request_id.as_ref().is_some_and(|id| *id != request.id) {
        let message = format_args!("this is no answer to {}", request.id);
        return findings.add(Code::RequestDiffers, fields.at("request_id"), message);
    }
    let since = request.approved.unwrap_or(request.created);
    if fields.created.is_some_and(|created| second(created) < second(since)) {
        let message = "the result is older than the approval of its request";
        findings.add(Code::TimeInconsistent, fields.at("created_utc"), message);
    }
    if let Some(command) =
        body.command.as_ref().filter(|command| !is_same(command, &request.command.line))
    {
        findings.add(Code::CommandDiffers, command.at, "the request has another command");
    }
    if let Some(limits) = body.limits.as_ref().filter(|limits| !has_limits(limits, request)) {
        let (cpu, memory, time) =
            (request.cpu_limit, request.memory_limit_mb, request.time_limit_sec);
        let message = format_args!("the request has cpu {cpu}, memory {memory} MB, time {time} s");
        findings.add(Code::LimitsDiffer, limits.at, message);
    }
    let most = u64::from(request.time_limit_sec) * 1000 + GRACE_MS;
    if fields.runtime_ms.is_some_and(|runtime| runtime > most) {
        let message = format_args!("the request allows {} s", request.time_limit_sec);
        findings.add(Code::RuntimeAboveLimit, fields.at("runtime_sec"), message);
    }
    expected(fields, request, findings);
    allowed(fields, request, findings);
}

/// Documents write times to the second.
fn second(moment: Timestamp) -> i64 {
    moment.as_millis().div_euclid(1000)
}

/// The command byte by byte, or its digest where the host withheld it.
fn is_same(shown: &Value, command: &str) -> bool {
    shown.text == command
        || shown.text == format!("[withheld: sha256 {}]", Digest::of(command.as_bytes()))
}

/// Whether the numbers of the request stand in the line, however it is worded.
fn has_limits(limits: &Value, request: &Request) -> bool {
    let numbers = limits.text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let mut numbers: Vec<&str> = numbers.map(|number| number.trim_matches('.')).collect();
    let asked = [
        request.cpu_limit.to_string(),
        request.memory_limit_mb.to_string(),
        request.time_limit_sec.to_string(),
    ];
    asked.iter().all(|number| {
        let place = numbers.iter().position(|known| known == number);
        place.map(|place| numbers.swap_remove(place)).is_some()
    })
}

fn expected(fields: &FrontMatter, request: &Request, findings: &mut Findings) {
    for artifact in fields.artifacts.iter().flatten() {
        let expected = request.outputs.iter().any(|output| output.path == artifact.path);
        let kept = Pipe::BOTH.iter().any(|pipe| pipe.file() == artifact.path);
        if !expected && !kept {
            let message = "is not among the outputs that the request expects";
            findings.quote(
                Code::ArtifactUndeclared,
                fields.at("artifacts"),
                &artifact.path,
                message,
            );
        }
    }
}

fn allowed(fields: &FrontMatter, request: &Request, findings: &mut Findings) {
    let allowed: &[Destination] = match &request.network {
        Network::None => &[],
        Network::Allowlist(hosts) => hosts,
    };
    for reached in fields.destinations.iter().flatten().filter(|host| !allowed.contains(host)) {
        let at = fields.at("network_destinations");
        findings.quote(
            Code::DestinationNotAllowed,
            at,
            &reached.host,
            "is not in the request's allowlist",
        );
    }
}

/// Everything that the journal knows must be what the result says.
pub(super) fn with_journal(
    fields: &FrontMatter,
    body: &Body<'_>,
    journal: &Recorded,
    findings: &mut Findings,
) {
    let mut differs = |same: Option<bool>, key: &str, what: &str| {
        if same == Some(false) {
            let message = format_args!("the journal has another {what}");
            findings.add(Code::JournalDiffers, fields.at(key), message);
        }
    };
    let request = fields.request_id.as_ref().map(|id| *id == journal.request_id);
    differs(request, "request_id", "request");
    let backend = fields.backend.as_ref().map(|name| *name == journal.backend);
    differs(backend, "backend", "backend");
    differs(fields.exit_code.map(|code| code == journal.exit_code), "exit_code", "exit code");
    let runtime = fields.runtime_ms.map(|runtime| runtime == journal.runtime_ms);
    differs(runtime, "runtime_sec", "runtime");
    let created = fields.created.map(|created| second(created) == second(journal.created));
    differs(created, "created_utc", "time");
    let hosts =
        fields.destinations.as_ref().map(|hosts| sorted(hosts) == sorted(&journal.destinations));
    differs(hosts, "network_destinations", "list of hosts");
    let files =
        fields.artifacts.as_ref().map(|files| by_path(files) == by_path(&journal.artifacts));
    differs(files, "artifacts", "list of artifacts");
    let stdout = fields.digest(Pipe::Stdout).map(|digest| digest == journal.stdout_sha256);
    differs(stdout, Pipe::Stdout.key(), "stdout");
    let stderr = fields.digest(Pipe::Stderr).map(|digest| digest == journal.stderr_sha256);
    differs(stderr, Pipe::Stderr.key(), "stderr");
    if let Some(command) =
        body.command.as_ref().filter(|command| !is_same(command, &journal.command))
    {
        findings.add(Code::JournalDiffers, command.at, "the journal has another command");
    }
    let noted = |text: &str| note::parse(text).map(BTreeMap::from_iter);
    let differ = |said: &&Value| noted(&said.text) != noted(&journal.unexpected);
    if let Some(unexpected) = body.unexpected.as_ref().filter(differ) {
        let message = "the journal has other unexpected behavior";
        findings.add(Code::JournalDiffers, unexpected.at, message);
    }
}

fn sorted(hosts: &[Destination]) -> Vec<&Destination> {
    let mut hosts: Vec<&Destination> = hosts.iter().collect();
    hosts.sort_unstable();
    hosts
}

fn by_path(files: &[Artifact]) -> Vec<(&str, Digest)> {
    let mut files: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.sha256)).collect();
    files.sort_unstable();
    files
}
