//! What this computer can enforce, as facts that were tried and not assumed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

/// The kernel that can make everything below a mount read-only at once.
const OLDEST: (u32, u32) = (5, 12);

/// The facts. Whoever detects them tries each thing for real.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    pub kernel: String,
    pub user: u32,
    /// Why namespaces cannot be made by this user, if they cannot.
    pub namespaces: Result<(), String>,
    pub overlay: Result<(), String>,
    /// The interface version; 0 when there is none.
    pub landlock: u32,
    pub seccomp: bool,
    pub cgroup: Cgroup,
    /// Whether swap is in use, which a memory limit must then cover.
    pub swap: bool,
    pub kvm: bool,
    /// What programs need to run: directories, and links between them.
    pub runtime: Vec<RuntimePath>,
    pub interpreters: BTreeMap<String, PathBuf>,
}

/// A host path that every box shows, or the link that stands in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePath {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// How control groups can be used here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cgroup {
    pub mode: CgroupMode,
    /// The controllers that this user can really use.
    pub controllers: Vec<String>,
    /// Whether swap can be limited as well.
    pub swap: bool,
    /// Why not more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CgroupMode {
    V2,
    V1,
    None,
}

impl Cgroup {
    pub fn none(why: impl Into<String>) -> Self {
        let why = Some(why.into());
        Cgroup { mode: CgroupMode::None, controllers: Vec::new(), swap: false, why }
    }

    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    fn version(&self) -> &'static str {
        match self.mode {
            CgroupMode::V2 => "cgroup v2",
            CgroupMode::V1 => "cgroup v1",
            CgroupMode::None => "no cgroup",
        }
    }
}

/// Something that holds a program back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Barrier {
    pub name: &'static str,
    pub strength: Strength,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Strength {
    /// The kernel enforces it, in this way.
    Enforced(String),
    /// Not here, and this is what to change.
    Missing { why: String, fix: String },
}

impl Strength {
    fn enforced(how: impl Into<String>) -> Self {
        Strength::Enforced(how.into())
    }

    fn missing(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Strength::Missing { why: why.into(), fix: fix.into() }
    }

    pub fn is_enforced(&self) -> bool {
        matches!(self, Strength::Enforced(_))
    }
}

impl Machine {
    /// The barriers that an isolation level consists of, each as this machine has it.
    pub fn barriers(&self, level: u8) -> Vec<Barrier> {
        let barrier = |name, strength| Barrier { name, strength };
        let mut barriers = Vec::new();
        if level >= 1 {
            barriers.push(barrier("namespaces", self.namespace_strength()));
            barriers.push(barrier("memory", self.memory_strength()));
            barriers.push(barrier("processes", self.process_strength()));
            barriers.push(barrier("cpuTime", self.cpu_strength()));
        }
        if level >= 2 {
            barriers.push(barrier("landlock", self.landlock_strength()));
            barriers.push(barrier("seccomp", self.seccomp_strength()));
            barriers.push(barrier("staging", self.staging_strength()));
        }
        barriers
    }

    fn namespace_strength(&self) -> Strength {
        match &self.namespaces {
            Ok(()) => Strength::enforced("user, mount, pid, net, ipc, uts and cgroup"),
            Err(why) if self.is_kernel_before(OLDEST) => {
                let (major, minor) = OLDEST;
                Strength::missing(why, format!("use Linux {major}.{minor} or later"))
            }
            Err(why) => Strength::missing(
                why,
                "allow user namespaces: `sysctl user.max_user_namespaces=10000`, on Debian also \
                 `sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu `sysctl \
                 kernel.apparmor_restrict_unprivileged_userns=0`; in a container, run it with a \
                 seccomp profile that allows them",
            ),
        }
    }

    fn is_kernel_before(&self, version: (u32, u32)) -> bool {
        let mut numbers = self.kernel.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let found = numbers.next().and_then(Result::ok).zip(numbers.next().and_then(Result::ok));
        found.is_some_and(|found| found < version)
    }

    fn memory_strength(&self) -> Strength {
        let version = self.cgroup.version();
        if !self.cgroup.has("memory") {
            return Strength::enforced(
                "sampled every 20 ms for the whole tree, an rlimit behind it (no memory cgroup)",
            );
        }
        if self.swap && !self.cgroup.swap {
            return Strength::missing(
                "swap is in use and cannot be limited",
                "boot with `swapaccount=1`, or turn swap off",
            );
        }
        Strength::enforced(version)
    }

