//! Two calls, or two runs, held against each other fact by fact.

use countersign_model::effect::{Artifact, Payload};
use countersign_model::record::CallSummary;
use countersign_model::{ExecutionId, Failure, ToolId};
use serde::Serialize;
use serde_json::{Value, json};

use super::Subject;
use super::differ::{self, Difference};
use super::rules::{RuleBook, Rules};
use super::story::Story;
use crate::home::Home;

/// So many differences of one value are told.
const MOST: usize = 100;

/// Larger contents are told apart by their digests alone.
const MOST_READ: u64 = 64 << 20;

/// Longer runs are paired by position alone.
const MOST_PAIRED: usize = 2000;

/// What differs between two subjects.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    pub equal: bool,
    /// The first difference, in the order of the calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Gap>,
    /// Every pair of calls, and calls that have no counterpart.
    pub calls: Vec<CallPair>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallPair {
    pub tool: ToolId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<ExecutionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<ExecutionId>,
    pub gaps: Vec<Gap>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// What differs, such as `state`, `verdict`, `output` or an artifact.
    pub about: String,
    pub difference: Difference,
}

impl Gap {
    fn new(about: impl Into<String>, difference: Difference) -> Self {
        Gap { about: about.into(), difference }
    }

    fn of_values(about: &str, then: impl Serialize, now: impl Serialize) -> Option<Self> {
        let (then, now) = (json!(then), json!(now));
        let pointer = String::new();
        let difference =
            Difference::Value { pointer, then: Some(then.clone()), now: Some(now.clone()) };
        (then != now).then(|| Gap::new(about, difference))
    }
}

impl Home {
    /// Compares two calls, or two runs call by call.
    pub fn compare(
        &self,
        then: &Subject,
        now: &Subject,
        rules: RuleBook,
    ) -> Result<Comparison, Failure> {
        if matches!(
            (then, now),
            (Subject::Call(_), Subject::Run(_)) | (Subject::Run(_), Subject::Call(_))
        ) {
            let message = "a call can be compared with a call, and a run with a run";
            return Err(Failure::validation("NOT_COMPARABLE", message));
        }
        let (old, new) = (self.summaries(then)?, self.summaries(now)?);
        let mut calls = Vec::new();
        for pair in pairs(&old, &new) {
            calls.push(self.compare_pair(pair, rules)?);
        }
        let first = calls.iter().flat_map(|pair| &pair.gaps).next().cloned();
        Ok(Comparison { equal: first.is_none(), first, calls })
    }

    fn summaries(&self, subject: &Subject) -> Result<Vec<CallSummary>, Failure> {
        let mut found = Vec::new();
        for execution in self.calls_of(subject)? {
            found.extend(self.store.call(execution)?);
        }
        Ok(found)
    }

    fn compare_pair(&self, pair: Matched<'_>, rules: RuleBook) -> Result<CallPair, Failure> {
        let alone = |call: &CallSummary, then: bool| {
            let ids =
                if then { (Some(call.execution), None) } else { (None, Some(call.execution)) };
            let (was, is) = if then { (true, false) } else { (false, true) };
            let gaps = Gap::of_values("presence of the call", was, is).into_iter().collect();
            CallPair { tool: call.tool.clone(), then: ids.0, now: ids.1, gaps }
        };
        match pair {
            Matched::Then(call) => Ok(alone(call, true)),
            Matched::Now(call) => Ok(alone(call, false)),
            Matched::Both(then, now) => {
                let rules = rules(&then.tool);
                let old = Story::read(self, then.clone(), &rules)?;
                let new = Story::read(self, now.clone(), &rules)?;
                let gaps = Two { home: self, old: &old, new: &new, rules }.gaps();
                let ids = (Some(then.execution), Some(now.execution));
                Ok(CallPair { tool: then.tool.clone(), then: ids.0, now: ids.1, gaps })
            }
        }
    }
}

