//! Lines of a log of any length, in bounded memory.

use std::io::{BufRead, Read};

/// Longer lines are cut. A JSON line beyond it is not understood, and that is said.
pub(crate) const MAX_LINE: usize = 4 * 1024 * 1024;

pub(crate) struct Line<'a> {
    pub(crate) text: &'a str,
    pub(crate) cut: bool,
}

/// Hands over every line without its end. Bytes that are not UTF-8 are replaced.
pub(crate) fn each_line<R: BufRead + ?Sized>(
    reader: &mut R,
    mut take: impl FnMut(Line<'_>),
) -> std::io::Result<()> {
    let mut line = Vec::new();
    while let Some(cut) = next_line(reader, &mut line)? {
        let text = String::from_utf8_lossy(&line);
        take(Line { text: text.strip_suffix('\r').unwrap_or(&text), cut });
    }
    Ok(())
}

/// Whether the line was cut; nothing at the end of the input.
fn next_line<R: BufRead + ?Sized>(
    reader: &mut R,
    line: &mut Vec<u8>,
) -> std::io::Result<Option<bool>> {
    line.clear();
    let read = reader.take(MAX_LINE as u64).read_until(b'\n', line)?;
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        return Ok(Some(false));
    }
    match read {
        0 => Ok(None),
        // The last line, without an end.
        _ if read < MAX_LINE => Ok(Some(false)),
        _ => Ok(Some(reader.skip_until(b'\n')? > 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn lines(bytes: &[u8], buffer: usize) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        let mut reader = BufReader::with_capacity(buffer, bytes);
        each_line(&mut reader, |line| found.push((line.text.to_owned(), line.cut))).unwrap();
        found
    }

    #[test]
    fn lines_do_not_depend_on_the_buffer() {
        let bytes = b"one\r\ntwo\n\nlast \xff";
        let expected = ["one", "two", "", "last \u{fffd}"].map(|line| (line.to_owned(), false));
        for buffer in 1..20 {
            assert_eq!(lines(bytes, buffer), expected);
        }
        assert_eq!(lines(b"", 4), []);
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_is_whole() {
        let mut bytes = vec![b'x'; MAX_LINE + 10];
        bytes.extend(b"\nnext\n");
        let found = lines(&bytes, 8192);
        assert_eq!(found[0].0.len(), MAX_LINE);
        assert!(found[0].1);
        assert_eq!(found[1], ("next".to_owned(), false));
    }
}
