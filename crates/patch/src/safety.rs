//! Names that must not be written, whatever a patch says.

use crate::code::Code;

const MAX_PATH: usize = 4096;
const MAX_PART: usize = 255;

/// Why a path must not be touched by a patch, or none when it may.
pub fn unsafe_path(path: &str) -> Option<(Code, &'static str)> {
    if path.len() > MAX_PATH || path.split('/').any(|part| part.len() > MAX_PART) {
        return Some((Code::NameTooLong, "is longer than a path may be"));
    }
    if path.starts_with('/') {
        return Some((Code::NameUnsafe, "is absolute"));
    }
    if path.contains('\0') {
        return Some((Code::NameUnsafe, "holds a zero byte"));
    }
    if path.split('/').any(|part| part.is_empty() || part == ".") {
        return Some((Code::NameUnsafe, "has an empty part or `.` in it"));
    }
    // On other systems a backslash parts names as well, and checkouts travel.
    let mut parts = path.split(['/', '\\']);
    if parts.clone().any(|part| part == "..") {
        return Some((Code::NameUnsafe, "leads out of the tree with `..`"));
    }
    if parts.any(is_git_directory) {
        return Some((Code::ControlFile, "belongs to git, or is taken for `.git` by some systems"));
    }
    None
}

/// `.git` in every spelling that some file system takes for it.
fn is_git_directory(part: &str) -> bool {
    let seen: String = part.chars().filter(|c| !is_ignored(*c)).collect();
    // NTFS: `.git::$INDEX_ALLOCATION` is the directory itself.
    let name = seen.split(':').next().unwrap_or_default();
    let name = name.trim_end_matches(['.', ' ']).to_lowercase();
    name == ".git" || name.strip_prefix("git~").is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Characters that HFS+ ignores in names, and others of no width.
fn is_ignored(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(path: &str) -> Option<Code> {
        unsafe_path(path).map(|(code, _)| code)
    }

    #[test]
    fn ordinary_names_are_safe() {
        for path in [
            "a",
            "a/b",
            ".gitignore",
            ".github/workflows/x.yml",
            "a..b",
            "...",
            "git",
            "git~x",
            ".gitmodules",
            "x.git",
            "mit leer",
            "ä/ö",
            "a:b",
            "a\\b",
            "digit~1",
        ] {
            assert_eq!(code(path), None, "{path}");
        }
    }

    #[test]
    fn names_that_leave_the_tree_are_not() {
        for path in ["", "/a", "a//b", "a/", "./a", "a/.", "..", "a/../b", "a\\..\\b", "a\0b"] {
            assert_eq!(code(path), Some(Code::NameUnsafe), "{path}");
        }
        assert_eq!(code(&"x".repeat(256)), Some(Code::NameTooLong));
        assert_eq!(code(&"x/".repeat(2049)), Some(Code::NameTooLong));
    }

    #[test]
    fn everything_taken_for_git_is_not() {
        for path in [
            ".git",
            ".git/config",
            "a/.git/hooks/x",
            ".GIT/config",
            ".Git",
            ".git ",
            ".git.",
            ".git . .",
            "git~1",
            "GIT~1/config",
            "git~23",
            ".g\u{200c}it/config",
            ".git\u{feff}",
            "\u{202e}.git",
            ".git::$INDEX_ALLOCATION/config",
            ".git:x",
            "a\\.git\\config",
        ] {
            assert_eq!(code(path), Some(Code::ControlFile), "{path}");
        }
    }
}
