//! `runtime` of tools that are programs: processes and WebAssembly modules.

mod parts;

use serde_json::{Map, Value};

use super::report::{Report, below};
use super::{shape, spelling};
use crate::capability::Capability;
use crate::declaration::{ALL_BARRIERS, WASM_EXTENSION};
use crate::host::HostPattern;
use crate::json::{push_index, shorten};
use parts::{path, whole_number};

const PROCESS: &[&str] = &[
    "kind",
    "command",
    "environment",
    "files",
    "hosts",
    "isolation",
    "mayBeWeaker",
    "warm",
    "workspace",
];
const WASM: &[&str] = &["kind", "module", "arguments", "environment", "files", "fuel", "workspace"];

const MOST_HOSTS: usize = 64;
const MOST_WARM: u64 = 16;

pub(super) fn process(report: &mut Report, pointer: &str, map: &Map<String, Value>) {
    shape::unknown_keys(report, pointer, map, PROCESS);
    if let Some(command) = shape::required(report, pointer, map, "command") {
        parts::command(report, &below(pointer, "command"), command);
    }
    shared(report, pointer, map);
    let mut each = |name: &str, check: fn(&mut Report, &str, &Value)| {
        if let Some(value) = map.get(name) {
            check(report, &below(pointer, name), value);
        }
    };
    each("hosts", hosts);
    each("isolation", isolation);
    each("mayBeWeaker", may_be_weaker);
    each("warm", |report, place, value| whole_number(report, place, value, 0, MOST_WARM));
}

pub(super) fn wasm(report: &mut Report, pointer: &str, map: &Map<String, Value>) {
    shape::unknown_keys(report, pointer, map, WASM);
    if let Some(module) = shape::required(report, pointer, map, "module") {
        let place = below(pointer, "module");
        path(report, &place, module);
        let text = module.as_str().unwrap_or(".wasm");
        if !text.ends_with(WASM_EXTENSION) {
            report.add("MODULE_INVALID", &place, "a module is a binary: a `.wasm` file");
        }
    }
    shared(report, pointer, map);
    if let Some(arguments) = map.get("arguments") {
        parts::arguments(report, &below(pointer, "arguments"), arguments);
    }
    if let Some(fuel) = map.get("fuel") {
        whole_number(report, &below(pointer, "fuel"), fuel, 1, parts::LARGEST_NUMBER);
    }
}

fn shared(report: &mut Report, pointer: &str, map: &Map<String, Value>) {
    if let Some(environment) = map.get("environment") {
        parts::environment(report, &below(pointer, "environment"), environment);
    }
    if let Some(files) = map.get("files") {
        path(report, &below(pointer, "files"), files);
    }
    if let Some(access) = map.get("workspace") {
        workspace(report, &below(pointer, "workspace"), access);
    }
}

fn workspace(report: &mut Report, pointer: &str, value: &Value) {
    let Some(text) = shape::text(report, pointer, value) else { return };
    if !matches!(text, "read" | "write") {
        let message = format!("`{}` is neither `read` nor `write`", shorten(text, 80));
        report.add("WORKSPACE_INVALID", pointer, message);
    }
}

/// Whatever is not part of this program is a stranger to it.
fn isolation(report: &mut Report, pointer: &str, value: &Value) {
    let whole = value.is_u64() || value.is_i64();
    let Some(()) = shape::expect(report, pointer, "a whole number", whole.then_some(())) else {
        return;
    };
    if value.as_u64() == Some(2) {
        return;
    }
    if value.as_u64().is_some_and(|level| level < 2) {
        report.add("ISOLATION_TOO_LOW", pointer, format!("isolation level {value} is too low"));
    } else {
        report.add("ISOLATION_UNKNOWN", pointer, format!("there is no isolation level {value}"));
    }
    report.hint("level 2 is required for everything that is not built in; leave it out");
}

fn may_be_weaker(report: &mut Report, pointer: &str, value: &Value) {
    let Some(items) = shape::list(report, pointer, value) else { return };
    let mut seen = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let mut place = pointer.to_owned();
        push_index(&mut place, index);
        let Some(name) = shape::text(report, &place, item) else { continue };
        if !ALL_BARRIERS.contains(&name) {
            let message = format!("there is no barrier `{}` to weaken", shorten(name, 80));
            report.add("BARRIER_UNKNOWN", &place, message);
            let known = ALL_BARRIERS.join(", ");
            let near = spelling::hint(name, ALL_BARRIERS.iter().copied());
            report.hint(near.unwrap_or_else(|| format!("barriers are {known}")));
        } else if seen.contains(&name) {
            report.add("BARRIER_DUPLICATE", &place, format!("`{name}` is listed twice"));
        } else {
            seen.push(name);
        }
    }
}

fn hosts(report: &mut Report, pointer: &str, value: &Value) {
    let Some(items) = shape::list(report, pointer, value) else { return };
    if items.len() > MOST_HOSTS {
        report.add("HOSTS_TOO_MANY", pointer, format!("a tool names at most {MOST_HOSTS} hosts"));
        return;
    }
    let mut seen = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let mut place = pointer.to_owned();
        push_index(&mut place, index);
        let Some(text) = shape::text(report, &place, item) else { continue };
        match text.parse::<HostPattern>() {
            Err(failure) => {
                report.add("HOST_INVALID", &place, failure.message);
                failure.hint.into_iter().for_each(|hint| report.hint(hint));
            }
            Ok(host) if seen.contains(&host) => {
                report.add("HOST_DUPLICATE", &place, format!("`{text}` is listed twice"));
            }
            Ok(host) => seen.push(host),
        }
    }
}

/// What the runtime implies must be declared: who reads the capabilities must not be surprised.
pub(super) fn check_needs(report: &mut Report, map: &Map<String, Value>) {
    let listed = map.get("requiredCapabilities").and_then(Value::as_array);
    // Without a list there is nothing to compare with; that it is missing was said already.
    let Some(listed) = listed else { return };
    let declared = |capability: Capability| {
        listed.iter().any(|name| name.as_str() == Some(capability.as_str()))
    };
    let Some(runtime) = map.get("runtime").and_then(Value::as_object) else { return };
    if !matches!(runtime.get("kind").and_then(Value::as_str), Some("process" | "wasm")) {
        return;
    }
    for (place, what, capability) in implied(runtime) {
        if !declared(capability) {
            let message = format!("{what} needs `{capability}`, which is not declared");
            report.add("CAPABILITY_UNDECLARED", &place, message);
            report.hint(format!("add `{capability}` to `requiredCapabilities`"));
        }
    }
}

fn implied(runtime: &Map<String, Value>) -> Vec<(String, String, Capability)> {
    let mut implied = Vec::new();
    let hosts = runtime.get("hosts").and_then(Value::as_array).into_iter().flatten();
    for (index, item) in hosts.enumerate().take(MOST_HOSTS) {
        let Some(Ok(host)) = item.as_str().map(str::parse::<HostPattern>) else { continue };
        implied.push((format!("/runtime/hosts/{index}"), format!("`{host}`"), host.capability()));
    }
    let capabilities: &[Capability] = match runtime.get("workspace").and_then(Value::as_str) {
        Some("read") => &[Capability::FilesystemRead],
        Some("write") => {
            &[Capability::FilesystemRead, Capability::FilesystemWrite, Capability::FilesystemDelete]
        }
        _ => &[],
    };
    let place = || ("/runtime/workspace".to_owned(), "the workspace".to_owned());
    implied.extend(capabilities.iter().map(|capability| (place().0, place().1, *capability)));
    implied
}
