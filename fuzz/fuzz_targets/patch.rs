//! Patches: any bytes are read or refused; what is read stays inside of the tree, and applied to
//! the files it was made from it can be undone.
#![no_main]

use countersign_patch::{
    ApplyOptions, Diff, Entry, FilePatch, Kind, LineKind, MemoryTree, Patch, ReadOptions, apply,
    unsafe_path,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let options = ReadOptions { allow_empty: true, max_binary: 1 << 16, ..ReadOptions::default() };
    let Ok(diff) = Diff::read(data, &options) else { return };
    let Ok(patch) = Patch::judge(diff) else { return };
    for touch in patch.touches(false).iter().chain(&patch.touches(true)) {
        assert_eq!(unsafe_path(touch.path), None);
    }
    for (reverse, three_way) in [(false, false), (false, true), (true, false), (true, true)] {
        let options = ApplyOptions { reverse, three_way, zero_context: three_way, ..limits() };
        let _ = apply(&patch, &mut MemoryTree::default(), &options);
        let _ = apply(&patch, &mut derived(&patch), &options);
    }
    there_and_back(&patch);
});

fn limits() -> ApplyOptions {
    ApplyOptions { max_binary: 1 << 16, max_comparisons: 100_000, ..ApplyOptions::default() }
}

/// Where numbers are right and nothing moves, the way back leads to the beginning.
fn there_and_back(patch: &Patch<'_>) {
    let is_right = |file: &FilePatch<'_>| match file.hunks() {
        [] => true,
        [hunk] => {
            hunk.old_start() == hunk.new_start() && hunk.old_count().min(hunk.new_count()) > 0
        }
        _ => false,
    };
    if !patch.files().iter().all(is_right) {
        return;
    }
    let mut tree = derived(patch);
    let before = tree.entries.clone();
    let Ok(there) = apply(patch, &mut tree, &limits()) else { return };
    let backward = ApplyOptions { reverse: true, ..limits() };
    let Ok(back) = apply(patch, &mut tree, &backward) else { return };
    if there.totals.shifted + back.totals.shifted == 0 {
        assert_eq!(tree.entries, before, "there and back is somewhere else");
    }
}

/// The tree that the patch seems to be made from.
fn derived(patch: &Patch<'_>) -> MemoryTree {
    let mut tree = MemoryTree::default();
    for file in patch.files() {
        let Some(path) = file.old.as_ref().and_then(|name| name.text()) else { continue };
        let kind = file.old_mode.and_then(|mode| mode.kind());
        let kind = kind.unwrap_or(Kind::File { executable: false });
        tree.entries.insert(path.to_owned(), Entry { kind, content: old_content(file) });
    }
    tree
}

fn old_content(file: &FilePatch<'_>) -> Vec<u8> {
    let mut content = Vec::new();
    for hunk in file.hunks() {
        let lines = content.iter().filter(|byte| **byte == b'\n').count() as u64;
        let missing = hunk.old_start().saturating_sub(lines + 1).min(100);
        (0..missing).for_each(|_| content.push(b'\n'));
        let old = hunk.lines().filter(|line| line.kind != LineKind::Added);
        old.for_each(|line| content.extend_from_slice(line.content));
    }
    content
}
