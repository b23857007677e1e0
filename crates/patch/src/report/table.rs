//! A diff on a terminal: a table that fits 80 columns, and the diff itself.

use std::io::{self, Write};

use crate::diff::{Diff, FilePatch};
use crate::report::{notes, status, totals};

const COLUMNS: usize = 80;
const BAR: usize = 10;
/// The longest status, and a space on both sides.
const STATUS: usize = 9;

/// The table, an empty line, and the diff as it is, so that it can be applied.
pub fn write_text(diff: &Diff<'_>, out: &mut impl Write) -> io::Result<()> {
    write_table(diff, out)?;
    out.write_all(b"\n")?;
    out.write_all(diff.source())
}

/// One line for each file: what happened, its name, lines added and removed.
pub fn write_table(diff: &Diff<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", totals(diff).sentence())?;
    let layout = Layout::of(diff);
    for file in diff.files() {
        layout.write_row(file, out)?;
        for note in notes(file) {
            let room = COLUMNS - STATUS - 2;
            writeln!(out, "{:STATUS$}  {}", "", cut_left(&note, room))?;
        }
    }
    Ok(())
}

struct Layout {
    name: usize,
    number: usize,
    most: u64,
}

impl Layout {
    fn of(diff: &Diff<'_>) -> Layout {
        let counts = || diff.files().iter().map(FilePatch::counts);
        let most = counts().map(|(added, removed)| added.max(removed)).max().unwrap_or(0);
        let busiest = counts().map(|(added, removed)| added + removed).max().unwrap_or(0);
        // A sign and a space before each number.
        let number = most.to_string().len() + 1;
        let room = COLUMNS - STATUS - 2 * (number + 1) - 1 - BAR;
        let longest = diff.files().iter().map(|file| width(&shown_name(file))).max().unwrap_or(0);
        Layout { name: longest.min(room), number, most: busiest }
    }

    fn write_row(&self, file: &FilePatch<'_>, out: &mut impl Write) -> io::Result<()> {
        let name = cut_left(&shown_name(file), self.name);
        let padding = self.name.saturating_sub(width(&name));
        let (added, removed) = file.counts();
        let status = status(file).word();
        let (plus, minus) = (format!("+{added}"), format!("-{removed}"));
        let number = self.number;
        let row = format!(
            " {status:<8}{name}{:padding$} {plus:>number$} {minus:>number$} {}",
            "",
            self.bar(added, removed),
        );
        writeln!(out, "{}", row.trim_end())
    }

    /// Signs in proportion to the file with most changes; at least one where there is any.
    fn bar(&self, added: u64, removed: u64) -> String {
        let signs = |count: u64| {
            let room = BAR as u64 - 2;
            let share = count.saturating_mul(room) / self.most.max(1);
            usize::try_from(share + u64::from(count > 0)).unwrap_or(0)
        };
        "+".repeat(signs(added)) + &"-".repeat(signs(removed))
    }
}

fn shown_name(file: &FilePatch<'_>) -> String {
    file.name().map(crate::Name::shown).unwrap_or_default()
}

/// The end of a name says more than its beginning.
fn cut_left(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(1);
    let mut kept: Vec<char> = Vec::new();
    for c in text.chars().rev() {
        let Some(rest) = left.checked_sub(columns(c)) else { break };
        left = rest;
        kept.push(c);
    }
    kept.push('…');
    kept.iter().rev().collect()
}

fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// Two for the wide letters of East Asia and for pictures, which is what terminals do.
fn columns(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}
