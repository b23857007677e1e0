//! A home with programs that change workspaces, calls that are struck while they run, and what must
//! hold afterwards.

pub(crate) mod model;
pub(crate) mod strike;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::common::{BIN, Output, clean, collect};
use super::leftovers::Before;
use model::{differences, look, make, state};
use strike::{FAULTS, Fault};

/// Nothing takes so long. Nothing is measured by it.
const GUARD: Duration = Duration::from_secs(60);

/// Chance that can be had again.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A directory that some call works in, and what may be known of its state: after a host was killed
/// its call may or may not have been committed.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) path: PathBuf,
    low: u64,
    high: u64,
}

/// What happened, to be looked at by people.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// For each fault: how often it struck, and how often the call was faster.
    pub(crate) faults: BTreeMap<&'static str, (usize, usize)>,
    pub(crate) endings: BTreeMap<String, usize>,
}

pub(crate) struct Ground {
    dir: TempDir,
    user: Option<u32>,
    mark: String,
    before: Before,
    /// How long a call takes that nobody strikes.
    usual: Mutex<Duration>,
    pub(crate) tally: Mutex<Tally>,
}

impl Ground {
    /// With `user`, everything is done as that one.
    pub(crate) fn new(user: Option<u32>, workspaces: usize) -> (Self, Vec<Mutex<Workspace>>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let mark = format!("killing-{}-{now}", std::process::id());
        let dir = tempfile::Builder::new().prefix(&mark).tempdir().unwrap();
        let usual = Mutex::new(Duration::from_millis(100));
        let before = Before::look();
        let ground = Ground { dir, user, mark, before, usual, tally: Mutex::default() };
        ground.open(&ground.path(""));
        fs::copy(BIN, ground.path("countersign")).unwrap();
        for name in ["tmp", "home"] {
            fs::create_dir(ground.path(name)).unwrap();
            ground.give(&ground.path(name));
        }
        ground.run(&["init"]).ok();
        for (id, idempotent, warm) in
            [("step.once", false, 0), ("step.again", true, 0), ("step.warm", false, 1)]
        {
            ground.declare(id, idempotent, warm);
        }
        let workspaces = (0..workspaces).map(|number| ground.workspace(number)).collect();
        (ground, workspaces)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn open(&self, path: &Path) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn give(&self, path: &Path) {
        chown(path, self.user, self.user).unwrap();
    }

    fn workspace(&self, number: usize) -> Mutex<Workspace> {
        let path = self.path(&format!("ws-{number}"));
        fs::create_dir(&path).unwrap();
        make(&state(0), &path);
        if let Some(user) = self.user {
            let owner = format!("{user}:{user}");
            let given = Command::new("chown").args(["-hR", &owner]).arg(&path).status().unwrap();
            assert!(given.success());
        }
        let scope = format!("{}/**", path.display());
        let capabilities = "filesystem.read,filesystem.write,filesystem.delete";
        let args = ["--to", "agent:a", "--capability", capabilities, "--scope", &scope];
        self.run(&[&["grant", "issue"][..], &args].concat()).ok();
        Mutex::new(Workspace { path, low: 0, high: 0 })
    }

    fn declare(&self, id: &str, idempotent: bool, warm: u32) {
        let integer = |what: &str| json!({"type": "integer", "description": what});
        let object = |properties: Value, required: Value| {
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object", "properties": properties, "required": required,
                "additionalProperties": false,
            })
        };
        let input = json!({
            "nap": integer("Milliseconds"),
            "kids": integer("Children that are left behind"),
            "fail": {"type": "boolean", "description": "Whether to fail in the end"},
        });
        let folder = self.path("home/home/tools").join(id);
        fs::create_dir_all(folder.join("files")).unwrap();
        let step = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/killing/step.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Wextra", "-o"]).arg(folder.join("files/step")).arg(step);
        assert!(compiler.status().expect("cc, a C compiler, is needed").success());
        let declaration = json!({
            "id": id, "version": "1.0.0", "name": "Step", "description": "One step further",
            "inputSchema": object(input, json!([])),
            "outputSchema": object(json!({"n": integer("The state now")}), json!(["n"])),
            "requiredCapabilities": ["filesystem.read", "filesystem.write", "filesystem.delete"],
            "resourceLimits": {"maxExecutionTime": 3000, "maxMemory": 256 << 20},
            "deterministic": false, "idempotent": idempotent,
            "runtime": {
                "kind": "process", "command": ["/tool/step", self.mark], "files": "./files",
                "workspace": "write", "warm": warm,
                "mayBeWeaker": ["memory", "processes", "landlock", "seccomp"],
            },
        });
        fs::write(folder.join("tool.json"), declaration.to_string()).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let binary = self.path("countersign");
        let mut command = match self.user {
            None => clean(Command::new(binary)),
            Some(user) => {
                let user = user.to_string();
                let mut command = clean(Command::new("setpriv"));
                command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(binary);
                command
            }
        };
        command
            .args(args)
            .current_dir(self.path("tmp"))
            .env("COUNTERSIGN_HOME", self.path("home/home"))
            .env("TMPDIR", self.path("tmp"))
            .env("KILLING_MARK", &self.mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        collect(self.command(args).output().unwrap())
    }

