//! `generate_diff_report`: what a run changed, as a unified diff, as data, as text and as a page.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};

use countersign_host::tool::{Footprint, NativeTool, Place, Repeats, ToolContext};
use countersign_host::work::WorkPlace;
use countersign_model::Failure;
use countersign_model::effect::Artifact;
use countersign_patch::report::{HtmlOptions, Report, write_html, write_table};
use countersign_patch::{Diff, ReadOptions};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::left::{Left, arguments, counted, reads_workspace, with_leash};

#[derive(Debug, Deserialize)]
struct Arguments {
    #[serde(default)]
    paths: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct GenerateDiffReport;

impl NativeTool for GenerateDiffReport {
    fn repeats(&self) -> Repeats {
        Repeats::Idempotent
    }

    fn footprint(&self, _input: &Value, place: &Place) -> Result<Footprint, Failure> {
        reads_workspace(place)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let Arguments { paths } = arguments(input)?;
        let place = context.place().work()?.clone();
        let mut file = unified(context, &place, &paths)?;
        let mut left = Left::default();
        let patch = left.make(context, "diff.patch", "text/x-diff", &mut file)?;
        let bytes = read_back(context, &mut file, patch.size)?;
        let options = ReadOptions { allow_empty: true, ..ReadOptions::default() };
        let diff = Diff::read(&bytes, &options).map_err(|refusal| {
            Failure::execution("DIFF_UNREADABLE", format!("the diff cannot be read: {refusal}"))
        })?;
        tell(context, &place, &diff, &patch, left)
    }
}

fn lost(error: &std::io::Error) -> Failure {
    Failure::state("REPORT_LOST", format!("the report cannot be written: {error}"))
        .hint("free some space, and try again")
}

/// The diff as git writes it, in a file without a name.
fn unified(context: &ToolContext, place: &WorkPlace, paths: &[String]) -> Result<File, Failure> {
    let mut file = context.scratch_file()?;
    with_leash(context, |leash| {
        let worktree = place.worktree(leash)?;
        let mut buffered = BufWriter::with_capacity(1 << 18, &mut file);
        worktree.diff(&place.base()?, &place.tree()?, paths, &mut buffered, leash)?;
        buffered.flush().map_err(|error| lost(&error))
    })?;
    file.seek(SeekFrom::Start(0)).map_err(|error| lost(&error))?;
    Ok(file)
}

fn read_back(context: &mut ToolContext, file: &mut File, size: u64) -> Result<Vec<u8>, Failure> {
    context.charge_memory(size)?;
    file.seek(SeekFrom::Start(0)).map_err(|error| lost(&error))?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.read_to_end(&mut bytes).map_err(|error| lost(&error))?;
    Ok(bytes)
}

fn tell(
    context: &mut ToolContext,
    place: &WorkPlace,
    diff: &Diff<'_>,
    patch: &Artifact,
    mut left: Left,
) -> Result<Value, Failure> {
    let report = Report::of(diff);
    let totals = report.totals;
    let (base, tree) = (&place.work.base, &place.work.tree);
    let told = json!({"contract": 1, "base": base, "tree": tree, "sha256": patch.digest,
        "report": report});
    left.json(context, "diff_report", &told)?;
    let mut table = Vec::new();
    write_table(diff, &mut table).map_err(|error| lost(&error))?;
    left.make(context, "diff.txt", "text/plain; charset=utf-8", &mut table.as_slice())?;
    let mut page = page(context, place, diff)?;
    left.make(context, "diff.html", "text/html; charset=utf-8", &mut page)?;
    Ok(json!({
        "summary": format!(
            "{} changed, +{} -{} lines",
            counted(totals.files, "file"), totals.added, totals.removed
        ),
        "artifacts": left.list(),
        "base": base,
        "tree": tree,
        "digest": patch.digest,
        "files": totals.files,
        "added": totals.added,
        "removed": totals.removed,
        "binary": totals.binary,
        "renamed": totals.renamed,
        "mode_changed": totals.mode_changes,
    }))
}

fn page(context: &ToolContext, place: &WorkPlace, diff: &Diff<'_>) -> Result<File, Failure> {
    let mut file = context.scratch_file()?;
    let title = format!("Changes of run {} on {}", place.work.run, place.work.workspace);
    let mut buffered = BufWriter::new(&mut file);
    write_html(diff, &HtmlOptions { title, ..HtmlOptions::default() }, &mut buffered)
        .and_then(|()| buffered.flush())
        .map_err(|error| lost(&error))?;
    drop(buffered);
    file.seek(SeekFrom::Start(0)).map_err(|error| lost(&error))?;
    Ok(file)
}
