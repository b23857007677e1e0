//! Which crate may depend on which.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::code::{code_only, has_word};
use crate::tree::Tree;

/// Every crate that may exist, and the crates of this workspace it may use. Those that are not
/// there yet keep their place, so that a new crate starts with a rule.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("documents", &["model"]),
    ("flow", &["model"]),
    ("pack", &["documents", "model"]),
    ("patch", &[]),
    ("policy", &["model"]),
    ("journal", &["model"]),
    ("egress", &["model"]),
    ("reports", &[]),
    ("sandbox", &["model"]),
    ("sandbox-linux", &["sandbox", "model"]),
    ("sandbox-wasm", &["sandbox", "model"]),
    ("repository", &["model"]),
    ("host", &["model", "policy", "journal", "sandbox", "repository"]),
    ("desk", &["host", "documents", "model"]),
    ("actions", &["host", "journal", "sandbox", "pack", "patch", "reports", "repository", "model"]),
    ("workflow", &["host", "journal", "actions", "documents", "flow", "model"]),
    ("server", &["host", "workflow", "flow", "journal", "documents", "egress", "model"]),
    ("cli", ALL),
    ("tidy", &[]),
];

const ALL: &[&str] = &[
    "model",
    "documents",
    "flow",
    "pack",
    "patch",
    "policy",
    "journal",
    "egress",
    "reports",
    "sandbox",
    "sandbox-linux",
    "sandbox-wasm",
    "repository",
    "host",
    "desk",
    "actions",
    "workflow",
    "server",
];

