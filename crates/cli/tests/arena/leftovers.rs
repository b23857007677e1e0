//! What a box must not leave behind: processes, mounts, control groups.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long what is about to vanish may take; nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was there before.
#[derive(Debug)]
pub(crate) struct Before {
    mounts: BTreeSet<String>,
    groups: BTreeSet<PathBuf>,
}

impl Before {
    pub(crate) fn look() -> Before {
        Before { mounts: mounts(), groups: control_groups() }
    }

    /// What is still there after a while, in words. Processes among it are ended.
    pub(crate) fn leftovers(&self, mark: &str, root: &Path) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        // A group of somebody else's box, at work meanwhile, comes and goes; ours would stay.
        let mut stayed: Option<BTreeSet<PathBuf>> = None;
        loop {
            let groups: BTreeSet<PathBuf> = control_groups()
                .difference(&self.groups)
                .filter(|group| is_idle(group))
                .filter(|group| stayed.as_ref().is_none_or(|stayed| stayed.contains(*group)))
                .cloned()
                .collect();
            let processes = marked(mark);
            let mounts: Vec<String> = mounts()
                .difference(&self.mounts)
                .filter(|line| {
                    line.contains(&*root.to_string_lossy()) || line.contains("countersign")
                })
                .cloned()
                .collect();
            let clean = groups.is_empty() && processes.is_empty() && mounts.is_empty();
            if clean || Instant::now() > until {
                let mut left = Vec::new();
                for (pid, command) in processes {
                    left.push(format!("process {pid}: {command}"));
                    if let Some(pid) = Pid::from_raw(pid) {
                        let _ = kill_process(pid, Signal::KILL);
                    }
                }
                left.extend(mounts.iter().map(|mount| format!("mount {mount}")));
                left.extend(groups.iter().map(|group| format!("group {}", group.display())));
                return left;
            }
            stayed = Some(groups);
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn mounts() -> BTreeSet<String> {
    fs::read_to_string("/proc/self/mountinfo").unwrap().lines().map(str::to_owned).collect()
}

/// Processes that carry the mark in their arguments or environment.
fn marked(mark: &str) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if u32::try_from(pid).ok() == Some(std::process::id()) {
            continue;
        }
        let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if contains(&arguments, mark) || contains(&environment, mark) {
            let mut words = String::from_utf8_lossy(&arguments).replace('\0', " ");
            words.truncate(words.floor_char_boundary(120));
            found.push((pid, words));
        }
    }
    found
}

fn contains(bytes: &[u8], mark: &str) -> bool {
    bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
}

/// Directories of ours in every hierarchy of control groups.
fn control_groups() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with("countersign-") {
                found.insert(entry.path());
            }
            waiting.push(entry.path());
        }
    }
    found
}

fn is_idle(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|processes| processes.is_empty())
}
