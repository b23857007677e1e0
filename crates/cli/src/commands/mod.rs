//! One file per command: its arguments, whose comments are the help text, and one `run`.

mod action;
mod approval;
mod artifact;
mod audit;
mod blueprint;
mod bundle;
mod call;
mod completions;
mod diff;
mod doctor;
mod execution;
mod grant;
mod init;
mod key;
mod policy;
mod principal;
mod quickstart;
mod receipt;
mod recover;
mod replay;
mod request;
mod result;
mod run;
mod sandbox;
mod serve;
mod stats;
mod tool;
mod workflow;
mod workspace;

use clap::Subcommand;
use countersign_model::{Failure, Principal, Timestamp};

use crate::Context;
use crate::bench;
use crate::exit::Exit;
use crate::ui::Done;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Quickstart(quickstart::QuickstartArgs),
    Init(init::InitArgs),
    Call(call::CallArgs),
    #[command(subcommand)]
    Tool(tool::ToolCommand),
    #[command(subcommand)]
    Run(run::RunCommand),
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    #[command(subcommand)]
    Blueprint(blueprint::BlueprintCommand),
    #[command(subcommand)]
    Workspace(workspace::WorkspaceCommand),
    #[command(subcommand)]
    Action(action::ActionCommand),
    #[command(subcommand)]
    Artifact(artifact::ArtifactCommand),
    #[command(subcommand)]
    Bundle(bundle::BundleCommand),
    #[command(subcommand)]
    Grant(grant::GrantCommand),
    #[command(subcommand)]
    Principal(principal::PrincipalCommand),
    #[command(subcommand)]
    Key(key::KeyCommand),
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    #[command(subcommand)]
    Approval(approval::ApprovalCommand),
    #[command(subcommand)]
    Execution(execution::ExecutionCommand),
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    Receipt(receipt::ReceiptArgs),
    #[command(subcommand)]
    Request(request::RequestCommand),
    #[command(subcommand)]
    Result(result::ResultCommand),
    Stats(stats::StatsArgs),
    Replay(replay::ReplayArgs),
    Diff(diff::DiffArgs),
    Recover(recover::RecoverArgs),
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    Doctor(doctor::DoctorArgs),
    Serve(serve::ServeArgs),
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    Completions(completions::CompletionsArgs),
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> Done<Exit> {
        match self {
            Command::Quickstart(args) => quickstart::run(context, &args),
            Command::Init(args) => init::run(context, args),
            Command::Call(args) => call::run(context, args),
            Command::Tool(command) => tool::run(context, command),
            Command::Run(command) => run::run(context, command),
            Command::Workflow(command) => workflow::run(context, command),
            Command::Blueprint(command) => blueprint::run(context, command),
            Command::Workspace(command) => workspace::run(context, command),
            Command::Action(command) => action::run(context, command),
            Command::Artifact(command) => artifact::run(context, command),
            Command::Bundle(command) => bundle::run(context, command),
            Command::Grant(command) => grant::run(context, command),
            Command::Principal(command) => principal::run(context, command),
            Command::Key(command) => key::run(context, command),
            Command::Policy(command) => policy::run(context, command),
            Command::Approval(command) => approval::run(context, command),
            Command::Execution(command) => execution::run(context, command),
            Command::Audit(command) => audit::run(context, command),
            Command::Receipt(args) => receipt::run(context, &args),
            Command::Request(command) => request::run(context, command),
            Command::Result(command) => result::run(context, command),
            Command::Stats(args) => stats::run(context, &args),
            Command::Replay(args) => replay::run(context, args),
            Command::Diff(args) => diff::run(context, &args),
            Command::Recover(args) => recover::run(context, &args),
            Command::Sandbox(command) => sandbox::run(context, command),
            Command::Doctor(args) => doctor::run(context, &args),
            Command::Serve(args) => serve::run(context, &args),
            Command::Bench(command) => bench::run(context, command),
            Command::Completions(args) => completions::run(context, &args),
        }
    }
}

/// Who acts when nobody is named: the person at this terminal.
pub(crate) fn acting(named: Option<Principal>) -> Result<Principal, Failure> {
    if let Some(principal) = named {
        return Ok(principal);
    }
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = user.filter(|user| !user.is_empty()).unwrap_or_else(|| "operator".to_owned());
    format!("human:{user}").parse().map_err(|failure: Failure| failure.hint("name one with --as"))
}

/// `90s`, `15m`, `8h`, `30d`, or a moment such as `2026-12-31T00:00:00Z`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    After(i64),
    At(Timestamp),
}

impl When {
    /// Later than `now` by the duration, or the moment itself.
    pub(crate) fn after(self, now: Timestamp) -> Timestamp {
        match self {
            When::After(millis) => now.plus_millis(millis),
            When::At(moment) => moment,
        }
    }

    /// Earlier than `now` by the duration, or the moment itself.
    pub(crate) fn before(self, now: Timestamp) -> Timestamp {
        match self {
            When::After(millis) => now.plus_millis(-millis),
            When::At(moment) => moment,
        }
    }
}

impl std::str::FromStr for When {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let unit = |c| match c {
            's' => Some(1_000),
            'm' => Some(60_000),
            'h' => Some(3_600_000),
            'd' => Some(86_400_000),
            _ => None,
        };
        let duration = text.chars().last().and_then(unit).and_then(|unit| {
            let count: i64 = text.get(..text.len() - 1)?.parse().ok().filter(|n| *n > 0)?;
            count.checked_mul(unit)
        });
        match duration {
            Some(millis) => Ok(When::After(millis)),
            None => text.parse().map(When::At).map_err(|_: Failure| {
                Failure::validation("TIME_INVALID", format!("`{text}` is not a time"))
                    .hint("write 90s, 15m, 8h, 30d or 2026-12-31T00:00:00Z")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_durations_or_moments() {
        let now = Timestamp::from_millis(1_000_000);
        let millis = |text: &str| text.parse::<When>().unwrap().after(now).as_millis();
        assert_eq!(millis("90s"), 1_090_000);
        assert_eq!(millis("2h"), 1_000_000 + 7_200_000);
        assert_eq!(millis("1970-01-01T00:00:05Z"), 5_000);
        for bad in ["", "s", "-1h", "0s", "1w", "tomorrow", "99999999999999999d"] {
            assert!(bad.parse::<When>().is_err(), "{bad}");
        }
    }
}
