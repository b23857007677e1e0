//! The schemas of a document and how they lead to one another.
//!
//! Two dangers are seen here, before a validator exists. A circle of schemas that all judge the
//! same value never ends. And schemas that each use the next one twice take time without bound,
//! although each of them is small.

use std::collections::BTreeMap;

use serde_json::Value;

use super::SchemaError;
use super::walk::Site;

/// Longest chain of schemas that judge one and the same value.
const MAX_CHAIN: u64 = 64;
/// Schemas applied to one and the same value, counted with repetition.
const MAX_EXPANSION: u64 = 100_000;
/// The embedded meta-schema, as if it were one schema: more than it ever costs for one value.
const META_WEIGHT: u64 = 500;
/// `unevaluated…` looks again at what the schemas beside it have judged, twice at most.
const REVISITS: u64 = 3;

#[derive(Debug)]
pub(super) struct Edge {
    pub(super) site: Site,
    pub(super) to: usize,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) edges: Vec<Edge>,
    /// What judging one value costs here, without the schemas it leads to.
    pub(super) weight: u64,
    /// How often the schemas that judge the same value are visited.
    pub(super) visits: u64,
    /// What `properties` leads to. Apart from the other edges, because there can be thousands.
    pub(super) members: BTreeMap<String, usize>,
    pointer: String,
}

impl Node {
    pub(super) fn of(schema: &Value, pointer: &str) -> Self {
        let keywords = schema.as_object().map_or(0, serde_json::Map::len);
        let options = schema.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
        let looks_again = ["unevaluatedProperties", "unevaluatedItems"];
        let revisits = looks_again.iter().any(|keyword| schema.get(keyword).is_some());
        Node {
            edges: Vec::new(),
            weight: 1 + (keywords + options) as u64,
            visits: if revisits { REVISITS } else { 1 },
            members: BTreeMap::new(),
            pointer: pointer.to_owned(),
        }
    }

    pub(super) fn meta_schema() -> Self {
        let mut node = Node::of(&Value::Null, "");
        node.weight = META_WEIGHT;
        node
    }

    /// Definitions are not judged with, so they are no edges.
    pub(super) fn join(&mut self, edge: Edge) {
        match edge.site {
            Site::Nowhere => {}
            Site::Member(name) => drop(self.members.insert(name, edge.to)),
            _ => self.edges.push(edge),
        }
    }

    fn targets(&self) -> impl Iterator<Item = usize> {
        self.edges.iter().map(|edge| edge.to).chain(self.members.values().copied())
    }

    fn same_value(&self) -> impl Iterator<Item = usize> {
        self.edges.iter().filter(|edge| edge.site == Site::Here).map(|edge| edge.to)
    }
}

#[derive(Debug)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    /// What judging a value of one node could cost at most; `None` when schemas recur.
    pub(super) expansion: Option<u64>,
}

impl Graph {
    pub(super) fn new(nodes: Vec<Node>) -> Result<Self, SchemaError> {
        let mut graph = Graph { nodes, expansion: None };
        let order = graph.leaves_first(|node| node.same_value().collect());
        let order = order.map_err(|index| graph.loop_at(index))?;
        graph.bound_chains(&order)?;
        let everything = graph.leaves_first(|node| node.targets().collect()).ok();
        graph.expansion = everything.map(|order| graph.expand(&order));
        Ok(graph)
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)
    }

    /// Nodes in an order in which every node comes after those it leads to, or a node on a circle.
    fn leaves_first(&self, leads_to: impl Fn(&Node) -> Vec<usize>) -> Result<Vec<usize>, usize> {
        let leads: Vec<_> = self.nodes.iter().map(leads_to).collect();
        let mut open: Vec<_> = leads.iter().map(Vec::len).collect();
        let mut sources = vec![Vec::new(); leads.len()];
        for (from, to) in leads.iter().enumerate() {
            for &to in to {
                sources.get_mut(to).into_iter().for_each(|list: &mut Vec<_>| list.push(from));
            }
        }
        let order = peel(&sources, &mut open);
        match open.iter().position(|&count| count > 0) {
            Some(stuck) => Err(on_circle(stuck, &open, &leads)),
            None => Ok(order),
        }
    }

    fn loop_at(&self, index: usize) -> SchemaError {
        let pointer = self.node(index).map(|node| node.pointer.clone()).unwrap_or_default();
        SchemaError::new("SCHEMA_REF_LOOP", pointer, "this schema refers back to itself for ever")
            .hint("refer back only from inside `properties`, `items` and the like")
    }

    fn bound_chains(&self, order: &[usize]) -> Result<(), SchemaError> {
        let (mut lengths, mut costs) = (vec![0u64; self.len()], vec![0u64; self.len()]);
        for &index in order {
            let Some(node) = self.node(index) else { continue };
            let at = |table: &[u64], to: usize| table.get(to).copied().unwrap_or_default();
            let length = node.same_value().map(|to| at(&lengths, to) + 1).max().unwrap_or(0);
            let inner = node.same_value().map(|to| at(&costs, to)).fold(0, u64::saturating_add);
            let cost = inner.saturating_mul(node.visits).saturating_add(node.weight);
            refuse_over(node, length, cost)?;
            set(&mut lengths, index, length);
            set(&mut costs, index, cost);
        }
        Ok(())
    }

    fn expand(&self, order: &[usize]) -> u64 {
        let mut costs = vec![0u64; self.len()];
        for &index in order {
            let Some(node) = self.node(index) else { continue };
            let inner = node.targets().map(|to| costs.get(to).copied().unwrap_or(0));
            let inner = inner.fold(0, u64::saturating_add).saturating_mul(node.visits);
            set(&mut costs, index, inner.saturating_add(node.weight));
        }
        costs.first().copied().unwrap_or_default()
    }
}

fn refuse_over(node: &Node, length: u64, cost: u64) -> Result<(), SchemaError> {
    let message = match (length > MAX_CHAIN, cost > MAX_EXPANSION) {
        (true, _) => format!("more than {MAX_CHAIN} schemas judge this value in a chain"),
        (_, true) => "one value would be judged by too many schemas".to_owned(),
        _ => return Ok(()),
    };
    Err(SchemaError::too_complex(node.pointer.clone(), message))
}

fn set(table: &mut [u64], index: usize, value: u64) {
    if let Some(cell) = table.get_mut(index) {
        *cell = value;
    }
}

/// From a node that leads to a circle, onto the circle: as many steps as there are nodes.
fn on_circle(from: usize, open: &[usize], leads: &[Vec<usize>]) -> usize {
    let stuck = |to: &&usize| open.get(**to).is_some_and(|&count| count > 0);
    let step = |at: usize| leads.get(at).and_then(|to| to.iter().find(stuck)).copied();
    (0..leads.len()).fold(from, |at, _| step(at).unwrap_or(at))
}

/// Takes away nodes that lead nowhere until none is left; `open` keeps what could not be taken.
fn peel(sources: &[Vec<usize>], open: &mut [usize]) -> Vec<usize> {
    let free = |(index, &count): (usize, &usize)| (count == 0).then_some(index);
    let mut order: Vec<usize> = open.iter().enumerate().filter_map(free).collect();
    let mut next = 0;
    while let Some(&done) = order.get(next) {
        next += 1;
        for &from in sources.get(done).into_iter().flatten() {
            let Some(count) = open.get_mut(from) else { continue };
            *count -= 1;
            if *count == 0 {
                order.push(from);
            }
        }
    }
    order
}