    fn process_strength(&self) -> Strength {
        if self.cgroup.has("pids") {
            return Strength::enforced(self.cgroup.version());
        }
        if self.user != 0 {
            return Strength::enforced("counted every 20 ms, the box's own rlimit behind it");
        }
        Strength::missing(
            "the kernel exempts root from the process rlimit and there is no pids cgroup",
            "run as an ordinary user, or in a control group of its own: `systemd-run --scope -p \
             Delegate=yes countersign …`; without systemd, mount the pids controller",
        )
    }

    fn cpu_strength(&self) -> Strength {
        // Every group of version 2 counts it.
        let counted = self.cgroup.mode == CgroupMode::V2 || self.cgroup.has("cpuacct");
        let total = if counted { self.cgroup.version() } else { "sampled from /proc" };
        Strength::enforced(format!("rlimit for each process, {total} for the whole tree"))
    }

    fn landlock_strength(&self) -> Strength {
        match self.landlock {
            0 => Strength::missing(
                "the kernel has no landlock, or it is not switched on",
                "use Linux 5.13 or later with `landlock` in the kernel's `lsm=` list",
            ),
            abi => Strength::enforced(format!("interface version {abi}")),
        }
    }

    fn seccomp_strength(&self) -> Strength {
        if self.seccomp {
            return Strength::enforced("list of allowed system calls");
        }
        Strength::missing(
            "the kernel cannot filter system calls",
            "use a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or arm64",
        )
    }

    fn staging_strength(&self) -> Strength {
        match &self.overlay {
            Ok(()) => Strength::enforced("overlayfs on memory of limited size"),
            Err(why) => Strength::enforced(format!("copies in memory of limited size ({why})")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(kernel: &str, namespaces: Result<(), String>, cgroup: Cgroup) -> Machine {
        Machine {
            kernel: kernel.to_owned(),
            user: 0,
            namespaces,
            overlay: Ok(()),
            landlock: 1,
            seccomp: true,
            cgroup,
            swap: false,
            kvm: false,
            runtime: Vec::new(),
            interpreters: BTreeMap::new(),
        }
    }

    fn version_2(controllers: &[&str], swap: bool) -> Cgroup {
        let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
        Cgroup { mode: CgroupMode::V2, controllers, swap, why: None }
    }

    fn strength(machine: &Machine, name: &str) -> String {
        let barriers = machine.barriers(2);
        let found = barriers.into_iter().find(|barrier| barrier.name == name);
        match found.map(|barrier| barrier.strength) {
            Some(Strength::Enforced(how)) => how,
            Some(Strength::Missing { fix, .. }) => format!("missing: {fix}"),
            None => "unknown".to_owned(),
        }
    }

    #[test]
    fn an_old_kernel_is_told_apart_from_a_forbidding_one() {
        let refused = |kernel| machine(kernel, Err("refused".to_owned()), Cgroup::none("none"));
        for old in ["5.10.0-32-amd64", "5.11", "4.19.0+"] {
            assert_eq!(strength(&refused(old), "namespaces"), "missing: use Linux 5.12 or later");
        }
        for new in ["5.12.0", "6.1.0-48-amd64", "10.0", "odd"] {
            assert!(strength(&refused(new), "namespaces").contains("max_user_namespaces"), "{new}");
        }
    }

    #[test]
    fn version_2_counts_processor_time_without_a_controller() {
        let machine = machine("6.1", Ok(()), version_2(&["memory", "pids"], true));
        assert!(strength(&machine, "cpuTime").contains("cgroup v2"));
        let machine = Machine { cgroup: Cgroup::none("none"), ..machine };
        assert!(strength(&machine, "cpuTime").contains("sampled"));
        assert!(strength(&machine, "processes").contains("systemd-run --scope"));
    }

    #[test]
    fn swap_that_cannot_be_limited_matters_only_when_there_is_some() {
        let idle = machine("6.1", Ok(()), version_2(&["memory", "pids"], false));
        assert_eq!(strength(&idle, "memory"), "cgroup v2");
        let used = Machine { swap: true, ..idle };
        assert!(strength(&used, "memory").contains("swapaccount=1"));
    }
}
