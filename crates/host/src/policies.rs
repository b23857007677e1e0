//! The policies of a home: read again when a file changes, frozen for the life of a call.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use countersign_model::{Digest, Failure};
use countersign_policy::{Policies, Problem, Rule, Source};
use rustix::io::Errno;
use serde_json::json;

use crate::home::Home;
use crate::host::Host;
use crate::root::shortage;

/// Where rules stand that people had remembered; their names begin with it and a dot.
pub const REMEMBERED: &str = "remembered";

/// Larger files are no policies.
const MOST_BYTES: u64 = 4 << 20;

/// The policies as they were last read, and what was read.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    read: RwLock<Option<Shelved>>,
    /// The set that this process knows to be on record.
    adopted: RwLock<Option<Digest>>,
}

#[derive(Debug, Clone)]
struct Shelved {
    stamps: Arc<[Stamp]>,
    policies: Arc<Policies>,
}

impl Shelf {
    pub(crate) fn is_adopted(&self, digest: Digest) -> bool {
        *self.adopted.read().unwrap_or_else(PoisonError::into_inner) == Some(digest)
    }

    pub(crate) fn set_adopted(&self, digest: Digest) {
        *self.adopted.write().unwrap_or_else(PoisonError::into_inner) = Some(digest);
    }
}

/// A file or directory, and how it stood: another time or place means another content.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    seen: Option<Seen>,
}

type Seen = (u64, u64, i64, i64, u64);

impl Stamp {
    fn of(path: PathBuf) -> Self {
        let seen = look(&path);
        Stamp { path, seen }
    }

    fn still_stands(&self) -> bool {
        look(&self.path) == self.seen
    }
}

fn look(path: &Path) -> Option<Seen> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec(), found.len()))
}

impl Host {
    /// The policies as they stand now. What cannot be read or understood lets nothing run.
    pub fn policies(&self) -> Result<Arc<Policies>, Failure> {
        let shelved = self.shelf.read.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Looked at without the lock: callers do not wait for each other's disk.
        if let Some(Shelved { stamps, policies }) = shelved
            && stamps.iter().all(Stamp::still_stands)
        {
            return Ok(policies);
        }
        let (stamps, sources) = read(&self.home.policy())?;
        let policies = compile(&self.home, &sources)?;
        let shelved = Shelved { stamps: stamps.into(), policies: Arc::clone(&policies) };
        *self.shelf.read.write().unwrap_or_else(PoisonError::into_inner) = Some(shelved);
        Ok(policies)
    }
}

pub(crate) fn compile(home: &Home, sources: &[Source]) -> Result<Arc<Policies>, Failure> {
    compile_with(sources, &home.config.policy.rules)
}

/// A set of policies that stands anywhere, or everything that is wrong with it.
pub fn compile_with(sources: &[Source], rules: &[Rule]) -> Result<Arc<Policies>, Failure> {
    let compiled = Policies::compile(sources, rules);
    compiled.map(Arc::new).map_err(|problems| invalid(&problems))
}

/// Every policy file of a directory and of `remembered` in it, in the order of names. Stamps are taken first: a file that changes
/// while it is read is read again at the next call.
fn read(directory: &Path) -> Result<(Vec<Stamp>, Vec<Source>), Failure> {
    let remembered = directory.join(REMEMBERED);
    let mut stamps = vec![Stamp::of(directory.to_owned()), Stamp::of(remembered.clone())];
    let mut sources = Vec::new();
    for (prefix, directory) in [("", directory), ("remembered.", &remembered)] {
        for name in names(directory).map_err(|error| unreadable(directory, &error))? {
            let path = directory.join(&name);
            stamps.push(Stamp::of(path.clone()));
            let text = text(&path).map_err(|error| unreadable(&path, &error))?;
            sources.push(Source { name: format!("{prefix}{name}"), text });
        }
    }
    Ok((stamps, sources))
}

/// The sources of a home's policies as they stand on disk.
pub fn sources(home: &Home) -> Result<Vec<Source>, Failure> {
    sources_in(&home.policy())
}

/// Likewise for policies that stand elsewhere, to be tried.
pub fn sources_in(directory: &Path) -> Result<Vec<Source>, Failure> {
    Ok(read(directory)?.1)
}

/// One policy file that stands anywhere.
pub fn source_at(path: &Path) -> Result<Source, Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let text = text(path).map_err(|error| unreadable(path, &error))?;
    Ok(Source { name, text })
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        // One that cannot be read as text could be meant as a policy, and forbid something.
        let name = name.to_str().ok_or_else(|| io::Error::other("a name in it is not UTF-8"))?;
        if is_policy(name) {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Editors leave files behind whose names begin with a dot.
fn is_policy(name: &str) -> bool {
    name.ends_with(".cedar") && !name.starts_with('.')
}

fn text(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > MOST_BYTES {
        return Err(io::Error::other(format!("it is larger than {MOST_BYTES} bytes")));
    }
    fs::read_to_string(path)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    if let Some(shortage) = Errno::from_io_error(error).and_then(shortage) {
        return shortage;
    }
    let message = format!("the policy {} cannot be read: {error}", path.display());
    Failure::authorization("POLICY_UNREADABLE", message)
        .hint("nothing runs until it can be read; correct or remove it")
}

pub(crate) fn invalid(problems: &[Problem]) -> Failure {
    let message = problems.first().map_or_else(
        || "the policies are not valid".to_owned(),
        |first| format!("the policies are not valid: {first}"),
    );
    Failure::authorization("POLICY_INVALID", message)
        .hint("nothing runs until they are; see all problems with `countersign policy lint`")
        .details(json!(problems))
}
