//! Tokens are counted as a second counter counts them, and strange texts are counted fast.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use countersign_pack::{Counter, Tokenizer};
use proptest::prelude::*;
use tiktoken_rs::CoreBPE;

fn pairs() -> [(Counter, &'static CoreBPE); 2] {
    [
        (Tokenizer::O200kBase.counter().unwrap(), tiktoken_rs::o200k_base_singleton()),
        (Tokenizer::Cl100kBase.counter().unwrap(), tiktoken_rs::cl100k_base_singleton()),
    ]
}

#[track_caller]
fn check(text: &str) {
    for (counter, second) in pairs() {
        let expected = second.encode_ordinary(text).len() as u64;
        assert_eq!(counter.count(text), expected, "{text:?}");
    }
}

#[test]
fn counts_are_those_of_the_second_counter() {
    for text in [
        "",
        " ",
        "hello world",
        "Größe, größer; 日本語テキスト 한국어 🦀👩‍👩‍👧",
        "fn main() {\r\n\tprintln!(\"{}\", 1_000.5e-3);\r\n}\r\n",
        "  \t \n\n   x  \u{a0}\u{3000}\u{2003} y\n",
        "don't DON'T I'LL we'ves 'S''s",
        "<|endoftext|><|im_start|>",
        "1234567890 ٣٤٥ Ⅷ ½²",
        "\u{0}\u{7f}\u{85}\u{feff}\u{301}\u{10ffff}",
        "////\n// https://example.org/a/b?c=d&e=%20#f\n",
    ] {
        check(text);
    }
}

#[test]
fn sources_are_counted_the_same() {
    for text in [include_str!("tokens.rs"), include_str!("../src/select.rs")] {
        check(text);
        check(&text.replace('\n', "\r\n"));
    }
}

#[test]
fn one_character_repeated_is_counted_the_same() {
    for unit in ["a", " ", "\n", "=", "é", "🦀", "ab", " \n", "\t ", "'", "A", "\u{301}"] {
        check(&unit.repeat(3_000));
    }
}

proptest! {
    #[test]
    fn any_text_is_counted_the_same(text in "\\PC{0,60}|[ \\t\\r\\na-zA-Z0-9'/._\u{a0}é日🦀]{0,80}") {
        for (counter, second) in pairs() {
            prop_assert_eq!(counter.count(&text), second.encode_ordinary(&text).len() as u64);
        }
    }
}
