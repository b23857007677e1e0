//! How many tokens a text has.

use std::fmt;

use countersign_model::Failure;
use serde::{Deserialize, Serialize};
use tiktoken::CoreBpe;

/// Whose tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Tokenizer {
    #[default]
    #[serde(rename = "o200k_base")]
    O200kBase,
    #[serde(rename = "cl100k_base")]
    Cl100kBase,
}

impl Tokenizer {
    pub const ALL: [Tokenizer; 2] = [Tokenizer::O200kBase, Tokenizer::Cl100kBase];

    pub const fn name(self) -> &'static str {
        match self {
            Tokenizer::O200kBase => "o200k_base",
            Tokenizer::Cl100kBase => "cl100k_base",
        }
    }

    /// The vocabulary is unpacked by the first who asks for it, which takes about a tenth of a second.
    #[allow(
        clippy::result_large_err,
        reason = "`Failure` is the one error shape, and refusals are rare"
    )]
    pub fn counter(self) -> Result<Counter, Failure> {
        let absent = || {
            let message = format!("the vocabulary of `{}` is not in this build", self.name());
            Failure::state("TOKENIZER_ABSENT", message)
        };
        tiktoken::get_encoding(self.name()).map(Counter).ok_or_else(absent)
    }
}

/// Counts the tokens of ordinary text: marks that steer a model are text like any other.
#[derive(Clone, Copy)]
pub struct Counter(&'static CoreBpe);

/// No token of either vocabulary is longer, so a text has at least one for so many bytes.
pub(crate) const LONGEST_TOKEN: u64 = 128;

impl Counter {
    pub fn count(&self, text: &str) -> u64 {
        self.0.count(text) as u64
    }

    /// The count, or nothing when it is surely more than so many. What cannot fit is not counted.
    pub(crate) fn count_within(&self, text: &str, most: u64) -> Option<u64> {
        let least = text.len() as u64 / LONGEST_TOKEN;
        (least <= most).then(|| self.count(text)).filter(|count| *count <= most)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_is_longer_than_is_assumed() {
        for tokenizer in Tokenizer::ALL {
            let Counter(vocabulary) = tokenizer.counter().unwrap();
            let size = u32::try_from(vocabulary.vocab_size()).unwrap();
            let longest = (0..size).map(|token| vocabulary.decode(&[token]).len()).max();
            assert_eq!(longest, Some(LONGEST_TOKEN as usize), "{}", tokenizer.name());
        }
    }

    #[test]
    fn what_cannot_fit_is_not_counted() {
        let counter = Tokenizer::default().counter().unwrap();
        assert_eq!(counter.count_within("hello world", 2), Some(2));
        assert_eq!(counter.count_within("hello world", 1), None);
        assert_eq!(counter.count_within(&" ".repeat(1024), 7), None);
    }
}
