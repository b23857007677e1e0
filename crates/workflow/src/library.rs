//! Which workflows there are: files that were read, and what runs were begun with. A run keeps the
//! definition that it began with, whatever becomes of the file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use countersign_flow::{Blueprint, Definition, Problem, recursion};
use countersign_journal::blobs::Blobs;
use countersign_model::digest::canonical_json;
use countersign_model::{Digest, Failure};

use crate::trouble::Trouble;

/// Larger files are no workflows.
const MOST_BYTES: u64 = 4 << 20;

#[derive(Debug)]
struct Known {
    definition: Arc<Definition>,
    file: PathBuf,
}

#[derive(Debug, Default)]
pub struct Library {
    known: BTreeMap<String, Known>,
    broken: BTreeMap<String, Vec<Problem>>,
    pinned: Mutex<Pinned>,
}

/// Definitions by digest, and those of them that are kept already.
#[derive(Debug, Default)]
struct Pinned {
    by_digest: HashMap<Digest, Arc<Definition>>,
    kept: HashSet<Digest>,
}

impl Library {
    /// Reads every definition and blueprint in these directories. A file with problems is told when
    /// it is asked for; the others serve.
    pub fn load(
        workflows: &[PathBuf],
        blueprints: &[PathBuf],
        tool: &dyn Fn(&str) -> String,
    ) -> Result<Self, Failure> {
        let mut library = Library::default();
        for file in files(workflows, &["json"])? {
            let read = read(&file)?;
            library.take_in(&file, Definition::parse(&read));
        }
        for file in files(blueprints, &["yaml", "yml"])? {
            let read = String::from_utf8_lossy(&read(&file)?).into_owned();
            library.take_in(&file, blueprint(&read, tool).map(|(_, compiled)| compiled));
        }
        library.refuse_circles();
        Ok(library)
    }

    /// Adds a workflow that comes with the host. A file cannot take its name.
    pub fn provide(&mut self, definition: Definition) -> Result<(), Failure> {
        if let Some(known) = self.known.get(&definition.id) {
            let message =
                format!("{} has the name of a workflow of the host", known.file.display());
            return Err(Failure::validation("WORKFLOW_TWICE", message).hint("rename it"));
        }
        self.add(Path::new("(comes with the host)"), definition);
        Ok(())
    }

    fn take_in(&mut self, file: &Path, read: Result<Definition, Vec<Problem>>) {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match read {
            Err(problems) => drop(self.broken.insert(stem, problems)),
            Ok(definition) => match self.known.get(&definition.id) {
                Some(known) => {
                    let message =
                        format!("{} defines `{}` too", known.file.display(), definition.id);
                    let pointer = "/id".to_owned();
                    let problem = Problem { code: "WORKFLOW_TWICE", pointer, line: None, message };
                    self.broken.insert(stem, vec![problem]);
                }
                None => self.add(file, definition),
            },
        }
    }

    fn add(&mut self, file: &Path, definition: Definition) {
        let (id, file) = (definition.id.clone(), file.to_owned());
        self.known.insert(id, Known { definition: Arc::new(definition), file });
    }

