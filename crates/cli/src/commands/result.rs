//! Result documents, judged before anybody trusts them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_desk::{Desk, judge_result};
use countersign_documents::result::Judged;
use countersign_host::{Clock, Home, SystemClock};
use countersign_model::Failure;
use serde_json::{Value, json};

use super::request::{print_reasons, unread};
use crate::Context;
use crate::exit::Exit;
use crate::ui::{DIM, Done, Ui, paint, wrap};

/// Documents that tell what became of a request
#[derive(Debug, Subcommand)]
pub(crate) enum ResultCommand {
    Lint(LintArgs),
}

/// Judge results: ACCEPT, or REJECT with every reason
///
/// A result of this home is held against its request and the journal; one from elsewhere is judged
/// by itself, and the answer names the checks that could not be made. Nothing is moved or changed.
/// Exit codes: 0 all accepted, 2 some rejected.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn run(context: &Context, command: ResultCommand) -> Done<Exit> {
    let ResultCommand::Lint(args) = command;
    let host = match Home::open(&context.home) {
        Ok(_) => Some(crate::sandbox::open_host(&context.home)?),
        Err(failure) if failure.code == "HOME_MISSING" => None,
        Err(failure) => return Err(failure.into()),
    };
    let judge = |file: &Path| match &host {
        Some(host) => Desk::at(host).judge_result(file),
        None => judge_result(file, SystemClock.now()),
    };
    let mut lines = Vec::new();
    for file in &args.files {
        let line = Line::of(file, judge(file));
        if !context.ui.json {
            line.print(context.ui)?;
        }
        lines.push(line);
    }
    if context.ui.json {
        let lines: Vec<_> = lines.iter().map(Line::to_json).collect();
        context.ui.json(&lines)?;
    }
    let clean = lines.iter().all(|line| line.reasons.is_empty());
    Ok(if clean { Exit::Done } else { Exit::Invalid })
}

/// What was judged of one file.
struct Line<'f> {
    file: &'f Path,
    reasons: Vec<Value>,
    made: Vec<&'static str>,
    open: Vec<&'static str>,
}

impl<'f> Line<'f> {
    fn of(file: &'f Path, judged: Result<Judged, Failure>) -> Self {
        let judged = match judged {
            Ok(judged) => judged,
            Err(failure) => {
                let reasons = vec![unread(&failure)];
                return Line { file, reasons, made: Vec::new(), open: Vec::new() };
            }
        };
        let checks = |made: bool| {
            let those = judged.checks.iter().filter(|check| check.made == made);
            those.map(|check| check.name).collect()
        };
        let reasons = judged.judgement.reasons().iter().map(|reason| json!(reason)).collect();
        Line { file, reasons, made: checks(true), open: checks(false) }
    }

    fn to_json(&self) -> Value {
        json!({
            "file": self.file.display().to_string(),
            "ok": self.reasons.is_empty(),
            "outcome": if self.reasons.is_empty() { "ACCEPT" } else { "REJECT" },
            "reasons": self.reasons,
            "checked": self.made,
            "unchecked": self.open,
        })
    }

    fn print(&self, ui: Ui) -> Done {
        print_reasons(ui, self.file, &self.reasons)?;
        if self.open.is_empty() {
            return Ok(());
        }
        let text = format!("  not checked: {}", self.open.join(", "));
        ui.line(wrap(&paint(DIM, text), 4))
    }
}
