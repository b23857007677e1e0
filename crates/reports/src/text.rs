//! Text from strangers: cut to size, and without what would steer a terminal.

pub const MAX_NAME: usize = 512;
pub const MAX_MESSAGE: usize = 2 * 1024;
pub const MAX_DETAILS: usize = 8 * 1024;

const CUT: &str = " […]";

/// The beginning of a text, with a mark where it was cut.
pub(crate) fn capped(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max.saturating_sub(CUT.len()));
    let mut cut = text.get(..end).unwrap_or_default().to_owned();
    cut.push_str(CUT);
    cut
}

/// A text for one field: no escape sequences, no control characters, no blanks around it.
pub(crate) fn clean(text: &str, max: usize) -> String {
    // What is far beyond the cut need not be looked at.
    let near = text.get(..text.floor_char_boundary(max.saturating_mul(4))).unwrap_or(text);
    let plain = without_escapes(near);
    capped(plain.trim(), max)
}

pub(crate) fn clean_opt(text: &str, max: usize) -> Option<String> {
    Some(clean(text, max)).filter(|text| !text.is_empty())
}

/// Removes terminal escapes and control characters other than line feeds and tabs.
pub(crate) fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, escape) = rest.split_at_checked(at).unwrap_or((rest, ""));
        push_visible(&mut plain, before);
        rest = after_escape(escape);
    }
    push_visible(&mut plain, rest);
    plain
}

fn push_visible(plain: &mut String, text: &str) {
    plain.extend(text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')));
}

/// What follows an escape sequence at the beginning of the text.
fn after_escape(text: &str) -> &str {
    let text = text.strip_prefix('\u{1b}').unwrap_or(text);
    if let Some(control) = text.strip_prefix('[') {
        let end = control.find(|c: char| ('@'..='~').contains(&c) || c.is_control());
        return end.and_then(|end| control.get(end + 1..)).unwrap_or_default();
    }
    // Two characters: a character set is named by the second.
    let set = text.strip_prefix(['(', ')']).unwrap_or(text);
    let mut chars = set.chars();
    if chars.next().is_some_and(|c| c.is_ascii_graphic()) { chars.as_str() } else { set }
}

/// The first line that says something.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// Collects the lines of one thing up to a size, and forgets the others.
#[derive(Debug, Default, Clone)]
pub(crate) struct Block {
    text: String,
    full: bool,
}

impl Block {
    pub(crate) fn push(&mut self, line: &str) {
        let room = (MAX_DETAILS * 2).saturating_sub(self.text.len());
        if self.full || line.len() >= room {
            let end = line.floor_char_boundary(room);
            self.text.push_str(line.get(..end).unwrap_or_default());
            self.full = true;
            return;
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Seconds as a tool prints them, in milliseconds.
pub(crate) fn millis(seconds: f64) -> Option<u64> {
    let millis = (seconds * 1000.0).round();
    // Beyond this (a thousand years) the number is a joke; NaN is not in the range either.
    (0.0..=3.2e13).contains(&millis).then_some(millis as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_controls_go() {
        assert_eq!(without_escapes("\u{1b}[31mred\u{1b}[0m\u{1b}(B!\0\r\n"), "red!\n");
        assert_eq!(without_escapes("\u{1b}"), "");
        assert_eq!(without_escapes("\u{1b}[12"), "");
        assert_eq!(without_escapes("a\u{1b}ü"), "aü");
    }

    #[test]
    fn cuts_fall_between_characters_and_are_marked() {
        for max in 6..20 {
            let cut = capped("äöüäöüäöüäöüäöüäöü", max);
            assert!(cut.len() <= max && cut.ends_with(CUT), "{cut}");
        }
        assert_eq!(capped("short", 5), "short");
    }

    #[test]
    fn odd_durations_are_none() {
        assert_eq!(millis(0.0015), Some(2));
        for odd in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(millis(odd), None);
        }
    }

    #[test]
    fn a_block_stops_growing() {
        let mut block = Block::default();
        for _ in 0..100_000 {
            block.push("some line of a log");
        }
        assert!(block.as_str().len() <= MAX_DETAILS * 2);
    }
}
