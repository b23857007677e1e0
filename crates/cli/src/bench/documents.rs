//! `bench documents`: judging requests and results of 4 KiB and 64 KiB.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;
use countersign_documents::request::{
    self, Cores, Given, Input, Language, Network, NewRequest, Output, RequestedBy, Risk, RiskLevel,
    Sensitivity, Stage,
};
use countersign_documents::result::{
    self, Against, Backend, Captured, Ending, Limits, Outcome, Produced,
};
use countersign_documents::scan::Known;
use countersign_model::{Digest, Failure, Timestamp};
use serde::Serialize;

use super::aim;
use super::measure::Latency;
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, Done, Progress, Ui, paint, wrap};

/// Measure judging: documents per second for requests and results of 4 KiB and 64 KiB
#[derive(Debug, Args)]
pub(crate) struct DocumentsArgs {
    /// A tenth of the documents, for a first look
    #[arg(long)]
    quick: bool,
}

const ROUNDS: usize = 2_000;

/// Noon of some day, and an hour before.
const NOW: Timestamp = Timestamp::from_millis(1_800_003_600_000);
const MADE: Timestamp = Timestamp::from_millis(1_800_000_000_000);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    kind: &'static str,
    bytes: usize,
    documents_per_second: f64,
    latency: Latency,
    /// How many times as long as hashing the same bytes.
    over_hashing: f64,
}

pub(super) fn run(context: &Context, args: &DocumentsArgs) -> Done<Exit> {
    let rows = measure(if args.quick { ROUNDS / 10 } else { ROUNDS })?;
    match context.ui.json {
        true => context.ui.json(&rows)?,
        false => print(context.ui, &rows)?,
    }
    Ok(Exit::Done)
}

fn measure(rounds: usize) -> Result<Vec<Row>, Failure> {
    let mut progress = Progress::new("judging");
    let mut rows = Vec::new();
    // Lists and texts of a request, lines of a stream: as many as make the size.
    for (files, text) in [(4, 350), (60, 440)] {
        let document = a_request(files, text)?;
        rows.push(one("request", &document, rounds, &mut progress, judge_request)?);
    }
    for (lines, length) in [(40, 60), (195, 320)] {
        let document = a_result(lines, length);
        rows.push(one("result", &document, rounds, &mut progress, judge_result)?);
    }
    Ok(rows)
}

fn one(
    kind: &'static str,
    document: &[u8],
    rounds: usize,
    progress: &mut Progress,
    judge: fn(&[u8]) -> bool,
) -> Result<Row, Failure> {
    let (mut judging, mut hashing) = (Vec::with_capacity(rounds), Duration::ZERO);
    for round in 0..rounds {
        let start = Instant::now();
        let accepted = judge(document);
        judging.push(start.elapsed());
        if !accepted {
            return Err(Failure::state("INTERNAL", format!("the {kind} was rejected")));
        }
        let start = Instant::now();
        std::hint::black_box(Digest::of(document));
        hashing += start.elapsed();
        progress.tick(round as u64);
    }
    let spent: Duration = judging.iter().sum();
    Ok(Row {
        kind,
        bytes: document.len(),
        documents_per_second: rounds as f64 / spent.as_secs_f64(),
        over_hashing: spent.as_secs_f64() / hashing.as_secs_f64().max(1e-9),
        latency: Latency::of(judging),
    })
}

fn judge_request(bytes: &[u8]) -> bool {
    let stage = Stage::Approved;
    let given = Given { file_name: None, now: NOW, ceilings: Default::default(), stage };
    request::judge(bytes, &given).accepted().is_some()
}

fn judge_result(bytes: &[u8]) -> bool {
    let against = Against { file_name: None, now: NOW, request: None, journal: None };
    result::judge(bytes, &against).judgement.accepted().is_some()
}

fn a_request(files: usize, text: usize) -> Result<Vec<u8>, Failure> {
    let described =
        |at: usize| Output { path: format!("part-{at}.json"), description: words(at, text) };
    let new = NewRequest {
        slug: "bench".to_owned(),
        created: MADE,
        requested_by: RequestedBy::CoreDraft,
        purpose: "Measure how long judging takes.".to_owned(),
        language: Language::Python,
        network: Network::None,
        cpu_limit: Cores { thousandths: 1000 },
        memory_limit_mb: 256,
        time_limit_sec: 60,
        inputs: vec![Input { name: "script.py".to_owned(), sha256: Digest::of(b"script") }],
        outputs: (0..files).map(described).collect(),
        claims: Vec::new(),
        command: "python script.py".to_owned(),
        risk: Risk {
            level: RiskLevel::Low,
            justification: "It reads nothing but its own script.".to_owned(),
            sensitivity: Sensitivity::Public,
            network_rationale: "none".to_owned(),
        },
    };
    request::approve(request::draft(&new).as_bytes(), "human:bench", NOW)
        .map_err(|error| Failure::state("INTERNAL", error.to_string()))
}

fn a_result(lines: usize, length: usize) -> Vec<u8> {
    let text: String = (0..lines).map(|at| format!("{}\n", words(at, length))).collect();
    let known = Known::default();
    let outcome = Outcome {
        backend: Backend { name: "bench".to_owned(), version: None },
        command: "python script.py".to_owned(),
        created: NOW,
        destinations: Vec::new(),
        ending: Ending::Exited(0),
        limits: Limits { cpu: Cores { thousandths: 1000 }, memory_mb: 256, time_sec: 60 },
        notes: BTreeMap::new(),
        produced: vec![Produced {
            description: None,
            path: "output.json".to_owned(),
            sha256: Digest::of(b"output"),
        }],
        request_id: request::request_id(MADE, "bench"),
        runtime_ms: 100,
        stderr: Captured::of(b"", &known),
        stdout: Captured::of(text.as_bytes(), &known),
    };
    result::render(&outcome).text.into_bytes()
}

/// Ordinary words, a little different each time.
fn words(seed: usize, length: usize) -> String {
    const WORDS: [&str; 8] =
        ["rows", "of", "table", "were", "counted", "and", "summed", "without errors"];
    let mut text = String::new();
    let mut at = seed;
    while text.len() < length {
        let word = WORDS.get(at % WORDS.len()).copied().unwrap_or_default();
        text.push_str(word);
        text.push(' ');
        at = at * 3 + 1 + text.len();
        at %= 1 << 20;
    }
    text.trim_end().to_owned()
}

fn print(ui: Ui, rows: &[Row]) -> Done {
    for row in rows {
        let name = paint(BOLD, format!("{} of {} KiB", row.kind, row.bytes.div_ceil(1024)));
        let rate = format!(
            "{:.0} documents/s, {:.0} times hashing it",
            row.documents_per_second, row.over_hashing
        );
        ui.line(wrap(&format!("{name}  {}  {rate}", row.latency), 4))?;
    }
    let requests = rows.iter().filter(|row| row.kind == "request");
    let p99 = requests.map(|row| row.latency.p99_micros).fold(0.0, f64::max);
    let text = format!("the largest request takes {:.2} ms at P99", p99 / 1000.0);
    aim(ui, p99 <= 5_000.0, &text, "under 5 ms")
}
