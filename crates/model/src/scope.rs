//! What a capability may be used on: globs over `/`-separated resources, matched by component.
//!
//! Resources are absolute paths (`/srv/app/a.txt`), state keys (`counters/a`) and hosts
//! (`api.example.org:443`). Paths must be resolved before they come here: a resource with a `.`,
//! `..` or empty component is inside no scope at all.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Failure;

/// A list of patterns. The empty scope contains nothing; `["**"]` contains everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Scope(Vec<Pattern>);

/// `*` and `?` stay inside one component, `**` is a whole component and stands for any number of
/// them. Everything else is literal; there is no escape and no character class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Pattern(String);

const MANY: &str = "**";

impl Scope {
    pub const MAX_PATTERNS: usize = 64;
    pub const MAX_PATTERN_BYTES: usize = 1024;

    pub fn parse<I>(patterns: I) -> Result<Scope, Failure>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let mut parsed = Vec::new();
        for pattern in patterns {
            if parsed.len() == Self::MAX_PATTERNS {
                return Err(invalid("a scope has at most 64 patterns".to_owned()));
            }
            parsed.push(Pattern::parse(pattern.as_ref())?);
        }
        Ok(Scope(parsed))
    }

    pub fn everything() -> Scope {
        Scope(vec![Pattern(MANY.to_owned())])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|pattern| pattern.0.as_str())
    }

    pub fn contains(&self, resource: &str) -> bool {
        is_resource(resource) && self.0.iter().any(|pattern| pattern.matches(resource))
    }

    /// Whether everything in `narrower` is surely in this scope too. Some true inclusions are not
    /// recognised, such as one pattern covered only by two together; `true` is never wrong.
    pub fn covers(&self, narrower: &Scope) -> bool {
        narrower.0.iter().all(|child| self.0.iter().any(|parent| parent.covers(child)))
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Pattern, Failure> {
        if text.len() > Scope::MAX_PATTERN_BYTES {
            return Err(invalid("a scope pattern has at most 1024 bytes".to_owned()));
        }
        if let Some(c) = text.chars().find(|&c| is_refused(c)) {
            return Err(invalid(format!("a scope pattern may not contain {c:?}")));
        }
        match components(text).find_map(flaw) {
            Some(flaw) => Err(invalid(format!("the scope pattern `{text}` {flaw}"))),
            None => Ok(Pattern(text.to_owned())),
        }
    }

    fn matches(&self, resource: &str) -> bool {
        if self.0 == MANY {
            return true;
        }
        is_absolute(&self.0) == is_absolute(resource)
            && glob(components(&self.0), components(resource), |p| p == MANY, component_matches)
    }

    /// The child's wildcards are read as letters of their own that only an equal or wider wildcard
    /// of the parent accepts: whatever they stand for, the parent then accepts that too.
    fn covers(&self, child: &Pattern) -> bool {
        if self.0 == MANY || child.0 == MANY {
            // A lone `**` also holds resources of the other kind, so nothing else is as wide.
            return self.0 == MANY;
        }
        is_absolute(&self.0) == is_absolute(&child.0)
            && glob(components(&self.0), components(&child.0), |p| p == MANY, component_covers)
    }
}

fn component_matches(pattern: &str, component: &str) -> bool {
    // The first test only saves time: most components are literal.
    pattern == component
        || glob(pattern.chars(), component.chars(), |p| p == '*', |p, c| p == '?' || p == c)
}

fn component_covers(parent: &str, child: &str) -> bool {
    let one = |p, c| c != '*' && (p == '?' || p == c);
    child != MANY && glob(parent.chars(), child.chars(), |p| p == '*', one)
}

/// Matches in at most `pattern × text` steps: each part between two `many` is put at the first
/// place that fits, and an earlier `many` never needs to be tried again.
fn glob<P, T>(
    mut pattern: P,
    mut text: T,
    many: impl Fn(P::Item) -> bool,
    one: impl Fn(P::Item, T::Item) -> bool,
) -> bool
where
    P: Iterator<Item: Copy> + Clone,
    T: Iterator<Item: Copy> + Clone,
{
    let mut restart: Option<(P, T)> = None;
    loop {
        let (mut rest, mut tail) = (pattern.clone(), text.clone());
        let token = rest.next();
        if token.is_some_and(&many) {
            pattern = rest;
            restart = Some((pattern.clone(), text.clone()));
            continue;
        }
        match (token, tail.next()) {
            (None, None) => return true,
            (Some(_), None) => return false,
            (Some(token), Some(item)) if one(token, item) => (pattern, text) = (rest, tail),
            _ => match widen(&mut restart) {
                Some(next_try) => (pattern, text) = next_try,
                None => return false,
            },
        }
    }
}

/// Lets the last `many` take one item more.
fn widen<P: Clone, T: Iterator + Clone>(restart: &mut Option<(P, T)>) -> Option<(P, T)> {
    let (after, from) = restart.as_mut()?;
    from.next()?;
    Some((after.clone(), from.clone()))
}

/// Whether some scope can contain this text at all.
pub fn is_resource(text: &str) -> bool {
    components(text).all(|part| !matches!(part, "" | "." | ".."))
}

/// The narrowest pattern that contains this resource: characters that a pattern cannot spell
/// become `?`.
pub fn pattern_for(resource: &str) -> String {
    let spell = |c| if is_refused(c) || c == '*' { '?' } else { c };
    resource.chars().map(spell).collect()
}

fn is_absolute(text: &str) -> bool {
    text.starts_with('/')
}

/// The root `/` has no components; every other text has at least one, empty if need be.
fn components(text: &str) -> Components<'_> {
    Components((text != "/").then(|| text.strip_prefix('/').unwrap_or(text)))
}

/// What is left of a text, component by component. `str::split` would do, but matching clones its
/// place at every step, and this one is only a slice.
#[derive(Clone)]
struct Components<'a>(Option<&'a str>);

impl<'a> Iterator for Components<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.take()?;
        let Some((first, rest)) = text.split_once('/') else { return Some(text) };
        self.0 = Some(rest);
        Some(first)
    }
}

/// Characters that other glob dialects give a meaning, and those that disturb a terminal.
fn is_refused(c: char) -> bool {
    c.is_control() || matches!(c, '[' | ']' | '{' | '}' | '\\')
}

fn flaw(component: &str) -> Option<&'static str> {
    match component {
        "" => Some("has an empty component"),
        "." | ".." => Some("has a `.` or `..` component"),
        MANY => None,
        _ if component.contains(MANY) => Some("has `**` inside a component"),
        _ => None,
    }
}

fn invalid(message: String) -> Failure {
    Failure::validation("SCOPE_INVALID", message).hint(
        "write paths or keys such as /srv/app/**, counters/* or api.example.org:443; \
         `*` and `?` stay inside one component, `**` stands alone for any number of them",
    )
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.patterns())
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Scope::parse(Vec::<String>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