/// Calls that play the same part, or have no counterpart.
#[derive(Debug, Clone, Copy)]
enum Matched<'c> {
    Both(&'c CallSummary, &'c CallSummary),
    Then(&'c CallSummary),
    Now(&'c CallSummary),
}

/// Pairs calls in order: as many as possible of those with the same tool. A single call is compared
/// with a single call whatever their tools are.
fn pairs<'c>(old: &'c [CallSummary], new: &'c [CallSummary]) -> Vec<Matched<'c>> {
    if let ([then], [now]) = (old, new) {
        return vec![Matched::Both(then, now)];
    }
    let lengths = (old.len().max(new.len()) <= MOST_PAIRED).then(|| common(old, new));
    let length = |i: usize, j: usize| {
        let row = lengths.as_ref().and_then(|rows| rows.get(i));
        row.and_then(|row| row.get(j)).copied().unwrap_or(0)
    };
    let (mut i, mut j, mut matched) = (0, 0, Vec::new());
    loop {
        match (old.get(i), new.get(j)) {
            (Some(then), Some(now)) if then.tool == now.tool => {
                matched.push(Matched::Both(then, now));
                (i, j) = (i + 1, j + 1);
            }
            (Some(then), Some(_)) if length(i + 1, j) >= length(i, j + 1) => {
                matched.push(Matched::Then(then));
                i += 1;
            }
            (_, Some(now)) => {
                matched.push(Matched::Now(now));
                j += 1;
            }
            (Some(then), None) => {
                matched.push(Matched::Then(then));
                i += 1;
            }
            (None, None) => return matched,
        }
    }
}

/// `lengths[i][j]`: how many calls `old[i..]` and `new[j..]` have in common at best.
fn common(old: &[CallSummary], new: &[CallSummary]) -> Vec<Vec<u32>> {
    let at = |row: &[u32], j: usize| row.get(j).copied().unwrap_or(0);
    let mut rows = vec![vec![0u32; new.len() + 1]];
    for then in old.iter().rev() {
        let below = rows.last().cloned().unwrap_or_default();
        let mut row = vec![0u32];
        for (j, now) in new.iter().enumerate().rev() {
            let right = row.last().copied().unwrap_or(0);
            let longest = match then.tool == now.tool {
                true => at(&below, j + 1) + 1,
                false => right.max(at(&below, j)),
            };
            row.push(longest);
        }
        row.reverse();
        rows.push(row);
    }
    rows.reverse();
    rows
}

/// Two calls that play the same part.
struct Two<'s> {
    home: &'s Home,
    old: &'s Story,
    new: &'s Story,
    rules: Rules,
}

