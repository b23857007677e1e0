//! Host, launcher, first process and program are killed, stopped and interrupted at random moments
//! of many calls. Nothing is left of any of them, every call has ended, and every workspace is
//! exactly in a state before or after.
//!
//! `COUNTERSIGN_FAULTS` sets the number of calls, `COUNTERSIGN_FAULTS_SEED` the order of events.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and shows what it did"
)]

mod common;
mod killing;
#[path = "arena/leftovers.rs"]
mod leftovers;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread;

use common::boxes::{Who, everybody};
use killing::{Dice, Ground};

const WORKERS: u64 = 3;
const WORKSPACES: usize = 5;
/// After so many calls everybody stands still and everything is looked at.
const INSPECT_AFTER: u64 = 100;

/// When one worker panics, the others need not go on.
struct Alarm<'a>(&'a AtomicU64);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(u64::MAX / 2, Ordering::SeqCst);
        }
    }
}

/// The nearest free workspace is taken, so two calls never wait for the same one.
fn endure(user: Option<u32>, calls: u64) {
    let seed = number("COUNTERSIGN_FAULTS_SEED").unwrap_or(1);
    let (ground, workspaces) = Ground::new(user, WORKSPACES);
    let (next, at_work) = (AtomicU64::new(0), RwLock::new(()));
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (ground, workspaces, next, at_work) = (&ground, &workspaces, &next, &at_work);
            scope.spawn(move || {
                let _alarm = Alarm(next);
                let mut dice = Dice::new(seed.wrapping_mul(1000) + worker);
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= calls {
                        break;
                    }
                    if number > 0 && number.is_multiple_of(INSPECT_AFTER) {
                        let _alone = at_work.write().unwrap();
                        ground.inspect(workspaces);
                    }
                    let _working = at_work.read().unwrap_or_else(PoisonError::into_inner);
                    let first = dice.below(workspaces.len() as u64) as usize;
                    let order = workspaces.iter().cycle().skip(first);
                    let mut free = order.filter_map(|workspace| workspace.try_lock().ok());
                    ground.call(&mut free.next().unwrap(), &mut dice);
                }
            });
        }
    });
    ground.inspect(&workspaces);
    println!("{calls} calls with seed {seed}:\n{}", ground.report());
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

#[test]
fn nothing_is_left_and_nothing_is_torn() {
    endure(None, number("COUNTERSIGN_FAULTS").unwrap_or(400));
}

#[test]
fn an_ordinary_user_leaves_nothing_either() {
    if everybody().contains(&Who::Nobody) {
        endure(Some(65534), number("COUNTERSIGN_FAULTS").map_or(100, |calls| calls / 4));
    }
}
