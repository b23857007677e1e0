//! A backend with a place of its own, and guests written as text.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_model::Failure;
use countersign_sandbox::backend::Unwatched;
use countersign_sandbox::{Backend, Ended, Ending, Job, LimitKind, Observer, Spec};
use countersign_sandbox_wasm::{Options, WasmBackend};
use tempfile::TempDir;

pub struct Bench {
    pub backend: WasmBackend,
    pub home: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(Options { slots: 8, cache: None })
    }

    pub fn with(options: Options) -> Self {
        let backend = WasmBackend::new(options).unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("spill")).unwrap();
        Bench { backend, home }
    }

    pub fn spill(&self) -> PathBuf {
        self.home.path().join("spill")
    }

    /// A new directory.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    }

    /// What is wanted for a module that is written as text, with short limits.
    pub fn spec(&self, text: impl AsRef<str>) -> Spec {
        self.spec_of(&assemble(text))
    }

    /// The same for the bytes of a file.
    pub fn spec_of(&self, bytes: &[u8]) -> Spec {
        let path = self.home.path().join(format!("{}.wasm", countersign_model::Digest::of(bytes)));
        std::fs::write(&path, bytes).unwrap();
        let mut spec = Spec::of(vec!["guest".to_owned()]);
        spec.module = Some(path);
        spec.limits.wall_ms = 20_000;
        spec
    }

    pub fn job(&self, spec: &Spec, input: &[u8]) -> Result<Job, Failure> {
        Ok(Job {
            plan: Arc::new(self.backend.plan(spec)?),
            input: input.to_vec(),
            spill: self.spill(),
            gateway: None,
            warm: 0,
        })
    }

    pub fn run(&self, spec: &Spec) -> Ended {
        self.run_watched(spec, b"", &mut Unwatched)
    }

    pub fn run_with(&self, spec: &Spec, input: &[u8]) -> Ended {
        self.run_watched(spec, input, &mut Unwatched)
    }

    pub fn run_watched(&self, spec: &Spec, input: &[u8], observer: &mut dyn Observer) -> Ended {
        let job = self.job(spec, input).unwrap();
        self.backend.run(job, observer).unwrap()
    }

    /// The exit code of a guest that is expected to have one.
    pub fn code(&self, spec: &Spec) -> i32 {
        let ended = self.run(spec);
        match ended.ending {
            Ending::Exited { code } => code,
            other => panic!("{other:?}: {}", String::from_utf8_lossy(&ended.stderr.inline)),
        }
    }

    /// Directories in the spill place that do not belong to a living backend's root.
    pub fn entries(&self) -> usize {
        std::fs::read_dir(self.spill()).unwrap().count()
    }
}

pub fn assemble(text: impl AsRef<str>) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

pub fn limit(limit: LimitKind) -> Ending {
    Ending::Limit { limit }
}

/// A preview 1 module: functions in `body`, one page of memory and more on demand.
pub fn module(body: &str) -> String {
    let import = |name: &str, kind: &str| {
        format!("(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} {kind}))\n")
    };
    let four = "(param i32 i32 i32 i32) (result i32)";
    let two = "(param i32 i32) (result i32)";
    let three = "(param i32 i32 i32) (result i32)";
    let open = "(param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)";
    let imports = [
        import("fd_write", four),
        import("fd_read", four),
        import("fd_close", "(param i32) (result i32)"),
        import("fd_filestat_set_size", "(param i32 i64) (result i32)"),
        import("path_open", open),
        import("path_create_directory", three),
        import("path_unlink_file", three),
        import("path_symlink", "(param i32 i32 i32 i32 i32) (result i32)"),
        import("poll_oneoff", four),
        import("proc_exit", "(param i32)"),
        import("environ_sizes_get", two),
        import("environ_get", two),
        import("args_sizes_get", two),
        import("args_get", two),
    ];
    format!("(module {} (memory (export \"memory\") 2) {body})", imports.concat())
}

/// A module whose `_start` is this.
pub fn start(code: &str) -> String {
    module(&format!("(func (export \"_start\") (local $i i32) {code})"))
}

/// Writes `text` to a stream.
pub fn say(stream: u8, text: &str) -> String {
    let escaped: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    module(&format!(
        "(data (i32.const 0) \"\\10\\00\\00\\00\") (data (i32.const 4) \"\\{:02x}\\00\\00\\00\")
         (data (i32.const 16) \"{escaped}\")
         (func (export \"_start\")
           (drop (call $fd_write (i32.const {stream}) (i32.const 0) (i32.const 1) (i32.const 8))))",
        text.len()
    ))
}

/// The descriptors that guests find their directories at, in the order of the plan.
pub const TMP: u8 = 3;
pub const OUT: u8 = 4;
/// The first of `/tool`, `/in` and `/workspace` that the plan has.
pub const FIRST: u8 = 5;

pub const READ: u8 = 0;
pub const CREATE: u8 = 1;

/// Opens a path and, where it is created, writes to it; exits with the first error number.
pub fn open(directory: u8, path: &str, oflags: u8) -> String {
    let write = if oflags == CREATE {
        "(call $check (call $fd_write (i32.load (i32.const 8)) (i32.const 0) (i32.const 1) (i32.const 12)))"
    } else {
        ""
    };
    // Rights to read, and to write where the file is made.
    let rights = if oflags == CREATE { 0x42 } else { 0x2 };
    module(&format!(
        "(data (i32.const 0) \"\\10\\00\\00\\00\\05\\00\\00\\00\") (data (i32.const 16) \"hello\")
         (data (i32.const 64) \"{path}\")
         (func $check (param i32) (if (local.get 0) (then (call $proc_exit (local.get 0)))))
         (func (export \"_start\")
           (call $check (call $path_open (i32.const {directory}) (i32.const 1) (i32.const 64)
             (i32.const {}) (i32.const {oflags}) (i64.const {rights}) (i64.const 0) (i32.const 0) (i32.const 8)))
           {write})",
        path.len()
    ))
}
