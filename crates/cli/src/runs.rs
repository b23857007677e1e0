//! Runs from the command line: the engine of a home, and why something was refused.

mod trouble;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_flow::{Problem, Status};
use countersign_host::Host;
use countersign_journal::{JournalError, RunFilter};
use countersign_model::{Failure, RunId, RunSummary};
use countersign_workflow::{Engine, Library, Reach, Settings};

pub(crate) use trouble::{broken, told};

use crate::sandbox;
use crate::ui::{BAD, BOLD, GOOD, Ui, WARN, inert};

/// The tool that an action is.
pub(crate) fn tool_of(action: &str) -> String {
    let known = countersign_actions::find(action).and_then(countersign_actions::Action::tool_id);
    known.map_or_else(|_| format!("action.{action}"), |id| id.to_string())
}

/// The workflows and blueprints of a home.
pub(crate) fn library(host: &Host) -> Result<Library, Failure> {
    library_with(host, &[])
}

/// The same, with further directories of workflows.
pub(crate) fn library_with(host: &Host, more: &[PathBuf]) -> Result<Library, Failure> {
    let workflows = [&[host.home().workflows()], more].concat();
    Library::load(&workflows, &[host.home().blueprints()], &tool_of)
}

/// An engine that advances the runs that it is asked for.
pub(crate) fn driving(home: &Path) -> Result<Engine, Failure> {
    engine(home, Reach::Own)
}

/// An engine to look at runs with, and to record what people want of them.
pub(crate) fn looking(home: &Path) -> Result<Engine, Failure> {
    engine(home, Reach::Nothing)
}

fn engine(home: &Path, reach: Reach) -> Result<Engine, Failure> {
    let host = Arc::new(sandbox::open_host(home)?);
    let library = library(&host)?;
    Engine::start(host, library, Settings { reach, ..Settings::default() })
}

/// The run that a person means.
pub(crate) fn find(engine: &Engine, text: &str) -> Result<RunSummary, Failure> {
    if text == "last" {
        return last(engine)?.ok_or_else(|| {
            Failure::validation("RUN_UNKNOWN", "no run was begun yet in this home")
                .hint("begin one: `countersign run start --help`")
        });
    }
    let id: RunId = text.parse()?;
    engine.summary(&id).map_err(told)?.ok_or_else(|| {
        Failure::validation("RUN_UNKNOWN", format!("there is no run `{id}`"))
            .hint("list them with `countersign run list`")
    })
}

/// The newest run that no other run began.
fn last(engine: &Engine) -> Result<Option<RunSummary>, Failure> {
    let mut newest = None;
    let visited = engine.host().home().store.visit_runs(&RunFilter::default(), &mut |run| {
        if run.parent.is_some() {
            return Ok(());
        }
        newest = Some(run);
        Err(JournalError::Enough)
    });
    match visited {
        Ok(()) | Err(JournalError::Enough) => Ok(newest),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn status_style(status: &str) -> anstyle::Style {
    match status {
        "completed" => GOOD,
        "failed" => BAD,
        "running" | "pending" => BOLD,
        _ => WARN,
    }
}

pub(crate) fn is_waiting(status: Status) -> bool {
    matches!(status, Status::WaitingApproval | Status::WaitingInput | Status::WaitingExternal)
}

/// How long something took, for people.
pub(crate) fn duration(millis: i64) -> String {
    match millis {
        ..1_000 => format!("{} ms", millis.max(0)),
        1_000..60_000 => format!("{:.1} s", millis as f64 / 1000.0),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis / 1000 % 60),
        _ => format!("{} h {} min", millis / 3_600_000, millis / 60_000 % 60),
    }
}

/// Says every problem, for whoever sits at the terminal.
pub(crate) fn note_problems(ui: Ui, problems: &[Problem]) {
    if !ui.json {
        problems.iter().for_each(|problem| ui.note(format!("  {}", inert(&problem.to_string()))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_said_in_two_units_at_most() {
        let said = [-5, 999, 1_500, 61_000, 3_600_000].map(duration);
        assert_eq!(said, ["0 ms", "999 ms", "1.5 s", "1 min 1 s", "1 h 0 min"]);
    }

    #[test]
    fn actions_are_known_by_their_tools() {
        assert_eq!(tool_of("run_tests"), "action.run-tests");
        assert_eq!(tool_of("none"), "action.none");
    }
}
