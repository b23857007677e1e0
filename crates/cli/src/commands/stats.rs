use clap::Args;
use countersign_host::Home;
use countersign_host::stats::{Stats, collect};

use super::execution::FilterArgs;
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, Done, Ui, bytes, paint};

/// Show what the journal says about all calls: counts, rates, durations, usage
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    filter: FilterArgs,
}

pub(super) fn run(context: &Context, args: &StatsArgs) -> Done<Exit> {
    let home = Home::open(&context.home)?;
    let stats = collect(&*home.store, &args.filter.filter())?;
    if context.ui.json {
        context.ui.json(&stats)?;
    } else {
        print(context.ui, &stats)?;
    }
    Ok(Exit::Done)
}

fn print(ui: Ui, stats: &Stats) -> Done {
    let row = |name: &str, value: String| {
        ui.line(format!("{} {value}", paint(BOLD, format!("{name:<14}"))))
    };
    let percent =
        |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
    row("executions", format!("{} ({} open)", stats.executions, stats.open))?;
    row("completed", stats.completed.to_string())?;
    row("failed", format!("{} (invalid input)", stats.failed))?;
    row("denied", stats.denials.to_string())?;
    row("rolled back", format!("{} calls, {} rollbacks", stats.rolled_back, stats.rollbacks))?;
    row("retries", stats.retries.to_string())?;
    row("success rate", percent(stats.success_rate))?;
    row("failure rate", percent(stats.failure_rate))?;
    let durations = stats.duration_ms.map_or("-".to_owned(), |d| {
        format!("P50 {} ms, P95 {} ms, P99 {} ms, longest {} ms", d.p50, d.p95, d.p99, d.max)
    });
    row("duration", durations)?;
    let usage = &stats.usage;
    row("processor", format!("{:.1} ms", usage.cpu_micros as f64 / 1000.0))?;
    row("peak memory", bytes(usage.peak_memory))?;
    row("read, written", format!("{}, {}", bytes(usage.bytes_read), bytes(usage.bytes_written)))?;
    if stats.unknown > 0 {
        row("unknown", format!("{} calls need a human to look", stats.unknown))?;
    }
    Ok(())
}
