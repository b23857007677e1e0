//! Expressions: a small language without loops, functions of its own, or a way to the outside.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

use crate::problem::shorten;

/// Longer ones belong into a tool.
const MOST_BYTES: usize = 4096;
/// Instructions of one evaluation; an expression within the length above needs far fewer.
const FUEL: u64 = 20_000;

/// Nothing is in it that was not put there: no filters, tests or functions but these.
static LANGUAGE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut language = Environment::empty();
    language.set_undefined_behavior(UndefinedBehavior::Strict);
    language.set_fuel(Some(FUEL));
    language.add_filter("length", |value: minijinja::Value| {
        value.len().ok_or_else(|| invalid("only texts, lists and objects have a length"))
    });
    language.add_filter("lower", |text: String| text.to_lowercase());
    language.add_filter("upper", |text: String| text.to_uppercase());
    language.add_filter("trim", |text: String| text.trim().to_owned());
    language.add_test("defined", |value: minijinja::Value| !value.is_undefined());
    language.add_test("none", |value: minijinja::Value| value.is_none());
    language
});

fn invalid(message: &'static str) -> minijinja::Error {
    minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message)
}

/// An expression that was found sound.
pub struct Expression {
    text: String,
    compiled: minijinja::Expression<'static, 'static>,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl Expression {
    /// Reads `text`, or says why it cannot be used.
    pub fn compile(text: &str) -> Result<Self, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("the expression has more than {MOST_BYTES} bytes"));
        }
        if multiplies(text) {
            return Err("`*` is not offered: it would repeat texts and lists".to_owned());
        }
        // The end of a template's variable: the reader of expressions does not survive it.
        if text.contains("}}") {
            return Err("`}}` cannot stand in an expression: write `} }`".to_owned());
        }
        let told = |error: minijinja::Error| shorten(&error.to_string(), 200);
        let compiled = LANGUAGE.compile_expression_owned(text.to_owned()).map_err(told)?;
        Ok(Expression { text: text.to_owned(), compiled })
    }

    /// The value under `scope`. A name that is not there is an error, never a value.
    pub fn evaluate(&self, scope: &BTreeMap<&str, Value>) -> Result<Value, String> {
        let told = |error: minijinja::Error| shorten(&error.to_string(), 200);
        let value = self.compiled.eval(scope).map_err(told)?;
        if value.is_undefined() {
            return Err("the expression names something that is not there".to_owned());
        }
        if f64::try_from(value.clone()).is_ok_and(|number| !number.is_finite()) {
            return Err("the expression is not a finite number".to_owned());
        }
        serde_json::to_value(&value).map_err(|error| shorten(&error.to_string(), 200))
    }

    /// The names it goes by, with their paths.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.compiled.undeclared_variables(true).into_iter()
    }
}

/// Whether `*` stands outside of quotes.
fn multiplies(text: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    for letter in text.chars() {
        match (quote, letter) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '*') => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Result<Value, String> {
        let scope = BTreeMap::from([
            ("output", json!({"score": 3, "name": "Ada", "tags": ["a", "b"], "none": null})),
            ("status", json!("completed")),
        ]);
        Expression::compile(text)?.evaluate(&scope)
    }

    #[test]
    fn the_end_of_a_template_is_refused_wherever_it_stands() {
        for text in ["variables.}}  1", "1 }}", "-}} 1", "{\"a\": {\"b\": 1}}", "'}}'"] {
            assert!(Expression::compile(text).unwrap_err().contains("`} }`"), "{text}");
        }
        assert!(Expression::compile("{\"a\": {\"b\": 1} } ").is_ok());
    }

    #[test]
    fn values_are_what_they_say() {
        for (text, expected) in [
            ("output.score > 2 and status == 'completed'", json!(true)),
            ("output.score + 0.5", json!(3.5)),
            ("'a' in output.tags", json!(true)),
            ("output.tags | length", json!(2)),
            ("output.name | lower", json!("ada")),
            ("output.missing is defined", json!(false)),
            ("output.none is none", json!(true)),
            ("output['tags'][1]", json!("b")),
            ("'2 * 3'", json!("2 * 3")),
            ("{'a': [1, output.score]}", json!({"a": [1, 3]})),
            ("1 if output.score > 5 else 2", json!(2)),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn whatever_is_wrong_is_an_error_and_never_a_value() {
        for text in [
            "output.missing",
            "output.missing.deeper",
            "nothing == 1",
            "output.missing == 1",
            "1 +",
            "range(9)",
            "output.name * 1000000",
            "output.name.upper()",
            "output.score | tojson",
            "output.score + output.name",
            "1 / 0",
            "{% for x in y %}",
            "",
        ] {
            assert!(value(text).is_err(), "{text}: {:?}", value(text));
        }
        assert!(Expression::compile(&"(".repeat(4000)).is_err());
        assert!(Expression::compile(&"1+".repeat(3000)).is_err());
    }
}
