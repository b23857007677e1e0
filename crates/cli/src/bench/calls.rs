//! `bench calls`: whole durable calls beside the bare cost of the disk they stand on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use countersign_host::inspect::verify_home;
use countersign_host::{CallCommand, Home, Host, SystemClock};
use countersign_journal::verify::{Edges, Verifier};
use countersign_model::{Failure, Principal, ToolRef};
use serde::Serialize;

use super::baseline::{FsyncBase, SqliteBase};
use super::measure::{Latency, cpu_time, resident_bytes, timed};
use super::{Scratch, aim};
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, Done, Progress, Ui, bytes, paint, wrap};

/// Measure whole calls: rate and latency at 1, 16 and 64 callers, beside a bare sync and commit
#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    /// Measure on the disk that holds this directory
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,

    /// A tenth of the calls and entries, for a first look
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    fsync: Latency,
    sqlite_commit: Latency,
    callers: Vec<Callers>,
    /// Whole-call median at 1 caller over the median of one bare commit, measured alternately.
    latency_in_commits: f64,
    /// Calls per second at 64 callers over what one commit per call would allow.
    rate_over_one_commit_per_call: f64,
    cpu_micros_per_call: f64,
    memory: Memory,
    verification: Timed,
    opening: Timed,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Callers {
    callers: usize,
    calls: u64,
    calls_per_second: f64,
    latency: Latency,
    cpu_micros_per_call: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    calls: u64,
    bytes_after_a_tenth: u64,
    bytes_at_the_end: u64,
}

#[derive(Debug, Serialize)]
struct Timed {
    entries: u64,
    seconds: f64,
}

pub(super) fn run(context: &Context, args: &CallsArgs) -> Done<Exit> {
    let scratch = Scratch::beneath(&args.dir)?;
    let report = measure(&scratch.0, if args.quick { 10 } else { 1 })?;
    if context.ui.json {
        context.ui.json(&report)?;
    } else {
        print(context.ui, &report)?;
    }
    Ok(Exit::Done)
}

fn measure(dir: &Path, divisor: u64) -> Result<Report, Failure> {
    let home = dir.join("home");
    Home::create(&home, &SystemClock)?;
    let host = Host::open(&home)?;
    let mut progress = Progress::new("calls made:");

    let (fsync, sqlite_commit, one) = alternate(dir, &host, 3000 / divisor)?;
    let sixteen = concurrent(&host, 16, 20_000 / divisor, &mut progress)?;
    let sixty_four = concurrent(&host, 64, 40_000 / divisor, &mut progress)?;
    let memory = memory(&host, 100_000 / divisor, &mut progress)?;
    let verification = verification(&host, 100_000 / divisor)?;
    let opening = opening(host, &home, 1_000_000 / divisor, &mut progress)?;
    Ok(Report {
        latency_in_commits: one.latency.p50_micros / sqlite_commit.p50_micros,
        rate_over_one_commit_per_call: sixty_four.calls_per_second * sqlite_commit.p50_micros / 1e6,
        cpu_micros_per_call: sixty_four.cpu_micros_per_call,
        fsync,
        sqlite_commit,
        callers: vec![one, sixteen, sixty_four],
        memory,
        verification,
        opening,
    })
}

/// The smallest whole call: it is declared, validated, authorised, run, checked and committed.
fn one_call(
    host: &Host,
    tool: &ToolRef,
    principal: &Principal,
    number: u64,
) -> Result<(), Failure> {
    let input = format!("{{\"text\":\"{number}\"}}").into_bytes();
    let outcome = host.call(CallCommand::new(tool.clone(), input, principal.clone()))?;
    outcome.result.map(|_| ())
}

fn caller() -> Result<(ToolRef, Principal), Failure> {
    Ok(("text.digest".parse()?, "agent:bench".parse()?))
}

/// Sync, commit and call in turn, so that a slow moment of the disk hits all three alike.
fn alternate(dir: &Path, host: &Host, rounds: u64) -> Result<(Latency, Latency, Callers), Failure> {
    let (tool, principal) = caller()?;
    let mut fsync = FsyncBase::new(dir)?;
    let mut commit = SqliteBase::new(dir)?;
    let mut times = (Vec::new(), Vec::new(), Vec::new());
    let mut cpu = Duration::ZERO;
    for round in 0..rounds {
        times.0.push(timed(|| fsync.sync())?);
        times.1.push(timed(|| commit.commit(round))?);
        let before = cpu_time();
        times.2.push(timed(|| one_call(host, &tool, &principal, round))?);
        cpu += cpu_time() - before;
    }
    let spent: Duration = times.2.iter().sum();
    let one = Callers {
        callers: 1,
        calls: rounds,
        calls_per_second: rounds as f64 / spent.as_secs_f64(),
        latency: Latency::of(times.2),
        cpu_micros_per_call: cpu.as_secs_f64() * 1e6 / rounds as f64,
    };
    Ok((Latency::of(times.0), Latency::of(times.1), one))
}

