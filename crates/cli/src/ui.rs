//! What a person or a program reads. Everything that is printed passes through here.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use countersign_model::{Failure, Lifecycle};
use serde::Serialize;
use serde_json::json;

/// Why a command stopped: with something to tell, or because nobody reads on.
#[derive(Debug)]
pub(crate) enum Stop {
    Failure(Failure),
    /// A part of the result was printed already, so the failure cannot take its place.
    Cut(Failure),
    Output(io::Error),
}

impl<F: Into<Failure>> From<F> for Stop {
    fn from(failure: F) -> Self {
        Stop::Failure(failure.into())
    }
}

/// How much of a list is held back, in case that it cannot be finished.
const AHEAD: usize = 64 << 10;

pub(crate) type Done<T = ()> = Result<T, Stop>;

/// How results are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ui {
    pub(crate) json: bool,
}

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();

/// Text in a style; colours vanish where they are not wanted (`NO_COLOR`, pipes).
pub(crate) fn paint(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

pub(crate) fn state_style(state: Lifecycle) -> Style {
    match state {
        Lifecycle::Completed => GOOD,
        Lifecycle::Failed | Lifecycle::Denied => BAD,
        Lifecycle::Aborted | Lifecycle::RolledBack => WARN,
        _ => BOLD,
    }
}

impl Ui {
    pub(crate) fn line(self, text: impl fmt::Display) -> Done {
        writeln!(anstream::stdout(), "{text}").map_err(Stop::Output)
    }

    /// What is not the result itself, for whoever sits at the terminal.
    pub(crate) fn note(self, text: impl fmt::Display) {
        // The result counts, and it was written.
        let _ = writeln!(anstream::stderr(), "{}", wrap(&text.to_string(), 0));
    }

    /// One JSON document.
    pub(crate) fn json(self, value: &impl Serialize) -> Done {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        self.exact(&escaped(text))
    }

    /// One JSON document on one line.
    pub(crate) fn json_line(self, value: &impl Serialize) -> Done {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        self.exact(&escaped(text))
    }

    /// A line for programs, byte for byte: what makes text fit for a terminal would change it.
    pub(crate) fn exact(self, line: &str) -> Done {
        let mut out = io::stdout().lock();
        let written = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
        written.and_then(|()| out.flush()).map_err(Stop::Output)
    }

    /// One JSON array, an element per line, written as the elements come. A failure before the
    /// first [`AHEAD`] bytes were written is printed in its place; a later one cuts it short.
    pub(crate) fn json_list<T: Serialize>(
        self,
        fill: impl FnOnce(&mut dyn FnMut(&T) -> Done) -> Done,
    ) -> Done {
        let mut pending = String::from("[");
        let (mut first, mut begun) = (true, false);
        let mut send = |pending: &mut String| {
            begun = true;
            let mut out = io::stdout().lock();
            let written = out.write_all(pending.as_bytes()).and_then(|()| out.flush());
            pending.clear();
            written.map_err(Stop::Output)
        };
        let filled = fill(&mut |value| {
            let text = serde_json::to_string(value)
                .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
            pending.push_str(if std::mem::replace(&mut first, false) { "\n" } else { ",\n" });
            pending.push_str(&escaped(text));
            if pending.len() < AHEAD { Ok(()) } else { send(&mut pending) }
        });
        match filled {
            Ok(()) => {
                pending.push_str("\n]\n");
                send(&mut pending)
            }
            Err(Stop::Failure(failure)) if begun => Err(Stop::Cut(failure)),
            Err(stop) => Err(stop),
        }
    }

    pub(crate) fn failure(self, failure: &Failure) {
        // If even this cannot be written there is nobody left to tell.
        let _ = if self.json {
            self.json(&json!({"success": false, "error": failure})).map_err(|_| ())
        } else {
            write_failure(&mut anstream::stderr(), failure).map_err(|_| ())
        };
    }
}

/// The result is lost, but whoever waits for it should know why.
pub(crate) fn unwritten(error: &io::Error) {
    let text = format!("the result could not be written: {error}");
    let hint = "what was done is in the journal: `countersign execution show last`";
    let failure = Failure::state("OUTPUT_UNWRITTEN", text).hint(hint);
    // If even this cannot be written there is nobody left to tell.
    let _ = write_failure(&mut anstream::stderr(), &failure);
}

/// What the parser says about a wrong command line. It repeats what was typed, or pasted.
pub(crate) fn usage(error: &clap::Error) {
    let text = error.render().to_string();
    let safe: Vec<_> = text.lines().map(inert).collect();
    // Nobody is left to tell if this cannot be written.
    let _ = match text.lines().eq(safe.iter()) {
        true => error.print(),
        false => writeln!(anstream::stderr(), "{}", safe.join("\n")),
    };
}

/// A path as a person may read it.
pub(crate) fn shown(path: &Path) -> String {
    inert(&path.display().to_string())
}

/// One word for a POSIX shell, quoted only if it must be.
pub(crate) fn shell_word(text: impl fmt::Display) -> String {
    let text = text.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn write_failure(out: &mut dyn Write, failure: &Failure) -> io::Result<()> {
    let label = paint(BAD, "error:");
    let code = paint(DIM, format!("[{}]", failure.code));
    writeln!(out, "{}", wrap(&format!("{label} {} {code}", inert(&failure.message)), 0))?;
    if let Some(hint) = &failure.hint {
        writeln!(out, "{}", wrap(&format!("{} {}", paint(BOLD, "hint:"), inert(hint)), 0))?;
    }
    match failure.execution_id {
        Some(id) => writeln!(out, "{}", paint(DIM, format!("execution {id}"))),
        None => Ok(()),
    }
}

/// Text from tools and agents, made harmless: control characters, and characters that hide or
/// reorder text, are shown by their number.
pub(crate) fn inert(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            c if is_harmful(c) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// As [`inert`], for text that has lines: their ends, and tabs, stay what they are.
pub(crate) fn inert_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(['\n', '\t']) {
        let end = part.trim_end_matches(['\n', '\t']);
        shown.push_str(&inert(end));
        shown.push_str(part.get(end.len()..).unwrap_or_default());
    }
    shown
}

/// The same JSON, harmless on a terminal: what [`inert`] would show by its number can only stand
/// inside a string, where JSON has a spelling for it.
fn escaped(json: String) -> String {
    let is_unsafe = |c: char| (c.is_control() && c != '\n') || is_deceptive(c);
    if !json.contains(is_unsafe) {
        return json;
    }
    let mut safe = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Whether a character commands a terminal, hides, or reorders what stands around it.
pub(crate) fn is_harmful(c: char) -> bool {
    c.is_control() || is_deceptive(c)
}

fn is_deceptive(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The width to write for; a pipe has none and gets whole lines.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0).max(30))
}

/// Breaks a line at spaces so that it fits the terminal; further lines are indented.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    wrap_to(text, indent, width())
}

