//! `run_tests` and `run_linters`: the project's own tools, each in a box of its own over a private
//! layer of the worktree. What they change there is dropped; what they say is read, kept and judged.

mod kinds;
mod log;
mod plan;
mod project;
mod run;

use std::collections::BTreeMap;

use countersign_host::tool::{Footprint, NativeTool, Place, Repeats, ToolContext};
use countersign_model::Failure;
use countersign_reports::Outcome;
use serde::Deserialize;
use serde_json::{Value, json};

use self::kinds::{Checker, Lints, Tests};
use self::log::Log;
use self::run::{Ran, run_command};
use crate::left::{Left, arguments, reads_workspace};

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScopeName {
    #[default]
    All,
    Changed,
    Paths,
}

impl ScopeName {
    fn as_str(self) -> &'static str {
        match self {
            ScopeName::All => "all",
            ScopeName::Changed => "changed",
            ScopeName::Paths => "paths",
        }
    }
}

/// What both actions are asked.
#[derive(Debug, Deserialize)]
struct Asked {
    #[serde(default)]
    scope: ScopeName,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    tools: Vec<String>,
    timeout_sec: Option<u64>,
    filter: Option<String>,
    #[serde(default)]
    fail_on: kinds::FailOn,
}

#[derive(Debug)]
pub(crate) struct RunTests;

#[derive(Debug)]
pub(crate) struct RunLinters;

macro_rules! check {
    ($tool:ident, $kind:expr) => {
        impl NativeTool for $tool {
            fn repeats(&self) -> Repeats {
                Repeats::Idempotent
            }

            /// Only what went well stands: what failed may have been a mishap, and is tried again.
            fn stands(&self, output: &Value) -> bool {
                output.get("passed") == Some(&Value::Bool(true))
            }

            fn runs_programs(&self) -> bool {
                true
            }

            fn footprint(&self, _input: &Value, place: &Place) -> Result<Footprint, Failure> {
                reads_workspace(place)
            }

            fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
                let asked: Asked = arguments(input)?;
                let kind = $kind;
                check(context, &asked, &kind(&asked))
            }
        }
    };
}

check!(RunTests, |_: &Asked| Tests);
check!(RunLinters, |asked: &Asked| Lints { fail_on: asked.fail_on });

fn check<C: Checker>(
    context: &mut ToolContext,
    asked: &Asked,
    checker: &C,
) -> Result<Value, Failure> {
    let commands = plan::commands::<C>(context, asked)?;
    let mut log = Log::new(context)?;
    let mut ran = Vec::new();
    for command in &commands {
        ran.push(run_command(context, asked, checker, command, &mut log)?);
    }
    tell(context, asked, &ran, log, checker)
}

fn tell<C: Checker>(
    context: &mut ToolContext,
    asked: &Asked,
    ran: &[Ran<C>],
    log: Log,
    _checker: &C,
) -> Result<Value, Failure> {
    let work = context.place().work()?.work.clone();
    let passed = ran.iter().all(|ran| ran.verdict.outcome == Outcome::Passed);
    let timed_out = ran.iter().any(|ran| ran.timed_out);
    let mut counts: BTreeMap<&'static str, u64> = C::NAMES.iter().map(|name| (*name, 0)).collect();
    for (name, count) in ran.iter().flat_map(|ran| ran.counts.iter()) {
        *counts.entry(name).or_default() += count;
    }
    let summary = C::summary(&counts, ran.len(), timed_out);
    let mut left = Left::default();
    let reports: Vec<_> = ran.iter().map(Ran::report).collect();
    let report = json!({
        "contract": 1, "passed": passed, "scope": asked.scope.as_str(), "base": work.base,
        "tree": work.tree, "counts": counts, "commands": reports,
    });
    left.json(context, C::REPORT, &report)?;
    let kept = log.keep(context, &mut left, C::LOG)?;
    Ok(json!({
        "summary": summary,
        "artifacts": left.list(),
        "base": work.base,
        "tree": work.tree,
        "passed": passed,
        "timed_out": timed_out,
        "scope": asked.scope.as_str(),
        "counts": counts,
        "commands": ran.iter().map(Ran::told).collect::<Vec<_>>(),
        "log_sha256": kept,
    }))
}
