//! The published schemas, as judges of what the host sends.
#![allow(dead_code, reason = "every test file uses a part of this")]

pub(crate) use crate::serving::shared;

#[path = "../../../flow/tests/common/schemas.rs"]
pub(crate) mod schemas;
