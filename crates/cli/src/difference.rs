//! What differs between two texts, line by line.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Same,
    Gone,
    New,
}

/// Beyond this many pairs of lines nobody waits for the shortest answer: all goes, and all is new.
const MOST_PAIRS: usize = 4_000_000;

/// Every line of both texts, those that they share once.
pub(crate) fn difference<'t>(before: &'t str, after: &'t str) -> Vec<(Mark, &'t str)> {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (old.split_at(head), new.split_at(head));
    let tail = old.1.iter().rev().zip(new.1.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_middle, end) = old.1.split_at(old.1.len() - tail);
    let (new_middle, _) = new.1.split_at(new.1.len() - tail);
    let same = |lines: &[&'t str]| lines.iter().map(|line| (Mark::Same, *line)).collect::<Vec<_>>();
    [same(old.0), middle(old_middle, new_middle), same(end)].concat()
}

/// The longest lines in common stay; the rest goes or is new.
fn middle<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(Mark, &'t str)> {
    let shared = match old.len().saturating_mul(new.len()) {
        0 | MOST_PAIRS.. => Vec::new(),
        _ => longest_common(old, new),
    };
    let (mut old, mut new) = (old.iter(), new.iter());
    let mut marked = Vec::new();
    for line in shared {
        marked.extend(old.by_ref().take_while(|it| **it != line).map(|it| (Mark::Gone, *it)));
        marked.extend(new.by_ref().take_while(|it| **it != line).map(|it| (Mark::New, *it)));
        marked.push((Mark::Same, line));
    }
    marked.extend(old.map(|it| (Mark::Gone, *it)));
    marked.extend(new.map(|it| (Mark::New, *it)));
    marked
}

/// `lengths[i][j]`: how many lines `old[i..]` and `new[j..]` have in common at best.
fn longest_common<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<&'t str> {
    let mut lengths = vec![vec![0u32; new.len() + 1]];
    for line in old.iter().rev() {
        let below = lengths.last().cloned().unwrap_or_default();
        let mut row = vec![0u32; new.len() + 1];
        for (at, other) in new.iter().enumerate().rev() {
            let (right, down) = (length(&row, at + 1), length(&below, at));
            let longest = if line == other { length(&below, at + 1) + 1 } else { right.max(down) };
            row.iter_mut().skip(at).take(1).for_each(|cell| *cell = longest);
        }
        lengths.push(row);
    }
    lengths.reverse();
    walk(&lengths, old, new)
}

fn length(row: &[u32], at: usize) -> u32 {
    row.get(at).copied().unwrap_or(0)
}

fn walk<'t>(lengths: &[Vec<u32>], old: &[&'t str], new: &[&'t str]) -> Vec<&'t str> {
    let cell = |i: usize, j: usize| lengths.get(i).map_or(0, |row| length(row, j));
    let (mut i, mut j, mut shared) = (0, 0, Vec::new());
    while let (Some(line), Some(other)) = (old.get(i), new.get(j)) {
        if line == other {
            shared.push(*line);
            (i, j) = (i + 1, j + 1);
        } else if cell(i + 1, j) >= cell(i, j + 1) {
            i += 1;
        } else {
            j += 1;
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(before: &str, after: &str) -> String {
        let sign = |mark| match mark {
            Mark::Same => ' ',
            Mark::Gone => '-',
            Mark::New => '+',
        };
        difference(before, after)
            .iter()
            .map(|(mark, line)| format!("{}{line}", sign(*mark)))
            .collect()
    }

    #[test]
    fn lines_that_stay_are_told_once() {
        for (before, after, told) in [
            ("", "", ""),
            ("a\nb\nc", "a\nb\nc", " a b c"),
            ("a\nb\nc", "a\nx\nc", " a-b+x c"),
            ("", "a", "+a"),
            ("a", "", "-a"),
            ("a\nb\nc\nd", "b\nd\ne", "-a b-c d+e"),
            ("a\na", "a", " a-a"),
        ] {
            assert_eq!(shown(before, after), told, "{before:?} {after:?}");
        }
    }

    proptest! {
        #[test]
        fn both_texts_are_in_it(before in "([a-c]\n){0,9}", after in "([a-c]\n){0,9}") {
            let all = difference(&before, &after);
            let without = |gone: Mark| -> Vec<&str> {
                all.iter().filter(|(mark, _)| *mark != gone).map(|(_, line)| *line).collect()
            };
            prop_assert_eq!(without(Mark::New), before.lines().collect::<Vec<_>>());
            prop_assert_eq!(without(Mark::Gone), after.lines().collect::<Vec<_>>());
        }
    }
}
