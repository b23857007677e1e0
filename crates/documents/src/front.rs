//! Front matter: the small part of YAML that the schemas show, and nothing else of it.
//!
//! `key: value` with plain or double-quoted values, `[]`, lists of values or of flat pairs with
//! their dashes at the margin or indented by two, comments, blank lines. Whatever is accepted here
//! means the same to a full YAML reader; the tests hold it against one. The keys and types of a
//! schema are checked in `table`.

mod reader;
mod scalar;
mod table;

pub use reader::read;
pub use scalar::{Kind, Scalar};
pub use table::{Fields, Key, Shape};

/// What stands between the two lines `---`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Front {
    pub entries: Vec<Entry>,
    /// Where the line begins that ends the front matter.
    pub end: usize,
    /// Where the body begins.
    pub body: usize,
}

/// A key and its value, in the order of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub at: usize,
    /// Where the line of the key ends, without comment and blanks.
    pub end: usize,
    pub value: Value,
    /// Something below the key could not be read, so the value is not all of it.
    pub spoilt: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing after the colon, nothing below.
    Nothing,
    /// Something after the colon that cannot be read.
    Unreadable,
    /// `[]`.
    EmptyList,
    Scalar(Scalar),
    Scalars(Vec<Scalar>),
    Pairs(Vec<Item>),
}

/// An item of a list that is a small map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where its dash stands.
    pub at: usize,
    pub pairs: Vec<Pair>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub key: String,
    pub at: usize,
    pub value: Scalar,
}

impl Item {
    pub fn get(&self, key: &str) -> Option<&Scalar> {
        self.pairs.iter().find(|pair| pair.key == key).map(|pair| &pair.value)
    }
}
