//! Globs as Cedar. Cedar's `*` crosses `/`, ours does not: what `like` cannot say exactly is
//! refused, never widened.

use countersign_model::Scope;

use crate::problem::Problem;
use crate::quote::quote;

/// A glob, ready to be asked of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    /// About `path` rather than `relative`.
    pub(crate) absolute: bool,
    /// Starts with `**`: it means a name wherever it stands.
    pub(crate) floating: bool,
    /// One of these must hold.
    tests: Vec<Test>,
    /// What a pattern must be like so that everything it stands for is inside. Only a whole tree
    /// has one: there, every wildcard of the pattern stands behind the literal part.
    tree: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Any,
    Is(String),
    Like(String),
    /// The first, but not the second.
    Flat(String, String),
}

const MANY: &str = "**";

impl Glob {
    pub(crate) fn parse(text: &str) -> Result<Glob, Problem> {
        Scope::parse([text]).map_err(|failure| Problem::from_failure("GLOB_INVALID", failure))?;
        let absolute = text.starts_with('/');
        let rest = text.trim_start_matches('/');
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        let literal = parts.iter().take_while(|part| is_literal(part)).count();
        let (head, tail) = parts.split_at_checked(literal).unwrap_or((&parts, &[]));
        let base = Base { root: if absolute { "/" } else { "" }, head: head.join("/") };
        let (tests, tree) = base.tests(tail).ok_or_else(|| inexpressible(text))?;
        Ok(Glob { absolute, floating: rest.starts_with(MANY) && !absolute, tests, tree })
    }

    /// One thing at a time.
    pub(crate) fn on(&self, attribute: &str) -> String {
        let tests: Vec<_> = self.tests.iter().map(|test| test.on(attribute)).collect();
        format!("(context has {attribute} && ({}))", tests.join(" || "))
    }

    /// Everything that a pattern stands for.
    pub(crate) fn on_pattern(&self, attribute: &str) -> Option<String> {
        let tree = self.tree.as_ref()?;
        Some(format!("(context has {attribute} && context.{attribute} like {})", quote(tree)))
    }
}

impl Test {
    fn on(&self, attribute: &str) -> String {
        let like = |pattern: &str| format!("context.{attribute} like {}", quote(pattern));
        match self {
            Test::Any => "true".to_owned(),
            Test::Is(text) => format!("context.{attribute} == {}", quote(text)),
            Test::Like(pattern) => like(pattern),
            Test::Flat(inside, below) => format!("({} && !({}))", like(inside), like(below)),
        }
    }
}

/// The literal components that a glob starts with.
struct Base {
    root: &'static str,
    head: String,
}

impl Base {
    /// The directory itself.
    fn dir(&self) -> String {
        format!("{}{}", self.root, self.head)
    }

    /// What everything inside starts with.
    fn inside(&self) -> String {
        if self.head.is_empty() { self.root.to_owned() } else { format!("{}/", self.dir()) }
    }

    fn tests(&self, tail: &[&str]) -> Option<(Vec<Test>, Option<String>)> {
        let inside = self.inside();
        let below = |rest: &str| Test::Like(format!("{inside}{rest}"));
        let tests = match tail {
            [] => vec![Test::Is(self.dir())],
            [MANY] => return Some((self.tree(), Some(format!("{inside}*")))),
            [last] => self.flat(last)?,
            [MANY, last] if is_suffix(last) => vec![below(last)],
            [MANY, names @ .., MANY] if is_path(names) => {
                let name = names.join("/");
                vec![
                    Test::Is(format!("{inside}{name}")),
                    below(&format!("{name}/*")),
                    below(&format!("*/{name}")),
                    below(&format!("*/{name}/*")),
                ]
            }
            [MANY, names @ ..] if is_path(names) => {
                let name = names.join("/");
                vec![Test::Is(format!("{inside}{name}")), below(&format!("*/{name}"))]
            }
            _ => return None,
        };
        Some((tests, None))
    }

