//! Facts about who there is and which keys they hold.
//!
//! INVARIANT: fields stand in the order of their JSON names, as in `event`.

use serde::{Deserialize, Serialize};

use crate::grant::GrantSignature;
use crate::id::KeyId;
use crate::key::KeyRecord;
use crate::principal::Principal;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum PrincipalEvent {
    Added {
        at: Timestamp,
        by: Principal,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        principal: Principal,
    },
    /// Its keys end with it, for ever: a principal that is added again begins without keys.
    Removed {
        at: Timestamp,
        by: Principal,
        principal: Principal,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum KeyEvent {
    Created {
        key: Box<KeyRecord>,
        /// By the home, over the whole record.
        signature: GrantSignature,
    },
    /// A rotation leaves the old key good for a while yet, and no longer.
    Retired { at: Timestamp, by: Principal, expires_at: Timestamp, key: KeyId },
    Revoked {
        at: Timestamp,
        by: Principal,
        key: KeyId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// A principal and what has become of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrincipalRecord {
    pub added_at: Timestamp,
    pub added_by: Principal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub principal: Principal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
}
