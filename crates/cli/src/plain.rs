//! Text that somebody decides by: what could look like something else is shown by its number.

use std::fmt::Write as _;

use crate::ui::inert;

/// As [`inert`], and everything beyond ASCII is spelt out. No table of letters that pass for others
/// is ever complete; names of principals and tools are ASCII by themselves.
pub(crate) fn plain(text: &str) -> String {
    let text = inert(text);
    if text.is_ascii() {
        return text;
    }
    let mut shown = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if c.is_ascii() {
            shown.push(c);
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_could_pass_for_something_else_is_spelt_out() {
        for (text, shown) in [
            ("plain", "plain"),
            ("caf\u{e9}", "caf\\u{e9}"),
            ("p\u{430}ypal.com", "p\\u{430}ypal.com"),
            ("\u{441}\u{43e}\u{440}", "\\u{441}\\u{43e}\\u{440}"),
            // Latin letters beyond the common ones, Cherokee, Lisu and Coptic.
            ("p\u{251}ss p\u{1ea1}ss", "p\\u{251}ss p\\u{1ea1}ss"),
            ("\u{13a0}\u{a4ee}\u{2c9f}", "\\u{13a0}\\u{a4ee}\\u{2c9f}"),
            ("a\u{301}", "a\\u{301}"),
            ("a\u{202e}b\u{1b}", "a\\u{202e}b\\u{1b}"),
            ("a\u{a0}b\u{2044}c", "a\\u{a0}b\\u{2044}c"),
            ("\u{5d0}1", "\\u{5d0}1"),
        ] {
            assert_eq!(plain(text), shown, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_left_that_could_deceive(text in "\\PC*") {
            let shown = plain(&text);
            prop_assert!(shown.chars().all(|c| c == ' ' || c.is_ascii_graphic()));
        }
    }
}
