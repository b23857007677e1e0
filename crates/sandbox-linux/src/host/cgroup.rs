//! Control groups, version 2, version 1 or none: one small group around each launcher, made below
//! the group that this process is in, or beside it.

mod v2;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use countersign_sandbox::machine::CgroupMode;
use countersign_sandbox::{Cgroup, Limits};

use super::group_directory::{Directory, Kind, remove_leftovers};

/// Launcher and first process of the box count as tasks too.
const OWN_TASKS: u32 = 2;

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    V2 {
        base: PathBuf,
        controllers: Vec<String>,
        /// Whether swap can be limited.
        swap: bool,
    },
    /// One directory for each controller that is mounted and ours to use.
    V1 {
        memory: Option<PathBuf>,
        pids: Option<PathBuf>,
        cpuacct: Option<PathBuf>,
    },
    None {
        why: String,
    },
}

impl Layout {
    pub(crate) fn detect() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::detect_in(&mounts, &own)
    }

    fn detect_in(mounts: &str, own: &str) -> Self {
        let v1 = |controller: &str| {
            let path = v1_directory(mounts, own, controller)?;
            can_make_groups(&path).then_some(path)
        };
        let (memory, pids, cpuacct) = (v1("memory"), v1("pids"), v1("cpuacct"));
        if memory.is_some() || pids.is_some() {
            return Layout::V1 { memory, pids, cpuacct };
        }
        match v2_directory(mounts, own) {
            Some((mount_point, own)) => v2::find(mount_point, &own),
            None => Layout::None { why: "no control groups are mounted for this user".to_owned() },
        }
    }

    /// The facts, for reports.
    pub(crate) fn facts(&self) -> Cgroup {
        match self {
            Layout::None { why } => Cgroup::none(why),
            Layout::V2 { controllers, swap, .. } => Cgroup {
                mode: CgroupMode::V2,
                controllers: controllers.clone(),
                swap: *swap,
                why: None,
            },
            Layout::V1 { memory, pids, cpuacct } => {
                let named = [("memory", memory), ("pids", pids), ("cpuacct", cpuacct)];
                let found = named.iter().filter(|(_, path)| path.is_some());
                Cgroup {
                    mode: CgroupMode::V1,
                    controllers: found.map(|(name, _)| (*name).to_owned()).collect(),
                    swap: memory
                        .as_ref()
                        .is_some_and(|m| m.join("memory.memsw.limit_in_bytes").exists()),
                    why: None,
                }
            }
        }
    }

    pub(super) fn bases(&self) -> Vec<&PathBuf> {
        match self {
            Layout::V2 { base, .. } => vec![base],
            Layout::V1 { memory, pids, cpuacct } => {
                [memory, pids, cpuacct].into_iter().flatten().collect()
            }
            Layout::None { .. } => Vec::new(),
        }
    }

    /// Groups whose makers are gone. Returns how many were removed.
    pub(crate) fn remove_leftovers(&self) -> usize {
        self.bases().into_iter().map(|base| remove_leftovers(base)).sum()
    }
}

/// Where a hierarchy is mounted, and which part of it is: the fields of a mountinfo line.
fn mounted<'m>(mounts: &'m str, kind: &str, option: Option<&str>) -> Option<(&'m str, &'m str)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let is_kind = after.next() == Some(kind);
        let options = after.nth(1).unwrap_or_default();
        let has_option = option.is_none_or(|option| options.split(',').any(|o| o == option));
        let mut before = before.split(' ').skip(3);
        (is_kind && has_option).then_some((before.next()?, before.next()?))
    })
}

/// Our own place in a hierarchy, as a directory here.
fn directory(root: &str, mount_point: &str, own: &str) -> PathBuf {
    let below = own.strip_prefix(root.trim_end_matches('/')).unwrap_or(own);
    Path::new(mount_point).join(below.trim_start_matches('/'))
}

fn v1_directory(mounts: &str, own: &str, controller: &str) -> Option<PathBuf> {
    let (root, mount_point) = mounted(mounts, "cgroup", Some(controller))?;
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let is_it = fields.next()?.split(',').any(|name| name == controller);
        fields.next().filter(|_| is_it)
    })?;
    Some(directory(root, mount_point, path))
}

/// Where version 2 is mounted, and our own group there.
fn v2_directory<'m>(mounts: &'m str, own: &str) -> Option<(&'m Path, PathBuf)> {
    let (root, mount_point) = mounted(mounts, "cgroup2", None)?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some((Path::new(mount_point), directory(root, mount_point, path)))
}

