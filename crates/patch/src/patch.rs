//! A diff that was judged, and what it would touch.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::diff::{Diff, FilePatch, Op};
use crate::judge;
use crate::mode::Kind;
use crate::problem::Refusal;
use crate::read::ReadOptions;

/// A diff whose names are safe and which does not contradict itself. Only this can be applied.
#[derive(Debug, Clone)]
pub struct Patch<'a>(Diff<'a>);

impl<'a> Patch<'a> {
    /// Reads and judges a patch.
    pub fn read(source: &'a [u8], options: &ReadOptions) -> Result<Patch<'a>, Refusal> {
        Patch::judge(Diff::read(source, options)?)
    }

    pub fn judge(diff: Diff<'a>) -> Result<Patch<'a>, Refusal> {
        judge::judge(&diff)?;
        Ok(Patch(diff))
    }

    pub fn diff(&self) -> &Diff<'a> {
        &self.0
    }

    pub fn files(&self) -> &[FilePatch<'a>] {
        self.0.files()
    }

    /// Every path the patch reads or changes, once, in order of the paths.
    pub fn touches(&self, reverse: bool) -> Vec<Touch<'_>> {
        let mut touches = BTreeMap::new();
        for job in self.files().iter().map(|file| Job { file, reverse }) {
            for touch in job.touches().into_iter().flatten() {
                let merged = match touches.remove(touch.path) {
                    Some(other) => touch.joined(other),
                    None => touch,
                };
                touches.insert(merged.path, merged);
            }
        }
        touches.into_values().collect()
    }
}

/// What becomes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Only read: the source of a copy.
    Read,
    /// Nothing stands there before.
    Create,
    /// The file there has another content or mode afterwards.
    Modify,
    /// Nothing stands there afterwards: deleted, or renamed away.
    Remove,
    /// What stands there goes away, and something else takes its place.
    Replace,
}

/// A path that a patch touches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Touch<'p> {
    pub path: &'p str,
    pub effect: Effect,
    /// What stands there afterwards, if the patch says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub becomes: Option<Kind>,
    /// Where the content comes from or goes to, when that is another path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<&'p str>,
}

impl<'p> Touch<'p> {
    fn new(path: &'p str, effect: Effect, becomes: Option<Kind>) -> Touch<'p> {
        Touch { path, effect, becomes, other: None }
    }

    fn with(mut self, other: &'p str) -> Touch<'p> {
        self.other = Some(other);
        self
    }

    /// Two parts of one patch may touch a path; the judgement says which.
    fn joined(self, other: Touch<'p>) -> Touch<'p> {
        let (mut first, second) =
            if self.effect <= other.effect { (self, other) } else { (other, self) };
        match (first.effect, second.effect) {
            (Effect::Create, Effect::Remove) => first.effect = Effect::Replace,
            (Effect::Read, _) => first = second,
            _ => first.effect = second.effect,
        }
        first
    }
}

/// One file's part of a patch, in the direction in which it is applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'p, 'a> {
    pub(crate) file: &'p FilePatch<'a>,
    pub(crate) reverse: bool,
}

impl<'p, 'a> Job<'p, 'a> {
    fn pick<T>(&self, forward: T, backward: T) -> T {
        if self.reverse { backward } else { forward }
    }

    pub(crate) fn op(&self) -> Op {
        match (self.file.op, self.reverse) {
            (Op::Create, true) => Op::Delete,
            (Op::Delete, true) => Op::Create,
            (op, _) => op,
        }
    }

    /// The path whose content the change begins with.
    pub(crate) fn from(&self) -> Option<&'p str> {
        self.pick(&self.file.old, &self.file.new).as_ref()?.text()
    }

    /// The path that the result is written to.
    pub(crate) fn to(&self) -> Option<&'p str> {
        self.pick(&self.file.new, &self.file.old).as_ref()?.text()
    }

    pub(crate) fn path(&self) -> &'p str {
        self.to().or(self.from()).unwrap_or_default()
    }

    pub(crate) fn old_mode(&self) -> Option<crate::Mode> {
        self.pick(self.file.old_mode, self.file.new_mode)
    }

    pub(crate) fn new_mode(&self) -> Option<crate::Mode> {
        self.pick(self.file.new_mode, self.file.old_mode)
    }

    pub(crate) fn old_id(&self) -> Option<&'a str> {
        self.pick(self.file.old_id, self.file.new_id)
    }

    pub(crate) fn new_id(&self) -> Option<&'a str> {
        self.pick(self.file.new_id, self.file.old_id)
    }

    fn touches(&self) -> [Option<Touch<'p>>; 2] {
        let kind = self.new_mode().and_then(crate::Mode::kind);
        let from = self.from().unwrap_or_default();
        let to = self.to().unwrap_or_default();
        match (self.op(), self.reverse) {
            (Op::Create, _) => [Some(Touch::new(to, Effect::Create, kind)), None],
            (Op::Delete, _) => [Some(Touch::new(from, Effect::Remove, None)), None],
            (Op::Modify, _) => [Some(Touch::new(to, Effect::Modify, kind)), None],
            (Op::Rename, _) => [
                Some(Touch::new(from, Effect::Remove, None).with(to)),
                Some(Touch::new(to, Effect::Create, kind).with(from)),
            ],
            (Op::Copy, false) => [
                Some(Touch::new(from, Effect::Read, None).with(to)),
                Some(Touch::new(to, Effect::Create, kind).with(from)),
            ],
            // Undoing a copy takes the copy away, and leaves its source alone.
            (Op::Copy, true) => [Some(Touch::new(from, Effect::Remove, None)), None],
        }
    }
}
