//! Another input instead of the one that was asked for: a new call, which somebody else approves.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use countersign_host::approvals::Approval;
use countersign_host::{CallCommand, Host};
use countersign_model::{Answer, Failure, Token, ToolRef};

use super::super::call;
use crate::exit::Exit;
use crate::ui::{DIM, Done, Ui, paint, wrap};

/// Whoever edits a call asks for it: they join the chain, and cannot approve what they wrote.
pub(super) fn edit(ui: Ui, host: &Host, token: &Token, approval: &Approval) -> Done<Exit> {
    let editor = host.may_answer(approval.call.execution, token)?;
    let before = serde_json::to_string_pretty(&approval.input).unwrap_or_default();
    let after = in_editor(&host.home().staging(), "json", &before)?;
    if after.trim() == before.trim() {
        ui.line("nothing was changed; the call still waits")?;
        return Ok(Exit::Waiting);
    }
    let facts = &approval.subject.facts;
    let chain = std::iter::once(editor).chain(facts.chain.iter().cloned()).collect();
    let tool = &facts.tool;
    let tool = ToolRef { id: tool.id.clone(), version: Some(tool.version.clone()) };
    let work = approval.call.work.as_ref();
    let work = work.map(|work| host.open_work(&work.workspace, &work.run)).transpose()?;
    let outcome = host.call(CallCommand {
        chain,
        work: work.map(Arc::new),
        mode: facts.mode,
        toolset: facts.toolset.clone(),
        root: facts.workspace.as_ref().map(PathBuf::from),
        ..CallCommand::new(tool, after.into_bytes(), facts.principal.clone())
    })?;
    let reason = format!("edited: {} is asked for instead", outcome.execution);
    host.answer(approval.call.execution, token, Answer::No, Some(&reason))?;
    let note = "the first call is refused; you asked for this one, so somebody else approves it";
    ui.line(wrap(&paint(DIM, note), 0))?;
    call::report(ui, host, &outcome)
}

/// Text as a person leaves it in their own editor.
pub(super) fn in_editor(directory: &Path, kind: &str, text: &str) -> Result<String, Failure> {
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let editor =
        editor.filter(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let path = directory.join(format!("edit-{}.{kind}", std::process::id()));
    let edited = write(&path, text).and_then(|()| {
        // The variable may hold arguments, as `code --wait` does; a shell knows how to read it.
        let command = format!("{editor} \"$1\"");
        Command::new("sh").args(["-c", &command, "sh"]).arg(&path).status()
    });
    let result = match edited {
        Ok(status) if status.success() => fs::read_to_string(&path).map_err(|e| e.to_string()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let _ = fs::remove_file(&path);
    result.map_err(|why| {
        Failure::validation("EDITOR_FAILED", format!("the editor `{editor}` failed: {why}"))
            .hint("name one that works in $EDITOR")
    })
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")
}
