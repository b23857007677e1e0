//! Where groups of version 2 can be made: below the own group, or beside it.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path};

use super::{Layout, next_number};
use crate::host::group_directory::{Directory, Kind};

/// What groups are made for. Processor time is counted without a controller.
const NEEDED: [&str; 2] = ["memory", "pids"];

/// What somebody may have set for a group and all below it, and how it reads when nobody did. A box
/// has a limit of its own for everything else.
const BOUNDS: [(&str, &str); 4] =
    [("memory.max", "max"), ("memory.high", "max"), ("cpu.max", "max"), ("cpuset.cpus", "")];

pub(super) fn find(mount_point: &Path, own: &Path) -> Layout {
    if own.components().any(|part| part == Component::ParentDir) {
        let why = "the own cgroup v2 is not among those that are mounted here".to_owned();
        return Layout::None { why };
    }
    below(own)
        .or_else(|why| beside(mount_point, own, why))
        .unwrap_or_else(|why| Layout::None { why })
}

/// Controllers are handed to groups without processes only. When this process is alone in its group,
/// as a service is, it moves into a group below and leaves its own one empty.
fn below(own: &Path) -> Result<Layout, String> {
    let available = words(&own.join("cgroup.controllers"));
    let wanted: Vec<String> = available.into_iter().filter(|name| is_needed(name)).collect();
    if wanted.is_empty() {
        return Err("cgroup v2 has no memory and pids controllers here".to_owned());
    }
    let enabled = enable(own, &wanted).or_else(|_| enable_from_aside(own, &wanted));
    enabled.and_then(|()| try_out(own, wanted)).map_err(|error| not_delegated(&error))
}

fn not_delegated(error: &io::Error) -> String {
    let user = if rustix::process::geteuid().is_root() { "" } else { "--user " };
    let reason = match error.kind() {
        io::ErrorKind::ResourceBusy => "is shared with other processes".to_owned(),
        _ => format!("is not delegated: {error}"),
    };
    format!(
        "the own cgroup v2 {reason}; start with `systemd-run {user}--scope -p Delegate=yes \
         countersign …`"
    )
}

fn is_needed(name: &str) -> bool {
    NEEDED.contains(&name)
}

