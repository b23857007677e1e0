//! Which node comes before which: entries, forward edges, and the edges that lead back.

use std::collections::{BTreeMap, BTreeSet};

use super::{Edge, Node};

/// Places of nodes and edges in the lists of their definition.
#[derive(Debug, Default)]
pub struct Graph {
    /// Where a run begins.
    pub entries: Vec<usize>,
    /// For each node, the edges into it that do not lead back.
    pub incoming: Vec<Vec<usize>>,
    /// For each node, the edges into it that close a cycle.
    pub returning: Vec<Vec<usize>>,
    pub outgoing: Vec<Vec<usize>>,
    /// Every node after the nodes it depends on.
    pub order: Vec<usize>,
    /// For each node that something leads back to: all that a new round may run again.
    pub regions: BTreeMap<usize, BTreeSet<usize>>,
    pub unreachable: Vec<usize>,
}

impl Graph {
    pub(super) fn new(nodes: &[Node], edges: &[Edge], places: &BTreeMap<String, usize>) -> Self {
        let ends: Vec<Option<(usize, usize)>> = edges
            .iter()
            .map(|edge| Some((*places.get(&edge.source)?, *places.get(&edge.target)?)))
            .collect();
        let mut graph = Graph {
            incoming: vec![Vec::new(); nodes.len()],
            returning: vec![Vec::new(); nodes.len()],
            outgoing: vec![Vec::new(); nodes.len()],
            entries: entries(nodes.len(), &ends),
            ..Graph::default()
        };
        for (edge, end) in ends.iter().enumerate() {
            if let Some(list) = end.and_then(|(from, _)| graph.outgoing.get_mut(from)) {
                list.push(edge);
            }
        }
        let back = graph.search(&ends);
        graph.sort_edges(&ends, &back);
        graph.find_regions(&ends, &back);
        graph
    }

    pub fn is_back(&self, edge: usize, target: usize) -> bool {
        self.returning.get(target).is_some_and(|edges| edges.contains(&edge))
    }

    /// Depth first from the entries; what leads to a node on the way to it leads back.
    fn search(&mut self, ends: &[Option<(usize, usize)>]) -> BTreeSet<usize> {
        let count = self.outgoing.len();
        let (mut seen, mut open) = (vec![false; count], vec![false; count]);
        let (mut back, mut finished) = (BTreeSet::new(), Vec::new());
        for &entry in &self.entries {
            let mut stack = vec![(entry, 0usize)];
            if std::mem::replace(flag(&mut seen, entry), true) {
                continue;
            }
            *flag(&mut open, entry) = true;
            while let Some((node, next)) = stack.pop() {
                let edge = self.outgoing.get(node).and_then(|edges| edges.get(next)).copied();
                let Some(edge) = edge else {
                    *flag(&mut open, node) = false;
                    finished.push(node);
                    continue;
                };
                stack.push((node, next + 1));
                let Some((_, to)) = ends.get(edge).copied().flatten() else { continue };
                if *flag(&mut open, to) {
                    back.insert(edge);
                } else if !std::mem::replace(flag(&mut seen, to), true) {
                    *flag(&mut open, to) = true;
                    stack.push((to, 0));
                }
            }
        }
        finished.reverse();
        self.order = finished;
        self.unreachable = (0..count).filter(|&node| !*flag(&mut seen, node)).collect();
        back
    }

    fn sort_edges(&mut self, ends: &[Option<(usize, usize)>], back: &BTreeSet<usize>) {
        for (edge, end) in ends.iter().enumerate() {
            let Some((_, to)) = *end else { continue };
            let lists = if back.contains(&edge) { &mut self.returning } else { &mut self.incoming };
            if let Some(list) = lists.get_mut(to) {
                list.push(edge);
            }
        }
    }

    fn find_regions(&mut self, ends: &[Option<(usize, usize)>], back: &BTreeSet<usize>) {
        let targets = back.iter().filter_map(|&edge| ends.get(edge).copied().flatten());
        for (_, target) in targets {
            let mut region = BTreeSet::from([target]);
            let mut waiting = vec![target];
            while let Some(node) = waiting.pop() {
                for &edge in self.outgoing.get(node).into_iter().flatten() {
                    let to = ends.get(edge).copied().flatten().map(|(_, to)| to);
                    let forward = to.filter(|_| !back.contains(&edge));
                    waiting.extend(forward.filter(|&to| region.insert(to)));
                }
            }
            self.regions.insert(target, region);
        }
    }
}

/// Nodes that nothing leads to; in a workflow that is one cycle, the first node.
fn entries(count: usize, ends: &[Option<(usize, usize)>]) -> Vec<usize> {
    let targets: BTreeSet<usize> = ends.iter().flatten().map(|(_, to)| *to).collect();
    let free: Vec<_> = (0..count).filter(|node| !targets.contains(node)).collect();
    if free.is_empty() { (0..count.min(1)).collect() } else { free }
}

/// A cell of a table that is as long as there are nodes.
fn flag(table: &mut Vec<bool>, at: usize) -> &mut bool {
    if table.len() <= at {
        table.resize(at + 1, false);
    }
    #[allow(clippy::indexing_slicing, reason = "the table was just made long enough")]
    &mut table[at]
}
