//! What no part of a request may contain: secrets, and instructions to install.

use crate::code::Code;
use crate::reason::Findings;
use crate::scan::{Found, Known, Views};
use crate::text::Source;

pub(super) fn scan(source: &Source<'_>, findings: &mut Findings) {
    let known = Known::of(declared_digests(source));
    let views = Views::of(source.text(), &known);
    for found in views.secrets() {
        let message = format_args!("this looks like a secret ({})", found.rule);
        note(Code::Secret, found, message, source, findings);
    }
    for found in views.installs() {
        let message = format_args!("this tells somebody to install something ({})", found.rule);
        note(Code::InstallInstruction, found, message, source, findings);
    }
}

/// Once a line: several rules know the same thing by different names.
fn note(
    code: Code,
    found: Found,
    message: std::fmt::Arguments<'_>,
    source: &Source<'_>,
    findings: &mut Findings,
) {
    let start = source.line_start(found.offset);
    if !findings.has_between(code, start, source.line_end(found.offset)) {
        findings.add(code, found.offset, message);
    }
}

/// What stands where the schema has hashes, whether or not the rest of the line is in order: a hash
/// looks like a key, and is none.
fn declared_digests<'a>(source: &Source<'a>) -> impl Iterator<Item = &'a str> {
    source.lines_from(0).filter_map(|line| {
        let content = line.text.trim_start_matches(' ');
        let content = content.strip_prefix("- ").unwrap_or(content);
        let place = content.starts_with("sha256:") || content.starts_with("/in/");
        let (_, value) = content.split_once("sha256:").filter(|_| place)?;
        value.split([' ', '"']).find(|word| !word.is_empty())
    })
}
