//! Moments, as the journal writes them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Failure;

/// Milliseconds since the Unix epoch. Wall-clock time is recorded and compared with expiries; it
/// never orders events, the journal's sequence does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub struct Timestamp(i64);

/// Canonical JSON writes numbers as doubles: beyond this, two moments could share one spelling.
const MAX_EXACT_MILLIS: u64 = 1 << 53;

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Timestamp(self.0.saturating_add(millis))
    }

    pub const fn millis_since(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whether canonical JSON keeps this moment as it is.
    pub(crate) const fn is_exact(self) -> bool {
        self.0.unsigned_abs() < MAX_EXACT_MILLIS
    }
}

/// What is read must be what a digest was taken over.
impl TryFrom<i64> for Timestamp {
    type Error = String;

    fn try_from(millis: i64) -> Result<Self, String> {
        let moment = Timestamp(millis);
        let refused = || format!("`{millis}` is too far away to be a moment");
        moment.is_exact().then_some(moment).ok_or_else(refused)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        text.parse::<jiff::Timestamp>().map(|moment| Timestamp(moment.as_millisecond())).map_err(
            |_| {
                Failure::validation("TIME_INVALID", format!("`{text}` is not a moment"))
                    .hint("write it as 2026-11-15T12:00:00Z")
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::canonical_json;

    #[test]
    fn moments_print_and_parse_as_rfc_3339() {
        let moment: Timestamp = "2026-02-09T16:05:01Z".parse().unwrap();
        assert_eq!(moment.as_millis(), 1_770_653_101_000);
        assert_eq!(moment.to_string(), "2026-02-09T16:05:01.000Z");
        assert_eq!("soon".parse::<Timestamp>().unwrap_err().code, "TIME_INVALID");
    }

    /// Found by fuzzing: a moment beyond 2^53 came back as its neighbour.
    #[test]
    fn moments_that_canonical_json_would_change_are_refused() {
        for (text, exact) in [("9007199254740991", true), ("17701100653100999", false)] {
            let read = serde_json::from_str::<Timestamp>(text);
            assert_eq!(read.is_ok(), exact, "{text}");
            if let Ok(moment) = read {
                assert_eq!(canonical_json(&moment).unwrap(), text.as_bytes());
            }
        }
    }
}
