//! What a run has changed, as a diff.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};

use clap::Args;
use countersign_host::Host;
use countersign_host::work::{PATIENCE, WorkPlace};
use countersign_model::{Failure, RunId, WorkspaceId};
use countersign_repository::{Change, Leash, LineCount, Status};
use serde_json::{Value, json};

use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Stop, Ui, inert, paint, wrap};

/// Show what a run has changed, against the commit that it started from
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    id: WorkspaceId,

    /// The run
    #[arg(long)]
    run: RunId,

    /// Only which files, and how many lines
    #[arg(long)]
    stat: bool,
}

/// A diff of more bytes is not put into one JSON document.
const MOST_JSON: usize = 16 << 20;

pub(super) fn run(ui: Ui, host: &Host, args: &DiffArgs) -> Done {
    let place = host.existing_work(&args.id, &args.run)?;
    if !ui.json && !args.stat {
        return stream(&place);
    }
    let changes = Changes::of(&place)?;
    if ui.json {
        let diff = if args.stat { None } else { text(&place)? };
        return ui.json(&changes.to_json(&place, diff.as_deref()));
    }
    changes.print(ui)
}

/// All of it: bytes for a pipe, harmless coloured lines for a terminal.
fn stream(place: &WorkPlace) -> Done {
    let stdout = io::stdout();
    let mut out = Out { to: &stdout, lines: stdout.is_terminal(), begun: Vec::new(), error: None };
    let done = write_diff(place, &mut out).and_then(|()| {
        out.finish().map_err(|error| Failure::resource("OUTPUT_FAILED", error.to_string()))
    });
    match out.error.take() {
        Some(error) => Err(Stop::Output(error)),
        None => Ok(done?),
    }
}

fn write_diff(place: &WorkPlace, out: &mut dyn Write) -> Result<(), Failure> {
    let mut leash = Leash::lasting(PATIENCE);
    let worktree = place.worktree(&mut leash)?;
    worktree.diff(&place.base()?, &place.tree()?, &[], out, &mut leash)
}

/// Standard output. What went wrong there is told apart from what went wrong with git.
struct Out<'o> {
    to: &'o io::Stdout,
    lines: bool,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    error: Option<io::Error>,
}

impl Out<'_> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = match self.lines {
            false => self.to.lock().write_all(bytes),
            true => self.send_lines(bytes),
        };
        sent.map_err(|error| {
            let kind = error.kind();
            self.error = Some(error);
            kind.into()
        })
    }

    fn send_lines(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.begun.extend_from_slice(bytes);
        let whole = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.begun.split_off(whole);
        let lines = std::mem::replace(&mut self.begun, rest);
        let mut out = anstream::stdout();
        for line in String::from_utf8_lossy(&lines).lines() {
            writeln!(out, "{}", coloured(line))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.begun.is_empty() {
            self.send(b"\n")?;
        }
        self.flush()
    }
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.lock().flush()
    }
}

fn coloured(line: &str) -> String {
    let safe = line.split('\t').map(inert).collect::<Vec<_>>().join("\t");
    match line.as_bytes() {
        [b'+', ..] if !line.starts_with("+++ ") => paint(GOOD, safe),
        [b'-', ..] if !line.starts_with("--- ") => paint(BAD, safe),
        [b'@', ..] => paint(DIM, safe),
        [b' ', ..] => safe,
        _ => paint(BOLD, safe),
    }
}

/// The same as text, if it is text and not too long.
fn text(place: &WorkPlace) -> Result<Option<String>, Failure> {
    let mut start = Start(Vec::new());
    write_diff(place, &mut start)?;
    let whole = start.0.len() <= MOST_JSON;
    Ok(String::from_utf8(start.0).ok().filter(|_| whole))
}

/// Keeps little more than what can be used.
struct Start(Vec<u8>);

impl Write for Start {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() <= MOST_JSON {
            self.0.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Which files a run has changed.
pub(super) struct Changes {
    files: Vec<(Change, Option<(u64, u64)>)>,
}

impl Changes {
    pub(super) fn of(place: &WorkPlace) -> Result<Self, Failure> {
        let mut leash = Leash::lasting(PATIENCE);
        let (base, tree) = (place.base()?, place.tree()?);
        let worktree = place.worktree(&mut leash)?;
        let counts = worktree.line_counts(&base, &tree, &mut leash)?;
        let counts: HashMap<_, _> =
            counts.into_iter().map(|LineCount { path, lines }| (path, lines)).collect();
        let changed = worktree.changed(&base, &tree, &mut leash)?;
        let with_lines = |change: Change| {
            let lines = counts.get(&change.path).copied().flatten();
            (change, lines)
        };
        Ok(Changes { files: changed.into_iter().map(with_lines).collect() })
    }

    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    fn to_json(&self, place: &WorkPlace, diff: Option<&str>) -> Value {
        let file = |(change, lines): &(Change, Option<(u64, u64)>)| {
            json!({
                "path": change.path,
                "from": change.from,
                "status": change.status,
                "added": lines.map(|lines| lines.0),
                "deleted": lines.map(|lines| lines.1),
            })
        };
        json!({
            "workspace": place.workspace.id,
            "run": place.work.run,
            "base": place.work.base,
            "tree": place.work.tree,
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "diff": diff,
        })
    }

    pub(super) fn print(&self, ui: Ui) -> Done {
        if self.files.is_empty() {
            return ui.line("no changes");
        }
        for (change, lines) in &self.files {
            let from = change.from.as_ref().map(|from| format!(" (was {})", inert(from)));
            let lines = match lines {
                Some((added, deleted)) => {
                    let (added, deleted) = (format!("+{added}"), format!("-{deleted}"));
                    format!("{} {}", paint(GOOD, added), paint(BAD, deleted))
                }
                None => paint(DIM, "binary"),
            };
            let how = paint(BOLD, letter(change.status));
            let name = inert(&change.path);
            ui.line(wrap(&format!("{how} {name}{} {lines}", from.unwrap_or_default()), 2))?;
        }
        let (added, deleted) = self.totals();
        let files = self.count();
        ui.line(paint(DIM, format!("{files} files, {added} lines added, {deleted} deleted")))
    }

    fn totals(&self) -> (u64, u64) {
        let all = self.files.iter().filter_map(|(_, lines)| *lines);
        all.fold((0, 0), |(added, deleted), (a, d)| (added + a, deleted + d))
    }
}

fn letter(status: Status) -> &'static str {
    match status {
        Status::Added => "A",
        Status::Modified => "M",
        Status::Deleted => "D",
        Status::Renamed => "R",
        Status::Type => "T",
    }
}
