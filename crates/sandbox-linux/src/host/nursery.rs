//! Starts launchers, all from one thread that never ends.
//!
//! A launcher is killed by the kernel when the thread that started it ends, which is meant for the end
//! of the host. Threads that run calls come and go.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

struct Order {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

static ORDERS: Mutex<Option<Sender<Order>>> = Mutex::new(None);

pub(super) fn start(command: Command) -> io::Result<Child> {
    let (answer, started) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts launchers is gone");
    {
        let mut orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*orders {
            Some(sender) => sender,
            None => orders.insert(open()?),
        };
        sender.send(Order { command, answer }).map_err(|_| gone())?;
    }
    started.recv().map_err(|_| gone())?
}

fn open() -> io::Result<Sender<Order>> {
    let (sender, orders) = mpsc::channel();
    let thread = thread::Builder::new().name("sandbox-nursery".to_owned());
    thread.spawn(move || serve(&orders))?;
    Ok(sender)
}

fn serve(orders: &Receiver<Order>) {
    while let Ok(Order { mut command, answer }) = orders.recv() {
        let started = command.spawn();
        // With it goes our copy of the launcher's end of the socket.
        drop(command);
        // Whoever ordered it waits.
        let _ = answer.send(started);
    }
}
