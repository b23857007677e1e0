//! A backend that runs no program: a script of the test's plays the program's part, in a staging
//! directory that looks like a real one.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_host::Backends;
use countersign_model::event::{Connection, Usage};
use countersign_model::{Failure, WorkspaceAccess};
use countersign_sandbox::backend::{StagedForm, StagedWorkspace};
use countersign_sandbox::machine::{Cgroup, CgroupMode};
use countersign_sandbox::{
    Backend, Capture, Ended, Ending, Gateway, GatewaySession, Job, Machine, Observer, Plan,
    SetupOp, Spec, Staged, compile,
};
use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use serde_json::{Value, json};
use tempfile::TempDir;

type Script = Box<dyn Fn(&mut Box_<'_>) -> Ending + Send + Sync>;

pub struct Boxes {
    machine: Machine,
    form: StagedForm,
    script: Script,
    kept: Mutex<Vec<TempDir>>,
    pub runs: AtomicU32,
    /// The plan of the last run.
    pub plan: Mutex<Option<Plan>>,
    /// The next run does not even start.
    pub broken: AtomicBool,
}

impl std::fmt::Debug for Boxes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Boxes")
    }
}

/// One run, as the script sees it.
pub struct Box_<'o> {
    pub input: Value,
    /// What stands for `/in`.
    pub inputs: Option<PathBuf>,
    /// What stands for `/workspace`, and the original behind it.
    pub staged: PathBuf,
    pub original: Option<PathBuf>,
    pub out: PathBuf,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub connections: Vec<Connection>,
    form: StagedForm,
    observer: &'o mut dyn Observer,
}

pub const DONE: Ending = Ending::Exited { code: 0 };

impl Boxes {
    pub fn new(
        form: StagedForm,
        script: impl Fn(&mut Box_<'_>) -> Ending + Send + Sync + 'static,
    ) -> Arc<Self> {
        let mut machine = able();
        if form == StagedForm::Whole {
            machine.overlay = Err("not here".to_owned());
        }
        Self::on(machine, form, script)
    }

    pub fn on(
        machine: Machine,
        form: StagedForm,
        script: impl Fn(&mut Box_<'_>) -> Ending + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Boxes {
            machine,
            form,
            script: Box::new(script),
            kept: Mutex::default(),
            runs: AtomicU32::new(0),
            plan: Mutex::default(),
            broken: AtomicBool::new(false),
        })
    }

    pub fn backends(self: &Arc<Self>) -> Backends {
        let backend: Arc<dyn Backend> = self.clone();
        Backends {
            process: Some(backend.clone()),
            wasm: Some(backend),
            gateway: Some(Arc::new(NoGateway)),
        }
    }

    fn directory(&self) -> PathBuf {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        self.kept.lock().unwrap().push(dir);
        path
    }
}

/// A machine that can enforce everything.
pub fn able() -> Machine {
    Machine {
        kernel: "6.12".to_owned(),
        user: 1000,
        namespaces: Ok(()),
        overlay: Ok(()),
        landlock: 5,
        seccomp: true,
        cgroup: Cgroup {
            mode: CgroupMode::V2,
            controllers: vec!["memory".to_owned(), "pids".to_owned(), "cpu".to_owned()],
            swap: true,
            why: None,
        },
        swap: false,
        kvm: false,
        runtime: Vec::new(),
        interpreters: BTreeMap::new(),
    }
}

#[derive(Debug)]
struct NoGateway;

impl Gateway for NoGateway {
    fn open(
        &self,
        _: std::net::TcpListener,
        _: &[String],
    ) -> Result<Box<dyn GatewaySession>, Failure> {
        Err(Failure::resource("NO_GATEWAY", "nothing is connected in tests"))
    }
}

