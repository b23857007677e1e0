//! A home, repositories of any size, and git as anybody has it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use countersign_actions::{ActionContext, ActionRequest, ActionResult, Asker, handlers, put, run};
use countersign_host::grants::IssueCommand;
use countersign_host::{Backends, Clock, Home, Host, SystemClock};
use countersign_model::{ArtifactId, Capability, Failure, Grantee, Principal, Scope};
use serde_json::Value;

use super::super::measure::timed;

const AGENT: &str = "agent:bench";
const HUMAN: &str = "human:bench";

/// Longer than any measurement.
const LASTING: i64 = 24 * 3_600_000;

pub(super) struct Stage {
    pub(super) host: Host,
    pub(super) dir: PathBuf,
}

impl Stage {
    pub(super) fn new(dir: &Path) -> Result<Self, Failure> {
        let dir = dir.canonicalize().map_err(|error| failed(&error))?;
        let path = dir.join("home");
        Home::create(&path, &SystemClock)?;
        let home = Home::open(&path)?;
        let handlers = handlers(&home.config.actions)?;
        let host = Host::start_with(home, &handlers, Arc::new(SystemClock), Backends::default())?;
        Ok(Stage { host, dir })
    }

    /// Makes a repository with a checkout, registers it, and lets an agent work on it.
    pub(super) fn workspace(
        &self,
        id: &str,
        files: impl Iterator<Item = (String, String)>,
    ) -> Result<PathBuf, Failure> {
        let path = self.dir.join(id);
        std::fs::create_dir(&path).map_err(|error| failed(&error))?;
        git(&path, &["init", "-q", "-b", "main"])?;
        import(&path, files)?;
        git(&path, &["reset", "-q", "--hard", "main"])?;
        self.host.add_workspace(id.parse()?, &path, None, &HUMAN.parse()?)?;
        let file =
            [Capability::FilesystemRead, Capability::FilesystemWrite, Capability::FilesystemDelete];
        file.into_iter().try_for_each(|capability| self.grant(capability, &path))?;
        Ok(path)
    }

    fn grant(&self, capability: Capability, path: &Path) -> Result<(), Failure> {
        let command = IssueCommand {
            capability,
            to: Grantee::from(AGENT.parse::<Principal>()?),
            by: HUMAN.parse()?,
            scope: Scope::parse([format!("{}/**", path.display())])
                .map_err(|error| failed(&error))?,
            expires_at: SystemClock.now().plus_millis(LASTING),
            delegable: false,
        };
        self.host.issue_grant(command).map(drop)
    }

    /// Runs an action to its success, even if the same was done before.
    pub(super) fn act(
        &self,
        (workspace, run_id): (&str, &str),
        action: &str,
        inputs: Value,
    ) -> Result<ActionResult, Failure> {
        let Value::Object(inputs) = inputs else { return Err(failed(&"inputs are an object")) };
        let request = ActionRequest {
            action: action.to_owned(),
            run_id: run_id.parse()?,
            inputs,
            context: context(workspace)?,
        };
        let asker = Asker { fresh: true, ..asker()? };
        succeeded(run(&self.host, request, asker)?)
    }

    pub(super) fn put(
        &self,
        (workspace, run_id): (&str, &str),
        name: &str,
        content: impl std::io::Read,
    ) -> Result<ArtifactId, Failure> {
        let what = (name, "application/octet-stream");
        let run_id = run_id.parse()?;
        let made = put(&self.host, what, content, run_id, context(workspace)?, asker()?)?;
        let made = succeeded(made)?.artifacts.into_iter().next();
        made.map(|made| made.artifact_id).ok_or_else(|| failed(&"no artifact was made"))
    }

    /// Nothing that was written before is still on its way to the disk.
    pub(super) fn settle(&self) -> Result<(), Failure> {
        let dir = File::open(&self.dir).map_err(|error| failed(&error))?;
        rustix::fs::syncfs(dir).map_err(|error| failed(&error))
    }

    /// Times work that begins when nothing else is on its way to the disk.
    pub(super) fn time(
        &self,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Duration, Failure> {
        self.settle()?;
        timed(work)
    }
}

fn context(workspace: &str) -> Result<ActionContext, Failure> {
    Ok(ActionContext { toolset: None, sandbox: None, workspace: workspace.parse()? })
}

fn asker() -> Result<Asker, Failure> {
    Ok(Asker::new(AGENT.parse()?))
}

fn succeeded(result: ActionResult) -> Result<ActionResult, Failure> {
    match result.error {
        Some(error) => Err(error),
        None => Ok(result),
    }
}

/// One commit of these files, on `main`.
fn import(at: &Path, files: impl Iterator<Item = (String, String)>) -> Result<(), Failure> {
    let mut command = plain(at, &["fast-import", "--quiet"]);
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(|error| failed(&error))?;
    if let Some(input) = child.stdin.take() {
        let mut input = BufWriter::with_capacity(1 << 18, input);
        write_import(&mut input, files).map_err(|error| failed(&error))?;
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(failed(&"git fast-import did not succeed")),
    }
}

fn write_import(
    input: &mut impl Write,
    files: impl Iterator<Item = (String, String)>,
) -> std::io::Result<()> {
    let head = "commit refs/heads/main\ncommitter B <b@localhost> 1700000000 +0000\ndata 5\nfirst";
    writeln!(input, "{head}")?;
    for (path, text) in files {
        writeln!(input, "M 100644 inline {path}\ndata {}\n{text}", text.len())?;
    }
    input.flush()
}

/// Git as it is installed, without anybody's own settings.
pub(super) fn plain(at: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(at).args(arguments);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

pub(super) fn git(at: &Path, arguments: &[&str]) -> Result<(), Failure> {
    ended(&mut plain(at, arguments))
}

/// Runs it with its output going into a file.
pub(super) fn git_into(at: &Path, arguments: &[&str], file: &Path) -> Result<(), Failure> {
    let file = File::create(file).map_err(|error| failed(&error))?;
    ended(plain(at, arguments).stdout(file))
}

fn ended(command: &mut Command) -> Result<(), Failure> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(&format!("git ended with {status}"))),
        Err(error) => Err(failed(&error)),
    }
}

pub(super) fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::resource("BENCH_FAILED", format!("the measurement failed: {error}"))
}
