use std::path::{Path, PathBuf};

use clap::Args;
use countersign_host::refusal::reasons;
use countersign_model::Failure;
use countersign_policy::{Against, CaseFile, CaseResult};
use serde_json::{Value, json};

use super::{Which, open};
use crate::Context;
use crate::exit::Exit;
use crate::plain::plain;
use crate::ui::{BAD, Done, GOOD, Ui, inert, paint, shown, wrap};

/// Run tables of cases, in TOML or JSON
///
/// A case says what should be decided about a call; docs/policy.md has the format. Cases that bring
/// no policies of their own are run against the home's; if all do, no home is opened. Exit codes: 0 all hold, 2 some do not.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    which: Which,
}

pub(super) fn run(context: &Context, args: &TestArgs) -> Done<Exit> {
    let mut all = Vec::new();
    for file in &args.files {
        let cases = read(file)?;
        all.push((file, results(context, args, &cases)?));
    }
    match context.ui.json {
        true => context.ui.json(&to_json(&all))?,
        false => print(context.ui, &all)?,
    }
    let fails = |(_, results): &(_, Vec<CaseResult>)| results.iter().any(is_bad);
    Ok(if all.iter().any(fails) { Exit::Invalid } else { Exit::Done })
}

fn is_bad(result: &CaseResult) -> bool {
    !result.failures.is_empty()
}

/// A file that brings everything needs no home.
fn results(
    context: &Context,
    args: &TestArgs,
    cases: &CaseFile,
) -> Result<Vec<CaseResult>, Failure> {
    if !cases.needs_policies() {
        return Ok(cases.run(&Against::default()));
    }
    let host = open(context)?;
    let policies = args.which.compile(host.home())?;
    // Sorted by version, so the highest counts.
    let tools = host.registry().tools();
    let tools = tools.map(|tool| (tool.declaration.id.to_string(), tool.facts())).collect();
    Ok(cases.run(&Against { policies: Some(&policies), tools }))
}

fn read(path: &Path) -> Result<CaseFile, Failure> {
    let invalid = |why: String| {
        Failure::validation("CASES_INVALID", format!("{}: {why}", path.display()))
            .hint("docs/policy.md says how cases are written")
    };
    let text = std::fs::read_to_string(path).map_err(|error| invalid(error.to_string()))?;
    match path.extension().is_some_and(|extension| extension == "toml") {
        true => toml::from_str(&text).map_err(|error| invalid(error.message().to_owned())),
        false => serde_json::from_str(&text).map_err(|error| invalid(error.to_string())),
    }
}

type Results<'a> = (&'a PathBuf, Vec<CaseResult>);

fn to_json(all: &[Results<'_>]) -> Value {
    let one = |result: &CaseResult| {
        json!({
            "name": result.name,
            "ok": result.failures.is_empty(),
            "failures": result.failures,
            "verdict": result.verdict,
        })
    };
    let file = |(file, results): &Results<'_>| {
        json!({
            "file": file.display().to_string(),
            "ok": !results.iter().any(is_bad),
            "cases": results.iter().map(one).collect::<Vec<_>>(),
        })
    };
    all.iter().map(file).collect()
}

fn print(ui: Ui, all: &[Results<'_>]) -> Done {
    for (file, results) in all {
        let bad = results.iter().filter(|result| is_bad(result)).count();
        let label = match bad {
            0 => paint(GOOD, "ok:"),
            n => paint(BAD, format!("{n} failed:")),
        };
        ui.line(wrap(&format!("{label} {}, {} cases", shown(file), results.len()), 2))?;
        results.iter().filter(|result| is_bad(result)).try_for_each(|bad| failed(ui, bad))?;
    }
    Ok(())
}

fn failed(ui: Ui, result: &CaseResult) -> Done {
    ui.line(wrap(&format!("  {} {}", paint(BAD, "✗"), inert(&result.name)), 4))?;
    for failure in &result.failures {
        ui.line(wrap(&format!("    {}", inert(failure)), 6))?;
    }
    for reason in result.verdict.iter().flat_map(reasons) {
        ui.line(wrap(&format!("    because {}", plain(&reason)), 6))?;
    }
    Ok(())
}
