//! `bench sandbox`: what a box costs, beside a bare start of the same program and beside bubblewrap.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use countersign_model::{Failure, WorkspaceAccess};
use countersign_sandbox::backend::Unwatched;
use countersign_sandbox::{Backend, Job, Plan, Spec};
use countersign_sandbox_linux::LinuxSandbox;
use countersign_sandbox_wasm::{Options, WasmBackend};
use serde::Serialize;

use super::measure::{Latency, timed};
use super::spawns::{Bubblewrap, bare, smallest_program};
use super::{Scratch, aim};
use crate::Context;
use crate::exit::Exit;
use crate::sandbox;
use crate::ui::{BOLD, DIM, Done, Progress, Ui, inert, paint, wrap};

/// Measure the sandbox: `true` bare, under bubblewrap, and in our box in several ways, in turn
#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// How often each is started
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = value_parser!(u64).range(5..=100_000))]
    rounds: u64,

    /// Stage changes to a workspace in this directory
    #[arg(long, default_value_os_t = std::env::temp_dir(), value_name = "DIR")]
    dir: PathBuf,
}

const WORKSPACE_FILES: usize = 20;
/// Boxes that are kept prepared in the warm measurement.
const WARM: u32 = 2;
/// In which the pool makes up for the box that was used, while nothing is measured.
const REFILL: Duration = Duration::from_millis(25);
/// Starts that nobody counts.
const WARM_UP: usize = 3;
/// WebAssembly calls for every round, and those before them that nobody counts: each is short.
const WASM_CALLS: u64 = 10;
const WASM_WARM_UP: u64 = 50;
/// One and two workers take turns this often.
const TURNS: u64 = 5;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    rounds: u64,
    bare_spawn: Latency,
    bubblewrap: Option<Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bubblewrap_skipped: Option<String>,
    level2: Latency,
    staging: Latency,
    warm: Latency,
    workers: Vec<Workers>,
    wasm: WasmCalls,
    ratios: Ratios,
}

/// Medians over medians.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ratios {
    level2_to_bubblewrap: Option<f64>,
    staging_to_bubblewrap: Option<f64>,
    level2_to_bare: f64,
    staging_to_bare: f64,
    warm_to_bare: f64,
    bubblewrap_to_bare: Option<f64>,
    /// P99 over median.
    level2_tail: f64,
    two_workers_to_one: f64,
}

/// WebAssembly calls in this process, beside a function that does as little.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WasmCalls {
    calls: u64,
    nothing: Latency,
    call: Latency,
    /// Median over median: what a call costs beyond the work itself.
    beyond_micros: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Workers {
    workers: u64,
    starts_per_second: f64,
}

pub(super) fn run(context: &Context, args: &SandboxArgs) -> Done<Exit> {
    let scratch = Scratch::beneath(&args.dir)?;
    let report = measure(&scratch.0, args.rounds)?;
    if context.ui.json {
        context.ui.json(&report)?;
    } else {
        print(context.ui, &report)?;
    }
    Ok(Exit::Done)
}

/// What is compared. The warm boxes have a backend of their own: a prepared box would otherwise
/// serve whoever asks next.
struct Candidates {
    program: PathBuf,
    bubblewrap: Result<Bubblewrap, String>,
    ours: LinuxSandbox,
    warm: LinuxSandbox,
    plain: Arc<Plan>,
    staging: Arc<Plan>,
}

impl Candidates {
    fn new(scratch: &Path) -> Result<Self, Failure> {
        let program = smallest_program();
        let (ours, warm) = (sandbox::backend(), sandbox::backend());
        let plain = Spec::of(vec![program.display().to_string()]);
        let workspace = Some((make_workspace(scratch)?, WorkspaceAccess::Write));
        let staging = Spec { workspace, ..plain.clone() };
        Ok(Candidates {
            plain: Arc::new(ours.plan(&plain)?),
            staging: Arc::new(ours.plan(&staging)?),
            bubblewrap: Bubblewrap::find(&program),
            program,
            ours,
            warm,
        })
    }

    fn bubblewrap(&self) -> Result<(), Failure> {
        self.bubblewrap.as_ref().map_or(Ok(()), Bubblewrap::run)
    }

    fn warm(&self) -> Result<(), Failure> {
        start(&self.warm, &self.plain, WARM)
    }
}

fn make_workspace(scratch: &Path) -> Result<PathBuf, Failure> {
    let fill = || {
        let directory = scratch.canonicalize()?.join("workspace");
        std::fs::create_dir(&directory)?;
        for number in 0..WORKSPACE_FILES {
            std::fs::write(directory.join(format!("{number}.txt")), "a file of the workspace\n")?;
        }
        Ok(directory)
    };
    fill().map_err(|error: std::io::Error| failed(&error))
}

