//! Everything that is wrong with a declaration, said at once.
//!
//! RFC-0001 sections 4.1 and 6.3, the bounds of resource limits, and what capabilities need one
//! another. A finding points at its place and keeps its code, so that a person can fix all of them
//! in one go and a test can name them. Whether a schema can be compiled is `schema`'s to say.

mod capabilities;
mod fields;
mod limits;
mod program;
mod report;
mod runtime;
mod schemas;
mod shape;
mod spelling;

use serde_json::Value;

pub use report::Finding;
use report::Report;

use crate::schema::nests_within;

/// Deeper values are not looked into; a declaration read by `Declaration::parse` is shallower.
const MAX_DEPTH: usize = 96;

/// Every problem of `value` as a declaration; nothing when it is sound.
pub fn lint(value: &Value) -> Vec<Finding> {
    let mut report = Report::default();
    match value.as_object() {
        _ if !nests_within(value, MAX_DEPTH) => {
            report.add("DECLARATION_TOO_DEEP", "", "the declaration nests too deep to be read");
        }
        Some(map) => fields::check(&mut report, map),
        None => {
            report.add("DECLARATION_NOT_OBJECT", "", "a declaration is a JSON object");
        }
    }
    report.findings
}
