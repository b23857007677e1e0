//! Faults: which process of a running call is struck, and how.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use self::Who::{First, Host, Launcher, Program};
use super::Dice;

/// The processes of a call, from the outermost to the innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Host,
    Launcher,
    First,
    Program,
}

/// Signals to send, one after the other, once the process that is struck first is there.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// How often it is chosen.
    weight: u64,
    blows: &'static [(Who, Signal)],
}

const fn fault(name: &'static str, weight: u64, blows: &'static [(Who, Signal)]) -> Fault {
    Fault { name, weight, blows }
}

pub(crate) const FAULTS: [Fault; 19] = [
    fault("none", 16, &[]),
    fault("host killed", 20, &[(Host, Signal::KILL)]),
    fault("host interrupted", 4, &[(Host, Signal::TERM)]),
    fault("host interrupted twice", 4, &[(Host, Signal::TERM), (Host, Signal::TERM)]),
    fault("host stopped, killed", 4, &[(Host, Signal::STOP), (Host, Signal::KILL)]),
    fault("launcher killed", 10, &[(Launcher, Signal::KILL)]),
    fault("launcher interrupted", 4, &[(Launcher, Signal::TERM)]),
    fault("launcher stopped", 1, &[(Launcher, Signal::STOP)]),
    fault("launcher stopped, killed", 3, &[(Launcher, Signal::STOP), (Launcher, Signal::KILL)]),
    fault("launcher stopped, host killed", 4, &[(Launcher, Signal::STOP), (Host, Signal::KILL)]),
    fault("first process killed", 8, &[(First, Signal::KILL)]),
    fault("first process stopped", 1, &[(First, Signal::STOP)]),
    fault("first process stopped, host killed", 4, &[(First, Signal::STOP), (Host, Signal::KILL)]),
    fault("program killed", 8, &[(Program, Signal::KILL)]),
    fault("program interrupted", 3, &[(Program, Signal::TERM)]),
    fault("program stopped, killed", 3, &[(Program, Signal::STOP), (Program, Signal::KILL)]),
    fault("program stopped, host killed", 4, &[(Program, Signal::STOP), (Host, Signal::KILL)]),
    fault(
        "all killed, outermost first",
        6,
        &[
            (Host, Signal::KILL),
            (Launcher, Signal::KILL),
            (First, Signal::KILL),
            (Program, Signal::KILL),
        ],
    ),
    fault(
        "all killed, innermost first",
        6,
        &[
            (Program, Signal::KILL),
            (First, Signal::KILL),
            (Launcher, Signal::KILL),
            (Host, Signal::KILL),
        ],
    ),
];

impl Fault {
    pub(crate) fn choose(dice: &mut Dice) -> &'static Fault {
        let mut at = dice.below(FAULTS.iter().map(|fault| fault.weight).sum());
        FAULTS
            .iter()
            .find(|fault| {
                let is_it = at < fault.weight;
                at = at.saturating_sub(fault.weight);
                is_it
            })
            .unwrap()
    }

    /// Whether the host can have come to an end that it did not choose.
    pub(crate) fn may_end_the_host(&self) -> bool {
        self.blows.iter().any(|(who, _)| *who == Host)
    }

    fn stops(&self) -> bool {
        self.blows.iter().any(|(_, signal)| *signal == Signal::STOP)
    }

    /// Strikes a running call. `false` if it had ended before.
    pub(crate) fn strike(
        &self,
        child: &mut Child,
        mark: &str,
        dice: &mut Dice,
        usual: Duration,
    ) -> bool {
        let host = Pid::from_child(child);
        // Everyone is found before anyone is struck: orphans have no parent to be found by.
        let inner = self.blows.iter().map(|(who, _)| *who).max_by_key(|who| *who as u8);
        let Some(inner) = inner else { return true };
        // At any moment, or while the program itself is at work, so that both are met often.
        let at_work = dice.below(3) > 0;
        let mut targets = Vec::new();
        while targets.is_empty() || self.stops() && !is_bound(&targets) {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if !at_work || family(host, Program).last().is_some_and(|pid| has_word(*pid, mark)) {
                targets = family(host, inner);
            }
        }
        let delay = match (inner, at_work) {
            (Host, false) => usual.mul_f64(1.3),
            (Host, true) => usual / 3,
            (_, false) => Duration::from_millis(12),
            (_, true) => Duration::from_millis(6),
        };
        let spread = u64::try_from(delay.as_micros()).unwrap();
        let until = Instant::now() + Duration::from_micros(dice.below(spread + 1));
        while Instant::now() < until {
            thread::sleep(Duration::from_micros(200));
        }
        // Taken leave of, its number could be anybody's.
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        let known: Vec<_> = self
            .blows
            .iter()
            .map(|(who, signal)| {
                let pid = targets.get(*who as usize).copied();
                (pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()), *signal)
            })
            .collect();
        // Had the number been given to somebody else meanwhile, the family would be another one.
        if family(host, inner) != targets {
            return false;
        }
        // Who dies with somebody else cannot be struck any more.
        let mut struck = false;
        for (pidfd, signal) in known {
            struck |= pidfd.is_some_and(|pidfd| pidfd_send_signal(&pidfd, signal).is_ok());
            thread::sleep(Duration::from_micros(dice.below(3000)));
        }
        struck
    }
}

/// The host, its launcher and so on down to the one asked for; nothing while it is not there.
fn family(host: Pid, innermost: Who) -> Vec<Pid> {
    let mut found = vec![host];
    for who in [Launcher, First, Program] {
        if (innermost as u8) < who as u8 {
            break;
        }
        let parent = *found.last().unwrap();
        let children = children(parent);
        // Not yet, while it is still a copy of the host.
        let is_it = |child: &Pid| who != Launcher || has_word(*child, "__launcher");
        let child = children.into_iter().find(is_it);
        let Some(child) = child else { return Vec::new() };
        found.push(child);
    }
    found
}

fn children(parent: Pid) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    let numbers = lists.flatten().collect::<String>();
    numbers.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Whether the launcher has bound its life to the host's, which is the first thing that it does; then
/// it lets go of its standard streams. Before that, one that is stopped would not hear of the end.
fn is_bound(family: &[Pid]) -> bool {
    family.get(Launcher as usize).is_none_or(|launcher| {
        let stream = fs::read_link(format!("/proc/{launcher}/fd/0"));
        stream.is_ok_and(|stream| stream == Path::new("/dev/null"))
    })
}

fn has_word(pid: Pid, word: &str) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|found| found == word.as_bytes())
}
