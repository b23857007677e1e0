//! `bench runs`: runs over HTTP on a real host, beside the bare cost of the disk they stand on.

mod client;
mod stage;
mod streams;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use countersign_model::Failure;
use serde::Serialize;
use serde_json::{Value, json};

use super::baseline::SqliteBase;
use super::measure::{Latency, cpu_time_of, resident_bytes_of, timed};
use super::{Scratch, aim};
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, Done, Progress, Ui, bytes, paint, wrap};
use client::Client;
use stage::{ASKS, NOTHING, ROW, ROW_NODES, Serving, Stage};
use streams::Streams;

/// Measure runs over HTTP: rate and latency at 1, 16 and 64 clients, streams, memory and start
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Measure on the disk that holds this directory
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,

    /// A tenth of the runs and events, for a first look
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    sqlite_commit: Latency,
    clients: Vec<Clients>,
    /// From the request to having read the end, at 1 client, over one bare commit, in turn.
    latency_in_commits: f64,
    /// Runs per second at 64 clients over what one commit per run would allow.
    rate_over_one_commit_per_run: f64,
    /// A poll of a finished run over a request that only reads memory, in turn.
    poll: Latency,
    poll_over_plain_request: f64,
    /// From a recorded answer to whoever waits for what follows.
    news: Latency,
    streams: Streams,
    memory: Memory,
    start: Start,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Clients {
    clients: usize,
    runs: u64,
    runs_per_second: f64,
    latency: Latency,
    /// Of the host alone.
    cpu_micros_per_run: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    runs: u64,
    bytes_after_a_tenth: u64,
    bytes_at_the_end: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    events: u64,
    seconds: f64,
    seconds_when_empty: f64,
}

pub(super) fn run(context: &Context, args: &RunsArgs) -> Done<Exit> {
    let scratch = Scratch::beneath(&args.dir)?;
    let dir = scratch.0.canonicalize().map_err(|error| failed(&error))?;
    let report = measure(&dir, if args.quick { 10 } else { 1 })?;
    if context.ui.json {
        context.ui.json(&report)?;
    } else {
        print(context.ui, &report)?;
    }
    Ok(Exit::Done)
}

fn measure(dir: &Path, divisor: u64) -> Result<Report, Failure> {
    let stage = Stage::new(dir, "home")?;
    let host = stage.serve()?;
    let mut progress = Progress::new("runs made:");
    let (sqlite_commit, one) = alternate(dir, &stage, &host, 2000 / divisor)?;
    let sixteen = concurrent(&stage, &host, 16, 10_000 / divisor, NOTHING, &mut progress)?;
    let sixty_four = concurrent(&stage, &host, 64, 20_000 / divisor, NOTHING, &mut progress)?;
    let (poll, plain) = polls(&stage, &host, 2000 / divisor)?;
    let news = news(&stage, &host, 200 / divisor)?;
    let streams = streams::measure(&stage, &host, 1000 / usize::try_from(divisor).unwrap_or(1))?;
    let memory = memory(&stage, &host, 100_000 / divisor, &mut progress)?;
    let made = 32_000 / divisor + memory.runs;
    let start = start(dir, &stage, host, made * 4, 1_000_000 / divisor, &mut progress)?;
    Ok(Report {
        latency_in_commits: one.latency.p50_micros / sqlite_commit.p50_micros,
        rate_over_one_commit_per_run: sixty_four.runs_per_second * sqlite_commit.p50_micros / 1e6,
        poll_over_plain_request: poll.p50_micros / plain.p50_micros,
        sqlite_commit,
        clients: vec![one, sixteen, sixty_four],
        poll,
        news,
        streams,
        memory,
        start,
    })
}

