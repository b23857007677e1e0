//! One guest, from its store to its ending.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use countersign_model::Failure;
use countersign_sandbox::{Ending, LimitKind};
use wasmtime::{Engine, PoolConcurrencyLimitError, Result, Store, Trap};
use wasmtime_wasi::{I32Exit, ResourceTableError};

use crate::guest::Guest;
use crate::library::Compiled;
use crate::limiter::Reached;
use crate::streams::Output;
use crate::watch::Watch;

/// How shells report a program that gave up, and what a trap is reported as.
const ABORTED: i32 = 134;

/// A new store with every limit in place, before anything of the guest exists.
pub(crate) fn store(engine: &Engine, guest: Guest, fuel: Option<u64>) -> Result<Store<Guest>> {
    let mut store = Store::new(engine, guest);
    store.limiter(|guest| &mut guest.limiter);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    if let Some(fuel) = fuel {
        store.set_fuel(fuel)?;
    }
    Ok(store)
}

/// Instantiates and runs. A start section counts as running.
pub(crate) async fn execute(compiled: &Compiled, store: &mut Store<Guest>) -> Result<i32> {
    match compiled {
        Compiled::Module(module) => {
            let instance = module.instantiate_async(&mut *store).await?;
            let start = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
            start.call_async(store, ()).await?;
            Ok(0)
        }
        Compiled::Component(command) => {
            let command = command.instantiate_async(&mut *store).await?;
            let done = command.wasi_cli_run().call_run(store).await?;
            Ok(if done.is_ok() { 0 } else { 1 })
        }
    }
}

/// Polls the guest on this thread until it ends or the watch says how it must.
pub(crate) fn drive(
    guest: impl Future<Output = Result<i32>>,
    watch: &mut Watch<'_>,
) -> Result<Result<i32>, Ending> {
    let mut guest = pin!(guest);
    let alarm = Arc::new(Alarm { rung: AtomicBool::new(false), thread: thread::current() });
    let waker = Waker::from(Arc::clone(&alarm));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(ended) = Pin::as_mut(&mut guest).poll(&mut context) {
            return Ok(ended);
        }
        watch.look()?;
        if !alarm.rung.swap(false, Ordering::AcqRel) {
            thread::park_timeout(watch.patience());
        }
    }
}

struct Alarm {
    rung: AtomicBool,
    thread: Thread,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        if self.thread.id() != thread::current().id() {
            self.thread.unpark();
        }
    }
}

/// Names the ending. `Err` means that the guest could not begin.
pub(crate) fn ending(ended: Result<i32>, stderr: &Output) -> Result<Ending, Failure> {
    let error = match ended {
        Ok(code) => return Ok(Ending::Exited { code }),
        Err(error) => error,
    };
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return Ok(Ending::Exited { code: *code });
    }
    if let Some(Reached(limit)) = error.downcast_ref() {
        return Ok(Ending::Limit { limit: *limit });
    }
    if let Some(Trap::OutOfFuel) = error.downcast_ref() {
        return Ok(Ending::Limit { limit: LimitKind::CpuTime });
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref() {
        return Ok(Ending::Limit { limit: LimitKind::OpenFiles });
    }
    if error.is::<PoolConcurrencyLimitError>() {
        let message = "too many WebAssembly tools are running";
        return Err(Failure::resource("SANDBOX_BUSY", message).hint("call again later"));
    }
    stderr.say(&format!("{error:?}\n"));
    Ok(Ending::Exited { code: ABORTED })
}