    /// One call, struck or not, and what must hold right after it.
    pub(crate) fn call(&self, workspace: &mut Workspace, dice: &mut Dice) {
        let fault = Fault::choose(dice);
        let tool = ["step.once", "step.again", "step.warm"][dice.below(3) as usize];
        let fails = dice.below(8) == 0;
        let kids = if dice.below(3) == 0 { dice.below(4) } else { 0 };
        let input = json!({"nap": dice.below(30), "kids": kids, "fail": fails}).to_string();
        let root = workspace.path.display().to_string();
        let args = ["--json", "call", tool, "--as", "agent:a", "--root", &root, "--input", &input];
        let started = Instant::now();
        let mut child = self.command(&args).spawn().unwrap();
        let usual = *self.usual.lock().unwrap();
        let struck = fault.strike(&mut child, &self.mark, dice, usual);
        let ended = wait(child, fault.name, &root);
        if struck && fault.name == "none" {
            let mut usual = self.usual.lock().unwrap();
            *usual = (*usual * 7 + started.elapsed()) / 8;
        }
        let undisturbed = fault.name == "none" || !struck && !fault.may_end_the_host();
        let ending = self.judge(workspace, &ended, undisturbed && !fails);
        let mut tally = self.tally.lock().unwrap();
        let counts = tally.faults.entry(fault.name).or_default();
        if struck {
            counts.0 += 1
        } else {
            counts.1 += 1
        }
        *tally.endings.entry(ending).or_default() += 1;
    }

    /// What became of the workspace: exactly a state before or after.
    fn judge(&self, workspace: &mut Workspace, ended: &Output, must_succeed: bool) -> String {
        // Killed, or told twice to stop: it could not say how far it came.
        if ended.code == -1 || ended.code == 130 {
            workspace.high += 1;
            return "(the host died)".to_owned();
        }
        let answer = ended.json();
        if answer["success"] == true {
            let n = answer["output"]["n"].as_u64().unwrap();
            let (low, high) = (workspace.low + 1, workspace.high + 1);
            assert!((low..=high).contains(&n), "{n} is not in {low}..={high}: {answer}");
            (workspace.low, workspace.high) = (n, n);
            workspace.settle(&format!("{answer}"));
            return "completed".to_owned();
        }
        assert!(!must_succeed, "nobody disturbed this call: {ended:#?}");
        assert_eq!(answer["state"], "ROLLED_BACK", "{ended:#?}");
        workspace.settle(&format!("{answer}"));
        answer["error"]["code"].as_str().unwrap().to_owned()
    }