fn begin(client: &mut Client, workflow: &str) -> Result<String, Failure> {
    let begun = client.post("/v1/runs", &json!({"workflowId": workflow}))?;
    Ok(text(&begun, "runId").to_owned())
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// How many events a run has.
fn events(client: &mut Client, run: &str) -> Result<u64, Failure> {
    let told = client.get(&format!("/v1/runs/{run}/events/poll"))?;
    Ok(told.get("events").and_then(Value::as_array).map_or(0, Vec::len) as u64)
}

/// From the request for a run to having read that it is over.
fn whole_run(client: &mut Client, workflow: &str) -> Result<(), Failure> {
    let run = begin(client, workflow)?;
    loop {
        let shown = client.get(&format!("/v1/runs/{run}"))?;
        match text(&shown, "status") {
            "completed" => return Ok(()),
            "pending" | "running" => {}
            other => return Err(failed(&format!("a run is {other}"))),
        }
    }
}

/// Commit and run in turn, so that a slow moment of the disk hits both alike.
fn alternate(
    dir: &Path,
    stage: &Stage,
    host: &Serving,
    rounds: u64,
) -> Result<(Latency, Clients), Failure> {
    let mut commit = SqliteBase::new(dir)?;
    let mut client = host.client(stage)?;
    let mut times = (Vec::new(), Vec::new());
    let before = cpu_time_of(host.process());
    for round in 0..rounds {
        times.0.push(timed(|| commit.commit(round))?);
        times.1.push(timed(|| whole_run(&mut client, NOTHING))?);
    }
    let spent: Duration = times.1.iter().sum();
    let one = Clients {
        clients: 1,
        runs: rounds,
        runs_per_second: rounds as f64 / spent.as_secs_f64(),
        latency: Latency::of(times.1),
        cpu_micros_per_run: spent_on(host, before, rounds),
    };
    Ok((Latency::of(times.0), one))
}

fn concurrent(
    stage: &Stage,
    host: &Serving,
    clients: usize,
    runs: u64,
    workflow: &str,
    progress: &mut Progress,
) -> Result<Clients, Failure> {
    let next = AtomicU64::new(0);
    let before = cpu_time_of(host.process());
    let start = Instant::now();
    let keep_asking = || -> Result<Vec<Duration>, Failure> {
        let mut client = host.client(stage)?;
        let mut times = Vec::new();
        while next.fetch_add(1, Ordering::Relaxed) < runs {
            times.push(timed(|| whole_run(&mut client, workflow))?);
        }
        Ok(times)
    };
    let times = thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(keep_asking)).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            progress.tick(next.load(Ordering::Relaxed).min(runs));
            thread::sleep(Duration::from_millis(5));
        }
        let mut times = Vec::new();
        for thread in threads {
            times.extend(thread.join().map_err(|_| failed(&"a client panicked"))??);
        }
        Ok::<_, Failure>(times)
    })?;
    Ok(Clients {
        clients,
        runs,
        runs_per_second: runs as f64 / start.elapsed().as_secs_f64(),
        latency: Latency::of(times),
        cpu_micros_per_run: spent_on(host, before, runs),
    })
}

fn spent_on(host: &Serving, before: Duration, runs: u64) -> f64 {
    let spent = cpu_time_of(host.process()).saturating_sub(before);
    spent.as_secs_f64() * 1e6 / runs.max(1) as f64
}

fn polls(stage: &Stage, host: &Serving, rounds: u64) -> Result<(Latency, Latency), Failure> {
    let mut client = host.client(stage)?;
    let run = begin(&mut client, NOTHING)?;
    let path = format!("/v1/runs/{run}/events/poll");
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        times.0.push(timed(|| client.get(&path).map(drop))?);
        times.1.push(timed(|| client.get("/.well-known/openwop").map(drop))?);
    }
    Ok((Latency::of(times.0), Latency::of(times.1)))
}

/// How long it takes from the moment that an answer is accepted until a waiting poll has the rest.
fn news(stage: &Stage, host: &Serving, rounds: u64) -> Result<Latency, Failure> {
    let (mut client, mut waiting) = (host.client(stage)?, host.client(stage)?);
    let mut times = Vec::new();
    for _ in 0..rounds {
        let run = begin(&mut client, ASKS)?;
        let last = events(&mut client, &run)?.saturating_sub(1);
        let path = format!("/v1/runs/{run}/events/poll?lastSequence={last}");
        let told = thread::scope(|scope| {
            let told = scope.spawn(|| waiting.get(&path).map(|_| Instant::now()));
            thread::sleep(Duration::from_millis(20));
            let accept = json!({"resumeValue": {"action": "accept"}});
            let answered = client.post(&format!("/v1/runs/{run}/interrupts/gate"), &accept);
            let (answered, at) = (answered, Instant::now());
            let told = told.join().map_err(|_| failed(&"a client panicked"))??;
            answered.map(|_| told.saturating_duration_since(at))
        })?;
        times.push(told);
    }
    Ok(Latency::of(times))
}

