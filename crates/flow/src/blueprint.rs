//! Blueprints: a list of stages in YAML, read strictly, that become a workflow.

mod compile;
mod read;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use crate::definition::Definition;
use crate::problem::{Problem, Report};

/// A blueprint without problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blueprint {
    pub name: String,
    pub description: Option<String>,
    pub defaults: Defaults,
    pub stages: Vec<Stage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defaults {
    pub toolset: Option<String>,
    pub sandbox: Option<String>,
    pub max_step_retries: Option<u64>,
    pub approval_mode: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    pub id: String,
    pub does: Does,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub on_success: Route,
    pub on_failure: Route,
    pub retry_limit: Option<u64>,
    pub approval_required: bool,
    /// Where it stands in the document.
    pub line: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    /// A deterministic action, by name.
    Action(String),
    /// What an agent is to achieve.
    Goal(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Stage(String),
    Done,
    Fail,
    Paused,
}

impl Blueprint {
    /// The blueprint in `text`, or everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        Self::parse_knowing(text, &|_| None)
    }

    /// The same by somebody who can tell what is wrong with the name of an action.
    pub fn parse_knowing(
        text: &str,
        wrong: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<Problem>> {
        let mut report = Report::default();
        let blueprint = yaml::read(text, &mut report)
            .and_then(|document| read::blueprint(&document, &mut report));
        if let Some(blueprint) = &blueprint {
            check(blueprint, &mut report);
            for (name, line) in blueprint.actions() {
                if let Some(message) = wrong(name) {
                    report.at_line(line).add("BLUEPRINT_ACTION_UNKNOWN", "/stages", message);
                }
            }
        }
        report.finish()?;
        blueprint.ok_or_else(Vec::new)
    }

    /// The workflow that it stands for. `tool` says which tool an action is.
    pub fn compile(&self, tool: &dyn Fn(&str) -> String) -> Result<Definition, Vec<Problem>> {
        Definition::of(compile::definition(self, tool))
    }

    /// The names of its actions, for somebody who knows which exist.
    pub fn actions(&self) -> impl Iterator<Item = (&str, usize)> {
        self.stages.iter().filter_map(|stage| match &stage.does {
            Does::Action(name) => Some((name.as_str(), stage.line)),
            Does::Goal(_) => None,
        })
    }

    /// Inputs that no stage makes: whoever starts a run hands them in.
    pub fn run_inputs(&self) -> BTreeSet<&str> {
        let made: BTreeSet<&str> =
            self.stages.iter().flat_map(|stage| &stage.outputs).map(String::as_str).collect();
        let wanted = self.stages.iter().flat_map(|stage| &stage.inputs).map(String::as_str);
        wanted.filter(|name| !made.contains(name)).collect()
    }

    pub(crate) fn limit(&self, stage: &Stage) -> Option<u64> {
        stage.retry_limit.or(self.defaults.max_step_retries)
    }
}

impl Stage {
    fn targets(&self) -> impl Iterator<Item = &str> {
        [&self.on_success, &self.on_failure].into_iter().filter_map(|route| match route {
            Route::Stage(id) => Some(id.as_str()),
            _ => None,
        })
    }
}

/// What no single stage shows.
fn check(blueprint: &Blueprint, report: &mut Report) {
    let places: BTreeMap<&str, usize> =
        blueprint.stages.iter().enumerate().map(|(at, s)| (s.id.as_str(), at)).collect();
    let mut known = true;
    let mut seen = BTreeSet::new();
    for (at, stage) in blueprint.stages.iter().enumerate() {
        report.at_line(stage.line);
        if !seen.insert(&stage.id) {
            let message = format!("the stage `{}` stands here twice", stage.id);
            report.add("BLUEPRINT_STAGE_TWICE", format!("/stages/{at}/id"), message);
        }
        for target in stage.targets().filter(|target| !places.contains_key(target)) {
            let message = format!("there is no stage `{target}`");
            report.add("BLUEPRINT_ROUTE_UNKNOWN", format!("/stages/{at}"), message);
            known = false;
        }
    }
    if known && seen.len() == blueprint.stages.len() {
        reachable(blueprint, &places, report);
        bounded(blueprint, &places, report);
    }
}

fn reachable(blueprint: &Blueprint, places: &BTreeMap<&str, usize>, report: &mut Report) {
    let mut seen = BTreeSet::from([0]);
    let mut waiting = vec![0];
    while let Some(at) = waiting.pop() {
        let stage = blueprint.stages.get(at);
        let next = stage.into_iter().flat_map(Stage::targets).filter_map(|id| places.get(id));
        waiting.extend(next.copied().filter(|&to| seen.insert(to)));
    }
    for (at, stage) in blueprint.stages.iter().enumerate().filter(|(at, _)| !seen.contains(at)) {
        let message = format!("nothing leads to the stage `{}`", stage.id);
        report.at_line(stage.line);
        report.add("BLUEPRINT_STAGE_UNREACHABLE", format!("/stages/{at}"), message);
    }
}

/// Every circle has a stage with a limit: without those, no circle may be left.
fn bounded(blueprint: &Blueprint, places: &BTreeMap<&str, usize>, report: &mut Report) {
    let free =
        |at: usize| blueprint.stages.get(at).is_some_and(|stage| blueprint.limit(stage).is_none());
    for (at, stage) in blueprint.stages.iter().enumerate().filter(|(at, _)| free(*at)) {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![at];
        let mut returns = false;
        while let Some(from) = waiting.pop() {
            let from = blueprint.stages.get(from);
            let next = from.into_iter().flat_map(Stage::targets).filter_map(|id| places.get(id));
            for &to in next.filter(|&&to| free(to)) {
                returns |= to == at;
                if seen.insert(to) {
                    waiting.push(to);
                }
            }
        }
        if returns {
            let message = format!("the stage `{}` leads back to itself without a limit", stage.id);
            report.at_line(stage.line);
            report.add("BLUEPRINT_LOOP_UNBOUNDED", format!("/stages/{at}"), message);
        }
    }
}
