//! Which commands a project wants to be tested and linted with.
//!
//! A pure function of a listing of paths and of a few small files. A directory with the manifest
//! of a tool is a root; one workspace may have several, and each gets its commands. A path belongs
//! to the nearest root above it, of whatever kind. Narrowing to what changed is careful: where it
//! is not clear what a change can break, more is run.

mod cargo;
mod command;
mod go;
mod node;
mod node_script;
mod project;
mod python;
mod scope;
mod typescript;

pub use command::{Command, LintCommand, Report, Source, TestCommand};
pub use project::{Listing, Project};
pub use scope::{Filter, Scope};

use crate::report::LintFormat;
use project::{Root, Roots};
use scope::{Picked, picked};

/// More roots than this are not a project but a collection of them.
pub const MAX_ROOTS: usize = 64;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    pub scope: Scope,
    /// Only tests whose names contain this text; linters take none.
    pub filter: Option<Filter>,
    /// Where tools may leave their reports, seen from inside, such as `/out`.
    pub out: String,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { scope: Scope::All, filter: None, out: "/out".to_owned() }
    }
}

/// Why there is no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undetected {
    #[error("nothing here says how it is {what}: looked for {}", looked_for.join(", "))]
    Nothing { what: &'static str, looked_for: Vec<&'static str> },
    #[error("the scope names nothing")]
    EmptyScope,
    #[error("nothing in the scope belongs to a project that can be {what}")]
    NothingInScope { what: &'static str },
    #[error("`{0}` is not a path in the workspace")]
    BadPath(String),
    #[error("a filter {0}")]
    BadFilter(&'static str),
    #[error("{tool} cannot be told to run only tests named `{filter}`")]
    FilterNotTaken { tool: String, filter: String },
    #[error("there are {0} projects in here, and at most {MAX_ROOTS} are looked at: name paths")]
    TooManyRoots(usize),
}

/// The commands that run the project's tests, at least one.
pub fn tests(project: &dyn Project, ask: &Ask) -> Result<Vec<TestCommand>, Undetected> {
    let commands = detect(project, ask, "tested", &mut |looking| {
        let before = looking.made.len();
        match looking.root.kind {
            Kind::Cargo => cargo::tests(looking)?,
            Kind::Go => go::tests(looking)?,
            Kind::Node => node::tests(looking)?,
            Kind::Python => python::tests(looking)?,
        }
        Ok(looking.made.len() > before)
    })?;
    Ok(node::without_umbrellas(commands))
}

/// The commands that lint the project, at least one.
pub fn linters(project: &dyn Project, ask: &Ask) -> Result<Vec<LintCommand>, Undetected> {
    detect(project, ask, "linted", &mut |looking: &mut Looking<'_, LintFormat>| {
        let before = looking.made.len();
        match looking.root.kind {
            Kind::Cargo => cargo::linters(looking),
            Kind::Go => go::linters(looking),
            Kind::Node => node::linters(looking),
            Kind::Python => python::linters(looking),
        }
        Ok(looking.made.len() > before)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Cargo,
    Go,
    Node,
    Python,
}

/// One root that is being looked at, and the commands made so far.
struct Looking<'a, F> {
    project: &'a dyn Project,
    roots: &'a Roots,
    root: &'a Root,
    ask: &'a Ask,
    picked: Picked,
    made: &'a mut Vec<Command<F>>,
}

impl<F> Looking<'_, F> {
    fn has(&self, name: &str) -> bool {
        self.project.has(&self.root.join(name))
    }

    fn read(&self, name: &str) -> Option<String> {
        project::read_small(self.project, &self.root.join(name))
    }

    /// Files of this root, relative to it.
    fn files(&self) -> impl Iterator<Item = &str> {
        self.roots.files_of(self.project, self.root)
    }

    /// A file for a report, of its own for each command.
    fn out(&self, name: &str) -> String {
        format!("{}/{}-{name}", self.ask.out.trim_end_matches('/'), self.made.len() + 1)
    }

    fn filter(&self) -> Option<&Filter> {
        self.ask.filter.as_ref()
    }
}

type Look<'l, F> = &'l mut dyn FnMut(&mut Looking<'_, F>) -> Result<bool, Undetected>;

fn detect<F>(
    project: &dyn Project,
    ask: &Ask,
    what: &'static str,
    look: Look<'_, F>,
) -> Result<Vec<Command<F>>, Undetected> {
    ask.scope.check()?;
    let roots = Roots::of(project)?;
    let mut made = Vec::new();
    let mut any = false;
    for root in &roots.all {
        let picked = picked(&ask.scope, &roots, root);
        if matches!(picked, Picked::None) {
            continue;
        }
        any = true;
        look(&mut Looking { project, roots: &roots, root, ask, picked, made: &mut made })?;
    }
    match (made.is_empty(), any || roots.all.is_empty()) {
        (false, _) => Ok(made),
        (true, false) => Err(Undetected::NothingInScope { what }),
        (true, true) => Err(Undetected::Nothing { what, looked_for: LOOKED_FOR.to_vec() }),
    }
}

const LOOKED_FOR: [&str; 9] = [
    "Cargo.toml",
    "go.mod",
    "package.json with a test script or a test tool",
    "pyproject.toml, setup.py, setup.cfg, tox.ini or pytest.ini",
    "test_*.py or *_test.py",
    "*.test.js or *.spec.js",
    "eslint.config.* or .eslintrc*",
    "tsconfig.json",
    "settings of ruff or mypy",
];

fn texts<const N: usize>(arguments: [&str; N]) -> Vec<String> {
    arguments.map(str::to_owned).to_vec()
}
