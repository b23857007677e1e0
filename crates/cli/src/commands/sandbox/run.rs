use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use countersign_host::trial::{Published, Trial};
use countersign_model::Failure;
use countersign_model::event::{Connection, Usage};
use countersign_sandbox::{
    Backend, Captured, Ended, Ending, Job, LimitKind, Limits, Observer, Plan, Spec, Staged, Stream,
};
use serde_json::{Value, json};

use super::spec::{SpecArgs, option_of};
use crate::Context;
use crate::exit::Exit;
use crate::live::Live;
use crate::output_file;
use crate::sandbox;
use crate::signals;
use crate::ui::{Done, Stop, Ui};

/// Run any command in the box that tools run in
///
/// It needs no home and records nothing. The command sees the programs and libraries of this
/// machine, read-only, and what the options below show it; no other file, no network, no process
/// and no variable. It reads nothing unless --input is given.
///
/// Its output is shown as it arrives: byte for byte into files and pipes, and on a terminal with
/// every control character but line ends and tabs shown by its number.
///
/// Exit codes: the command's own, or 128 and the number of the signal that ended it. When the box
/// stopped it: 5 a limit was reached, 6 this machine cannot enforce what is asked, 127 the command
/// did not start, 1 cancelled or its files were refused, 2 usage, 70 internal error. With --json,
/// `stoppedBy` tells the two apart.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    spec: SpecArgs,

    /// Copy what it leaves in /out here, when it succeeds
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// What it reads from its standard input: a file, or - for ours
    #[arg(long, value_name = "FILE|-")]
    input: Option<PathBuf>,

    /// Keep its whole output in this directory, as `stdout` and `stderr`
    #[arg(long, value_name = "DIR")]
    save_output: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// The input is handed over whole, in memory.
const MOST_INPUT: u64 = 64 << 20;

pub(super) fn run(context: &Context, args: RunArgs) -> Done<Exit> {
    let RunArgs { spec, out, input, save_output, command } = args;
    let mut spec = spec.spec(command)?;
    let input = input.as_deref().map(read_input).transpose()?.unwrap_or_default();
    if let Some(directory) = &save_output {
        fs::create_dir_all(directory)
            .map_err(|error| output_file::unwritable(directory, &error))?;
    }
    let workspace = spec.workspace.as_ref().map(|(path, _)| path.as_path());
    let trial = Trial::begin(workspace, out.as_deref(), &context.home)?;
    spec.hidden = trial.hidden()?;
    let mut report = carry_out(context.ui, &spec, input, trial)?;
    if let Some(directory) = &save_output {
        save(&mut report.stdout, &directory.join("stdout"))?;
        save(&mut report.stderr, &directory.join("stderr"))?;
    }
    if context.ui.json {
        context.ui.json(&report.to_json())?;
    } else if let Some(failure) = report.worth_telling() {
        context.ui.failure(&failure);
    }
    Ok(report.exit())
}

fn read_input(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().take(MOST_INPUT + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(MOST_INPUT + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        let message = format!("the input {} cannot be read: {error}", path.display());
        Failure::validation("INPUT_UNREADABLE", message)
            .hint("give a file, or - for standard input")
    })?;
    if bytes.len() as u64 > MOST_INPUT {
        let message = format!("the input is larger than {} MiB", MOST_INPUT >> 20);
        return Err(Failure::validation("INPUT_TOO_LARGE", message)
            .hint("put it into a directory, and show that with --in"));
    }
    Ok(bytes)
}

fn save(captured: &mut Captured, path: &Path) -> Result<(), Failure> {
    output_file::write(path, |out| {
        let written = match &mut captured.spill {
            None => out.write_all(&captured.inline),
            Some(file) => {
                file.seek(SeekFrom::Start(0)).and_then(|_| io::copy(file, out)).map(|_| ())
            }
        };
        written.map_err(|error| output_file::unwritable(path, &error))
    })
}

fn carry_out(ui: Ui, spec: &Spec, input: Vec<u8>, trial: Trial) -> Done<Report> {
    let backend = sandbox::backend();
    backend.clean_leftovers();
    let plan = match backend.plan(spec) {
        Ok(plan) => Arc::new(plan),
        Err(failure) => return Ok(Report::not_started(None, spec.limits, failure)),
    };
    let job = Job {
        plan: Arc::clone(&plan),
        input,
        spill: std::env::temp_dir(),
        gateway: Some(sandbox::gateway(Vec::new())),
        warm: 0,
    };
    let live = if ui.json { None } else { Some(Live::new(spec.limits.output)?) };
    let mut watch = Watch { cancelled: signals::cancelled(), live };
    let ended = backend.run(job, &mut watch);
    // The box is gone by now, whatever becomes of what it said.
    watch.live.map_or(Ok(()), Live::finish).map_err(Stop::Output)?;
    Ok(match ended {
        Err(failure) => Report::not_started(Some(plan), spec.limits, failure),
        Ok(ended) => Report::of(plan, ended, trial),
    })
}

/// Shows output, and ends the command when somebody asks for it or nobody reads it.
struct Watch {
    cancelled: Arc<AtomicBool>,
    live: Option<Live>,
}

impl Observer for Watch {
    fn tick(&mut self) -> Result<(), Failure> {
        let unread = self.live.as_ref().is_some_and(Live::is_over);
        if unread || self.cancelled.load(Ordering::Relaxed) {
            return Err(Failure::execution("CANCELLED", "the command was cancelled"));
        }
        Ok(())
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(live) = &mut self.live {
            live.take(stream, bytes);
        }
    }
}

