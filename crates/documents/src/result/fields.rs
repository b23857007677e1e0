//! The front matter of a result: every key, its type, and what its value may be.

use countersign_model::{Digest, Timestamp};

use super::render::{is_backend_name, parse_result_id};
use super::{Against, Artifact, Body, Pipe, ToolResult};
use crate::code::Code;
use crate::front::{Fields, Front, Item, Key, Scalar, Shape};
use crate::reason::Findings;
use crate::request::lists::digest;
use crate::request::{Destination, is_input_name, moment, network};

const KEYS: &[Key] = &[
    Key { name: "result_type", shape: Shape::Text, required: true },
    Key { name: "schema_version", shape: Shape::Integer, required: true },
    Key { name: "result_id", shape: Shape::Text, required: true },
    Key { name: "created_utc", shape: Shape::Text, required: true },
    Key { name: "request_id", shape: Shape::Text, required: true },
    Key { name: "executor", shape: Shape::Text, required: true },
    Key { name: "backend", shape: Shape::Text, required: true },
    Key { name: "exit_code", shape: Shape::Integer, required: true },
    Key { name: "runtime_sec", shape: Shape::Number, required: true },
    Key { name: "network_used", shape: Shape::Text, required: true },
    Key { name: "network_destinations", shape: Shape::Texts, required: true },
    Key { name: "artifacts", shape: Shape::Items(&["path", "sha256"]), required: true },
    Key { name: "stdout_sha256", shape: Shape::Text, required: true },
    Key { name: "stderr_sha256", shape: Shape::Text, required: true },
];

/// How far the clocks of honest machines may be apart.
const SKEW_MILLIS: i64 = 300_000;
/// A day, which is the most that any request may ask for, and some time to end it.
const MAX_RUNTIME_MS: u64 = 25 * 60 * 60 * 1000;
const MAX_ARTIFACTS: usize = 128;
const MAX_DESTINATIONS: usize = 64;
const MAX_PATH: usize = 255;

/// What could be understood of the front matter, each part for itself.
pub(super) struct FrontMatter {
    id: Option<String>,
    pub(super) created: Option<Timestamp>,
    pub(super) request_id: Option<String>,
    pub(super) backend: Option<String>,
    pub(super) exit_code: Option<u8>,
    pub(super) runtime_ms: Option<u64>,
    pub(super) destinations: Option<Vec<Destination>>,
    pub(super) artifacts: Option<Vec<Artifact>>,
    digests: [Option<Digest>; 2],
    places: Vec<(&'static str, usize)>,
}

impl FrontMatter {
    pub(super) fn read(
        front: &Front,
        against: &Against<'_>,
        findings: &mut Findings,
    ) -> FrontMatter {
        let fields = front.fields(KEYS, findings);
        kind(&fields, findings);
        let created = created(&fields, against, findings);
        let request_id = request_id(&fields, created, findings);
        FrontMatter {
            id: id(&fields, created, request_id.as_deref(), against, findings),
            created,
            request_id,
            backend: backend(&fields, findings),
            exit_code: exit_code(&fields, findings),
            runtime_ms: runtime(&fields, findings),
            destinations: destinations(&fields, findings),
            artifacts: artifacts(&fields, findings),
            digests: Pipe::BOTH.map(|pipe| {
                fields.text(pipe.key()).and_then(|text| digest(&text.text, text.at, findings))
            }),
            places: KEYS.iter().map(|key| (key.name, fields.at(key.name))).collect(),
        }
    }

    /// Where a key stands.
    pub(super) fn at(&self, key: &str) -> usize {
        self.places.iter().find(|(name, _)| *name == key).map_or(0, |(_, at)| *at)
    }

    pub(super) fn digest(&self, pipe: Pipe) -> Option<Digest> {
        let [stdout, stderr] = self.digests;
        match pipe {
            Pipe::Stdout => stdout,
            Pipe::Stderr => stderr,
        }
    }

    /// Every digest that the document declares.
    pub(super) fn digests(&self) -> impl Iterator<Item = Digest> {
        let artifacts = self.artifacts.iter().flatten().map(|artifact| artifact.sha256);
        artifacts.chain(self.digests.into_iter().flatten())
    }

