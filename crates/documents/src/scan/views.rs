//! One text seen in several ways, each with the way back to the text itself.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;

use super::matcher::span;
use super::spans::Span;
use super::words::{Word, words};
use super::{Found, assign, claims, decode, fold, forms, install, instruct, join, payload, shapes};

/// Digests that a document declares: they look like keys and are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    digests: BTreeSet<String>,
}

impl Known {
    /// Only whole SHA-256 digests in hexadecimal count; anything else is left out.
    pub fn of<S: AsRef<str>>(digests: impl IntoIterator<Item = S>) -> Self {
        let whole = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let digests = digests.into_iter().map(|text| text.as_ref().to_ascii_lowercase());
        Known { digests: digests.filter(|text| whole(text)).collect() }
    }

    /// The text with every declared digest blanked, at the same places.
    fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.digests.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = text.to_owned();
        for (at, run) in hex_runs(text) {
            if self.digests.contains(&run.to_ascii_lowercase()) {
                masked.replace_range(at..at + run.len(), &" ".repeat(run.len()));
            }
        }
        Cow::Owned(masked)
    }
}

/// Runs of letters and digits as long as a digest.
fn hex_runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let start = at;
            let length = span(bytes, at, |byte| byte.is_ascii_alphanumeric());
            at += length.max(1);
            if length == 64 {
                return text.get(start..at).map(|run| (start, run));
            }
        }
        None
    })
}

/// A stretch of a view and where it came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) at: usize,
    pub(super) from: usize,
    /// So many bytes of the source make so many of the view.
    pub(super) ratio: (usize, usize),
}

impl Piece {
    pub(super) fn same(at: usize, from: usize) -> Self {
        Piece { at, from, ratio: (1, 1) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// As it was, or with what cannot be seen taken out.
    Plain,
    /// Lines and strings put together: what stood apart is neighbours now.
    Joined,
}

/// A text made from another.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) text: String,
    pub(super) pieces: Vec<Piece>,
}

impl Made {
    /// Appends what was taken over unchanged, as part of the piece before where that fits.
    pub(super) fn keep(&mut self, text: &str, from: usize) {
        let at = self.text.len();
        let fits =
            |piece: &Piece| piece.ratio == (1, 1) && at - piece.at == from.wrapping_sub(piece.from);
        if !self.pieces.last().is_some_and(fits) {
            self.pieces.push(Piece::same(at, from));
        }
        self.text.push_str(text);
    }
}

#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) kind: Kind,
    pieces: Vec<Piece>,
    parent: Option<usize>,
    words: OnceCell<Vec<Word>>,
}

impl View<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Split once, for whoever asks first.
    pub(super) fn words(&self) -> &[Word] {
        self.words.get_or_init(|| words(self.bytes()))
    }

    /// Whether something was taken out just before this place.
    pub(super) fn gap(&self, at: usize) -> bool {
        self.kind == Kind::Joined && self.pieces.binary_search_by_key(&at, |piece| piece.at).is_ok()
    }

    fn source(&self, at: usize) -> usize {
        let index = self.pieces.partition_point(|piece| piece.at <= at);
        let piece = index.checked_sub(1).and_then(|index| self.pieces.get(index));
        piece.map_or(at, |piece| piece.from + (at - piece.at) * piece.ratio.0 / piece.ratio.1)
    }
}

/// All views of one text, made once for every kind of finding.
#[derive(Debug)]
pub struct Views<'a> {
    list: Vec<View<'a>>,
    /// Set when undoing encodings gave more than any honest text does.
    overflow: bool,
    room: usize,
}

/// How deep encodings are undone.
const DEPTH: usize = 2;

impl<'a> Views<'a> {
    pub fn of(text: &'a str, known: &Known) -> Self {
        let room = text.len().saturating_mul(8).saturating_add(4096);
        let raw = View {
            text: known.mask(text),
            kind: Kind::Plain,
            pieces: Vec::new(),
            parent: None,
            words: OnceCell::new(),
        };
        let mut views = Views { list: vec![raw], overflow: false, room };
        let mut layer = vec![0];
        for depth in 0..=DEPTH {
            let last = depth == DEPTH;
            layer = layer.into_iter().flat_map(|view| views.grow(view, last)).collect();
        }
        views
    }

    /// Adds what a view looks like folded and joined, and returns what was encoded in it.
    fn grow(&mut self, view: usize, last: bool) -> Vec<usize> {
        let plain = self.derive(view, Kind::Plain, fold::fold).unwrap_or(view);
        let joined = self.derive(plain, Kind::Joined, join::join).unwrap_or(plain);
        if last {
            return Vec::new();
        }
        let unescaped = self.derive(plain, Kind::Plain, decode::unescape);
        let decoded = self.derive(joined, Kind::Plain, decode::decode);
        unescaped.into_iter().chain(decoded).collect()
    }

    fn derive(&mut self, from: usize, kind: Kind, make: fn(&str) -> Option<Made>) -> Option<usize> {
        let made = make(&self.list.get(from)?.text)?;
        let Some(room) = self.room.checked_sub(made.text.len()) else {
            self.overflow = true;
            return None;
        };
        self.room = room;
        let text = Cow::Owned(made.text);
        self.list.push(View {
            text,
            kind,
            pieces: made.pieces,
            parent: Some(from),
            words: OnceCell::new(),
        });
        Some(self.list.len() - 1)
    }

