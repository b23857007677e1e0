//! What no part of a result may contain.

use super::streams::Stream;
use super::{Body, SAFETY, STDOUT};
use crate::code::Code;
use crate::reason::Findings;
use crate::scan::{Family, Found, Known, Views, scan_bytes};
use crate::sections::Sections;

/// Looks at a text of which no part is known.
pub(super) fn everything(text: &str, findings: &mut Findings) {
    let known = Known::default();
    let views = Views::of(text, &known);
    add(Family::Secret, &views.secrets(), |at| at, findings);
    add(Family::Payload, &views.payloads(), |at| at, findings);
}

/// Secrets and programs are looked for everywhere; claims and instructions where somebody could put
/// sentences of their own.
pub(super) fn scan(
    text: &str,
    sections: &Sections<'_>,
    body: &Body<'_>,
    known: &Known,
    findings: &mut Findings,
) {
    let end = sections.at(STDOUT);
    outside(text.get(..end).unwrap_or_default(), 0, known, findings);
    let start = sections.at(SAFETY);
    outside(text.get(start..).unwrap_or_default(), start, known, findings);
    for value in &body.free {
        let views = Views::of(&value.text, known);
        add(Family::Claim, &views.claims(), |_| value.at, findings);
        add(Family::Instruction, &views.instructions(), |_| value.at, findings);
    }
    for stream in [&body.stdout, &body.stderr] {
        for (family, found) in scan_bytes(&stream.bytes, known) {
            add(family, &found, |at| place(stream, at), findings);
        }
    }
}

fn outside(text: &str, base: usize, known: &Known, findings: &mut Findings) {
    let views = Views::of(text, known);
    add(Family::Secret, &views.secrets(), |at| base + at, findings);
    add(Family::Payload, &views.payloads(), |at| base + at, findings);
}

/// Where in the document a byte of a stream is shown: its line, and about its column.
fn place(stream: &Stream<'_>, at: usize) -> usize {
    let before = stream.bytes.get(..at).unwrap_or(&stream.bytes);
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let shown = stream.lines.get(line).or(stream.lines.last());
    shown.map_or(0, |line| line.at + (at - start).min(line.text.len()))
}

/// Of each kind, more reasons than this would not be listed anyway.
const MAX_FOUND: usize = 60;

/// The rule is named, the value never.
fn add(family: Family, found: &[Found], place: impl Fn(usize) -> usize, findings: &mut Findings) {
    let (code, what) = match family {
        Family::Secret => (Code::Secret, "looks like a secret"),
        Family::Payload => (Code::Payload, "looks like a program"),
        Family::Claim => (Code::PolicyClaim, "claims that rules should change"),
        Family::Instruction => (Code::NewInstruction, "tells somebody to do something"),
    };
    for found in found.iter().take(MAX_FOUND) {
        findings.add(code, place(found.offset), format_args!("this {what} ({})", found.rule));
    }
}
