//! `build_context_pack`: what an agent should read next, chosen from the worktree of the run.

mod diffs;

use countersign_host::path::RelPath;
use countersign_host::tool::{Footprint, NativeTool, Place, Repeats, ToolContext};
use countersign_host::work::WorkPlace;
use countersign_model::Failure;
use countersign_pack::{
    Change, ChangeStatus, Commit, ContextPack, Entry, EntryKind, Request, Sources, build,
};
use countersign_repository::{Mode, Status, Worktree};
use serde::Deserialize;
use serde_json::{Value, json};

use self::diffs::Diffs;
use crate::left::{Left, arguments, reads_workspace, with_leash};

/// How many commits a pack tells of unless it is said otherwise.
const HISTORY: usize = 20;

#[derive(Debug, Deserialize)]
struct Arguments {
    history: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct BuildContextPack;

impl NativeTool for BuildContextPack {
    fn repeats(&self) -> Repeats {
        Repeats::Idempotent
    }

    fn footprint(&self, _input: &Value, place: &Place) -> Result<Footprint, Failure> {
        reads_workspace(place)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let Arguments { history } = arguments(input)?;
        let request = request(input)?;
        let place = context.place().work()?.clone();
        let worktree = with_leash(context, |leash| place.worktree(leash))?;
        let history = history.unwrap_or(HISTORY);
        let mut files = Files { context, place: &place, worktree, diffs: None, history };
        let pack = build(&request, Some(&place.work.base), &mut files)?;
        tell(context, &place, &pack)
    }
}

/// All of the input but what only this side understands.
fn request(input: &Value) -> Result<Request, Failure> {
    let mut fields = input.as_object().cloned().unwrap_or_default();
    fields.remove("history");
    arguments(&Value::Object(fields))
}

fn tell(
    context: &mut ToolContext,
    place: &WorkPlace,
    pack: &ContextPack,
) -> Result<Value, Failure> {
    let mut left = Left::default();
    left.json(context, "context_pack", pack)?;
    let text = pack.render();
    left.make(context, "context_pack.txt", "text/plain; charset=utf-8", &mut text.as_bytes())?;
    let excluded: u64 = pack.excluded_counts.values().sum();
    let (items, redactions) = (pack.items.len(), pack.redactions.len());
    let summary = format!(
        "{items} items, {} of {} tokens, {excluded} left out, {redactions} secrets blacked out",
        pack.total_tokens, pack.token_budget
    );
    Ok(json!({
        "summary": summary,
        "artifacts": left.list(),
        "base": place.work.base,
        "tree": place.work.tree,
        "total_tokens": pack.total_tokens,
        "token_budget": pack.token_budget,
        "items": items,
        "excluded": excluded,
        "redactions": redactions,
        "sensitivity": pack.sensitivity,
        "digest": pack.context_digest,
    }))
}

/// The worktree of a run as a pack sees it: everything by the tree that the call found.
struct Files<'c> {
    context: &'c mut ToolContext,
    place: &'c WorkPlace,
    worktree: Worktree,
    /// Of all changed files, once the first is asked for.
    diffs: Option<Diffs>,
    history: usize,
}

impl Files<'_> {
    fn all_diffs(&mut self) -> Result<&mut Diffs, Failure> {
        let made = match self.diffs.take() {
            Some(made) => made,
            None => Diffs::make(self.context.scratch_file()?, |out| {
                let (base, tree) = (self.place.base()?, self.place.tree()?);
                let worktree = &self.worktree;
                with_leash(self.context, |leash| worktree.diff_by_path(&base, &tree, out, leash))
            })?,
        };
        Ok(self.diffs.insert(made))
    }

    /// For names that git quotes, which are few.
    fn diff_alone(&self, path: &str, at_most: u64) -> Result<Vec<u8>, Failure> {
        let mut start = Start { bytes: Vec::new(), most: at_most };
        let (base, tree) = (self.place.base()?, self.place.tree()?);
        with_leash(self.context, |leash| {
            self.worktree.diff(&base, &tree, &[path.to_owned()], &mut start, leash)
        })?;
        Ok(start.bytes)
    }
}

impl Sources for Files<'_> {
    fn entries(&mut self) -> Result<Vec<Entry>, Failure> {
        let listing =
            with_leash(self.context, |leash| self.worktree.list(&self.place.tree()?, leash))?;
        let entry = |entry: countersign_repository::Entry| {
            let kind = kind(entry.mode);
            Entry { path: entry.path, size: entry.size.unwrap_or_default(), kind }
        };
        Ok(listing.entries.into_iter().map(entry).collect())
    }

    fn changes(&mut self) -> Result<Vec<Change>, Failure> {
        let changed = with_leash(self.context, |leash| {
            let (base, tree) = (self.place.base()?, self.place.tree()?);
            self.worktree.changed(&base, &tree, leash)
        })?;
        let change = |change: countersign_repository::Change| Change {
            path: change.path,
            status: status(change.status),
            from: change.from,
        };
        Ok(changed.into_iter().map(change).collect())
    }

    fn history(&mut self, at_most: usize) -> Result<Vec<Commit>, Failure> {
        let most = at_most.min(self.history);
        if most == 0 {
            return Ok(Vec::new());
        }
        let past = with_leash(self.context, |leash| self.worktree.history(most, leash))?;
        let commit = |past: countersign_repository::Past| Commit {
            id: past.id.to_string(),
            author: past.author,
            date: past.date,
            subject: past.subject,
        };
        Ok(past.into_iter().map(commit).collect())
    }

    fn read(&mut self, path: &str, at_most: u64) -> Result<Vec<u8>, Failure> {
        self.context.read_start(&RelPath::parse(path)?, at_most)
    }

    fn diff(&mut self, path: &str, at_most: u64) -> Result<Vec<u8>, Failure> {
        match self.all_diffs()?.of(path, at_most)? {
            Some(diff) => Ok(diff),
            None => self.diff_alone(path, at_most),
        }
    }
}

/// Keeps the beginning of what is written to it.
struct Start {
    bytes: Vec<u8>,
    most: u64,
}

impl std::io::Write for Start {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = self.most.saturating_sub(self.bytes.len() as u64);
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        self.bytes.extend(bytes.iter().take(fits));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn kind(mode: Mode) -> EntryKind {
    match mode {
        Mode::FILE | Mode::EXECUTABLE => EntryKind::File,
        Mode::SYMLINK => EntryKind::Symlink,
        Mode::SUBMODULE => EntryKind::Submodule,
        _ => EntryKind::Other,
    }
}

fn status(status: Status) -> ChangeStatus {
    match status {
        Status::Added => ChangeStatus::Added,
        Status::Modified => ChangeStatus::Modified,
        Status::Deleted => ChangeStatus::Deleted,
        Status::Renamed => ChangeStatus::Renamed,
        Status::Type => ChangeStatus::TypeChanged,
    }
}
