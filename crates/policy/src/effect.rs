//! One thing that a call touches, as the context of a question.

use cedar_policy::RestrictedExpression as Value;
use countersign_model::scope::is_resource;
use countersign_model::{Need, Scope};

pub(crate) type Pair = (String, Value);

/// How a capability's resources are called: one of them, and everything that a pattern stands for.
fn attributes(capability: &str) -> (&'static str, &'static str) {
    match capability.split('.').next() {
        Some("filesystem") => ("path", "pathPattern"),
        Some("network") => ("host", "hostPattern"),
        Some("state") => ("key", "keyPattern"),
        _ => ("target", "targetPattern"),
    }
}

/// The attribute that names what a need is about.
pub(crate) fn attribute(need: &Need) -> &'static str {
    let (one, many) = attributes(need.capability.as_str());
    if need.every && has_wildcard(&need.resource) { many } else { one }
}

/// The words that reasons use for it.
pub(crate) fn about(need: &Need) -> String {
    format!("{} {}", need.capability, need.resource)
}

/// The attributes of one effect; none for a call that touches nothing. A resource that no grant
/// could ever cover was not resolved: nothing may be decided about it.
pub(crate) fn pairs(need: Option<&Need>, workspace: Option<&str>) -> Result<Vec<Pair>, String> {
    let Some(need) = need else { return Ok(vec![pair("every", Value::new_bool(false))]) };
    check(need)?;
    // A pattern without wildcards stands for one thing.
    let every = need.every && has_wildcard(&need.resource);
    let capability = need.capability.as_str();
    let (one, many) = attributes(capability);
    let mut pairs = vec![
        pair("every", Value::new_bool(every)),
        pair("capability", text(capability)),
        pair(if every { many } else { one }, text(&need.resource)),
    ];
    if one == "path" {
        let name = if every { "relativePattern" } else { "relative" };
        let below = workspace.and_then(|root| relative(&need.resource, root, every));
        pairs.extend(below.map(|below| pair(name, text(below))));
    }
    Ok(pairs)
}

fn check(need: &Need) -> Result<(), String> {
    let known = match need.every {
        true => Scope::parse([&need.resource]).is_ok(),
        false => is_resource(&need.resource),
    };
    known.then_some(()).ok_or_else(|| format!("`{}` is not resolved", about(need)))
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// The rest of a path below the workspace. A workspace that itself reads as a pattern cannot be
/// taken off a pattern: the rest would stand for more than it says.
fn relative<'a>(path: &'a str, workspace: &str, every: bool) -> Option<&'a str> {
    if every && has_wildcard(workspace) {
        return None;
    }
    match path.strip_prefix(workspace)? {
        "" => Some("."),
        rest if workspace.ends_with('/') => Some(rest),
        rest => rest.strip_prefix('/'),
    }
}

pub(crate) fn pair(name: &str, value: Value) -> Pair {
    (name.to_owned(), value)
}

pub(crate) fn text(text: &str) -> Value {
    Value::new_string(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedar_policy::Context;
    use countersign_model::Capability as C;

    fn shown(need: &Need, workspace: Option<&str>) -> String {
        let context = Context::from_pairs(pairs(Some(need), workspace).unwrap()).unwrap();
        context.to_json_value().unwrap().to_string()
    }

    fn check(need: &Need, workspace: Option<&str>, expected: &[(&str, &str)]) {
        let context = Context::from_pairs(pairs(Some(need), workspace).unwrap()).unwrap();
        let json = context.to_json_value().unwrap();
        let mut found: Vec<_> = json.as_object().unwrap().iter().collect();
        found.retain(|(name, _)| !["every", "capability"].contains(&name.as_str()));
        found.sort_by_key(|(name, _)| name.as_str());
        let found: Vec<_> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn resources_are_named_by_their_capability() {
        let file = Need::one(C::FilesystemRead, "/w/a");
        check(&file, None, &[("path", "/w/a")]);
        check(&file, Some("/w"), &[("path", "/w/a"), ("relative", "a")]);
        check(&file, Some("/"), &[("path", "/w/a"), ("relative", "w/a")]);
        check(&file, Some("/w/a"), &[("path", "/w/a"), ("relative", ".")]);
        // Looks alike, is elsewhere.
        check(&Need::one(C::FilesystemRead, "/w2/a"), Some("/w"), &[("path", "/w2/a")]);
        check(&Need::one(C::NetworkTcp, "h.org:22"), Some("/w"), &[("host", "h.org:22")]);
        check(&Need::one(C::StateRead, "k/a"), None, &[("key", "k/a")]);
        check(&Need::one(C::SystemEnv, "HOME"), None, &[("target", "HOME")]);
    }

    #[test]
    fn patterns_have_names_of_their_own() {
        let tree = Need::every(C::FilesystemWrite, "/w/**");
        check(&tree, Some("/w"), &[("pathPattern", "/w/**"), ("relativePattern", "**")]);
        check(&tree, None, &[("pathPattern", "/w/**")]);
        check(&Need::every(C::NetworkHttps, "*.h.org"), None, &[("hostPattern", "*.h.org")]);
        check(&Need::every(C::NetworkHttps, "h.org"), None, &[("host", "h.org")]);
        let odd = Need::every(C::FilesystemWrite, "/w?/**");
        check(&odd, Some("/w?"), &[("pathPattern", "/w?/**")]);
        assert!(shown(&tree, None).contains(r#""every":true"#));
    }

    #[test]
    fn what_is_not_resolved_is_refused() {
        for need in [
            Need::one(C::FilesystemRead, "/w/../x"),
            Need::one(C::FilesystemRead, ""),
            Need::every(C::FilesystemRead, "/w/[a]"),
        ] {
            assert!(pairs(Some(&need), None).unwrap_err().ends_with("is not resolved"));
        }
    }
}
