//! What a guest may allocate. Refusals are remembered: they name the ending.

use countersign_sandbox::LimitKind;
use wasmtime::{Error, ResourceLimiter, Result};

/// What a table costs for each element.
const ELEMENT: usize = size_of::<usize>();

/// Parts of one component, far more than tools are made of.
const INSTANCES: usize = 64;
const MEMORIES: usize = 16;
const TABLES: usize = 64;

/// Counts all memories and tables of a guest together.
#[derive(Debug)]
pub(crate) struct Limiter {
    most: usize,
    used: usize,
}

/// A limit stopped the guest. It travels through the runtime as the cause of a trap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached(pub(crate) LimitKind);

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the limit `{}` was reached", self.0)
    }
}

impl std::error::Error for Reached {}

impl Limiter {
    pub(crate) fn new(bytes: u64) -> Self {
        Limiter { most: usize::try_from(bytes).unwrap_or(usize::MAX), used: 0 }
    }

    /// The most that the guest had. Memories never shrink.
    pub(crate) fn used(&self) -> u64 {
        self.used as u64
    }

    fn grow(&mut self, current: usize, desired: usize) -> Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        if used > self.most {
            // The guest would only see that its allocation failed. It ends, and with a name.
            return Err(Error::new(Reached(LimitKind::Memory)));
        }
        self.used = used;
        Ok(true)
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        // The module's own maximum is the guest's affair.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.grow(current, desired)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.grow(current.saturating_mul(ELEMENT), desired.saturating_mul(ELEMENT))
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }

    fn tables(&self) -> usize {
        TABLES
    }
}
