//! The runtime's engines: how code is compiled, where memories come from, what a guest can import.

use std::num::NonZeroUsize;
use std::sync::Arc;

use countersign_model::Failure;
use wasmtime::component::Linker as ComponentLinker;
use wasmtime::{
    CacheStore, Config, Engine, InstanceAllocationStrategy, Linker, PoolingAllocationConfig, Result,
};

use crate::guest::Guest;

/// What of a memory is wiped by writing zeros; beyond it, pages go back to the kernel.
const KEEP_RESIDENT: usize = 256 << 10;

/// Room to grow for a memory that is not from the pool, before it has to move.
const GROWTH: u64 = 1 << 20;

/// Elements of one table. Large programs have some ten thousand functions in theirs.
const TABLE_ELEMENTS: usize = 200_000;

/// Frames of a guest's stack shown when it traps.
const BACKTRACE: usize = 16;

/// An engine, and everything that guests can be linked with.
pub(crate) struct Kit {
    pub(crate) engine: Engine,
    pub(crate) modules: Linker<Guest>,
    pub(crate) components: ComponentLinker<Guest>,
    /// Where memories come from, in words.
    pub(crate) memories: String,
}

impl std::fmt::Debug for Kit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kit").field("memories", &self.memories).finish_non_exhaustive()
    }
}

impl Kit {
    /// Counting fuel slows guests down, so that only those that have a limit are counted.
    pub(crate) fn new(
        metered: bool,
        slots: u32,
        cache: Option<Arc<dyn CacheStore>>,
    ) -> Result<Self, Failure> {
        Self::build(metered, slots, cache).map_err(|error| {
            let message = format!("the WebAssembly runtime cannot start: {error:#}");
            Failure::resource("WASM_UNAVAILABLE", message)
        })
    }

    fn build(metered: bool, slots: u32, cache: Option<Arc<dyn CacheStore>>) -> Result<Self> {
        let mut config = config(metered, cache)?;
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(slots)));
        let (engine, memories) = match Engine::new(&config) {
            Ok(engine) => (engine, format!("from a pool of {slots}")),
            // Address space may be limited. Memories made for each call, no larger than they are
            // and with every access checked by code, are slower, and as safe.
            Err(error) => {
                config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
                config.memory_reservation(0).memory_guard_size(0);
                config.memory_reservation_for_growth(GROWTH);
                let why = error.root_cause().to_string();
                (Engine::new(&config)?, format!("made for each call (no pool: {why})"))
            }
        };
        let mut modules = Linker::new(&engine);
        wasmtime_wasi::p1::add_to_linker_async(&mut modules, |guest: &mut Guest| &mut guest.wasi)?;
        let mut components = ComponentLinker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut components)?;
        Ok(Kit { engine, modules, components, memories })
    }
}

fn config(metered: bool, cache: Option<Arc<dyn CacheStore>>) -> Result<Config> {
    let mut config = Config::new();
    config.consume_fuel(metered);
    config.epoch_interruption(true);
    // The same input gives the same output on every machine.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    config.wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE));
    // A memory of more than 4 GiB would not fit the pool.
    config.wasm_memory64(false);
    if let Some(cache) = cache {
        config.enable_incremental_compilation(cache)?;
    }
    Ok(config)
}

fn pool(slots: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_memories(slots)
        .total_tables(slots.saturating_mul(4))
        .total_stacks(slots)
        .total_core_instances(slots.saturating_mul(8))
        .total_component_instances(slots)
        .table_elements(TABLE_ELEMENTS)
        .max_tables_per_module(4)
        .max_memory_size(1 << 32)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT);
    pool
}
