//! Time and chance come from here, so that tests can choose both.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use countersign_model::Timestamp;
use uuid::Uuid;

pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;

    /// Waits before a retry.
    fn sleep(&self, pause: Duration) {
        std::thread::sleep(pause);
    }

    fn new_id(&self) -> Uuid {
        Uuid::now_v7()
    }

    /// A number in `0..=max`, for jitter.
    fn jitter(&self, max: u64) -> u64 {
        let mut bytes = [0u8; 8];
        // Without randomness the pause is the longest one: slower, never wrong.
        match getrandom::fill(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes) % max.saturating_add(1),
            Err(_) => max,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
