//! Results: the only form in which the outcome of a request travels back.
//!
//! `render` writes what the host knows, all but stdout and stderr from fixed templates. `judge` reads
//! a result from anywhere and says everything that is wrong with it: nobody trusts a result before.

mod capture;
mod compare;
mod content;
mod escape;
mod fields;
mod lines;
mod note;
mod outcome;
mod outputs;
mod render;
mod safety;
mod shown;
mod streams;

use countersign_model::{Digest, Timestamp};

pub use capture::{Capture, Captured, HEAD_BYTES};
pub use compare::Recorded;
pub use note::Note;
pub use outcome::{Backend, Ending, Limits, Outcome, Produced};
pub use render::{Rendered, render, result_id};

use crate::front;
use crate::judgement::Judgement;
use crate::reason::Findings;
use crate::request::{Destination, Request};
use crate::scan::Known;
use crate::sections::{self, Part, Sections};
use crate::text::{MAX_RESULT_BYTES, Source};
use fields::FrontMatter;
use lines::Value;
use streams::Stream;

/// How much of a stream a result shows.
pub const MAX_LINES: usize = 200;
pub const MAX_SHOWN_BYTES: usize = 64 * 1024;
pub const MAX_LINE_CHARS: usize = 1000;

/// A result as it was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub id: String,
    pub created: Timestamp,
    pub request_id: String,
    pub backend: String,
    pub exit_code: u8,
    pub runtime_ms: u64,
    /// Whom the run reached; empty when the network was not used.
    pub destinations: Vec<Destination>,
    pub artifacts: Vec<Artifact>,
    pub stdout_sha256: Digest,
    pub stderr_sha256: Digest,
    pub command: String,
    /// What stands under `Unexpected behavior:`.
    pub unexpected: String,
}

/// A file that a run left below /out, or a stream that was too long to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Relative to /out.
    pub path: String,
    pub sha256: Digest,
}

/// One of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pipe {
    Stdout,
    Stderr,
}

impl Pipe {
    pub const BOTH: [Pipe; 2] = [Pipe::Stdout, Pipe::Stderr];

    /// The file that holds all of it when it is too long to be shown.
    pub const fn file(self) -> &'static str {
        match self {
            Pipe::Stdout => "stdout.txt",
            Pipe::Stderr => "stderr.txt",
        }
    }

    const fn section(self) -> &'static str {
        match self {
            Pipe::Stdout => STDOUT,
            Pipe::Stderr => STDERR,
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Pipe::Stdout => "stdout_sha256",
            Pipe::Stderr => "stderr_sha256",
        }
    }
}

/// What a result is judged against, apart from its own bytes. What is not given is not checked, and
/// the answer says so.
#[derive(Debug, Clone, Copy)]
pub struct Against<'a> {
    /// The last part of the file's path.
    pub file_name: Option<&'a str>,
    pub now: Timestamp,
    /// The request, as it was accepted.
    pub request: Option<&'a Request>,
    /// What the journal holds about the run.
    pub journal: Option<&'a Recorded>,
}

/// The answer: the judgement, and what it rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub judgement: Judgement<ToolResult>,
    pub checks: Vec<Check>,
}

/// Something that can be checked, and whether it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    pub made: bool,
    pub name: &'static str,
}

const PARTS: &[Part] = &[
    Part { name: SUMMARY, verbatim: true },
    Part { name: PROVENANCE, verbatim: true },
    Part { name: OUTPUTS, verbatim: true },
    Part { name: STDOUT, verbatim: true },
    Part { name: STDERR, verbatim: true },
    Part { name: SAFETY, verbatim: true },
];
const SUMMARY: &str = "Summary";
const PROVENANCE: &str = "Provenance";
const OUTPUTS: &str = "Outputs";
const STDOUT: &str = "Stdout";
const STDERR: &str = "Stderr";
const SAFETY: &str = "Safety Notes";

/// Reads a result and finds everything that is wrong with it.
pub fn judge(bytes: &[u8], against: &Against<'_>) -> Judged {
    let mut findings = Findings::new();
    let Some(source) = Source::read(bytes, MAX_RESULT_BYTES, &mut findings) else {
        let judgement = Judgement::Reject(findings.into_reasons_without_text());
        return Judged { judgement, checks: checks(against, [false; 2], false) };
    };
    let read = read(&source, against, &mut findings);
    let hashed = read.hashed;
    let judgement = Judgement::of(read.result, findings.into_reasons(&source));
    Judged { judgement, checks: checks(against, hashed, true) }
}

#[derive(Default)]
struct Read {
    result: Option<ToolResult>,
    /// Whether what is shown of each stream could be held against its digest.
    hashed: [bool; 2],
}

fn read(source: &Source<'_>, against: &Against<'_>, findings: &mut Findings) -> Read {
    let Some(front) = front::read(source, findings) else {
        content::everything(source.text(), findings);
        return Read::default();
    };
    let fields = FrontMatter::read(&front, against, findings);
    let sections = sections::read(source, front.body, PARTS, findings);
    let body = body(&sections, &fields, against, findings);
    let known = Known::of(fields.digests().map(|digest| digest.to_string()));
    content::scan(source.text(), &sections, &body, &known, findings);
    let hashed = [body.stdout.hashed, body.stderr.hashed];
    if let Some(request) = against.request {
        compare::with_request(&fields, &body, request, findings);
    }
    if let Some(journal) = against.journal {
        compare::with_journal(&fields, &body, journal, findings);
    }
    Read { result: fields.into_result(body), hashed }
}

/// What the sections say.
struct Body<'a> {
    command: Option<Value>,
    limits: Option<Value>,
    unexpected: Option<Value>,
    /// Sentences that are in nobody's template.
    free: Vec<Value>,
    stdout: Stream<'a>,
    stderr: Stream<'a>,
}

fn body<'a>(
    sections: &Sections<'a>,
    fields: &FrontMatter,
    against: &Against<'_>,
    findings: &mut Findings,
) -> Body<'a> {
    let notes = safety::judge(sections, fields, against.journal.is_some(), findings);
    let mut free = lines::summary(sections, fields, &notes.codes, findings);
    let (command, limits, backend) = lines::provenance(sections, fields, findings);
    free.extend(backend);
    free.extend(limits.clone());
    free.extend(outputs::compare(sections, fields, findings));
    free.extend(notes.free);
    let mut stream = |pipe| streams::judge(pipe, sections, fields, &notes.codes, findings);
    let (stdout, stderr) = (stream(Pipe::Stdout), stream(Pipe::Stderr));
    Body { command, limits, unexpected: notes.unexpected, free, stdout, stderr }
}

/// Artifacts are files elsewhere: whoever holds them hashes them.
fn checks(against: &Against<'_>, hashed: [bool; 2], text: bool) -> Vec<Check> {
    let [stdout, stderr] = hashed;
    let check = |name, made| Check { made, name };
    vec![
        check("form", true),
        check("content", text),
        check("file name", text && against.file_name.is_some()),
        check("stdout digest", stdout),
        check("stderr digest", stderr),
        check("artifact files", false),
        check("request", text && against.request.is_some()),
        check("journal", text && against.journal.is_some()),
    ]
}
