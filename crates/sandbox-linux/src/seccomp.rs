//! Which system calls a program may make. The lists themselves are in [`lists`].
//!
//! What is on no list does not exist for the program (`ENOSYS`), so that libraries fall back as they
//! do on older kernels: from `clone3` to `clone`, from `io_uring` to ordinary reads. What is
//! dangerous by design is refused (`EPERM`).

mod assemble;
mod lists;

use std::collections::BTreeMap;

use libc::sock_filter;

use self::assemble::{Condition, Verdict};
use self::lists::{ALLOWED, HIDDEN_MEMORY, Line, OLD, REFUSED};

const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// The filter of a profile, ready for the kernel.
pub(crate) fn filter(profile: &str) -> Vec<sock_filter> {
    assemble::program(&verdicts(profile))
}

/// What each listed call is answered with.
fn verdicts(profile: &str) -> BTreeMap<u32, Verdict> {
    let mut verdicts: BTreeMap<u32, Verdict> = BTreeMap::new();
    let mut add = |lines: &[Line], verdict: &Verdict| {
        let numbers = lines.iter().flat_map(|line| line.calls).map(|(_, number)| *number);
        let numbers = numbers.filter_map(|number| u32::try_from(number).ok());
        verdicts.extend(numbers.map(|number| (number, verdict.clone())));
    };
    add(ALLOWED, &Verdict::Allow);
    add(OLD, &Verdict::Allow);
    if !profile.contains("no hidden memory") {
        add(HIDDEN_MEMORY, &Verdict::Allow);
    }
    add(REFUSED, &Verdict::Errno(libc::EPERM));
    verdicts.extend(conditional(profile.contains("tcp")));
    verdicts
}

fn is(argument: u32, value: u32) -> Condition {
    Condition { argument, mask: u32::MAX, value, equal: true }
}

fn is_not(argument: u32, value: u32) -> Condition {
    Condition { equal: false, ..is(argument, value) }
}

/// Calls by number that are allowed if one of the rules holds.
fn when(
    number: libc::c_long,
    rules: Vec<Vec<Condition>>,
    otherwise: i32,
) -> Option<(u32, Verdict)> {
    Some((u32::try_from(number).ok()?, Verdict::When { rules, otherwise }))
}

/// The calls of [`conditional`], for people.
const PARTLY: [(&str, &str); 7] = [
    ("socket", "unix sockets; where hosts are granted, TCP to the egress proxy as well"),
    ("socketpair", "unix sockets"),
    ("clone", "threads and processes, but no namespaces"),
    ("personality", "asking for the execution domain, or setting the ordinary one"),
    ("ioctl", "anything but typing into a terminal"),
    ("seccomp", "restricting oneself further, but not answering for calls of others"),
    ("prlimit64", "own limits, which can be lowered and never raised"),
];

/// Calls that are allowed with some arguments only. Arguments are compared as 32 bits, which is all
/// that the kernel looks at in these calls.
fn conditional(tcp: bool) -> impl Iterator<Item = (u32, Verdict)> {
    let mut sockets = vec![vec![is(0, libc::AF_UNIX as u32)]];
    if tcp {
        let stream = Condition { mask: 0xf, ..is(1, libc::SOCK_STREAM as u32) };
        let tcp = [libc::IPPROTO_IP, libc::IPPROTO_TCP].map(|protocol| is(2, protocol as u32));
        sockets.extend(tcp.map(|tcp| vec![is(0, libc::AF_INET as u32), stream, tcp]));
    }
    let pairs = vec![vec![is(0, libc::AF_UNIX as u32)]];
    // Threads and processes, but no namespaces.
    let plain_clone = vec![vec![Condition { mask: NAMESPACES, ..is(0, 0) }]];
    // Asking for the execution domain, or setting the ordinary one.
    let plain_domain = vec![vec![is(0, 0)], vec![is(0, u32::MAX)]];
    // Anything but typing into somebody's terminal.
    let no_typing = vec![vec![is_not(1, libc::TIOCSTI as u32), is_not(1, libc::TIOCLINUX as u32)]];
    // Restricting oneself further, but not answering for system calls of others.
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32;
    let no_listener = vec![vec![Condition { mask: listener, ..is(1, 0) }]];
    // Own limits, not those of the box's first process.
    let own_limits = vec![vec![is(0, 0)]];
    [
        when(libc::SYS_socket, sockets, libc::EAFNOSUPPORT),
        when(libc::SYS_socketpair, pairs, libc::EAFNOSUPPORT),
        when(libc::SYS_clone, plain_clone, libc::EPERM),
        when(libc::SYS_personality, plain_domain, libc::EPERM),
        when(libc::SYS_ioctl, no_typing, libc::EPERM),
        when(libc::SYS_seccomp, no_listener, libc::EPERM),
        when(libc::SYS_prlimit64, own_limits, libc::EPERM),
    ]
    .into_iter()
    .flatten()
}

