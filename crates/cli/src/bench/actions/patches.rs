//! `apply_patch` beside `git apply`, on files of a thousand lines.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_model::{ArtifactId, Failure};
use serde::Serialize;
use serde_json::json;

use super::super::measure::{peak_bytes, reset_peak};
use super::stage::{Stage, failed, git, git_into};
use super::{Beside, Steps};

/// In each file; a hunk takes ten of them, so that none runs into the next.
const LINES: usize = 1_000;
const APART: usize = 10;

const PLACE: (&str, &str) = ("patches", "run_patches");

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PatchRow {
    pub(super) hunks: usize,
    pub(super) files: usize,
    pub(super) patch_bytes: usize,
    #[serde(flatten)]
    pub(super) beside: Beside,
    /// The same with a `git apply` whose result is on disk when it is done, as ours is.
    pub(super) synced: Beside,
    /// The same with a result that is also kept as a tree: `git apply`, `git add`, `git write-tree`
    /// and a sync.
    pub(super) recorded: Beside,
    pub(super) peak_memory: u64,
}

pub(super) fn measure(
    stage: &Stage,
    patches: &[(usize, usize, usize)],
    steps: &mut Steps,
) -> Result<Vec<PatchRow>, Failure> {
    let most = patches.iter().map(|(_, files, _)| *files).max().unwrap_or(1);
    let files = (0..most).map(|file| (path(file), text(file, 0)));
    let checkout = stage.workspace(PLACE.0, files)?;
    steps.step();
    patches.iter().map(|patch| row(stage, &checkout, *patch, steps)).collect()
}

fn row(
    stage: &Stage,
    checkout: &Path,
    (hunks, files, rounds): (usize, usize, usize),
    steps: &mut Steps,
) -> Result<PatchRow, Failure> {
    let patch = make(stage, checkout, hunks, files)?;
    let bytes = fs::read(&patch).map_err(|error| failed(&error))?;
    let artifact = stage.put(PLACE, &format!("{hunks}.patch"), bytes.as_slice())?;
    let name = patch.to_str().unwrap_or_default();
    let (mut ours, mut plain, mut synced) = (Vec::new(), Vec::new(), Vec::new());
    let mut recorded = Vec::new();
    reset_peak();
    for _ in 0..rounds {
        plain.push(stage.time(|| git(checkout, &["apply", name]))?);
        git(checkout, &["apply", "-R", name])?;
        ours.push(stage.time(|| apply(stage, &artifact, false))?);
        apply(stage, &artifact, true)?;
        synced.push(stage.time(|| git(checkout, &["apply", name]).and_then(|()| stage.settle()))?);
        git(checkout, &["apply", "-R", name])?;
        recorded.push(stage.time(|| record(stage, checkout, name))?);
        git(checkout, &["reset", "-q", "--hard"])?;
        steps.step();
    }
    Ok(PatchRow {
        hunks,
        files,
        patch_bytes: bytes.len(),
        beside: Beside::of(ours.clone(), plain),
        synced: Beside::of(ours.clone(), synced),
        recorded: Beside::of(ours, recorded),
        peak_memory: peak_bytes(),
    })
}

/// What ours does, with git alone: applied, known by the id of a tree, and on disk.
fn record(stage: &Stage, checkout: &Path, patch: &str) -> Result<(), Failure> {
    git(checkout, &["apply", patch])?;
    git(checkout, &["add", "-A"])?;
    git_into(checkout, &["write-tree"], &stage.dir.join("tree.id"))?;
    stage.settle()
}

fn apply(stage: &Stage, patch: &ArtifactId, reverse: bool) -> Result<(), Failure> {
    stage.act(PLACE, "apply_patch", json!({"patch": patch, "reverse": reverse})).map(drop)
}

/// A patch as git writes it.
fn make(stage: &Stage, checkout: &Path, hunks: usize, files: usize) -> Result<PathBuf, Failure> {
    for file in 0..files {
        let changed = text(file, hunks / files);
        fs::write(checkout.join(path(file)), changed).map_err(|error| failed(&error))?;
    }
    let patch = stage.dir.join(format!("{hunks}.patch"));
    git_into(checkout, &["diff"], &patch)?;
    git(checkout, &["reset", "-q", "--hard"])?;
    let written = fs::read_to_string(&patch).map_err(|error| failed(&error))?;
    match written.lines().filter(|line| line.starts_with("@@ ")).count() == hunks {
        true => Ok(patch),
        false => Err(failed(&"the patch has other hunks than it should")),
    }
}

fn path(file: usize) -> String {
    format!("src/part{:02}/module{:02}/file{file:03}.rs", file % 20, file % 7)
}

/// A thousand lines, of which so many differ, evenly spread.
fn text(file: usize, hunks: usize) -> String {
    let stride = LINES.checked_div(hunks).unwrap_or_default();
    let line = |number: usize| {
        let differs = stride >= APART && number % stride == APART / 2;
        let verb = if differs { "recompute" } else { "compute" };
        format!("    let value_{number} = {verb}(part_{file}, {});\n", number * 7919 % 1009)
    };
    (0..LINES).map(line).collect()
}
