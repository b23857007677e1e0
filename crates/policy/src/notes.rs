//! Annotations: what a rule's author says about it, and which of that has consequences.

use cedar_policy::Policy;
use countersign_model::Timestamp;

use crate::problem::Problem;

/// Every annotation that means something here or to the surfaces above.
pub(crate) const KNOWN: [&str; 11] = [
    "approvers",
    "by",
    "description",
    "example",
    "expires_after",
    "id",
    "near_miss",
    "reason",
    "remember",
    "remembered",
    "until",
];

/// Nobody has more colleagues to ask than this.
const MAX_APPROVERS: u32 = 100;
const MAX_DAYS: u64 = 366;

/// The annotations that a decision looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    pub(crate) approvers: Option<u32>,
    pub(crate) expires_after_ms: Option<u64>,
    /// The rule asks every time, whatever was remembered.
    pub(crate) asks_always: bool,
    /// The rule stands for a human's answer that was remembered.
    pub(crate) is_remembered: bool,
    pub(crate) reason: Option<String>,
    /// The rule counts before this moment only.
    pub(crate) until: Option<Timestamp>,
}

impl Notes {
    /// Everything that is wrong with them, at once.
    pub(crate) fn read(policy: &Policy) -> Result<Notes, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut notes = Notes::default();
        if let Some(text) = policy.annotation("approvers") {
            notes.approvers = keep(parse_approvers(text), &mut problems);
        }
        if let Some(text) = policy.annotation("expires_after") {
            notes.expires_after_ms = keep(parse_duration(text), &mut problems);
        }
        if let Some(text) = policy.annotation("until") {
            notes.until = keep(parse_until(text), &mut problems);
        }
        if let Some(text) = policy.annotation("remember") {
            notes.asks_always = keep(parse_remember(text), &mut problems).unwrap_or_default();
        }
        notes.is_remembered = policy.annotation("remembered").is_some();
        notes.reason = policy.annotation("reason").filter(|r| !r.is_empty()).map(str::to_owned);
        if problems.is_empty() { Ok(notes) } else { Err(problems) }
    }
}

fn keep<T>(read: Result<T, Problem>, problems: &mut Vec<Problem>) -> Option<T> {
    read.map_err(|problem| problems.push(problem)).ok()
}

fn parse_approvers(text: &str) -> Result<u32, Problem> {
    let number = text.parse().ok().filter(|count| (1..=MAX_APPROVERS).contains(count));
    number.ok_or_else(|| {
        let message = format!("@approvers(\"{text}\") is not a number of people");
        Problem::error("POLICY_APPROVERS_INVALID", message).hint("write a number from 1 to 100")
    })
}

fn parse_remember(text: &str) -> Result<bool, Problem> {
    match text {
        "never" => Ok(true),
        _ => Err(Problem::error("POLICY_REMEMBER_INVALID", format!("@remember(\"{text}\")"))
            .hint("the only word is never: the rule asks every time")),
    }
}

fn parse_until(text: &str) -> Result<Timestamp, Problem> {
    text.parse().map_err(|failure| Problem::from_failure("POLICY_UNTIL_INVALID", failure))
}

/// `30s`, `15m`, `4h` or `2d`, in milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<u64, Problem> {
    millis(text).ok_or_else(|| {
        let message = format!("`{text}` is not a length of time");
        Problem::error("POLICY_DURATION_INVALID", message)
            .hint("write 30s, 15m, 4h or 2d; at most 366d")
    })
}

fn millis(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let number = text.strip_suffix(unit)?;
    let plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86400,
        _ => return None,
    };
    let total = number.parse::<u64>().ok().filter(|_| plain)?.checked_mul(seconds)?;
    (total <= MAX_DAYS * 86400).then_some(total * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, seconds) in [("30s", 30), ("15m", 900), ("4h", 14400), ("366d", 31_622_400)] {
            assert_eq!(parse_duration(text).unwrap(), seconds * 1000, "{text}");
        }
        for text in ["", "4", "h", "0h", "04h", "-4h", "+4h", "4.5h", "4 h", "367d", "4w", "4é"] {
            assert_eq!(parse_duration(text).unwrap_err().code, "POLICY_DURATION_INVALID", "{text}");
        }
    }

    #[test]
    fn annotations_with_consequences_are_checked() {
        let read = |notes: &str| {
            let text = format!("{notes} permit (principal, action, resource);");
            Notes::read(&text.parse().unwrap())
        };
        let notes =
            read(r#"@approvers("2") @expires_after("4h") @reason("why") @by("x")"#).unwrap();
        assert_eq!((notes.approvers, notes.expires_after_ms), (Some(2), Some(14_400_000)));
        assert_eq!(notes.reason.as_deref(), Some("why"));
        let codes: Vec<_> =
            read(r#"@approvers("0") @expires_after("x") @until("soon") @reason("")"#)
                .unwrap_err()
                .iter()
                .map(|problem| problem.code)
                .collect();
        assert_eq!(
            codes,
            ["POLICY_APPROVERS_INVALID", "POLICY_DURATION_INVALID", "POLICY_UNTIL_INVALID"]
        );
    }
}
