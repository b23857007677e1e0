//! Many beginnings looked for at once.
//!
//! A table of 65,536 bits says whether any beginning starts with the two bytes at hand; almost
//! always none does. It cannot fail to be built and takes microseconds to build, which an automaton
//! does not promise.

/// Where a beginning stands: its number in the table, and the byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) index: usize,
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) struct Finder {
    pairs: Vec<u64>,
    /// By first byte, in lower case when case does not matter.
    buckets: Vec<Vec<(usize, &'static [u8])>>,
    any_case: bool,
}

impl Finder {
    /// Every beginning needs two bytes or more; case matters.
    pub(super) fn exact<P: AsRef<[u8]> + ?Sized + 'static>(
        patterns: impl IntoIterator<Item = &'static P>,
    ) -> Self {
        Self::build(patterns.into_iter().map(AsRef::as_ref), false)
    }

    /// The beginnings are written in lower case and found in any.
    pub(super) fn any_case(patterns: impl IntoIterator<Item = &'static str>) -> Self {
        Self::build(patterns.into_iter().map(str::as_bytes), true)
    }

    fn build(patterns: impl Iterator<Item = &'static [u8]>, any_case: bool) -> Self {
        let mut finder = Finder { pairs: vec![0; 1024], buckets: vec![Vec::new(); 256], any_case };
        for (index, pattern) in patterns.enumerate() {
            finder.insert(index, pattern);
        }
        finder
    }

    fn insert(&mut self, index: usize, pattern: &'static [u8]) {
        let (Some(first), Some(second)) = (pattern.first(), pattern.get(1)) else { return };
        for first in self.spellings(*first) {
            for second in self.spellings(*second) {
                let pair = usize::from(first) << 8 | usize::from(second);
                if let Some(word) = self.pairs.get_mut(pair >> 6) {
                    *word |= 1 << (pair & 63);
                }
            }
            if let Some(bucket) = self.buckets.get_mut(usize::from(first))
                && !bucket.iter().any(|(known, _)| *known == index)
            {
                bucket.push((index, pattern));
            }
        }
    }

    fn spellings(&self, byte: u8) -> [u8; 2] {
        if self.any_case {
            [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()]
        } else {
            [byte; 2]
        }
    }

    fn may_start(&self, first: u8, second: u8) -> bool {
        let pair = usize::from(first) << 8 | usize::from(second);
        self.pairs.get(pair >> 6).is_some_and(|word| word >> (pair & 63) & 1 == 1)
    }

    /// Hands over every place of every beginning, overlapping ones too.
    pub(super) fn each(&self, text: &[u8], mut hit: impl FnMut(Hit)) {
        for (at, pair) in text.windows(2).enumerate() {
            let [first, second] = pair else { continue };
            if !self.may_start(*first, *second) {
                continue;
            }
            let rest = text.get(at..).unwrap_or_default();
            for (index, pattern) in self.buckets.get(usize::from(*first)).into_iter().flatten() {
                if self.begins(rest, pattern) {
                    hit(Hit { index: *index, at });
                }
            }
        }
    }

    fn begins(&self, rest: &[u8], pattern: &[u8]) -> bool {
        let Some(head) = rest.get(..pattern.len()) else { return false };
        if self.any_case { head.eq_ignore_ascii_case(pattern) } else { head == pattern }
    }
}

/// The byte at a place, or zero beyond the end.
pub(super) fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

/// The byte before a place, or zero at the beginning.
pub(super) fn before(text: &[u8], at: usize) -> u8 {
    at.checked_sub(1).map_or(0, |at| byte(text, at))
}

/// How many bytes of a class follow.
pub(super) fn span(text: &[u8], at: usize, class: impl Fn(u8) -> bool) -> usize {
    text.get(at..).unwrap_or_default().iter().take_while(|byte| class(**byte)).count()
}

/// The same, but never more than so many: what is looked at again and again must be short.
pub(super) fn span_within(
    text: &[u8],
    at: usize,
    most: usize,
    class: impl Fn(u8) -> bool,
) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().take(most).take_while(|byte| class(**byte)).count()
}

/// Whether a line begins here.
pub(super) fn starts_line(text: &[u8], at: usize) -> bool {
    at == 0 || before(text, at) == b'\n'
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Both alphabets of base64, without padding.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// How many different bytes a text has.
pub(super) fn distinct(text: &[u8]) -> u32 {
    let mut seen = [0u64; 4];
    for byte in text {
        if let Some(word) = seen.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
    }
    seen.iter().map(|word| word.count_ones()).sum()
}

/// The line around a place, without its end.
pub(super) fn line_at(text: &[u8], at: usize) -> (usize, &[u8]) {
    let head = text.get(..at).unwrap_or_default();
    let start = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let rest = text.get(start..).unwrap_or_default();
    let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    (start, rest.get(..length).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(finder: &Finder, text: &str) -> Vec<(usize, usize)> {
        let mut hits = Vec::new();
        finder.each(text.as_bytes(), |hit| hits.push((hit.index, hit.at)));
        hits
    }

    #[test]
    fn every_beginning_is_found_wherever_it_stands() {
        let finder = Finder::exact(["sk-", "sk-ant-", "AKIA"]);
        assert_eq!(hits(&finder, "sk-ant-sk- AKIA"), [(0, 0), (1, 0), (0, 7), (2, 11)]);
        assert_eq!(hits(&finder, "SK- akia s"), []);
    }

    #[test]
    fn case_matters_only_where_asked() {
        let finder = Finder::any_case(["password", "pwd"]);
        assert_eq!(hits(&finder, "PassWord PWD pw"), [(0, 0), (1, 9)]);
    }

    #[test]
    fn lines_are_found_around_a_place() {
        let text = b"one\ntwo\n";
        assert_eq!(line_at(text, 5), (4, &b"two"[..]));
        assert_eq!(line_at(text, 0), (0, &b"one"[..]));
        assert_eq!(line_at(text, 8), (8, &b""[..]));
    }
}
