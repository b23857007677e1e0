//! How much of its workspace a call may change: the four modes of the action contract. A mode is a
//! ceiling above what grants allow, never a grant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::capability::Capability;
use crate::error::Failure;

/// Ordered: each mode allows all that the ones before it allow.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// Nothing is changed, and nothing is sent.
    ReadOnly,
    /// Files of the workspace may change, but not what its version control keeps.
    #[default]
    WorkspaceWrite,
    /// Branches and commits too, but not what version control executes.
    RepoWrite,
    /// All that grants allow. Always asks a human.
    DangerFullAccess,
}

impl SandboxMode {
    pub const ALL: [SandboxMode; 4] = [
        SandboxMode::ReadOnly,
        SandboxMode::WorkspaceWrite,
        SandboxMode::RepoWrite,
        SandboxMode::DangerFullAccess,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            SandboxMode::ReadOnly => "read_only",
            SandboxMode::WorkspaceWrite => "workspace_write",
            SandboxMode::RepoWrite => "repo_write",
            SandboxMode::DangerFullAccess => "danger_full_access",
        }
    }

    /// Whether a call in this mode may use a capability at all.
    pub fn allows(self, capability: Capability) -> bool {
        use Capability as C;
        let changes = matches!(
            capability,
            C::FilesystemWrite
                | C::FilesystemDelete
                | C::NetworkHttp
                | C::NetworkHttps
                | C::NetworkTcp
                | C::NetworkUdp
                | C::ProcessKill
                | C::ProcessSignal
                | C::StateWrite
                | C::StateDelete
                | C::AdminCapabilityGrant
                | C::AdminCapabilityRevoke
                | C::AdminToolInstall
        );
        self > SandboxMode::ReadOnly || !changes
    }

    /// Whether a call in this mode may change a path, which is relative to the workspace.
    pub fn allows_change(self, path: &str) -> bool {
        self >= control(path).map_or(SandboxMode::WorkspaceWrite, Control::least)
    }

    /// Likewise for a path that is relative to a directory which serves version control as its
    /// `.git`, whatever that directory is called.
    pub fn allows_change_in_control(self, path: &str) -> bool {
        let lower = path.to_ascii_lowercase();
        let parts: Vec<&str> = lower.split('/').filter(|part| !part.is_empty()).collect();
        self >= inside(&parts).least()
    }
}

/// What a path is to version control.
enum Control {
    /// Its records.
    Record,
    /// Something that it executes, or that tells it what to execute.
    Executed,
}

impl Control {
    /// The least that a change of it takes.
    fn least(self) -> SandboxMode {
        match self {
            Control::Record => SandboxMode::RepoWrite,
            Control::Executed => SandboxMode::DangerFullAccess,
        }
    }
}

/// What version control keeps and never executes. Everything else beneath `.git` may tell it what to
/// run, or where to look for that.
const RECORDS: [&str; 17] = [
    "auto_merge",
    "cherry_pick_head",
    "commit_editmsg",
    "fetch_head",
    "head",
    "index",
    "logs",
    "merge_head",
    "merge_mode",
    "merge_msg",
    "objects",
    "orig_head",
    "packed-refs",
    "refs",
    "revert_head",
    "shallow",
    "squash_msg",
];

/// The strictest over every `.git` in a path, compared without regard to case: some file systems do
/// not know the difference.
fn control(path: &str) -> Option<Control> {
    let lower = path.to_ascii_lowercase();
    let parts: Vec<&str> = lower.split('/').filter(|part| !part.is_empty()).collect();
    let mut found = None;
    for (at, _) in parts.iter().enumerate().filter(|(_, part)| **part == ".git") {
        match inside(parts.get(at + 1..).unwrap_or_default()) {
            Control::Executed => return Some(Control::Executed),
            Control::Record => found = Some(Control::Record),
        }
    }
    found
}

/// `.git` itself may become a file or a link that leads elsewhere.
fn inside(rest: &[&str]) -> Control {
    match rest {
        ["info", "exclude"] => Control::Record,
        ["objects", "info", ..] => Control::Executed,
        [first, ..] if RECORDS.contains(first) => Control::Record,
        _ => Control::Executed,
    }
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for SandboxMode {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|mode| mode.as_str()).collect();
            Failure::validation("MODE_UNKNOWN", format!("`{text}` is not a sandbox mode"))
                .hint(format!("modes are {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_allows_what_the_ones_before_it_allow() {
        for pair in SandboxMode::ALL.windows(2) {
            for capability in Capability::ALL {
                assert!(!pair[0].allows(*capability) || pair[1].allows(*capability));
            }
            for path in ["a", ".git/HEAD", ".git/hooks/pre-commit", "sub/.git/config"] {
                assert!(!pair[0].allows_change(path) || pair[1].allows_change(path), "{path}");
            }
        }
        assert!(!SandboxMode::ReadOnly.allows(Capability::NetworkHttps));
        assert!(SandboxMode::ReadOnly.allows(Capability::FilesystemRead));
    }

    #[test]
    fn version_control_is_changed_only_where_the_mode_says_so() {
        for (path, least) in [
            ("src/main.rs", SandboxMode::WorkspaceWrite),
            (".gitignore", SandboxMode::WorkspaceWrite),
            ("docs/.github", SandboxMode::WorkspaceWrite),
            (".git", SandboxMode::DangerFullAccess),
            ("/srv/app/.git/HEAD", SandboxMode::RepoWrite),
            (".git/commondir", SandboxMode::DangerFullAccess),
            (".git/rebase-merge/git-rebase-todo", SandboxMode::DangerFullAccess),
            (".git/objects/info/alternates", SandboxMode::DangerFullAccess),
            (".git/objects/ab/cdef", SandboxMode::RepoWrite),
            (".git/refs/x/.git/hooks/h", SandboxMode::DangerFullAccess),
            (".git/refs/heads/main", SandboxMode::RepoWrite),
            ("vendor/x/.GIT/index", SandboxMode::RepoWrite),
            (".git/hooks", SandboxMode::DangerFullAccess),
            (".Git/Hooks/post-checkout", SandboxMode::DangerFullAccess),
            (".git/config", SandboxMode::DangerFullAccess),
            (".git/info/attributes", SandboxMode::DangerFullAccess),
            (".git/info/exclude", SandboxMode::RepoWrite),
        ] {
            let found = SandboxMode::ALL.into_iter().find(|mode| mode.allows_change(path));
            assert_eq!(found, Some(least), "{path}");
        }
    }

    #[test]
    fn a_control_directory_of_any_name_is_held_to_the_same() {
        for (path, least) in [
            ("", SandboxMode::DangerFullAccess),
            ("HEAD", SandboxMode::RepoWrite),
            ("refs/heads/main", SandboxMode::RepoWrite),
            ("Hooks/pre-commit", SandboxMode::DangerFullAccess),
            ("worktrees/w/HEAD", SandboxMode::DangerFullAccess),
        ] {
            let allows = |mode: &SandboxMode| mode.allows_change_in_control(path);
            assert_eq!(SandboxMode::ALL.into_iter().find(allows), Some(least), "{path}");
        }
    }

    #[test]
    fn modes_are_read_as_they_are_written() {
        for mode in SandboxMode::ALL {
            assert_eq!(mode.to_string().parse::<SandboxMode>().unwrap(), mode);
        }
        assert_eq!("danger".parse::<SandboxMode>().unwrap_err().code, "MODE_UNKNOWN");
    }
}
