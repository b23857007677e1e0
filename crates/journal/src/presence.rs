//! Which processes are alive on this machine.
//!
//! Each process at work on a home holds an exclusive lock on a file named after its host id. The
//! kernel drops the lock when the process ends, however it ends, so a call can be taken over from a
//! dead process at once and is never taken from a slow one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign_model::HostId;
use rustix::fs::{FlockOperation, flock};

use crate::error::JournalError;

/// This process is alive for as long as this value is.
#[derive(Debug)]
pub struct Presence {
    host: HostId,
    path: PathBuf,
    _locked: File,
}

impl Presence {
    pub fn announce(dir: &Path, host: HostId) -> Result<Self, JournalError> {
        fs::create_dir_all(dir)?;
        let path = dir.join(host.to_string());
        // Locked before it has its name, so that nobody can see it unlocked and call us dead.
        let unnamed = dir.join(format!(".{host}"));
        let file = OpenOptions::new().write(true).create_new(true).open(&unnamed)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from)?;
        fs::rename(&unnamed, &path)?;
        Ok(Presence { host, path, _locked: file })
    }

    pub fn host(&self) -> HostId {
        self.host
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the process behind `host` still runs.
pub fn is_alive(dir: &Path, host: HostId) -> Result<bool, JournalError> {
    match File::open(dir.join(host.to_string())) {
        Ok(file) => match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(io::Error::from(error).into()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the files of dead processes.
pub fn sweep(dir: &Path) -> Result<(), JournalError> {
    for file in fs::read_dir(dir)? {
        let file = file?;
        let name = file.file_name();
        let dead = match name.to_str().map(|name| (name.parse::<HostId>(), name.starts_with('.'))) {
            Some((Ok(host), _)) => !is_alive(dir, host)?,
            // Unnamed still: its process is about to lock it, or died before it could.
            Some((Err(_), true)) => is_old(&file),
            _ => false,
        };
        if dead {
            let _ = fs::remove_file(file.path());
        }
    }
    Ok(())
}

fn is_old(file: &fs::DirEntry) -> bool {
    let age =
        file.metadata().and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age > Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_host_is_alive_while_it_is_present() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostId::from_uuid(Uuid::now_v7());
        assert!(!is_alive(dir.path(), host).unwrap());
        let presence = Presence::announce(dir.path(), host).unwrap();
        assert!(is_alive(dir.path(), host).unwrap());
        sweep(dir.path()).unwrap();
        assert!(is_alive(dir.path(), host).unwrap(), "a sweep leaves the living alone");
        drop(presence);
        assert!(!is_alive(dir.path(), host).unwrap());

        // A file that nobody locks is what a killed process leaves behind.
        fs::write(dir.path().join(host.to_string()), "").unwrap();
        assert!(!is_alive(dir.path(), host).unwrap());
        sweep(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
