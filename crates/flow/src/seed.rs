//! What a run begins with. It is kept apart from the events, because inputs are not for everybody
//! who may read those.

use countersign_model::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::{Definition, as_whole};
use crate::event::Values;
use crate::problem::{Problem, Report, shorten};
use crate::trace::Trace;
use crate::types::Offers;

/// Bounds of the host; a request may lower them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub max_node_executions: u64,
    pub max_run_duration_ms: u64,
    pub max_loop_iterations: u64,
    /// Runs above a run: a workflow that calls itself through a supervisor ends here.
    pub max_depth: u64,
    /// Bytes of inputs, configuration and metadata together.
    pub max_seed_bytes: usize,
    /// Bytes of one result, one answer, or one channel.
    pub max_payload_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_node_executions: 10_000,
            max_run_duration_ms: 7 * 24 * 60 * 60 * 1000,
            max_loop_iterations: 100,
            max_depth: 16,
            max_seed_bytes: 1024 * 1024,
            max_payload_bytes: 1024 * 1024,
        }
    }
}

/// What somebody asks for.
#[derive(Debug, Clone, Default)]
pub struct NewRun {
    pub run_id: String,
    pub inputs: Map<String, Value>,
    pub configurable: Map<String, Value>,
    pub tags: Vec<String>,
    pub metadata: Map<String, Value>,
    /// `{tenant, workspace?, principal?}`, ids only.
    pub owner: Option<Value>,
    pub transport: Option<String>,
    pub parent: Option<Parent>,
    pub trace: Option<Trace>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parent {
    pub run_id: String,
    pub node_id: String,
    /// How many runs stand above: 1 for the child of a run that nobody called.
    pub depth: u64,
}

/// The beginning of a run, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Seed {
    pub run_id: String,
    pub workflow_id: String,
    /// The definition that the run was made for.
    pub definition: Digest,
    pub created_at: Timestamp,
    pub inputs: Map<String, Value>,
    pub configurable: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Origin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Who is told of its end. Not of the ends of its forks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    pub bounds: Bounds,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    pub run_id: String,
    pub from_sequence: u64,
    pub replay: bool,
}

/// What the run may use up, decided when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bounds {
    pub node_executions: u64,
    pub duration_ms: u64,
    pub loop_iterations: u64,
    pub payload_bytes: u64,
}

impl Bounds {
    /// Whether a value is small enough to be kept.
    pub(crate) fn admits<T: Serialize>(&self, value: &T) -> bool {
        serde_json::to_vec(value).is_ok_and(|bytes| bytes.len() as u64 <= self.payload_bytes)
    }
}

/// Why there is no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateRefusal {
    #[error("the request has {} problems", .0.len())]
    Invalid(Vec<Problem>),
    #[error("the node `{node_id}` needs `{required}`, which this host does not offer")]
    Capability { required: String, type_id: String, node_id: String },
    #[error("there are {0} runs above this one already")]
    TooDeep(u64),
    #[error("mock providers are for conformance tests")]
    MockForbidden,
}

/// The seed of a run of `definition`, or every reason against it.
pub fn create(
    definition: &Definition,
    new: NewRun,
    offers: &Offers,
    limits: &Limits,
    now: Timestamp,
) -> Result<Seed, CreateRefusal> {
    for node in &definition.nodes {
        if let Some(required) = offers.missing(definition, node) {
            let (type_id, node_id) = (node.type_id.clone(), node.id.clone());
            return Err(CreateRefusal::Capability { required, type_id, node_id });
        }
    }
    if new.configurable.contains_key("mockProvider") && !offers.conformance {
        return Err(CreateRefusal::MockForbidden);
    }
    if let Some(parent) = new.parent.as_ref().filter(|parent| parent.depth > limits.max_depth) {
        return Err(CreateRefusal::TooDeep(parent.depth));
    }
    let mut report = Report::default();
    check_size(&new, limits, &mut report);
    check_inputs(definition, &new.inputs, &mut report);
    check_configurable(definition, &new.configurable, &mut report);
    check_tags(&new.tags, &mut report);
    report.finish().map_err(CreateRefusal::Invalid)?;
    Ok(Seed {
        run_id: new.run_id,
        workflow_id: definition.id.clone(),
        definition: definition.digest(),
        created_at: now,
        bounds: bounds(definition, &new.configurable, limits),
        inputs: new.inputs,
        configurable: new.configurable,
        tags: new.tags,
        metadata: new.metadata,
        owner: new.owner,
        transport: new.transport,
        parent: new.parent,
        forked_from: None,
        trace: new.trace,
        callback_url: None,
    })
}