impl Backend for Boxes {
    fn name(&self) -> &'static str {
        "boxes"
    }

    fn plan(&self, spec: &Spec) -> Result<Plan, Failure> {
        compile(spec, &self.machine)
    }

    fn run(&self, job: Job, observer: &mut dyn Observer) -> Result<Ended, Failure> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        *self.plan.lock().unwrap() = Some((*job.plan).clone());
        if self.broken.load(Ordering::SeqCst) {
            return Err(Failure::resource("HOST_EXHAUSTED", "no more processes"));
        }
        let original = original(&job.plan);
        let (staged, out) = (self.directory(), self.directory());
        if let (Some((from, _)), StagedForm::Whole) = (&original, self.form) {
            copy(from, &staged);
        }
        let mut inside = Box_ {
            input: match job.input.is_empty() {
                true => Value::Null,
                false => serde_json::from_slice(&job.input).unwrap(),
            },
            inputs: shown(&job.plan, "/in"),
            staged: staged.clone(),
            original: original.as_ref().map(|(path, _)| path.clone()),
            out: out.clone(),
            stdout: br#"{"done":true}"#.to_vec(),
            stderr: Vec::new(),
            connections: Vec::new(),
            form: self.form,
            observer,
        };
        let ending = (self.script)(&mut inside);
        let capture = |bytes: &[u8]| {
            let mut capture = Capture::new(1 << 20, 16 << 20, &job.spill);
            capture.take(bytes).unwrap().unwrap();
            capture.finish()
        };
        let (stdout, stderr) = (capture(&inside.stdout), capture(&inside.stderr));
        let writes = original.is_some_and(|(_, access)| access == WorkspaceAccess::Write);
        let workspace =
            writes.then(|| StagedWorkspace { directory: open(&staged), form: self.form });
        #[allow(clippy::needless_update, reason = "backends may stage more than this one")]
        let staged = Staged { out: Some(open(&out)), workspace, ..Staged::default() };
        Ok(Ended {
            ending,
            stdout,
            stderr,
            usage: Usage { cpu_micros: 7, ..Usage::default() },
            wall_ms: 1,
            connections: inside.connections,
            staged,
        })
    }
}

fn open(path: &Path) -> OwnedFd {
    fs::File::open(path).unwrap().into()
}

/// The host directory that the plan shows as `/workspace`.
fn original(plan: &Plan) -> Option<(PathBuf, WorkspaceAccess)> {
    plan.sandbox.iter().find_map(|op| match op {
        SetupOp::Overlay { source, target, .. } | SetupOp::Copy { source, target, .. }
            if target == "/workspace" =>
        {
            Some((PathBuf::from(source), WorkspaceAccess::Write))
        }
        SetupOp::Bind { source, target } if target == "/workspace" => {
            Some((PathBuf::from(source), WorkspaceAccess::Read))
        }
        _ => None,
    })
}

fn shown(plan: &Plan, place: &str) -> Option<PathBuf> {
    plan.sandbox.iter().find_map(|op| match op {
        SetupOp::Overlay { source, target, .. } | SetupOp::Bind { source, target }
            if target == place =>
        {
            Some(PathBuf::from(source))
        }
        _ => None,
    })
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&path, &target);
            fs::set_permissions(&target, fs::metadata(&path).unwrap().permissions()).unwrap();
        } else if kind.is_symlink() {
            symlink(fs::read_link(&path).unwrap(), target).unwrap();
        } else if kind.is_file() {
            fs::copy(&path, target).unwrap();
        }
    }
}

