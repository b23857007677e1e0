//! Which names and link targets can be published.

use std::ffi::CStr;

use countersign_model::Failure;

use super::{DEEPEST, refused};

const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;

/// The path of `name` in the directory `parent`.
pub(super) fn join(parent: &str, name: &CStr) -> Result<String, Failure> {
    let lossy = || {
        let name = name.to_string_lossy();
        if parent.is_empty() { name.into_owned() } else { format!("{parent}/{name}") }
    };
    let Ok(name) = name.to_str() else {
        return Err(refused(&lossy(), "has a name that is not UTF-8"));
    };
    let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") };
    match () {
        () if name.chars().any(char::is_control) => {
            Err(refused(&path, "has a control character in its name"))
        }
        () if name.len() > LONGEST_NAME || path.len() > LONGEST_PATH => {
            Err(refused(&path, "has a name that is too long"))
        }
        () if path.split('/').count() > DEEPEST => Err(refused(&path, "lies too deep")),
        () => Ok(path),
    }
}

/// Checks where a link at `path` points to. Upwards only at its beginning, and not out: behind a
/// name, `..` would mean whatever that name then leads to.
pub fn check_target(path: &str, target: &[u8]) -> Result<String, Failure> {
    let Ok(target) = std::str::from_utf8(target) else {
        return Err(refused(path, "is a link to a name that is not UTF-8"));
    };
    if target.chars().any(char::is_control) || target.len() > LONGEST_PATH {
        return Err(refused(path, "is a link to a name that cannot be shown"));
    }
    if target.starts_with('/') {
        return Err(refused(path, "is a link to an absolute path"));
    }
    let parts = || target.split('/').filter(|part| !matches!(*part, "" | "."));
    let up = parts().take_while(|part| *part == "..").count();
    let leaves = up > path.split('/').count() - 1;
    if leaves || parts().skip(up).any(|part| part == "..") {
        return Err(refused(path, "is a link that can lead outside"));
    }
    Ok(target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside() {
        for (path, target) in
            [("a", "b"), ("a", "./b/c"), ("d/a", "../b"), ("d/e/a", "../../b/c"), ("a", ".")]
        {
            assert_eq!(check_target(path, target.as_bytes()).unwrap(), target);
        }
        for (path, target) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("a", "../b"),
            ("d/a", "../../b"),
            ("a", "b/.."),
            ("d/a", "x/../../b"),
            ("d/a", "./../../b"),
            ("a", "b\nc"),
        ] {
            let failure = check_target(path, target.as_bytes()).unwrap_err();
            assert_eq!(failure.code, "STAGING_REFUSED", "{path} -> {target}");
        }
        assert!(check_target("a", b"\xff").is_err());
    }
}
