use std::path::PathBuf;

use clap::Args;
use countersign_host::Host;
use countersign_host::policies::source_at;
use countersign_model::{Failure, Grantee};
use countersign_policy::{Known, Policies, Problem, Rule, Severity, Source};
use serde_json::json;

use super::{Which, open};
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Say everything that is wrong with policies
///
/// Errors stop every call; warnings are rules that can never match, and others that cannot be what
/// their author meant. Exit codes: 0 no errors, 2 errors, or warnings with --strict.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Look at these files alone instead of the home's
    #[arg(value_name = "FILE", conflicts_with_all = ["policy", "config"])]
    files: Vec<PathBuf>,

    /// Count warnings as errors
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    which: Which,
}

pub(super) fn run(context: &Context, args: &LintArgs) -> Done<Exit> {
    let host = open(context)?;
    let (files, rows) = texts(args, &host)?;
    let problems = match Policies::compile(&files, &rows) {
        Ok(policies) => warnings(&policies, &host)?,
        Err(problems) => problems,
    };
    report(context.ui, files.len(), &problems)?;
    let is_error = |problem: &Problem| args.strict || problem.severity == Severity::Error;
    Ok(if problems.iter().any(is_error) { Exit::Invalid } else { Exit::Done })
}

fn texts(args: &LintArgs, host: &Host) -> Result<(Vec<Source>, Vec<Rule>), Failure> {
    if args.files.is_empty() {
        return args.which.texts(host.home());
    }
    let files: Result<_, Failure> = args.files.iter().map(|file| source_at(file)).collect();
    Ok((files?, Vec::new()))
}

fn warnings(policies: &Policies, host: &Host) -> Result<Vec<Problem>, Failure> {
    let mut found = policies.lint(&known(host)?);
    found.extend(policies.expired(host.clock().now()));
    found.sort();
    Ok(found)
}

/// What exists here: names that rules use and nobody has are mistakes.
fn known(host: &Host) -> Result<Known, Failure> {
    let people = host.people()?;
    let there = people.book.principals().filter(|record| record.removed_at.is_none());
    let mut principals: Vec<_> = there.map(|record| record.principal.clone()).collect();
    // Those who were granted something exist too, also where nobody has keys.
    for row in host.home().store.grants()? {
        if let Grantee::Principal(principal) = row.grant.body.grantee {
            principals.push(principal);
        }
    }
    Ok(Known {
        tools: host.registry().tools().map(|tool| tool.declaration.id.clone()).collect(),
        toolsets: host.home().config.toolsets.keys().cloned().collect(),
        principals,
    })
}

fn report(ui: Ui, files: usize, problems: &[Problem]) -> Done {
    if ui.json {
        let errors = problems.iter().filter(|it| it.severity == Severity::Error).count();
        return ui.json(&json!({"ok": errors == 0, "files": files, "problems": problems}));
    }
    if problems.is_empty() {
        let word = if files == 1 { "file" } else { "files" };
        return ui.line(format!("{} {files} {word}", paint(GOOD, "ok:")));
    }
    problems.iter().try_for_each(|problem| print(ui, problem))
}

fn print(ui: Ui, problem: &Problem) -> Done {
    let label = match problem.severity {
        Severity::Error => paint(BAD, "error:"),
        Severity::Warning => paint(WARN, "warning:"),
    };
    let code = paint(DIM, format!("[{}]", problem.code));
    ui.line(wrap(&format!("{label} {} {code}", inert(&problem.to_string())), 2))?;
    if let Some(rule) = &problem.rule {
        ui.line(wrap(&format!("  {} {}", paint(DIM, "rule"), inert(rule)), 2))?;
    }
    match &problem.hint {
        Some(hint) => ui.line(wrap(&format!("  {} {}", paint(BOLD, "hint:"), inert(hint)), 2)),
        None => Ok(()),
    }
}