/// All that there is to say about one command.
struct Report {
    end: End,
    plan: Option<Arc<Plan>>,
    limits: Limits,
    stdout: Captured,
    stderr: Captured,
    usage: Usage,
    wall_ms: u64,
    network: Vec<Connection>,
    changes: Vec<Published>,
}

enum End {
    /// As the box says.
    Ran(Ending),
    /// It succeeded, but what it wrote could not be published.
    Refused(Failure),
    NotStarted(Failure),
}

impl Report {
    fn not_started(plan: Option<Arc<Plan>>, limits: Limits, failure: Failure) -> Self {
        Report {
            end: End::NotStarted(failure),
            plan,
            limits,
            stdout: Captured::default(),
            stderr: Captured::default(),
            usage: Usage::default(),
            wall_ms: 0,
            network: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn of(plan: Arc<Plan>, ended: Ended, trial: Trial) -> Self {
        let Ended { ending, stdout, stderr, usage, wall_ms, connections, staged } = ended;
        let (end, changes) = publish(ending, &staged, trial, &plan.limits);
        let limits = plan.limits;
        let network = connections;
        let plan = Some(plan);
        Report { end, plan, limits, stdout, stderr, usage, wall_ms, network, changes }
    }

    fn exit(&self) -> Exit {
        match &self.end {
            End::Ran(Ending::Exited { code }) => Exit::Program(u8::try_from(*code).unwrap_or(1)),
            End::Ran(Ending::Signalled { signal }) => {
                Exit::Program(u8::try_from(128 + signal).unwrap_or(255))
            }
            End::Ran(Ending::Limit { .. }) => Exit::LimitReached,
            End::NotStarted(failure) if failure.code == "COMMAND_NOT_STARTED" => Exit::Program(127),
            End::Ran(Ending::Stopped { failure })
            | End::Refused(failure)
            | End::NotStarted(failure) => Exit::of_failure(failure),
        }
    }

    /// Whether the command ended by itself, well or badly.
    fn is_its_own(&self) -> bool {
        matches!(self.end, End::Ran(Ending::Exited { .. } | Ending::Signalled { .. }))
    }

    fn failure(&self) -> Option<Failure> {
        match &self.end {
            End::Refused(failure) | End::NotStarted(failure) => Some(failure.clone()),
            End::Ran(ending) => {
                let failure = ending.failure(&self.limits)?;
                // The words for a declared tool, turned to a command and its options.
                let message = failure.message.replacen("the tool", "the command", 1);
                let hint = match ending {
                    Ending::Limit { limit } => {
                        Some(format!("raise {}, or give it less to do", option_of(*limit)))
                    }
                    _ => failure.hint.clone(),
                };
                Some(Failure { message, hint, ..failure })
            }
        }
    }

    /// A command that failed by itself has said why.
    fn worth_telling(&self) -> Option<Failure> {
        match self.end {
            End::Ran(Ending::Exited { .. }) => None,
            _ => self.failure(),
        }
    }

    fn ending(&self) -> Value {
        let of = |kind: &str, failure: &Failure| json!({"kind": kind, "code": failure.code, "message": failure.message});
        match &self.end {
            End::Ran(ending) => json!(ending),
            End::Refused(failure) => of("refused", failure),
            End::NotStarted(failure) => of("notStarted", failure),
        }
    }

    fn to_json(&self) -> Value {
        let failure = self.failure();
        let mut value = json!({
            "success": failure.is_none(),
            "ending": self.ending(),
            "exitCode": self.exit().code(),
            "stoppedBy": if self.is_its_own() { None } else { Some("sandbox") },
            "stdout": text(&self.stdout),
            "stdoutBytes": self.stdout.total,
            "stdoutTruncated": self.stdout.is_cut(),
            "stderr": text(&self.stderr),
            "stderrBytes": self.stderr.total,
            "stderrTruncated": self.stderr.is_cut(),
            "usage": usage(&self.usage, self.wall_ms),
            "enforcement": self.plan.as_ref().map_or(json!({}), |plan| json!(plan.enforcement)),
            "weaker": self.plan.as_ref().map_or(&[][..], |plan| &plan.weaker),
            "network": self.network,
            "changes": self.changes,
        });
        if let (Some(object), Some(failure)) = (value.as_object_mut(), failure) {
            object.insert("error".to_owned(), json!(failure));
        }
        value
    }
}

/// Only a command that succeeded leaves something behind.
fn publish(
    ending: Ending,
    staged: &Staged,
    trial: Trial,
    limits: &Limits,
) -> (End, Vec<Published>) {
    if !ending.is_success() {
        return (End::Ran(ending), Vec::new());
    }
    match trial.publish(staged, limits) {
        Ok(changes) => (End::Ran(ending), changes),
        Err(failure) => (refusal(failure), Vec::new()),
    }
}

/// A limit can also be found to be exceeded by what is left behind.
fn refusal(failure: Failure) -> End {
    let limit = [LimitKind::TotalSize, LimitKind::Inodes]
        .into_iter()
        .find(|limit| limit.code() == failure.code);
    limit.map_or(End::Refused(failure), |limit| End::Ran(Ending::Limit { limit }))
}

fn text(captured: &Captured) -> String {
    String::from_utf8_lossy(&captured.inline).into_owned()
}

fn usage(usage: &Usage, wall_ms: u64) -> Value {
    let mut value = json!(usage);
    if let Some(object) = value.as_object_mut() {
        object.insert("wallMs".to_owned(), json!(wall_ms));
    }
    value
}
