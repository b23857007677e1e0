//! "Did you mean": the known word nearest to a misspelt one.

/// Words longer than this are no typing mistakes, and comparing them would take long.
const MAX_WORD: usize = 64;

/// The candidate at most two mistakes away, letter case and separators aside.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let plain = plain(word);
    let rated = candidates.map(|candidate| (distance(&plain, &self::plain(candidate)), candidate));
    let close =
        rated.filter(|(mistakes, candidate)| *mistakes <= 2 && *mistakes < candidate.len() / 2);
    close.min_by_key(|(mistakes, _)| *mistakes).map(|(_, candidate)| candidate)
}

pub(super) fn hint<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

fn plain(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Letters inserted, dropped or replaced on the way from `a` to `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let replaced = diagonal + usize::from(x != y);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        row.first_mut().into_iter().for_each(|cell| *cell = i + 1);
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let words = ["inputSchema", "outputSchema", "idempotent", "id"];
        let near = |word| nearest(word, words.into_iter());
        assert_eq!(near("inputShema"), Some("inputSchema"));
        assert_eq!(near("input_schema"), Some("inputSchema"));
        assert_eq!(near("InputSchema"), Some("inputSchema"));
        assert_eq!(near("idempotant"), Some("idempotent"));
        assert_eq!(near("xy"), None);
        assert_eq!(near("timeout"), None);
        assert_eq!(distance(&plain("kitten"), &plain("sitting")), 3);
    }
}