impl Box_<'_> {
    /// What the program of a real box would do with `/workspace/NAME`.
    pub fn write(&self, name: &str, content: &str) {
        let path = self.prepare(name);
        // A whiteout gives way to what is written in its place.
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            fs::remove_file(&path).unwrap();
        }
        fs::write(&path, content).unwrap();
        // A file that is changed keeps its permissions.
        if let Some(before) = self.before(name).filter(|before| before.is_file()) {
            fs::set_permissions(path, fs::metadata(before).unwrap().permissions()).unwrap();
        }
    }

    pub fn delete(&self, name: &str) {
        let path = self.prepare(name);
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        let hidden = self.before(name).is_some_and(|path| fs::symlink_metadata(path).is_ok());
        if hidden && self.form == StagedForm::Upper {
            let device = FileType::CharacterDevice;
            rustix::fs::mknodat(CWD, &path, device, Mode::empty(), 0).unwrap();
        }
    }

    pub fn make_directory(&self, name: &str) {
        let path = self.prepare(name);
        let _ = fs::remove_file(&path);
        fs::create_dir(&path).unwrap();
        let hides = self.before(name).is_some_and(|path| path.is_dir());
        if hides && self.form == StagedForm::Upper {
            let flags = XattrFlags::empty();
            rustix::fs::setxattr(&path, "user.overlay.opaque", b"y", flags).unwrap();
        }
    }

    pub fn link(&self, name: &str, target: &str) {
        let path = self.prepare(name);
        let _ = fs::remove_file(&path);
        symlink(target, path).unwrap();
    }

    pub fn chmod(&self, name: &str, mode: u32) {
        let path = self.prepare(name);
        if let Some(before) = self.before(name).filter(|_| !path.exists()) {
            match before.is_dir() {
                true => fs::create_dir(&path).unwrap(),
                false => drop(fs::copy(before, &path).unwrap()),
            }
        }
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn before(&self, name: &str) -> Option<PathBuf> {
        self.original.as_ref().map(|original| original.join(name))
    }

    /// Directories are copied up before anything in them can change.
    fn prepare(&self, name: &str) -> PathBuf {
        let mut path = self.staged.clone();
        let mut parts: Vec<_> = name.split('/').collect();
        let last = parts.pop().unwrap();
        let mut before = self.original.clone().unwrap_or_default();
        for part in parts {
            (path, before) = (path.join(part), before.join(part));
            if !path.is_dir() {
                let _ = fs::remove_file(&path);
                fs::create_dir(&path).unwrap();
                if let Ok(metadata) = fs::metadata(&before)
                    && metadata.is_dir()
                {
                    fs::set_permissions(&path, metadata.permissions()).unwrap();
                }
            }
        }
        path.join(last)
    }

    /// What the program sees at a path: as it changed it, or as it was.
    fn seen(&self, name: &str) -> Option<fs::Metadata> {
        let mut hidden = false;
        let mut path = self.staged.clone();
        for part in name.split('/') {
            path = path.join(part);
            match fs::symlink_metadata(&path) {
                Ok(found) if !found.is_dir() && !found.is_file() && !found.is_symlink() => {
                    return None;
                }
                Ok(found) if !found.is_dir() => hidden = true,
                Ok(_) => {
                    let mut value = [0u8; 8];
                    let opaque = rustix::fs::getxattr(&path, "user.overlay.opaque", &mut value[..]);
                    hidden |= opaque.is_ok();
                }
                Err(_) => {}
            }
        }
        let staged = fs::symlink_metadata(&path).ok();
        let lower = self.before(name).filter(|_| self.form == StagedForm::Upper && !hidden);
        staged.or_else(|| lower.and_then(|path| fs::symlink_metadata(path).ok()))
    }

    /// Removes what stands in the way of a file at `name`.
    fn make_room(&self, name: &str) {
        for (at, _) in name.match_indices('/') {
            let parent = &name[..at];
            if self.seen(parent).is_some_and(|found| !found.is_dir()) {
                self.delete(parent);
            }
        }
        if self.seen(name).is_some_and(|found| found.is_dir() || found.is_symlink()) {
            self.delete(name);
        }
    }

    /// Runs until somebody outside ends it.
    pub fn wait(&mut self) -> Ending {
        loop {
            if let Err(failure) = self.observer.tick() {
                return Ending::Stopped { failure };
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A program that changes what its input says: a value to be written, `-> TARGET` for a link,
/// nothing for a removal. Whatever is in the way goes.
pub fn obedient(inside: &mut Box_<'_>) -> Ending {
    for change in inside.input["files"].as_array().cloned().unwrap_or_default() {
        let name = change["name"].as_str().unwrap();
        match change["value"].as_str() {
            None => inside.delete(name),
            Some(value) => {
                inside.make_room(name);
                match value.strip_prefix("-> ") {
                    Some(target) => inside.link(name, target),
                    None => inside.write(name, value),
                }
            }
        }
    }
    match inside.input["fail"] == true {
        true => Ending::Exited { code: 1 },
        false => DONE,
    }
}

/// The declaration of a program that may change its workspace.
pub fn program(id: &str) -> Value {
    let anything = json!({"type": "string", "description": "A text"});
    let mut declaration = super::tools::declare(
        id,
        "",
        &json!({
            "what": anything,
            "files": {
                "type": "array", "description": "Changes",
                "items": {
                    "type": "object", "description": "One change",
                    "properties": {"name": anything, "value": anything},
                    "required": ["name"], "additionalProperties": false
                }
            },
            "fail": {"type": "boolean", "description": "Fails"}
        }),
        &["filesystem.read", "filesystem.write", "filesystem.delete"],
        false,
    );
    declaration["runtime"] = json!({
        "kind": "process", "command": ["python3", "/tool/main.py"], "files": "./files",
        "workspace": "write",
    });
    declaration
}
