//! What it would take to judge one value, found out before it is judged.
//!
//! A schema that refers to itself twice per level is exponential in the depth of the value. The
//! work is counted once for every pair of schema and part of the value, which is cheap, and says
//! exactly how much the validator, which forgets pairs it has seen, would do.

use std::collections::HashMap;

use serde_json::Value;

use super::graph::{Graph, Node};
use super::measure::nests_within;
use super::walk::Site;

/// Below this, counting would cost more than it saves.
const CHEAP: u64 = 1_000_000;
/// Steps of the validator for one value; some seconds on a slow machine.
const MAX_WORK: u64 = 20_000_000;
/// Pairs kept in memory while counting, and looks at an edge.
const MAX_PAIRS: usize = 1_000_000;
const MAX_LOOKS: usize = 10_000_000;
/// Schemas inside schemas while judging; what a thread's stack can hold with a wide margin.
const MAX_NESTING: u64 = 400;
const MAX_VALUE_DEPTH: usize = 127;

/// What the names of members look like to a schema: a value without parts.
const NAME: &Value = &Value::Null;

impl Graph {
    /// How much judging `instance` takes; if that is too much, the reason.
    pub(super) fn affords(&self, instance: &Value) -> Result<u64, String> {
        if !nests_within(instance, MAX_VALUE_DEPTH) {
            return Err(format!("the value nests deeper than {MAX_VALUE_DEPTH} levels"));
        }
        let bound = self.expansion.and_then(|each| each.checked_mul(parts_of(instance)));
        if let Some(bound) = bound.filter(|bound| *bound <= CHEAP) {
            return Ok(bound);
        }
        let mut count = Count { graph: self, seen: HashMap::new(), looks: 0 };
        let total = count.pair(0, instance, 0).filter(|total| total.work <= MAX_WORK);
        total.map(|total| total.work).ok_or_else(|| {
            "checking this value against the schema would take too much work".to_owned()
        })
    }
}

fn parts_of(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(parts_of).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(parts_of).sum::<u64>(),
        _ => 1,
    }
}

#[derive(Debug, Clone, Copy)]
struct Total {
    work: u64,
    height: u64,
}

impl Total {
    fn add(&mut self, visits: u64, inner: Total) {
        self.work = self.work.saturating_add(inner.work.saturating_mul(visits));
        self.height = self.height.max(inner.height + 1);
    }
}

struct Count<'a> {
    graph: &'a Graph,
    seen: HashMap<(usize, usize), Total>,
    looks: usize,
}

impl Count<'_> {
    /// `None` when a bound is passed; the sum is then of no interest any more.
    fn pair(&mut self, index: usize, value: &Value, depth: u64) -> Option<Total> {
        let key = (index, std::ptr::from_ref(value).addr());
        if let Some(&total) = self.seen.get(&key) {
            return (depth + total.height <= MAX_NESTING).then_some(total);
        }
        let node = self.graph.node(index)?;
        let mut total = Total { work: node.weight, height: 0 };
        for edge in &node.edges {
            let visits = if edge.site == Site::Here { node.visits } else { 1 };
            let parts = parts_at(node, &edge.site, value);
            self.all(edge.to, visits, &parts, depth, &mut total)?;
        }
        for (name, part) in value.as_object().into_iter().flatten() {
            let to = node.members.get(name);
            to.map_or(Some(()), |to| self.all(*to, 1, &[part], depth, &mut total))?;
        }
        self.seen.insert(key, total);
        (self.seen.len() < MAX_PAIRS && total.work <= MAX_WORK).then_some(total)
    }

    fn all(
        &mut self,
        to: usize,
        visits: u64,
        parts: &[&Value],
        depth: u64,
        total: &mut Total,
    ) -> Option<()> {
        self.looks += 1 + parts.len();
        if depth >= MAX_NESTING || self.looks > MAX_LOOKS {
            return None;
        }
        for part in parts {
            total.add(visits, self.pair(to, part, depth + 1)?);
        }
        Some(())
    }
}

/// The parts of `value` that a site means; members are looked up by name instead.
fn parts_at<'v>(node: &Node, site: &Site, value: &'v Value) -> Vec<&'v Value> {
    match (site, value) {
        (Site::Here, _) => vec![value],
        (Site::OtherMembers, Value::Object(map)) => {
            let other = |name: &String| !node.members.contains_key(name);
            map.iter().filter(|(name, _)| other(name)).map(|(_, part)| part).collect()
        }
        (Site::EachMember, Value::Object(map)) => map.values().collect(),
        (Site::Names, Value::Object(map)) => map.keys().map(|_| NAME).collect(),
        (Site::Item(index), Value::Array(items)) => items.get(*index).into_iter().collect(),
        (Site::ItemsFrom(first), Value::Array(items)) => items.iter().skip(*first).collect(),
        _ => Vec::new(),
    }
}
