//! Running one command, and what it is worth.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use countersign_host::tool::{Command as Program, News, Ran as Ended, ToolContext};
use countersign_model::effect::Payload;
use countersign_model::{Failure, ResourceLimits};
use countersign_reports::detect::{Command, Source};
use countersign_reports::{Ending, Outcome, Places, Unreadable, Verdict};
use countersign_sandbox::{self as sandbox, Captured, LimitKind};
use serde_json::{Value, json};

use super::Asked;
use super::kinds::{Checker, Counts};
use super::log::Log;

/// What is left of the action's time when its programs have to be done: reports are still read.
const SPARE_MS: u64 = 2_000;

/// Programs may say more than a log keeps; it is read, and then cut.
const MOST_OUTPUT: u64 = 1 << 30;

const GIB: u64 = 1 << 30;

/// A command that ran, and what came of it.
pub(super) struct Ran<C: Checker> {
    id: String,
    argv: Vec<String>,
    directory: String,
    why: String,
    ending: String,
    exit_code: Option<i32>,
    duration_ms: u64,
    plan: Option<Payload>,
    report: Option<C::Report>,
    pub(super) verdict: Verdict,
    pub(super) counts: Counts,
    pub(super) timed_out: bool,
}

impl<C: Checker> Ran<C> {
    /// As the output of the action has it.
    pub(super) fn told(&self) -> Value {
        json!({
            "id": self.id,
            "argv": self.argv,
            "directory": self.directory,
            "why": self.why,
            "ending": self.ending,
            "exit_code": self.exit_code,
            "duration_ms": self.duration_ms,
            "plan": self.plan.map(|plan| plan.digest),
            "outcome": self.verdict.outcome,
            "reason": self.verdict.sentence,
            "counts": self.counts,
        })
    }

    /// As the report has it: with everything that was found.
    pub(super) fn report(&self) -> Value {
        let mut told = self.told();
        if let Value::Object(fields) = &mut told {
            fields.insert("report".to_owned(), json!(self.report));
        }
        told
    }
}

pub(super) fn run_command<C: Checker>(
    context: &mut ToolContext,
    asked: &Asked,
    checker: &C,
    command: &Command<C::Format>,
    log: &mut Log,
) -> Result<Ran<C>, Failure> {
    context.caller().progress.tell(News::Step(&command.to_string()));
    log.line(&format!("$ {command}"))?;
    let program = Program {
        argv: command.argv.clone(),
        directory: command.working_directory.clone(),
        environment: command.environment.clone(),
        limits: limits(context, asked)?,
    };
    match context.run_program(&program) {
        Ok(mut ended) => {
            let (report, verdict) = judge(context, checker, command, &mut ended)?;
            log.stream(&mut ended.stdout)?;
            log.stream(&mut ended.stderr)?;
            log.line(&format!("[{}, {} ms]", told(&ended.ending), ended.wall_ms))?;
            Ok(ran(command, &ended, report, verdict))
        }
        // Not a word of the program: it is not there, or cannot be started.
        Err(failure) if is_programs_own(&failure) => {
            log.line(&format!("[{}: {}]", failure.code, failure.message))?;
            Ok(unstarted(command, &failure))
        }
        Err(failure) => Err(failure),
    }
}

/// A program that cannot be started is the project's trouble, not this host's.
fn is_programs_own(failure: &Failure) -> bool {
    ["COMMAND_NOT_STARTED", "COMMAND_TOO_LONG"].contains(&failure.code.as_ref())
}

fn limits(context: &ToolContext, asked: &Asked) -> Result<ResourceLimits, Failure> {
    let actions = context.place().actions();
    let wanted = asked.timeout_sec.map_or(u64::MAX, |seconds| seconds * 1000);
    let time = context.time_left_ms().saturating_sub(SPARE_MS).min(wanted);
    if time == 0 {
        let message = "no time is left to start another command";
        return Err(Failure::timeout("TIME_LIMIT", message));
    }
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    Ok(ResourceLimits {
        max_cpu_time: Some(time.saturating_mul(processors)),
        max_execution_time: time,
        max_file_descriptors: Some(4096),
        max_file_size: Some(4 * GIB),
        max_inodes: Some(2_000_000),
        max_memory: u64::from(actions.max_memory_mb) << 20,
        max_output: Some(MOST_OUTPUT),
        max_processes: Some(actions.max_processes),
        max_threads: Some(actions.max_processes.saturating_mul(8)),
        max_total_size: Some(16 * GIB),
    })
}