    /// Workflows that call one another for ever are of no use to anybody.
    fn refuse_circles(&mut self) {
        for problem in recursion(self.known.values().map(|known| &*known.definition)) {
            let id = problem.pointer.trim_start_matches('/').to_owned();
            self.known.remove(&id);
            self.broken.insert(id, vec![problem]);
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.known.values().map(|known| &known.definition)
    }

    /// The file that defines a workflow.
    pub fn file(&self, id: &str) -> Option<&Path> {
        self.known.get(id).map(|known| known.file.as_path())
    }

    /// What cannot be used, and why.
    pub fn broken(&self) -> &BTreeMap<String, Vec<Problem>> {
        &self.broken
    }

    pub fn get(&self, id: &str) -> Result<Arc<Definition>, Trouble> {
        match (self.known.get(id), self.broken.get(id)) {
            (Some(known), _) => Ok(Arc::clone(&known.definition)),
            (None, Some(problems)) => Err(Trouble::Broken(id.to_owned(), problems.clone())),
            (None, None) => Err(Trouble::NoWorkflow(id.to_owned())),
        }
    }

    /// The same for runs of a tenant: a definition of another is not there.
    pub fn of_tenant(&self, id: &str, tenant: &str) -> Result<Arc<Definition>, Trouble> {
        let found = self.get(id)?;
        let owner = found.source().get("tenantId").and_then(serde_json::Value::as_str);
        match owner.is_none_or(|owner| owner == tenant) {
            true => Ok(found),
            false => Err(Trouble::NoWorkflow(id.to_owned())),
        }
    }

    /// Keeps a definition for as long as runs may need it.
    pub(crate) fn keep(&self, definition: &Arc<Definition>, blobs: &Blobs) -> Result<(), Failure> {
        let digest = definition.digest();
        if self.pinned().kept.contains(&digest) {
            return Ok(());
        }
        let bytes = canonical_json(definition.source())
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        if !blobs.holds(&digest) {
            blobs.put(&bytes)?;
        }
        let mut pinned = self.pinned();
        pinned.kept.insert(digest);
        pinned.by_digest.insert(digest, Arc::clone(definition));
        Ok(())
    }

    /// The definition that a run was begun with.
    pub(crate) fn pinned_as(
        &self,
        digest: &Digest,
        blobs: &Blobs,
    ) -> Result<Arc<Definition>, Failure> {
        let of_file = || self.all().find(|definition| definition.digest() == *digest).cloned();
        let known = self.pinned().by_digest.get(digest).cloned();
        if let Some(found) = known.or_else(of_file) {
            return Ok(found);
        }
        let bytes = blobs.get(digest)?;
        let definition = Definition::parse(&bytes).map_err(|problems| {
            let first = problems.first().map(|one| one.message.clone()).unwrap_or_default();
            Failure::state("JOURNAL_CORRUPT", format!("a kept workflow cannot be read: {first}"))
        })?;
        let definition = Arc::new(definition);
        self.pinned().by_digest.insert(*digest, Arc::clone(&definition));
        Ok(definition)
    }

    fn pinned(&self) -> std::sync::MutexGuard<'_, Pinned> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The blueprint in `text` with the workflow that it stands for, or everything that is wrong with
/// it. Its actions must be there.
pub fn blueprint(
    text: &str,
    tool: &dyn Fn(&str) -> String,
) -> Result<(Blueprint, Definition), Vec<Problem>> {
    let blueprint = Blueprint::parse_knowing(text, &|name| {
        let failure = countersign_actions::find(name).err()?;
        let hint = failure.hint.map(|hint| format!("; {hint}"));
        Some(format!("{}{}", failure.message, hint.unwrap_or_default()))
    })?;
    let compiled = blueprint.compile(tool)?;
    Ok((blueprint, compiled))
}

/// Files with one of these extensions, in the order of their names.
fn files(directories: &[PathBuf], extensions: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for directory in directories {
        let listed = match fs::read_dir(directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            listed => listed.map_err(|error| unreadable(directory, &error))?,
        };
        let mut here = Vec::new();
        for entry in listed {
            let path = entry.map_err(|error| unreadable(directory, &error))?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if extension.is_some_and(|extension| extensions.contains(&extension)) {
                here.push(path);
            }
        }
        here.sort();
        found.extend(here);
    }
    Ok(found)
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let size = fs::metadata(file).map_err(|error| unreadable(file, &error))?.len();
    if size > MOST_BYTES {
        let message = format!("{} has more than {MOST_BYTES} bytes", file.display());
        return Err(Failure::validation("WORKFLOW_TOO_LARGE", message)
            .hint("divide it into workflows that call one another"));
    }
    fs::read(file).map_err(|error| unreadable(file, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::validation("WORKFLOW_UNREADABLE", format!("{}: {error}", path.display()))
        .hint("make it readable for this user, or remove it")
}
