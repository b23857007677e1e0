//! The clock that interrupts guests: one thread for all of them, asleep while there are none.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::EngineWeak;

/// How long a guest may compute before the host looks at it.
const PERIOD: Duration = Duration::from_millis(2);

/// Periods without guests after which the thread goes to sleep. Until then, a call costs nothing.
const LINGER: u32 = 250;

#[derive(Debug)]
pub(crate) struct Ticker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    running: AtomicUsize,
    asleep: AtomicBool,
    engines: Mutex<Engines>,
    wake: Condvar,
}

#[derive(Default)]
struct Engines {
    list: Vec<EngineWeak>,
    closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticker").field("running", &self.running).finish_non_exhaustive()
    }
}

/// A guest is running as long as this lives.
#[derive(Debug)]
pub(crate) struct Running<'t>(&'t Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Ticker {
    pub(crate) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("wasm-ticker".to_owned()).spawn(move || tick(&theirs))?;
        Ok(Ticker(shared))
    }

    pub(crate) fn add(&self, engine: EngineWeak) {
        self.0.engines.lock().unwrap_or_else(PoisonError::into_inner).list.push(engine);
    }

    pub(crate) fn running(&self) -> Running<'_> {
        self.0.running.fetch_add(1, Ordering::SeqCst);
        if self.0.asleep.load(Ordering::SeqCst) {
            // The lock makes sure that the thread is either waiting or looks at `running` again.
            drop(self.0.engines.lock().unwrap_or_else(PoisonError::into_inner));
            self.0.wake.notify_all();
        }
        Running(&self.0)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.engines.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.0.wake.notify_all();
    }
}

fn tick(shared: &Shared) {
    let mut idle = 0;
    loop {
        thread::sleep(PERIOD);
        let mut engines = shared.engines.lock().unwrap_or_else(PoisonError::into_inner);
        if engines.closed {
            return;
        }
        for engine in engines.list.iter().filter_map(EngineWeak::upgrade) {
            engine.increment_epoch();
        }
        idle = if shared.running.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
        if idle < LINGER {
            continue;
        }
        shared.asleep.store(true, Ordering::SeqCst);
        while shared.running.load(Ordering::SeqCst) == 0 && !engines.closed {
            engines = shared.wake.wait(engines).unwrap_or_else(PoisonError::into_inner);
        }
        shared.asleep.store(false, Ordering::SeqCst);
        idle = 0;
    }
}
