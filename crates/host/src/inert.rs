//! What programs say, made harmless to look at.

use std::io::{Read, Seek, SeekFrom};

use countersign_sandbox::Captured;

/// How much of the end of a diagnostic stream is shown with a failure.
const TAIL: usize = 2 << 10;

/// How much of the beginning of an output is shown.
const BEGINNING: usize = 64;

/// The end of a stream, as text; `None` if there is nothing.
pub(crate) fn tail(said: &mut Captured) -> Option<String> {
    let bytes = match &mut said.spill {
        Some(file) => {
            let from = said.total.saturating_sub(TAIL as u64);
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(from)).ok()?;
            file.take(TAIL as u64).read_to_end(&mut bytes).ok()?;
            bytes
        }
        None => {
            let from = said.inline.len().saturating_sub(TAIL);
            said.inline.get(from..).unwrap_or_default().to_vec()
        }
    };
    let text = harmless(&String::from_utf8_lossy(&bytes));
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// The first bytes of an output, on one line.
pub(crate) fn beginning(bytes: &[u8]) -> String {
    let part = bytes.get(..BEGINNING).unwrap_or(bytes);
    harmless(&String::from_utf8_lossy(part)).escape_debug().to_string()
}

/// Text without what commands a terminal or turns the direction of writing around.
fn harmless(text: &str) -> String {
    let is_harmful = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_shown_and_commands_nobody() {
        let mut said =
            Captured { inline: b"a\x1b[2Jb\r\n\xe2\x80\xaec\n".to_vec(), total: 14, spill: None };
        assert_eq!(tail(&mut said).unwrap(), "a\u{fffd}[2Jb\u{fffd}\n\u{fffd}c");
        let mut long = Captured { inline: vec![b'x'; 5000], total: 5000, spill: None };
        assert_eq!(tail(&mut long).unwrap().len(), TAIL);
        assert_eq!(tail(&mut Captured::default()), None);
        assert_eq!(beginning(b"<html>\n"), "<html>\\n");
    }
}
