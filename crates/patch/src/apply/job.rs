//! One file after the other: what must be there, what becomes of it, and what does not fit.

use std::collections::{HashMap, HashSet};

use crate::apply::content::{Made, Unfit};
use crate::apply::outcome::{Applied, ApplyError, FileOutcome, Rejected, Rejection, Totals};
use crate::apply::place::Budget;
use crate::apply::plan::Plan;
use crate::apply::{ApplyOptions, content};
use crate::code::Code;
use crate::diff::Op;
use crate::judge::ancestors;
use crate::mode::{Kind, Mode};
use crate::patch::Job;
use crate::text::shown;
use crate::tree::{Entry, Tree};

pub(crate) struct Session<'s, T> {
    tree: &'s mut T,
    options: &'s ApplyOptions,
    budget: Budget,
    /// Old contents that were read before anything was written; none where nothing stood.
    ahead: HashMap<String, Option<Entry>>,
    /// Paths that were freed before anything was written.
    cleared: HashSet<String>,
    /// Directories that were seen to be no files or links.
    directories: HashSet<String>,
    files: Vec<FileOutcome>,
    rejected: Rejected,
}

impl<'s, T: Tree> Session<'s, T> {
    pub(crate) fn new(tree: &'s mut T, options: &'s ApplyOptions) -> Session<'s, T> {
        Session {
            tree,
            options,
            budget: Budget::new(options.max_comparisons),
            ahead: HashMap::new(),
            cleared: HashSet::new(),
            directories: HashSet::new(),
            files: Vec::new(),
            rejected: Rejected::default(),
        }
    }

    /// Reads what others will write over, then clears what others need to be free.
    pub(crate) fn prepare(
        &mut self,
        jobs: &[Job<'_, '_>],
        plan: &Plan<'_>,
    ) -> Result<(), T::Error> {
        let early = || jobs.iter().filter(|job| plan.reads_ahead(job));
        for path in early().filter_map(Job::from) {
            let entry = if self.leads_through_file(path)?.is_some() {
                None
            } else {
                self.tree.read(path)?
            };
            self.ahead.insert(path.to_owned(), entry);
        }
        for path in early().filter(|job| plan.clears_ahead(job)).filter_map(Job::from) {
            if self.ahead.get(path).is_some_and(Option::is_some) {
                self.tree.remove(path)?;
                self.cleared.insert(path.to_owned());
            }
        }
        Ok(())
    }

    pub(crate) fn run(&mut self, job: &Job<'_, '_>) -> Result<(), T::Error> {
        match self.attempt(job)? {
            Ok(outcome) => self.files.push(outcome),
            Err(unfits) => unfits.into_iter().for_each(|unfit| self.reject(job, unfit)),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Applied, ApplyError<T::Error>> {
        if !self.rejected.rejections.is_empty() {
            return Err(ApplyError::Rejected(self.rejected));
        }
        let totals = totals(&self.files);
        Ok(Applied { files: self.files, totals })
    }

    fn attempt(&mut self, job: &Job<'_, '_>) -> Result<Result<FileOutcome, Vec<Unfit>>, T::Error> {
        if job.op() == Op::Copy && job.reverse {
            let message = "a copy cannot be undone: nothing says what its source was";
            return Ok(Err(vec![Unfit::new(Code::NotReversible, message)]));
        }
        let mut unfits: Vec<Unfit> = self.target_trouble(job)?.into_iter().collect();
        let old = match self.old_entry(job)? {
            Ok(old) => old,
            Err(unfit) => {
                unfits.push(unfit);
                return Ok(Err(unfits));
            }
        };
        unfits.extend(mode_trouble(job, old.kind));
        match self.new_content(job, &old.content)? {
            Ok(made) if unfits.is_empty() => return self.carry_out(job, old.kind, made).map(Ok),
            Ok(_) => {}
            Err(more) => unfits.extend(more),
        }
        Ok(Err(unfits))
    }

    /// What stands where the change begins. A new file begins with an empty one.
    fn old_entry(&mut self, job: &Job<'_, '_>) -> Result<Result<Entry, Unfit>, T::Error> {
        let Some(path) = job.from() else { return Ok(Ok(Entry::file([]))) };
        if let Some(above) = self.leads_through_file(path)? {
            return Ok(Err(leads_through(&above)));
        }
        let ahead = self.ahead.get_mut(path);
        let entry = match ahead {
            // The source of two copies is needed twice.
            Some(entry) => entry.clone(),
            None => self.tree.read(path)?,
        };
        match entry {
            Some(entry) => Ok(Ok(entry)),
            None if self.tree.kind(path)? == Some(Kind::Directory) => {
                Ok(Err(Unfit::new(Code::NotAFile, "a directory stands where the file should be")))
            }
            None => Ok(Err(Unfit::new(Code::FileMissing, "the file is not there")
                .hint("see whether the path is right, and how many parts of names are stripped"))),
        }
    }

    /// What is in the way of a path that is made anew.
    fn target_trouble(&mut self, job: &Job<'_, '_>) -> Result<Option<Unfit>, T::Error> {
        let Some(path) = job.to().filter(|to| job.from() != Some(to)) else { return Ok(None) };
        if let Some(above) = self.leads_through_file(path)? {
            return Ok(Some(leads_through(&above)));
        }
        Ok(self.tree.kind(path)?.map(|kind| {
            let message = format!("{} stands there already", kind.word());
            Unfit::new(Code::FileExists, message)
                .hint("a patch may only make a file where nothing is")
        }))
    }

    /// The first directory above a path that is a file or a link instead.
    fn leads_through_file(&mut self, path: &str) -> Result<Option<String>, T::Error> {
        for above in ancestors(path) {
            if self.directories.contains(above) {
                continue;
            }
            match self.tree.kind(above)? {
                None => return Ok(None),
                Some(Kind::Directory) => self.directories.insert(above.to_owned()),
                Some(_) => return Ok(Some(above.to_owned())),
            };
        }
        Ok(None)
    }

    fn new_content(
        &mut self,
        job: &Job<'_, '_>,
        old: &[u8],
    ) -> Result<Result<Made, Vec<Unfit>>, T::Error> {
        let unfits = match content::make(job, old, self.options, &mut self.budget) {
            Err(unfits) if self.options.three_way && content::can_merge(job) => unfits,
            made => return Ok(made),
        };
        let base = match job.old_id() {
            Some(id) => self.tree.blob(id)?,
            None => None,
        };
        Ok(content::merge(job, old, base.as_deref(), unfits, self.options, &mut self.budget))
    }

    fn carry_out(
        &mut self,
        job: &Job<'_, '_>,
        old: Kind,
        made: Made,
    ) -> Result<FileOutcome, T::Error> {
        let from = job.from().filter(|from| !self.cleared.contains(*from));
        if let Some(from) = from.filter(|_| matches!(job.op(), Op::Delete | Op::Rename)) {
            self.tree.remove(from)?;
        }
        let new = new_kind(job, old);
        if let Some(to) = job.to() {
            self.tree.write(to, Entry { kind: new, content: made.content })?;
        }
        let moves = matches!(job.op(), Op::Rename | Op::Copy);
        let (added, removed) = job.file.counts();
        Ok(FileOutcome {
            path: job.path().to_owned(),
            from: job.from().filter(|_| moves).map(str::to_owned),
            op: job.op(),
            old_mode: job.from().and(old.mode()),
            new_mode: job.to().and(new.mode()),
            added: if job.reverse { removed } else { added },
            removed: if job.reverse { added } else { removed },
            binary: job.file.is_binary(),
            merged: made.merged,
            hunks: made.hunks,
        })
    }

    fn reject(&mut self, job: &Job<'_, '_>, unfit: Unfit) {
        if self.rejected.rejections.len() >= self.options.max_rejections.max(1) {
            self.rejected.left_out = self.rejected.left_out.saturating_add(1);
            return;
        }
        self.rejected.rejections.push(Rejection {
            path: job.from().unwrap_or(job.path()).to_owned(),
            hunk: unfit.hunk,
            line_in_patch: unfit.line_in_patch.unwrap_or(job.file.line),
            line_in_file: unfit.line_in_file,
            code: unfit.code,
            message: unfit.message,
            expected: unfit.expected,
            found: unfit.found,
            conflict: unfit.conflict,
            hint: unfit.hint.map(str::to_owned),
        });
    }
}

fn leads_through(above: &str) -> Unfit {
    let message =
        format!("`{}` is a file or a symbolic link, not a directory", shown(above.as_bytes(), 200));
    Unfit::new(Code::ParentNotDirectory, message).hint("a patch never writes through links")
}

/// A link is not a file, and a change of mode begins with the mode that it states.
fn mode_trouble(job: &Job<'_, '_>, kind: Kind) -> Option<Unfit> {
    if job.op() == Op::Create {
        return None;
    }
    let expected = job.old_mode().unwrap_or(Mode::Plain);
    let found = kind.mode()?;
    let (code, word) = if !found.same_type(expected) {
        (Code::KindMismatch, "kind")
    } else if job.new_mode().is_some_and(|new| new != expected) && found != expected {
        (Code::ModeMismatch, "mode")
    } else {
        return None;
    };
    let mut unfit = Unfit::new(code, format!("{} stands there, of another {word}", kind.word()));
    unfit.expected = Some(expected.to_string());
    unfit.found = Some(found.to_string());
    Some(unfit)
}

/// The patch's mode where it is new or changes; what was there otherwise.
fn new_kind(job: &Job<'_, '_>, old: Kind) -> Kind {
    let changes = job.op() == Op::Create || job.old_mode() != job.new_mode();
    job.new_mode().filter(|_| changes).and_then(Mode::kind).unwrap_or(old)
}

fn totals(files: &[FileOutcome]) -> Totals {
    files.iter().fold(Totals::default(), |sum, file| Totals {
        files: sum.files + 1,
        hunks: sum.hunks + file.hunks.len() as u64,
        added: sum.added + file.added,
        removed: sum.removed + file.removed,
        shifted: sum.shifted + file.hunks.iter().filter(|hunk| hunk.offset != 0).count() as u64,
        merged: sum.merged + u64::from(file.merged),
    })
}
