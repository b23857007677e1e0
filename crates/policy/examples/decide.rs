//! How long one decision takes: `cargo run --release -p countersign-policy --example decide`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "it prints figures, and stops at the first surprise"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use countersign_model::{CallFacts, Decision};
use countersign_policy::{DEFAULT_POLICY, Policies, Source};
use serde_json::{Value, json};

fn main() {
    let (facts, input) = (facts(), json!({"path": "src/main.rs", "content": "fn main() {}"}));
    println!(
        "{:>8}  {:<22} {:>9} {:>9} {:>9} {:>10}",
        "policies", "set", "P50", "P99", "max", "compile"
    );
    for count in [10, 1_000, 10_000] {
        measure("others' tools", count, &facts, &input, |n| {
            format!(
                "permit (principal, action, resource == Tool::\"tool{n}.run\") when {{ context.mode == \"repo_write\" }};\n"
            )
        });
        measure("others' principals", count, &facts, &input, |n| {
            format!(
                "forbid (principal == Agent::\"other{n}\", action, resource) when {{ context.riskLevel > 1 }};\n"
            )
        });
        measure("all can match", count, &facts, &input, |n| {
            format!(
                "forbid (principal, action, resource) when {{ context has relative && context.relative like \"no{n}/*\" }};\n"
            )
        });
    }
}

fn measure(
    what: &str,
    count: usize,
    facts: &CallFacts,
    input: &Value,
    rule: impl Fn(usize) -> String,
) {
    let text = (0..count).map(rule).collect();
    let file = |name: &str, text| Source { name: name.to_owned(), text };
    let sources = [file("many.cedar", text), file("default.cedar", DEFAULT_POLICY.to_owned())];
    let started = Instant::now();
    let policies = Policies::compile(&sources, &[]).unwrap();
    let compile = started.elapsed();
    assert_eq!(policies.decide(facts, input).decision, Decision::Allow);
    let rounds = if what.starts_with("all") { 2_000_000 / (count + 100) } else { 20_000 };
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            let _ = black_box(policies.decide(black_box(facts), black_box(input)));
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    let (p50, p99, max) = (times[rounds / 2], times[rounds * 99 / 100], times[rounds - 1]);
    println!("{count:>8}  {what:<22} {p50:>9.1?} {p99:>9.1?} {max:>9.1?} {compile:>10.1?}");
}

/// One file written below a workspace: one effect, two questions.
fn facts() -> CallFacts {
    serde_json::from_value(json!({
        "effects": [{"capability": "filesystem.write", "resource": "/srv/app/src/main.rs"}],
        "mode": "workspace_write",
        "principal": "agent:builder",
        "chain": ["human:ada"],
        "time": 1_770_653_101_000_i64,
        "tool": {
            "capabilities": ["filesystem.read", "filesystem.write"],
            "declaration": "0".repeat(64),
            "id": "file.write",
            "isolation": 0,
            "runtime": "builtin",
            "tier": "write",
            "version": "1.0.0",
        },
        "workspace": "/srv/app",
    }))
    .unwrap()
}