fn memory(
    stage: &Stage,
    host: &Serving,
    runs: u64,
    progress: &mut Progress,
) -> Result<Memory, Failure> {
    concurrent(stage, host, 64, runs / 10, NOTHING, progress)?;
    let bytes_after_a_tenth = resident_bytes_of(host.process());
    concurrent(stage, host, 64, runs - runs / 10, NOTHING, progress)?;
    Ok(Memory { runs, bytes_after_a_tenth, bytes_at_the_end: resident_bytes_of(host.process()) })
}

/// Grows the journal, ends the host and starts it again, beside one that has nothing.
fn start(
    dir: &Path,
    stage: &Stage,
    host: Serving,
    events: u64,
    wanted: u64,
    progress: &mut Progress,
) -> Result<Start, Failure> {
    // Two for the run and two for each of its nodes.
    let each = 2 + 2 * ROW_NODES as u64;
    let rows = wanted.saturating_sub(events).div_ceil(each);
    concurrent(stage, &host, 16, rows, ROW, progress)?;
    drop(host);
    let empty = Stage::new(dir, "empty")?;
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..5 {
        times.0.push(stage.serve()?.started);
        times.1.push(empty.serve()?.started);
    }
    let median = |times| Latency::of(times).p50_micros / 1e6;
    Ok(Start {
        events: events + rows * each,
        seconds: median(times.0),
        seconds_when_empty: median(times.1),
    })
}

fn print(ui: Ui, report: &Report) -> Done {
    ui.line(paint(BOLD, "from the request to the end that was read"))?;
    ui.line(format!("  bare SQLite commit     {}", report.sqlite_commit))?;
    for row in &report.clients {
        let plural = if row.clients == 1 { "" } else { "s" };
        let name = format!("runs, {} client{plural}", row.clients);
        let (rate, cpu) = (row.runs_per_second, row.cpu_micros_per_run);
        let rate = format!("{rate:.0} runs/s, {cpu:.0} µs of processor time each");
        ui.line(wrap(&format!("  {name:<22} {}  {rate}", row.latency), 4))?;
    }
    let (commits, shared) = (report.latency_in_commits, report.rate_over_one_commit_per_run);
    let words = format!("a whole run takes {commits:.2} commits' worth of time at 1 client");
    aim(ui, commits <= 3.0, &words, "at most 3")?;
    let words =
        format!("64 clients get {shared:.1} times the rate that one commit per run would allow");
    aim(ui, shared >= 3.0, &words, "at least 3")?;
    ui.line(paint(BOLD, "reading"))?;
    let over = report.poll_over_plain_request;
    let poll = report.poll;
    let words = format!("  a poll: {poll}; {over:.1} times a request that reads memory alone");
    ui.line(wrap(&words, 4))?;
    let news = report.news;
    ui.line(wrap(&format!("  a waiting poll hears of what follows an answer: {news}"), 4))?;
    print_streams(ui, &report.streams)?;
    print_growth(ui, report)
}

fn print_streams(ui: Ui, streams: &Streams) -> Done {
    let Streams { subscribers, events_per_second, over_bare_sockets, .. } = streams;
    let words = format!(
        "  {subscribers} followers of one run: {events_per_second:.0} events/s; \
         {over_bare_sockets:.1} times what the same bytes take through bare sockets"
    );
    ui.line(wrap(&words, 4))
}

fn print_growth(ui: Ui, report: &Report) -> Done {
    ui.line(paint(BOLD, "growing"))?;
    let memory = &report.memory;
    let grown = memory.bytes_at_the_end as f64 / memory.bytes_after_a_tenth.max(1) as f64;
    let (runs, held) = (memory.runs, bytes(memory.bytes_at_the_end));
    let words = format!(
        "memory after {runs} runs is {grown:.2} times what it was after a tenth of them ({held})"
    );
    aim(ui, grown <= 1.1, &words, "flat")?;
    let Start { events, seconds, seconds_when_empty } = report.start;
    let words = format!(
        "the host answers {seconds:.3} s after its start with {events} events, \
         {seconds_when_empty:.3} s with none"
    );
    aim(ui, seconds <= 0.2, &words, "0.2 s with 1,000,000")
}

fn failed(what: &dyn std::fmt::Display) -> Failure {
    Failure::resource("BENCH_FAILED", format!("the measurement failed: {what}"))
}
