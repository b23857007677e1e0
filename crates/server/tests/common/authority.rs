//! Certificates for tests, made by the installed openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_server::serve::TlsFiles;

pub struct Authority {
    pub folder: tempfile::TempDir,
    pub bundle: PathBuf,
    pub files: TlsFiles,
}

impl Authority {
    /// An authority, and a certificate of it for localhost. Nothing without openssl.
    pub fn new() -> Option<Authority> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(
            at("leaf.ext"),
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n",
        )
        .unwrap();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        let made = run(
            folder.path(),
            &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=test-authority"),
        ) && run(
            folder.path(),
            &format!("req {key} -keyout leaf.key -out leaf.csr -subj /CN=localhost"),
        ) && run(
            folder.path(),
            "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile leaf.ext -out leaf.pem",
        );
        if !made {
            eprintln!("skipped: there is no openssl that makes certificates");
            return None;
        }
        set_mode(&at("leaf.key"), 0o600);
        let files = TlsFiles { certificates: at("leaf.pem"), key: at("leaf.key") };
        Some(Authority { bundle: at("ca.pem"), files, folder })
    }
}

pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn run(folder: &Path, words: &str) -> bool {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(words.split(' '));
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}
