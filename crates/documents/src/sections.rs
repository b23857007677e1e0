//! The body: named sections in a fixed order, read line by line.
//!
//! A second, independent reader of Markdown then says what it sees. If the two disagree about a
//! heading, or if it sees anything that hides or reshapes text, the document is refused: what a
//! person reads in a viewer is what is judged here.

mod markdown;

use crate::code::Code;
use crate::reason::Findings;
use crate::text::{Line, Source};

/// A section of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    /// Its lines are data: what would be markup inside of a line means nothing.
    pub verbatim: bool,
}

/// The sections that were found, each at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sections<'a> {
    found: Vec<Section<'a>>,
    end: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section<'a> {
    pub name: &'static str,
    /// Where its heading stands.
    pub at: usize,
    /// Everything up to the next heading, without lines that were refused already.
    pub lines: Vec<Line<'a>>,
}

impl<'a> Section<'a> {
    pub fn filled(&self) -> impl Iterator<Item = Line<'a>> {
        self.lines.iter().copied().filter(|line| !line.is_blank())
    }
}

impl<'a> Sections<'a> {
    pub fn get(&self, name: &str) -> Option<&Section<'a>> {
        self.found.iter().find(|section| section.name == name)
    }

    /// Where a section stands; the end of the document for one that is not there.
    pub fn at(&self, name: &str) -> usize {
        self.get(name).map_or(self.end, |section| section.at)
    }
}

/// Reads the body, which begins at an offset, by the sections of a schema.
pub fn read<'a>(
    source: &Source<'a>,
    body: usize,
    parts: &[Part],
    findings: &mut Findings,
) -> Sections<'a> {
    let mut reader = Reader {
        parts,
        findings,
        found: Vec::new(),
        headings: Vec::new(),
        refused: Vec::new(),
        place: Place::Before,
    };
    source.lines_from(body).for_each(|line| reader.line(line));
    reader.finish(source, body)
}

/// Where in the body the reader is.
enum Place {
    Before,
    /// In the section that was found last.
    Inside,
    /// Below a heading that does not count.
    Lost,
}

struct Reader<'a, 'p, 'f> {
    parts: &'p [Part],
    findings: &'f mut Findings,
    found: Vec<Section<'a>>,
    /// Where headings were seen, whatever they say.
    headings: Vec<usize>,
    /// The beginnings of lines that were refused for what they are in Markdown.
    refused: Vec<usize>,
    place: Place,
}

impl<'a> Reader<'a, '_, '_> {
    fn line(&mut self, line: Line<'a>) {
        if let Some((code, message)) = refusal(line.text) {
            self.refused.push(line.at);
            self.findings.add(code, line.at, message);
        } else if is_heading(line.text) {
            self.headings.push(line.at);
            self.heading(line);
        } else {
            self.text(line);
        }
    }

    fn heading(&mut self, line: Line<'a>) {
        self.place = Place::Lost;
        let name = line.text.strip_prefix("## ").map(|name| name.trim_end_matches(' '));
        let Some(part) = self.parts.iter().find(|part| Some(part.name) == name) else {
            let message = "is no heading of this schema";
            return self.findings.quote(Code::SectionUnknown, line.at, line.text, message);
        };
        if self.found.iter().any(|section| section.name == part.name) {
            let message = "stands twice";
            return self.findings.quote(Code::SectionDuplicate, line.at, line.text, message);
        }
        if self.found.iter().any(|section| self.rank(section.name) > self.rank(part.name)) {
            let message = "stands after a section that comes later in the schema";
            self.findings.quote(Code::SectionOrder, line.at, line.text, message);
        }
        self.place = Place::Inside;
        self.found.push(Section { name: part.name, at: line.at, lines: Vec::new() });
    }

    fn rank(&self, name: &str) -> usize {
        self.parts.iter().position(|part| part.name == name).unwrap_or(usize::MAX)
    }

    fn text(&mut self, line: Line<'a>) {
        match self.place {
            Place::Inside => self.found.last_mut().into_iter().for_each(|s| s.lines.push(line)),
            // The first such line says it for all of them.
            Place::Before if !line.is_blank() => {
                self.place = Place::Lost;
                let message = "text stands before the first section";
                self.findings.add(Code::TextOutsideSections, line.at, message);
            }
            Place::Before | Place::Lost => {}
        }
    }

