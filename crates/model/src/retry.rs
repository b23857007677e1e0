//! When a failed attempt may be tried again, and after how long.

use crate::error::{ErrorClass, Failure};

/// Crossing a declared limit is a property of the input: the same call would cross it again. And a
/// machine that cannot enforce something now will not learn it in a second.
const PERMANENT: &[&str] = &[
    "CANNOT_ENFORCE",
    "CHANGES_TOO_MANY",
    "CPU_LIMIT",
    "FILE_TOO_LARGE",
    "INODE_LIMIT",
    "MEMORY_LIMIT",
    "OPEN_FILES_LIMIT",
    "OUTPUT_LIMIT",
    "OUTPUT_TOO_LARGE",
    "PROCESS_LIMIT",
    "RUNTIME_UNAVAILABLE",
    "THREAD_LIMIT",
    "TOTAL_SIZE_LIMIT",
    "WORKSPACE_TOO_LARGE",
];

/// RFC-0001 section 7.3, and its intersection with 7.1: only idempotent tools, only a shortage of
/// resources or of time, and only what another attempt could change.
pub fn may_retry(idempotent: bool, failure: &Failure) -> bool {
    idempotent
        && matches!(failure.class, ErrorClass::ResourceError | ErrorClass::TimeoutError)
        && !PERMANENT.contains(&failure.code.as_ref())
}

/// The longest pause before attempt `attempt` (the second is the first retry): it doubles each time.
/// The pause taken is a random part of it, so that callers who failed together do not return
/// together.
pub fn longest_pause_ms(attempt: u32, base_ms: u64, max_ms: u64) -> u64 {
    let doublings = attempt.saturating_sub(2).min(32);
    base_ms.saturating_mul(1 << doublings).min(max_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_passing_shortages_of_idempotent_tools_are_retried() {
        let retried = [Failure::resource("DISK_FULL", ""), Failure::timeout("TIME_LIMIT", "")];
        let final_ones = [
            Failure::resource("FILE_TOO_LARGE", ""),
            Failure::resource("MEMORY_LIMIT", ""),
            Failure::resource("CANNOT_ENFORCE", ""),
            Failure::resource("OUTPUT_LIMIT", ""),
            Failure::execution("X", ""),
            Failure::state("CONFLICT", ""),
            Failure::validation("X", ""),
            Failure::authorization("X", ""),
        ];
        assert!(retried.iter().all(|failure| may_retry(true, failure)));
        assert!(!retried.iter().any(|failure| may_retry(false, failure)));
        assert!(!final_ones.iter().any(|failure| may_retry(true, failure)));
    }

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let pauses: Vec<_> = (2..7).map(|attempt| longest_pause_ms(attempt, 100, 500)).collect();
        assert_eq!(pauses, [100, 200, 400, 500, 500]);
        assert_eq!(longest_pause_ms(u32::MAX, u64::MAX, 9), 9);
    }
}
