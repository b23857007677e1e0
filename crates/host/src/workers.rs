//! Threads that run native tools.
//!
//! A tool runs on a thread of its own so that the host can stop waiting for it. A tool that does
//! not return in time is abandoned: it can only reach its own staging, so nothing it still does is
//! ever seen.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Idle threads, each waiting for its next job.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    idle: Arc<Mutex<Vec<Sender<Job>>>>,
}

/// The tool panicked; what it said goes to the log, not to the caller.
#[derive(Debug)]
pub(crate) struct Panicked(pub(crate) String);

impl Workers {
    /// Runs `work` on another thread. Its result, or its panic, arrives on the receiver.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<Receiver<Result<T, Panicked>>> {
        let (sender, receiver) = mpsc::channel();
        let job: Job = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work)).map_err(|cause| panic_text(&*cause));
            // The host may have stopped waiting; then nobody wants the result.
            let _ = sender.send(result);
        });
        self.hand(job)?;
        Ok(receiver)
    }

    fn hand(&self, mut job: Job) -> std::io::Result<()> {
        while let Some(worker) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            match worker.send(job) {
                Ok(()) => return Ok(()),
                Err(returned) => job = returned.0,
            }
        }
        self.spawn(job)
    }

    fn spawn(&self, first: Job) -> std::io::Result<()> {
        let idle = Arc::downgrade(&self.idle);
        thread::Builder::new().name("tool".to_owned()).spawn(move || {
            let mut job = first;
            loop {
                job();
                // When the host is gone there is nothing to wait for. The idle list holds the only
                // sender, so the thread also ends when the list is dropped while it waits.
                let Some(idle) = idle.upgrade() else { return };
                let (sender, jobs) = mpsc::channel();
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
                drop(idle);
                match jobs.recv() {
                    Ok(next) => job = next,
                    Err(_) => return,
                }
            }
        })?;
        Ok(())
    }
}

pub(crate) fn panic_text(cause: &(dyn Any + Send)) -> Panicked {
    let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
    Panicked(text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_used_again_and_panics_are_caught() {
        let workers = Workers::default();
        let first = workers.run(|| thread::current().id()).unwrap().recv().unwrap().unwrap();
        while workers.idle.lock().unwrap().is_empty() {
            thread::yield_now();
        }
        let second = workers.run(|| thread::current().id()).unwrap().recv().unwrap().unwrap();
        assert_eq!(first, second);
        let panicked = workers.run(|| panic!("no")).unwrap().recv().unwrap();
        assert_eq!(panicked.map(|(): ()| ()).unwrap_err().0, "no");
    }
}