    pub(super) fn into_result(self, body: Body<'_>) -> Option<ToolResult> {
        let [stdout_sha256, stderr_sha256] = self.digests;
        Some(ToolResult {
            id: self.id?,
            created: self.created?,
            request_id: self.request_id?,
            backend: self.backend?,
            exit_code: self.exit_code?,
            runtime_ms: self.runtime_ms?,
            destinations: self.destinations?,
            artifacts: self.artifacts?,
            stdout_sha256: stdout_sha256?,
            stderr_sha256: stderr_sha256?,
            command: body.command?.text,
            unexpected: body.unexpected?.text,
        })
    }
}

fn kind(fields: &Fields<'_>, findings: &mut Findings) {
    word(fields, "result_type", &["tool_result"], findings);
    word(fields, "executor", &["tool-exec"], findings);
    if let Some((version, at)) =
        fields.integer("schema_version").filter(|(version, _)| *version != 1)
    {
        findings.add(Code::SchemaVersion, at, format_args!("version {version} is not known here"));
    }
}

/// The place of one of a few words in the list, if it is one of them.
fn word(fields: &Fields<'_>, key: &str, words: &[&str], findings: &mut Findings) -> Option<usize> {
    let scalar = fields.text(key)?;
    let found = words.iter().position(|word| *word == scalar.text);
    if found.is_none() {
        let code = if scalar.text.contains('|') { Code::Placeholder } else { Code::UnknownValue };
        let names: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
        let fix = format!("write {}", names.join(" or "));
        findings.quote_fix(code, scalar.at, &scalar.text, format_args!("is no {key}"), fix);
    }
    found
}

fn created(
    fields: &Fields<'_>,
    against: &Against<'_>,
    findings: &mut Findings,
) -> Option<Timestamp> {
    let scalar = fields.text("created_utc")?;
    let Some(created) = moment::parse(&scalar.text) else {
        findings.quote(Code::TimeInvalid, scalar.at, &scalar.text, "is not a moment");
        return None;
    };
    if created.millis_since(against.now) > SKEW_MILLIS {
        findings.quote(Code::TimeInFuture, scalar.at, &scalar.text, "is still to come");
    }
    Some(created)
}

fn request_id(
    fields: &Fields<'_>,
    created: Option<Timestamp>,
    findings: &mut Findings,
) -> Option<String> {
    let scalar = fields.text("request_id")?;
    let Some(requested) = moment::of_id(&scalar.text) else {
        findings.quote(Code::IdInvalid, scalar.at, &scalar.text, "is not the id of a request");
        return None;
    };
    if created.is_some_and(|created| created < requested) {
        let message = "the result is older than its request";
        findings.add(Code::TimeInconsistent, scalar.at, message);
    }
    Some(scalar.text.clone())
}

fn id(
    fields: &Fields<'_>,
    created: Option<Timestamp>,
    request_id: Option<&str>,
    against: &Against<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let scalar = fields.text("result_id")?;
    let Some((moment, request)) = parse_result_id(&scalar.text) else {
        let fix = "write TS-YYYYMMDD-HHMMSSZ- and the id of the request";
        let message = "is not the id of a result";
        findings.quote_fix(Code::IdInvalid, scalar.at, &scalar.text, message, fix);
        return None;
    };
    if created.is_some_and(|created| created != moment) {
        let message = "the time in the id is not `created_utc`";
        findings.add(Code::TimeInconsistent, scalar.at, message);
    }
    if request_id.is_some_and(|id| id != request) {
        let message = "the id does not end in `request_id`";
        findings.add(Code::IdInvalid, scalar.at, message);
    }
    let is_named = |name: &str| name.strip_suffix(".md") == Some(&scalar.text);
    if let Some(name) = against.file_name.filter(|name| !is_named(name)) {
        findings.quote(Code::FileName, scalar.at, name, "is not the id followed by .md");
    }
    Some(scalar.text.clone())
}

fn backend(fields: &Fields<'_>, findings: &mut Findings) -> Option<String> {
    let scalar = fields.text("backend")?;
    if !is_backend_name(&scalar.text) {
        findings.quote(
            Code::BackendInvalid,
            scalar.at,
            &scalar.text,
            "is not the name of a backend",
        );
        return None;
    }
    Some(scalar.text.clone())
}

fn exit_code(fields: &Fields<'_>, findings: &mut Findings) -> Option<u8> {
    let (code, at) = fields.integer("exit_code")?;
    let code = u8::try_from(code).ok();
    if code.is_none() {
        findings.add(Code::ExitCodeInvalid, at, "an exit code is at most 255");
    }
    code
}

fn runtime(fields: &Fields<'_>, findings: &mut Findings) -> Option<u64> {
    let scalar = fields.text("runtime_sec")?;
    let (seconds, part) = scalar.text.split_once('.').unwrap_or((&scalar.text, "0"));
    let millis: u64 = format!("{part:0<3}").get(..3)?.parse().ok()?;
    let seconds: u64 = seconds.parse().unwrap_or(u64::MAX);
    let runtime = seconds.saturating_mul(1000).saturating_add(millis);
    if runtime > MAX_RUNTIME_MS {
        findings.quote(
            Code::RuntimeInvalid,
            scalar.at,
            &scalar.text,
            "seconds are more than a day",
        );
        return None;
    }
    Some(runtime)
}

fn destinations(fields: &Fields<'_>, findings: &mut Findings) -> Option<Vec<Destination>> {
    let used = word(fields, "network_used", &["none", "allowlist"], findings);
    let entries = fields.texts("network_destinations")?;
    let at = fields.at("network_destinations");
    if entries.len() > MAX_DESTINATIONS {
        findings.add(Code::TooManyEntries, at, format_args!("more than {MAX_DESTINATIONS} hosts"));
        return None;
    }
    match (used?, entries.is_empty()) {
        (0, false) => findings.add(
            Code::NetworkInconsistent,
            at,
            "hosts are listed, but `network_used` is `none`",
        ),
        (1, true) => findings.add(
            Code::NetworkInconsistent,
            at,
            "`allowlist` was used, but no host is listed",
        ),
        _ => {}
    }
    let hosts: Vec<_> = entries.iter().map(|entry| destination(entry, findings)).collect();
    let mut hosts = hosts.into_iter().collect::<Option<Vec<Destination>>>()?;
    hosts.sort_unstable();
    if hosts.windows(2).any(|pair| matches!(pair, [one, other] if one == other)) {
        findings.add(Code::DuplicateEntry, at, "a host is listed twice");
    }
    Some(hosts)
}

fn destination(entry: &Scalar, findings: &mut Findings) -> Option<Destination> {
    let parsed = network::parse(&entry.text);
    if let Err(message) = parsed {
        findings.quote(Code::HostInvalid, entry.at, &entry.text, message);
    }
    parsed.ok()
}

fn artifacts(fields: &Fields<'_>, findings: &mut Findings) -> Option<Vec<Artifact>> {
    let items = fields.items("artifacts")?;
    if items.len() > MAX_ARTIFACTS {
        let message = format_args!("more than {MAX_ARTIFACTS} artifacts");
        findings.add(Code::TooManyEntries, fields.at("artifacts"), message);
        return None;
    }
    let listed: Vec<_> = items.iter().map(|item| artifact(item, findings)).collect();
    let mut seen = std::collections::BTreeSet::new();
    for (item, artifact) in items.iter().zip(&listed) {
        if artifact.as_ref().is_some_and(|one| !seen.insert(one.path.to_ascii_lowercase())) {
            findings.add(Code::DuplicateEntry, item.at, "this path is listed twice");
        }
    }
    listed.into_iter().collect()
}

fn artifact(item: &Item, findings: &mut Findings) -> Option<Artifact> {
    let (path, sha256) = (item.get("path"), item.get("sha256"));
    if path.is_none() {
        findings.add(Code::MissingKey, item.at, "this artifact has no `path`");
    }
    if sha256.is_none() {
        findings.add(Code::HashMissing, item.at, "this artifact has no `sha256`");
    }
    let sha256 = sha256.and_then(|sha256| digest(&sha256.text, sha256.at, findings));
    let path = path.and_then(|scalar| artifact_path(&scalar.text, scalar.at, findings));
    Some(Artifact { path: path?, sha256: sha256? })
}

/// A path below /out, written with that or without.
pub(super) fn artifact_path(text: &str, at: usize, findings: &mut Findings) -> Option<String> {
    let path = text.strip_prefix("/out/").unwrap_or(text);
    if path.len() > MAX_PATH || !path.split('/').all(is_input_name) {
        let message = "is not the path of a file below /out";
        findings.quote(Code::OutputPathInvalid, at, text, message);
        return None;
    }
    Some(path.to_owned())
}
