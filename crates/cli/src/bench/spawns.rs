//! Programs started without our sandbox, for comparison.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_model::Failure;

/// The smallest program, where this machine has it.
pub(super) fn smallest_program() -> PathBuf {
    let usual = Path::new("/usr/bin/true");
    if usual.exists() { usual.to_owned() } else { PathBuf::from("/bin/true") }
}

/// Starts a program and waits for it, with nothing around it.
pub(super) fn bare(program: &Path) -> Result<(), Failure> {
    finish(Command::new(program))
}

/// The widespread alternative, asked for what it can do of what our box does.
pub(super) struct Bubblewrap {
    arguments: Vec<String>,
}

impl Bubblewrap {
    /// `Err` says why it is left out.
    pub(super) fn find(program: &Path) -> Result<Self, String> {
        let bubblewrap = Bubblewrap { arguments: arguments(program) };
        let tried = Command::new("bwrap").args(&bubblewrap.arguments).stdin(Stdio::null()).output();
        match tried {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err("it is not installed".to_owned())
            }
            Err(error) => Err(error.to_string()),
            Ok(output) if output.status.success() => Ok(bubblewrap),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut command = Command::new("bwrap");
        command.args(&self.arguments);
        finish(command)
    }
}

fn arguments(program: &Path) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
            .map(str::to_owned)
            .to_vec();
    for place in ["/usr", "/bin", "/sbin", "/lib", "/lib64"] {
        let path = Path::new(place);
        if let Ok(target) = path.read_link() {
            let target = target.display().to_string();
            arguments.extend(["--symlink".to_owned(), target, place.to_owned()]);
        } else if path.exists() {
            arguments.extend(["--ro-bind", place, place].map(str::to_owned));
        }
    }
    arguments.extend(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"].map(str::to_owned));
    arguments.push(program.display().to_string());
    arguments
}

fn finish(mut command: Command) -> Result<(), Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(&status)),
        Err(error) => Err(failed(&error)),
    }
}

fn failed(what: &dyn std::fmt::Display) -> Failure {
    Failure::resource("BENCH_FAILED", format!("the measurement failed: {what}"))
        .hint("see what this machine can do with `countersign doctor`")
}