/// Tried, not guessed.
fn can_make_groups(base: &Path) -> bool {
    Directory::make(base, Kind::Probe, next_number()).is_ok()
}

/// Tells the groups of this process from each other.
fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A group around one launcher and its boxes.
#[derive(Debug)]
pub(crate) struct Group {
    directories: Vec<Directory>,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    is_v2: bool,
    limits: Option<(u64, u32)>,
    meters: Meters,
}

/// The files that count, kept open: they are read for every box.
#[derive(Debug, Default)]
struct Meters {
    oom: Option<File>,
    peak: Option<File>,
    tasks: Option<File>,
    cpu: Option<File>,
}

/// What a group has counted since it was made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) oom_kills: u64,
    pub(crate) refused_tasks: u64,
    pub(crate) cpu_micros: Option<u64>,
    pub(crate) peak_memory: u64,
}

impl Group {
    pub(crate) fn make(layout: &Layout) -> io::Result<Self> {
        loop {
            match Self::make_numbered(layout, next_number()) {
                // Of a host that was killed and had our number, or of one in another container.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made,
            }
        }
    }

    fn make_numbered(layout: &Layout, number: u32) -> io::Result<Self> {
        let mut bases = layout.bases();
        bases.dedup();
        let make = |base: &PathBuf| Directory::make(base, Kind::Box, number);
        let directories = bases.into_iter().map(make).collect::<io::Result<Vec<_>>>()?;
        let place =
            |base: &Option<PathBuf>| base.as_ref().map(|base| base.join(Kind::Box.name(number)));
        let (memory, pids, cpu, is_v2) = match layout {
            Layout::None { .. } => (None, None, None, false),
            Layout::V1 { memory, pids, cpuacct } => {
                (place(memory), place(pids), place(cpuacct), false)
            }
            Layout::V2 { base, controllers, .. } => {
                let has = |name: &str| controllers.iter().any(|controller| controller == name);
                let group = place(&Some(base.clone()));
                let with = |name: &str| group.clone().filter(|_| has(name));
                (with("memory"), with("pids"), group.clone(), true)
            }
        };
        let mut group =
            Group { directories, memory, pids, is_v2, limits: None, meters: Meters::default() };
        group.open_meters(cpu.as_deref());
        Ok(group)
    }

    fn open_meters(&mut self, cpu: Option<&Path>) {
        let open = |group: Option<&Path>, v2: &str, v1: &str| {
            let name = if self.is_v2 { v2 } else { v1 };
            let path = group?.join(name);
            // Those that can be reset are writable.
            File::options().read(true).write(true).open(&path).or_else(|_| File::open(&path)).ok()
        };
        let memory = self.memory.as_deref();
        self.meters = Meters {
            oom: open(memory, "memory.events", "memory.oom_control"),
            peak: open(memory, "memory.peak", "memory.max_usage_in_bytes"),
            tasks: open(self.pids.as_deref(), "pids.events", "pids.events"),
            cpu: open(cpu, "cpu.stat", "cpuacct.usage"),
        };
    }

    pub(crate) fn counts_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(crate) fn counts_cpu(&self) -> bool {
        self.meters.cpu.is_some()
    }

    pub(crate) fn join(&self, pid: u32) -> io::Result<()> {
        self.directories
            .iter()
            .try_for_each(|group| fs::write(group.path().join("cgroup.procs"), pid.to_string()))
    }

    /// Sets the limits of the next box.
    pub(crate) fn limit(&mut self, limits: &Limits) -> io::Result<()> {
        let tasks = limits.threads.saturating_add(OWN_TASKS);
        let wanted = (limits.memory, tasks);
        if self.limits == Some(wanted) {
            return Ok(());
        }
        self.limits = None;
        if let Some(memory) = &self.memory {
            let limit = if self.is_v2 { limit_v2 } else { limit_v1 };
            limit(memory, limits.memory)?;
        }
        if let Some(pids) = &self.pids {
            fs::write(pids.join("pids.max"), tasks.to_string())?;
        }
        self.limits = Some(wanted);
        Ok(())
    }

    pub(crate) fn counters(&self) -> Counters {
        let Meters { oom, peak, tasks, cpu } = &self.meters;
        let value = |file: &Option<File>, name: &str| field(&read(file.as_ref()?)?, name);
        let cpu_micros = match self.is_v2 {
            true => value(cpu, "usage_usec"),
            false => value(cpu, "").map(|nanos| nanos / 1000),
        };
        Counters {
            oom_kills: value(oom, "oom_kill ").unwrap_or(0),
            refused_tasks: value(tasks, "max ").unwrap_or(0),
            cpu_micros,
            peak_memory: value(peak, "").unwrap_or(0),
        }
    }

