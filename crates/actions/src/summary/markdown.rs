//! The same story for people to read.

use std::fmt::Write;

use super::{Story, Told};

/// Paths that one call may list; the count tells the rest.
const MOST_PATHS: usize = 20;

pub(super) fn render(story: &Story) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut text, story);
    text
}

fn write_all(text: &mut String, story: &Story) -> std::fmt::Result {
    writeln!(text, "# Run {}\n", story.run)?;
    if let (Some(workspace), Some(base)) = (&story.workspace, &story.base) {
        writeln!(text, "On workspace `{workspace}`, from commit `{base}`.\n")?;
    }
    writeln!(text, "{}.\n", story.headline())?;
    story.calls.iter().try_for_each(|call| write_call(text, call))
}

fn write_call(text: &mut String, call: &Told) -> std::fmt::Result {
    let took = call.duration_ms.map(|ms| format!(", {ms} ms")).unwrap_or_default();
    writeln!(text, "## {} — {}{took}\n", call.tool, call.state)?;
    writeln!(text, "- by `{}`, execution `{}`", call.principal, call.execution)?;
    if let Some(said) = &call.said {
        writeln!(text, "- {}", plain(said))?;
    }
    if let Some(error) = &call.error {
        writeln!(text, "- failed: `{error}`")?;
    }
    if let Some(earlier) = &call.replayed_from {
        writeln!(text, "- nothing ran: the result of `{earlier}` was given again")?;
    }
    if !call.approved_by.is_empty() {
        let names: Vec<_> = call.approved_by.iter().map(|by| format!("`{by}`")).collect();
        writeln!(text, "- approved by {}", names.join(", "))?;
    }
    for changed in call.changed.iter().take(MOST_PATHS) {
        writeln!(text, "- {} `{}`", changed.how, plain(&changed.what))?;
    }
    if call.changed.len() > MOST_PATHS {
        writeln!(text, "- and {} more changes", call.changed.len() - MOST_PATHS)?;
    }
    for made in &call.artifacts {
        writeln!(text, "- left `{}` ({})", plain(&made.name), made.artifact_id)?;
    }
    writeln!(text)
}

/// One line, and nothing that a reader of Markdown would act on.
fn plain(text: &str) -> String {
    let shown: String = text.chars().take(400).collect();
    shown.escape_debug().to_string().replace('`', "'").replace("\\\"", "\"")
}
