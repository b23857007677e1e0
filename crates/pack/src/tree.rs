//! The names in a workspace, as deep as they fit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::redact::visible;

/// No tree is shown deeper.
const DEEPEST: usize = 16;
/// How many entries of one directory are shown, from generous to hardly any.
const ENTRIES: [usize; 5] = [1000, 256, 64, 16, 4];

#[derive(Debug, Default)]
pub(crate) struct Tree<'a> {
    directories: BTreeMap<&'a str, Tree<'a>>,
    files: Vec<&'a str>,
    /// How many files are in here, at any depth.
    total: usize,
}

/// How much of a tree is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    depth: usize,
    entries: usize,
}

impl<'a> Tree<'a> {
    /// The paths come sorted.
    pub(crate) fn of(paths: impl Iterator<Item = &'a str>) -> Self {
        let mut root = Tree::default();
        for path in paths {
            root.insert(path);
        }
        root
    }

    fn insert(&mut self, path: &'a str) {
        let (mut tree, mut rest) = (self, path);
        for _ in 0..DEEPEST {
            tree.total += 1;
            let Some((directory, below)) = rest.split_once('/') else { break };
            tree = tree.directories.entry(directory).or_default();
            rest = below;
        }
        if rest.contains('/') {
            tree.total += 1;
        } else {
            tree.files.push(rest);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// From everything to nearly nothing. A line is a token at least, so what has more lines than
    /// there are tokens is not tried.
    pub(crate) fn extents(&self, tokens: u64) -> impl Iterator<Item = Extent> {
        let [generous, fewer @ ..] = ENTRIES;
        let deep = (1..=DEEPEST).rev().map(move |depth| Extent { depth, entries: generous });
        let flat = fewer.into_iter().map(|entries| Extent { depth: 1, entries });
        let mut last = None;
        deep.chain(flat).filter(move |extent| {
            let lines = self.lines(*extent) as u64;
            let fresh = last.replace(lines) != Some(lines);
            fresh && lines <= tokens
        })
    }

    fn lines(&self, extent: Extent) -> usize {
        let all = self.directories.len() + self.files.len();
        let own = all.min(extent.entries + 1);
        let Some(inner) = extent.inner() else { return own };
        let open = self.directories.values().take(extent.entries);
        own + open.map(|directory| directory.lines(inner)).sum::<usize>()
    }

    pub(crate) fn render(&self, extent: Extent) -> String {
        let mut out = String::new();
        self.write(&mut out, extent, 0);
        out
    }

    fn write(&self, out: &mut String, extent: Extent, indent: usize) {
        let lead = "  ".repeat(indent);
        for (name, directory) in self.directories.iter().take(extent.entries) {
            let name = visible(name);
            match extent.inner() {
                Some(inner) => {
                    let _ = writeln!(out, "{lead}{name}/");
                    directory.write(out, inner, indent + 1);
                }
                None => {
                    let _ = writeln!(out, "{lead}{name}/ ({})", files(directory.total));
                }
            }
        }
        let left = extent.entries.saturating_sub(self.directories.len());
        for name in self.files.iter().take(left) {
            let _ = writeln!(out, "{lead}{}", visible(name));
        }
        let all = self.directories.len() + self.files.len();
        if all > extent.entries {
            let _ = writeln!(out, "{lead}and {} more", all - extent.entries);
        }
    }
}

impl Extent {
    fn inner(self) -> Option<Extent> {
        (self.depth > 1).then(|| Extent { depth: self.depth - 1, ..self })
    }
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 5] = ["a/b/c.rs", "a/b/d.rs", "a/e.rs", "f\ng", "h"];

    fn rendered(depth: usize, entries: usize) -> String {
        Tree::of(PATHS.into_iter()).render(Extent { depth, entries })
    }

    #[test]
    fn a_tree_shrinks_by_depth_and_then_by_width() {
        assert_eq!(rendered(3, 9), "a/\n  b/\n    c.rs\n    d.rs\n  e.rs\nf\\u{a}g\nh\n");
        assert_eq!(rendered(2, 9), "a/\n  b/ (2 files)\n  e.rs\nf\\u{a}g\nh\n");
        assert_eq!(rendered(1, 9), "a/ (3 files)\nf\\u{a}g\nh\n");
        assert_eq!(rendered(1, 2), "a/ (3 files)\nf\\u{a}g\nand 1 more\n");
    }

    #[test]
    fn extents_that_show_the_same_are_tried_once_and_too_long_ones_never() {
        let tree = Tree::of(PATHS.into_iter());
        let lines = |tokens| tree.extents(tokens).map(|e| tree.lines(e)).collect::<Vec<_>>();
        assert_eq!(lines(100), [7, 5, 3]);
        assert_eq!(lines(5), [5, 3]);
        assert_eq!(lines(0), [0; 0]);
    }

    #[test]
    fn what_is_deeper_than_any_tree_is_counted() {
        let deep = format!("{}x", "d/".repeat(500));
        let tree = Tree::of([deep.as_str()].into_iter());
        assert_eq!(tree.render(Extent { depth: 1, entries: 4 }), "d/ (1 file)\n");
        let extent = tree.extents(100).next().unwrap();
        assert!(tree.render(extent).ends_with("d/ (1 file)\n"));
    }
}
