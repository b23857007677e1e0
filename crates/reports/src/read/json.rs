//! JSON documents read element by element, so that a report may be larger than what is held.

use std::fmt;
use std::io::{BufRead, Read};
use std::marker::PhantomData;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize, Deserializer};

use crate::unreadable::{Unreadable, Why};

/// A document as a whole; one string in it may be as long.
const MAX_DOCUMENT: u64 = 128 * 1024 * 1024;
/// Elements of a list that is held: findings of one file or of one run.
const MAX_HELD: usize = 50_000;

/// Hands over the elements of a list.
pub(super) fn each<R: BufRead + ?Sized, T: DeserializeOwned>(
    reader: &mut R,
    take: impl FnMut(T),
) -> Result<(), Unreadable> {
    document(reader, Each { take, of: PhantomData })
}

/// Hands over the elements of one list in an object, and the plain values beside it.
pub(super) fn each_in<R: BufRead + ?Sized, T: DeserializeOwned>(
    reader: &mut R,
    key: &'static str,
    take: impl FnMut(T),
    beside: impl FnMut(&str, Plain),
) -> Result<(), Unreadable> {
    document(reader, EachIn { key, take, beside, of: PhantomData })
}

fn document<'de, R, S>(reader: &mut R, seed: S) -> Result<(), Unreadable>
where
    R: BufRead + ?Sized,
    S: DeserializeSeed<'de, Value = ()>,
{
    if reader.fill_buf()?.is_empty() {
        return Err(super::empty());
    }
    let mut limited = reader.take(MAX_DOCUMENT);
    let mut json = serde_json::Deserializer::from_reader(&mut limited);
    let read = seed.deserialize(&mut json).and_then(|()| json.end());
    let full = limited.limit() == 0;
    read.map_err(|error| match (error.classify(), full) {
        (serde_json::error::Category::Io, _) => {
            Unreadable::new(Why::Input, format!("the report could not be read: {error}"))
        }
        (_, true) => Unreadable::new(Why::TooLarge, "the report is too large"),
        _ => Unreadable::malformed(format!("the report is not the JSON it should be: {error}")),
    })
}

struct Each<T, F> {
    take: F,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> DeserializeSeed<'de> for Each<T, F> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<T, F> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.take)(element);
        }
        Ok(())
    }
}

struct EachIn<T, F, G> {
    key: &'static str,
    take: F,
    beside: G,
    of: PhantomData<T>,
}

impl<'de, T, F, G> DeserializeSeed<'de> for EachIn<T, F, G>
where
    T: Deserialize<'de>,
    F: FnMut(T),
    G: FnMut(&str, Plain),
{
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, T, F, G> Visitor<'de> for EachIn<T, F, G>
where
    T: Deserialize<'de>,
    F: FnMut(T),
    G: FnMut(&str, Plain),
{
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with `{}`", self.key)
    }
    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(key) = object.next_key::<String>()? {
            if key != self.key {
                let value = object.next_value()?;
                (self.beside)(&key, value);
                continue;
            }
            if found {
                return Err(A::Error::custom(format!("`{key}` is there twice")));
            }
            found = true;
            object.next_value_seed(Each { take: &mut self.take, of: PhantomData })?;
        }
        if found { Ok(()) } else { Err(A::Error::custom(format!("`{}` is missing", self.key))) }
    }
}

/// A value that is not looked into unless it is plain.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plain {
    Text(String),
    Number(u64),
    Bool(bool),
    Other,
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Plain, D::Error> {
        from.deserialize_any(PlainVisitor)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Plain;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Plain, E> {
        Ok(Plain::Bool(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Plain, E> {
        Ok(Plain::Number(value))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Plain, E> {
        Ok(Plain::Other)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Plain, E> {
        Ok(Plain::Other)
    }
    fn visit_str<E>(self, value: &str) -> Result<Plain, E> {
        Ok(Plain::Text(value.to_owned()))
    }
    fn visit_unit<E>(self) -> Result<Plain, E> {
        Ok(Plain::Other)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Plain, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Plain::Other)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Plain, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Plain::Other)
    }
}

/// A list that is held, of bounded length.
#[derive(Debug)]
pub(super) struct Bounded<T>(pub(super) Vec<T>);

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Bounded(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut held = Vec::new();
        let mut beyond = false;
        let take = |element: T| {
            if held.len() < MAX_HELD {
                held.push(element);
            } else {
                beyond = true;
            }
        };
        Each { take, of: PhantomData }.deserialize(from)?;
        if beyond {
            return Err(D::Error::custom(format!("a list has more than {MAX_HELD} elements")));
        }
        Ok(Bounded(held))
    }
}

/// The first element of a list; the others are passed over.
#[derive(Debug)]
pub(super) struct First<T>(pub(super) Option<T>);

impl<T> Default for First<T> {
    fn default() -> Self {
        First(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut first = None;
        let take = |element: T| {
            first.get_or_insert(element);
        };
        Each { take, of: PhantomData }.deserialize(from)?;
        Ok(First(first))
    }
}