fn words(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Hands on what is not handed on yet.
fn enable(group: &Path, wanted: &[String]) -> io::Result<()> {
    let file = group.join("cgroup.subtree_control");
    let enabled = words(&file);
    let missing = wanted.iter().filter(|name| !enabled.contains(name));
    let missing: Vec<String> = missing.map(|name| format!("+{name}")).collect();
    if missing.is_empty() { Ok(()) } else { fs::write(file, missing.join(" ")) }
}

fn enable_from_aside(own: &Path, wanted: &[String]) -> io::Result<()> {
    let aside = Directory::make(own, Kind::Host, next_number())?;
    let moved =
        fs::write(aside.path().join("cgroup.procs"), "0").and_then(|()| enable(own, wanted));
    match &moved {
        // We live in it now, for as long as we live.
        Ok(()) => std::mem::forget(aside),
        Err(_) => _ = fs::write(own.join("cgroup.procs"), "0"),
    }
    moved
}

/// Where the own group is shared, as that of a login is, one further up may already hand on what is
/// needed and be ours to use. Nobody's limits are left behind on the way.
fn beside(mount_point: &Path, own: &Path, why: String) -> Result<Layout, String> {
    for group in own.ancestors().take_while(|group| *group != mount_point) {
        if let Some(bound) = BOUNDS.iter().find(|bound| is_bound(group, bound)) {
            return Err(format!("{why}; beside it, its `{}` would not hold", bound.0));
        }
        let Some(parent) = group.parent() else { break };
        let controllers: Vec<String> = NEEDED.map(str::to_owned).into();
        let enabled = words(&parent.join("cgroup.subtree_control"));
        if controllers.iter().all(|name| enabled.contains(name))
            && let Ok(layout) = try_out(parent, controllers)
        {
            return Ok(layout);
        }
    }
    Err(why)
}

fn is_bound(group: &Path, (file, unbound): &(&str, &str)) -> bool {
    let text = fs::read_to_string(group.join(file)).unwrap_or_else(|_| (*unbound).to_owned());
    text.split_whitespace().next().unwrap_or_default() != *unbound
}

/// Makes a group and removes it. Moving a process asks for the right to write to the group that its
/// old and its new one have in common.
fn try_out(base: &Path, controllers: Vec<String>) -> io::Result<Layout> {
    File::options().write(true).open(base.join("cgroup.procs"))?;
    let probe = Directory::make(base, Kind::Probe, next_number())?;
    let swap = probe.path().join("memory.swap.max").exists();
    drop(probe);
    Ok(Layout::V2 { base: base.to_owned(), controllers, swap })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    type Tested = Result<(), Box<dyn std::error::Error>>;

    /// A group as the kernel shows it, with what it hands on.
    fn group(path: &Path, available: &str, enabled: &str) -> io::Result<()> {
        fs::create_dir_all(path)?;
        fs::write(path.join("cgroup.procs"), "")?;
        fs::write(path.join("cgroup.controllers"), available)?;
        fs::write(path.join("cgroup.subtree_control"), enabled)
    }

    /// One that other processes are in: the kernel refuses to have it hand anything on.
    fn shared(path: &Path) -> io::Result<()> {
        group(path, "cpu memory pids", "")?;
        fs::remove_file(path.join("cgroup.subtree_control"))?;
        fs::create_dir(path.join("cgroup.subtree_control"))
    }

    fn found(base: &Path) -> Layout {
        let controllers = NEEDED.map(str::to_owned).into();
        Layout::V2 { base: base.to_owned(), controllers, swap: false }
    }

    fn why(layout: Layout) -> String {
        match layout {
            Layout::None { why } => why,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_group_of_ones_own_hands_on_what_is_needed_and_no_more() -> Tested {
        let root = TempDir::new()?;
        group(root.path(), "cpuset cpu io memory pids\n", "cpu pids\n")?;
        assert_eq!(find(root.path(), root.path()), found(root.path()));
        let written = fs::read_to_string(root.path().join("cgroup.subtree_control"))?;
        assert_eq!(written, "+memory");
        assert_eq!(fs::read_dir(root.path())?.count(), 3, "the probe is gone");
        Ok(())
    }

    #[test]
    fn a_shared_group_is_left_for_one_beside_it() -> Tested {
        let root = TempDir::new()?;
        let slice = root.path().join("user.slice");
        let login = slice.join("session-1.scope");
        group(root.path(), "memory pids", "memory pids")?;
        group(&slice, "memory pids", "memory pids")?;
        shared(&login)?;
        fs::write(login.join("memory.max"), "max\n")?;
        fs::write(login.join("cpu.max"), "max 100000\n")?;
        fs::write(login.join("cpuset.cpus"), "\n")?;
        // The kernel's own limit on processes is no reason to stay: every box has one.
        fs::write(login.join("pids.max"), "4915\n")?;
        assert_eq!(find(root.path(), &login), found(&slice));
        Ok(())
    }

    #[test]
    fn groups_further_up_count_only_if_they_hand_on_everything() -> Tested {
        let root = TempDir::new()?;
        let (slice, login) = (root.path().join("a"), root.path().join("a/b"));
        group(root.path(), "memory pids", "memory pids")?;
        group(&slice, "memory pids", "pids")?;
        shared(&login)?;
        assert_eq!(find(root.path(), &login), found(root.path()));
        // Beyond what is mounted here lies nothing of ours.
        assert!(why(find(&slice, &login)).contains("systemd-run"));
        Ok(())
    }

    #[test]
    fn limits_of_the_own_group_are_not_evaded() -> Tested {
        let root = TempDir::new()?;
        let login = root.path().join("service");
        group(root.path(), "memory pids", "memory pids")?;
        shared(&login)?;
        for (file, value) in [
            ("memory.max", "1073741824\n"),
            ("memory.high", "1073741824\n"),
            ("cpu.max", "50000 100000\n"),
            ("cpuset.cpus", "0-1\n"),
        ] {
            fs::write(login.join(file), value)?;
            let why = why(find(root.path(), &login));
            assert!(why.contains(&format!("`{file}` would not hold")), "{why}");
            fs::remove_file(login.join(file))?;
        }
        Ok(())
    }

    #[test]
    fn a_group_without_controllers_or_out_of_sight_is_none() -> Tested {
        let root = TempDir::new()?;
        group(root.path(), "cpu io\n", "")?;
        assert!(why(find(root.path(), root.path())).contains("no memory and pids"));
        let outside = root.path().join("../elsewhere");
        assert!(why(find(root.path(), &outside)).contains("not among those"));
        Ok(())
    }
}
