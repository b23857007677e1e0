use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use countersign_desk::{Delivered, Desk, Folder, Ran};
use countersign_host::{Cancel, Host};
use countersign_model::Failure;
use serde_json::{Value, json};

use super::list::documents;
use super::unknown;
use crate::Context;
use crate::exit::Exit;
use crate::signals;
use crate::ui::{BAD, BOLD, Done, GOOD, Ui, WARN, inert, paint, shown, wrap};

/// How often the folder is looked at.
const POLL: Duration = Duration::from_millis(500);

/// Run an approved request, once, and deliver its result
///
/// The result is judged and moved to core/inbound/, or to quarantine/ with the reasons beside it.
/// Exit codes: 0 it ran well, 1 the command failed, 2 the document is rejected, 4 it is not
/// approved, 5 a limit stopped it, 6 this machine cannot enforce what is required.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The file in requests/, or the id of the request
    request: String,
}

/// Run approved requests as they arrive in requests/
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Run what is there now, and end
    #[arg(long)]
    once: bool,
}

pub(super) fn run(context: &Context, args: &RunArgs) -> Done<Exit> {
    let host = crate::sandbox::open_host(&context.home)?;
    let desk = Desk::at(&host);
    let path = desk.request_path(&args.request);
    let ran = desk.run(&path, cancel()).map_err(|failure| unknown(&args.request, failure))?;
    report(context.ui, &ran)
}

fn cancel() -> Cancel {
    Cancel::from_flag(signals::cancelled())
}

fn report(ui: Ui, ran: &Ran) -> Done<Exit> {
    if ui.json {
        ui.json(&to_json(ran))?;
    } else {
        print(ui, ran)?;
    }
    Ok(match &ran.outcome {
        _ if ran.unknown => Exit::Unknown,
        Some(outcome) => Exit::of_outcome(outcome),
        // It ran before; only the result was missing, or nothing was.
        None => Exit::Invalid,
    })
}

fn to_json(ran: &Ran) -> Value {
    let Delivered { result, path, accepted, reasons } = &ran.delivered;
    json!({
        "request": ran.request,
        "executionId": ran.execution,
        "ran": ran.outcome.is_some(),
        "unknown": ran.unknown,
        "state": ran.outcome.as_ref().map(|outcome| outcome.state),
        "error": ran.outcome.as_ref().and_then(|outcome| outcome.result.as_ref().err()),
        "result": {
            "id": result,
            "path": path.display().to_string(),
            "outcome": if *accepted { "ACCEPT" } else { "REJECT" },
            "reasons": reasons,
        },
    })
}

fn print(ui: Ui, ran: &Ran) -> Done {
    let id = &ran.request;
    match ran.outcome.as_ref().map(|outcome| &outcome.result) {
        Some(Ok(_)) => ui.line(wrap(&format!("{} {id}", paint(GOOD, "ran:")), 2))?,
        Some(Err(failure)) => {
            let text = format!("{} {id}: {}", paint(BAD, "failed:"), inert(&failure.message));
            ui.line(wrap(&text, 2))?;
            if let Some(hint) = &failure.hint {
                ui.line(wrap(&format!("  {} {}", paint(BOLD, "hint:"), inert(hint)), 4))?;
            }
        }
        None => {
            let text = format!("{} {id} ran before, and runs once", paint(WARN, "not run:"));
            ui.line(wrap(&text, 2))?;
        }
    }
    let delivered = &ran.delivered;
    let label = if delivered.accepted { "accepted" } else { "rejected" };
    let text = format!("  result {label}: {}", shown(&delivered.path));
    ui.line(wrap(&text, 4))?;
    for reason in &delivered.reasons {
        let code = reason.code.as_str();
        ui.line(wrap(&format!("    {} {}", paint(BOLD, code), inert(&reason.message)), 6))?;
    }
    Ok(())
}

pub(super) fn watch(context: &Context, args: &WatchArgs) -> Done<Exit> {
    let host = crate::sandbox::open_host(&context.home)?;
    let folder = Folder::Requests.make(&context.home)?;
    let (cancel, mut watch) = (cancel(), Watch::default());
    loop {
        for path in documents(&folder)? {
            if cancel.is_cancelled() {
                return Ok(Exit::Done);
            }
            watch.one(context.ui, &host, &path, &cancel)?;
        }
        if args.once || cancel.is_cancelled() {
            return Ok(Exit::Done);
        }
        thread::sleep(POLL);
    }
}

/// What a watch remembers of the files it saw.
#[derive(Default)]
struct Watch {
    /// Ran, or moved away.
    done: BTreeSet<PathBuf>,
    /// Could not run, and why: said once, and tried again.
    said: BTreeMap<PathBuf, String>,
}

impl Watch {
    /// Runs one, unless it ran before. One that cannot run does not keep the others waiting.
    fn one(&mut self, ui: Ui, host: &Host, path: &Path, cancel: &Cancel) -> Done {
        if self.done.contains(path) {
            return Ok(());
        }
        let desk = Desk::at(host);
        match desk.run(path, cancel.clone()) {
            Ok(ran) => {
                self.done.insert(path.to_owned());
                match ran.outcome.is_some() {
                    true if ui.json => ui.json_line(&to_json(&ran)),
                    true => print(ui, &ran),
                    false => Ok(()),
                }
            }
            Err(failure) if failure.code == "REQUEST_REJECTED" => {
                let reasons = failure.details.clone().unwrap_or_default();
                let place = desk.quarantine(path, &reasons)?;
                not_run(ui, path, &failure, Some(&place))
            }
            Err(failure) if failure.code == "INTERNAL" => Err(failure.into()),
            Err(failure) => {
                let code = failure.code.to_string();
                match self.said.insert(path.to_owned(), code.clone()) == Some(code) {
                    true => Ok(()),
                    false => not_run(ui, path, &failure, None),
                }
            }
        }
    }
}

/// One line for each document where programs listen.
fn not_run(ui: Ui, path: &Path, failure: &Failure, quarantined: Option<&Path>) -> Done {
    if ui.json {
        return ui.json_line(&json!({
            "file": path.display().to_string(),
            "ran": false,
            "error": failure,
            "quarantined": quarantined.map(|place| place.display().to_string()),
        }));
    }
    ui.failure(failure);
    if let Some(place) = quarantined {
        ui.note(format!("moved to {}", shown(place)));
    }
    Ok(())
}
