//! Cargo: tests, clippy and the format.

use std::collections::{BTreeMap, BTreeSet};

use super::project::{Project, ancestors, inside, join, name, parent, read_small};
use super::scope::Picked;
use super::{Command, Looking, Report, Source, Undetected, texts};
use crate::report::{LintFormat, TestFormat};

/// What is read of a `Cargo.toml`. One that cannot be read is a package without a name.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    package: Option<String>,
    workspace: bool,
    excluded: Vec<String>,
    uses: BTreeSet<String>,
    pub(super) is_fuzz: bool,
}

impl Manifest {
    pub(super) fn read(project: &dyn Project, directory: &str) -> Manifest {
        let text = read_small(project, &join(directory, "Cargo.toml"));
        let table = text.and_then(|text| text.parse::<toml::Table>().ok());
        table.as_ref().map(Manifest::of).unwrap_or_default()
    }

    fn of(table: &toml::Table) -> Manifest {
        let package = table.get("package");
        let workspace = table.get("workspace");
        let metadata = package.and_then(|package| package.get("metadata"));
        let excluded = workspace.and_then(|workspace| workspace.get("exclude")?.as_array());
        let excluded = excluded.into_iter().flatten().filter_map(toml::Value::as_str);
        Manifest {
            package: package.and_then(|package| package.get("name")?.as_str().map(str::to_owned)),
            workspace: workspace.is_some(),
            excluded: excluded.map(|path| path.trim_end_matches('/').to_owned()).collect(),
            uses: dependencies(table),
            is_fuzz: metadata.and_then(|m| m.get("cargo-fuzz")?.as_bool()) == Some(true),
        }
    }

    /// Whether a package there is one of this workspace.
    pub(super) fn holds(&self, own: &str, directory: &str) -> bool {
        let Some(path) = (if own == directory { Some("") } else { inside(own, directory) }) else {
            return false;
        };
        let excluded = |out: &String| path == out || inside(out, path).is_some();
        self.workspace && (path.is_empty() || !self.excluded.iter().any(excluded))
    }
}

/// Names of packages, in every table of dependencies there is.
fn dependencies(table: &toml::Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (key, value) in table {
        match key.as_str() {
            "dependencies" | "dev-dependencies" | "build-dependencies" => {
                for (alias, wanted) in value.as_table().into_iter().flatten() {
                    let renamed = wanted.get("package").and_then(toml::Value::as_str);
                    found.insert(renamed.unwrap_or(alias).to_owned());
                }
            }
            "target" => {
                let targets = value.as_table().into_iter().flatten();
                found.extend(targets.filter_map(|(_, t)| t.as_table()).flat_map(dependencies));
            }
            _ => {}
        }
    }
    found
}

pub(super) fn tests(looking: &mut Looking<'_, TestFormat>) -> Result<(), Undetected> {
    let mut argv = texts(["cargo", "test", "--offline", "--no-fail-fast", "--message-format=json"]);
    argv.extend(packages(looking).as_arguments("--workspace"));
    if let Some(filter) = looking.filter() {
        argv.extend(["--".to_owned(), filter.as_str().to_owned()]);
    }
    let report = Report { format: TestFormat::LibtestText, from: Source::Stdout };
    push(looking, "cargo-test", argv, report, &[]);
    Ok(())
}

pub(super) fn linters(looking: &mut Looking<'_, LintFormat>) {
    let packages = packages(looking);
    let mut argv =
        texts(["cargo", "clippy", "--offline", "--all-targets", "--message-format=json"]);
    argv.extend(packages.as_arguments("--workspace"));
    let report = Report { format: LintFormat::CargoJson, from: Source::Stdout };
    push(looking, "clippy", argv, report, &["cargo-clippy"]);

    let mut argv = texts(["cargo", "fmt", "--check"]);
    argv.extend(packages.as_arguments("--all"));
    let report = Report { format: LintFormat::Rustfmt, from: Source::Stdout };
    push(looking, "rustfmt", argv, report, &["cargo-fmt", "rustfmt"]);
}

fn push<F>(
    looking: &mut Looking<'_, F>,
    tool: &str,
    argv: Vec<String>,
    report: Report<F>,
    needs: &[&str],
) {
    let directory = &looking.root.directory;
    let command = Command::new(tool, directory, argv, report)
        .needing(needs)
        .with_environment(&[("CARGO_NET_OFFLINE", "true"), ("CARGO_TERM_COLOR", "never")])
        .because(looking.root.join("Cargo.toml"));
    looking.made.push(command);
}

enum Packages {
    All,
    Named(BTreeSet<String>),
}

impl Packages {
    fn as_arguments(&self, all: &str) -> Vec<String> {
        match self {
            Packages::All => vec![all.to_owned()],
            Packages::Named(names) => {
                names.iter().flat_map(|name| ["-p".to_owned(), name.clone()]).collect()
            }
        }
    }
}

/// Named paths mean their packages; changed ones also those that use them.
fn packages<F>(looking: &Looking<'_, F>) -> Packages {
    let Picked::Some { paths, changed } = &looking.picked else { return Packages::All };
    let manifests: BTreeMap<&str, Manifest> = looking
        .files()
        .filter(|path| name(path) == "Cargo.toml")
        .map(|path| {
            (parent(path), Manifest::read(looking.project, &looking.root.join(parent(path))))
        })
        .collect();
    let mut names = BTreeSet::new();
    for path in paths {
        match package_of(path, &manifests).filter(|_| !(*changed && concerns_all(path))) {
            Some(name) if is_package_name(name) => names.insert(name.to_owned()),
            _ => return Packages::All,
        };
    }
    if *changed {
        add_users(&mut names, &manifests);
    }
    Packages::Named(names)
}

fn package_of<'m>(path: &str, manifests: &'m BTreeMap<&str, Manifest>) -> Option<&'m str> {
    let nearest = ancestors(path).find_map(|above| manifests.get(above))?;
    nearest.package.as_deref()
}

/// Files at the root of a workspace reach further than the package beside them.
fn concerns_all(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or(path);
    first == path || first.starts_with('.')
}

/// The name comes from a file and becomes an argument.
fn is_package_name(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "-_".contains(c);
    !name.starts_with('-') && !name.is_empty() && name.chars().all(plain)
}

fn add_users(names: &mut BTreeSet<String>, manifests: &BTreeMap<&str, Manifest>) {
    loop {
        let before = names.len();
        for manifest in manifests.values() {
            if let Some(package) = manifest.package.as_ref().filter(|name| is_package_name(name))
                && !manifest.uses.is_disjoint(names)
            {
                names.insert(package.clone());
            }
        }
        if names.len() == before {
            return;
        }
    }
}
