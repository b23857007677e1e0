//! A file becomes an artifact of a run.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_actions::{ActionContext, Asker};
use countersign_host::Cancel;
use countersign_model::{Failure, RunId, WorkspaceId};

use crate::Context;
use crate::commands::action::{Who, new_run, report, shown};
use crate::exit::Exit;
use crate::sandbox;
use crate::signals;
use crate::ui::Done;

/// Take a file into a run, so that actions can be given it
///
/// Output and exit codes are those of `countersign action run`.
#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,

    /// The workspace of the run
    #[arg(long, value_name = "ID")]
    workspace: WorkspaceId,

    /// The run [default: a new one]
    #[arg(long, value_name = "ID")]
    run: Option<RunId>,

    /// Its name within the run [default: the name of the file]
    #[arg(long)]
    name: Option<String>,

    /// What it is [default: by the end of its name]
    #[arg(long, value_name = "TYPE")]
    media_type: Option<String>,

    #[command(flatten)]
    who: Who,
}

pub(super) fn run(context: &Context, args: PutArgs) -> Done<Exit> {
    let (name, content) = (name(&args)?, open(&args.file)?);
    let media_type = args.media_type.as_deref().unwrap_or_else(|| media_type(&name));
    let host = sandbox::open_host(&context.home)?;
    let run_id = args.run.map_or_else(|| new_run(&host), Ok)?;
    let place = ActionContext { toolset: None, sandbox: None, workspace: args.workspace };
    let asker = args.who.asker(Cancel::from_flag(signals::cancelled()))?;
    let result = shown(|progress| {
        let asker = Asker { progress, ..asker };
        countersign_actions::put(&host, (&name, media_type), content, run_id, place, asker)
    })?;
    report(context.ui, "put_artifact", &result)
}

fn name(args: &PutArgs) -> Result<String, Failure> {
    let of_file = || args.file.file_name().filter(|_| args.file.as_os_str() != "-");
    let name = args.name.clone().or_else(|| of_file()?.to_str().map(str::to_owned));
    name.ok_or_else(|| {
        Failure::validation("ARTIFACT_NAME_INVALID", "the file has no name that can be taken")
            .hint("give the artifact one with --name")
    })
}

fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let unreadable = |why: String| {
        let message = format!("{} cannot be read: {why}", path.display());
        Failure::validation("FILE_UNREADABLE", message).hint("name a file that you may read")
    };
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    match file.metadata().is_ok_and(|found| found.is_dir()) {
        true => Err(unreadable("it is a directory".to_owned())),
        false => Ok(Box::new(file)),
    }
}

fn media_type(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    match end.to_ascii_lowercase().as_str() {
        "patch" | "diff" => "text/x-diff",
        "json" | "sarif" => "application/json",
        "md" => "text/markdown",
        "txt" | "log" => "text/plain; charset=utf-8",
        "xml" => "application/xml",
        "html" => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}
