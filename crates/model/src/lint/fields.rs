//! The fields of a declaration, one after the other.

use semver::Version;
use serde_json::{Map, Value};

use super::report::{Finding, Report};
use super::{capabilities, limits, program, runtime, schemas, shape};
use crate::facts::SafetyTier;
use crate::id::ToolId;
use crate::json::shorten;

type Check = fn(&mut Report, &str, &Value);

/// The fields of RFC-0001 section 4.1 and `runtime`; all of them are required.
const FIELDS: &[(&str, &str, Check)] = &[
    ("id", "/id", id),
    ("version", "/version", version),
    ("name", "/name", text),
    ("description", "/description", text),
    ("inputSchema", "/inputSchema", schemas::check),
    ("outputSchema", "/outputSchema", schemas::check),
    ("requiredCapabilities", "/requiredCapabilities", capabilities::check),
    ("resourceLimits", "/resourceLimits", limits::check),
    ("deterministic", "/deterministic", flag),
    ("idempotent", "/idempotent", flag),
    ("runtime", "/runtime", runtime::check),
];

pub(super) fn check(report: &mut Report, map: &Map<String, Value>) {
    let known: Vec<_> = FIELDS.iter().map(|(name, _, _)| *name).chain([TIER]).collect();
    shape::unknown_keys(report, "", map, &known);
    for (name, pointer, check) in FIELDS {
        if let Some(value) = shape::required(report, "", map, name) {
            check(report, pointer, value);
        }
    }
    if let Some(value) = map.get(TIER) {
        tier(report, "/safetyTier", value);
    }
    contradiction(report, map);
    program::check_needs(report, map);
}

/// May be left out: a tool that does not say is taken for the worst that it could be.
const TIER: &str = "safetyTier";

fn tier(report: &mut Report, pointer: &str, value: &Value) {
    let Some(text) = shape::text(report, pointer, value) else { return };
    let names: Vec<_> = SafetyTier::ALL.iter().map(|tier| tier.as_str()).collect();
    if !names.contains(&text) {
        let message = format!("`{}` is not a safety tier", shorten(text, 80));
        report.add("SAFETY_TIER_UNKNOWN", pointer, message);
        report.hint(format!("tiers are {}", names.join(", ")));
    }
}

fn id(report: &mut Report, pointer: &str, value: &Value) {
    let parsed = shape::text(report, pointer, value).map(str::parse::<ToolId>);
    if let Some(Err(failure)) = parsed {
        let message = shorten(&failure.message, 160);
        report.findings.push(Finding { pointer: pointer.to_owned(), message, ..failure.into() });
    }
}

fn version(report: &mut Report, pointer: &str, value: &Value) {
    let Some(text) = shape::text(report, pointer, value) else { return };
    if Version::parse(text).is_err() {
        let message = format!("`{}` is not a semantic version", shorten(text, 80));
        report.add("VERSION_INVALID", pointer, message);
        report.hint("write MAJOR.MINOR.PATCH, such as 1.0.0");
    }
}

fn text(report: &mut Report, pointer: &str, value: &Value) {
    if shape::text(report, pointer, value).is_some_and(|text| text.trim().is_empty()) {
        report.add("TEXT_EMPTY", pointer, "this must not be empty");
    }
}

fn flag(report: &mut Report, pointer: &str, value: &Value) {
    shape::flag(report, pointer, value);
}

/// The network and the clock answer differently each time, whatever the declaration says.
fn contradiction(report: &mut Report, map: &Map<String, Value>) {
    let varying = |name: &&str| name.starts_with("network.") || *name == "system.time";
    let needed = map.get("requiredCapabilities").and_then(Value::as_array);
    let names = needed.into_iter().flatten().filter_map(Value::as_str);
    let found = names.filter(|name| capabilities::is_known(name)).find(varying);
    if let (Some(Value::Bool(true)), Some(name)) = (map.get("deterministic"), found) {
        let message = format!("a tool that needs `{name}` cannot promise the same output again");
        report.add("FLAGS_CONTRADICT", "/deterministic", message);
        report.hint("set `deterministic` to false, or drop the capability");
    }
}
