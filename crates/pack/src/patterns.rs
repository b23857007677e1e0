//! Which paths a request names, and which it does not want.

use countersign_model::{Failure, Scope};

use crate::request::invalid;

#[derive(Debug)]
pub(crate) struct Pattern {
    /// As it was asked for.
    pub(crate) text: String,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// A path or a directory. Brackets and braces are letters here.
    Literal {
        path: String,
        any_depth: bool,
    },
    Glob(Scope),
}

#[allow(
    clippy::result_large_err,
    reason = "`Failure` is the one error shape, and refusals are rare"
)]
impl Pattern {
    pub(crate) fn named(text: &str) -> Result<Self, Failure> {
        Self::parse(text, false)
    }

    /// As in ignore files, what has no `/` counts at every depth: to leave out too much is the
    /// smaller mistake.
    pub(crate) fn unwanted(text: &str) -> Result<Self, Failure> {
        Self::parse(text, true)
    }

    fn parse(text: &str, roams: bool) -> Result<Self, Failure> {
        let path = text.strip_prefix("./").unwrap_or(text);
        let path = path.strip_suffix('/').unwrap_or(path);
        let any_depth = roams && !text.trim_end_matches('/').contains('/');
        let flawed = |part: &str| matches!(part, "" | "." | "..");
        if path.split('/').any(flawed) {
            return Err(invalid(format!("`{text}` is not a path inside of the workspace"))
                .hint("paths are relative, without `.` and `..`"));
        }
        let form = if path.contains(['*', '?']) {
            Form::Glob(scope(path, any_depth)?)
        } else {
            Form::Literal { path: path.to_owned(), any_depth }
        };
        Ok(Pattern { text: text.to_owned(), form })
    }

    /// Whether this is the path, or a directory above it.
    pub(crate) fn matches(&self, path: &str) -> bool {
        match &self.form {
            Form::Glob(scope) => scope.contains(path),
            Form::Literal { path: name, any_depth: true } => {
                path.split('/').any(|part| part == name)
            }
            Form::Literal { path: name, .. } => {
                path.strip_prefix(name.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('/'))
            }
        }
    }

    /// Whether exactly this path was written down.
    pub(crate) fn is_exactly(&self, path: &str) -> bool {
        matches!(&self.form, Form::Literal { path: name, .. } if name == path)
    }
}

#[allow(
    clippy::result_large_err,
    reason = "`Failure` is the one error shape, and refusals are rare"
)]
fn scope(path: &str, any_depth: bool) -> Result<Scope, Failure> {
    let lead = if any_depth { "**/" } else { "" };
    Scope::parse([format!("{lead}{path}"), format!("{lead}{path}/**")])
        .map_err(|failure| invalid(failure.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &Pattern, hits: &[&str], misses: &[&str]) {
        for hit in hits {
            assert!(pattern.matches(hit), "{pattern:?} {hit}");
        }
        for miss in misses {
            assert!(!pattern.matches(miss), "{pattern:?} {miss}");
        }
    }

    #[test]
    fn a_path_names_itself_and_what_is_below() {
        check(&Pattern::named("src").unwrap(), &["src", "src/a.rs"], &["src2", "a/src"]);
        check(&Pattern::named("./src/").unwrap(), &["src/a.rs"], &["source"]);
        check(&Pattern::named("app/[id]/x.ts").unwrap(), &["app/[id]/x.ts"], &["app/i/x.ts"]);
        check(&Pattern::named("src/*.rs").unwrap(), &["src/a.rs"], &["src/b/a.rs"]);
        check(&Pattern::named("src/**").unwrap(), &["src/a.rs", "src/b/c"], &["a"]);
    }

    #[test]
    fn what_is_unwanted_counts_at_every_depth() {
        check(&Pattern::unwanted("*.log").unwrap(), &["a.log", "x/y/a.log"], &["a.logs"]);
        check(&Pattern::unwanted("dist").unwrap(), &["dist/a", "x/dist/b"], &["distance"]);
        check(&Pattern::unwanted("a/dist").unwrap(), &["a/dist/b"], &["x/a/dist/b"]);
    }

    #[test]
    fn paths_outside_are_refused() {
        for path in ["", "/", "/etc/passwd", "../x", "a/./b", "a//b"] {
            assert_eq!(Pattern::named(path).unwrap_err().code, "PACK_REQUEST_INVALID", "{path}");
        }
    }
}
