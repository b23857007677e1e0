//! Commands in the sandbox, as whoever runs the tests and, if that is root, as nobody too.
#![allow(clippy::print_stdout, reason = "what is left out is said")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{BIN, Output, clean, collect};

/// A user with no rights at all.
const NOBODY: &str = "65534";

/// A directory that everybody can reach, with the binary in it.
pub(crate) struct Place {
    dir: TempDir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Me,
    Nobody,
}

impl Place {
    /// `None`, and it is said, where the machine makes no namespaces.
    pub(crate) fn new() -> Option<Self> {
        let dir = TempDir::new().unwrap();
        open_to_all(dir.path());
        // Copied by somebody else: what another test starts while this process still holds the file
        // open for writing would keep it busy.
        let copied = Command::new("cp").arg(BIN).arg(dir.path().join("countersign")).status();
        assert!(copied.unwrap().success());
        let place = Place { dir };
        let doctor = place.run(Who::Me, &["doctor", "--json"]).json();
        if doctor["namespaces"]["works"] == true {
            return Some(place);
        }
        println!("skipped: this machine makes no namespaces: {}", doctor["namespaces"]["why"]);
        None
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    /// A directory below, for everybody to read.
    pub(crate) fn directory(&self, name: &str, files: &[(&str, &str)]) -> String {
        let directory = self.path().join(name);
        fs::create_dir(&directory).unwrap();
        open_to_all(&directory);
        for (file, content) in files {
            fs::write(directory.join(file), content).unwrap();
        }
        directory.display().to_string()
    }

    pub(crate) fn command(&self, who: Who, args: &[&str]) -> Command {
        let binary = self.path().join("countersign");
        let mut command = match who {
            Who::Me => clean(Command::new(binary)),
            Who::Nobody => {
                let mut command = clean(Command::new("setpriv"));
                command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(binary);
                command
            }
        };
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, who: Who, args: &[&str]) -> Output {
        collect(self.command(who, args).output().unwrap())
    }

    /// `sandbox run OPTIONS -- COMMAND`, as text.
    pub(crate) fn boxed(&self, who: Who, options: &[&str], command: &[&str]) -> Output {
        self.run(who, &[&["sandbox", "run"], options, &["--"], command].concat())
    }

    /// The same as JSON, which must agree with the exit code.
    pub(crate) fn boxed_json(&self, who: Who, options: &[&str], command: &[&str]) -> Value {
        let output = self.boxed(who, &[options, &["--json"]].concat(), command);
        let report = output.json();
        assert_eq!(report["exitCode"], output.code, "{report:#}");
        assert_eq!(report["success"], output.code == 0, "{report:#}");
        report
    }
}

fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Those who can run the tests here.
pub(crate) fn everybody() -> Vec<Who> {
    let is_root = rustix::process::geteuid().is_root();
    let can_be_nobody = is_root && Command::new("setpriv").arg("--version").output().is_ok();
    if can_be_nobody {
        return vec![Who::Me, Who::Nobody];
    }
    println!("skipped: an ordinary user beside root, which takes root and setpriv");
    vec![Who::Me]
}
