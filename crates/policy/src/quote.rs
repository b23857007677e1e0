//! Texts as Cedar writes them.

/// A string literal. In a `like` pattern a `*` stays a wildcard.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.extend(c.escape_unicode()),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A set of string literals.
pub(crate) fn quote_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = texts.into_iter().map(quote).collect();
    format!("[{}]", quoted.join(", "))
}
