//! Which commands to run: those that the configuration names, or those that the project asks for.

use countersign_host::config::CommandConfig;
use countersign_host::tool::ToolContext;
use countersign_model::Failure;
use countersign_reports::detect::{Ask, Command, Filter, Report, Scope, Source, Undetected};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kinds::Checker;
use super::project::Files;
use super::{Asked, ScopeName};
use crate::left::with_leash;

/// The commands of an action: at least one. Nothing passes by doing nothing.
pub(super) fn commands<C: Checker>(
    context: &mut ToolContext,
    asked: &Asked,
) -> Result<Vec<Command<C::Format>>, Failure> {
    let configured = C::configured(context.place().actions()).to_vec();
    let all = match configured.is_empty() {
        true => detected::<C>(context, asked)?,
        false => named::<C>(&configured, asked)?,
    };
    choose(all, &asked.tools)
}

fn detected<C: Checker>(
    context: &mut ToolContext,
    asked: &Asked,
) -> Result<Vec<Command<C::Format>>, Failure> {
    let scope = scope(context, asked)?;
    let filter =
        asked.filter.as_deref().map(Filter::new).transpose().map_err(|why| undetected(&why))?;
    let files = Files::new(context)?;
    C::detect(&files, &Ask { scope, filter, ..Ask::default() }).map_err(|why| undetected(&why))
}

fn scope(context: &ToolContext, asked: &Asked) -> Result<Scope, Failure> {
    match (asked.scope, asked.paths.is_empty()) {
        (ScopeName::Paths, true) => Err(Failure::validation(
            "PATHS_REQUIRED",
            "the scope `paths` needs `paths` that say where to look",
        )),
        (ScopeName::Paths, false) => Ok(Scope::Paths(asked.paths.clone())),
        (_, false) => {
            Err(Failure::validation("PATHS_UNUSED", "`paths` belong to the scope `paths`")
                .hint("set `scope` to `paths`, or leave `paths` out"))
        }
        (ScopeName::All, true) => Ok(Scope::All),
        (ScopeName::Changed, true) => changed(context),
    }
}

/// What the run has changed so far.
fn changed(context: &ToolContext) -> Result<Scope, Failure> {
    let place = context.place().work()?;
    let changes = with_leash(context, |leash| {
        place.worktree(leash)?.changed(&place.base()?, &place.tree()?, leash)
    })?;
    let both = changes.into_iter().flat_map(|change| [Some(change.path), change.from]);
    let paths: Vec<String> = both.flatten().collect();
    if paths.is_empty() {
        let message = "the run has changed nothing, so there is nothing to check";
        return Err(Failure::validation("NOTHING_CHANGED", message).hint("use the scope `all`"));
    }
    Ok(Scope::Changed(paths))
}

fn undetected(why: &Undetected) -> Failure {
    Failure::validation("NOTHING_TO_RUN", why.to_string())
        .hint("name the commands in countersign.toml, as [[actions.tests]] or [[actions.linters]]")
}

/// Commands of the configuration know nothing of scopes: asked for less, they would run everything.
fn named<C: Checker>(
    configured: &[CommandConfig],
    asked: &Asked,
) -> Result<Vec<Command<C::Format>>, Failure> {
    if asked.scope != ScopeName::All || asked.filter.is_some() {
        let message = "commands of countersign.toml run as they are, for the scope `all`";
        return Err(Failure::validation("SCOPE_UNSUPPORTED", message)
            .hint("leave `scope`, `paths` and `filter` out"));
    }
    configured.iter().map(command).collect()
}

fn command<F: DeserializeOwned>(config: &CommandConfig) -> Result<Command<F>, Failure> {
    let invalid = |why: String| {
        let message = format!("the command `{}` in countersign.toml: {why}", config.id);
        Failure::validation("CONFIG_INVALID", message)
    };
    let Some(program) = config.argv.first().filter(|program| !program.is_empty()) else {
        return Err(invalid("it has no program".to_owned()));
    };
    let format = serde_json::from_value(Value::String(config.format.clone()))
        .map_err(|error| invalid(error.to_string()))?;
    let from = match config.report.as_deref() {
        None => Source::Stdout,
        Some("stderr") => Source::Stderr,
        Some(file) => Source::File(file.to_owned()),
    };
    Ok(Command {
        id: config.id.clone(),
        tool: program.clone(),
        argv: config.argv.clone(),
        working_directory: config.directory.clone(),
        report: Report { format, from },
        environment: Default::default(),
        needs: vec![program.clone()],
        modules: Vec::new(),
        go_module: None,
        why: "countersign.toml".to_owned(),
    })
}

fn choose<F>(all: Vec<Command<F>>, tools: &[String]) -> Result<Vec<Command<F>>, Failure> {
    if let Some(unknown) = tools.iter().find(|id| !all.iter().any(|command| command.id == **id)) {
        let known: Vec<_> = all.iter().map(|command| command.id.as_str()).collect();
        let message = format!("there is no command `{}`", unknown.escape_debug());
        return Err(Failure::validation("COMMAND_UNKNOWN", message)
            .hint(format!("there are {}", known.join(", "))));
    }
    let wanted = |command: &Command<F>| tools.is_empty() || tools.contains(&command.id);
    Ok(all.into_iter().filter(wanted).collect())
}
