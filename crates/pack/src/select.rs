//! The order in which things go in.
//!
//! Task, instructions, named paths, diffs, changed files, tree, history. Each is offered in turn,
//! and takes what it needs of what is left, at most what one item may have. So a larger budget
//! changes nothing before the first place where it lets more in.

use std::collections::BTreeSet;

use countersign_model::Digest;
use countersign_model::Failure;

use crate::content::{is_generated, text_of};
use crate::fill::{Fill, Offer};
use crate::names;
use crate::pack::{ContextPack, ItemType, Reason, Sensitivity};
use crate::patterns::Pattern;
use crate::redact::{redact, visible};
use crate::render::{ANY_NUMBER, head, tail};
use crate::request::{Include, Request};
use crate::sources::{Change, ChangeStatus, Commit, Entry, EntryKind, Sources};
use crate::tree::Tree;

/// How many commits are asked for.
const COMMITS: usize = 50;

/// Chooses what goes into a pack.
///
/// `PACK_REQUEST_INVALID` when the request makes no sense, `PACK_BUDGET_TOO_SMALL` when the task or
/// everything else does not fit, `PACK_EMPTY` when there is nothing to put in, and what the sources
/// say when a list cannot be had.
#[allow(
    clippy::result_large_err,
    reason = "`Failure` is the one error shape, and refusals are rare"
)]
pub fn build(
    request: &Request,
    base: Option<&str>,
    sources: &mut dyn Sources,
) -> Result<ContextPack, Failure> {
    request.check()?;
    let named = request.paths.iter().map(|text| Pattern::named(text)).collect::<Result<_, _>>()?;
    let unwanted =
        request.exclude.iter().map(|text| Pattern::unwanted(text)).collect::<Result<_, _>>()?;
    let counter = request.tokenizer.counter()?;
    let frame = counter.count(&head(ANY_NUMBER)) + counter.count(&tail(ANY_NUMBER));
    let fill = Fill::new(request, counter, frame);
    let mut selection = Selection::of(request, named, unwanted, sources, fill)?;
    selection.run()?;
    selection.finish(base, frame)
}

struct Selection<'s> {
    request: &'s Request,
    named: Vec<Pattern>,
    unwanted: Vec<Pattern>,
    sources: &'s mut dyn Sources,
    /// Sorted by path, without those that the request does not want.
    entries: Vec<Entry>,
    changes: Vec<Change>,
    /// Files that were offered already, whatever became of them.
    seen: BTreeSet<String>,
    /// New files whose diff is in the pack as a whole.
    told: BTreeSet<String>,
    fill: Fill,
}

#[allow(
    clippy::result_large_err,
    reason = "`Failure` is the one error shape, and refusals are rare"
)]
impl<'s> Selection<'s> {
    fn of(
        request: &'s Request,
        named: Vec<Pattern>,
        unwanted: Vec<Pattern>,
        sources: &'s mut dyn Sources,
        fill: Fill,
    ) -> Result<Self, Failure> {
        let mut entries = sources.entries()?;
        entries.sort_unstable();
        entries.dedup_by(|one, other| one.path == other.path);
        let mut changes = sources.changes()?;
        changes.sort_unstable();
        changes.dedup_by(|one, other| one.path == other.path);
        let (seen, told) = (BTreeSet::new(), BTreeSet::new());
        Ok(Selection { request, named, unwanted, sources, entries, changes, seen, told, fill })
    }

    fn run(&mut self) -> Result<(), Failure> {
        self.task()?;
        for kind in &self.request.include {
            match kind {
                Include::Instructions => self.instructions(),
                Include::Paths => self.paths(),
                Include::Diffs => self.diffs(),
                Include::ChangedFiles => self.changed_files(),
                Include::Tree => self.tree(),
                Include::History => self.history()?,
            }
        }
        Ok(())
    }

    /// The one thing that must go in, and as a whole.
    fn task(&mut self) -> Result<(), Failure> {
        let Some(task) = self.request.task.as_deref().filter(|task| !task.trim().is_empty()) else {
            return Ok(());
        };
        let clean = redact(task.to_owned());
        let taken = clean.is_some_and(|clean| self.fill.offer_whole(ItemType::Task, "task", clean));
        if taken { Ok(()) } else { Err(self.too_small("the task does not fit")) }
    }

    fn too_small(&self, what: &str) -> Failure {
        let message = format!("{what} into {} tokens", self.request.token_budget);
        Failure::validation("PACK_BUDGET_TOO_SMALL", message)
            .hint("raise `token_budget`, or ask for less")
    }

