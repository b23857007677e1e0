//! Requests: a person approves one sandboxed command, and this is what they sign.
//!
//! `judge` reads a request and says everything that is wrong with it. What it accepts is not
//! approved by that: whether somebody approved these very bytes is for the host to know.

mod approve;
mod content;
mod draft;
mod fields;
pub(crate) mod lists;
pub(crate) mod moment;
pub(crate) mod network;
mod risk;

use countersign_model::{Digest, Timestamp};

pub use crate::command::Command;
pub use approve::{Unapprovable, approve};
pub use draft::{NewRequest, draft};
pub use lists::is_input_name;
pub use moment::{of_id as request_moment, request_id, second};

use crate::command::{self, Declared};
use crate::front;
use crate::judgement::Judgement;
use crate::reason::Findings;
use crate::sections::{self, Part, Sections};
use crate::text::{MAX_REQUEST_BYTES, Source};
use fields::FrontMatter;

/// A request as it was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub id: String,
    pub created: Timestamp,
    pub requested_by: RequestedBy,
    /// Whom the document names. It is no approval by itself.
    pub approved_by: Option<String>,
    pub approved: Option<Timestamp>,
    pub purpose: String,
    pub language: Language,
    pub network: Network,
    pub cpu_limit: Cores,
    pub memory_limit_mb: u32,
    pub time_limit_sec: u32,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    pub constraints: Constraints,
    pub command: Command,
    pub risk: Risk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedBy {
    Human,
    CoreDraft,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Python,
    Node,
    Ts,
    Go,
    Ruby,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    None,
    Allowlist(Vec<Destination>),
}

/// One host by its exact name, on one port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    pub host: String,
    pub port: u16,
}

/// Processor cores, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cores {
    pub thousandths: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its place is /in/NAME.
    pub name: String,
    pub sha256: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Relative to /out.
    pub path: String,
    /// Empty when the front matter gives none.
    pub description: String,
}

/// What the document says the run must keep to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Constraints {
    /// Sentences of the schema. They hold for every run, whether they are written or not.
    pub understood: Vec<Constraint>,
    /// Other sentences. Nobody enforces them; whoever approves is told so.
    pub claims: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraint {
    NoNetworkUnlessAllowlisted,
    NoWritesOutsideOut,
    NoPersistence,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Risk {
    pub level: RiskLevel,
    pub justification: String,
    pub sensitivity: Sensitivity,
    pub network_rationale: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RiskLevel {
    Low,
    Medium,
    High,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sensitivity {
    Public,
    Internal,
    Confidential,
}

/// What a request is judged against, apart from its own bytes.
#[derive(Debug, Clone, Copy)]
pub struct Given<'g> {
    /// The last part of the file's path; not compared when there is none.
    pub file_name: Option<&'g str>,
    pub now: Timestamp,
    pub ceilings: Ceilings,
    pub stage: Stage,
}

/// The most that this host grants a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceilings {
    /// In whole cores.
    pub cpu: u32,
    pub memory_mb: u32,
    pub time_sec: u32,
}

impl Default for Ceilings {
    fn default() -> Self {
        Ceilings { cpu: 4, memory_mb: 1024, time_sec: 300 }
    }
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nobody needs to have approved it yet.
    Draft,
    Approved,
}

const PARTS: &[Part] = &[
    Part { name: COMMAND, verbatim: true },
    Part { name: INPUT_FILES, verbatim: false },
    Part { name: OUTPUTS, verbatim: false },
    Part { name: RISK, verbatim: false },
];
const COMMAND: &str = "Command";
const INPUT_FILES: &str = "Input Files";
const OUTPUTS: &str = "Output Expectations";
const RISK: &str = "Risk Assessment";

/// Reads a request and finds everything that is wrong with it.
pub fn judge(bytes: &[u8], given: &Given<'_>) -> Judgement<Request> {
    let mut findings = Findings::new();
    let Some(source) = Source::read(bytes, MAX_REQUEST_BYTES, &mut findings) else {
        return Judgement::Reject(findings.into_reasons_without_text());
    };
    let request = read(&source, given, &mut findings);
    Judgement::of(request, findings.into_reasons(&source))
}

fn read(source: &Source<'_>, given: &Given<'_>, findings: &mut Findings) -> Option<Request> {
    let Some(front) = front::read(source, findings) else {
        content::scan(source, findings);
        return None;
    };
    let fields = FrontMatter::read(&front, given, findings);
    let sections = sections::read(source, front.body, PARTS, findings);
    let command = command(&sections, &fields, findings);
    lists::compare_inputs(&sections, &fields.inputs, findings);
    lists::compare_outputs(&sections, &fields.outputs, findings);
    let risk = sections.get(RISK);
    let risk = risk.and_then(|section| risk::judge(section, fields.uses_network, findings));
    content::scan(source, findings);
    fields.into_request(command?, risk?)
}

fn command(
    sections: &Sections<'_>,
    fields: &FrontMatter,
    findings: &mut Findings,
) -> Option<Command> {
    let inputs: Option<Vec<&str>> =
        fields.inputs.as_ref().map(|list| list.iter().map(|l| l.value.name.as_str()).collect());
    let outputs: Option<Vec<&str>> =
        fields.outputs.as_ref().map(|list| list.iter().map(|l| l.value.path.as_str()).collect());
    let declared = Declared { inputs: inputs.as_deref(), outputs: outputs.as_deref() };
    command::judge(sections.get(COMMAND)?, fields.language, &declared, findings)
}
