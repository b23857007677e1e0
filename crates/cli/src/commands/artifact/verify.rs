//! Reads contents, and compares them with what the journal says.

use std::collections::HashMap;
use std::io::{self, Write};

use clap::Args;
use countersign_host::Home;
use countersign_journal::{ArtifactFilter, JournalError};
use countersign_model::{ArtifactId, ArtifactRecord, Digest, Failure, RunId};
use serde::Serialize;
use serde_json::json;

use super::{unknown, visit};
use crate::exit::Exit;
use crate::ui::{BAD, Done, GOOD, Progress, Ui, bytes, inert, paint, wrap};

/// Read the contents of artifacts, all of them, and compare them with their digests
///
/// Exit codes: 0 all are whole, 1 some are missing or damaged.
#[derive(Debug, Args)]
#[group(id = "what", required = true, multiple = false)]
pub(crate) struct VerifyArgs {
    /// These
    #[arg(value_name = "ID", group = "what")]
    ids: Vec<ArtifactId>,

    /// All of this run
    #[arg(long, group = "what")]
    run: Option<RunId>,

    /// All that there are
    #[arg(long, group = "what")]
    all: bool,
}

/// How a content was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    Whole,
    Missing,
    Damaged,
    /// The rules of retention let go of it; nothing is wrong.
    LetGo,
}

impl Content {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Content::Whole => "whole",
            Content::Missing => "missing",
            Content::Damaged => "damaged",
            Content::LetGo => "let go of",
        }
    }
}

/// Reads a content to its end without holding it.
pub(super) fn look(
    home: &Home,
    record: &ArtifactRecord,
    read: &mut dyn FnMut(u64),
) -> Result<Content, Failure> {
    if record.collected_at.is_some() {
        return Ok(Content::LetGo);
    }
    if !home.blobs.holds(&record.digest) {
        return Ok(Content::Missing);
    }
    let mut counted = Counted { size: 0, read };
    match home.blobs.copy_to(&record.digest, &mut counted) {
        Ok(()) if counted.size == record.size => Ok(Content::Whole),
        Ok(()) | Err(JournalError::Blob(_)) => Ok(Content::Damaged),
        Err(error) => Err(error.into()),
    }
}

struct Counted<'r> {
    size: u64,
    read: &'r mut dyn FnMut(u64),
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.size += bytes.len() as u64;
        (self.read)(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What was found so far.
struct Check<'h> {
    home: &'h Home,
    progress: Progress,
    /// Contents that several artifacts share are read once.
    seen: HashMap<(Digest, u64), Content>,
    checked: u64,
    let_go: u64,
    bytes: u64,
    bad: Vec<(ArtifactRecord, Content)>,
}

impl Check<'_> {
    fn one(&mut self, record: ArtifactRecord) -> Done {
        let key = (record.digest, record.size);
        let content = match self.seen.get(&key) {
            Some(content) if record.collected_at.is_none() => *content,
            _ => {
                let (bytes, progress) = (&mut self.bytes, &mut self.progress);
                let content = look(self.home, &record, &mut |read| {
                    *bytes += read;
                    progress.tick(*bytes);
                })?;
                if content != Content::LetGo {
                    self.seen.insert(key, content);
                }
                content
            }
        };
        self.checked += 1;
        match content {
            Content::Whole => {}
            Content::LetGo => self.let_go += 1,
            Content::Missing | Content::Damaged => self.bad.push((record, content)),
        }
        Ok(())
    }
}

pub(super) fn run(ui: Ui, home: &Home, args: &VerifyArgs) -> Done<Exit> {
    let mut check = Check {
        home,
        progress: Progress::new("bytes read:"),
        seen: HashMap::new(),
        checked: 0,
        let_go: 0,
        bytes: 0,
        bad: Vec::new(),
    };
    for id in &args.ids {
        let record = home.store.artifact(id)?.ok_or_else(|| unknown(id.as_str()))?;
        check.one(record)?;
    }
    if args.ids.is_empty() {
        let filter = ArtifactFilter { run: args.run.clone(), ..ArtifactFilter::default() };
        visit(home, &filter, |record| check.one(record))?;
    }
    report(ui, check)
}

fn report(ui: Ui, check: Check<'_>) -> Done<Exit> {
    let Check { progress, checked, let_go, bytes: read, bad, .. } = check;
    drop(progress);
    if ui.json {
        let line = |(record, content): &(ArtifactRecord, Content)| {
            json!({"id": record.id, "name": record.name, "run": record.run,
                "sha256": record.digest, "content": content})
        };
        let bad_ones: Vec<_> = bad.iter().map(line).collect();
        ui.json(&json!({"ok": bad.is_empty(), "checked": checked, "letGo": let_go,
            "bytesRead": read, "bad": bad_ones}))?;
    } else {
        for (record, content) in &bad {
            let text =
                format!("{} {} {}", paint(BAD, content.as_str()), inert(&record.name), record.id);
            ui.line(wrap(&text, 2))?;
        }
        let (style, how) = match bad.len() {
            0 => (GOOD, "all whole".to_owned()),
            n => (BAD, format!("{n} not whole")),
        };
        let more = if let_go > 0 { format!(", {let_go} let go of") } else { String::new() };
        let text =
            format!("{checked} artifacts, {} read, {}{more}", bytes(read), paint(style, how));
        ui.line(wrap(&text, 2))?;
    }
    Ok(if bad.is_empty() { Exit::Done } else { Exit::ToolFailed })
}
