//! Programs and archives, known by their first bytes.

use std::sync::LazyLock;

use super::Found;
use super::matcher::{Finder, byte};

/// The first bytes that the kinds share with hardly anything else, then what must follow.
type Follows = fn(&[u8]) -> bool;

const MAGICS: &[(&str, &[u8], Follows)] = &[
    ("elf-program", b"\x7fELF", |rest| matches!(byte(rest, 0), 0..=2)),
    ("windows-program", b"MZ\x90\0", any),
    ("windows-program", b"MZP\0", any),
    ("windows-program", b"MZ\0\0", |rest| rest.windows(4).take(512).any(|four| four == b"PE\0\0")),
    ("mach-program", b"\xcf\xfa\xed\xfe", is_processor),
    ("mach-program", b"\xce\xfa\xed\xfe", is_processor),
    ("mach-program", b"\xfe\xed\xfa\xcf", |rest| byte(rest, 0) <= 1),
    ("mach-program", b"\xfe\xed\xfa\xce", |rest| byte(rest, 0) <= 1),
    ("java-class", b"\xca\xfe\xba\xbe", |rest| rest.starts_with(b"\0\0")),
    ("wasm-module", b"\0asm", |rest| rest.first().is_none_or(|version| *version < 16)),
    ("zip-archive", b"PK\x03\x04", |rest| byte(rest, 0) < 0x40),
    ("gzip-archive", b"\x1f\x8b\x08", |rest| byte(rest, 0) < 0x20),
    ("xz-archive", b"\xfd7zXZ\0", any),
    ("sevenzip-archive", b"7z\xbc\xaf\x27\x1c", any),
    ("zstd-archive", b"\x28\xb5\x2f\xfd", any),
    ("bzip-archive", b"BZh", |rest| rest.get(1..4) == Some(b"1AY")),
    ("rar-archive", b"Rar!\x1a\x07", any),
    ("ar-archive", b"!<arch>\n", any),
    ("dex-program", b"dex\n03", any),
];

fn any(_: &[u8]) -> bool {
    true
}

fn is_processor(rest: &[u8]) -> bool {
    matches!(byte(rest, 0), 7 | 12 | 18)
}

/// What a stretch of bytes is, if it is a program or an archive.
pub(super) fn kind(bytes: &[u8]) -> Option<&'static str> {
    let is = |magic: &[u8], follows: &Follows| bytes.strip_prefix(magic).is_some_and(follows);
    MAGICS.iter().find(|(_, magic, follows)| is(magic, follows)).map(|(rule, _, _)| *rule)
}

static FINDER: LazyLock<Finder> =
    LazyLock::new(|| Finder::exact(MAGICS.iter().map(|magic| magic.1)));

/// Programs and archives in bytes that are no text. A text that was read with replacement
/// characters has lost them, so whoever has the bytes asks here as well.
pub fn binary(bytes: &[u8]) -> Vec<Found> {
    let mut found = Vec::new();
    FINDER.each(bytes, |hit| {
        if let Some(rule) = bytes.get(hit.at..).and_then(kind) {
            found.push(Found { offset: hit.at, rule });
        }
    });
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_first_bytes() {
        let rules = |bytes: &[u8]| binary(bytes).iter().map(|found| found.rule).collect::<Vec<_>>();
        assert_eq!(rules(b"text \x7fELF\x02\x01"), ["elf-program"]);
        assert_eq!(rules(b"\x1f\x8b\x08\0\0"), ["gzip-archive"]);
        assert_eq!(rules(b"\0asm\x01\0\0\0"), ["wasm-module"]);
        assert_eq!(rules(b"MZ\0\0\0\0PE\0\0"), ["windows-program"]);
        assert!(rules(b"BZh is no archive, MZ no program, PK neither").is_empty());
        assert!(rules(b"\x89PNG\r\n\x1a\n").is_empty());
    }
}