impl Two<'_> {
    fn gaps(&self) -> Vec<Gap> {
        let (then, now) = (&self.old.summary, &self.new.summary);
        let mut gaps: Vec<Gap> = Vec::new();
        gaps.extend(Gap::of_values("state", then.state, now.state));
        gaps.extend(self.events());
        gaps.extend(values(
            "input",
            self.old.input.as_ref(),
            self.new.input.as_ref(),
            Some(then.input),
            Some(now.input),
        ));
        gaps.extend(values(
            "output",
            self.old.output.as_ref(),
            self.new.output.as_ref(),
            then.output,
            now.output,
        ));
        let list = |effects: &[Value]| Value::Array(effects.to_vec());
        let effects = differ::values(&list(&self.old.effects), &list(&self.new.effects), MOST);
        gaps.extend(effects.into_iter().map(|found| Gap::new("effects", found)));
        gaps.extend(self.artifacts());
        gaps.extend(self.streams());
        gaps
    }

    /// Facts of the same name are held against each other, in order.
    fn events(&self) -> Vec<Gap> {
        let names = |story: &Story| -> Vec<String> {
            story.events.iter().map(|(name, _)| name.clone()).collect()
        };
        let mut gaps: Vec<Gap> =
            Gap::of_values("events", names(self.old), names(self.new)).into_iter().collect();
        let mut rest: Vec<&(String, Value)> = self.new.events.iter().collect();
        for (name, then) in &self.old.events {
            let Some(at) = rest.iter().position(|(other, _)| other == name) else { continue };
            let (_, now) = rest.remove(at);
            for found in differ::values(then, now, MOST) {
                gaps.push(Gap::new(about(name, &found), found));
            }
        }
        gaps
    }

    fn artifacts(&self) -> Vec<Gap> {
        let (old, new) = (&self.old.artifacts, &self.new.artifacts);
        let named =
            |list: &[Artifact], name: &str| list.iter().find(|made| made.name == name).cloned();
        let only_new = new.iter().filter(|made| named(old, &made.name).is_none());
        let names = old.iter().chain(only_new).map(|made| &made.name);
        let gap = |name: &String| {
            let label = format!("artifact `{}`", name.escape_debug());
            match (named(old, name), named(new, name)) {
                (Some(then), Some(now)) => Some(Gap::new(label, self.artifact(&then, &now)?)),
                (then, now) => {
                    Gap::of_values(&label, then.map(|it| it.digest), now.map(|it| it.digest))
                }
            }
        };
        names.filter_map(gap).collect()
    }

    fn artifact(&self, then: &Artifact, now: &Artifact) -> Option<Difference> {
        let rule = self.rules.artifact(&then.name);
        if then.digest == now.digest || rule.incomparable.or(rule.incomparable_apart).is_some() {
            return None;
        }
        let digests =
            || Difference::Content { then: then.digest.to_string(), now: now.digest.to_string() };
        let read = |made: &Artifact| {
            let small = made.size <= MOST_READ;
            small.then(|| self.home.blobs.get(&made.digest).ok()).flatten()
        };
        let (Some(old), Some(new)) = (read(then), read(now)) else {
            return Some(digests());
        };
        if let (Some(mut old), Some(mut new)) =
            (self.old.renamed_json(&old), self.new.renamed_json(&new))
        {
            for value in [&mut old, &mut new] {
                differ::mask(value, rule.values);
                differ::mask(value, rule.values_apart);
            }
            return differ::values(&old, &new, 1).pop();
        }
        differ::bytes(&self.old.renamed(&old), &self.new.renamed(&new))
    }

    fn streams(&self) -> Vec<Gap> {
        let find = |story: &Story, name: &str| {
            let said = story.streams.iter().find(|(stream, _)| *stream == name);
            said.map(|(_, payload)| *payload)
        };
        let gap = |name: &'static str| {
            let (then, now) = (find(self.old, name), find(self.new, name));
            if then.map(|said| said.digest) == now.map(|said| said.digest) {
                return None;
            }
            let read = |story: &Story, said: Option<Payload>| {
                let said = said.filter(|said| said.size <= MOST_READ)?;
                self.home.payload(story.owner, &said).ok().map(|bytes| story.renamed(&bytes))
            };
            match (read(self.old, then), read(self.new, now)) {
                (Some(old), Some(new)) => Some(Gap::new(name, differ::bytes(&old, &new)?)),
                _ => Gap::of_values(name, then.map(|it| it.digest), now.map(|it| it.digest)),
            }
        };
        ["stdout", "stderr"].into_iter().filter_map(gap).collect()
    }
}

/// Two values that came in or out; where one is no longer kept, their digests.
fn values(
    about: &str,
    then: Option<&Value>,
    now: Option<&Value>,
    then_digest: Option<Payload>,
    now_digest: Option<Payload>,
) -> Vec<Gap> {
    match (then, now) {
        (Some(then), Some(now)) => {
            let found = differ::values(then, now, MOST);
            found.into_iter().map(|found| Gap::new(about, found)).collect()
        }
        _ => {
            let digest = |payload: Option<Payload>| payload.map(|payload| payload.digest);
            Gap::of_values(about, digest(then_digest), digest(now_digest)).into_iter().collect()
        }
    }
}

/// What a difference within a fact is about.
fn about(event: &str, found: &Difference) -> String {
    let Difference::Value { pointer, .. } = found else { return event.to_owned() };
    let first = pointer.split('/').nth(1).unwrap_or_default();
    match (event, first) {
        ("authorized" | "denied", "verdict") => "verdict".to_owned(),
        ("authorized", "grants" | "capabilities") => first.to_owned(),
        _ => event.to_owned(),
    }
}
