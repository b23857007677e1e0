//! What part of a project is meant.

use serde::{Deserialize, Serialize};

use super::Undetected;
use super::project::{Root, Roots, inside};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    #[default]
    All,
    /// These files changed: whatever they can break.
    Changed(Vec<String>),
    /// These files and directories, and no more than is needed to run them.
    Paths(Vec<String>),
}

impl Scope {
    pub(super) fn check(&self) -> Result<(), Undetected> {
        let (Scope::Changed(paths) | Scope::Paths(paths)) = self else { return Ok(()) };
        if paths.is_empty() {
            return Err(Undetected::EmptyScope);
        }
        match paths.iter().find(|path| !is_clean(path)) {
            Some(path) => Err(Undetected::BadPath(crate::text::clean(path, 200))),
            None => Ok(()),
        }
    }
}

fn is_clean(path: &str) -> bool {
    !path.is_empty()
        && path.split('/').all(|part| !["", ".", ".."].contains(&part))
        && !path.contains(['\0', '\n', '\r'])
}

/// Text that the names of tests must contain. It becomes an argument, and never an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Filter(String);

impl Filter {
    pub fn new(text: &str) -> Result<Filter, Undetected> {
        if text.is_empty() || text.trim() != text {
            return Err(Undetected::BadFilter("is not empty and has no blanks around it"));
        }
        if text.starts_with('-') {
            return Err(Undetected::BadFilter("does not begin with `-`, as options do"));
        }
        if text.len() > 512 || text.chars().any(char::is_control) {
            return Err(Undetected::BadFilter("has at most 512 bytes and no control characters"));
        }
        Ok(Filter(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text for tools that take a regular expression.
    pub(super) fn as_pattern(&self) -> String {
        let mut pattern = String::with_capacity(self.0.len());
        for c in self.0.chars() {
            if "\\^$.|?*+()[]{}/".contains(c) {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern
    }
}

impl TryFrom<String> for Filter {
    type Error = Undetected;
    fn try_from(text: String) -> Result<Filter, Undetected> {
        Filter::new(&text)
    }
}

impl From<Filter> for String {
    fn from(filter: Filter) -> String {
        filter.0
    }
}

/// More paths than these are not worth telling apart, nor would they fit on a command line.
const MAX_PICKED: usize = 200;

/// What of one root is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Picked {
    None,
    All,
    /// Paths in the root, relative to it; whether they changed or were named.
    Some {
        paths: Vec<String>,
        changed: bool,
    },
}

pub(super) fn picked(scope: &Scope, roots: &Roots, root: &Root) -> Picked {
    let (paths, changed) = match scope {
        Scope::All => return Picked::All,
        Scope::Changed(paths) => (paths, true),
        Scope::Paths(paths) => (paths, false),
    };
    let mut own = Vec::new();
    for path in paths {
        // A named directory that holds the root means all of it.
        if !changed && (path == &root.directory || inside(path, &root.directory).is_some()) {
            return Picked::All;
        }
        match roots.nearest(path) {
            Some(nearest) if nearest == root.directory => {
                own.extend(inside(&root.directory, path).map(str::to_owned));
            }
            Some(_) => {}
            // Nobody knows what depends on a file that is in no project.
            None if changed => return Picked::All,
            None => {}
        }
    }
    own.sort();
    own.dedup();
    match own.len() {
        0 => Picked::None,
        1..=MAX_PICKED => Picked::Some { paths: own, changed },
        _ => Picked::All,
    }
}

/// A path that no tool takes for an option.
pub(super) fn as_argument(path: &str) -> String {
    if path.starts_with('-') { format!("./{path}") } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_never_an_option() {
        for bad in ["", " ", "-x", "--exec=rm", " x", "a\nb", "a\0b"] {
            assert!(Filter::new(bad).is_err(), "{bad:?}");
            assert!(serde_json::from_value::<Filter>(bad.into()).is_err(), "{bad:?}");
        }
        assert_eq!(Filter::new("a.b(c) - d").unwrap().as_pattern(), "a\\.b\\(c\\) - d");
    }

    #[test]
    fn paths_stay_in_the_workspace() {
        for bad in ["", "/etc", "../x", "a/../b", "a//b", "./a", "a\0", "a/"] {
            let scope = Scope::Paths(vec![bad.to_owned()]);
            assert_eq!(
                scope.check().unwrap_err(),
                Undetected::BadPath(crate::text::clean(bad, 200))
            );
        }
        assert_eq!(Scope::Changed(vec![]).check(), Err(Undetected::EmptyScope));
    }
}
