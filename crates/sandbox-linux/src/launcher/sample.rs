//! Counts what no control group counts, by looking through the box's own /proc.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read;

use countersign_sandbox::{LimitKind, Limits};

use crate::protocol::Prepare;
use crate::sys;

#[derive(Debug)]
pub(super) struct Sampler {
    limits: Limits,
    memory: bool,
    cpu: bool,
    ticks: u64,
    /// Processor time of each process when it was last seen, and of those that are gone.
    seen: HashMap<u32, u64>,
    gone: u64,
}

/// What all processes of the box use together, the first one apart.
#[derive(Debug, Default)]
struct Sum {
    processes: u32,
    threads: u32,
    cpu_ticks: u64,
    own_ticks: HashMap<u32, u64>,
    memory: u64,
    most_files: usize,
    /// What no process has for itself, by name, so that it counts once: pipes, sockets, and memory
    /// that is shared without a file.
    shared: BTreeMap<String, u64>,
}

/// What the buffers of a pipe and of a socket hold at most, unless they are made larger.
const PIPE: u64 = 64 << 10;
const SOCKET: u64 = 208 << 10;

impl Sampler {
    pub(super) fn new(prepare: &Prepare) -> Self {
        Sampler {
            limits: prepare.limits,
            memory: prepare.sample_memory,
            cpu: prepare.sample_cpu,
            ticks: sys::clock_ticks(),
            seen: HashMap::new(),
            gone: 0,
        }
    }

    /// The limit that is exceeded now, if one is.
    pub(super) fn look(&mut self) -> Option<LimitKind> {
        // The cheap question first: when there are many, looking at each takes its time.
        let processes = processes();
        if self.are_too_many(&processes, 0) {
            return Some(LimitKind::Processes);
        }
        let sum = self.sum(&processes);
        let cpu_ms = self.cpu_ms(&sum);
        let limits = &self.limits;
        let exceeded = [
            (self.memory && sum.memory > limits.memory, LimitKind::Memory),
            (self.cpu && cpu_ms > limits.cpu_ms, LimitKind::CpuTime),
            (sum.threads > limits.threads, LimitKind::Threads),
            (sum.most_files > limits.open_files as usize, LimitKind::OpenFiles),
        ];
        exceeded.into_iter().find_map(|(is, limit)| is.then_some(limit))
    }

    /// The larger of two counts: what parents tell of their children, and what we saw ourselves. A
    /// child that nobody waits for is missing in the first, one that lives shortly in the second.
    fn cpu_ms(&mut self, sum: &Sum) -> u64 {
        for (pid, ticks) in &self.seen {
            if !sum.own_ticks.contains_key(pid) {
                self.gone += ticks;
            }
        }
        let own: u64 = sum.own_ticks.values().sum();
        let ours = (own + self.gone) * 1000 / self.ticks.max(1);
        let told = sum.cpu_ticks * 1000 / self.ticks.max(1) + sys::children_usage().0 / 1000;
        self.seen.clone_from(&sum.own_ticks);
        ours.max(told)
    }

    /// Together with those that have just ended.
    pub(super) fn are_too_many(&self, processes: &[u32], ended: usize) -> bool {
        let most = self.limits.processes as usize;
        let counted = || processes.iter().filter(|pid| is_counted(**pid)).count();
        processes.len() + ended > most && counted() + ended > most
    }

    /// Processes and threads share one cap of the kernel's, which was reached: by which of them?
    pub(super) fn crowd(&self) -> LimitKind {
        let processes = processes();
        let sum = self.sum(&processes);
        let mostly_processes = u64::from(sum.processes) * 2 > u64::from(sum.threads);
        if mostly_processes { LimitKind::Processes } else { LimitKind::Threads }
    }

    fn sum(&self, processes: &[u32]) -> Sum {
        let mut sum = Sum::default();
        for pid in processes {
            self.add(&mut sum, *pid);
        }
        if self.memory {
            let shared = sum.shared.values().fold(0, |all: u64, size| all.saturating_add(*size));
            sum.memory = sum.memory.saturating_add(shared).saturating_add(scratch_used());
        }
        sum
    }

    /// A process that ended meanwhile uses nothing.
    fn add(&self, sum: &mut Sum, pid: u32) {
        let Some(fields) = stat(pid) else { return };
        let field = |number: usize| fields.get(number).copied().unwrap_or(0);
        sum.processes += 1;
        sum.threads += u32::try_from(field(16)).unwrap_or(0);
        // Its own time, and that of its children that it has taken leave of.
        sum.cpu_ticks += field(10) + field(11) + field(12) + field(13);
        sum.own_ticks.insert(pid, field(10) + field(11));
        if self.memory {
            sum.memory += resident(pid);
            sum.share(shared_memory(pid));
        }
        self.add_files(sum, pid);
    }

