//! Publishing without a home: for commands that are tried in the box and recorded nowhere.
//!
//! The same scan and the same steps as for a call. What is missing is the journal: when this process
//! is killed in the middle, nobody finishes the work.

use std::fs::{self, DirBuilder};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use countersign_journal::Blobs;
use countersign_model::effect::Effect;
use countersign_model::{ExecutionId, Failure};
use countersign_sandbox::backend::StagedWorkspace;
use countersign_sandbox::staging::{Bounds, OutFile, scan_out, scan_workspace, walk};
use countersign_sandbox::{Limits, Staged};
use serde::Serialize;

use crate::clock::{Clock, SystemClock};
use crate::manifest::Manifest;
use crate::path::RelPath;
use crate::pipeline::{effects_of, workspace_unchanged};
use crate::publish::{Patience, publish};
use crate::root::Root;

/// A path that was changed, relative to its directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Published {
    pub path: String,
    pub kind: &'static str,
}

/// A command that is about to be tried.
#[derive(Debug)]
pub struct Trial {
    workspace: Option<(Root, Manifest)>,
    out: Option<PathBuf>,
    home: PathBuf,
    aside: Aside,
}

impl Trial {
    /// To be called before the command runs: takes note of the workspace as it is. The home, if there
    /// is one, is neither shown nor written.
    pub fn begin(
        workspace: Option<&Path>,
        out: Option<&Path>,
        home: &Path,
    ) -> Result<Self, Failure> {
        let aside = Aside::make()?;
        let workspace = match workspace {
            None => None,
            Some(path) => {
                let root = Root::open(path, home)?;
                let manifest = Manifest::take_settled(&root)?;
                Some((root, manifest))
            }
        };
        let (out, home) = (out.map(Path::to_owned), home.to_owned());
        Ok(Trial { workspace, out, home, aside })
    }

    /// What of the workspace the command must not see.
    pub fn hidden(&self) -> Result<Vec<String>, Failure> {
        let Some((root, _)) = &self.workspace else { return Ok(Vec::new()) };
        Ok(root.home_beneath(&self.home)?.iter().map(ToString::to_string).collect())
    }

    /// Puts what the command staged where it belongs. Everything is judged before anything is
    /// written.
    pub fn publish(self, staged: &Staged, limits: &Limits) -> Result<Vec<Published>, Failure> {
        let original = self.workspace.as_ref().map_or(0, |(_, manifest)| manifest.len());
        let original = original.saturating_mul(2).saturating_add(10_000);
        let bounds = Bounds {
            entries: limits.inodes.saturating_add(original),
            original,
            bytes: limits.total_size,
        };
        let out = staged.out.as_ref().zip(self.out.as_deref());
        let files =
            out.map(|(staged, _)| scan_out(staged, &bounds)).transpose()?.unwrap_or_default();
        let mut published = Vec::new();
        if let (Some(staged), Some((root, manifest))) = (&staged.workspace, &self.workspace) {
            published.extend(self.publish_workspace(staged, root, manifest, &bounds)?);
        }
        if let Some((staged, path)) = out {
            published.extend(publish_out(staged, &files, path, &self.home)?);
        }
        Ok(published)
    }

    fn publish_workspace(
        &self,
        staged: &StagedWorkspace,
        root: &Root,
        manifest: &Manifest,
        bounds: &Bounds,
    ) -> Result<Vec<Published>, Failure> {
        let mut same =
            |path: &str, entry: Option<&walk::Entry>| manifest.check(&RelPath::parse(path)?, entry);
        let changes = scan_workspace(staged, root.directory(), bounds, &mut same)?;
        let blobs = Blobs::new(self.aside.blobs());
        let effects = effects_of(&blobs, root, &staged.directory, &changes)?;
        workspace_unchanged(root, manifest, &effects)?;
        let execution = ExecutionId::from_uuid(SystemClock.new_id());
        let unsettled = publish(Ok(root), (&blobs).into(), execution, &effects, Patience::Wait)?;
        match unsettled.first() {
            None => Ok(effects.iter().map(told).collect()),
            Some(first) => {
                let message = format!("`{first}` was changed while the command ran");
                Err(Failure::state("CONFLICT", message)
                    .hint("it was left as it is; other changes of the command may have been made"))
            }
        }
    }
}

fn told(effect: &Effect) -> Published {
    let kind = match effect {
        Effect::FileWritten { before: None, .. } | Effect::DirectoryCreated { .. } => "created",
        Effect::LinkWritten { before: None, .. } => "created",
        effect if effect.is_removal() => "deleted",
        _ => "changed",
    };
    Published { path: effect.target().to_owned(), kind }
}

fn publish_out(
    staged: &OwnedFd,
    files: &[OutFile],
    path: &Path,
    home: &Path,
) -> Result<Vec<Published>, Failure> {
    fs::create_dir_all(path).map_err(|error| unwritable(path, &error))?;
    let root = Root::open(path, home)?;
    let mut published = Vec::new();
    for file in files {
        let place = RelPath::parse(&file.name)?;
        for directory in place.ancestors() {
            root.make_directory(&directory, None)?;
        }
        let mut content = walk::open_beneath(staged, &file.name)
            .map_err(|error| unwritable(path, &error.into()))?;
        let temporary = format!(".countersign-{}", SystemClock.new_id());
        root.replace(&place, 0o644, &temporary, |target| {
            let copied = std::io::copy(&mut content, target);
            copied.map(|_| ()).map_err(|error| unwritable(path, &error))
        })?;
        published.push(Published { path: format!("out/{}", file.name), kind: "created" });
    }
    Ok(published)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::state("OUT_UNWRITABLE", format!("{} cannot be written: {error}", path.display()))
        .hint("name a directory that can be written")
}

/// A private directory for contents on their way, gone when this is dropped.
#[derive(Debug)]
struct Aside(PathBuf);

impl Aside {
    fn make() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!(".countersign-{}", SystemClock.new_id()));
        let mut private = DirBuilder::new();
        private.mode(0o700).create(&path).map_err(|error| unwritable(&path, &error))?;
        let aside = Aside(path);
        private.create(aside.blobs()).map_err(|error| unwritable(&aside.0, &error))?;
        Ok(aside)
    }

    fn blobs(&self) -> PathBuf {
        self.0.join("blobs")
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
