use std::path::Path;

use clap::Args;
use countersign_host::config::Config;
use countersign_model::Failure;
use countersign_sandbox::machine::CgroupMode;
use countersign_sandbox::{Barrier, Cgroup, Machine, Strength};
use countersign_sandbox_wasm::{Options, WasmBackend};
use serde_json::{Value, json};

use crate::Context;
use crate::exit::Exit;
use crate::gateway;
use crate::sandbox;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Say what this machine can enforce, and what to change where it cannot
///
/// Everything is tried, not guessed. What killed hosts left behind is removed on the way.
/// Exit codes: 0 programs can be contained here (isolation level 2), 6 they cannot.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

/// The isolation levels, and what they are for.
const LEVELS: [(u8, &str); 3] = [
    (0, "tools that are built in, trusted as they are"),
    (1, "a process tree of its own, with limits"),
    (2, "programs that nobody vouches for, fully contained"),
];

pub(super) fn run(context: &Context, _: &DoctorArgs) -> Done<Exit> {
    let backend = sandbox::backend();
    let leftovers = backend.clean_leftovers();
    let machine = backend.machine();
    let others = Others::find(&context.home);
    if context.ui.json {
        context.ui.json(&to_json(machine, leftovers, &others))?;
    } else {
        print(context.ui, machine, leftovers, &others)?;
    }
    Ok(if is_enforced(machine, 2) { Exit::Done } else { Exit::CannotEnforce })
}

/// What programs may need beside the kernel.
#[derive(Debug)]
struct Others {
    /// How the WebAssembly runtime makes memories, or why it does not start.
    wasm: Result<String, String>,
    proxy: Result<(), String>,
    /// Networks that this home opens although they are private.
    private: Vec<String>,
}

impl Others {
    fn find(home: &Path) -> Self {
        let wasm = WasmBackend::new(Options::default())
            .and_then(|backend| backend.memories().map(str::to_owned))
            .map_err(|failure| failure.message);
        // Without a home there are no exceptions; a broken configuration stops calls, not this.
        let config = Config::load(&home.join("countersign.toml")).unwrap_or_default();
        Others { wasm, proxy: gateway::try_out(), private: config.network.private }
    }

    fn wasm(&self) -> String {
        match &self.wasm {
            Ok(memories) => format!("works, memories {memories}"),
            Err(why) => format!("does not start: {why}"),
        }
    }

    fn proxy(&self) -> String {
        match (&self.proxy, self.private.as_slice()) {
            (Err(why), _) => format!("does not start: {why}"),
            (Ok(()), []) => "works".to_owned(),
            (Ok(()), private) => format!("works; this home opens {}", private.join(", ")),
        }
    }

    fn to_json(&self) -> (Value, Value) {
        let wasm = match &self.wasm {
            Ok(memories) => json!({"works": true, "memories": memories}),
            Err(why) => json!({"works": false, "why": why}),
        };
        let mut proxy = tried(&self.proxy);
        if let Some(object) = proxy.as_object_mut() {
            object.insert("private".to_owned(), json!(self.private));
        }
        (wasm, proxy)
    }
}

fn is_enforced(machine: &Machine, level: u8) -> bool {
    machine.barriers(level).iter().all(|barrier| barrier.strength.is_enforced())
}

fn to_json(machine: &Machine, leftovers: usize, others: &Others) -> Value {
    let (wasm, proxy) = others.to_json();
    let levels: Vec<Value> = LEVELS
        .iter()
        .map(|(level, purpose)| {
            let barriers: Vec<_> = machine.barriers(*level).iter().map(barrier_json).collect();
            json!({
                "level": level,
                "purpose": purpose,
                "enforced": is_enforced(machine, *level),
                "barriers": barriers,
            })
        })
        .collect();
    let mut value = json!({
        "success": is_enforced(machine, 2),
        "kernel": machine.kernel,
        "user": machine.user,
        "namespaces": tried(&machine.namespaces),
        "landlock": machine.landlock,
        "seccomp": machine.seccomp,
        "cgroup": machine.cgroup,
        "overlay": tried(&machine.overlay),
        "swap": machine.swap,
        "kvm": machine.kvm,
        "interpreters": machine.interpreters,
        "webAssembly": wasm,
        "egressProxy": proxy,
        "levels": levels,
        "leftoversRemoved": leftovers,
    });
    if let (Some(object), Some(failure)) = (value.as_object_mut(), failure(machine)) {
        object.insert("error".to_owned(), json!(failure));
    }
    value
}

/// Why programs cannot be contained here, if they cannot.
fn failure(machine: &Machine) -> Option<Failure> {
    let missing: Vec<_> = machine
        .barriers(2)
        .iter()
        .filter(|barrier| !barrier.strength.is_enforced())
        .map(|barrier| barrier.name)
        .collect();
    let (first, _) = missing.split_first()?;
    let message = format!("this machine cannot enforce {}", missing.join(", "));
    let hint = format!("`fix` says what to change, or let a tool be weaker in `{first}`");
    Some(Failure::resource("CANNOT_ENFORCE", message).hint(hint))
}

