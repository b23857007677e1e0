//! The Merkle tree of RFC 6962, kept as its right edge.
//!
//! A tree of `n` leaves is the list of its complete subtrees, largest first: one for each bit set
//! in `n`. That list is all an append needs, a few hundred bytes however long the journal grows.
//! Proofs need inner nodes too; [`NodeSource`] fetches them from wherever they are kept.

use std::ops::Range;

use countersign_model::Digest;

pub fn leaf_hash(entry: &[u8]) -> Digest {
    Digest::of_parts(&[&[0x00], entry])
}

pub fn node_hash(left: &Digest, right: &Digest) -> Digest {
    Digest::of_parts(&[&[0x01], left.as_bytes(), right.as_bytes()])
}

/// The complete subtree of `2^height` leaves that starts at leaf `index * 2^height`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    pub height: u32,
    pub index: u64,
    pub hash: Digest,
}

/// The right edge of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    /// INVARIANT: one hash for each bit set in `size`, highest bit first.
    peaks: Vec<Digest>,
}

impl Frontier {
    /// `None` unless there is one peak for each bit set in `size`.
    pub fn from_peaks(size: u64, peaks: Vec<Digest>) -> Option<Self> {
        (peaks.len() == size.count_ones() as usize).then_some(Frontier { size, peaks })
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn peaks(&self) -> &[Digest] {
        &self.peaks
    }

    /// Appends a leaf and reports every subtree that it completes, lowest first.
    pub fn push(&mut self, leaf: Digest, completed: impl FnMut(Node)) {
        self.join(0, leaf, completed);
    }

    /// Appends a whole subtree of `2^height` leaves; `false` if it does not fit here.
    #[must_use]
    pub fn push_subtree(&mut self, height: u32, hash: Digest) -> bool {
        let aligned =
            1u64.checked_shl(height).is_some_and(|leaves| self.size.is_multiple_of(leaves));
        if aligned {
            self.join(height, hash, |_| {});
        }
        aligned
    }

    fn join(&mut self, height: u32, hash: Digest, mut completed: impl FnMut(Node)) {
        let mut node = Node { height, index: self.size >> height, hash };
        // An odd index means that the left sibling is the last peak.
        while node.index % 2 == 1 {
            let Some(left) = self.peaks.pop() else { break };
            node = Node {
                height: node.height + 1,
                index: node.index / 2,
                hash: node_hash(&left, &node.hash),
            };
            completed(node);
        }
        self.peaks.push(node.hash);
        self.size += 1 << height;
    }

    pub fn root(&self) -> Digest {
        let mut peaks = self.peaks.iter().rev();
        match peaks.next() {
            None => Digest::of(b""),
            Some(last) => peaks.fold(*last, |right, left| node_hash(left, &right)),
        }
    }
}

/// Where complete subtrees are looked up: height 0 is the leaf itself.
pub trait NodeSource {
    type Error;
    fn subtree(&self, height: u32, index: u64) -> Result<Digest, Self::Error>;
}

/// The complete subtrees that tile `range`, left to right, as a tree of `range.end` leaves has them.
pub fn tiling(range: Range<u64>) -> impl Iterator<Item = (u32, u64)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let left = range.end.checked_sub(at).filter(|left| *left > 0)?;
        let height = at.trailing_zeros().min(left.ilog2());
        let node = (height, at >> height);
        at += 1 << height;
        Some(node)
    })
}

/// The hashes of `tiling(range)`.
pub fn tile_hashes<S: NodeSource>(source: &S, range: Range<u64>) -> Result<Vec<Digest>, S::Error> {
    tiling(range).map(|(height, index)| source.subtree(height, index)).collect()
}

/// The RFC 6962 audit path of leaf `index` in the tree of the first `size` leaves, leaf to root.
pub fn inclusion_path<S: NodeSource>(
    source: &S,
    index: u64,
    size: u64,
) -> Result<Vec<Digest>, S::Error> {
    let mut path = Vec::new();
    let (mut first, mut end) = (0, size);
    while end - first > 1 {
        let split = first + split_point(end - first);
        let sibling = if index < split { split..end } else { first..split };
        path.push(range_root(source, sibling)?);
        if index < split { end = split } else { first = split }
    }
    path.reverse();
    Ok(path)
}

/// The largest power of two below `leaves`.
fn split_point(leaves: u64) -> u64 {
    1 << (leaves - 1).ilog2()
}

/// The root over a range that is a left or right child in an RFC 6962 tree.
fn range_root<S: NodeSource>(source: &S, range: Range<u64>) -> Result<Digest, S::Error> {
    let hashes = tile_hashes(source, range)?;
    let mut hashes = hashes.iter().rev();
    let last = hashes.next().copied().unwrap_or(Digest::ZERO);
    Ok(hashes.fold(last, |right, left| node_hash(left, &right)))
}

