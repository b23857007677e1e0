//! The little YAML that stands beneath a TAP point: keys, quoted values, blocks of text, and one
//! level of nesting. Whatever else stands there is kept as plain text.

use std::collections::BTreeMap;

use crate::text::Block;

const MAX_KEYS: usize = 64;
const MAX_KEY: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Yaml {
    indent: usize,
    values: BTreeMap<String, Block>,
    plain: Block,
    /// The key of a block of text, with the indentation of the key.
    open: Option<(String, usize)>,
    parent: Option<(String, usize)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    More,
    Ended,
}

impl Yaml {
    pub(super) fn new(indent: usize) -> Yaml {
        Yaml { indent, ..Yaml::default() }
    }

    pub(super) fn line(&mut self, line: &str) -> Next {
        let body = line.trim_start_matches(' ');
        let spaces = line.len() - body.len();
        if spaces <= self.indent && body.trim_end() == "..." {
            return Next::Ended;
        }
        self.plain.push(line.get(self.indent.min(spaces)..).unwrap_or_default());
        if let Some((key, beneath)) = &self.open {
            if body.is_empty() || spaces > *beneath {
                if let Some(block) = self.values.get_mut(key) {
                    block.push(line.get((beneath + 2).min(spaces)..).unwrap_or_default());
                }
                return Next::More;
            }
            self.open = None;
        }
        self.pair(spaces, body);
        Next::More
    }

    fn pair(&mut self, spaces: usize, body: &str) {
        let Some((key, value)) = body.split_once(':') else { return };
        if key.len() > MAX_KEY || self.values.len() >= MAX_KEYS {
            return;
        }
        let value = value.trim();
        self.parent.take_if(|(_, indent)| spaces <= *indent);
        let name = match &self.parent {
            Some((parent, _)) => format!("{parent}.{key}"),
            None => key.to_owned(),
        };
        if value.is_empty() {
            self.parent.get_or_insert((name, spaces));
            return;
        }
        let text = if value.starts_with(['|', '>']) { None } else { Some(unquoted(value)) };
        if text.is_none() {
            self.open = Some((name.clone(), spaces));
        }
        let mut block = Block::default();
        if let Some(text) = text {
            block.push(&text);
        }
        self.values.entry(name).or_insert(block);
    }

    /// Text that is not YAML.
    pub(super) fn plain_line(&mut self, line: &str) {
        self.plain.push(line);
    }

    pub(super) fn plain(&self) -> &str {
        self.plain.as_str()
    }

    /// The first of these keys that has a value.
    pub(super) fn get(&self, keys: &[&str]) -> Option<&str> {
        let values = keys.iter().filter_map(|key| self.values.get(*key));
        values.map(|value| value.as_str().trim()).find(|value| !value.is_empty())
    }

    pub(super) fn number(&self, keys: &[&str]) -> Option<u32> {
        self.get(keys)?.parse().ok()
    }

    pub(super) fn milliseconds(&self) -> Option<u64> {
        let millis: f64 = self.get(&["duration_ms"])?.parse().ok()?;
        crate::text::millis(millis / 1000.0)
    }
}

fn unquoted(value: &str) -> String {
    let inner = |quote: char| value.strip_prefix(quote).and_then(|v| v.strip_suffix(quote));
    match (inner('\''), inner('"')) {
        (Some(single), _) => single.replace("''", "'"),
        (_, Some(double)) => double.replace("\\\"", "\"").replace("\\n", "\n"),
        _ => value.to_owned(),
    }
}
