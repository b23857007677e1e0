//! The visitor that builds a value and remembers where it is.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::text::{push_index, push_segment, shorten};

const EXACT: u64 = 1 << 53;
const EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;
/// From here on canonical JSON writes an exponent, so the text says that it is a double.
const EXPONENT_FROM: f64 = 1e21;

/// What the parser itself would have let pass.
#[derive(Debug)]
pub(super) enum Fault {
    TooDeep,
    DuplicateKey(String),
    Number,
}

#[derive(Debug)]
enum Step {
    Key(String),
    Index(usize),
}

#[derive(Debug)]
pub(super) struct Reader {
    max_depth: usize,
    path: Vec<Step>,
    fault: Option<Fault>,
    saw_huge: bool,
}

impl Reader {
    pub(super) fn new(max_depth: usize) -> Self {
        Reader { max_depth, path: Vec::new(), fault: None, saw_huge: false }
    }

    pub(super) fn read(&mut self, text: &str) -> Result<Value, serde_json::Error> {
        let mut parser = serde_json::Deserializer::from_str(text);
        let value = Seed(self).deserialize(&mut parser)?;
        parser.end()?;
        Ok(value)
    }

    pub(super) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Whether a number was read that may have been an integer of more than 21 digits.
    pub(super) fn saw_huge(&self) -> bool {
        self.saw_huge
    }

    /// Where reading stopped. Keys are the stranger's, so only so much of them is shown.
    pub(super) fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) => push_segment(&mut pointer, key),
                Step::Index(index) => push_index(&mut pointer, *index),
            }
        }
        shorten(&pointer, 160)
    }

    /// The words are never shown; [`Reader::fault`] carries the reason.
    fn stop<E: Error>(&mut self, fault: Fault) -> E {
        self.fault = Some(fault);
        E::custom("refused")
    }

    /// Containers open around what is read next are the steps of the path, plus the new one.
    fn open<E: Error>(&mut self) -> Result<(), E> {
        if self.path.len() < self.max_depth {
            return Ok(());
        }
        Err(self.stop(Fault::TooDeep))
    }

    fn float<E: Error>(&mut self, number: f64) -> Result<Value, E> {
        let magnitude = number.abs();
        self.saw_huge |= magnitude >= EXPONENT_FROM;
        let lossy = magnitude > EXACT_FLOAT && magnitude < EXPONENT_FROM;
        match Number::from_f64(number).filter(|_| !lossy) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(self.stop(Fault::Number)),
        }
    }

    fn integer<E: Error>(&mut self, magnitude: u64, number: Number) -> Result<Value, E> {
        if magnitude > EXACT {
            return Err(self.stop(Fault::Number));
        }
        Ok(Value::Number(number))
    }
}

struct Seed<'a>(&'a mut Reader);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.0.integer(value, value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.0.integer(value.unsigned_abs(), value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.0.float(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let reader = self.0;
        let mut items = Vec::new();
        reader.open()?;
        reader.path.push(Step::Index(0));
        while let Some(item) = seq.next_element_seed(Seed(reader))? {
            items.push(item);
            reader.path.pop();
            reader.path.push(Step::Index(items.len()));
        }
        reader.path.pop();
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let reader = self.0;
        let mut map = Map::new();
        reader.open()?;
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(reader.stop(Fault::DuplicateKey(key)));
            }
            reader.path.push(Step::Key(key.clone()));
            map.insert(key, entries.next_value_seed(Seed(reader))?);
            reader.path.pop();
        }
        Ok(Value::Object(map))
    }
}
