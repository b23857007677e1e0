//! A project as a listing, and the roots in it.

use std::collections::{BTreeMap, BTreeSet};

use super::cargo::Manifest;
use super::{Kind, MAX_ROOTS, Undetected};

/// What can be known of a workspace. Paths are relative, with `/`.
pub trait Project {
    fn has(&self, path: &str) -> bool;
    /// The text of a small file, if it is there and is text.
    fn read(&self, path: &str) -> Option<String>;
    /// Every file, in any order.
    fn paths(&self) -> Box<dyn Iterator<Item = &str> + '_>;
}

/// A project that is held in memory.
#[derive(Debug, Clone, Default)]
pub struct Listing(BTreeMap<String, String>);

impl Listing {
    pub fn new() -> Listing {
        Listing::default()
    }

    #[must_use]
    pub fn with(mut self, path: &str, text: &str) -> Listing {
        self.0.insert(path.to_owned(), text.to_owned());
        self
    }
}

impl Project for Listing {
    fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    fn read(&self, path: &str) -> Option<String> {
        self.0.get(path).cloned()
    }

    fn paths(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.0.keys().map(String::as_str))
    }
}

/// Larger files are not manifests.
const MAX_FILE: usize = 1024 * 1024;

pub(super) fn read_small(project: &dyn Project, path: &str) -> Option<String> {
    project.read(path).filter(|text| text.len() <= MAX_FILE)
}

/// A directory with a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Root {
    /// Empty for the workspace itself.
    pub(crate) directory: String,
    pub(crate) kind: Kind,
}

impl Root {
    pub(crate) fn join(&self, name: &str) -> String {
        join(&self.directory, name)
    }
}

pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The path as seen from a directory that holds it.
pub(super) fn inside<'p>(directory: &str, path: &'p str) -> Option<&'p str> {
    if directory.is_empty() {
        return Some(path);
    }
    path.strip_prefix(directory)?.strip_prefix('/')
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

pub(super) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A path and the directories above it, the nearest first; the last is the workspace.
pub(super) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(path);
    std::iter::from_fn(move || {
        let current = next?;
        next = (!current.is_empty()).then(|| parent(current));
        Some(current)
    })
}

/// Every root, outer ones first.
#[derive(Debug)]
pub(crate) struct Roots {
    pub(crate) all: Vec<Root>,
    directories: BTreeSet<String>,
}

impl Roots {
    pub(super) fn of(project: &dyn Project) -> Result<Roots, Undetected> {
        let mut found: BTreeSet<(String, Kind)> = BTreeSet::new();
        let mut packages: BTreeMap<&str, Manifest> = BTreeMap::new();
        let mut loose_python = false;
        for path in project.paths().filter(|path| !is_foreign(path)) {
            let directory = parent(path);
            let kind = match name(path) {
                "Cargo.toml" => {
                    packages.insert(directory, Manifest::read(project, directory));
                    continue;
                }
                "go.mod" => Kind::Go,
                "package.json" => Kind::Node,
                "pyproject.toml" | "setup.py" | "setup.cfg" | "pytest.ini" | "tox.ini" => {
                    Kind::Python
                }
                file => {
                    loose_python |= is_python_test(file);
                    continue;
                }
            };
            found.insert((directory.to_owned(), kind));
        }
        found.extend(cargo_roots(&packages));
        without_inner_python(&mut found);
        if loose_python && !found.iter().any(|(_, kind)| *kind == Kind::Python) {
            found.insert((String::new(), Kind::Python));
        }
        if found.len() > MAX_ROOTS {
            return Err(Undetected::TooManyRoots(found.len()));
        }
        let directories = found.iter().map(|(directory, _)| directory.clone()).collect();
        let all = found.into_iter().map(|(directory, kind)| Root { directory, kind }).collect();
        Ok(Roots { all, directories })
    }

    /// The directory of the nearest root above a path, of whatever kind.
    pub(crate) fn nearest(&self, path: &str) -> Option<&str> {
        let found = ancestors(path).find_map(|above| self.directories.get(above));
        found.map(String::as_str)
    }

    pub(super) fn files_of<'p>(
        &'p self,
        project: &'p dyn Project,
        root: &'p Root,
    ) -> impl Iterator<Item = &'p str> {
        let own = |path: &&str| self.nearest(path) == Some(root.directory.as_str());
        let paths = project.paths().filter(|path| !is_foreign(path)).filter(own);
        paths.filter_map(|path| inside(&root.directory, path))
    }
}

/// What a tool fetched or built, and what tests keep as data, is not the project's own.
fn is_foreign(path: &str) -> bool {
    const FOREIGN: [&str; 9] = [
        "node_modules",
        "target",
        "vendor",
        "venv",
        "site-packages",
        "__pycache__",
        "testdata",
        "fixtures",
        "__fixtures__",
    ];
    parent(path)
        .split('/')
        .any(|part| FOREIGN.contains(&part) || (part.starts_with('.') && part != "."))
}

pub(super) fn is_python_test(file: &str) -> bool {
    let stem = file.strip_suffix(".py");
    stem.is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
}

/// The workspaces that Cargo packages belong to; what only fuzzes has no tests.
fn cargo_roots(packages: &BTreeMap<&str, Manifest>) -> BTreeSet<(String, Kind)> {
    let tested = packages.iter().filter(|(_, manifest)| !manifest.is_fuzz);
    let root = |directory: &str| {
        let mut above = ancestors(directory);
        let holder =
            above.find(|above| packages.get(above).is_some_and(|m| m.holds(above, directory)));
        holder.unwrap_or(directory).to_owned()
    };
    tested.map(|(directory, _)| (root(directory), Kind::Cargo)).collect()
}

/// An outer pytest collects what is in inner projects as well.
fn without_inner_python(found: &mut BTreeSet<(String, Kind)>) {
    let python = found.iter().filter(|(_, kind)| *kind == Kind::Python);
    let outer: BTreeSet<String> = python.map(|(directory, _)| directory.clone()).collect();
    found.retain(|(directory, kind)| {
        *kind != Kind::Python
            || directory.is_empty()
            || !ancestors(parent(directory)).any(|above| outer.contains(above))
    });
}
