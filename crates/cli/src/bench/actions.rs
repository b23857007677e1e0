//! `bench actions`: actions through the whole pipeline, beside the plain tools that do the same work.

mod contents;
mod patches;
mod smallest;
mod stage;
mod trees;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use countersign_model::Failure;
use serde::Serialize;

use self::contents::Contents;
use self::patches::PatchRow;
use self::smallest::Smallest;
use self::stage::Stage;
use self::trees::{DiffRow, PackRow};
use super::{Scratch, aim};
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, DIM, Done, Progress, Ui, bytes, paint, wrap};

/// Measure actions: patches, reports, packs and artifacts, beside git and a plain copy
#[derive(Debug, Args)]
pub(crate) struct ActionsArgs {
    /// Measure on the disk that holds this directory
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,

    /// A tenth of everything, for a first look
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Ten times the artifacts: 10,000 of 1 MiB, and one of 10 GiB
    #[arg(long)]
    full: bool,

    /// How long the long artifact is, in GiB; twice as much must be free
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..=100))]
    large: Option<u64>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Hunks, files and rounds of each patch.
    patches: [(usize, usize, usize); 3],
    files: usize,
    changed: usize,
    rounds: usize,
    artifacts: usize,
    large: u64,
    calls: usize,
}

impl Size {
    fn of(args: &ActionsArgs) -> Self {
        let normal = Size {
            patches: [(10, 1, 15), (1_000, 20, 9), (50_000, 500, 3)],
            files: 50_000,
            changed: 500,
            rounds: 5,
            artifacts: 1_000,
            large: 1 << 30,
            calls: 50,
        };
        let size = match (args.quick, args.full) {
            (true, _) => Size {
                patches: [(10, 1, 5), (1_000, 20, 3), (5_000, 50, 3)],
                files: 5_000,
                changed: 50,
                rounds: 3,
                artifacts: 100,
                large: 100 << 20,
                calls: 20,
            },
            (_, true) => Size { artifacts: 10_000, large: 10 << 30, ..normal },
            _ => normal,
        };
        Size { large: args.large.map_or(size.large, |gib| gib << 30), ..size }
    }
}

/// The same work done twice, in turn. Times are medians.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Beside {
    ours_millis: f64,
    plain_millis: f64,
    ratio: f64,
}

impl Beside {
    fn of(ours: Vec<Duration>, plain: Vec<Duration>) -> Self {
        let (ours_millis, plain_millis) = (median(ours), median(plain));
        Beside { ours_millis, plain_millis, ratio: ours_millis / plain_millis }
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    apply_patch: Vec<PatchRow>,
    generate_diff_report: DiffRow,
    build_context_pack: PackRow,
    artifacts: Contents,
    pipeline: Smallest,
}

pub(super) fn run(context: &Context, args: &ActionsArgs) -> Done<Exit> {
    let scratch = Scratch::beneath(&args.dir)?;
    let report = measure(&scratch.0, &Size::of(args))?;
    match context.ui.json {
        true => context.ui.json(&report)?,
        false => print(context.ui, &report)?,
    }
    Ok(Exit::Done)
}

fn measure(dir: &Path, size: &Size) -> Result<Report, Failure> {
    let stage = Stage::new(dir)?;
    let mut steps = Steps { progress: Progress::new("steps done:"), done: 0 };
    let pipeline = smallest::measure(&stage, size.calls, &mut steps)?;
    let apply_patch = patches::measure(&stage, &size.patches, &mut steps)?;
    let (generate_diff_report, build_context_pack) = trees::measure(&stage, size, &mut steps)?;
    drop(stage);
    let artifacts = contents::measure(dir, size, &mut steps)?;
    Ok(Report { apply_patch, generate_diff_report, build_context_pack, artifacts, pipeline })
}

struct Steps {
    progress: Progress,
    done: u64,
}

impl Steps {
    fn step(&mut self) {
        self.done += 1;
        self.progress.tick(self.done);
    }
}

fn print(ui: Ui, report: &Report) -> Done {
    ui.line(paint(BOLD, "apply_patch, beside git apply"))?;
    for row in &report.apply_patch {
        let what = format!("{} hunks in {} files", row.hunks, row.files);
        beside(ui, &what, "git apply", &row.beside)?;
        note(
            ui,
            &format!(
                "with its result synced to disk, git apply takes {:.1} ms, and ours is {:.2} times that; peak memory {}",
                row.synced.plain_millis,
                row.synced.ratio,
                bytes(row.peak_memory)
            ),
        )?;
        note(
            ui,
            &format!(
                "kept as a tree as well (git apply, add, write-tree and a sync), git takes {:.1} ms, and ours is {:.2} times that",
                row.recorded.plain_millis, row.recorded.ratio
            ),
        )?;
    }
    let diff = &report.generate_diff_report;
    ui.line(paint(BOLD, format!("{} files, {} changed", diff.files, diff.changed)))?;
    beside(ui, "generate_diff_report", "git diff of the checkout", &diff.checkout)?;
    beside(ui, "generate_diff_report", "git diff of two trees", &diff.trees)?;
    let pack = &report.build_context_pack;
    ui.line(wrap(&format!("  build_context_pack: {:.0} ms, {} tokens, {:.0} a second; {} files looked at (no plain tool does this)", pack.millis, pack.tokens, pack.tokens_per_second, pack.files), 4))?;
    artifacts(ui, &report.artifacts)?;
    let small = &report.pipeline;
    ui.line(paint(BOLD, "what the pipeline adds, beside text.digest"))?;
    beside(ui, "put_artifact of 1 byte", "text.digest", &small.put_artifact)?;
    beside(ui, "summarize_run", "text.digest", &small.summarize_run)?;
    note(
        ui,
        &format!(
            "of that, looking at the worktree of the run takes {:.1} ms",
            small.open_work_millis
        ),
    )
}

fn artifacts(ui: Ui, contents: &Contents) -> Done {
    ui.line(paint(BOLD, "artifacts, beside a plain copy with a SHA-256, synced"))?;
    let many = format!("{} of 1 MiB", contents.count);
    beside(ui, &format!("put, {many}"), "copy", &contents.put)?;
    beside(ui, &format!("get, {many}"), "copy", &contents.get)?;
    let large = bytes(contents.large_bytes);
    beside(ui, &format!("put, one of {large}"), "copy", &contents.put_large)?;
    beside(ui, &format!("get, one of {large}"), "copy", &contents.get_large)?;
    let grown = contents.grown_by_large.max(contents.grown_by_many);
    let text = format!("memory grew by {} at most", bytes(grown));
    aim(ui, grown <= contents::MOST_GROWN, &text, "64 MiB")
}

fn beside(ui: Ui, what: &str, plain: &str, pair: &Beside) -> Done {
    let Beside { ours_millis, plain_millis, ratio } = pair;
    let text = format!(
        "{what}: {ratio:.2} times {plain} ({ours_millis:.1} ms beside {plain_millis:.1} ms)"
    );
    aim(ui, *ratio <= 1.5, &text, "at most 1.5")
}

fn note(ui: Ui, text: &str) -> Done {
    ui.line(wrap(&format!("    {}", paint(DIM, text)), 4))
}