type Judged<C> = (Option<<C as Checker>::Report>, Verdict);

fn judge<C: Checker>(
    context: &ToolContext,
    checker: &C,
    command: &Command<C::Format>,
    ended: &mut Ended,
) -> Result<Judged<C>, Failure> {
    let ending = match &ended.ending {
        sandbox::Ending::Exited { code } => Ending::Exited(*code),
        other => Ending::Stopped(told(other)),
    };
    let report = read::<C>(context, command, ended)?;
    let verdict = checker.judge(&ending, report.as_ref());
    Ok((report.ok(), verdict))
}

/// The report that a command left. What cannot be read is no success, whatever else is true.
fn read<C: Checker>(
    context: &ToolContext,
    command: &Command<C::Format>,
    ended: &mut Ended,
) -> Result<Result<C::Report, Unreadable>, Failure> {
    context.check()?;
    let places = Places {
        directory: &command.working_directory,
        go_module: command.go_module.as_deref(),
        ..Places::default()
    };
    let mut reader: Box<dyn BufRead + '_> = match &command.report.from {
        Source::Stdout => stream(&mut ended.stdout)?,
        Source::Stderr => stream(&mut ended.stderr)?,
        Source::Streams => Box::new(stream(&mut ended.stdout)?.chain(stream(&mut ended.stderr)?)),
        Source::File(path) => {
            let name = path.strip_prefix("/out/").unwrap_or(path);
            match ended.open_out(name)? {
                Some(file) => Box::new(BufReader::new(file)),
                None => Box::new(&b""[..]),
            }
        }
    };
    Ok(C::read(command.report.format, &command.tool, &mut *reader, &places))
}

fn stream(said: &mut Captured) -> Result<Box<dyn BufRead + '_>, Failure> {
    match &mut said.spill {
        None => Ok(Box::new(said.inline.as_slice())),
        Some(file) => {
            let back = file.seek(SeekFrom::Start(0));
            back.map_err(|error| Failure::state("OUTPUT_LOST", error.to_string()))?;
            Ok(Box::new(BufReader::new(file)))
        }
    }
}

/// How a program ended, in a few words.
fn told(ending: &sandbox::Ending) -> String {
    match ending {
        sandbox::Ending::Exited { code } => format!("exited {code}"),
        sandbox::Ending::Signalled { signal } => format!("ended by signal {signal}"),
        sandbox::Ending::Limit { limit } => limit.code().to_owned(),
        sandbox::Ending::Stopped { failure } => failure.code.to_string(),
    }
}

fn ran<C: Checker>(
    command: &Command<C::Format>,
    ended: &Ended,
    report: Option<C::Report>,
    verdict: Verdict,
) -> Ran<C> {
    let exit_code = match ended.ending {
        sandbox::Ending::Exited { code } => Some(code),
        _ => None,
    };
    let timed_out = matches!(
        ended.ending,
        sandbox::Ending::Limit { limit: LimitKind::WallTime | LimitKind::CpuTime }
    );
    Ran {
        ending: told(&ended.ending),
        exit_code,
        duration_ms: ended.wall_ms,
        plan: Some(ended.plan),
        counts: report.as_ref().map(C::counts).unwrap_or_else(none::<C>),
        report,
        verdict,
        timed_out,
        ..blank(command)
    }
}

fn none<C: Checker>() -> Counts {
    C::NAMES.iter().map(|name| (*name, 0)).collect()
}

fn blank<C: Checker>(command: &Command<C::Format>) -> Ran<C> {
    Ran {
        id: command.id.clone(),
        argv: command.argv.clone(),
        directory: command.working_directory.clone(),
        why: command.why.clone(),
        ending: String::new(),
        exit_code: None,
        duration_ms: 0,
        plan: None,
        report: None,
        verdict: Verdict { outcome: Outcome::Errored, sentence: String::new() },
        counts: none::<C>(),
        timed_out: false,
    }
}

fn unstarted<C: Checker>(command: &Command<C::Format>, failure: &Failure) -> Ran<C> {
    let sentence = format!("it could not be started: {}", failure.message);
    Ran {
        ending: failure.code.to_string(),
        verdict: Verdict { outcome: Outcome::Errored, sentence },
        ..blank(command)
    }
}
