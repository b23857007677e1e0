//! Facts about policies: which sets of rules have ever decided here.
//!
//! INVARIANT: fields stand in the order of their JSON names, as in `event`.

use serde::{Deserialize, Serialize};

use crate::effect::Payload;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum PolicyEvent {
    /// A set is about to decide for the first time. Two hosts may say so of the same set.
    Adopted(PolicyAdopted),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyAdopted {
    pub at: Timestamp,
    /// The whole set as canonical JSON, kept as a blob. Its digest is what verdicts name it by.
    pub policy: Payload,
    /// How many rules it has.
    pub rules: u32,
    /// The names of its files, in order.
    pub sources: Vec<String>,
}
