//! What the pipeline itself adds: actions that do next to nothing, beside the smallest tool.

use countersign_host::CallCommand;
use countersign_model::Failure;
use serde::Serialize;
use serde_json::json;

use super::super::measure::timed;
use super::stage::Stage;
use super::{Beside, Steps, median};

/// A workspace of twenty files.
pub(super) const SMALL: &str = "small";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Smallest {
    pub(super) put_artifact: Beside,
    pub(super) summarize_run: Beside,
    /// What of it goes into looking at the worktree, before the call begins.
    pub(super) open_work_millis: f64,
}

pub(super) fn measure(
    stage: &Stage,
    rounds: usize,
    steps: &mut Steps,
) -> Result<Smallest, Failure> {
    stage.workspace(SMALL, files())?;
    stage.put((SMALL, "run_summary"), "first", &b"1"[..])?;
    let (mut put, mut summary, mut digest) = (Vec::new(), Vec::new(), Vec::new());
    let mut opened = Vec::new();
    for round in 0..rounds {
        let content = u8::try_from(round % 251).unwrap_or_default();
        put.push(timed(|| {
            let place = (SMALL, "run_put");
            stage.put(place, &format!("byte-{round}"), &[content][..]).map(drop)
        })?);
        summary.push(timed(|| {
            stage.act((SMALL, "run_summary"), "summarize_run", json!({})).map(drop)
        })?);
        digest.push(timed(|| smallest_call(stage, round))?);
        opened
            .push(timed(|| stage.host.open_work(&SMALL.parse()?, &"run_put".parse()?).map(drop))?);
        steps.step();
    }
    Ok(Smallest {
        put_artifact: Beside::of(put, digest.clone()),
        summarize_run: Beside::of(summary, digest),
        open_work_millis: median(opened),
    })
}

pub(super) fn files() -> impl Iterator<Item = (String, String)> {
    (0..20).map(|file| (format!("src/file{file}.rs"), format!("// {file}\n")))
}

fn smallest_call(stage: &Stage, round: usize) -> Result<(), Failure> {
    let input = format!("{{\"text\":\"{round}\"}}").into_bytes();
    let command = CallCommand::new("text.digest".parse()?, input, "agent:bench".parse()?);
    stage.host.call(command)?.result.map(drop)
}