    fn tree(&self) -> Vec<Test> {
        if self.head.is_empty() {
            return vec![Test::Any];
        }
        vec![Test::Is(self.dir()), Test::Like(format!("{}*", self.inside()))]
    }

    /// `src/*.rs`: like it, and with no further `/`. A lone `*` would also be like `.`, which is how
    /// the workspace itself is called.
    fn flat(&self, last: &str) -> Option<Vec<Test>> {
        let inside = self.inside();
        let could_be_dot = inside.is_empty() && last.chars().all(|c| matches!(c, '*' | '.'));
        let is_plain = !last.contains('?') && last != MANY && !could_be_dot;
        is_plain.then(|| vec![Test::Flat(format!("{inside}{last}"), format!("{inside}*/*"))])
    }
}

fn is_literal(part: &str) -> bool {
    !part.contains(['*', '?'])
}

fn is_path(names: &[&str]) -> bool {
    !names.is_empty() && names.iter().all(|name| is_literal(name))
}

/// `*.rs`: whatever ends so, at any depth, has a last component that ends so. Not `*` alone, for
/// the workspace itself would match.
fn is_suffix(last: &str) -> bool {
    last.strip_prefix('*').is_some_and(|rest| is_literal(rest) && !matches!(rest, "" | "."))
}

fn inexpressible(text: &str) -> Problem {
    let message = format!("the glob `{text}` cannot be said exactly in Cedar");
    Problem::error("GLOB_INEXACT", message).hint(
        "write dir/**, dir/*.ext, dir/**/*.ext, **/name or **/dir/**; `?` is not possible, and \
         `*` only in the last part; for more, write the rule in Cedar",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_that_like_can_say_exactly_become_cedar() {
        for (glob, cedar) in [
            ("a.md", r#"context.relative == "a.md""#),
            ("src/**", r#"context.relative == "src" || context.relative like "src/*""#),
            ("**", "true"),
            ("*.md", r#"(context.relative like "*.md" && !(context.relative like "*/*"))"#),
            ("a/b*c", r#"(context.relative like "a/b*c" && !(context.relative like "a/*/*"))"#),
            ("a/**/*.rs", r#"context.relative like "a/*.rs""#),
            ("**/x/y", r#"context.relative == "x/y" || context.relative like "*/x/y""#),
            ("say \"hi\"", r#"context.relative == "say \"hi\"""#),
        ] {
            let expected = format!("(context has relative && ({cedar}))");
            assert_eq!(Glob::parse(glob).unwrap().on("relative"), expected, "{glob}");
        }
        let etc = Glob::parse("/etc/**").unwrap();
        assert!(etc.absolute && !etc.floating);
        assert!(etc.on("path").contains(r#"context.path == "/etc" || context.path like "/etc/*""#));
    }

    #[test]
    fn globs_that_like_would_widen_are_refused() {
        for glob in
            ["a?", "*/a", "a/*/b", "**/test_*", "**/a*b/c", "*", "**/*", "a/**/b/**/c", ".*"]
        {
            assert_eq!(Glob::parse(glob).unwrap_err().code, "GLOB_INEXACT", "{glob}");
        }
        for glob in ["", "../a", "a//b", "a**", "[ab]", "{a}"] {
            assert_eq!(Glob::parse(glob).unwrap_err().code, "GLOB_INVALID", "{glob}");
        }
    }

    #[test]
    fn only_whole_trees_hold_patterns() {
        let tree = |glob| Glob::parse(glob).unwrap().on_pattern("x");
        assert_eq!(tree("src/**").unwrap(), r#"(context has x && context.x like "src/*")"#);
        assert_eq!(tree("**").unwrap(), r#"(context has x && context.x like "*")"#);
        for glob in ["*.md", "**/*.md", "**/.env", "a"] {
            assert_eq!(tree(glob), None, "{glob}");
        }
    }
}
