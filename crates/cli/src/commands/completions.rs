use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use crate::exit::Exit;
use crate::ui::Done;
use crate::{Cli, Context};

/// Print completions for a shell
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    shell: Shell,
}

pub(super) fn run(context: &Context, args: &CompletionsArgs) -> Done<Exit> {
    // Into memory first: the generator panics when it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "countersign", &mut script);
    let script = String::from_utf8_lossy(&script);
    if context.ui.json {
        context.ui.json(&json!({"shell": args.shell.to_string(), "script": script}))?;
    } else {
        context.ui.exact(script.trim_end())?;
    }
    Ok(Exit::Done)
}
