//! XML as a stream of pieces, without document types, entities of its own, or depth.

use std::io::{BufRead, Read};

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::text::capped;
use crate::unreadable::{Unreadable, Why};

/// One tag or one text. More at once is not read; the document as a whole may be of any size.
const MAX_PIECE: usize = 64 * 1024 * 1024;
const MAX_DEPTH: usize = 128;
const MAX_ATTRIBUTES: usize = 64;
const MAX_VALUE: usize = 64 * 1024;

pub(super) enum Piece<'a> {
    Open(&'a str, Attributes),
    Close,
    Text(&'a str),
}

#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<(String, String)>);

impl Attributes {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }
}

/// Hands over a document that has exactly one root, piece by piece.
pub(super) fn each_piece<R: BufRead + ?Sized>(
    reader: &mut R,
    mut take: impl FnMut(Piece<'_>),
) -> Result<(), Unreadable> {
    let mut xml = Reader::from_reader(Limited { inner: reader, left: MAX_PIECE });
    let mut buffer = Vec::new();
    let mut walk = Walk { depth: 0, roots: 0 };
    loop {
        buffer.clear();
        xml.get_mut().left = MAX_PIECE;
        let event = xml.read_event_into(&mut buffer);
        let event = event.map_err(|error| broken(&error))?;
        if matches!(event, Event::Eof) {
            return walk.end();
        }
        walk.step(&event, &mut take)?;
    }
}

struct Walk {
    depth: usize,
    roots: usize,
}

impl Walk {
    fn step(
        &mut self,
        event: &Event<'_>,
        take: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Unreadable> {
        match event {
            Event::Start(tag) => {
                self.open()?;
                take(Piece::Open(tag.local_name().into_inner(), attributes(tag)?));
            }
            Event::Empty(tag) => {
                self.open()?;
                take(Piece::Open(tag.local_name().into_inner(), attributes(tag)?));
                self.depth -= 1;
                take(Piece::Close);
            }
            Event::End(_) => {
                self.depth = self.depth.saturating_sub(1);
                take(Piece::Close);
            }
            Event::Text(text) => self.text(text, take)?,
            Event::CData(text) => self.text(text, take)?,
            Event::GeneralRef(reference) => self.text(&resolved(reference), take)?,
            Event::DocType(_) => {
                let message = "the report has a document type, which no report needs";
                return Err(Unreadable::new(Why::DocumentType, message));
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::Eof => {}
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), Unreadable> {
        self.roots += usize::from(self.depth == 0);
        self.depth += 1;
        if self.roots > 1 {
            return Err(Unreadable::malformed("the report has more than one root"));
        }
        if self.depth > MAX_DEPTH {
            return Err(Unreadable::new(Why::TooLarge, "the report is nested too deeply"));
        }
        Ok(())
    }

    fn text(&self, text: &str, take: &mut impl FnMut(Piece<'_>)) -> Result<(), Unreadable> {
        if self.depth > 0 {
            take(Piece::Text(text));
        } else if !text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').is_empty() {
            return Err(Unreadable::malformed("there is text outside of the report"));
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Unreadable> {
        match (self.roots, self.depth) {
            (0, _) => Err(super::empty()),
            (_, 0) => Ok(()),
            _ => Err(Unreadable::malformed("the report stops in the middle")),
        }
    }
}

/// Names that appear twice are not looked for: that would take quadratic time.
fn attributes(tag: &BytesStart<'_>) -> Result<Attributes, Unreadable> {
    let mut found = Vec::new();
    for attribute in tag.attributes().with_checks(false).take(MAX_ATTRIBUTES) {
        let attribute = attribute
            .map_err(|error| Unreadable::malformed(format!("an attribute is broken: {error}")))?;
        let raw = capped(&attribute.value, MAX_VALUE);
        let value = unescape(&raw).map(|value| value.into_owned()).unwrap_or(raw);
        found.push((attribute.key.into_inner().to_owned(), value));
    }
    Ok(Attributes(found))
}

/// The five entities of XML and numbers; others stay as they are written.
fn resolved(reference: &BytesRef<'_>) -> String {
    let written = format!("&{};", &**reference);
    unescape(&written).map(|text| text.into_owned()).unwrap_or(written)
}

fn broken(error: &quick_xml::Error) -> Unreadable {
    match error {
        quick_xml::Error::Io(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            Unreadable::new(Why::TooLarge, "one piece of the report is too large")
        }
        quick_xml::Error::Io(error) => {
            Unreadable::new(Why::Input, format!("the report could not be read: {error}"))
        }
        error => Unreadable::malformed(format!("the report is not well-formed XML: {error}")),
    }
}

/// Fails when one piece wants more than its share.
struct Limited<'r, R: ?Sized> {
    inner: &'r mut R,
    left: usize,
}

impl<R: BufRead + ?Sized> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.saturating_sub(read);
        Ok(read)
    }
}

impl<R: BufRead + ?Sized> BufRead for Limited<'_, R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.left == 0 {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        let chunk = self.inner.fill_buf()?;
        let (allowed, _) = chunk.split_at_checked(self.left).unwrap_or((chunk, &[]));
        Ok(allowed)
    }

    fn consume(&mut self, amount: usize) {
        self.left = self.left.saturating_sub(amount);
        self.inner.consume(amount);
    }
}
