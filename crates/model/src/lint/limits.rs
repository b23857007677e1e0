//! `resourceLimits` and its bounds.

use serde_json::Value;

use super::report::{Report, below};
use super::shape;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

struct Bound {
    name: &'static str,
    unit: &'static str,
    least: u64,
    most: u64,
    required: bool,
}

const BOUNDS: &[Bound] = &[
    Bound { name: "maxExecutionTime", unit: " ms", least: 1, most: 300_000, required: true },
    Bound { name: "maxMemory", unit: " bytes", least: MIB, most: GIB, required: true },
    Bound { name: "maxFileSize", unit: " bytes", least: 1, most: GIB, required: false },
    Bound { name: "maxFileDescriptors", unit: "", least: 1, most: 1024, required: false },
    Bound { name: "maxProcesses", unit: "", least: 1, most: 100, required: false },
    Bound { name: "maxCpuTime", unit: " ms", least: 1, most: 300_000, required: false },
    Bound { name: "maxThreads", unit: "", least: 1, most: 1000, required: false },
    Bound { name: "maxTotalSize", unit: " bytes", least: 1, most: 10 * GIB, required: false },
    Bound { name: "maxInodes", unit: "", least: 1, most: 1_000_000, required: false },
    Bound { name: "maxOutput", unit: " bytes", least: 1, most: 64 * MIB, required: false },
];

pub(super) fn check(report: &mut Report, pointer: &str, value: &Value) {
    let Some(map) = shape::object(report, pointer, value) else { return };
    let known: Vec<_> = BOUNDS.iter().map(|bound| bound.name).collect();
    shape::unknown_keys(report, pointer, map, &known);
    for bound in BOUNDS {
        let value = match bound.required {
            true => shape::required(report, pointer, map, bound.name),
            false => map.get(bound.name),
        };
        if let Some(value) = value {
            one(report, &below(pointer, bound.name), bound, value);
        }
    }
}

fn one(report: &mut Report, pointer: &str, bound: &Bound, value: &Value) {
    let Bound { unit, least, most, .. } = bound;
    let whole = value.as_i64().is_some() || value.as_u64().is_some();
    if shape::expect(report, pointer, "a whole number", whole.then_some(())).is_none() {
        return;
    }
    if value.as_u64().is_none_or(|number| number < *least || number > *most) {
        let message = format!("`{value}` is not between {least} and {most}{unit}");
        report.add("LIMIT_OUT_OF_BOUNDS", pointer, message);
    }
}