    /// What must hold when nobody is at work, whatever was killed before.
    pub(crate) fn inspect(&self, workspaces: &[Mutex<Workspace>]) {
        let recovered = self.run(&["--json", "recover"]).ok().json();
        assert_eq!((&recovered["pending"], &recovered["unsettled"]), (&json!([]), &json!([])));
        self.run(&["--json", "doctor"]).ok();
        let mut left = self.before.leftovers(&self.mark, self.dir.path());
        left.extend(self.left_files());
        left.extend(self.ours());
        assert!(left.is_empty(), "this is left:\n{}", left.join("\n"));
        self.run(&["--json", "audit", "verify"]).ok();
        let completed = self.completed();
        for workspace in workspaces {
            let mut workspace = workspace.lock().unwrap();
            workspace.settle("after recovery");
            let root = workspace.path.display().to_string();
            let said = completed.get(&root).copied().unwrap_or(0);
            assert_eq!(workspace.low, said, "{root}: completed calls in the journal");
        }
    }

    /// How many calls have completed in each workspace. Every call has ended.
    fn completed(&self) -> BTreeMap<String, u64> {
        let database = Connection::open(self.path("home/home/state/journal.db")).unwrap();
        let one = |sql: &str| database.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
        assert_eq!(one("SELECT count(*) FROM calls WHERE terminal = 0"), 0, "calls are open");
        assert_eq!(one("SELECT count(*) FROM claims"), 0, "claims are held");
        let mut completed = BTreeMap::new();
        let mut query =
            database.prepare("SELECT summary FROM calls WHERE state = 'COMPLETED'").unwrap();
        let mut rows = query.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let summary: Value =
                serde_json::from_slice(&row.get::<_, Vec<u8>>(0).unwrap()).unwrap();
            *completed.entry(summary["root"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        completed
    }

    /// Files that a killed process could not remove.
    fn left_files(&self) -> Vec<String> {
        let mut left = Vec::new();
        let names = |directory: &str| {
            let entries = fs::read_dir(self.path(directory)).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        for directory in ["tmp", "home/home/state/staging"] {
            left.extend(names(directory).map(|name| format!("file {directory}/{name}")));
        }
        // A name with a dot belongs to a process that is about to announce itself.
        let hosts = names("home/home/state/hosts").filter(|name| !name.starts_with('.'));
        left.extend(hosts.map(|name| format!("presence {name}")));
        let blobs = names("home/home/state/blobs").filter(|name| name.starts_with(".new-"));
        left.extend(blobs.map(|name| format!("half a blob: {name}")));
        left
    }

    /// Processes that run our copy of the binary, which carries no other mark in a launcher.
    fn ours(&self) -> Vec<String> {
        let binary = self.path("countersign");
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            let left: Vec<String> = processes
                .filter(|process| {
                    fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe == binary)
                })
                .map(|process| format!("process {}", process.file_name().to_string_lossy()))
                .collect();
            if left.is_empty() || Instant::now() > until {
                return left;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What happened, for people.
    pub(crate) fn report(&self) -> String {
        let tally = self.tally.lock().unwrap();
        let mut lines = Vec::new();
        for fault in &FAULTS {
            let (struck, missed) = tally.faults.get(fault.name).copied().unwrap_or_default();
            lines.push(format!("{struck:>6} {}, {missed} too late", fault.name));
        }
        lines.extend(tally.endings.iter().map(|(ending, count)| format!("{count:>6} {ending}")));
        lines.join("\n")
    }
}

impl Workspace {
    /// The workspace is in exactly one of the states that it may be in.
    fn settle(&mut self, after: &str) {
        let found = look(&self.path);
        let is = (self.low..=self.high).find(|n| state(*n) == found);
        let Some(n) = is else {
            let near: Vec<_> =
                (self.low..=self.high).map(|n| (n, differences(&state(n), &found))).collect();
            panic!("{} is in between: {near:#?}\n{after}", self.path.display());
        };
        (self.low, self.high) = (n, n);
    }
}

fn wait(mut child: Child, fault: &str, root: &str) -> Output {
    let until = Instant::now() + GUARD;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "{fault}: the call in {root} does not end: {}", child.id());
        thread::sleep(Duration::from_millis(1));
    }
    collect(child.wait_with_output().unwrap())
}
