//! A plan of a sandbox as a person reads it.

use countersign_model::Failure;
use countersign_sandbox::{Limits, Plan};
use serde_json::Value;

use crate::ui::{BOLD, Done, Ui, WARN, bytes, inert, paint, wrap};

/// Every step in order, the limits, and how each barrier is kept.
pub(crate) fn print(ui: Ui, plan: &Plan) -> Done {
    for line in harmless(plan)?.to_string().lines() {
        ui.line(wrap(line, 4))?;
    }
    ui.line("Limits:")?;
    for (name, value) in limits(&plan.limits) {
        ui.line(wrap(&format!("  {} {value}", paint(BOLD, format!("{name:<13}"))), 14))?;
    }
    ui.line("Enforced here:")?;
    for (name, how) in &plan.enforcement {
        let name = paint(BOLD, format!("{:<13}", inert(name)));
        ui.line(wrap(&format!("  {name} {}", inert(how)), 14))?;
    }
    for name in &plan.weaker {
        let name = paint(WARN, format!("{:<13}", inert(name)));
        ui.line(wrap(&format!("  {name} not enforced, as allowed"), 14))?;
    }
    Ok(())
}

/// The same plan with every text in it made harmless, so that none can pass for another line.
fn harmless(plan: &Plan) -> Result<Plan, Failure> {
    let internal = |error: serde_json::Error| Failure::state("INTERNAL", error.to_string());
    let mut value = serde_json::to_value(plan).map_err(internal)?;
    make_inert(&mut value);
    serde_json::from_value(value).map_err(internal)
}

fn make_inert(value: &mut Value) {
    match value {
        Value::String(text) => *text = inert(text),
        Value::Array(values) => values.iter_mut().for_each(make_inert),
        Value::Object(fields) => fields.values_mut().for_each(make_inert),
        _ => {}
    }
}

fn limits(limits: &Limits) -> [(&'static str, String); 10] {
    let seconds = |ms: u64| format!("{} s", ms as f64 / 1000.0);
    [
        ("time", seconds(limits.wall_ms)),
        ("processor", seconds(limits.cpu_ms)),
        ("memory", bytes(limits.memory)),
        ("processes", limits.processes.to_string()),
        ("threads", limits.threads.to_string()),
        ("open files", limits.open_files.to_string()),
        ("one file", bytes(limits.file_size)),
        ("all files", bytes(limits.total_size)),
        ("files made", limits.inodes.to_string()),
        ("output", format!("{} on each stream", bytes(limits.output))),
    ]
}
