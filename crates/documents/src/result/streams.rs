//! Stdout and stderr as a result shows them.

use countersign_model::Digest;

use super::fields::FrontMatter;
use super::shown;
use super::{Artifact, MAX_LINE_CHARS, MAX_LINES, MAX_SHOWN_BYTES, Note, Pipe};
use crate::code::Code;
use crate::reason::Findings;
use crate::sections::Sections;
use crate::text::Line;

/// What a section shows.
pub(super) struct Stream<'a> {
    pub(super) lines: Vec<Line<'a>>,
    /// The bytes that the lines stand for.
    pub(super) bytes: Vec<u8>,
    /// Whether the bytes were held against the digest.
    pub(super) hashed: bool,
}

/// What stands below the lines.
enum End {
    Whole,
    Open,
    Cut { shown: u64, total: u64 },
    Withheld(Vec<Note>),
}

pub(super) fn judge<'a>(
    pipe: Pipe,
    sections: &Sections<'a>,
    fields: &FrontMatter,
    notes: &[(Note, u64)],
    findings: &mut Findings,
) -> Stream<'a> {
    let Some(section) = sections.get(pipe.section()) else {
        return Stream { lines: Vec::new(), bytes: Vec::new(), hashed: false };
    };
    let mut reader =
        Reader { pipe, at: section.at, lines: Vec::new(), end: End::Whole, fields, findings };
    let filled = section.lines.iter().rposition(|line| !line.is_blank()).map_or(0, |last| last + 1);
    let lines = section.lines.get(..filled).unwrap_or_default();
    let complete = reader.read(lines.iter().copied().skip_while(Line::is_blank));
    reader.measure();
    reader.finish(complete, notes)
}

struct Reader<'a, 'f> {
    pipe: Pipe,
    at: usize,
    lines: Vec<Line<'a>>,
    end: End,
    fields: &'f FrontMatter,
    findings: &'f mut Findings,
}