/// One whole run in a box: made, used, watched to its end, gone.
fn start(backend: &dyn Backend, plan: &Arc<Plan>, warm: u32) -> Result<(), Failure> {
    let plan = Arc::clone(plan);
    let spill = std::env::temp_dir();
    let job = Job { plan, input: Vec::new(), spill, gateway: None, warm };
    let ended = backend.run(job, &mut Unwatched)?;
    match ended.ending.failure(&countersign_sandbox::Limits::default()) {
        None => Ok(()),
        Some(failure) => Err(failed(&failure)),
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::resource("BENCH_FAILED", format!("the measurement failed: {error}"))
        .hint("see what this machine can do with `countersign doctor`")
}

fn measure(scratch: &Path, rounds: u64) -> Result<Report, Failure> {
    let candidates = Candidates::new(scratch)?;
    let mut progress = Progress::new("rounds made:");
    let times = alternate(&candidates, rounds, &mut progress)?;
    let [bare_spawn, bubblewrap, level2, staging, warm] = times.map(Latency::of);
    let bubblewrap_skipped = candidates.bubblewrap.as_ref().err().cloned();
    let bubblewrap = bubblewrap_skipped.is_none().then_some(bubblewrap);
    let workers = throughput(&candidates, rounds)?;
    let wasm = wasm_calls(scratch, rounds * WASM_CALLS)?;
    let over = |latency: &Latency, base: &Latency| latency.p50_micros / base.p50_micros;
    let ratios = Ratios {
        level2_to_bubblewrap: bubblewrap.map(|base| over(&level2, &base)),
        staging_to_bubblewrap: bubblewrap.map(|base| over(&staging, &base)),
        level2_to_bare: over(&level2, &bare_spawn),
        staging_to_bare: over(&staging, &bare_spawn),
        warm_to_bare: over(&warm, &bare_spawn),
        bubblewrap_to_bare: bubblewrap.map(|latency| over(&latency, &bare_spawn)),
        level2_tail: level2.p99_micros / level2.p50_micros,
        two_workers_to_one: gain(&workers),
    };
    Ok(Report {
        rounds,
        bare_spawn,
        bubblewrap,
        bubblewrap_skipped,
        level2,
        staging,
        warm,
        workers,
        wasm,
        ratios,
    })
}

/// All of them in turn, so that a slow moment of the machine hits all alike.
fn alternate(
    candidates: &Candidates,
    rounds: u64,
    progress: &mut Progress,
) -> Result<[Vec<Duration>; 5], Failure> {
    for _ in 0..WARM_UP {
        one_round(candidates)?;
    }
    let mut times: [Vec<Duration>; 5] = Default::default();
    for round in 0..rounds {
        let taken = one_round(candidates)?;
        times.iter_mut().zip(taken).for_each(|(times, time)| times.push(time));
        progress.tick(round + 1);
    }
    Ok(times)
}

fn one_round(candidates: &Candidates) -> Result<[Duration; 5], Failure> {
    let Candidates { program, ours, plain, staging, .. } = candidates;
    let bare = timed(|| bare(program))?;
    let bubblewrap = timed(|| candidates.bubblewrap())?;
    let level2 = timed(|| start(ours, plain, 0))?;
    let staging = timed(|| start(ours, staging, 0))?;
    let warm = timed(|| candidates.warm())?;
    thread::sleep(REFILL);
    Ok([bare, bubblewrap, level2, staging, warm])
}

/// The same number of starts by one worker and shared by two, in turn.
fn throughput(candidates: &Candidates, rounds: u64) -> Result<Vec<Workers>, Failure> {
    let starts = rounds.div_ceil(TURNS) * 2;
    let mut spent = [Duration::ZERO; 2];
    for _ in 0..TURNS {
        for (spent, workers) in spent.iter_mut().zip(1..) {
            *spent += shared(candidates, workers, starts)?;
        }
    }
    let rate = |spent: Duration| (starts * TURNS) as f64 / spent.as_secs_f64();
    let rates = spent.into_iter().zip(1..);
    Ok(rates.map(|(spent, workers)| Workers { workers, starts_per_second: rate(spent) }).collect())
}

fn shared(candidates: &Candidates, workers: u64, starts: u64) -> Result<Duration, Failure> {
    let work = || {
        let mut each = 0..starts / workers;
        each.try_for_each(|_| start(&candidates.ours, &candidates.plain, 0))
    };
    let begun = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| Failure::state("INTERNAL", "a worker panicked"))?
        })
    })?;
    Ok(begun.elapsed())
}

fn gain(workers: &[Workers]) -> f64 {
    match workers {
        [one, two] => two.starts_per_second / one.starts_per_second,
        _ => 0.0,
    }
}

/// The smallest command: it has memory, and returns at once. A test below has it as text.
const NOTHING: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x04\x01\x60\0\0\
    \x03\x02\x01\0\
    \x05\x03\x01\0\x01\
    \x07\x13\x02\x06memory\x02\0\x06_start\0\0\
    \x0a\x04\x01\x02\0\x0b";

