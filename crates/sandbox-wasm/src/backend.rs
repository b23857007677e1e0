//! The backend: plans guests and runs them.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use countersign_model::event::Usage;
use countersign_model::{Digest, Failure};
use countersign_sandbox::{Backend, Capture, Ended, Job, Observer, Plan, SetupOp, Spec};
use tokio::runtime::Runtime;
use wasmtime::CacheStore;

use crate::cache::{CacheOptions, DiskCache};
use crate::engine::Kit;
use crate::guest::{Guest, Streams};
use crate::library::{Compiled, Library};
use crate::scratch::Borrowed;
use crate::source::{Seen, Source};
use crate::stage::{self, Places};
use crate::streams::Output;
use crate::ticker::Ticker;
use crate::watch::Watch;
use crate::{plan, run};

/// What a backend is made with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Memories in the pool; a module has one, a component may have more.
    pub slots: u32,
    /// Compiled functions on disk; without it, every process compiles anew.
    pub cache: Option<CacheOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Options { slots: 128, cache: None }
    }
}

/// Runs WebAssembly in this process.
#[derive(Debug)]
pub struct WasmBackend {
    slots: u32,
    free: OnceLock<Kit>,
    metered: OnceLock<Kit>,
    starting: Mutex<()>,
    library: Library,
    seen: Seen,
    disk: Option<Arc<DiskCache>>,
    ticker: Ticker,
    /// Timers for guests that sleep.
    runtime: Option<Runtime>,
    places: Places,
}

impl WasmBackend {
    pub fn new(options: Options) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            let message = format!("the WebAssembly runtime cannot start: {error}");
            Failure::resource("WASM_UNAVAILABLE", message)
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("wasm-timers")
            .enable_time()
            .build();
        Ok(WasmBackend {
            slots: options.slots,
            free: OnceLock::new(),
            metered: OnceLock::new(),
            starting: Mutex::default(),
            library: Library::default(),
            seen: Seen::default(),
            disk: options.cache.map(|cache| Arc::new(DiskCache::new(cache))),
            ticker: Ticker::start().map_err(failed)?,
            runtime: Some(runtime.map_err(failed)?),
            places: Places::default(),
        })
    }

    /// Where the memories of guests come from, in words. Starts the engine if it must.
    pub fn memories(&self) -> Result<&str, Failure> {
        Ok(&self.kit(false)?.memories)
    }

    /// Functions that were taken from the disk cache and not compiled again.
    pub fn cache_hits(&self) -> u64 {
        self.disk.as_ref().map_or(0, |disk| disk.hits())
    }

    /// The engine, made when it is first needed.
    fn kit(&self, metered: bool) -> Result<&Kit, Failure> {
        let place = if metered { &self.metered } else { &self.free };
        if let Some(kit) = place.get() {
            return Ok(kit);
        }
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kit) = place.get() {
            return Ok(kit);
        }
        let cache = self.disk.clone().map(|disk| disk as Arc<dyn CacheStore>);
        let kit = Kit::new(metered, self.slots, cache)?;
        self.ticker.add(kit.engine.weak());
        Ok(place.get_or_init(|| kit))
    }

    fn compile(
        &self,
        kit: &Kit,
        key: (Digest, bool),
        source: &Source,
    ) -> Result<Arc<Compiled>, Failure> {
        self.library.compile(kit, self.disk.as_deref(), key, &source.bytes)
    }

    /// The module of a plan. The file is read only when its compiled form is not at hand.
    fn module(&self, kit: &Kit, plan: &Plan, metered: bool) -> Result<Arc<Compiled>, Failure> {
        let (source, digest) = plan
            .launcher
            .iter()
            .find_map(|op| match op {
                SetupOp::Module { source, digest } => Some((source, digest)),
                _ => None,
            })
            .and_then(|(source, digest)| Some((source, digest.parse::<Digest>().ok()?)))
            .ok_or_else(|| Failure::state("PLAN_INVALID", "the plan names no module"))?;
        if let Some(compiled) = self.library.find(&(digest, metered)) {
            return Ok(compiled);
        }
        let source = Source::read(Path::new(source))?;
        if Digest::of(&source.bytes) != digest {
            let message = "the module is not the one that was planned for";
            return Err(Failure::state("MODULE_CHANGED", message).hint("call the tool again"));
        }
        self.compile(kit, (digest, metered), &source)
    }
}

impl Backend for WasmBackend {
    fn name(&self) -> &'static str {
        crate::NAME
    }

    /// Compiles the module as well: a plan for a module that cannot run would be no plan.
    fn plan(&self, spec: &Spec) -> Result<Plan, Failure> {
        let module = plan::check(spec)?;
        let metered = spec.fuel.is_some();
        let kit = self.kit(metered)?;
        let digest = match self.seen.digest(module) {
            Some(digest) if self.library.find(&(digest, metered)).is_some() => digest,
            _ => {
                let source = Source::read(module)?;
                let digest = Digest::of(&source.bytes);
                self.compile(kit, (digest, metered), &source)?;
                self.seen.remember(module, &source, digest);
                digest
            }
        };
        Ok(plan::plan(spec, module, &digest, &kit.memories))
    }

    fn run(&self, job: Job, observer: &mut dyn Observer) -> Result<Ended, Failure> {
        let plan = Arc::clone(&job.plan);
        let fuel = plan.sandbox.iter().find_map(|op| match op {
            SetupOp::Fuel { amount } => Some(*amount),
            _ => None,
        });
        let kit = self.kit(fuel.is_some())?;
        let compiled = self.module(kit, &plan, fuel.is_some())?;
        let borrowed = self.places.prepare(&job)?;
        let scratch = borrowed.as_ref().and_then(Borrowed::get);
        let limits = plan.limits;
        let output = || Output::new(Capture::new(limits.inline_output, limits.output, &job.spill));
        let (stdout, stderr) = (output(), output());
        let streams = Streams { input: job.input, stdout: stdout.clone(), stderr: stderr.clone() };
        let guest = Guest::new(&plan, streams, scratch)?;
        let _timers = self.runtime.as_ref().map(Runtime::enter);
        let _running = self.ticker.running();
        let mut store = run::store(&kit.engine, guest, fuel)
            .map_err(|error| Failure::state("WASM_UNAVAILABLE", error.to_string()))?;
        let outputs = (stdout.clone(), stderr.clone());
        let mut watch = Watch::start(observer, limits, outputs, scratch);
        let ended = run::drive(run::execute(&compiled, &mut store), &mut watch);
        let ending = ended.map_or_else(Ok, |ended| run::ending(ended, &stderr))?;
        watch.show_output();
        let mut usage = Usage {
            cpu_micros: u64::try_from(watch.processor().as_micros()).unwrap_or(u64::MAX),
            peak_memory: store.data().limiter.used(),
            ..Usage::default()
        };
        let wall_ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The guest's open files go with it.
        drop(store);
        let (ending, staged) = stage::finish(ending, borrowed, &plan, &mut usage);
        let (stdout, stderr) = (stdout.finish(), stderr.finish());
        Ok(Ended { ending, stdout, stderr, usage, wall_ms, connections: Vec::new(), staged })
    }
}

impl Drop for WasmBackend {
    fn drop(&mut self) {
        // A file operation that never returns must not hold up whoever lets go of the backend.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
