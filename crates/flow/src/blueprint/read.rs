//! From YAML to a blueprint: every member by name, every problem with its line.

use super::yaml::{Spot, Yaml};
use super::{Blueprint, Defaults, Does, Route, Stage};
use crate::problem::{Report, join, shorten};

const MOST_STAGES: usize = 200;
const MOST_RETRIES: u64 = 100;

const MEMBERS: [&str; 5] = ["version", "name", "description", "defaults", "stages"];
const DEFAULTS: [&str; 4] = ["toolset", "sandbox", "max_step_retries", "approval_mode"];
const STAGE: [&str; 10] = [
    "id",
    "type",
    "action",
    "goal",
    "inputs",
    "outputs",
    "on_success",
    "on_failure",
    "retry_limit",
    "approval_required",
];
/// Things that people try to write, and that a blueprint is without on purpose.
const FORBIDDEN: [&str; 12] = [
    "command", "commands", "shell", "run", "script", "prompt", "when", "if", "loop", "foreach",
    "policy", "env",
];
const SANDBOXES: [&str; 4] = ["read_only", "workspace_write", "repo_write", "danger_full_access"];

/// One map, with its place.
struct Object<'y> {
    line: usize,
    at: String,
    items: &'y [(String, Spot)],
}

impl<'y> Object<'y> {
    fn of(spot: &'y Spot, at: String, known: &[&str], report: &mut Report) -> Option<Self> {
        let Yaml::Map(items) = &spot.value else {
            report.at_line(spot.line).add("BLUEPRINT_INVALID", at, "a map is expected here");
            return None;
        };
        for (name, value) in items.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let shown = shorten(name, 60);
            let (code, message) = match FORBIDDEN.contains(&name.as_str()) {
                true => (
                    "BLUEPRINT_FORBIDDEN",
                    format!("`{shown}` is not for blueprints: name an action"),
                ),
                false => ("BLUEPRINT_INVALID", format!("`{shown}` is not known here")),
            };
            report.at_line(value.line).add(code, join(&at, name), message);
        }
        Some(Object { line: spot.line, at, items })
    }

    fn get(&self, name: &str) -> Option<&'y Spot> {
        self.items.iter().find(|(known, _)| known == name).map(|(_, spot)| spot)
    }

    fn wrong(&self, name: &str, line: usize, message: impl Into<String>, report: &mut Report) {
        report.at_line(line).add("BLUEPRINT_INVALID", join(&self.at, name), message);
    }

    fn text(&self, name: &str, report: &mut Report) -> Option<&'y str> {
        let spot = self.get(name)?;
        match &spot.value {
            Yaml::Text(text, _) if !text.is_empty() => Some(text),
            _ => {
                self.wrong(name, spot.line, "a text is expected here", report);
                None
            }
        }
    }

    fn needed(&self, name: &str, report: &mut Report) -> Option<&'y str> {
        if self.get(name).is_none() {
            let message = format!("`{name}` is missing");
            report.at_line(self.line).add("BLUEPRINT_INVALID", self.at.clone(), message);
        }
        self.text(name, report)
    }

    fn one_of(&self, name: &str, known: &[&str], report: &mut Report) -> Option<String> {
        let text = self.text(name, report)?;
        if !known.contains(&text) {
            let line = self.get(name).map_or(self.line, |spot| spot.line);
            self.wrong(name, line, format!("one of {} is expected", known.join(", ")), report);
        }
        Some(text.to_owned())
    }

    fn number(&self, name: &str, report: &mut Report) -> Option<u64> {
        let text = self.text(name, report)?;
        let number = text.parse().ok().filter(|number| *number <= MOST_RETRIES);
        if number.is_none() {
            let line = self.get(name).map_or(self.line, |spot| spot.line);
            self.wrong(
                name,
                line,
                format!("a number from 0 to {MOST_RETRIES} is expected"),
                report,
            );
        }
        number
    }

    fn flag(&self, name: &str, report: &mut Report) -> bool {
        match self.get(name).map(|spot| (&spot.value, spot.line)) {
            None => false,
            Some((Yaml::Text(text, true), _)) if text == "true" => true,
            Some((Yaml::Text(text, true), _)) if text == "false" => false,
            Some((_, line)) => {
                self.wrong(name, line, "true or false is expected here", report);
                false
            }
        }
    }

    fn names(&self, name: &str, report: &mut Report) -> Vec<String> {
        let Some(spot) = self.get(name) else { return Vec::new() };
        let Yaml::List(items) = &spot.value else {
            self.wrong(name, spot.line, "a list of names is expected here", report);
            return Vec::new();
        };
        let mut found: Vec<String> = Vec::new();
        for item in items {
            match &item.value {
                Yaml::Text(text, _) if is_name(text) && !found.contains(text) => {
                    found.push(text.clone());
                }
                Yaml::Text(text, _) if found.contains(text) => {
                    self.wrong(name, item.line, "the same name stands here twice", report);
                }
                _ => {
                    self.wrong(name, item.line, "a name such as `lint_report` is expected", report)
                }
            }
        }
        found
    }
}

fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(letter)
}

pub(super) fn blueprint(document: &Spot, report: &mut Report) -> Option<Blueprint> {
    let top = Object::of(document, String::new(), &MEMBERS, report)?;
    let version = top.needed("version", report);
    if version.is_some_and(|version| !["1", "1.0"].contains(&version)) {
        top.wrong("version", top.line, "only version 1 is known", report);
    }
    let name = name(&top, "name", report);
    let description = top.text("description", report).map(str::to_owned);
    let defaults = defaults(&top, report);
    let stages = stages(&top, report);
    Some(Blueprint { name: name?, description, defaults, stages: stages? })
}

fn name(object: &Object<'_>, member: &str, report: &mut Report) -> Option<String> {
    let text = object.needed(member, report)?;
    if !is_name(text) {
        let message = format!("`{}` is not a name such as `quick_fix`", shorten(text, 60));
        let line = object.get(member).map_or(object.line, |spot| spot.line);
        object.wrong(member, line, message, report);
    }
    Some(text.to_owned())
}

fn defaults(top: &Object<'_>, report: &mut Report) -> Defaults {
    let spot = top.get("defaults");
    let object = spot.and_then(|spot| Object::of(spot, "/defaults".to_owned(), &DEFAULTS, report));
    let Some(object) = object else { return Defaults::default() };
    Defaults {
        toolset: object.text("toolset", report).map(str::to_owned),
        sandbox: object.one_of("sandbox", &SANDBOXES, report),
        max_step_retries: object.number("max_step_retries", report),
        approval_mode: object.one_of("approval_mode", &["on_risky_actions"], report),
    }
}

fn stages(top: &Object<'_>, report: &mut Report) -> Option<Vec<Stage>> {
    let Some(spot) = top.get("stages") else {
        report.at_line(top.line).add("BLUEPRINT_INVALID", "", "`stages` is missing");
        return None;
    };
    let Yaml::List(items) = &spot.value else {
        top.wrong("stages", spot.line, "a list of stages is expected here", report);
        return None;
    };
    if items.is_empty() || items.len() > MOST_STAGES {
        let message = format!("from 1 to {MOST_STAGES} stages are expected");
        top.wrong("stages", spot.line, message, report);
        return None;
    }
    let ids: Vec<Option<&str>> = items.iter().map(id_of).collect();
    let read =
        |(at, item): (usize, &Spot)| stage(item, at, ids.get(at + 1).copied().flatten(), report);
    items.iter().enumerate().map(read).collect()
}

fn id_of(item: &Spot) -> Option<&str> {
    let Yaml::Map(members) = &item.value else { return None };
    match members.iter().find(|(name, _)| name == "id").map(|(_, spot)| &spot.value) {
        Some(Yaml::Text(id, _)) => Some(id),
        _ => None,
    }
}

fn stage(item: &Spot, at: usize, next: Option<&str>, report: &mut Report) -> Option<Stage> {
    let object = Object::of(item, format!("/stages/{at}"), &STAGE, report)?;
    let id = name(&object, "id", report);
    if id.as_deref().is_some_and(|id| ["done", "fail", "paused"].contains(&id)) {
        object.wrong("id", item.line, "this is the name of an end", report);
    }
    let does = does(&object, report);
    let after = next.map_or(Route::Done, |next| Route::Stage(next.to_owned()));
    let stage = Stage {
        inputs: object.names("inputs", report),
        outputs: object.names("outputs", report),
        on_success: route(&object, "on_success", report).unwrap_or(after),
        on_failure: route(&object, "on_failure", report).unwrap_or(Route::Fail),
        retry_limit: object.number("retry_limit", report),
        approval_required: object.flag("approval_required", report),
        line: item.line,
        id: id?,
        does: does?,
    };
    Some(stage)
}

fn does(object: &Object<'_>, report: &mut Report) -> Option<Does> {
    object.needed("type", report)?;
    let kind = object.one_of("type", &["deterministic", "agent"], report)?;
    let (wanted, other) = if kind == "agent" { ("goal", "action") } else { ("action", "goal") };
    if let Some(spot) = object.get(other) {
        object.wrong(other, spot.line, format!("a stage of type {kind} has no `{other}`"), report);
    }
    match kind.as_str() {
        "agent" => object.needed(wanted, report).map(|goal| Does::Goal(goal.to_owned())),
        _ => name(object, wanted, report).map(Does::Action),
    }
}

fn route(object: &Object<'_>, member: &str, report: &mut Report) -> Option<Route> {
    Some(match object.text(member, report)? {
        "done" => Route::Done,
        "fail" => Route::Fail,
        "paused" => Route::Paused,
        stage => Route::Stage(stage.to_owned()),
    })
}
