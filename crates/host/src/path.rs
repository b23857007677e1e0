//! Paths that cannot point outside by their spelling.

use std::fmt;

use countersign_model::Failure;

/// A relative path of plain components, written with `/`. The root itself is the empty path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(String);

impl RelPath {
    const MAX_BYTES: usize = 4096;
    const MAX_COMPONENT: usize = 255;

    pub fn parse(text: &str) -> Result<Self, Failure> {
        if text == "." {
            return Ok(RelPath(String::new()));
        }
        let problem = problem_with(text);
        problem.map_or_else(
            || Ok(RelPath(text.to_owned())),
            |why| {
                Err(Failure::validation("PATH_INVALID", format!("the path `{text}` {why}"))
                    .hint("name it relative to the root, without `..`, such as notes/today.txt"))
            },
        )
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// The directory that holds it, and its name there; `None` for the root.
    pub fn split(&self) -> Option<(RelPath, &str)> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.rsplit_once('/') {
            Some((parent, name)) => (RelPath(parent.to_owned()), name),
            None => (RelPath(String::new()), &self.0),
        })
    }

    /// Every directory above it, outermost first, without the root.
    pub fn ancestors(&self) -> Vec<RelPath> {
        let ends = self.0.match_indices('/').map(|(at, _)| at);
        ends.filter_map(|at| self.0.get(..at)).map(|prefix| RelPath(prefix.to_owned())).collect()
    }
}

fn problem_with(text: &str) -> Option<&'static str> {
    if text.starts_with('/') {
        return Some("is absolute");
    }
    if text.len() > RelPath::MAX_BYTES {
        return Some("is too long");
    }
    if text.chars().any(char::is_control) {
        return Some("contains a control character");
    }
    text.split('/').find_map(|part| match part {
        "" => Some("has an empty part"),
        "." => Some("contains `.`"),
        ".." => Some("contains `..`"),
        _ if part.len() > RelPath::MAX_COMPONENT => Some("has a part that is too long"),
        _ => None,
    })
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_cannot_leave_the_root() {
        for bad in ["", "/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "a/.", "a\nb", "a\0b"] {
            assert_eq!(RelPath::parse(bad).unwrap_err().code, "PATH_INVALID", "{bad:?}");
        }
        assert!(RelPath::parse(&"a/".repeat(3000)).is_err());
        assert!(RelPath::parse(&"a".repeat(256)).is_err());
    }

    #[test]
    fn paths_come_apart() {
        let path = RelPath::parse("a/b/c.txt").unwrap();
        assert_eq!(path.ancestors().iter().map(RelPath::as_str).collect::<Vec<_>>(), ["a", "a/b"]);
        let (parent, name) = path.split().unwrap();
        assert_eq!((parent.as_str(), name), ("a/b", "c.txt"));
        assert!(RelPath::parse(".").unwrap().is_root());
        assert!(RelPath::parse("..a").is_ok());
    }
}