fn wrap_to(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let words = text.trim_start_matches(' ');
    let mut used = text.len() - words.len();
    let mut lines = " ".repeat(used);
    let mut is_first = true;
    for word in words.split(' ') {
        let length = visible_length(word);
        if used > indent && used + 1 + length > width {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent + 2));
            used = indent + 2;
        } else if !is_first {
            lines.push(' ');
            used += 1;
        }
        is_first = false;
        lines.push_str(word);
        used += length;
    }
    lines
}

/// Characters that take room: escape sequences do not.
fn visible_length(word: &str) -> usize {
    let mut length = 0;
    let mut escape = false;
    for c in word.chars() {
        match (escape, c) {
            (false, '\u{1b}') => escape = true,
            (false, _) => length += 1,
            (true, 'm') => escape = false,
            (true, _) => {}
        }
    }
    length
}

pub(crate) fn bytes(size: u64) -> String {
    match size {
        0..1024 => format!("{size} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", size as f64 / 1024.0),
        _ => format!("{:.1} MiB", size as f64 / 1_048_576.0),
    }
}

/// A line on the terminal that is overwritten until the work is done.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    started: std::time::Instant,
    shown: std::time::Instant,
    visible: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        let now = std::time::Instant::now();
        Progress { what, started: now, shown: now, visible: false }
    }

    /// Says how far the work is, once it has taken a second, and then ten times a second.
    pub(crate) fn tick(&mut self, done: u64) {
        let due =
            self.started.elapsed().as_millis() > 1000 && self.shown.elapsed().as_millis() > 100;
        if due && io::stderr().is_terminal() {
            self.shown = std::time::Instant::now();
            self.visible = true;
            let _ = write!(anstream::stderr(), "\r{} {done} …\u{1b}[K", self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.visible {
            let _ = write!(anstream::stderr(), "\r\u{1b}[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_and_reordering_characters_are_shown() {
        assert_eq!(inert("a\u{202e}b\u{1b}[31m\n"), "a\\u{202e}b\\u{1b}[31m\\n");
        assert_eq!(inert("naïve 日本"), "naïve 日本");
        assert_eq!(inert_lines("a\tb\r\n\n\u{1b}c\n"), "a\tb\\u{d}\n\n\\u{1b}c\n");
    }

    #[test]
    fn json_keeps_its_meaning_and_hides_nothing() {
        for text in ["a\u{7f}\u{9b}b\u{202e}\u{e0001}\u{1b}\n", "naïve 日本 🙂"] {
            let shown = escaped(serde_json::to_string_pretty(&json!([text])).unwrap());
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json!([text]));
            assert!(!shown.contains(|c: char| (c.is_control() && c != '\n') || is_deceptive(c)));
        }
    }

    #[test]
    fn lines_fit_a_narrow_terminal() {
        let text = "one two three four five six seven";
        let wrapped = wrap_to(text, 2, Some(14));
        assert!(wrapped.lines().all(|line| line.len() <= 14), "{wrapped}");
        assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>().join(" "), text);
        assert_eq!(wrap_to(text, 2, None), text);
        assert_eq!(wrap_to("  one two", 4, Some(40)), "  one two", "margins stay");
        assert_eq!(visible_length(&paint(BAD, "four")), 4);
    }
}
