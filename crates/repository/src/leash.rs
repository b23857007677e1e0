//! How long a command may take, and who may call it back.

use std::fmt;
use std::time::{Duration, Instant};

use countersign_model::Failure;

/// Asked again and again while a command runs; an error ends the command and is the answer.
pub type Tick<'t> = &'t mut dyn FnMut() -> Result<(), Failure>;

/// A deadline for everything that is done with it, and a way to stop earlier.
pub struct Leash<'t> {
    until: Instant,
    given: Duration,
    tick: Option<Tick<'t>>,
}

impl<'t> Leash<'t> {
    pub fn new(timeout: Duration, tick: Tick<'t>) -> Self {
        Leash { tick: Some(tick), ..Leash::lasting(timeout) }
    }

    /// A deadline alone.
    pub fn lasting(timeout: Duration) -> Self {
        // Whoever asks for more than the clock can hold gets a day.
        let now = Instant::now();
        let until = now.checked_add(timeout).unwrap_or(now + Duration::from_secs(86_400));
        Leash { until, given: timeout, tick: None }
    }

    /// Whether to go on.
    pub fn check(&mut self) -> Result<(), Failure> {
        if let Some(tick) = self.tick.as_mut() {
            tick()?;
        }
        if Instant::now() < self.until {
            return Ok(());
        }
        let message = format!("git did not finish within {} s", self.given.as_secs_f32());
        Err(Failure::timeout("GIT_TIMED_OUT", message).hint("allow more time, or do less at once"))
    }
}

impl fmt::Debug for Leash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leash").field("given", &self.given).finish_non_exhaustive()
    }
}
