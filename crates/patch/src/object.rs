//! The name that git gives to a content.

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Whether `id` is complete, so that a content can be held against it.
pub(crate) fn is_full(id: &str) -> bool {
    matches!(id.len(), 40 | 64)
}

/// Whether `content` may have the name that begins with `id`.
pub(crate) fn may_be(content: &[u8], id: &str) -> bool {
    let id = id.to_ascii_lowercase();
    hex_of::<Sha1>(content).starts_with(&id) || hex_of::<Sha256>(content).starts_with(&id)
}

/// Whether `content` has the name `id`, or none when `id` is too short to tell.
pub(crate) fn is_named(content: &[u8], id: &str) -> Option<bool> {
    match id.len() {
        40 => Some(hex_of::<Sha1>(content).eq_ignore_ascii_case(id)),
        64 => Some(hex_of::<Sha256>(content).eq_ignore_ascii_case(id)),
        _ => None,
    }
}

fn hex_of<D: Digest>(content: &[u8]) -> String {
    let mut digest = D::new();
    digest.update(format!("blob {}\0", content.len()).as_bytes());
    digest.update(content);
    let bytes = digest.finalize();
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_the_names_that_git_gives_them() {
        // `printf 'hello\n' | git hash-object --stdin`, and with --object-format=sha256.
        let sha1 = "ce013625030ba8dba906f756967f9e9ca394464a";
        let sha256 = "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4";
        assert_eq!(is_named(b"hello\n", sha1), Some(true));
        assert_eq!(is_named(b"hello\n", sha256), Some(true));
        assert_eq!(is_named(b"hello", sha1), Some(false));
        assert_eq!(is_named(b"hello\n", "ce01362"), None);
        assert!(may_be(b"hello\n", "CE01362") && may_be(b"hello\n", "2cf8d83d"));
        assert!(!may_be(b"hello\n", "ce01363"));
    }
}
