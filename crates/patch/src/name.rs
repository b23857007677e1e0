//! File names in headers: quotes, prefixes and the line that holds two of them.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr_iter, memmem};

use crate::text::shown;

/// A name as the patch has it: bytes, borrowed where they stand without quotes.
#[derive(Clone, PartialEq, Eq)]
pub struct Name<'a>(Cow<'a, [u8]>);

impl<'a> Name<'a> {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as text; those of a judged patch always are.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The name for people: on one line, without characters that act.
    pub fn shown(&self) -> String {
        shown(&self.0, usize::MAX)
    }

    /// Drops the first `count` parts, as `-p` of git does.
    pub(crate) fn stripped(self, count: usize) -> Option<Name<'a>> {
        let Some(last) = count.checked_sub(1) else { return Some(self) };
        let after = memchr_iter(b'/', &self.0).nth(last)?.checked_add(1)?;
        let rest = match self.0 {
            Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(after..)?),
            Cow::Owned(bytes) => Cow::Owned(bytes.get(after..)?.to_vec()),
        };
        (!rest.is_empty()).then_some(Name(rest))
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// A whole value of a header: quoted, or as it stands.
pub(crate) fn read(value: &[u8]) -> Option<Name<'_>> {
    if !value.starts_with(b"\"") {
        return (!value.is_empty()).then_some(Name(Cow::Borrowed(value)));
    }
    let (name, rest) = unquoted(value)?;
    rest.is_empty().then_some(name)
}

/// A value of `---` or `+++`, with whatever time stands behind the name.
pub(crate) fn read_stamped(value: &[u8]) -> Option<(Name<'_>, &[u8])> {
    if value.starts_with(b"\"") {
        let (name, rest) = unquoted(value)?;
        let stamp = if rest.is_empty() { rest } else { rest.strip_prefix(b"\t")? };
        return Some((name, stamp));
    }
    let tab = memchr(b'\t', value).or_else(|| spaced_stamp(value));
    let (name, rest) = value.split_at_checked(tab.unwrap_or(value.len()))?;
    Some((read(name)?, rest.get(1..).unwrap_or_default()))
}

/// Where a space parts a name from a time such as `2026-02-09 16:05:01`: older tools use no tab.
fn spaced_stamp(value: &[u8]) -> Option<usize> {
    const SHAPE: &[u8] = b" 0000-00-00 00:00:00";
    let fits = |(byte, shape): (&u8, &u8)| {
        if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape }
    };
    memchr_iter(b' ', value)
        .filter(|at| value.len().saturating_sub(*at) <= SHAPE.len() + " .000000000 +0000".len())
        .find(|at| {
            let rest = value.get(*at..).unwrap_or_default();
            rest.len() >= SHAPE.len() && rest.iter().zip(SHAPE).all(fits)
        })
}

/// The name both halves of `a/x b/x` agree on once their prefixes are gone; none when they differ
/// (a rename), for then other headers say it.
pub(crate) fn read_pair(value: &[u8], strip: usize) -> Option<Name<'_>> {
    let (first, second) = if value.starts_with(b"\"") {
        let (first, rest) = unquoted(value)?;
        (first, read(rest.strip_prefix(b" ")?)?)
    } else if let Some(at) = memmem::find(value, b" \"") {
        let (first, rest) = value.split_at_checked(at)?;
        (read(first)?, read(rest.get(1..)?)?)
    } else {
        return plain_pair(value, strip);
    };
    let first = first.stripped(strip)?;
    (second.stripped(strip)? == first).then_some(first)
}

/// Two names without quotes may hold spaces themselves. As the space moves to the right the first
/// name grows and the second shrinks, so at most one place makes them equally long.
fn plain_pair(value: &[u8], strip: usize) -> Option<Name<'_>> {
    let slashes: Vec<usize> = memchr_iter(b'/', value).collect();
    let after_prefix = |from: usize| {
        let Some(last) = strip.checked_sub(1) else { return Some(from) };
        let next = slashes.partition_point(|slash| *slash < from);
        slashes.get(next.checked_add(last)?)?.checked_add(1)
    };
    let start = after_prefix(0)?;
    memchr_iter(b' ', value).filter(|space| *space > start).find_map(|space| {
        let second_start = after_prefix(space.checked_add(1)?)?;
        if space - start != value.len().checked_sub(second_start)? {
            return None;
        }
        let (first, second) = (value.get(start..space)?, value.get(second_start..)?);
        (first == second && !first.is_empty()).then_some(Name(Cow::Borrowed(first)))
    })
}

/// Reads a name in quotes, as git writes names with unusual bytes, and what follows it.
fn unquoted(value: &[u8]) -> Option<(Name<'_>, &[u8])> {
    let mut name = Vec::new();
    let mut bytes = value.strip_prefix(b"\"")?;
    loop {
        let (first, rest) = bytes.split_first()?;
        bytes = rest;
        match first {
            b'"' => return (!name.is_empty()).then_some((Name(Cow::Owned(name)), bytes)),
            b'\\' => {
                let (byte, rest) = escaped(bytes)?;
                name.push(byte);
                bytes = rest;
            }
            byte => name.push(*byte),
        }
    }
}

fn escaped(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (letter, rest) = bytes.split_first()?;
    let byte = match letter {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => *letter,
        b'0'..=b'3' => return octal(bytes),
        _ => return None,
    };
    Some((byte, rest))
}

fn octal(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(3)?;
    let digits = std::str::from_utf8(digits).ok().filter(|d| !d.starts_with('+'))?;
    Some((u8::from_str_radix(digits, 8).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(value: &str, strip: usize) -> Option<String> {
        Some(read_pair(value.as_bytes(), strip)?.text()?.to_owned())
    }

    #[test]
    fn the_line_with_two_names_is_split_where_they_agree() {
        let cases = [
            ("a/x b/x", 1, Some("x")),
            ("a/one two b/one two", 1, Some("one two")),
            ("a/x b/x b/x b/x", 1, Some("x b/x")),
            ("x x", 0, Some("x")),
            ("x y x y", 0, Some("x y")),
            ("one/two/x uno/due/x", 2, Some("x")),
            (r#""a/\303\244" "b/\303\244""#, 1, Some("ä")),
            (r#"a/x "b/x""#, 1, Some("x")),
            (r#""a/x" b/x"#, 1, Some("x")),
            ("a/x b/y", 1, None),
            ("x x", 1, None),
            ("a/ b/", 1, None),
            ("", 0, None),
        ];
        for (value, strip, expected) in cases {
            assert_eq!(pair(value, strip).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn names_are_read_without_their_times() {
        let name = |value: &str| {
            let (name, stamp) = read_stamped(value.as_bytes())?;
            Some((name.text()?.to_owned(), String::from_utf8_lossy(stamp).into_owned()))
        };
        let is = |name: &str, stamp: &str| Some((name.to_owned(), stamp.to_owned()));
        assert_eq!(name("a/x"), is("a/x", ""));
        assert_eq!(name("a/x y\t"), is("a/x y", ""));
        assert_eq!(name("a/x\t2026-02-09 16:05:01"), is("a/x", "2026-02-09 16:05:01"));
        let spaced = "2026-02-09 16:05:01.123456789 +0100";
        assert_eq!(name(&format!("a/x y {spaced}")), is("a/x y", spaced));
        assert_eq!(name(r#""a/\t\"\\""#), is("a/\t\"\\", ""));
        assert_eq!(name(r#""a/x"#), None);
        assert_eq!(name(r#""a/\8""#), None);
        assert_eq!(name(r#""a/\400""#), None);
        assert_eq!(name(r#""a/\1+1""#), None);
    }
}