    fn is_unwanted(&self, path: &str) -> bool {
        self.unwanted.iter().any(|pattern| pattern.matches(path))
    }

    /// Those of the whole workspace, and those of directories in which something was named or
    /// changed.
    fn instructions(&mut self) {
        let mut ranked: Vec<_> = self
            .entries
            .iter()
            .filter_map(|entry| Some((names::instruction_rank(&entry.path)?, entry.clone())))
            .collect();
        ranked.sort_unstable();
        for ((depth, _), entry) in ranked {
            if depth == 0 || self.is_at_work_below(&entry.path) {
                self.offer_file(ItemType::Instructions, &entry);
            }
        }
    }

    fn is_at_work_below(&self, path: &str) -> bool {
        let Some((directory, _)) = path.rsplit_once('/') else { return true };
        let below =
            |other: &str| other.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
        self.changes.iter().any(|change| below(&change.path))
            || self.named.iter().any(|pattern| below(&pattern.text))
    }

    fn paths(&mut self) {
        for index in 0..self.named.len() {
            let Some(pattern) = self.named.get(index) else { continue };
            let named = |entry: &&Entry| pattern.matches(&entry.path);
            let matching: Vec<Entry> = self.entries.iter().filter(named).cloned().collect();
            if matching.is_empty() {
                self.fill.leave_out(ItemType::Path, &pattern.text, Reason::NotFound);
            }
            for entry in &matching {
                self.offer_file(ItemType::Path, entry);
            }
        }
    }

    fn changed_files(&mut self) {
        for index in 0..self.changes.len() {
            let Some(path) = self.changes.get(index).map(|change| change.path.clone()) else {
                continue;
            };
            let found = self.entries.binary_search_by(|entry| entry.path.cmp(&path));
            let Some(entry) = found.ok().and_then(|at| self.entries.get(at)).cloned() else {
                continue;
            };
            if self.told.contains(&path) && !self.seen.contains(&path) {
                self.fill.leave_out(ItemType::ChangedFile, &path, Reason::Duplicate);
            } else {
                self.offer_file(ItemType::ChangedFile, &entry);
            }
        }
    }

    /// Why a path stays out whatever is in it.
    fn refused_by_name(&self, path: &str) -> Option<Reason> {
        if self.is_unwanted(path) {
            Some(Reason::Excluded)
        } else if names::is_secret(path) {
            Some(Reason::Secret)
        } else if names::is_binary(path) {
            Some(Reason::Binary)
        } else if names::is_generated(path) && !self.is_asked_for(path) {
            Some(Reason::Generated)
        } else {
            None
        }
    }

    /// Whoever writes down exactly this path wants it, generated or not.
    fn is_asked_for(&self, path: &str) -> bool {
        self.named.iter().any(|pattern| pattern.is_exactly(path))
    }

    fn offer_file(&mut self, kind: ItemType, entry: &Entry) {
        if !self.seen.insert(entry.path.clone()) {
            return;
        }
        if let Err(reason) = self.try_file(kind, entry) {
            self.fill.leave_out(kind, &entry.path, reason);
        }
    }

    /// An error is why the file was not even offered.
    fn try_file(&mut self, kind: ItemType, entry: &Entry) -> Result<(), Reason> {
        let path = entry.path.as_str();
        let refused = self.refused_by_name(path);
        let no_file = (entry.kind != EntryKind::File).then_some(Reason::NotAFile);
        refused.or(no_file).or_else(|| self.fill.closed()).map_or(Ok(()), Err)?;
        let most = self.fill.reading(entry.size);
        self.fill.pay(entry.size);
        let bytes = self.sources.read(path, most.saturating_add(1));
        let (bytes, whole) = up_to(bytes.map_err(|_| Reason::Unreadable)?, most);
        let text = text_of(bytes, whole)?;
        if is_generated(&text) && !self.is_asked_for(path) {
            return Err(Reason::Generated);
        }
        let clean = redact(text).ok_or(Reason::Secret)?;
        if names::is_delicate(path) && !clean.redactions.is_empty() {
            return Err(Reason::Secret);
        }
        self.fill.offer_clean(kind, path, clean, whole);
        Ok(())
    }

    fn diffs(&mut self) {
        for index in 0..self.changes.len() {
            let Some(change) = self.changes.get(index).cloned() else { continue };
            if let Some(reason) = self.refused_change(&change) {
                // The file is refused for the same reason, and once is enough.
                if self.seen.insert(change.path.clone()) {
                    self.fill.leave_out(ItemType::Diff, &change.path, reason);
                }
            } else if let Err(reason) = self.try_diff(&change) {
                self.fill.leave_out(ItemType::Diff, &change.path, reason);
            }
        }
    }