impl<'a> Reader<'a, '_> {
    /// Whether every line has one of the forms.
    fn read(&mut self, lines: impl Iterator<Item = Line<'a>>) -> bool {
        let mut ended = false;
        let mut complete = true;
        for line in lines {
            if let Some(text) = shown_text(line).filter(|_| !ended) {
                self.lines.push(Line { at: line.at + line.text.len() - text.len(), text });
            } else if let Some(end) = end(line.text, self.pipe).filter(|_| !ended) {
                ended = true;
                self.end = end;
            } else {
                complete = false;
                let fix = "write each line of the stream behind `| `, and a note only at the end";
                let message = "this line is neither of the stream nor a note about it";
                self.findings.add_fix(Code::LineUnknown, line.at, message, fix);
            }
        }
        complete
    }

    fn measure(&mut self) {
        if let Some(line) = self.lines.get(MAX_LINES) {
            let message = format_args!("{} lines are shown", self.lines.len());
            self.findings.add(Code::StreamTooLong, line.at, message);
        }
        let long = self.lines.iter().find(|line| line.text.chars().count() > MAX_LINE_CHARS);
        if let Some(line) = long {
            let message = format_args!("a line of more than {MAX_LINE_CHARS} characters");
            self.findings.add(Code::StreamTooLong, line.at, message);
        }
        let bytes: usize = self.lines.iter().map(|line| line.text.len() + 3).sum();
        if bytes > MAX_SHOWN_BYTES {
            self.findings.add(
                Code::StreamTooLong,
                self.at,
                format_args!("{bytes} bytes are shown"),
            );
        }
    }

    fn finish(mut self, complete: bool, notes: &[(Note, u64)]) -> Stream<'a> {
        let open = matches!(self.end, End::Open);
        let mut bytes = shown::bytes(self.lines.iter().map(|line| line.text), open);
        let mut hashed = false;
        match std::mem::replace(&mut self.end, End::Whole) {
            End::Cut { shown, total } => self.cut(shown, total),
            End::Withheld(codes) => self.withheld(&codes, notes),
            End::Whole | End::Open if !complete => {}
            End::Whole | End::Open => {
                hashed = self.fields.digest(self.pipe).is_some();
                bytes = self.held(open, bytes);
            }
        }
        Stream { lines: self.lines, bytes, hashed }
    }

    /// The bytes with the digest of the front matter.
    fn held(&mut self, open: bool, bytes: Vec<u8>) -> Vec<u8> {
        let Some(digest) = self.fields.digest(self.pipe) else { return bytes };
        let found = matching(|| self.lines.iter().map(|line| line.text), open, digest);
        if found.is_none() {
            let message = "what is shown has another digest than the front matter says";
            self.findings.add(Code::StreamDigest, self.at, message);
        }
        found.unwrap_or(bytes)
    }

    fn artifact(&self) -> Option<&Artifact> {
        let file = self.pipe.file();
        self.fields.artifacts.iter().flatten().find(|artifact| artifact.path == file)
    }

    fn cut(&mut self, shown: u64, total: u64) {
        if shown != self.lines.len() as u64 || total < shown {
            let message = format_args!(
                "{} lines are shown, the note says {shown} of {total}",
                self.lines.len()
            );
            self.findings.add(Code::TruncationInconsistent, self.at, message);
        }
        let digest = self.fields.digest(self.pipe);
        let kept = self.artifact().is_some_and(|artifact| Some(artifact.sha256) == digest);
        // Without the two lists there is nothing to compare, and that was said already.
        if !kept && digest.is_some() && self.fields.artifacts.is_some() {
            let message =
                format_args!("no artifact `{}` has the digest of the stream", self.pipe.file());
            self.findings.add(Code::TruncationInconsistent, self.at, message);
        }
    }

    fn withheld(&mut self, codes: &[Note], notes: &[(Note, u64)]) {
        let named = |code: &Note| notes.iter().any(|(note, _)| note == code);
        let own = |code: &Note| code.pipe() == Some(self.pipe);
        let message = if !self.lines.is_empty() {
            "lines are shown although the stream is withheld"
        } else if !codes.iter().all(own) {
            "a code that is not one of this stream"
        } else if !codes.iter().all(named) {
            "a code that is not repeated under `Unexpected behavior:`"
        } else if self.artifact().is_some() {
            "the stream is withheld, but listed as an artifact"
        } else {
            return;
        };
        self.findings.add(Code::WithheldInconsistent, self.at, message);
    }
}

/// The bytes with this digest among all that the lines can stand for: with their escapes undone, as
/// they are, and each with or without an end of the last line.
fn matching<'l, I: Iterator<Item = &'l str>>(
    texts: impl Fn() -> I,
    open: bool,
    digest: Digest,
) -> Option<Vec<u8>> {
    let literal = |open: bool| {
        let mut bytes: Vec<u8> =
            texts().flat_map(|line| [line.as_bytes(), b"\n"]).flatten().copied().collect();
        if open {
            bytes.pop();
        }
        bytes
    };
    let opens: &[bool] = if open { &[true] } else { &[false, true] };
    let undone = opens.iter().map(|open| shown::bytes(texts(), *open));
    undone.chain(opens.iter().map(|open| literal(*open))).find(|bytes| Digest::of(bytes) == digest)
}

/// What a line shows; an empty one may have lost its blank.
fn shown_text(line: Line<'_>) -> Option<&str> {
    if line.text == "|" { Some("") } else { line.text.strip_prefix(shown::PREFIX) }
}

fn end(text: &str, pipe: Pipe) -> Option<End> {
    let inner = text.trim_end_matches(' ').strip_prefix('[')?.strip_suffix(']')?;
    if inner == "no newline at the end" {
        return Some(End::Open);
    }
    if let Some(rest) = inner.strip_prefix("truncated: shown ") {
        let (counts, file) = rest.split_once(" lines; full text in ")?;
        let (shown, total) = counts.split_once(" of ")?;
        let file = file.strip_prefix("/out/").unwrap_or(file);
        let cut = End::Cut { shown: shown.parse().ok()?, total: total.parse().ok()? };
        return (file == pipe.file()).then_some(cut);
    }
    let (codes, _) = inner.strip_prefix("withheld: ")?.split_once("; ")?;
    Some(End::Withheld(codes.split(", ").map(Note::parse).collect::<Option<_>>()?))
}
