use std::path::PathBuf;

use clap::Args;
use countersign_host::{Home, SystemClock};
use serde_json::json;

use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, Done, GOOD, paint, shown};

/// Make a home: configuration, the built-in tools, keys and an empty journal
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to make it [default: the home that other commands would use]
    dir: Option<PathBuf>,
}

pub(super) fn run(context: &Context, args: InitArgs) -> Done<Exit> {
    let path = args.dir.unwrap_or_else(|| context.home.clone());
    Home::create(&path, &SystemClock)?;
    let home = Home::open(&path)?;
    let key = home.journal_key.verifier().to_string();
    if context.ui.json {
        context.ui.json(&json!({"home": path.display().to_string(), "journalKey": key}))?;
        return Ok(Exit::Done);
    }
    let ui = context.ui;
    ui.line(format!("{} {}", paint(GOOD, "made a home at"), shown(&path)))?;
    ui.line("  tools/            eight built-in tools are declared; remove those you do not want")?;
    ui.line("  workflows/        definitions of workflows, none yet")?;
    ui.line("  blueprints/       blueprints, none yet")?;
    ui.line("  countersign.toml  configuration, all defaults")?;
    ui.line("  state/            journal, keys and blobs: back it up, never edit it")?;
    ui.line("Nothing is granted yet. Next:")?;
    ui.line(format!("  {}", paint(BOLD, "countersign tool list")))?;
    ui.line(format!(
        "  {}",
        paint(BOLD, r#"countersign call text.digest --input '{"text":"hello"}'"#)
    ))?;
    Ok(Exit::Done)
}
