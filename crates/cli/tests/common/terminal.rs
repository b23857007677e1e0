//! A terminal for a command to write to.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::Bench;

impl Bench {
    /// Runs a command whose output and errors go to a terminal; its exit code and what is on it.
    pub(crate) fn on_a_terminal(&self, args: &[&str]) -> (i32, String) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let open = || File::options().read(true).write(true).open(&name).unwrap();
        let mut command = self.command(args);
        command.stdin(Stdio::null()).stdout(open()).stderr(open()).env("TERM", "xterm");
        let mut child = command.spawn().unwrap();
        // Ours would keep the terminal open for ever.
        drop(command);
        let mut ours = File::from(ours);
        let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
        // The end of a terminal is an error, EIO.
        while let Ok(count @ 1..) = ours.read(&mut piece) {
            seen.extend_from_slice(&piece[..count]);
        }
        let code = child.wait().unwrap().code().unwrap_or(-1);
        (code, String::from_utf8_lossy(&seen).into_owned())
    }
}
