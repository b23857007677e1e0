//! A repository of many files: `generate_diff_report` beside `git diff`, and `build_context_pack`.

use std::fs;
use std::path::Path;

use countersign_model::Failure;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::measure::{peak_bytes, reset_peak};
use super::stage::{Stage, failed, git, git_into, plain};
use super::{Beside, Size, Steps, median};

const PLACE: (&str, &str) = ("large", "run_large");

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiffRow {
    pub(super) files: usize,
    pub(super) changed: usize,
    /// Git looks for changes in a checkout, as ours does in its worktree.
    pub(super) checkout: Beside,
    /// Git is told which two trees to compare, and looks at no file.
    pub(super) trees: Beside,
    peak_memory: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PackRow {
    pub(super) millis: f64,
    pub(super) tokens: u64,
    pub(super) tokens_per_second: f64,
    /// Those that were judged; most by their path alone.
    pub(super) files: u64,
    items: u64,
    peak_memory: u64,
}

pub(super) fn measure(
    stage: &Stage,
    size: &Size,
    steps: &mut Steps,
) -> Result<(DiffRow, PackRow), Failure> {
    let files = (0..size.files).map(|file| (path(file), text(file, false)));
    let checkout = stage.workspace(PLACE.0, files)?;
    steps.step();
    change(stage, &checkout, size)?;
    steps.step();
    Ok((diff(stage, &checkout, size, steps)?, pack(stage, size, steps)?))
}

/// The same change in the checkout and in the worktree of the run.
fn change(stage: &Stage, checkout: &Path, size: &Size) -> Result<(), Failure> {
    for file in changed(size) {
        fs::write(checkout.join(path(file)), text(file, true)).map_err(|error| failed(&error))?;
    }
    let patch = stage.dir.join("large.patch");
    git_into(checkout, &["diff"], &patch)?;
    let patch = fs::File::open(patch).map_err(|error| failed(&error))?;
    let artifact = stage.put(PLACE, "large.patch", patch)?;
    stage.act(PLACE, "apply_patch", json!({"patch": artifact})).map(drop)
}

fn changed(size: &Size) -> impl Iterator<Item = usize> + use<> {
    let apart = (size.files / size.changed).max(1);
    (0..size.changed).map(move |number| number * apart)
}

fn diff(
    stage: &Stage,
    checkout: &Path,
    size: &Size,
    steps: &mut Steps,
) -> Result<DiffRow, Failure> {
    let tree = tree_of(stage, checkout)?;
    let out = stage.dir.join("plain.diff");
    let (mut ours, mut looked, mut told) = (Vec::new(), Vec::new(), Vec::new());
    reset_peak();
    for _ in 0..size.rounds {
        looked.push(stage.time(|| git_into(checkout, &["diff", "HEAD"], &out))?);
        ours.push(stage.time(|| stage.act(PLACE, "generate_diff_report", json!({})).map(drop))?);
        told.push(stage.time(|| git_into(checkout, &["diff", "HEAD", &tree], &out))?);
        steps.step();
    }
    Ok(DiffRow {
        files: size.files,
        changed: size.changed,
        checkout: Beside::of(ours.clone(), looked),
        trees: Beside::of(ours, told),
        peak_memory: peak_bytes(),
    })
}

/// The checkout as a tree of its repository; its own index stays as it is.
fn tree_of(stage: &Stage, checkout: &Path) -> Result<String, Failure> {
    let index = stage.dir.join("other.index");
    fs::copy(checkout.join(".git/index"), &index).map_err(|error| failed(&error))?;
    let with = |arguments: &[&str]| {
        let output = plain(checkout, arguments).env("GIT_INDEX_FILE", &index).output();
        output.map_err(|error| failed(&error))
    };
    with(&["add", "-A"])?;
    let tree = String::from_utf8_lossy(&with(&["write-tree"])?.stdout).trim().to_owned();
    git(checkout, &["cat-file", "-e", &tree])?;
    Ok(tree)
}

fn pack(stage: &Stage, size: &Size, steps: &mut Steps) -> Result<PackRow, Failure> {
    let inputs = json!({"task": "look around", "token_budget": 100_000});
    let mut times = Vec::new();
    let mut output = Value::Null;
    reset_peak();
    for _ in 0..size.rounds {
        times.push(stage.time(|| {
            let made = stage.act(PLACE, "build_context_pack", inputs.clone())?;
            output = made.output.unwrap_or_default();
            Ok(())
        })?);
        steps.step();
    }
    let count = |name: &str| output.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (millis, tokens) = (median(times), count("total_tokens"));
    Ok(PackRow {
        millis,
        tokens,
        tokens_per_second: tokens as f64 * 1e3 / millis,
        files: size.files as u64,
        items: count("items"),
        peak_memory: peak_bytes(),
    })
}

fn path(file: usize) -> String {
    format!("crates/part{:03}/src/module{:02}/file{file:05}.rs", file / 100, file % 4)
}

/// Forty lines, or those with three of them changed.
fn text(file: usize, is_changed: bool) -> String {
    let line = |number: usize| {
        let verb = if is_changed && number % 15 == 5 { "recompute" } else { "compute" };
        format!("    let value_{number} = {verb}(part_{file}, {});\n", number * 7919 % 1009)
    };
    (0..40).map(line).collect()
}
