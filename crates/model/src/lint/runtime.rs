//! `runtime`: what runs the tool.

use serde_json::{Map, Value};

use super::report::{Report, below};
use super::{program, shape, spelling};
use crate::id::ToolId;
use crate::json::shorten;

const KINDS: &[&str] = &["builtin", "process", "wasm"];

pub(super) fn check(report: &mut Report, pointer: &str, value: &Value) {
    let Some(map) = shape::object(report, pointer, value) else { return };
    let Some(kind) = shape::required(report, pointer, map, "kind") else { return };
    let place = below(pointer, "kind");
    match shape::text(report, &place, kind) {
        Some("builtin") => builtin(report, pointer, map),
        Some("process") => program::process(report, pointer, map),
        Some("wasm") => program::wasm(report, pointer, map),
        Some(kind) => {
            report.add(
                "RUNTIME_UNKNOWN",
                &place,
                format!("there is no runtime `{}`", shorten(kind, 80)),
            );
            spelling::hint(kind, KINDS.iter().copied())
                .into_iter()
                .for_each(|hint| report.hint(hint));
        }
        None => {}
    }
}

fn builtin(report: &mut Report, pointer: &str, map: &Map<String, Value>) {
    shape::unknown_keys(report, pointer, map, &["kind", "handler"]);
    let Some(handler) = shape::required(report, pointer, map, "handler") else { return };
    let place = below(pointer, "handler");
    let Some(handler) = shape::text(report, &place, handler) else { return };
    if handler.parse::<ToolId>().is_err() {
        let message = format!("`{}` is not the name of a handler", shorten(handler, 80));
        report.add("RUNTIME_HANDLER_INVALID", &place, message);
        report.hint("handlers are named like tools, such as file.read");
    }
}
