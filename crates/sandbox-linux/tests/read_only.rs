//! A workspace that may only be read: its files are seen, nothing is written, and its sockets do not
//! lead outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops at the first surprise"
)]

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_model::WorkspaceAccess;
use countersign_sandbox::backend::Unwatched;
use countersign_sandbox::{Backend, Job, Spec};
use countersign_sandbox_linux::{LauncherCommand, LinuxSandbox};

const PROGRAM: &str = r#"
import socket
print(open("/workspace/text").read())
for path in ["/workspace/text", "/workspace/new"]:
    try:
        open(path, "w")
        print("written")
    except OSError as error:
        print(error.strerror)
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("/workspace/door")
    print("connected")
except OSError as error:
    print(error.strerror)
"#;

#[test]
fn a_workspace_that_is_only_read_leads_nowhere() {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_countersign-launcher"));
    let sandbox = LinuxSandbox::new(LauncherCommand { program, arguments: Vec::new() });
    if let Err(why) = &sandbox.machine().namespaces {
        println!("skipped: {why}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("text"), "hello").unwrap();
    let _listener = UnixListener::bind(dir.path().join("door")).unwrap();
    let mut spec = Spec::of(["python3", "-c", PROGRAM].map(str::to_owned).to_vec());
    spec.workspace = Some((dir.path().to_owned(), WorkspaceAccess::Read));
    let plan = Arc::new(sandbox.plan(&spec).unwrap());
    let job = Job { plan, input: Vec::new(), spill: std::env::temp_dir(), gateway: None, warm: 0 };
    let ended = sandbox.run(job, &mut Unwatched).unwrap();
    let said = String::from_utf8(ended.stdout.inline).unwrap();
    assert_eq!(said, "hello\nRead-only file system\nRead-only file system\nConnection refused\n");
    assert!(ended.staged.workspace.is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}