    /// Forgets the highest use of the box before. Version 2 can do so since Linux 6.12, for whoever
    /// reads through the same descriptor.
    pub(crate) fn reset_peak(&self) {
        if let Some(peak) = &self.meters.peak {
            let _ = rustix::io::pwrite(peak, b"0", 0);
        }
    }
}

/// A small file of the kernel's, from its beginning.
fn read(file: &File) -> Option<String> {
    let mut buffer = [0u8; 512];
    let read = rustix::io::pread(file, &mut buffer, 0).ok()?;
    Some(String::from_utf8_lossy(buffer.get(..read)?).into_owned())
}

/// The value beside a name in a file of lines.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn limit_v2(group: &Path, bytes: u64) -> io::Result<()> {
    fs::write(group.join("memory.max"), bytes.to_string())?;
    let _ = fs::write(group.join("memory.oom.group"), "0");
    // Absent where the kernel has no swap at all.
    match fs::write(group.join("memory.swap.max"), "0") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Memory and swap together may never be less than memory alone, so the order depends on the
/// direction: try one, and if that is refused, the other.
fn limit_v1(group: &Path, bytes: u64) -> io::Result<()> {
    let (memory, both) =
        (group.join("memory.limit_in_bytes"), group.join("memory.memsw.limit_in_bytes"));
    let text = bytes.to_string();
    if !both.exists() {
        return fs::write(memory, text);
    }
    if fs::write(&memory, &text).is_ok() {
        return fs::write(both, text);
    }
    fs::write(both, &text)?;
    fs::write(memory, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place for hierarchies that are only files.
    struct Fake(tempfile::TempDir);

    impl Fake {
        fn new() -> Self {
            Fake(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, content: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), content).unwrap();
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).unwrap()
        }

        /// A line of mountinfo.
        fn mount(&self, root: &str, at: &str, kind: &str, options: &str) -> String {
            let at = self.path(at);
            format!("31 23 0:28 {root} {} rw shared:4 - {kind} {kind} rw,{options}\n", at.display())
        }

        fn v2(&self, controllers: &str) -> Layout {
            self.write("unified/app/cgroup.controllers", controllers);
            self.write("unified/app/cgroup.subtree_control", "");
            self.write("unified/app/cgroup.procs", "");
            Layout::detect_in(&self.mount("/", "unified", "cgroup2", "nsdelegate"), "0::/app\n")
        }
    }

    #[test]
    fn version_2_alone() {
        let fake = Fake::new();
        let layout = fake.v2("cpuset cpu io memory pids\n");
        let controllers = ["memory", "pids"].map(str::to_owned).to_vec();
        let base = fake.path("unified/app");
        assert_eq!(layout, Layout::V2 { base, controllers, swap: false });
        assert_eq!(fake.read("unified/app/cgroup.subtree_control"), "+memory +pids");
        assert_eq!(layout.facts().mode, CgroupMode::V2);
        assert_eq!(fs::read_dir(fake.path("unified/app")).unwrap().count(), 3, "no probe is left");
    }

    #[test]
    fn version_2_that_nobody_handed_over() {
        let fake = Fake::new();
        assert!(matches!(fake.v2("cpuset io\n"), Layout::None { .. }), "no useful controller");
        let fake = Fake::new();
        fake.write("unified/app/cgroup.controllers", "memory pids\n");
        // Cannot be written, not even by root.
        fs::create_dir(fake.path("unified/app/cgroup.subtree_control")).unwrap();
        let mounts = fake.mount("/", "unified", "cgroup2", "");
        let Layout::None { why } = Layout::detect_in(&mounts, "0::/app\n") else { panic!() };
        assert!(why.contains("not delegated") && why.contains("systemd-run"), "{why}");
        assert_eq!(fake.read("unified/app/cgroup.procs"), "0", "we are back where we were");
    }

    #[test]
    fn version_1_and_both_at_once() {
        let fake = Fake::new();
        for place in ["memory/here", "pids/there", "cpu,cpuacct/there", "unified"] {
            fs::create_dir_all(fake.path(place)).unwrap();
        }
        let mounts = fake.mount("/", "memory", "cgroup", "memory")
            + &fake.mount("/", "cpu,cpuacct", "cgroup", "cpu,cpuacct")
            + &fake.mount("/", "pids", "cgroup", "pids")
            + &fake.mount("/", "unified", "cgroup2", "nsdelegate");
        let own = "9:memory:/here\n8:pids:/there\n2:cpu,cpuacct:/there\n1:name=systemd:/x\n0::/\n";
        let layout = Layout::detect_in(&mounts, own);
        assert_eq!(
            layout,
            Layout::V1 {
                memory: Some(fake.path("memory/here")),
                pids: Some(fake.path("pids/there")),
                cpuacct: Some(fake.path("cpu,cpuacct/there")),
            }
        );
        assert_eq!(layout.facts().controllers, ["memory", "pids", "cpuacct"]);
        assert!(!layout.facts().swap);
        fake.write("memory/here/memory.memsw.limit_in_bytes", "0");
        assert!(layout.facts().swap);
        // A controller that is not ours to use is as good as none.
        let own = "9:memory:/gone\n8:pids:/there\n0::/\n";
        let Layout::V1 { memory, cpuacct, .. } = Layout::detect_in(&mounts, own) else { panic!() };
        assert_eq!((memory, cpuacct), (None, None));
    }

    #[test]
    fn a_container_sees_a_part_of_the_tree() {
        let part = directory("/docker/1", "/sys/fs/cgroup/memory", "/docker/1/job");
        assert_eq!(part, Path::new("/sys/fs/cgroup/memory/job"));
        assert_eq!(directory("/", "/cg", "/"), Path::new("/cg/"));
        assert_eq!(directory("/a", "/cg", "/a"), Path::new("/cg"));
    }

    #[test]
    fn nothing_mounted_is_said() {
        let Layout::None { why } = Layout::detect_in("", "") else { panic!() };
        assert!(why.contains("no control groups"), "{why}");
        let group = Group::make(&Layout::None { why }).unwrap();
        assert!(!group.counts_memory() && !group.counts_cpu());
        assert_eq!(group.counters().cpu_micros, None);
    }

    fn limits(memory: u64, threads: u32) -> Limits {
        Limits { memory, threads, ..Limits::default() }
    }

    #[test]
    fn limits_of_version_2_are_written_and_counters_read() {
        let fake = Fake::new();
        let mut group = Group::make(&fake.v2("cpu memory pids\n")).unwrap();
        group.limit(&limits(4096, 7)).unwrap();
        let place = group.directories.first().unwrap().path().to_owned();
        let read = |name: &str| fs::read_to_string(place.join(name)).unwrap();
        assert_eq!(read("memory.max"), "4096");
        assert_eq!(read("memory.swap.max"), "0");
        assert_eq!(read("pids.max"), "9", "launcher and first process come on top");
        for (name, content) in [
            ("memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"),
            ("memory.peak", "65536\n"),
            ("pids.events", "max 5\n"),
            ("cpu.stat", "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n"),
        ] {
            fs::write(place.join(name), content).unwrap();
        }
        group.open_meters(Some(&place));
        let counters = group.counters();
        assert_eq!((counters.oom_kills, counters.refused_tasks), (2, 5));
        assert_eq!((counters.cpu_micros, counters.peak_memory), (Some(1234), 65536));
    }

    #[test]
    fn limits_of_version_1_are_written_in_the_order_that_the_kernel_allows() {
        let fake = Fake::new();
        for place in ["memory", "pids"] {
            fs::create_dir(fake.path(place)).unwrap();
        }
        let layout = Layout::V1 {
            memory: Some(fake.path("memory")),
            pids: Some(fake.path("pids")),
            cpuacct: None,
        };
        let mut group = Group::make(&layout).unwrap();
        let memory = group.memory.clone().unwrap();
        fs::write(memory.join("memory.memsw.limit_in_bytes"), "").unwrap();
        group.limit(&limits(8192, 1)).unwrap();
        for name in ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"] {
            assert_eq!(fs::read_to_string(memory.join(name)).unwrap(), "8192");
        }
        assert_eq!(fs::read_to_string(group.pids.clone().unwrap().join("pids.max")).unwrap(), "3");
    }

    #[test]
    fn what_a_killed_host_with_our_number_left_is_not_in_the_way() {
        let fake = Fake::new();
        let layout = fake.v2("memory pids\n");
        let next = next_number();
        for number in next + 1..next + 20 {
            fs::create_dir(fake.path("unified/app").join(Kind::Box.name(number))).unwrap();
        }
        let group = Group::make(&layout).unwrap();
        assert!(group.directories.first().unwrap().path().is_dir());
    }
}