    fn add_files(&self, sum: &mut Sum, pid: u32) {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return };
        let mut count = 0;
        for file in files.flatten() {
            count += 1;
            if self.memory
                && let Ok(target) = fs::read_link(file.path())
                && let Some(buffer) = buffer(&target.to_string_lossy())
            {
                sum.shared.insert(target.to_string_lossy().into_owned(), buffer);
            }
        }
        sum.most_files = sum.most_files.max(count);
    }
}

impl Sum {
    /// A process may map one memory in pieces, which add up; several may map the same pieces, and then
    /// whoever maps most counts.
    fn share(&mut self, pieces: Vec<(String, u64)>) {
        let mut one: BTreeMap<String, u64> = BTreeMap::new();
        for (name, size) in pieces {
            let all = one.entry(name).or_default();
            *all = all.saturating_add(size);
        }
        for (name, size) in one {
            let most = self.shared.entry(name).or_default();
            *most = size.max(*most);
        }
    }
}

/// All processes of the box but the first.
pub(super) fn processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(|pid| *pid != 1).collect()
}

/// The dead wait for somebody to take leave of them. Those that wait for us are no longer processes;
/// those that wait for the program are its own affair.
fn is_counted(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|rest| !rest.starts_with("Z 1 "))
}

/// The numbers after the state. The name before it is in parentheses and may hold anything.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect())
}

fn buffer(target: &str) -> Option<u64> {
    let sizes = [("pipe:", PIPE), ("socket:", SOCKET)];
    sizes.iter().find(|(prefix, _)| target.starts_with(prefix)).map(|(_, size)| *size)
}

/// Memory that is shared without a file, with the number by which the kernel knows it. All of a
/// mapping counts: which of its pages exist cannot be seen from any one process.
fn shared_memory(pid: u32) -> Vec<(String, u64)> {
    let mut maps = String::new();
    let read = fs::File::open(format!("/proc/{pid}/maps"))
        .and_then(|file| file.take(MOST_MAPS).read_to_string(&mut maps));
    match read {
        // So many mappings serve only to keep us reading.
        Ok(read) if read as u64 == MOST_MAPS => vec![(format!("maps:{pid}"), u64::MAX)],
        Ok(_) => maps.lines().filter_map(shared_mapping).collect(),
        Err(_) => Vec::new(),
    }
}

/// Some 5,000 mappings, far more than programs have.
const MOST_MAPS: u64 = 512 << 10;

fn shared_mapping(line: &str) -> Option<(String, u64)> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let inode = fields.nth(3)?;
    let is_shared = line.ends_with("/dev/zero (deleted)");
    let address = |text| u64::from_str_radix(text, 16).ok();
    is_shared.then_some((format!("memory:{inode}"), address(end)?.checked_sub(address(start)?)?))
}

/// Memory that belongs to the process, pages that describe its memory included: not the programs
/// and libraries that it shares with others.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let counts = matches!(name, "RssAnon" | "VmSwap" | "VmPTE");
        counts.then(|| value.split_whitespace().next()?.parse::<u64>().ok()).flatten()
    };
    status.lines().filter_map(kib).sum::<u64>() * 1024
}

/// What is written to the scratch space, which is memory as well.
fn scratch_used() -> u64 {
    rustix::fs::statfs("/tmp").map_or(0, |stat| {
        let block = u64::try_from(stat.f_bsize).unwrap_or(4096);
        stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(block)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_known_by_its_number() {
        let line = "7f0000000000-7f0000400000 rw-s 00000000 00:01 1027    /dev/zero (deleted)";
        assert_eq!(shared_mapping(line), Some(("memory:1027".to_owned(), 4 << 20)));
        let line = "7f0000000000-7f0000400000 r-xp 00000000 fe:00 1027    /usr/lib/libc.so.6";
        assert_eq!(shared_mapping(line), None);
        assert_eq!(shared_mapping(""), None);
    }

    #[test]
    fn pieces_of_one_memory_add_up_and_sharing_it_does_not() {
        let piece = |size| ("memory:7".to_owned(), size);
        let mut sum = Sum::default();
        sum.share(vec![piece(3), piece(4)]);
        sum.share(vec![piece(5)]);
        sum.share(vec![piece(2), ("memory:8".to_owned(), 1)]);
        assert_eq!(sum.shared.values().sum::<u64>(), 8);
    }
}
