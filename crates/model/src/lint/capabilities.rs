//! `requiredCapabilities`: known names, each once, with what they need.

use serde_json::Value;

use super::report::Report;
use super::{shape, spelling};
use crate::capability::Capability;
use crate::json::{push_index, shorten};

pub(super) fn is_known(name: &str) -> bool {
    name.parse::<Capability>().is_ok()
}

pub(super) fn check(report: &mut Report, pointer: &str, value: &Value) {
    let Some(items) = shape::list(report, pointer, value) else { return };
    let mut seen = Vec::new();
    let listed: Vec<_> = items.iter().filter_map(Value::as_str).collect();
    for (index, item) in items.iter().enumerate() {
        let mut place = pointer.to_owned();
        push_index(&mut place, index);
        let Some(name) = shape::text(report, &place, item) else { continue };
        if seen.contains(&name) {
            let message = format!("`{}` is listed twice", shorten(name, 80));
            report.add("CAPABILITY_DUPLICATE", &place, message);
            continue;
        }
        one(report, &place, name, &listed);
        // Unknown names are not kept, so a long list of them takes no longer than it must.
        seen.extend(is_known(name).then_some(name));
    }
}

fn one(report: &mut Report, place: &str, name: &str, listed: &[&str]) {
    let Ok(capability) = name.parse::<Capability>() else {
        let message = format!("there is no capability `{}`", shorten(name, 80));
        report.add("CAPABILITY_UNKNOWN", place, message);
        if let Some(hint) = spelling::hint(name, Capability::ALL.iter().map(|c| c.as_str())) {
            report.hint(hint);
        }
        return;
    };
    for needed in capability.requires().iter().filter(|needed| !listed.contains(&needed.as_str())) {
        let message = format!("`{name}` needs `{needed}`, which is not listed");
        report.add("CAPABILITY_PREREQUISITE", place, message);
        report.hint(format!("list `{needed}` too"));
    }
}