/// One line of a list, for people.
#[derive(Debug, Clone)]
pub struct Explained {
    pub allowed: bool,
    pub reason: &'static str,
    pub calls: Vec<&'static str>,
}

/// The lists, for people.
pub fn explain() -> Vec<Explained> {
    let explained = |allowed: bool| {
        move |line: &Line| Explained {
            allowed,
            reason: line.reason,
            calls: line.calls.iter().map(|(name, _)| name.trim_start_matches("SYS_")).collect(),
        }
    };
    let allowed = [ALLOWED, OLD, HIDDEN_MEMORY].into_iter().flatten().map(explained(true));
    let partly =
        PARTLY.iter().map(|(call, reason)| Explained { allowed: true, reason, calls: vec![call] });
    allowed.chain(partly).chain(REFUSED.iter().map(explained(false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_on_two_lists() {
        let mut seen = BTreeMap::new();
        for line in explain() {
            for call in line.calls {
                assert_eq!(seen.insert(call, line.allowed), None, "{call} is listed twice");
            }
        }
        assert_eq!(conditional(true).count(), PARTLY.len());
        for call in ["clone3", "io_uring_setup", "execveat"] {
            assert!(!seen.contains_key(call), "{call} must look absent");
        }
    }

    #[test]
    fn the_filter_says_what_the_lists_say() {
        for profile in
            ["no network", "tcp", "no network, no hidden memory", "tcp, no hidden memory"]
        {
            let (program, verdicts) = (filter(profile), verdicts(profile));
            for number in 0..1024 {
                for arguments in arguments() {
                    let expected = verdicts
                        .get(&number)
                        .map_or(Err(libc::ENOSYS), |verdict| verdict.judge(&arguments));
                    let found =
                        assemble::emulate(&program, assemble::ARCHITECTURE, number, &arguments);
                    assert_eq!(found, Some(expected), "{profile}: {number} {arguments:?}");
                }
            }
        }
    }

    fn arguments() -> Vec<[u64; 4]> {
        let interesting = [
            0,
            1,
            2,
            10,
            8,
            0x21,
            6,
            262,
            0x5412,
            0x541c,
            1031,
            0xffff_ffff,
            0x1000_0000,
            0x7c02_0000,
        ];
        let high = [0, 1 << 32];
        let pairs = interesting.iter().flat_map(|a| interesting.iter().map(move |b| (*a, *b)));
        pairs.flat_map(|(a, b)| high.map(|high| [a | high, b | high, b | high, a | high])).collect()
    }

    #[test]
    fn other_architectures_are_killed_and_x32_does_not_exist() {
        let program = filter("no network");
        assert_eq!(assemble::emulate(&program, 0x4000_0003, 1, &[0, 0, 0, 0]), None);
        let x32 = 0x4000_0000 | 1;
        let found = assemble::emulate(&program, assemble::ARCHITECTURE, x32, &[0, 0, 0, 0]);
        assert_eq!(found, Some(Err(libc::ENOSYS)));
    }
}
