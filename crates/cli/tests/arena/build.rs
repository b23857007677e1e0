//! Compiles the C programs, once a content: what did not change is not compiled again.

use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::{Program, tests};

/// Puts the programs and what they share into `tool`, ready to run by anybody.
pub(crate) fn install(programs: &[Program], tool: &Path) {
    for shared in ["probe.py", "probe.sh"] {
        fs::copy(tests().join("hostile").join(shared), tool.join(shared)).unwrap();
    }
    for program in programs {
        if program.extension() == "c" {
            let suffix = if program.part { ".so" } else { "" };
            let to = tool.join(format!("{}{suffix}", program.stem()));
            fs::copy(compiled(program), to).unwrap();
        } else {
            fs::copy(&program.path, tool.join(program.path.file_name().unwrap())).unwrap();
        }
    }
}

fn compiled(program: &Program) -> PathBuf {
    let flags: &[&str] = match program.part {
        true => &["-O1", "-Wall", "-Wextra", "-shared", "-fPIC"],
        false => &["-O1", "-Wall", "-Wextra", "-pthread"],
    };
    let mut hasher = DefaultHasher::new();
    for source in [&program.path, &tests().join("hostile/probe.h")] {
        fs::read(source).unwrap().hash(&mut hasher);
    }
    flags.hash(&mut hasher);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
    fs::create_dir_all(&directory).unwrap();
    let ready = directory.join(format!("{}-{:016x}", program.stem(), hasher.finish()));
    if !ready.exists() {
        // Several tests may compile the same at once; the last to finish replaces the same by the same.
        let half = tempfile::Builder::new().tempfile_in(&directory).unwrap().into_temp_path();
        let done = Command::new("cc").args(flags).arg(&program.path).arg("-o").arg(&half).output();
        let done = done.unwrap_or_else(|error| panic!("cc, a C compiler, is needed: {error}"));
        assert!(
            done.status.success(),
            "{} does not compile\n{}",
            program.name,
            String::from_utf8_lossy(&done.stderr)
        );
        // Made for its maker alone, but whoever runs the tests next may be somebody else.
        fs::set_permissions(&half, Permissions::from_mode(0o755)).unwrap();
        fs::rename(&half, &ready).unwrap();
    }
    ready
}
