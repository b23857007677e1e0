//! Threads for what takes time: calls of tools above all. As many as there is work, up to a bound.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// A thread without work for so long ends.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Inside {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Jobs that were begun and not finished.
    busy: usize,
    closed: bool,
}

#[derive(Clone)]
pub(crate) struct Pool {
    inside: Arc<(Mutex<Inside>, Condvar)>,
    most: usize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool")
    }
}

impl Pool {
    pub(crate) fn new(most: usize) -> Self {
        Pool { inside: Arc::default(), most: most.max(1) }
    }

    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut inside = self.locked();
        if inside.closed {
            return;
        }
        inside.jobs.push_back(Box::new(job));
        if inside.idle >= inside.jobs.len() || inside.threads >= self.most {
            self.inside.1.notify_one();
            return;
        }
        inside.threads += 1;
        drop(inside);
        let pool = self.clone();
        let started = thread::Builder::new().name("run".to_owned()).spawn(move || pool.work());
        if started.is_err() {
            // Whoever is there does it; with nobody there it waits for the next.
            self.locked().threads -= 1;
            tracing::warn!("no further thread could be started");
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            // A job that panics has said so; the others go on.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            self.locked().busy -= 1;
            self.inside.1.notify_all();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut inside = self.locked();
        loop {
            if let Some(job) = inside.jobs.pop_front() {
                inside.busy += 1;
                return Some(job);
            }
            if inside.closed {
                inside.threads -= 1;
                return None;
            }
            inside.idle += 1;
            let waited = self.inside.1.wait_timeout(inside, PATIENCE);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            inside = again;
            inside.idle -= 1;
            if timeout.timed_out() && inside.jobs.is_empty() {
                inside.threads -= 1;
                return None;
            }
        }
    }

    /// Takes no more, and waits until everything that was begun is done; what was not begun is left
    /// to whoever takes the runs over. Says whether it came to that in time.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        let mut inside = self.locked();
        inside.closed = true;
        inside.jobs.clear();
        self.inside.1.notify_all();
        let done = |inside: &mut Inside| inside.busy > 0;
        let waited = self.inside.1.wait_timeout_while(inside, patience, done);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn locked(&self) -> MutexGuard<'_, Inside> {
        self.inside.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
