//! Scopes: the grammar by table, the rules by property against a naive matcher.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input has failed")]

use std::time::{Duration, Instant};

use countersign_model::Scope;
use countersign_model::scope::{is_resource, pattern_for};
use proptest::prelude::*;

fn scope(patterns: &[&str]) -> Scope {
    Scope::parse(patterns).unwrap()
}

#[test]
fn patterns_match_by_component() {
    let table: &[(&str, &[&str], &[&str])] = &[
        (
            "/srv/*.txt",
            &["/srv/a.txt", "/srv/.txt"],
            &["/srv/a/b.txt", "/srv/a.txt/b", "srv/a.txt"],
        ),
        ("/srv/**", &["/srv", "/srv/a", "/srv/a/b/.c"], &["/srvx", "/", "srv/a"]),
        ("/srv/**/x", &["/srv/x", "/srv/a/b/x"], &["/srv/a/y", "/srv/ax"]),
        ("/a/?/c", &["/a/b/c", "/a/é/c"], &["/a/bb/c", "/a/c"]),
        ("counters/*", &["counters/a"], &["counters", "counters/a/b", "/counters/a"]),
        ("*.example.org:443", &["api.example.org:443"], &["api.example.org:80", "example.org:443"]),
        ("/**", &["/", "/a", "/a/b"], &["a", "a/b"]),
        ("**/a", &["a", "b/a"], &["/a", "/b/a"]),
        ("**", &["/", "/a", "a/b", "h:1"], &[]),
        ("/a.b+(c)", &["/a.b+(c)"], &["/axb+(c)", "/a.bb(c)"]),
        ("/", &["/"], &["/a"]),
    ];
    for (pattern, inside, outside) in table {
        let scope = scope(&[pattern]);
        inside.iter().for_each(|r| assert!(scope.contains(r), "{pattern} has {r}"));
        outside.iter().for_each(|r| assert!(!scope.contains(r), "{pattern} has not {r}"));
    }
}

#[test]
fn unresolved_resources_are_in_no_scope() {
    let all = scope(&["**", "/**", "/srv/*/a", "/srv/**"]);
    for resource in ["", "/srv/../etc", "/srv/./a", "/srv//a", "/srv/", "//", "..", ".", "a/.."] {
        assert!(!all.contains(resource), "{resource}");
    }
    assert!(all.contains("/srv/...") && all.contains("/srv/.a"));
}

#[test]
fn an_empty_scope_contains_nothing_and_is_covered_by_anything() {
    let nothing = Scope::default();
    assert!(!nothing.contains("/a") && !nothing.contains("a"));
    assert!(nothing.covers(&nothing) && scope(&["/a"]).covers(&nothing));
    assert!(!nothing.covers(&scope(&["/a"])));
}

#[test]
fn other_dialects_and_unresolved_patterns_are_refused() {
    let long = "a".repeat(1025);
    let bad = [
        "", "//", "/a//b", "/a/", "a/", "./a", "/a/../b", "..", "/a**", "***", "a**b/c", "/[ab]",
        "a]", "{a,b}", "a\\*", "a\nb", "a\0", "a\u{7f}", "a\u{85}", &long,
    ];
    for pattern in bad {
        assert_eq!(Scope::parse([pattern]).unwrap_err().code, "SCOPE_INVALID", "{pattern:?}");
    }
    assert!(Scope::parse(["a".repeat(1024)]).is_ok());
    assert!(Scope::parse(vec!["a"; 64]).is_ok());
    assert_eq!(Scope::parse(vec!["a"; 65]).unwrap_err().code, "SCOPE_INVALID");
}

#[test]
fn cover_is_exact_on_the_cases_people_write() {
    let yes = [
        ("**", "**"),
        ("**", "/a/**"),
        ("**", "a/*"),
        ("/**", "/srv/**"),
        ("/srv/**", "/srv/a/**/b"),
        ("/srv/**", "/srv"),
        ("/srv/*", "/srv/a*"),
        ("/srv/*", "/srv/?"),
        ("/a/*.txt", "/a/b?.txt"),
        ("/**/*", "/a/b"),
        ("a/**/z", "a/z"),
        ("/**", "/"),
    ];
    let no = [
        ("/**", "**"),
        ("**/**", "**"),
        ("/**", "a"),
        ("**/a", "/b/a"),
        ("/srv/*", "/srv/**"),
        ("/srv/*", "/srv/a/b"),
        ("/srv/?", "/srv/*"),
        ("/srv/a", "/srv/?"),
        ("/srv/**", "/**"),
        ("/srv/**/x", "/srv/**"),
        ("/srv/a*", "/srv/*"),
        ("/*/b", "/**/b"),
    ];
    for (wide, narrow) in yes {
        assert!(scope(&[wide]).covers(&scope(&[narrow])), "{wide} covers {narrow}");
    }
    for (wide, narrow) in no {
        assert!(!scope(&[wide]).covers(&scope(&[narrow])), "{wide} does not cover {narrow}");
    }
}

