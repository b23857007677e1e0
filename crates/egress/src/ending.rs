//! Ending everything at once.
//!
//! Threads of the proxy wait for clients, servers and name servers. Whatever one waits for is
//! registered here together with the way to end the wait, so stopping never has to poll.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

type End = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct Endings(Mutex<State>);

#[derive(Default)]
struct State {
    over: bool,
    next: u64,
    ends: HashMap<u64, End>,
}

/// A wait that stopping would end. Dropping it means that nobody waits any more.
#[derive(Debug)]
pub(crate) struct Waiting {
    endings: Arc<Endings>,
    number: u64,
}

/// Why there is no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    TooLate,
    Stopped,
}

impl Endings {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }

    /// `None` when everything has been ended already.
    fn register(self: &Arc<Self>, end: End) -> Option<Waiting> {
        let mut state = self.state();
        if state.over {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.ends.insert(number, end);
        Some(Waiting { endings: Arc::clone(self), number })
    }

    /// A connection that stopping shuts down.
    pub(crate) fn connection(self: &Arc<Self>, stream: &TcpStream) -> io::Result<Waiting> {
        let stream = stream.try_clone()?;
        let end = Box::new(move || {
            let _ = stream.shutdown(Shutdown::Both);
        });
        self.register(end).ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    /// Does work that nothing can interrupt, such as asking a name server, on a thread of its own,
    /// and stops waiting for it in time. The thread is then left to end by itself.
    pub(crate) fn wait_for<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unfinished> {
        let (sender, receiver) = mpsc::channel();
        let stop = sender.clone();
        let end = Box::new(move || {
            let _ = stop.send(None);
        });
        let _waiting = self.register(end).ok_or(Unfinished::Stopped)?;
        let run = move || {
            // Nobody may be waiting any more.
            let _ = sender.send(Some(work()));
        };
        let named = thread::Builder::new().name("egress-wait".to_owned());
        named.spawn(run).map_err(|_| Unfinished::TooLate)?;
        match receiver.recv_timeout(limit) {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(Unfinished::Stopped),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(Unfinished::TooLate)
            }
        }
    }

    /// Ends every wait, and every later one before it begins.
    pub(crate) fn end_all(&self) {
        let ends = {
            let mut state = self.state();
            state.over = true;
            std::mem::take(&mut state.ends)
        };
        ends.into_values().for_each(|end| end());
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.endings.state().ends.remove(&self.number);
    }
}

impl fmt::Debug for Endings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Endings")
            .field("over", &state.over)
            .field("open", &state.ends.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn work_is_waited_for_until_the_end() {
        let endings = Arc::new(Endings::default());
        assert_eq!(endings.wait_for(LONG, || 7), Ok(7));
        let (_keep, block) = mpsc::channel::<()>();
        let slow = move || block.recv().is_ok();
        assert_eq!(endings.wait_for(Duration::from_millis(1), slow), Err(Unfinished::TooLate));
        assert_eq!(endings.state().ends.len(), 0);
    }

    #[test]
    fn stopping_ends_the_wait() {
        let endings = Arc::new(Endings::default());
        let (keep, block) = mpsc::channel::<()>();
        let (begun, begin) = mpsc::channel();
        let waiter = thread::spawn({
            let endings = Arc::clone(&endings);
            move || {
                endings.wait_for(LONG, move || {
                    begun.send(()).unwrap();
                    block.recv().is_ok()
                })
            }
        });
        begin.recv().unwrap();
        endings.end_all();
        assert_eq!(waiter.join().unwrap(), Err(Unfinished::Stopped));
        assert_eq!(endings.wait_for(LONG, || 7), Err(Unfinished::Stopped));
        drop(keep);
    }
}