/// Packages from outside that only some crates may use, tests apart.
const CONFINED: &[(&str, &[&str])] = &[
    // The disk format belongs to the journal; the benchmark compares it with bare SQLite.
    ("rusqlite", &["journal", "cli"]),
    // The runtime that runs guests, and the timers it needs.
    ("tokio", &["sandbox-wasm", "server"]),
    ("wasmtime", &["sandbox-wasm"]),
    ("wasmtime-wasi", &["sandbox-wasm"]),
    // Whatever listens on the network.
    ("axum", &["server"]),
    ("hyper", &["server"]),
    ("hyper-util", &["server"]),
    ("http-body-util", &["server"]),
    ("tokio-rustls", &["server"]),
    ("ring", &["server"]),
    // Tests write guests as text; the product takes binaries, and is built faster for it.
    ("wat", &[]),
    // Whatever talks to a terminal or to signals.
    ("anstream", &["cli"]),
    ("anstyle", &["cli"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("signal-hook", &["cli"]),
    ("terminal_size", &["cli"]),
    ("tracing-subscriber", &["cli"]),
    // Whatever decides.
    ("cedar-policy", &["policy"]),
    ("miette", &["policy"]),
    ("jsonschema", &["model"]),
    ("referencing", &["model"]),
    ("serde_json_canonicalizer", &["model"]),
    // Archives of reviews.
    ("tar", &["actions"]),
    // Whatever reads patches.
    ("imara-diff", &["patch"]),
    ("miniz_oxide", &["patch", "repository"]),
    ("sha1", &["patch"]),
    ("sha1-checked", &["repository"]),
    // Whatever reads documents a second time.
    ("pulldown-cmark", &["documents"]),
    ("serde-saphyr", &[]),
    ("shlex", &["documents"]),
    // Whatever reads conditions and blueprints.
    ("granit-parser", &["flow"]),
    ("minijinja", &["flow"]),
    // Whatever counts tokens, and what it is held against.
    ("tiktoken", &["pack"]),
    ("tiktoken-rs", &[]),
    // Test reports of other tools: the only XML there is.
    ("quick-xml", &["reports"]),
];

/// Crates that are functions of their arguments.
const PURE: [&str; 7] = [
    "crates/documents/src/",
    "crates/flow/src/",
    "crates/model/src/",
    "crates/pack/src/",
    "crates/patch/src/",
    "crates/policy/src/",
    "crates/reports/src/",
];

/// What a crate of pure rules cannot have.
const IMPURE: [&str; 6] = ["fs", "net", "thread", "process", "env", "os"];

/// A crate by the name of its directory, with the packages it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub licence: Option<String>,
    pub published: bool,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    pub package: String,
    pub for_tests: bool,
    /// The directory of a crate of ours.
    pub member: Option<String>,
}

/// Reads the answer of `cargo metadata --no-deps`.
pub fn members(metadata: &Value) -> Vec<Member> {
    list(metadata, "packages").iter().filter_map(member).collect()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

fn member(package: &Value) -> Option<Member> {
    let directory = text(package, "manifest_path")?.strip_suffix("/Cargo.toml")?;
    Some(Member {
        name: last_part(directory),
        licence: text(package, "license").map(str::to_owned),
        published: package
            .get("publish")
            .is_none_or(|to| to.as_array().is_none_or(|a| !a.is_empty())),
        dependencies: list(package, "dependencies").iter().filter_map(dependency).collect(),
    })
}

fn dependency(value: &Value) -> Option<Dependency> {
    Some(Dependency {
        package: text(value, "name")?.to_owned(),
        for_tests: text(value, "kind") == Some("dev"),
        member: text(value, "path").map(last_part),
    })
}

fn last_part(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Every dependency that the layers do not allow.
pub fn forbidden_edges(members: &[Member]) -> Vec<String> {
    let layers: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    let mut problems = Vec::new();
    for member in members {
        let name = member.name.as_str();
        let Some(allowed) = layers.get(name) else {
            problems.push(format!("crate `{name}` has no row in the layer table of crates/tidy"));
            continue;
        };
        for dependency in &member.dependencies {
            problems.extend(forbidden(name, allowed, dependency));
        }
    }
    problems
}

fn forbidden(name: &str, allowed: &[&str], dependency: &Dependency) -> Option<String> {
    let package = dependency.package.as_str();
    if let Some(other) = dependency.member.as_deref() {
        let may = if allowed.is_empty() {
            "no other crate of ours".to_owned()
        } else {
            format!("only {}", allowed.join(", "))
        };
        return (!allowed.contains(&other))
            .then(|| format!("`{name}` may not depend on `{other}`: it may use {may}"));
    }
    let (_, users) = CONFINED.iter().find(|(confined, _)| *confined == package)?;
    (!dependency.for_tests && !users.contains(&name)).then(|| {
        format!("`{name}` may not depend on `{package}`: that is for {}", users.join(", "))
    })
}

/// Files, sockets, threads, processes and clocks in the crates of pure rules.
pub fn impure_rules(tree: &Tree) -> Vec<String> {
    let sources = tree.with_extension("rs");
    let is_pure = |path: &str| PURE.iter().any(|crate_| path.starts_with(crate_));
    sources
        .filter(|file| is_pure(&file.path))
        .flat_map(|file| {
            let path = &file.path;
            let used = impurities(&code_only(&file.text));
            used.into_iter().map(move |what| {
                format!(
                    "{path} uses `{what}`: pure rules have no files, threads or clock of their own"
                )
            })
        })
        .collect()
}

fn impurities(code: &str) -> Vec<String> {
    let mut found: Vec<String> = std_modules(code)
        .filter(|module| IMPURE.contains(module))
        .map(|module| format!("std::{module}"))
        .collect();
    // `SystemTime` alone is also the name of a capability.
    let clocks = ["SystemTime::", "time::SystemTime", "Instant::", "time::Instant"];
    found.extend(clocks.iter().filter(|clock| code.contains(**clock)).map(|c| c.to_string()));
    found
}

/// The first name after each `std::`, also in a list such as `use std::{fmt, fs}`.
fn std_modules(code: &str) -> impl Iterator<Item = &str> {
    let first_name = |path: &str| path.split(|c| !crate::code::is_word(c)).next().map(str::len);
    code.split("std::").skip(1).flat_map(move |after| {
        let list = after.strip_prefix('{').and_then(|list| list.split(';').next());
        list.unwrap_or(after.split([',', ';', '}', '\n']).next().unwrap_or(after))
            .split([',', '{'])
            .map(str::trim)
            .filter_map(move |path| path.get(..first_name(path)?))
    })
}

/// SQLite in the binary's own sources is for the benchmark only.
pub fn sqlite_outside_the_benchmark(tree: &Tree) -> Vec<String> {
    let ours = |path: &str| {
        path.starts_with("crates/cli/src/") && !path.starts_with("crates/cli/src/bench/")
    };
    tree.with_extension("rs")
        .filter(|file| ours(&file.path) && has_word(&code_only(&file.text), "rusqlite"))
        .map(|file| format!("{} uses `rusqlite`: only the benchmark may", file.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(name: &str, dependency: &Value) -> Vec<String> {
        let manifest = format!("/somewhere/crates/{name}/Cargo.toml");
        let package = json!({"manifest_path": manifest, "dependencies": [dependency]});
        forbidden_edges(&members(&json!({"packages": [package]})))
    }

    #[test]
    fn edges_against_the_layers_are_named() {
        let ours =
            |name: &str| json!({"name": "countersign-x", "path": format!("/x/crates/{name}")});
        assert_eq!(check("host", &ours("journal")), [""; 0]);
        assert_eq!(check("cli", &ours("host")), [""; 0]);
        assert_eq!(
            check("model", &ours("journal")),
            ["`model` may not depend on `journal`: it may use no other crate of ours"]
        );
        assert_eq!(
            check("journal", &ours("host")),
            ["`journal` may not depend on `host`: it may use only model"]
        );
        assert_eq!(check("novel", &ours("model")).len(), 1);
        assert_eq!(check("model", &json!({"name": "clap", "kind": null})).len(), 1);
        assert_eq!(check("host", &json!({"name": "rusqlite", "kind": "dev"})), [""; 0]);
    }

    #[test]
    fn the_binary_may_use_every_layer() {
        let below =
            LAYERS.iter().map(|(name, _)| *name).filter(|name| !["cli", "tidy"].contains(name));
        assert_eq!(below.collect::<Vec<_>>(), ALL);
    }

    #[test]
    fn impurities_are_found_in_every_spelling() {
        assert_eq!(impurities("use std::fs;"), ["std::fs"]);
        assert_eq!(impurities("use std::{\n    fmt,\n    net::TcpStream,\n};"), ["std::net"]);
        assert_eq!(impurities("let x = std::thread::spawn(f);"), ["std::thread"]);
        assert_eq!(impurities("let now = SystemTime::now();"), ["SystemTime::"]);
        assert_eq!(impurities("Capability::SystemTime => 1"), [""; 0]);
        assert_eq!(
            impurities("use std::{fmt, str::FromStr}; use std::collections::BTreeMap;"),
            [""; 0]
        );
    }
}
