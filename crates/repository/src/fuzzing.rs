//! The readers of what git prints, for the fuzzer: names and contents in it come from strangers.

use crate::batch::Reader;
use crate::{hunks, merge, parse, push};

/// Reads bytes as every kind of output. Whatever they are, nothing may break.
pub fn read_everything(bytes: &[u8]) {
    for change in parse::raw_changes(bytes).unwrap_or_default() {
        assert_eq!(change.status == parse::Status::Renamed, change.from.is_some());
        assert!(!change.path.contains(&0));
    }
    let _ = parse::raw_counts(bytes);
    let _ = parse::stages(bytes).count();
    let _ = parse::fields(bytes).filter_map(parse::tree_entry).count();
    let _ = merge::report(bytes);
    let _ = push::told(bytes, "refs/heads/x");
    let (ours, theirs) = bytes.split_at_checked(bytes.len() / 2).unwrap_or_default();
    let _ = hunks::overlaps(&hunks::read(ours), &hunks::read(theirs));
    in_pieces(bytes);
}

/// The same answers, however the bytes are cut.
fn in_pieces(bytes: &[u8]) {
    let read = |size: usize| {
        let mut seen = Vec::new();
        let mut visit = |place: usize, content: crate::Content<'_>| {
            seen.push(format!("{place} {content:?}"));
            Ok(())
        };
        let mut reader = Reader::new(64, &mut visit);
        let whole = bytes.chunks(size).try_for_each(|piece| reader.take(piece)).is_ok();
        (whole, seen)
    };
    assert_eq!(read(1), read(bytes.len().max(1)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_breaks(bytes in "([0-9a-f]{40}|100644|160000|:| |\t|\0|\n|\\+|-|@@|R0?9|A|D|blob|[0-9]|x){0,60}") {
            read_everything(bytes.as_bytes());
        }
    }
}