    fn finish(self, source: &Source<'a>, body: usize) -> Sections<'a> {
        let end = source.text().len();
        for part in self.parts {
            if !self.found.iter().any(|section| section.name == part.name) {
                let message = format_args!("the section `## {}` is missing", part.name);
                self.findings.add(Code::SectionMissing, end, message);
            }
        }
        let sections = Sections { found: self.found, end };
        let is_data = |at: usize| {
            let inside = sections.found.iter().rev().find(|section| section.at <= at);
            let part = |name| self.parts.iter().find(|part| part.name == name);
            inside.and_then(|section| part(section.name)).is_some_and(|part| part.verbatim)
        };
        let ours = markdown::Ours { headings: &self.headings, refused: &self.refused };
        markdown::compare(source, body, &ours, is_data, self.findings);
        sections
    }
}

/// Lines that are more than text in Markdown, headings apart.
fn refusal(line: &str) -> Option<(Code, &'static str)> {
    let content = line.trim_start_matches(' ');
    let only = |mark: char| content.trim_end_matches(' ').chars().all(|c| c == mark);
    if line == "---" {
        Some((Code::ExtraDocument, "a further line `---`"))
    } else if content.starts_with("```") || content.starts_with("~~~") {
        Some((Code::MarkdownForbidden, "the fence of a code block"))
    } else if !content.is_empty() && (only('=') || (only('-') && content.len() > 1)) {
        Some((Code::MarkdownForbidden, "an underlined heading or a rule"))
    } else {
        None
    }
}

/// `#` to `######` and a blank or the end, indented by at most three, as Markdown has it.
fn is_heading(line: &str) -> bool {
    let content = line.trim_start_matches(' ');
    let after = content.trim_start_matches('#');
    let marks = content.len() - after.len();
    line.len() - content.len() <= 3
        && (1..=6).contains(&marks)
        && (after.is_empty() || after.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &[Part] =
        &[Part { name: "One", verbatim: true }, Part { name: "Two Words", verbatim: false }];

    fn check(body: &str) -> Vec<(Code, u32)> {
        let source = Source::of(body);
        let mut findings = Findings::new();
        let _ = read(&source, 0, PARTS, &mut findings);
        let reasons = findings.into_reasons(&source);
        reasons.iter().map(|reason| (reason.code, reason.line)).collect()
    }

    #[test]
    fn sections_and_their_lines_are_found() {
        let text = "\n## One\na <b>\n\n## Two Words  \n- b\n  c\n\n";
        assert_eq!(check(text), []);
        let source = Source::of(text);
        let sections = read(&source, 0, PARTS, &mut Findings::new());
        let lines = |name| sections.get(name).unwrap().filled().map(|line| line.text);
        assert_eq!(lines("One").collect::<Vec<_>>(), ["a <b>"]);
        assert_eq!(lines("Two Words").collect::<Vec<_>>(), ["- b", "  c"]);
        assert_eq!(check("## One\n## Two Words"), []);
        assert_eq!(
            check("## One\n#tag\n## Two Words\nuse a < b > c and `<b>` and <https://a.org>\n"),
            []
        );
    }

    #[test]
    fn anything_else_in_the_structure_is_refused() {
        use Code::{
            ExtraDocument, MarkdownForbidden, SectionDuplicate, SectionMissing, SectionOrder,
            SectionUnknown, TextOutsideSections,
        };
        for (body, expected) in [
            ("## One\n", vec![(SectionMissing, 2)]),
            ("## Two Words\n## One\n", vec![(SectionOrder, 2)]),
            ("## One\n## One\n## Two Words\n", vec![(SectionDuplicate, 2)]),
            ("x\ny\n## One\n## Two Words\n", vec![(TextOutsideSections, 1)]),
            ("## One\n## Two Words\n## Three\n", vec![(SectionUnknown, 3)]),
            ("## One\n## Two Words\n### Three\n", vec![(SectionUnknown, 3)]),
            ("# Title\n## One\n## Two Words\n", vec![(SectionUnknown, 1)]),
            ("## One\n## two words\n", vec![(SectionUnknown, 2), (SectionMissing, 3)]),
            ("## One\n ## Two Words\n", vec![(SectionUnknown, 2), (SectionMissing, 3)]),
            ("## One\n## Two Words\n---\n", vec![(ExtraDocument, 3)]),
            ("## One\n## Two Words\nx\n===\n", vec![(MarkdownForbidden, 4)]),
            ("## One\n## Two Words\nx\n-----\n", vec![(MarkdownForbidden, 4)]),
            (
                "## One\n## Two Words\n```\nx\n```\n",
                vec![(MarkdownForbidden, 3), (MarkdownForbidden, 5)],
            ),
            ("## One\n## Two Words\n~~~\n", vec![(MarkdownForbidden, 3)]),
            ("## One\n## Two Words\n\n    code\n", vec![(MarkdownForbidden, 4)]),
            ("## One\n## Two Words\n> x\n", vec![(MarkdownForbidden, 3)]),
            ("## One\n## Two Words\n***\n", vec![(MarkdownForbidden, 3)]),
            ("## One\n## Two Words\n<!-- x\n-->\n", vec![(MarkdownForbidden, 3)]),
            ("## One\n## Two Words\nx <b>y</b>\n", vec![(MarkdownForbidden, 3)]),
            ("## One\n<!-- \n## Two Words\n-->\n", vec![(MarkdownForbidden, 2)]),
            ("## One\n## Two Words\n\n[a]: b\n", vec![(MarkdownForbidden, 4)]),
            ("## One\n## Two Words\n- # x\n", vec![(MarkdownForbidden, 3)]),
            ("## One\n## Two Words\nx\n-\n", vec![(MarkdownForbidden, 3)]),
        ] {
            assert_eq!(check(body), expected, "{body}");
        }
    }
}
