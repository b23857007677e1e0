//! Wires the parts of the sandbox together: how a launcher starts, which way leads out, and what
//! becomes of the files that a program staged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use countersign_egress::Net;
use countersign_host::{Backends, Home, Host, SystemClock};
use countersign_model::Failure;
use countersign_sandbox::{Backend, Ended, Gateway, Job, Observer, Plan, Spec};
use countersign_sandbox_linux::{LauncherCommand, LinuxSandbox, launcher_main};
use countersign_sandbox_wasm::{CacheOptions, Options, WasmBackend};

use crate::gateway::EgressGateway;

/// A first argument that no command has: this process is to be a launcher.
const LAUNCHER: &str = "__launcher";

/// Serves as a launcher, if this process was started as one.
pub(crate) fn launcher() -> Option<ExitCode> {
    let is_launcher = std::env::args_os().nth(1).is_some_and(|word| word == LAUNCHER);
    is_launcher.then(|| ExitCode::from(u8::try_from(launcher_main()).unwrap_or(70)))
}

/// By this name the kernel finds the very program that runs now, also when its file was replaced
/// since: host and launcher always speak the same protocol.
pub(crate) fn backend() -> LinuxSandbox {
    let program = PathBuf::from("/proc/self/exe");
    LinuxSandbox::new(LauncherCommand { program, arguments: vec![LAUNCHER.to_owned()] })
}

/// Removes what the sandboxes of killed hosts left. What cannot be removed now is tried again by the
/// next host.
pub(crate) fn clean_leftovers(home: &Home) {
    backend().clean_leftovers();
    let _ = countersign_sandbox_wasm::clean_leftovers(&home.staging());
}

/// The way out for programs that may reach hosts.
pub(crate) fn gateway(private: Vec<Net>) -> Arc<dyn Gateway> {
    Arc::new(EgressGateway { private })
}

/// A host for the home, with everything that runs programs.
pub(crate) fn open_host(path: &Path) -> Result<Host, Failure> {
    let home = Home::open(path)?;
    let private = private_networks(&home.config.network.private)?;
    let backends = Backends {
        process: Some(Arc::new(backend())),
        wasm: Some(Arc::new(wasm(&home))),
        gateway: Some(gateway(private)),
    };
    let handlers = countersign_actions::handlers(&home.config.actions)?;
    Host::start_with(home, &handlers, Arc::new(SystemClock), backends)
}

/// The plan of a sandbox, by whatever would make it for a call.
pub(crate) fn plan(home: &Home, spec: &Spec) -> Result<Plan, Failure> {
    match spec.module {
        Some(_) => wasm(home).plan(spec),
        None => backend().plan(spec),
    }
}

fn private_networks(private: &[String]) -> Result<Vec<Net>, Failure> {
    private.iter().map(|net| net.parse()).collect::<Result<_, Failure>>().map_err(|failure| {
        let message = format!("`network.private` in countersign.toml: {}", failure.message);
        Failure { code: "CONFIG_INVALID".into(), message, ..failure }
    })
}

/// Starting the WebAssembly runtime takes threads and time, so it waits for the first call.
#[derive(Debug)]
pub(crate) struct LazyWasm {
    options: Options,
    leftovers: PathBuf,
    backend: OnceLock<Result<WasmBackend, Failure>>,
}

pub(crate) fn wasm(home: &Home) -> LazyWasm {
    // The key proves that the files are ours; it is not kept where they are.
    let cache = CacheOptions { directory: home.wasm_cache(), key: home.derive_key("wasm-cache") };
    LazyWasm {
        options: Options { cache: Some(cache), ..Options::default() },
        leftovers: home.staging(),
        backend: OnceLock::new(),
    }
}

impl LazyWasm {
    fn get(&self) -> Result<&WasmBackend, Failure> {
        let made = self.backend.get_or_init(|| {
            // What cannot be removed now is tried again by the next host; without a place to keep what
            // was compiled, it is compiled anew.
            let _ = countersign_sandbox_wasm::clean_leftovers(&self.leftovers);
            let _ = self.options.cache.iter().try_for_each(|c| fs::create_dir_all(&c.directory));
            WasmBackend::new(self.options.clone())
        });
        made.as_ref().map_err(Clone::clone)
    }
}

impl Backend for LazyWasm {
    fn name(&self) -> &'static str {
        countersign_sandbox_wasm::NAME
    }

    fn plan(&self, spec: &Spec) -> Result<Plan, Failure> {
        self.get()?.plan(spec)
    }

    fn run(&self, job: Job, observer: &mut dyn Observer) -> Result<Ended, Failure> {
        self.get()?.run(job, observer)
    }
}