/// Warm calls of a module that does nothing, and of a function that does nothing, in turn.
fn wasm_calls(scratch: &Path, calls: u64) -> Result<WasmCalls, Failure> {
    let module = scratch.join("nothing.wasm");
    std::fs::write(&module, NOTHING).map_err(|error| failed(&error))?;
    let backend = WasmBackend::new(Options::default())?;
    let spec = Spec { module: Some(module), ..Spec::of(vec!["nothing".to_owned()]) };
    let plan = Arc::new(backend.plan(&spec)?);
    let nothing = || {
        std::hint::black_box(std::hint::black_box(Vec::<u8>::new()).len());
        Ok(())
    };
    let mut times: [Vec<Duration>; 2] = Default::default();
    for call in 0..calls + WASM_WARM_UP {
        let taken = [timed(nothing)?, timed(|| start(&backend, &plan, 0))?];
        if call >= WASM_WARM_UP {
            times.iter_mut().zip(taken).for_each(|(times, time)| times.push(time));
        }
    }
    let [nothing, call] = times.map(Latency::of);
    let beyond_micros = call.p50_micros - nothing.p50_micros;
    Ok(WasmCalls { calls, nothing, call, beyond_micros })
}

fn print(ui: Ui, report: &Report) -> Done {
    let title = format!("`true`, {} times each, in turn", report.rounds);
    ui.line(paint(BOLD, title))?;
    let base = (&report.bare_spawn, report.bubblewrap.as_ref());
    row(ui, "bare spawn", &report.bare_spawn, base)?;
    match (&report.bubblewrap, &report.bubblewrap_skipped) {
        (Some(latency), _) => row(ui, "bubblewrap", latency, base)?,
        (None, why) => {
            let why = inert(why.as_deref().unwrap_or("it was not tried"));
            ui.line(wrap(&format!("  {:<18} skipped: {why}", "bubblewrap"), 4))?;
        }
    }
    row(ui, "ours, level 2", &report.level2, base)?;
    row(ui, "ours, staging", &report.staging, base)?;
    row(ui, "ours, warm", &report.warm, base)?;
    for row in &report.workers {
        let name = if row.workers == 1 { "1 worker" } else { "2 workers" };
        ui.line(wrap(&format!("  {name:<18} {:.0} starts/s", row.starts_per_second), 4))?;
    }
    let wasm = &report.wasm;
    ui.line(paint(BOLD, format!("WebAssembly in this process, {} calls", wasm.calls)))?;
    ui.line(wrap(&format!("  {:<18} {:.2} µs", "doing nothing", wasm.nothing.p50_micros), 4))?;
    ui.line(wrap(&format!("  {:<18} {}", "a call", wasm.call), 4))?;
    print_aims(ui, report)
}

fn row(ui: Ui, name: &str, latency: &Latency, base: (&Latency, Option<&Latency>)) -> Done {
    let ms = |micros: f64| micros / 1000.0;
    let times = format!(
        "{:>6.2} ms, P90 {:.2}, P99 {:.2}",
        ms(latency.p50_micros),
        ms(latency.p90_micros),
        ms(latency.p99_micros)
    );
    let mut ratios = format!("{:.2} × bare", latency.p50_micros / base.0.p50_micros);
    if let Some(bubblewrap) = base.1 {
        let ratio = latency.p50_micros / bubblewrap.p50_micros;
        ratios = format!("{ratios}, {ratio:.2} × bubblewrap");
    }
    let ratios = paint(DIM, format!("({ratios})"));
    ui.line(wrap(&format!("  {name:<18} {times} {ratios}"), 4))
}

fn print_aims(ui: Ui, report: &Report) -> Done {
    ui.line(paint(BOLD, "medians compared"))?;
    let ratios = &report.ratios;
    if let (Some(level2), Some(staging)) =
        (ratios.level2_to_bubblewrap, ratios.staging_to_bubblewrap)
    {
        let text = format!("level 2 takes {level2:.2} times what bubblewrap takes");
        aim(ui, level2 <= 0.6, &text, "at most 0.6")?;
        let text = format!("with staging it takes {staging:.2} times what bubblewrap takes");
        aim(ui, staging <= 0.8, &text, "at most 0.8")?;
    }
    let tail = ratios.level2_tail;
    aim(ui, tail <= 2.0, &format!("its P99 is {tail:.2} times its median"), "at most 2")?;
    let gain = ratios.two_workers_to_one;
    let text = format!("two workers start {gain:.2} times what one starts");
    aim(ui, gain >= 1.8, &text, "at least 1.8")?;
    let warm = ratios.warm_to_bare;
    let text = format!("a warm box takes {warm:.2} times a bare spawn");
    aim(ui, warm <= 1.5, &text, "at most 1.5")?;
    let beyond = report.wasm.beyond_micros;
    let text = format!("a WebAssembly call takes {beyond:.0} µs beyond the work itself");
    aim(ui, beyond <= 100.0, &text, "at most 100 µs")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use super::NOTHING;

    #[test]
    fn the_smallest_command_is_what_its_text_says() {
        let text = r#"(module (memory (export "memory") 1) (func (export "_start")))"#;
        assert_eq!(NOTHING, wat::parse_str(text).unwrap());
    }
}