fn concurrent(
    host: &Host,
    callers: usize,
    calls: u64,
    progress: &mut Progress,
) -> Result<Callers, Failure> {
    let next = AtomicU64::new(0);
    let (cpu, start) = (cpu_time(), Instant::now());
    let times = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..callers).map(|_| scope.spawn(|| keep_calling(host, &next, calls))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            progress.tick(next.load(Ordering::Relaxed).min(calls));
            thread::sleep(Duration::from_millis(5));
        }
        let mut times = Vec::new();
        for thread in threads {
            let done =
                thread.join().map_err(|_| Failure::state("INTERNAL", "a caller panicked"))?;
            times.extend(done?);
        }
        Ok::<_, Failure>(times)
    })?;
    let (cpu, spent) = (cpu_time() - cpu, start.elapsed());
    Ok(Callers {
        callers,
        calls,
        calls_per_second: calls as f64 / spent.as_secs_f64(),
        latency: Latency::of(times),
        cpu_micros_per_call: cpu.as_secs_f64() * 1e6 / calls as f64,
    })
}

fn keep_calling(host: &Host, next: &AtomicU64, calls: u64) -> Result<Vec<Duration>, Failure> {
    let (tool, principal) = caller()?;
    let mut times = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= calls {
            return Ok(times);
        }
        times.push(timed(|| one_call(host, &tool, &principal, number))?);
    }
}

fn memory(host: &Host, calls: u64, progress: &mut Progress) -> Result<Memory, Failure> {
    concurrent(host, 64, calls / 10, progress)?;
    let bytes_after_a_tenth = resident_bytes();
    concurrent(host, 64, calls - calls / 10, progress)?;
    Ok(Memory { calls, bytes_after_a_tenth, bytes_at_the_end: resident_bytes() })
}

/// Checks the chain, the tree and the lifecycle of the first entries, as `audit verify` does.
fn verification(host: &Host, entries: u64) -> Result<Timed, Failure> {
    let store = &*host.home().store;
    let head = store.head()?;
    let entries = entries.min(head.size);
    let edges = Edges { left: Vec::new(), right: store.tile_hashes(entries..head.size)? };
    let key = host.home().journal_key.verifier().clone();
    let start = Instant::now();
    let fault = |fault| Failure::state("AUDIT_FAILED", format!("{fault}"));
    let mut verifier = Verifier::new(key, &head.checkpoint, 0, entries, edges).map_err(fault)?;
    let mut found = Ok(());
    store.visit_raw(0..entries, &mut |bytes| {
        if found.is_ok() {
            found = verifier.entry(&bytes);
        }
        Ok(())
    })?;
    found.map_err(fault)?;
    verifier.finish().map_err(fault)?;
    Ok(Timed { entries, seconds: start.elapsed().as_secs_f64() })
}

/// Grows the journal and opens it anew, recovery included.
fn opening(
    host: Host,
    home: &Path,
    entries: u64,
    progress: &mut Progress,
) -> Result<Timed, Failure> {
    while host.home().store.head()?.size < entries {
        concurrent(&host, 64, 5_000.min(entries / 6), progress)?;
    }
    drop(host);
    let start = Instant::now();
    let host = Host::open(home)?;
    let seconds = start.elapsed().as_secs_f64();
    let entries = host.home().store.head()?.size;
    if entries < 200_000 {
        verify_home(host.home(), &[], |_| {}).map_err(Failure::from)?;
    }
    Ok(Timed { entries, seconds })
}

fn print(ui: Ui, report: &Report) -> Done {
    ui.line(paint(BOLD, "one after the other, alternating"))?;
    ui.line(format!("  bare fsync of 4 KiB    {}", report.fsync))?;
    ui.line(format!("  bare SQLite commit     {}", report.sqlite_commit))?;
    for row in &report.callers {
        let name = format!(
            "whole calls, {} caller{}",
            row.callers,
            if row.callers == 1 { "" } else { "s" }
        );
        let rate = format!(
            "{:.0} calls/s, {:.0} µs of processor time each",
            row.calls_per_second, row.cpu_micros_per_call
        );
        ui.line(wrap(&format!("  {name:<22} {}  {rate}", row.latency), 4))?;
    }
    ui.line(paint(BOLD, "ratios"))?;
    aim(
        ui,
        report.latency_in_commits <= 2.0,
        &format!(
            "a whole call takes {:.2} commits' worth of time at 1 caller",
            report.latency_in_commits
        ),
        "at most 2",
    )?;
    aim(
        ui,
        report.rate_over_one_commit_per_call >= 3.0,
        &format!(
            "64 callers get {:.1} times the rate that one commit per call would allow",
            report.rate_over_one_commit_per_call
        ),
        "at least 3",
    )?;
    aim(
        ui,
        report.cpu_micros_per_call <= 100.0,
        &format!("{:.0} µs of processor time per call at 64 callers", report.cpu_micros_per_call),
        "at most 100",
    )?;
    let memory = &report.memory;
    let grown = memory.bytes_at_the_end as f64 / memory.bytes_after_a_tenth.max(1) as f64;
    aim(
        ui,
        grown <= 1.1,
        &format!(
            "memory after {} calls is {:.2} times what it was after a tenth of them ({})",
            memory.calls,
            grown,
            bytes(memory.bytes_at_the_end)
        ),
        "flat",
    )?;
    let timed = &report.verification;
    aim(
        ui,
        timed.seconds / timed.entries as f64 <= 2.0 / 100_000.0,
        &format!("{} entries verified in {:.2} s", timed.entries, timed.seconds),
        "100,000 in 2 s",
    )?;
    let timed = &report.opening;
    aim(
        ui,
        timed.seconds <= 1.0,
        &format!("a home with {} entries opened in {:.3} s", timed.entries, timed.seconds),
        "1,000,000 in 1 s",
    )
}