    /// A diff shows both names' contents.
    fn refused_change(&self, change: &Change) -> Option<Reason> {
        let before = || change.from.as_deref().and_then(|from| self.refused_by_name(from));
        self.refused_by_name(&change.path).or_else(before)
    }

    fn try_diff(&mut self, change: &Change) -> Result<(), Reason> {
        let path = change.path.as_str();
        self.fill.closed().map_or(Ok(()), Err)?;
        let most = self.fill.reading(u64::MAX);
        let bytes = self.sources.diff(path, most.saturating_add(1));
        let (bytes, whole) = up_to(bytes.map_err(|_| Reason::Unreadable)?, most);
        if bytes.is_empty() {
            return Ok(());
        }
        let text = text_of(bytes, whole).inspect_err(|_| self.fill.miss())?;
        let taken = self.fill.offer(Offer { kind: ItemType::Diff, source: path, text, whole });
        let complete = self.fill.items.last().is_some_and(|item| item.cut.is_none());
        if taken && complete && change.status == ChangeStatus::Added {
            self.told.insert(change.path.clone());
        }
        Ok(())
    }

    fn tree(&mut self) {
        let wanted = self.entries.iter().map(|entry| entry.path.as_str());
        let unwanted = &self.unwanted;
        let tree = Tree::of(wanted.filter(|path| !unwanted.iter().any(|p| p.matches(path))));
        if tree.is_empty() {
            return;
        }
        let versions = tree.extents(self.fill.limit_for_versions());
        let versions = versions.map(|extent| tree.render(extent));
        self.fill.offer_first(ItemType::Tree, "tree", versions);
    }

    fn history(&mut self) -> Result<(), Failure> {
        let commits = self.sources.history(COMMITS)?;
        let text: String = commits.iter().take(COMMITS).map(commit_line).collect();
        if !text.is_empty() {
            let (kind, source) = (ItemType::History, "history");
            self.fill.offer(Offer { kind, source, text, whole: true });
        }
        Ok(())
    }

    fn finish(self, base: Option<&str>, frame: u64) -> Result<ContextPack, Failure> {
        if self.fill.items.is_empty() {
            let squeezed = self.fill.excluded_counts.contains_key(&Reason::Budget)
                || self.fill.excluded_counts.contains_key(&Reason::TooLarge);
            let empty = || Failure::validation("PACK_EMPTY", "there is nothing to put into a pack");
            return Err(if squeezed { self.too_small("nothing fits") } else { empty() });
        }
        let sensitivity = sensitivity(&self.fill);
        let Fill { items, redactions, excluded, excluded_counts, .. } = self.fill;
        let total_tokens = frame + items.iter().map(|item| item.tokens).sum::<u64>();
        let pack = ContextPack {
            contract: 1,
            base: base.map(str::to_owned),
            tokenizer: self.request.tokenizer,
            token_budget: self.request.token_budget,
            total_tokens,
            frame_tokens: frame,
            sensitivity,
            items,
            excluded,
            excluded_counts,
            redactions,
            context_digest: Digest::ZERO,
        };
        pack.sealed()
    }
}

#[allow(
    clippy::result_large_err,
    reason = "`Failure` is the one error shape, and refusals are rare"
)]
impl ContextPack {
    /// What the digest should be: that of the pack with a digest of zeros.
    pub fn expected_digest(&self) -> Result<Digest, Failure> {
        let blank = ContextPack { context_digest: Digest::ZERO, ..self.clone() };
        Digest::of_json(&blank).map_err(|error| Failure::state("PACK_DIGEST", error.to_string()))
    }

    fn sealed(self) -> Result<ContextPack, Failure> {
        let context_digest = self.expected_digest()?;
        Ok(ContextPack { context_digest, ..self })
    }
}

fn sensitivity(fill: &Fill) -> Sensitivity {
    if !fill.redactions.is_empty() {
        Sensitivity::High
    } else if fill.excluded_counts.contains_key(&Reason::Secret) {
        Sensitivity::Medium
    } else {
        Sensitivity::Low
    }
}

/// The first bytes, and whether they are all.
fn up_to(mut bytes: Vec<u8>, most: u64) -> (Vec<u8>, bool) {
    let whole = bytes.len() as u64 <= most;
    bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    (bytes, whole)
}

fn commit_line(commit: &Commit) -> String {
    let Commit { id, author, date, subject } = commit;
    let id = id.get(..12).unwrap_or(id);
    format!("{} {} {}: {}\n", visible(id), visible(date), visible(author), visible(subject))
}