fn tried(result: &Result<(), String>) -> Value {
    match result {
        Ok(()) => json!({"works": true}),
        Err(why) => json!({"works": false, "why": why}),
    }
}

fn barrier_json(barrier: &Barrier) -> Value {
    match &barrier.strength {
        Strength::Enforced(how) => json!({"name": barrier.name, "enforced": true, "how": how}),
        Strength::Missing { why, fix } => {
            json!({"name": barrier.name, "enforced": false, "why": why, "fix": fix})
        }
    }
}

fn print(ui: Ui, machine: &Machine, leftovers: usize, others: &Others) -> Done {
    ui.line(paint(BOLD, "This machine"))?;
    let others = [("WebAssembly", others.wasm()), ("egress proxy", others.proxy())];
    for (name, value) in facts(machine).into_iter().chain(others) {
        ui.line(wrap(&format!("  {name:<13} {}", inert(&value)), 14))?;
    }
    ui.line("")?;
    ui.line(paint(BOLD, "What can be enforced"))?;
    for (level, purpose) in LEVELS {
        print_level(ui, machine, level, purpose)?;
    }
    if leftovers > 0 {
        let what = format!("{leftovers} control groups that killed hosts left behind");
        ui.line(wrap(&format!("{} {what}", paint(GOOD, "removed")), 0))?;
    }
    ui.line("")?;
    ui.line(wrap(&verdict(machine), 0))
}

fn facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let yes = |is: bool, yes: &str, no: &str| if is { yes } else { no }.to_owned();
    let tried = |tried: &Result<(), String>, yes: &str| match tried {
        Ok(()) => yes.to_owned(),
        Err(why) => format!("refused: {why}"),
    };
    let landlock = match machine.landlock {
        0 => "none".to_owned(),
        version => format!("interface version {version}"),
    };
    let user = if machine.user == 0 { "0 (root)".to_owned() } else { machine.user.to_string() };
    let interpreters: Vec<_> = machine.interpreters.keys().map(String::as_str).collect();
    vec![
        ("kernel", machine.kernel.clone()),
        ("user", user),
        ("namespaces", tried(&machine.namespaces, "work")),
        ("landlock", landlock),
        ("seccomp", yes(machine.seccomp, "works", "none")),
        ("cgroup", cgroup(&machine.cgroup)),
        ("overlay", tried(&machine.overlay, "works")),
        ("swap", yes(machine.swap, "in use", "not in use")),
        ("KVM", yes(machine.kvm, "usable", "not usable")),
        ("interpreters", interpreters.join(", ")),
    ]
}

fn cgroup(cgroup: &Cgroup) -> String {
    let mode = match cgroup.mode {
        CgroupMode::V2 => "version 2",
        CgroupMode::V1 => "version 1",
        CgroupMode::None => "none",
    };
    let mut text = mode.to_owned();
    if !cgroup.controllers.is_empty() {
        text = format!("{text}, with {}", cgroup.controllers.join(", "));
    }
    match &cgroup.why {
        Some(why) => format!("{text} ({why})"),
        None => text,
    }
}

fn print_level(ui: Ui, machine: &Machine, level: u8, purpose: &str) -> Done {
    let mark = if is_enforced(machine, level) { paint(GOOD, "✓") } else { paint(BAD, "✗") };
    let title = paint(BOLD, format!("level {level}"));
    ui.line(wrap(&format!("  {mark} {title}  {purpose}"), 11))?;
    // What a lower level consists of was said there.
    let below: Vec<_> = match level {
        0 => Vec::new(),
        level => machine.barriers(level - 1),
    };
    let mut new = machine.barriers(level).into_iter().filter(|barrier| !below.contains(barrier));
    new.try_for_each(|barrier| print_barrier(ui, &barrier))
}

fn print_barrier(ui: Ui, barrier: &Barrier) -> Done {
    let name = format!("{:<10}", barrier.name);
    match &barrier.strength {
        Strength::Enforced(how) => {
            ui.line(wrap(&format!("      {} {name} {}", paint(GOOD, "✓"), inert(how)), 17))
        }
        Strength::Missing { why, fix } => {
            ui.line(wrap(&format!("      {} {name} {}", paint(BAD, "✗"), inert(why)), 17))?;
            ui.line(wrap(&format!("        {} {}", paint(WARN, "to change:"), inert(fix)), 8))
        }
    }
}

fn verdict(machine: &Machine) -> String {
    if is_enforced(machine, 2) {
        let try_it = paint(DIM, "try it: countersign sandbox run -- id");
        return format!("{} programs can be contained here; {try_it}", paint(GOOD, "ready:"));
    }
    let message = failure(machine).map_or_else(String::new, |failure| failure.message);
    let so = match machine.namespaces {
        Ok(()) => "so programs do not run here unless they may be weaker",
        Err(_) => "so programs do not run here",
    };
    format!("{} {message}, {so}", paint(BAD, "not ready:"))
}
