//! `bench policy`: decisions by sets of 10, 1,000 and 10,000 policies.

use std::time::{Duration, Instant};

use clap::Args;
use countersign_model::{
    CallFacts, Capability, Decision, Digest, Failure, Need, RuntimeKind, SafetyTier, SandboxMode,
    Timestamp, ToolFacts,
};
use countersign_policy::{Policies, Source};
use serde::Serialize;
use serde_json::{Value, json};

use super::aim;
use super::measure::Latency;
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, Done, Progress, Ui, paint, wrap};

/// Measure decisions: rate and latency with 10, 1,000 and 10,000 policies
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// A tenth of the decisions, for a first look
    #[arg(long)]
    quick: bool,
}

const SMALLEST: usize = 10;
const LARGEST: usize = 10_000;
const SIZES: [usize; 3] = [SMALLEST, 1_000, LARGEST];

/// How many rules of a large set are about the call that is decided.
const ABOUT: usize = 10;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Ten policies are about the call, the others about other tools and principals.
    few_match: Vec<Row>,
    /// Every policy can match.
    all_match: Vec<Row>,
    /// The median with 10,000 policies over the median with 10, where ten can match in both.
    growth: f64,
    /// The same where all can match, divided by how much more can match.
    growth_per_match: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    policies: usize,
    can_match: usize,
    compile_ms: f64,
    decisions: usize,
    decisions_per_second: f64,
    latency: Latency,
}

pub(super) fn run(context: &Context, args: &PolicyArgs) -> Done<Exit> {
    let report = measure(if args.quick { 10 } else { 1 })?;
    match context.ui.json {
        true => context.ui.json(&report)?,
        false => print(context.ui, &report)?,
    }
    Ok(Exit::Done)
}

fn measure(divisor: usize) -> Result<Report, Failure> {
    let mut progress = Progress::new("deciding");
    let mut rows = |can_match: fn(usize) -> usize| -> Result<Vec<Row>, Failure> {
        let one = |size: &usize| {
            let can_match = can_match(*size);
            // Enough for a P99, and few enough where each takes long.
            let decisions = (200_000 / can_match).clamp(2_000, 20_000) / divisor;
            one_set(*size, can_match, decisions, &mut progress)
        };
        SIZES.iter().map(one).collect()
    };
    let few_match = rows(|size| size.min(ABOUT))?;
    let all_match = rows(|size| size)?;
    let growth = ratio(&few_match);
    let more = LARGEST as f64 / SMALLEST as f64;
    let growth_per_match = ratio(&all_match) / more;
    Ok(Report { few_match, all_match, growth, growth_per_match })
}

fn ratio(rows: &[Row]) -> f64 {
    match (rows.first(), rows.last()) {
        (Some(first), Some(last)) => last.latency.p50_micros / first.latency.p50_micros.max(0.001),
        _ => 0.0,
    }
}

fn one_set(
    policies: usize,
    can_match: usize,
    decisions: usize,
    progress: &mut Progress,
) -> Result<Row, Failure> {
    let start = Instant::now();
    let set = Policies::compile(&[source(policies, can_match)], &[]).map_err(|problems| {
        let first = problems.first().map(ToString::to_string).unwrap_or_default();
        Failure::state("INTERNAL", format!("the policies are not valid: {first}"))
    })?;
    let compile_ms = start.elapsed().as_secs_f64() * 1e3;
    let (mut facts, input) = (facts()?, json!({"path": "src/main.rs", "content": "x"}));
    decide(&set, &facts, &input)?;
    let mut times = Vec::with_capacity(decisions);
    let start = Instant::now();
    for done in 0..decisions {
        // Another file each time: the verdict on the same call again is only looked up.
        facts.effects = vec![writes(done)];
        times.push(decide(&set, &facts, &input)?);
        progress.tick(done as u64);
    }
    let spent = start.elapsed().as_secs_f64();
    let decisions_per_second = decisions as f64 / spent;
    let latency = Latency::of(times);
    Ok(Row { policies, can_match, compile_ms, decisions, decisions_per_second, latency })
}

fn decide(set: &Policies, facts: &CallFacts, input: &Value) -> Result<Duration, Failure> {
    let start = Instant::now();
    let verdict = set.decide(facts, input);
    let spent = start.elapsed();
    match verdict.decision {
        Decision::Allow => Ok(spent),
        other => Err(Failure::state("INTERNAL", format!("the decision is {other}"))),
    }
}

/// One rule permits the call; the others forbid what it does not do, or are about somebody else.
fn source(policies: usize, can_match: usize) -> Source {
    let mut text = String::from("@id(\"base\") permit (principal, action, resource);\n");
    for n in 1..policies {
        let (who, what) = match n < can_match {
            true => ("builder".to_owned(), "file.write".to_owned()),
            false => (format!("other-{n}"), format!("other.tool{n}")),
        };
        text.push_str(&format!(
            "@id(\"r{n}\") forbid (principal == Agent::\"{who}\", action == Action::\"invoke\", \
             resource == Tool::\"{what}\") when {{ context has path && context.path like \
             \"/secret/{n}/*\" }};\n"
        ));
    }
    Source { name: "bench.cedar".to_owned(), text }
}

fn writes(file: usize) -> Need {
    Need::one(Capability::FilesystemWrite, format!("/srv/app/src/{file}.rs"))
}

fn facts() -> Result<CallFacts, Failure> {
    Ok(CallFacts {
        chain: Vec::new(),
        effects: vec![writes(0)],
        hosts: Vec::new(),
        mode: SandboxMode::WorkspaceWrite,
        people: 0,
        principal: "agent:builder".parse()?,
        time: Timestamp::from_millis(1_800_000_000_000),
        tool: ToolFacts {
            capabilities: vec![Capability::FilesystemRead, Capability::FilesystemWrite],
            declaration: Digest::of(b"bench"),
            files: None,
            id: "file.write".parse()?,
            isolation: 0,
            runtime: RuntimeKind::Builtin,
            tier: SafetyTier::Write,
            version: "1.0.0".parse().map_err(|_| Failure::state("INTERNAL", "no version"))?,
        },
        toolset: None,
        workspace: Some("/srv/app".to_owned()),
    })
}

fn print(ui: Ui, report: &Report) -> Done {
    for (title, rows) in [
        ("ten policies are about the call", &report.few_match),
        ("every policy can match", &report.all_match),
    ] {
        ui.line(paint(BOLD, title))?;
        for row in rows {
            let name = format!("{} policies", row.policies);
            let rate = format!("{:.0} decisions/s", row.decisions_per_second);
            let read = format!("read in {:.0} ms", row.compile_ms);
            ui.line(wrap(&format!("  {name:<16} {}  {rate}, {read}", row.latency), 4))?;
        }
    }
    ui.line(paint(BOLD, "ratios"))?;
    let p99 = report.few_match.get(1).map_or(0.0, |row| row.latency.p99_micros);
    let text = format!("a decision among 1,000 policies takes {p99:.0} µs at P99");
    aim(ui, p99 <= 100.0, &text, "at most 100")?;
    let text = format!("10,000 policies take {:.2} times as long as 10", report.growth);
    aim(ui, report.growth <= 2.0, &text, "as long, when as many can match")?;
    let text = format!(
        "when all can match, 1,000 times as many take {:.2} times as long each",
        report.growth_per_match
    );
    aim(ui, report.growth_per_match <= 1.0, &text, "at most 1")
}
