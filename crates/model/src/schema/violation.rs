//! What is wrong with a value, in words that do not repeat the value.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::shorten;

/// Characters of the judged value a message may show in one place.
const SHOWN: usize = 50;
/// Characters of the schema a message may show in one place.
const QUOTED: usize = 160;

/// One way in which a value does not conform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// JSON pointer into the value, `""` for its root.
    pub pointer: String,
    /// JSON pointer into the schema.
    pub schema_pointer: String,
    /// The schema keyword that is violated; empty when it is a limit of the host.
    pub keyword: String,
    pub message: String,
}

impl Violation {
    pub(super) fn of(error: &ValidationError<'_>) -> Self {
        Violation {
            pointer: error.instance_path().to_string(),
            schema_pointer: error.schema_path().to_string(),
            keyword: error.kind().keyword().to_owned(),
            message: message(error),
        }
    }

    /// A statement about the value as a whole that no keyword made.
    pub(super) fn refusal(message: String) -> Self {
        let (pointer, schema_pointer, keyword) = Default::default();
        Violation { pointer, schema_pointer, keyword, message }
    }
}

fn message(error: &ValidationError<'_>) -> String {
    let what = shown(error.instance());
    match error.kind() {
        Kind::Type { kind } => format!("{what} is not of type {}", types(kind)),
        Kind::Required { property } => format!("the property {} is missing", quoted(property)),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            undeclared(unexpected)
        }
        Kind::Format { format } => format!("{what} is not a valid `{format}`"),
        Kind::Pattern { pattern } => {
            format!("{what} does not match the pattern `{}`", shorten(pattern, QUOTED))
        }
        Kind::Enum { options } => format!("{what} is not one of {}", quoted(options)),
        Kind::Constant { expected_value } => format!("{what} is not {}", quoted(expected_value)),
        Kind::FalseSchema => format!("{what} is not allowed here"),
        Kind::Not { .. } => format!("{what} is what the schema under `not` describes"),
        Kind::AnyOf { context } => alternatives(&what, "anyOf", context),
        Kind::OneOfNotValid { context } => alternatives(&what, "oneOf", context),
        Kind::OneOfMultipleValid { .. } => format!("{what} fits more than one schema of `oneOf`"),
        Kind::PropertyNames { error } => format!("a property name is refused: {}", message(error)),
        _ => bounds(error, &what),
    }
}

/// Kinds that state a limit; they name it themselves.
fn bounds(error: &ValidationError<'_>, what: &str) -> String {
    match error.kind() {
        Kind::Minimum { limit } => format!("{what} is less than {limit}"),
        Kind::Maximum { limit } => format!("{what} is more than {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("{what} is not more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("{what} is not less than {limit}"),
        Kind::MinLength { limit } => format!("{what} has fewer than {limit} characters"),
        Kind::MaxLength { limit } => format!("{what} has more than {limit} characters"),
        Kind::MinItems { limit } => format!("{what} has fewer than {limit} items"),
        Kind::MaxItems { limit } => format!("{what} has more than {limit} items"),
        Kind::MinProperties { limit } => format!("{what} has fewer than {limit} properties"),
        Kind::MaxProperties { limit } => format!("{what} has more than {limit} properties"),
        Kind::MultipleOf { multiple_of } => format!("{what} is not a multiple of {multiple_of}"),
        Kind::UniqueItems => format!("{what} has the same item twice"),
        Kind::Contains => format!("{what} has too few or too many items of the kind in `contains`"),
        Kind::UnevaluatedItems { unexpected } => {
            format!("{what} has {} items that are not declared", unexpected.len())
        }
        _ => shorten(&error.masked_with("the value").to_string(), 2 * SHOWN),
    }
}

/// Scalars are shown, shortened; lists and objects are only named.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "the list".to_owned(),
        Value::Object(_) => "the object".to_owned(),
        Value::String(text) => format!("`{}`", Value::from(shorten(text, SHOWN))),
        scalar => format!("`{scalar}`"),
    }
}

/// Words of the schema, which may be long but are not the caller's.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", shorten(text, QUOTED)),
        other => format!("`{}`", shorten(&other.to_string(), QUOTED)),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => format!("`{one}`"),
        TypeKind::Multiple(many) => {
            many.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn undeclared(names: &[String]) -> String {
    let shown = names.iter().take(3).map(|name| format!("`{}`", shorten(name, SHOWN / 2)));
    let list = shown.collect::<Vec<_>>().join(", ");
    match names.len() {
        1 => format!("the property {list} is not declared"),
        n @ 2..=3 => format!("the {n} properties {list} are not declared"),
        n => format!("{n} properties are not declared, among them {list}"),
    }
}

/// Names the alternative that came closest, since that is most likely the one that was meant.
fn alternatives(what: &str, keyword: &str, context: &[Vec<ValidationError<'_>>]) -> String {
    let summary = format!("{what} fits none of the {} schemas of `{keyword}`", context.len());
    let nearest = context.iter().min_by_key(|errors| errors.len()).and_then(|list| list.first());
    match nearest.map(|error| (error.instance_path().to_string(), error)) {
        Some((place, error)) if !is_choice(error.kind()) => {
            let place = shorten(&place, SHOWN);
            format!("{summary}; the nearest fails at `{place}`: {}", message(error))
        }
        _ => summary,
    }
}

/// Choices inside choices are not followed: the message would grow with every level.
fn is_choice(kind: &Kind) -> bool {
    matches!(kind, Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } | Kind::PropertyNames { .. })
}