/// The root that an audit path leads to, or `None` when the path has the wrong length.
pub fn root_from_path(leaf: Digest, index: u64, size: u64, path: &[Digest]) -> Option<Digest> {
    if index >= size {
        return None;
    }
    let (mut node, mut last, mut hash) = (index, size - 1, leaf);
    for sibling in path {
        if last == 0 {
            return None;
        }
        if node % 2 == 1 || node == last {
            hash = node_hash(sibling, &hash);
            while node % 2 == 0 && node != 0 {
                node /= 2;
                last /= 2;
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        node /= 2;
        last /= 2;
    }
    (last == 0).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ct_merkle::mem_backed_tree::MemoryBackedTree;
    use proptest::prelude::*;
    use sha2::Sha256;
    use std::collections::HashMap;

    /// A journal in memory: every complete subtree, by place.
    #[derive(Default)]
    struct Nodes(HashMap<(u32, u64), Digest>, Frontier);

    impl Nodes {
        fn of(leaves: u64) -> Self {
            let mut nodes = Nodes::default();
            (0..leaves).for_each(|n| nodes.push(leaf_hash(&n.to_be_bytes())));
            nodes
        }

        fn push(&mut self, leaf: Digest) {
            let Nodes(map, frontier) = self;
            map.insert((0, frontier.size()), leaf);
            frontier.push(leaf, |node| {
                map.insert((node.height, node.index), node.hash);
            });
        }
    }

    impl NodeSource for Nodes {
        type Error = ();
        fn subtree(&self, height: u32, index: u64) -> Result<Digest, ()> {
            self.0.get(&(height, index)).copied().ok_or(())
        }
    }

    #[derive(Clone)]
    struct Leaf(u64);
    impl ct_merkle::HashableLeaf for Leaf {
        fn hash<H: sha2::digest::Update>(&self, hasher: &mut H) {
            hasher.update(&self.0.to_be_bytes());
        }
    }

    #[test]
    fn roots_and_paths_agree_with_an_independent_implementation() {
        let mut theirs = MemoryBackedTree::<Sha256, Leaf>::new();
        for size in 1..=130u64 {
            theirs.push(Leaf(size - 1));
            let ours = Nodes::of(size);
            assert_eq!(ours.1.root().as_bytes()[..], theirs.root().as_bytes()[..], "size {size}");
            for index in 0..size {
                let path = inclusion_path(&ours, index, size).unwrap();
                let flat: Vec<u8> = path.iter().flat_map(|d| *d.as_bytes()).collect();
                assert_eq!(flat, theirs.prove_inclusion(index as usize).as_bytes());
                let leaf = leaf_hash(&index.to_be_bytes());
                assert_eq!(root_from_path(leaf, index, size, &path), Some(ours.1.root()));
            }
        }
    }

    #[test]
    fn the_empty_tree_and_the_first_leaf_are_pinned() {
        assert_eq!(Frontier::default().root(), Digest::of(b""));
        assert_eq!(
            leaf_hash(b"").to_string(),
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
        );
    }

    proptest! {
        #[test]
        fn a_range_between_its_edges_gives_the_root(size in 1u64..600, a in 0u64..600, b in 0u64..600) {
            let (first, end) = (a.min(b).min(size), a.max(b).min(size));
            let nodes = Nodes::of(size);
            let left = tile_hashes(&nodes, 0..first).unwrap();
            let mut frontier = Frontier::from_peaks(first, left).unwrap();
            (first..end).for_each(|n| frontier.push(leaf_hash(&n.to_be_bytes()), |_| {}));
            for (height, index) in tiling(end..size) {
                prop_assert!(frontier.push_subtree(height, nodes.subtree(height, index).unwrap()));
            }
            prop_assert_eq!(frontier.root(), nodes.1.root());
        }

        #[test]
        fn a_wrong_path_never_leads_to_the_root(size in 2u64..300, index in 0u64..300, bit in 0usize..8) {
            let index = index % size;
            let nodes = Nodes::of(size);
            let mut path = inclusion_path(&nodes, index, size).unwrap();
            let leaf = leaf_hash(&index.to_be_bytes());
            let longer: Vec<_> = path.iter().copied().chain([Digest::ZERO]).collect();
            prop_assert_ne!(root_from_path(leaf, index, size, &longer), Some(nodes.1.root()));
            let last = path.len() - 1;
            let mut bytes = *path[last].as_bytes();
            bytes[0] ^= 1 << bit;
            path[last] = Digest::from_bytes(bytes);
            prop_assert_ne!(root_from_path(leaf, index, size, &path), Some(nodes.1.root()));
        }
    }
}