    fn to_raw<'v>(&'v self, mut view: &'v View<'a>, mut at: usize) -> usize {
        while let Some(parent) = view.parent.and_then(|parent| self.list.get(parent)) {
            at = view.source(at);
            view = parent;
        }
        at
    }

    pub fn secrets(&self) -> Vec<Found> {
        self.find(|view, found| {
            let spans = secrets_of(view).into_iter();
            found.extend(spans.map(|span| Found { offset: span.start, rule: span.rule }));
        })
    }

    /// Where the secrets stand in the text that was handed in, in order. What was encoded is
    /// covered with everything that can belong to the same encoding; spans may overlap.
    pub fn secret_spans(&self) -> Vec<Span> {
        let Some(raw) = self.list.first() else { return Vec::new() };
        let mut all = BTreeSet::new();
        for view in &self.list {
            all.extend(secrets_of(view).into_iter().map(|span| self.span_in_raw(raw, view, span)));
        }
        let mut spans: Vec<Span> = all.into_iter().collect();
        spans.dedup_by(|longer, span| longer.only_adds_words(span, &raw.text));
        spans
    }

    fn span_in_raw(&self, raw: &View<'_>, view: &View<'_>, span: Span) -> Span {
        let start = self.to_raw(view, span.start);
        let last = self.to_raw(view, span.end.saturating_sub(1).max(span.start));
        let found = Span { start, end: last.max(start) + 1, ..span };
        let exact = self.is_exact(view);
        if exact { found.on_characters(&raw.text) } else { found.over_encoding(&raw.text) }
    }

    /// Whether every byte of a view stands for one byte or character of the text itself.
    fn is_exact<'v>(&'v self, mut view: &'v View<'a>) -> bool {
        while let Some(parent) = view.parent.and_then(|parent| self.list.get(parent)) {
            if view.pieces.iter().any(|piece| piece.ratio != (1, 1)) {
                return false;
            }
            view = parent;
        }
        true
    }

    pub fn installs(&self) -> Vec<Found> {
        self.find_plain(install::find)
    }

    pub fn payloads(&self) -> Vec<Found> {
        let mut found = self.find(payload::find);
        if self.overflow {
            found.push(Found { offset: 0, rule: "encoded-beyond-measure" });
        }
        found
    }

    pub fn claims(&self) -> Vec<Found> {
        self.find_plain(claims::find)
    }

    pub fn instructions(&self) -> Vec<Found> {
        self.find_plain(instruct::find)
    }

    fn find_plain(&self, find: fn(&View<'_>, &mut Vec<Found>)) -> Vec<Found> {
        self.find(|view, found| {
            if view.kind == Kind::Plain {
                find(view, found);
            }
        })
    }

    fn find(&self, find: impl Fn(&View<'_>, &mut Vec<Found>)) -> Vec<Found> {
        let mut all = BTreeSet::new();
        let mut found = Vec::new();
        for view in &self.list {
            find(view, &mut found);
            let drained = found.drain(..);
            all.extend(drained.map(|f| Found { offset: self.to_raw(view, f.offset), ..f }));
        }
        all.into_iter().collect()
    }
}

fn secrets_of(view: &View<'_>) -> Vec<Span> {
    let mut found = Vec::new();
    forms::find(view, &mut found);
    if view.kind == Kind::Plain {
        assign::find(view, &mut found);
        shapes::find(view, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        Views::of(text, &Known::default()).list.iter().map(|view| view.text.to_string()).collect()
    }

    #[test]
    fn a_plain_line_has_one_view() {
        assert_eq!(texts("nothing hidden here"), ["nothing hidden here"]);
    }

    #[test]
    fn each_way_of_hiding_is_undone_and_leads_back() {
        let text = "x ab\u{200b}cd\n  ef";
        let views = Views::of(text, &Known::default());
        let joined = views.list.iter().find(|view| view.kind == Kind::Joined).unwrap();
        assert_eq!(joined.text, "x abcdef");
        assert_eq!(views.to_raw(joined, 4), text.find('c').unwrap());
        assert_eq!(views.to_raw(joined, 6), text.find('e').unwrap());
        assert!(joined.gap(6) && !joined.gap(5));
    }

    #[test]
    fn encodings_are_undone_two_deep() {
        // "the hidden text" in base64, then in hexadecimal.
        let twice = "6447686c49476870 5a47526c6269423057486830".replace(' ', "");
        assert!(
            texts(&twice).iter().any(|text| text.contains("the hidden")),
            "{:?}",
            texts(&twice)
        );
    }

    #[test]
    fn declared_digests_are_masked_and_others_are_not() {
        let digest = "ab".repeat(32);
        let known = Known::of([&digest]);
        assert_eq!(known.mask(&format!("a {digest} b")), format!("a {} b", " ".repeat(64)));
        let longer = format!("{digest}a");
        assert_eq!(known.mask(&longer), longer);
        assert_eq!(Known::of(["short", "zz"]), Known::default());
    }
}
