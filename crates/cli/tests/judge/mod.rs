//! The published schemas, as judges of what the host sends.
#![allow(dead_code, reason = "every test file uses a part of this")]

pub(crate) use crate::serving::shared;

#[path = "../../../flow/tests/common/schemas.rs"]
pub(crate) mod schemas;

/// Stops the test when a value is not what a published schema says.
#[track_caller]
pub(crate) fn fits(schema: &str, value: &serde_json::Value) {
    let Some(validator) = schemas::judge(schema) else { return };
    let errors: Vec<_> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{schema}: {errors:#?}\n{value:#}");
}
