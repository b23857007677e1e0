//! JSON Schema 2020-12, and nothing that could surprise.
//!
//! One dialect; formats are asserted; nothing is ever fetched; patterns run on a linear-time
//! engine. A schema is measured before it is compiled, and a value against a schema before it is
//! checked, so that neither a hostile declaration nor a hostile input can take the host's time or
//! its stack. What is refused here is refused for every front door.

mod error;
mod graph;
mod measure;
mod resolve;
mod violation;
pub(crate) mod walk;
mod work;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

pub use error::SchemaError;
use graph::Graph;
pub(crate) use measure::nests_within;
pub use violation::Violation;

/// The only dialect there is.
pub const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Violations shown for one value; the rest is counted.
pub const MAX_VIOLATIONS: usize = 100;

/// Counting stops here: nobody reads on, and a hostile value could make millions.
const MAX_COUNTED: usize = 10_000;
/// Steps after which reasons are not collected: for choices inside choices they take many times
/// longer than the judgement itself.
const MAX_EXPLAINED: u64 = 3_000_000;
const UNEXPLAINED: &str = "the value does not conform, and is too large to say where";
/// Compiled size of one pattern: room for `^.{1,255}$`, and a factor on the time each character of
/// a text takes, so not more than that needs.
const PATTERN_BYTES: usize = 512 * 1024;

/// A schema that was found sound and is ready to judge values.
pub struct CompiledSchema {
    validator: Validator,
    graph: Graph,
}

// INVARIANT: calls are checked on many threads against one compiled schema.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<CompiledSchema>();
};

impl std::fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledSchema").field("places", &self.graph.len()).finish_non_exhaustive()
    }
}

impl CompiledSchema {
    /// The order matters: each step relies on what the steps before it refused.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        measure::schema_size(schema)?;
        measure::dialects(schema)?;
        if let Some(violation) = meta_violations(schema).into_iter().next() {
            return Err(SchemaError::invalid(violation));
        }
        measure::resources(schema)?;
        measure::patterns(schema)?;
        let graph = resolve::graph_of(schema)?;
        let validator = options().build(schema).map_err(|error| SchemaError::of_build(&error))?;
        Ok(CompiledSchema { validator, graph })
    }

    /// Everything that is wrong with `instance`; nothing when it conforms.
    pub fn check(&self, instance: &Value) -> Vec<Violation> {
        let work = match self.graph.affords(instance) {
            Ok(work) => work,
            Err(too_much) => return vec![Violation::refusal(too_much)],
        };
        match self.validator.is_valid(instance) {
            true => Vec::new(),
            false if work > MAX_EXPLAINED => vec![Violation::refusal(UNEXPLAINED.to_owned())],
            false => collect(self.validator.iter_errors(instance)),
        }
    }

    pub fn is_valid(&self, instance: &Value) -> bool {
        self.graph.affords(instance).is_ok() && self.validator.is_valid(instance)
    }
}

fn options() -> jsonschema::ValidationOptions<'static> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_retriever(resolve::NeverFetch)
        .should_validate_formats(true)
        .should_ignore_unknown_formats(false)
        .with_pattern_options(
            PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(2 * PATTERN_BYTES),
        )
}

/// What the 2020-12 meta-schema says against `schema`, which must not be too deep.
pub(crate) fn meta_violations(schema: &Value) -> Vec<Violation> {
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        return vec![Violation::refusal("a schema is an object or a boolean".to_owned())];
    }
    collect(jsonschema::draft202012::meta::validator().iter_errors(schema))
}

fn collect<'a>(errors: impl Iterator<Item = jsonschema::ValidationError<'a>>) -> Vec<Violation> {
    let mut errors = errors.take(MAX_COUNTED);
    let mut shown: Vec<_> =
        errors.by_ref().take(MAX_VIOLATIONS).map(|error| Violation::of(&error)).collect();
    match errors.count() {
        0 => {}
        more => shown.push(Violation::refusal(format!("and {more} more violations"))),
    }
    shown
}
