//! The second reader: CommonMark as others read it.

use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::code::Code;
use crate::reason::Findings;
use crate::text::Source;

/// What the first reader saw.
pub(super) struct Ours<'o> {
    /// The beginnings of the lines with headings, in order.
    pub(super) headings: &'o [usize],
    /// The beginnings of lines that were refused already.
    pub(super) refused: &'o [usize],
}

/// Beyond this no document is in order, and a hostile one would only cost time.
const MAX_LINES: usize = 2048;
const MAX_LINE_BYTES: usize = 5120;

/// Compares the headings, and refuses whatever is more than paragraphs and lists.
pub(super) fn compare(
    source: &Source<'_>,
    body: usize,
    ours: &Ours<'_>,
    is_data: impl Fn(usize) -> bool,
    findings: &mut Findings,
) {
    if let Some(line) = excess(source, body) {
        let message = "a line too long or too many lines to be read a second time";
        return findings.add(Code::MarkdownForbidden, line, message);
    }
    let text = source.text().get(body..).unwrap_or_default();
    let parser = Parser::new_ext(text, Options::empty());
    let mut found: Vec<(usize, &'static str)> = Vec::new();
    let definitions = parser.reference_definitions().iter();
    found.extend(definitions.map(|(_, target)| (body + target.span.start, "a link definition")));
    let mut theirs = Vec::new();
    for (event, range) in parser.into_offset_iter() {
        let at = body + range.start;
        if let Event::Start(Tag::Heading { .. }) = event {
            theirs.push(source.line_start(at));
        } else if let Some(message) = complaint(&event, || is_data(at)) {
            found.push((at, message));
        }
    }
    found.sort_unstable();
    // One complaint a line is enough.
    let mut last = None;
    for (at, message) in found {
        let line = source.line_start(at);
        if ours.refused.binary_search(&line).is_err() && last.replace(line) != Some(line) {
            findings.add(Code::MarkdownForbidden, at, message);
        }
    }
    if ours.refused.is_empty() && last.is_none() && theirs != ours.headings {
        let differs = ours.headings.iter().chain(&theirs).find(|at| {
            theirs.binary_search(at).is_err() || ours.headings.binary_search(at).is_err()
        });
        let message = "readers of Markdown disagree about the headings from here on";
        findings.add(Code::MarkdownForbidden, differs.copied().unwrap_or(body), message);
    }
}

fn excess(source: &Source<'_>, body: usize) -> Option<usize> {
    let mut lines = source.lines_from(body).enumerate();
    let (_, line) =
        lines.find(|(number, line)| *number >= MAX_LINES || line.text.len() > MAX_LINE_BYTES)?;
    Some(line.at)
}

fn complaint(event: &Event<'_>, is_data: impl Fn() -> bool) -> Option<&'static str> {
    match event {
        Event::Start(Tag::CodeBlock(_)) => Some("a code block, by its indentation or a fence"),
        Event::Start(Tag::HtmlBlock) => Some("a block of HTML"),
        Event::InlineHtml(_) if !is_data() => Some("HTML inside of a line"),
        Event::Start(Tag::BlockQuote(_)) => Some("a block of quotation"),
        Event::Rule => Some("a rule"),
        _ => None,
    }
}
