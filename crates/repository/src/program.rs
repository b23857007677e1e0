//! The installed git: where it is, and whether it is new enough.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use countersign_model::Failure;

/// The first version whose `merge-tree` writes trees, and whose settings given at the command line
/// count as protected.
const OLDEST: Version = Version(2, 38, 0);

/// Where programs that git starts are looked for, whatever the environment says.
const PLACES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// A git that was found and asked for its version. Cheap to copy, found once.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    version: Version,
}

impl Program {
    /// The git of this machine. Asked for its version once in the life of a process: every action
    /// needs it, and starting it takes longer than much of what it is started for.
    pub fn find() -> Result<Self, Failure> {
        static FOUND: OnceLock<Program> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Ok(found.clone());
        }
        let found = Self::look()?;
        Ok(FOUND.get_or_init(|| found).clone())
    }

    /// Looks in the usual places first, then along the operator's own path.
    fn look() -> Result<Self, Failure> {
        let own = env::var_os("PATH").unwrap_or_default();
        let places = PLACES.iter().map(PathBuf::from).chain(env::split_paths(&own));
        let found = places
            .filter(|place| place.is_absolute())
            .map(|place| place.join("git"))
            .find(|path| path.is_file());
        Self::at(&found.ok_or_else(missing)?)
    }

    /// The git at a path.
    pub fn at(path: &Path) -> Result<Self, Failure> {
        let asked = Command::new(path)
            .arg("version")
            .env_clear()
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(|_| missing())?;
        let said = String::from_utf8_lossy(&asked.stdout);
        let version = version_in(&said).ok_or_else(missing)?;
        if version < OLDEST {
            return Err(too_old(version));
        }
        Ok(Program { path: path.to_owned(), version })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The search path of git's own children.
    pub(crate) fn search_path(&self) -> String {
        let own = self.path.parent().and_then(Path::to_str);
        let extra = own.filter(|place| !PLACES.contains(place) && !place.contains(':'));
        PLACES.iter().copied().chain(extra).collect::<Vec<_>>().join(":")
    }
}

/// `git version 2.47.3`, and whatever distributions add to it.
fn version_in(said: &str) -> Option<Version> {
    let numbers = said.trim().strip_prefix("git version ")?.split([' ', '-']).next()?;
    let mut parts = numbers.split('.').map_while(|part| part.parse().ok());
    Some(Version(parts.next()?, parts.next()?, parts.next().unwrap_or(0)))
}

fn missing() -> Failure {
    Failure::resource("GIT_MISSING", "git is not installed, or does not start")
        .hint("install git 2.38 or newer")
}

fn too_old(Version(major, minor, patch): Version) -> Failure {
    let message = format!("git {major}.{minor}.{patch} is too old");
    Failure::resource("GIT_TOO_OLD", message).hint("install git 2.38 or newer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        assert_eq!(version_in("git version 2.47.3\n"), Some(Version(2, 47, 3)));
        assert_eq!(version_in("git version 2.39.5 (Apple Git-154)"), Some(Version(2, 39, 5)));
        assert_eq!(version_in("git version 2.50.0-rc1"), Some(Version(2, 50, 0)));
        assert_eq!(version_in("git version 2.38.GIT"), Some(Version(2, 38, 0)));
        assert_eq!(version_in("hub version 2"), None);
    }

    #[test]
    fn a_git_that_is_absent_or_too_old_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("git");
        assert_eq!(Program::at(&path).unwrap_err().code, "GIT_MISSING");
        fs::write(&path, "#!/bin/sh\necho git version 2.37.9\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(Program::at(&path).unwrap_err().code, "GIT_TOO_OLD");
    }
}
