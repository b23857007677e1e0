//! The scene in which a human is asked: the call waits, somebody signs, and it runs.

use std::fs;
use std::path::Path;

use countersign_host::people::{AddPrincipal, CreateKey};
use countersign_host::{CallCommand, Cancel, Clock, Host, Outcome, SystemClock};
use countersign_model::{Answer, Failure, KeyScope, Principal, Token};
use serde_json::json;

use super::unwritable;
use crate::commands::acting;

pub(super) const POLICY: &str = r#"// Made by the quickstart: one note that only people may have changed.
@id("plan")
@reason("plans are for people")
@approvers("1")
forbid (principal, action == Action::"invoke_unattended", resource == Tool::"notes.add")
when { context.every || (context has path && context.path like "*/notes/plan.md") };
"#;

/// What the call waits for, and what became of it when a human agreed.
pub(super) fn play(
    host: &Host,
    agent: &Principal,
    workspace: &Path,
) -> Result<(Outcome, Outcome), Failure> {
    let input = json!({"path": "notes/plan.md", "content": "Rest.\n"});
    let command = CallCommand {
        root: Some(workspace.to_owned()),
        ..CallCommand::new("notes.add".parse()?, input.to_string().into_bytes(), agent.clone())
    };
    let waiting = host.call(command)?;
    host.answer(waiting.execution, &key(host)?, Answer::Yes, Some("looks good"))?;
    let done = host.resume(waiting.execution, Cancel::default())?;
    Ok((waiting, done))
}

/// A human with a key that lasts for the scene.
fn key(host: &Host) -> Result<Token, Failure> {
    let principal: Principal = "human:demo".parse()?;
    let by = acting(None)?;
    if !host.people()?.book.knows(&principal) {
        let (principal, by) = (principal.clone(), by.clone());
        host.add_principal(&AddPrincipal { principal, description: None, by })?;
    }
    let expires_at = SystemClock.now().plus_millis(60_000);
    let scopes = [KeyScope::Approve].into();
    let create = CreateKey { principal, tenant: None, scopes, expires_at, by };
    host.create_key(&create).map(|(_, token)| token)
}

pub(super) fn prepare(home: &Path) -> Result<(), Failure> {
    fs::write(home.join("policy/quickstart.cedar"), POLICY).map_err(|error| unwritable(&error))
}