#[test]
fn scopes_are_checked_when_they_are_read() {
    let json = r#"["/srv/**","counters/a"]"#;
    assert_eq!(serde_json::to_string(&serde_json::from_str::<Scope>(json).unwrap()).unwrap(), json);
    assert!(serde_json::from_str::<Scope>(r#"["/srv/../etc"]"#).is_err());
    assert!(serde_json::from_str::<Scope>(r#""**""#).is_err());
}

#[test]
fn hostile_patterns_do_not_hang() {
    let began = Instant::now();
    let inside = format!("/{}b", "*a".repeat(500));
    let across = format!("/{}b", "**/a/".repeat(200));
    let both = scope(&[&inside, &across]);
    assert!(!both.contains(&format!("/{}", "a".repeat(4000))));
    assert!(!both.contains(&"/a".repeat(2000)));
    assert!(!both.covers(&scope(&[&format!("/{}c", "**/a/".repeat(200))])));
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// The definition of matching, without any cleverness.
fn naive(pattern: &[&str], resource: &[&str]) -> bool {
    match (pattern.split_first(), resource.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => {
            naive(rest, resource) || resource.split_first().is_some_and(|(_, r)| naive(pattern, r))
        }
        (Some((p, rest)), Some((r, tail))) => {
            let (p, r): (Vec<_>, Vec<_>) = (p.chars().collect(), r.chars().collect());
            naive_component(&p, &r) && naive(rest, tail)
        }
        _ => false,
    }
}

fn naive_component(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => {
            naive_component(rest, text)
                || text.split_first().is_some_and(|(_, t)| naive_component(pattern, t))
        }
        (Some((p, rest)), Some((c, tail))) => (*p == '?' || p == c) && naive_component(rest, tail),
        _ => false,
    }
}

fn naive_contains(pattern: &str, resource: &str) -> bool {
    let split = |text: &str| -> (bool, Vec<String>) {
        let rest = text.strip_prefix('/');
        let parts = rest.unwrap_or(text).split('/').map(str::to_owned).collect();
        (rest.is_some(), parts)
    };
    let ((p_abs, p), (r_abs, r)) = (split(pattern), split(resource));
    let p: Vec<_> = p.iter().map(String::as_str).collect();
    let r: Vec<_> = r.iter().map(String::as_str).collect();
    pattern == "**" || (p_abs == r_abs && naive(&p, &r))
}

/// Few letters and short components, so that random patterns and resources meet often.
fn a_pattern() -> impl Strategy<Value = String> {
    let component = prop_oneof![Just("**".to_owned()), "[ab?]{1,3}", "[ab]?\\*([ab?](\\*[ab]?)?)?"];
    ("/?", prop::collection::vec(component, 1..5)).prop_map(|(root, parts)| root + &parts.join("/"))
}

fn a_resource() -> impl Strategy<Value = String> {
    ("/?", prop::collection::vec("[ab]{1,3}", 1..6))
        .prop_map(|(root, parts)| root + &parts.join("/"))
}

fn a_scope() -> impl Strategy<Value = Scope> {
    prop::collection::vec(a_pattern(), 0..4).prop_map(|patterns| Scope::parse(patterns).unwrap())
}

/// A resource made from a pattern: wildcards filled in, so that it is inside.
fn filled(pattern: &str, fill: &str, times: usize) -> String {
    let root = if pattern.starts_with('/') { "/" } else { "" };
    let parts = pattern.trim_start_matches('/').split('/').flat_map(|part| match part {
        "**" => vec![fill.to_owned(); times],
        _ => vec![part.replace('*', fill).replace('?', "b")],
    });
    root.to_owned() + &parts.collect::<Vec<_>>().join("/")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..Default::default() })]

    #[test]
    fn matching_equals_its_definition(pattern in a_pattern(), resource in a_resource()) {
        let scope = Scope::parse([&pattern]).unwrap();
        prop_assert_eq!(scope.contains(&resource), naive_contains(&pattern, &resource));
    }

    #[test]
    fn cover_is_sound(a in a_scope(), b in a_scope(), fill in "[ab]{1,2}", times in 0usize..3) {
        if a.covers(&b) {
            for resource in b.patterns().map(|pattern| filled(pattern, &fill, times)) {
                prop_assert!(!b.contains(&resource) || a.contains(&resource), "{}", resource);
            }
        }
    }

    #[test]
    fn cover_is_sound_for_any_resource(a in a_pattern(), b in a_pattern(), resource in a_resource()) {
        let (a, b) = (Scope::parse([a]).unwrap(), Scope::parse([b]).unwrap());
        prop_assert!(!(a.covers(&b) && b.contains(&resource)) || a.contains(&resource));
    }

    #[test]
    fn cover_is_reflexive(a in a_scope()) {
        prop_assert!(a.covers(&a) && Scope::everything().covers(&a));
    }

    #[test]
    fn cover_is_transitive(a in a_pattern(), b in a_pattern(), c in a_pattern()) {
        let [a, b, c] = [a, b, c].map(|p| Scope::parse([p]).unwrap());
        prop_assert!(!(a.covers(&b) && b.covers(&c)) || a.covers(&c));
    }

    #[test]
    fn what_parses_and_what_matches_never_panics(pattern in ".{0,40}", resource in ".{0,40}") {
        if let Ok(scope) = Scope::parse([&pattern]) {
            prop_assert!(!scope.contains(&resource) || is_resource(&resource));
            prop_assert!(scope.covers(&scope));
        }
    }

    #[test]
    fn every_resource_has_a_pattern_that_contains_it(resource in "/?[a*?\\[\\]{}\\\\\n]{1,3}(/[ab*]{1,2}){0,3}") {
        let scope = Scope::parse([pattern_for(&resource)]).unwrap();
        prop_assert!(scope.contains(&resource));
    }
}
