//! Text that somebody decides by: what looks like something else is shown by its number.

use crate::ui::inert;

/// As [`inert`], and letters of other scripts that pass for Latin ones are spelt out: those in a word
/// with Latin letters, and words made of nothing but such letters.
pub(crate) fn plain(text: &str) -> String {
    let text = inert(text);
    let mut shown = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        shown.push_str(&spelt(&word));
        word.clear();
        // Spaces that are none, and marks that pass for others: only plain ones pass for themselves.
        if c.is_ascii() { shown.push(c) } else { shown.push_str(&number(c)) }
    }
    shown.push_str(&spelt(&word));
    shown
}

fn spelt(word: &str) -> String {
    if word.is_ascii() {
        return word.to_owned();
    }
    let has_latin = word.chars().any(is_latin);
    let all_pass = word.chars().filter(|c| c.is_alphabetic()).all(|c| is_latin(c) || passes(c));
    let is_odd = |c: char| !is_latin(c) && c.is_alphabetic() && (has_latin || all_pass);
    let digit = |c: char| c.is_numeric() && !c.is_ascii();
    word.chars().map(|c| if is_odd(c) || digit(c) { number(c) } else { c.to_string() }).collect()
}

fn number(c: char) -> String {
    format!("\\u{{{:x}}}", u32::from(c))
}

/// Latin letters, with the accents that languages put on them.
fn is_latin(c: char) -> bool {
    // Letters without their dot, the long s, and clicks that look like strokes.
    let is_odd = matches!(c, '\u{131}' | '\u{17f}' | '\u{1c0}'..='\u{1c3}');
    !is_odd && c.is_ascii_alphabetic()
        || !is_odd
            && matches!(c, '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
            && c.is_alphabetic()
}

/// Letters of Cyrillic, Greek and Armenian that look like Latin ones, and letters for mathematics.
fn passes(c: char) -> bool {
    const CYRILLIC: &str = "авеёікмнорсстухѕјһԁԛԝАВЕЁІКМНОРСТУХЅЈҺԀԚԜгзьЬ";
    const GREEK: &str = "αβγεηικνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧ";
    const ARMENIAN: &str = "աոսցհօՍՕ";
    CYRILLIC.contains(c)
        || GREEK.contains(c)
        || ARMENIAN.contains(c)
        || matches!(c, '\u{1d400}'..='\u{1d7ff}' | '\u{ff21}'..='\u{ff5a}' | '\u{2100}'..='\u{214f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_for_something_else_is_spelt_out() {
        for (text, shown) in [
            ("naïve café, Łódź", "naïve café, Łódź"),
            ("日本 и 中文", "日本 и 中文"),
            ("Привет", "Привет"),
            ("p\u{430}ypal.com", "p\\u{430}ypal.com"),
            ("\u{441}\u{43e}\u{440}", "\\u{441}\\u{43e}\\u{440}"),
            ("/etc/\u{440}asswd", "/etc/\\u{440}asswd"),
            ("\u{ff41}dmin", "\\u{ff41}dmin"),
            ("a\u{202e}b\u{1b}", "a\\u{202e}b\\u{1b}"),
            ("1\u{661}", "1\\u{661}"),
            ("adm\u{131}n", "adm\\u{131}n"),
            ("a\u{a0}b\u{2044}c", "a\\u{a0}b\\u{2044}c"),
        ] {
            assert_eq!(plain(text), shown, "{text}");
        }
    }
}
