//! Names that callers hand in: paths inside of a tree, and refs.

use countersign_model::Failure;

use crate::git::Git;
use crate::leash::Leash;

/// A path as trees know it: relative, without steps upwards, and nothing of git's own.
pub(crate) fn check(path: &str) -> Result<(), Failure> {
    let good = !path.contains('\0') && path.split('/').all(is_good_part);
    if good { Ok(()) } else { Err(invalid(path)) }
}

fn is_good_part(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.eq_ignore_ascii_case(".git")
}

fn invalid(path: &str) -> Failure {
    let message = format!("`{}` is not a path inside of a workspace", path.escape_debug());
    Failure::validation("PATH_INVALID", message)
        .hint("use a relative path with `/`, without `.`, `..`, `.git` or empty parts")
}

/// A path from git, which has no other names for files than bytes.
pub(crate) fn text(bytes: &[u8]) -> Result<String, Failure> {
    String::from_utf8(bytes.to_vec()).map_err(|_| {
        let shown = bytes.escape_ascii();
        Failure::validation("PATH_NOT_UTF8", format!("the file name `{shown}` is not UTF-8"))
            .hint("rename the file")
    })
}

/// The full name of a branch, a tag or another ref.
pub(crate) fn check_ref(git: &Git, name: &str, leash: &mut Leash<'_>) -> Result<(), Failure> {
    let (ending, _) = git.call(["check-ref-format", name]).capture(leash, 1 << 10)?;
    if ending.status.success() && name.starts_with("refs/") {
        return Ok(());
    }
    let message = format!("`{}` is not the full name of a ref", name.escape_debug());
    Err(Failure::validation("REF_INVALID", message).hint("write it as `refs/heads/NAME`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_of_the_tree() {
        for good in ["a", "a/b c", "ä/\n", ".github/x", "a/.gitignore", "..a", "-x"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", "./a", "a/..", "..", ".git/x", "a/.GIT", "a\0b"] {
            assert_eq!(check(bad).unwrap_err().code, "PATH_INVALID", "{bad}");
        }
    }

    #[test]
    fn names_that_are_not_text_are_said_so() {
        assert_eq!(text("ä".as_bytes()).unwrap(), "ä");
        let refused = text(b"\xe4\n").unwrap_err();
        assert_eq!(refused.code, "PATH_NOT_UTF8");
        assert!(refused.message.contains(r"\xe4\n"));
    }
}