fn check_size(new: &NewRun, limits: &Limits, report: &mut Report) {
    let size =
        |map: &Map<String, Value>| serde_json::to_string(map).map_or(usize::MAX, |t| t.len());
    let all = [&new.inputs, &new.configurable, &new.metadata];
    if all.into_iter().map(size).fold(0, usize::saturating_add) > limits.max_seed_bytes {
        let message = format!("inputs and options have more than {} bytes", limits.max_seed_bytes);
        report.add("RUN_TOO_LARGE", "", message);
    }
}

fn check_inputs(definition: &Definition, inputs: &Map<String, Value>, report: &mut Report) {
    for variable in &definition.variables {
        let name = &variable.name;
        match inputs.get(name) {
            None if variable.required && variable.default_value.is_none() => {
                report.add(
                    "RUN_INPUT_MISSING",
                    "/inputs",
                    format!("the input `{name}` is missing"),
                );
            }
            Some(value) if !fits(value, &variable.kind, variable.required) => {
                let message = format!("the input `{name}` is not of type `{}`", variable.kind);
                report.add("RUN_INPUT_INVALID", format!("/inputs/{name}"), message);
            }
            _ => {}
        }
    }
}

fn fits(value: &Value, kind: &str, required: bool) -> bool {
    match (kind, value) {
        ("string", Value::String(_)) | ("number", Value::Number(_)) => true,
        ("boolean", Value::Bool(_)) | ("object", Value::Object(_)) => true,
        ("array", Value::Array(_)) => true,
        (_, Value::Null) => !required,
        _ => false,
    }
}

fn check_configurable(definition: &Definition, given: &Map<String, Value>, report: &mut Report) {
    for name in ["recursionLimit", "runTimeoutMs", "maxLoopIterations", "maxTokens"] {
        let wrong = given.get(name).is_some_and(|value| as_whole(value).is_none_or(|n| n < 1));
        if wrong {
            report.add(
                "RUN_OPTION_INVALID",
                format!("/configurable/{name}"),
                "at least 1 is needed",
            );
        }
    }
    for (name, most) in [("temperature", 2.0), ("escalationThreshold", 1.0)] {
        let within = |value: &Value| value.as_f64().is_some_and(|n| (0.0..=most).contains(&n));
        if given.get(name).is_some_and(|value| !within(value)) {
            let message = format!("a number from 0 to {most} is needed");
            report.add("RUN_OPTION_INVALID", format!("/configurable/{name}"), message);
        }
    }
    if given.get("mockProvider").is_some_and(|mock| mock.get("id").is_none_or(|id| !id.is_string()))
    {
        report.add("RUN_OPTION_INVALID", "/configurable/mockProvider", "an object with an `id`");
    }
    if given.contains_key("budget") {
        // Better none than one that nobody keeps.
        report.add("RUN_OPTION_INVALID", "/configurable/budget", "budgets are not offered");
    }
    let violations =
        definition.configurable.as_ref().map(|schema| schema.check(&given.clone().into()));
    for violation in violations.into_iter().flatten() {
        let pointer = format!("/configurable{}", violation.pointer);
        report.add("RUN_OPTION_INVALID", pointer, violation.message);
    }
}

fn check_tags(tags: &[String], report: &mut Report) {
    if tags.len() > 100 {
        report.add("RUN_TAGS_INVALID", "/tags", "there are more than 100 tags");
    }
    for (place, tag) in tags.iter().enumerate() {
        if tag.is_empty() || tag.chars().count() > 256 {
            let message = format!("`{}` does not have 1 to 256 characters", shorten(tag, 40));
            report.add("RUN_TAGS_INVALID", format!("/tags/{place}"), message);
        }
    }
}

fn bounds(definition: &Definition, given: &Map<String, Value>, limits: &Limits) -> Bounds {
    let asked = |name: &str| given.get(name).and_then(as_whole).unwrap_or(u64::MAX);
    let own = definition.settings.timeout.filter(|&ms| ms > 0).unwrap_or(u64::MAX);
    Bounds {
        node_executions: asked("recursionLimit").min(limits.max_node_executions),
        duration_ms: asked("runTimeoutMs").min(own).min(limits.max_run_duration_ms),
        loop_iterations: asked("maxLoopIterations").min(limits.max_loop_iterations),
        payload_bytes: limits.max_payload_bytes,
    }
}

impl Seed {
    /// What a child that `node` begins has above it.
    pub fn parent_of(&self, node: &str) -> Parent {
        let depth = self.parent.as_ref().map_or(0, |parent| parent.depth).saturating_add(1);
        Parent { run_id: self.run_id.clone(), node_id: node.to_owned(), depth }
    }

    /// Declared defaults, overlaid by the inputs.
    pub(crate) fn variables(&self, definition: &Definition) -> Values {
        let default =
            |v: &crate::definition::Variable| Some((v.name.clone(), v.default_value.clone()?));
        let mut variables: Values = definition.variables.iter().filter_map(default).collect();
        variables.extend(self.inputs.iter().map(|(name, value)| (name.clone(), value.clone())));
        variables
    }
}
