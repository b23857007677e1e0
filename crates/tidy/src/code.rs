//! Rust source without its comments and the contents of its literals, so that a rule about code
//! does not trip over prose.

/// The same text, line for line, with comments, strings and characters blanked out.
pub fn code_only(text: &str) -> String {
    let mut rest = text;
    let mut code = String::with_capacity(text.len());
    let mut in_word = false;
    while let Some(next) = rest.chars().next() {
        let hidden = if in_word { quoted_len(rest) } else { hidden_len(rest) };
        let (taken, after) = rest.split_at(hidden.unwrap_or(next.len_utf8()));
        if hidden.is_some() {
            code.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            code.push_str(taken);
        }
        // `r"…"` starts a raw string, `bar"` does not.
        in_word = hidden.is_none() && is_word(next);
        rest = after;
    }
    code
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `word` stands in `text` by itself, not as a part of a longer word.
pub fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (text.get(..at), text.get(at + word.len()..));
        !before.and_then(|text| text.chars().next_back()).is_some_and(is_word)
            && !after.and_then(|text| text.chars().next()).is_some_and(is_word)
    })
}

fn hidden_len(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_len(rest));
    }
    raw_string_len(rest).or_else(|| quoted_len(rest))
}

fn block_comment_len(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if tail.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn raw_string_len(rest: &str) -> Option<usize> {
    let start = ["r", "br", "cr"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = start.chars().take_while(|c| *c == '#').count();
    let body = start.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let len = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(rest.len() - body.len() + len)
}

/// A string, or a character: `'a'` and `'\n'`, but not the lifetime `'a`.
fn quoted_len(rest: &str) -> Option<usize> {
    if rest.starts_with('"') {
        return Some(escaped_len(rest, '"'));
    }
    let mut inside = rest.strip_prefix('\'')?.chars();
    let (first, second) = (inside.next()?, inside.next()?);
    (first == '\\' || second == '\'').then(|| escaped_len(rest, '\''))
}

/// From an opening quote to its closing one; a backslash hides what follows it.
fn escaped_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        for (text, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y", 1)"#, "f(      , 1)"),
            (r##"f(r#"x"y"#, 1)"##, "f(        , 1)"),
            ("f('x', '\\'', 'a: loop)", "f(   ,     , 'a: loop)"),
            ("for\"s\"", "for   "),
            ("\"/*\" x", "     x"),
        ] {
            assert_eq!(code_only(text), code, "{text}");
        }
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("a todo b", "todo"));
        assert!(has_word("todo", "todo"));
        assert!(!has_word("todos atodo _todo", "todo"));
    }
}
