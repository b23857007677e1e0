//! From verdicts to a BPF program: a search tree over runs of calls with the same verdict.
//!
//! A chain of comparisons would do as well, but the kernel tries a filter with every call number
//! when it is installed, and with a chain that costs more than the rest of setting up a process.

use std::collections::BTreeMap;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W,
    c_int, sock_filter,
};

/// What a call is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Errno(c_int),
    /// Allowed if all conditions of one of the rules hold.
    When {
        rules: Vec<Vec<Condition>>,
        otherwise: c_int,
    },
}

/// `argument & mask == value`, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) argument: u32,
    pub(super) mask: u32,
    pub(super) value: u32,
    pub(super) equal: bool,
}

#[cfg(target_arch = "x86_64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const ARCHITECTURE: u32 = 0;

/// Offsets in what the kernel shows a filter.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// From this number on, calls of x86-64 mean another interface.
const OTHER_INTERFACE: u32 = 0x4000_0000;

fn instruction(code: u32, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn give(action: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, action)
}

fn refuse(errno: c_int) -> sock_filter {
    give(libc::SECCOMP_RET_ERRNO | errno.unsigned_abs())
}

pub(super) fn program(verdicts: &BTreeMap<u32, Verdict>) -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCH),
        jump(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        give(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
        jump(BPF_JMP | BPF_JGE | BPF_K, OTHER_INTERFACE, 0, 1),
        refuse(libc::ENOSYS),
    ];
    program.extend(tree(&runs(verdicts)));
    program
}

/// Where runs of equal verdicts begin, from 0 on. Calls on no list do not exist.
fn runs(verdicts: &BTreeMap<u32, Verdict>) -> Vec<(u32, Verdict)> {
    let absent = Verdict::Errno(libc::ENOSYS);
    let last = verdicts.keys().next_back().copied().unwrap_or(0);
    let mut runs: Vec<(u32, Verdict)> = Vec::new();
    for number in 0..=last.saturating_add(1) {
        let verdict = verdicts.get(&number).unwrap_or(&absent);
        if runs.last().is_none_or(|(_, before)| before != verdict) {
            runs.push((number, verdict.clone()));
        }
    }
    runs
}

fn tree(runs: &[(u32, Verdict)]) -> Vec<sock_filter> {
    match runs {
        [] => vec![refuse(libc::ENOSYS)],
        [(_, verdict)] => leaf(verdict),
        runs => {
            let (low, high) = runs.split_at(runs.len() / 2);
            let border = high.first().map_or(0, |(start, _)| *start);
            let (low, high) = (tree(low), tree(high));
            // Conditional jumps reach 255 instructions; an unconditional one reaches any.
            let over = instruction(BPF_JMP | BPF_JA, high.len() as u32);
            let mut node = vec![jump(BPF_JMP | BPF_JGE | BPF_K, border, 1, 0), over];
            node.extend(high);
            node.extend(low);
            node
        }
    }
}

fn leaf(verdict: &Verdict) -> Vec<sock_filter> {
    match verdict {
        Verdict::Allow => vec![give(libc::SECCOMP_RET_ALLOW)],
        Verdict::Errno(errno) => vec![refuse(*errno)],
        Verdict::When { rules, otherwise } => {
            let mut code: Vec<_> = rules.iter().flat_map(|rule| test(rule)).collect();
            code.push(refuse(*otherwise));
            code
        }
    }
}

/// Allows if every condition holds, and falls through to what follows if one does not.
fn test(rule: &[Condition]) -> Vec<sock_filter> {
    let mut code = vec![give(libc::SECCOMP_RET_ALLOW)];
    for condition in rule.iter().rev() {
        let skip = u8::try_from(code.len()).unwrap_or(u8::MAX);
        let (jt, jf) = if condition.equal { (0, skip) } else { (skip, 0) };
        let mut step = vec![
            load(ARGUMENTS + 8 * condition.argument),
            instruction(BPF_ALU | BPF_AND | BPF_K, condition.mask),
            jump(BPF_JMP | BPF_JEQ | BPF_K, condition.value, jt, jf),
        ];
        step.extend(code);
        code = step;
    }
    code
}

#[cfg(test)]
impl Verdict {
    /// What the verdict means, without any program.
    pub(super) fn judge(&self, arguments: &[u64]) -> Result<(), c_int> {
        let holds = |c: &Condition| {
            let argument = arguments[c.argument as usize] as u32;
            (argument & c.mask == c.value) == c.equal
        };
        match self {
            Verdict::Allow => Ok(()),
            Verdict::Errno(errno) => Err(*errno),
            Verdict::When { rules, .. } if rules.iter().any(|rule| rule.iter().all(holds)) => {
                Ok(())
            }
            Verdict::When { otherwise, .. } => Err(*otherwise),
        }
    }
}

/// Runs a program as the kernel does; `None` means that the process is killed.
#[cfg(test)]
pub(super) fn emulate(
    program: &[sock_filter],
    architecture: u32,
    number: u32,
    arguments: &[u64],
) -> Option<Result<(), c_int>> {
    let data = |offset: u32| match offset {
        NUMBER => number,
        ARCH => architecture,
        offset => arguments[((offset - ARGUMENTS) / 8) as usize] as u32,
    };
    let (mut at, mut register) = (0, 0u32);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        match u32::from(code) {
            c if c == BPF_LD | BPF_W | BPF_ABS => register = data(k),
            c if c == BPF_ALU | BPF_AND | BPF_K => register &= k,
            c if c == BPF_JMP | BPF_JA => at += k as usize,
            c if c == BPF_JMP | BPF_JEQ | BPF_K => {
                at += usize::from(if register == k { jt } else { jf })
            }
            c if c == BPF_JMP | BPF_JGE | BPF_K => {
                at += usize::from(if register >= k { jt } else { jf })
            }
            c if c == BPF_RET | BPF_K => {
                return match k {
                    libc::SECCOMP_RET_ALLOW => Some(Ok(())),
                    libc::SECCOMP_RET_KILL_PROCESS => None,
                    errno => Some(Err((errno & 0xffff) as c_int)),
                };
            }
            other => unreachable!("instruction {other}"),
        }
    }
}
