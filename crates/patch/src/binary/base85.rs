//! The letters in which git writes bytes: lines of up to 52 bytes, five letters for four of them.

const LETTERS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// The value of each letter; 255 for what is none.
const VALUES: [u8; 256] = values();

#[expect(clippy::indexing_slicing, reason = "worked out by the compiler, which checks it")]
const fn values() -> [u8; 256] {
    let mut values = [255; 256];
    let mut value = 0;
    while value < LETTERS.len() {
        values[LETTERS[value] as usize] = value as u8;
        value += 1;
    }
    values
}

fn value_of(letter: u8) -> u8 {
    VALUES.get(usize::from(letter)).copied().unwrap_or(255)
}

/// How many bytes a line says it holds, by its first letter.
fn length(letter: u8) -> Option<usize> {
    match letter {
        b'A'..=b'Z' => Some(usize::from(letter - b'A') + 1),
        b'a'..=b'z' => Some(usize::from(letter - b'a') + 27),
        _ => None,
    }
}

/// Whether the line is as long as it says, and made of the right letters.
pub(crate) fn is_line(line: &[u8]) -> bool {
    let Some((first, letters)) = line.split_first() else { return false };
    length(*first).is_some_and(|bytes| letters.len() == bytes.div_ceil(4) * 5)
        && letters.iter().all(|letter| value_of(*letter) != 255)
}

/// Decodes lines that [`is_line`] has accepted; none when five letters make too large a number.
pub(crate) fn decode(lines: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(lines.len() / 5 * 4);
    for line in lines.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some((first, letters)) = line.split_first() else { continue };
        let end = out.len() + length(*first)?;
        for five in letters.chunks_exact(5) {
            let word = five.iter().try_fold(0u32, |word, letter| {
                word.checked_mul(85)?.checked_add(value_of(*letter).into())
            })?;
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.truncate(end);
    }
    Some(out)
}
