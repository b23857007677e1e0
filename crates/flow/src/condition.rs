//! Conditions of edges: compiled when a definition is read, an error whenever they cannot be told.

use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::expression::Expression;
use crate::problem::shorten;

/// Compiled size of a pattern.
const PATTERN_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub struct Condition(Test);

#[derive(Debug)]
enum Test {
    Expression(Expression),
    Equals(Path, Value),
    NotEquals(Path, Value),
    Contains(Path, Value),
    Regex(Path, Box<Regex>),
}

/// `output.approved`, `variables.x`, …
#[derive(Debug)]
struct Path(Vec<String>);

/// What conditions and port expressions can see.
pub type Scope = BTreeMap<&'static str, Value>;

impl Condition {
    pub(crate) fn of(value: &Value) -> Result<Self, String> {
        let kind = value.get("type").and_then(Value::as_str);
        let test = match kind.ok_or("the condition has no `type`")? {
            "expression" => {
                let text = value.get("expression").and_then(Value::as_str);
                Test::Expression(Expression::compile(text.ok_or("`expression` is missing")?)?)
            }
            "equals" => Test::Equals(left(value)?, right(value)?),
            "notEquals" => Test::NotEquals(left(value)?, right(value)?),
            "contains" => Test::Contains(left(value)?, right(value)?),
            _ => Test::Regex(left(value)?, Box::new(pattern(&right(value)?)?)),
        };
        Ok(Condition(test))
    }

    /// Whether it holds, or why that cannot be said.
    pub fn holds(&self, scope: &Scope) -> Result<bool, String> {
        match &self.0 {
            Test::Expression(expression) => match expression.evaluate(scope)? {
                Value::Bool(holds) => Ok(holds),
                other => Err(format!("the condition is {}, not true or false", kind_of(&other))),
            },
            Test::Equals(path, right) => Ok(same(path.find(scope)?, right)),
            Test::NotEquals(path, right) => Ok(!same(path.find(scope)?, right)),
            Test::Contains(path, right) => contains(path.find(scope)?, right),
            Test::Regex(path, pattern) => match path.find(scope)? {
                Value::String(text) => Ok(pattern.is_match(text)),
                other => Err(format!("{} cannot be matched with a pattern", kind_of(other))),
            },
        }
    }

    pub(crate) fn roots(&self) -> BTreeSet<String> {
        match &self.0 {
            Test::Expression(expression) => expression.names().collect(),
            Test::Equals(path, _)
            | Test::NotEquals(path, _)
            | Test::Contains(path, _)
            | Test::Regex(path, _) => BTreeSet::from([path.0.join(".")]),
        }
    }
}

fn left(value: &Value) -> Result<Path, String> {
    let text = value.get("left").and_then(Value::as_str).ok_or("`left` is missing")?;
    let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
    if parts.len() > 32 || parts.iter().any(String::is_empty) {
        return Err(format!("`{}` is not a path", shorten(text, 60)));
    }
    Ok(Path(parts))
}

fn right(value: &Value) -> Result<Value, String> {
    value.get("right").cloned().ok_or_else(|| "`right` is missing".to_owned())
}

fn pattern(right: &Value) -> Result<Regex, String> {
    let text = right.as_str().ok_or("a pattern is a text")?;
    let mut builder = RegexBuilder::new(text);
    let built = builder.size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES).build();
    built.map_err(|_| format!("`{}` is not a pattern that can be used", shorten(text, 60)))
}

impl Path {
    fn find<'s>(&self, scope: &'s Scope) -> Result<&'s Value, String> {
        let missing = || format!("`{}` is not there", shorten(&self.0.join("."), 80));
        let (root, rest) = self.0.split_first().ok_or_else(missing)?;
        let root = scope.get(root.as_str()).ok_or_else(missing)?;
        rest.iter().try_fold(root, step).ok_or_else(missing)
    }
}

fn step<'v>(value: &'v Value, part: &String) -> Option<&'v Value> {
    match value {
        Value::Object(map) => map.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Equal as JSON, with 1 and 1.0 the same number.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn contains(value: &Value, wanted: &Value) -> Result<bool, String> {
    match (value, wanted) {
        (Value::String(text), Value::String(part)) => Ok(text.contains(part)),
        (Value::Array(items), _) => Ok(items.iter().any(|item| same(item, wanted))),
        (Value::Object(map), Value::String(key)) => Ok(map.contains_key(key)),
        _ => Err(format!("{} cannot contain {}", kind_of(value), kind_of(wanted))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(condition: &Value) -> Result<bool, String> {
        let scope = Scope::from([
            ("status", json!("completed")),
            ("output", json!({"approved": true, "n": 1, "list": [1, 2], "text": "release-12"})),
        ]);
        Condition::of(condition)?.holds(&scope)
    }

    #[test]
    fn each_kind_of_condition() {
        let of = |kind: &str, left: &str, right: Value| json!({"type": kind, "left": left, "right": right});
        for (condition, expected) in [
            (of("equals", "status", json!("completed")), Ok(true)),
            (of("equals", "output.n", json!(1.0)), Ok(true)),
            (of("notEquals", "output.approved", json!(true)), Ok(false)),
            (of("contains", "output.list", json!(2)), Ok(true)),
            (of("contains", "output.list.0", json!(2)), Err(())),
            (of("contains", "output", json!("n")), Ok(true)),
            (of("regex", "output.text", json!("^release-\\d+$")), Ok(true)),
            (of("regex", "output.n", json!("1")), Err(())),
            (of("regex", "output.text", json!("(")), Err(())),
            (of("regex", "output.text", json!("\\w{1000}{1000}")), Err(())),
            (of("equals", "output.missing", json!(1)), Err(())),
            (of("equals", "output..n", json!(1)), Err(())),
            (json!({"type": "expression", "expression": "output.n == 1"}), Ok(true)),
            (json!({"type": "expression", "expression": "output.n"}), Err(())),
            (json!({"type": "expression"}), Err(())),
            (json!({}), Err(())),
        ] {
            let shown = condition.to_string();
            assert_eq!(told(&condition).map_err(drop), expected, "{shown}");
        }
    }
}
