//! The form of a workflow definition: every member, what it may hold, and nothing else.

use super::shape::{Field, Kind, SOME_TEXT, Shape, TEXT};
use crate::types::NodeKind;

const fn closed(fields: &'static [Field]) -> Shape {
    Shape { fields, closed: true, not_both: None }
}

const fn open(fields: &'static [Field]) -> Shape {
    Shape { fields, closed: false, not_both: None }
}

const fn list(item: &'static Kind) -> Kind {
    Kind::List { item, min: 0, max: usize::MAX, unique: false }
}

const fn at_least(min: f64) -> Kind {
    Kind::Whole { min, max: f64::INFINITY }
}

pub(super) const DEFINITION: Kind = Kind::Shape(&WORKFLOW);

static WORKFLOW: Shape = closed(&[
    Field("id", true, Kind::Word(is_id, "a lowercase id such as `build-and-test`")),
    Field("name", true, Kind::Text { min: 1, max: 256 }),
    Field("description", false, TEXT),
    Field("version", true, SOME_TEXT),
    Field("type", false, TEXT),
    Field("isActive", false, Kind::Bool),
    Field("status", false, Kind::OneOf(&["active", "inactive", "draft", "archived"])),
    Field("tenantId", false, TEXT),
    Field("scopeId", false, TEXT),
    Field("slug", false, Kind::Word(is_slug, "a slug such as `build-and-test`")),
    Field(
        "nodes",
        true,
        Kind::List { item: &Kind::Shape(&NODE), min: 1, max: usize::MAX, unique: false },
    ),
    Field("edges", true, list(&Kind::Shape(&EDGE))),
    Field("triggers", true, list(&Kind::Shape(&TRIGGER))),
    Field("variables", true, list(&Kind::Shape(&VARIABLE))),
    Field("groups", false, list(&Kind::Shape(&GROUP))),
    Field("channels", false, Kind::MapOf(&Kind::Shape(&CHANNEL))),
    Field("configurableSchema", false, Kind::Object),
    Field("defaults", false, Kind::Shape(&DEFAULTS)),
    Field("metadata", true, Kind::Shape(&METADATA)),
    Field("settings", true, Kind::Shape(&SETTINGS)),
    Field("acceptsInheritedArtifacts", false, list(&Kind::Object)),
    Field("createdAt", false, Kind::Moment),
    Field("updatedAt", false, Kind::Moment),
]);

static POINT: Shape = open(&[Field("x", true, Kind::Number), Field("y", true, Kind::Number)]);
static SIZE: Shape =
    open(&[Field("width", true, Kind::Number), Field("height", true, Kind::Number)]);

static NODE: Shape = closed(&[
    Field("id", true, SOME_TEXT),
    Field("typeId", true, Kind::Word(is_type_id, "a node type such as `core.noop`")),
    Field("name", true, SOME_TEXT),
    Field("position", true, Kind::Shape(&POINT)),
    Field("config", true, Kind::Object),
    Field("inputs", true, Kind::MapOf(&Kind::Tagged("type", PORTS))),
    Field("credentialsRef", false, TEXT),
    Field("settings", false, Kind::Object),
    Field("outputRole", false, Kind::OneOf(&["primary", "secondary"])),
    Field("disabled", false, Kind::Bool),
    Field("notes", false, TEXT),
    Field("groupId", false, TEXT),
    Field("agent", false, Kind::Shape(&AGENT)),
    Field("envelopeContract", false, Kind::Object),
    Field("artifactType", false, TEXT),
    Field("cardType", false, TEXT),
    Field("outputSensitivity", false, Kind::MapOf(&Kind::Bool)),
]);

static PORTS: &[(&str, &Shape)] = &[
    ("static", &closed(&[Field("type", true, TEXT), Field("value", true, Kind::Any)])),
    ("expression", &closed(&[Field("type", true, TEXT), Field("expression", true, SOME_TEXT)])),
    (
        "connection",
        &closed(&[
            Field("type", true, TEXT),
            Field("nodeId", true, SOME_TEXT),
            Field("outputKey", true, SOME_TEXT),
            Field("optional", false, Kind::Bool),
        ]),
    ),
    (
        "variable",
        &closed(&[
            Field("type", true, TEXT),
            Field("variableName", true, SOME_TEXT),
            Field("optional", false, Kind::Bool),
        ]),
    ),
];

static AGENT: Shape = Shape {
    fields: &[
        Field("agentId", true, Kind::Text { min: 3, max: 256 }),
        Field("name", false, Kind::Text { min: 0, max: 256 }),
        Field("modelClass", false, Kind::OneOf(MODEL_CLASSES)),
        Field("memoryRef", false, Kind::Text { min: 1, max: 256 }),
        Field("version", false, Kind::Text { min: 0, max: 64 }),
        Field("channel", false, Kind::Text { min: 1, max: 64 }),
        Field("sourceManifestId", false, Kind::Text { min: 0, max: 256 }),
    ],
    closed: true,
    not_both: Some(("version", "channel")),
};

const MODEL_CLASSES: &[&str] = &[
    "reasoning",
    "tool-using",
    "chat",
    "code",
    "vision",
    "multimodal",
    "embedding",
    "classification",
    "retrieval",
];

static EDGE: Shape = closed(&[
    Field("id", true, SOME_TEXT),
    Field("sourceNodeId", true, SOME_TEXT),
    Field("sourceOutput", false, TEXT),
    Field("targetNodeId", true, SOME_TEXT),
    Field("targetInput", false, TEXT),
    Field("condition", false, Kind::Shape(&CONDITION)),
    Field("label", false, TEXT),
    Field("triggerRule", false, Kind::OneOf(TRIGGER_RULES)),
]);

const TRIGGER_RULES: &[&str] =
    &["all_success", "any_success", "all_complete", "none_failed", "any_failed"];

static CONDITION: Shape = closed(&[
    Field("type", false, Kind::OneOf(&["expression", "equals", "notEquals", "contains", "regex"])),
    Field("left", false, TEXT),
    Field("right", false, Kind::Any),
    Field("expression", false, TEXT),
]);

static TRIGGER: Shape = closed(&[
    Field("id", true, SOME_TEXT),
    Field("type", true, Kind::OneOf(TRIGGERS)),
    Field("name", false, TEXT),
    Field("description", false, TEXT),
    Field("config", false, Kind::Object),
    Field("enabled", false, Kind::Bool),
    Field("nodeId", false, TEXT),
    Field("eventType", false, TEXT),
]);

const TRIGGERS: &[&str] = &[
    "manual",
    "schedule",
    "webhook",
    "event",
    "artifact",
    "canvas",
    "envelope",
    "command",
    "chat-message",
    "channel-write",
];

static VARIABLE: Shape = closed(&[
    Field("name", true, SOME_TEXT),
    Field("type", true, Kind::OneOf(&["string", "number", "boolean", "object", "array"])),
    Field("description", false, TEXT),
    Field("required", false, Kind::Bool),
    Field("defaultValue", false, Kind::Any),
    Field("sensitive", false, Kind::Bool),
]);

static GROUP: Shape = closed(&[
    Field("id", true, SOME_TEXT),
    Field("name", true, SOME_TEXT),
    Field("color", false, TEXT),
    Field("collapsed", false, Kind::Bool),
    Field("nodeIds", true, list(&TEXT)),
    Field("position", true, Kind::Shape(&POINT)),
    Field("size", true, Kind::Shape(&SIZE)),
]);

static CHANNEL: Shape = closed(&[
    Field("reducer", true, Kind::Word(is_reducer, "the name of a reducer")),
    Field("schema", false, Kind::Object),
    Field("default", false, Kind::Any),
    Field("maxSize", false, at_least(1.0)),
    Field("ttlMs", false, Kind::Whole { min: 1.0, max: 31_536_000_000.0 }),
    Field("options", false, Kind::Object),
    Field(
        "access",
        false,
        Kind::Either(&Kind::OneOf(&["public", "private"]), &Kind::Shape(&ACCESS)),
    ),
    Field("schemaVersion", false, at_least(1.0)),
    Field(
        "compatibleWith",
        false,
        Kind::List { item: &at_least(1.0), min: 0, max: usize::MAX, unique: true },
    ),
    Field("sensitive", false, Kind::Bool),
]);

const ACCESS_LIST: Kind = Kind::List {
    item: &Kind::Word(is_access_entry, "a node id, a type, or a type prefix with `*`"),
    min: 0,
    max: 256,
    unique: true,
};
static ACCESS: Shape =
    closed(&[Field("readers", false, ACCESS_LIST), Field("writers", false, ACCESS_LIST)]);

const PROMPT_REF: Kind = Kind::Either(
    &Kind::Word(is_prompt_ref, "a reference such as `prompt:greeting@1.0.0`"),
    &Kind::Shape(&PROMPT_OBJECT),
);
const PROMPT_WORD: Kind = Kind::Word(is_prompt_name, "a prompt id");
static PROMPT_OBJECT: Shape = closed(&[
    Field("libraryId", false, PROMPT_WORD),
    Field("templateId", true, PROMPT_WORD),
    Field("version", false, Kind::Word(is_prompt_version, "a version such as `1.0.0`")),
    Field("variableOverrides", false, Kind::Object),
]);
static PROMPT_REFS: Shape = closed(&[
    Field("system", false, PROMPT_REF),
    Field("user", false, PROMPT_REF),
    Field("few-shot", false, PROMPT_REF),
    Field("schema-hint", false, PROMPT_REF),
]);
static DEFAULTS: Shape = closed(&[Field("promptRefs", false, Kind::Shape(&PROMPT_REFS))]);

static METADATA: Shape = open(&[
    Field("createdBy", false, TEXT),
    Field("createdAt", false, Kind::Moment),
    Field("updatedBy", false, TEXT),
    Field("updatedAt", false, Kind::Moment),
    Field(
        "tags",
        false,
        Kind::List { item: &Kind::Text { min: 1, max: 256 }, min: 0, max: 100, unique: false },
    ),
    Field("category", false, TEXT),
    Field("author", false, TEXT),
    Field("codeVersion", false, TEXT),
    Field("customizedAt", false, Kind::Moment),
    Field("customizedBy", false, TEXT),
    Field("forkedFrom", false, TEXT),
    Field("clonedFrom", false, TEXT),
    Field("clonedAt", false, Kind::Moment),
    Field("customProperties", false, Kind::Object),
    Field("complianceClass", false, Kind::OneOf(&["public", "pii", "phi", "pci", "regulated"])),
    Field("complianceConfig", false, Kind::Shape(&COMPLIANCE)),
]);
static COMPLIANCE: Shape =
    open(&[Field("maskingMode", false, Kind::OneOf(&["mask", "omit", "hash", "passthrough"]))]);

static SETTINGS: Shape = open(&[
    Field("timeout", false, at_least(0.0)),
    Field("maxRetries", false, at_least(0.0)),
    Field("logLevel", false, Kind::OneOf(&["debug", "info", "warn", "error"])),
    Field("maxLoopbackIterations", false, at_least(1.0)),
]);

/// What must fit in the configuration of a node, so that what it asks people fits the contract.
pub(super) fn config(kind: NodeKind) -> Option<&'static Shape> {
    match kind {
        NodeKind::Approval => Some(&APPROVAL),
        NodeKind::Clarification => Some(&CLARIFICATION),
        NodeKind::Interrupt => Some(&INTERRUPT),
        NodeKind::Supervisor => Some(&SUPERVISOR),
        NodeKind::MockAgent => Some(&MOCK_AGENT),
        _ => None,
    }
}

const KEY: Field = Field("key", false, Kind::Text { min: 1, max: 256 });
const ACTIONS: Kind = Kind::List {
    item: &Kind::OneOf(&["accept", "reject", "refine", "edit-accept", "ask"]),
    min: 1,
    max: 5,
    unique: true,
};
static APPROVAL: Shape = open(&[
    KEY,
    Field("title", false, TEXT),
    Field("description", false, TEXT),
    Field("artifactId", false, SOME_TEXT),
    Field("actions", false, ACTIONS),
    Field("requiredApprovals", false, at_least(1.0)),
    Field("quorum", false, at_least(1.0)),
    Field("approversList", false, list(&TEXT)),
    Field("rejectionPolicy", false, Kind::OneOf(&["single-veto", "majority"])),
    Field("requiredRole", false, SOME_TEXT),
    Field("requiredScope", false, SOME_TEXT),
    Field("override", false, Kind::Object),
    Field("timeoutMs", false, at_least(0.0)),
]);

static QUESTION: Shape = closed(&[
    Field("id", true, SOME_TEXT),
    Field("question", true, SOME_TEXT),
    Field("schema", false, Kind::Object),
]);
const QUESTIONS: Kind =
    Kind::List { item: &Kind::Shape(&QUESTION), min: 1, max: 100, unique: false };
static CLARIFICATION: Shape =
    open(&[KEY, Field("questions", true, QUESTIONS), Field("timeoutMs", false, at_least(0.0))]);

static INTERRUPT: Shape = open(&[
    KEY,
    Field("kind", true, Kind::OneOf(&["external-event", "approval", "clarification", "custom"])),
    Field("data", true, Kind::Object),
    Field("timeoutMs", false, at_least(0.0)),
]);

/// What `data` of an interrupt holds, by its kind.
pub(super) fn interrupt_data(kind: &str) -> Option<&'static Shape> {
    match kind {
        "external-event" => Some(&EXTERNAL),
        "approval" => Some(&APPROVAL_DATA),
        "clarification" => Some(&CLARIFICATION_DATA),
        "custom" => Some(&CUSTOM),
        _ => None,
    }
}

static EXTERNAL: Shape =
    closed(&[Field("eventType", true, TEXT), Field("correlation", true, Kind::Object)]);
static CUSTOM: Shape =
    closed(&[Field("customKind", true, SOME_TEXT), Field("payload", false, Kind::Any)]);
static CLARIFICATION_DATA: Shape =
    closed(&[Field("questions", true, QUESTIONS), Field("contextType", false, TEXT)]);
static APPROVAL_DATA: Shape = closed(&[
    Field("artifactId", true, SOME_TEXT),
    Field("artifactType", true, SOME_TEXT),
    Field("title", true, SOME_TEXT),
    Field("description", false, TEXT),
    Field("artifactData", false, Kind::Any),
    Field("actions", true, ACTIONS),
    Field("requiredApprovals", false, at_least(1.0)),
    Field("approversList", false, list(&TEXT)),
    Field("rejectionPolicy", false, Kind::OneOf(&["single-veto", "majority"])),
    Field("profile", false, TEXT),
]);

const CONFIDENCE: Kind = Kind::Between(0.0, 1.0);
static DECISIONS: &[(&str, &Shape)] = &[
    (
        "next-worker",
        &closed(&[
            Field("kind", true, TEXT),
            Field(
                "nextWorkerIds",
                true,
                Kind::List {
                    item: &Kind::Text { min: 1, max: 256 },
                    min: 1,
                    max: 100,
                    unique: false,
                },
            ),
            Field("confidence", false, CONFIDENCE),
        ]),
    ),
    ("ask-user", &closed(&[Field("kind", true, TEXT), Field("prompt", true, SOME_TEXT)])),
    (
        "terminate",
        &closed(&[
            Field("kind", true, TEXT),
            Field("reason", false, SOME_TEXT),
            Field("confidence", false, CONFIDENCE),
        ]),
    ),
];
const DECISION: Kind = Kind::Tagged("kind", DECISIONS);
static SUPERVISOR: Shape = open(&[
    KEY,
    Field("mockDispatchPlan", false, list(&DECISION)),
    Field("mockDecisions", false, list(&DECISION)),
    Field("mockPendingDecision", false, DECISION),
    Field("mockConfidence", false, CONFIDENCE),
]);

const AGENT_ID: Kind = Kind::Text { min: 3, max: 256 };
static TOOL_CALL: Shape = open(&[Field("toolId", true, SOME_TEXT)]);
static HANDOFF: Shape = open(&[Field("toAgentId", true, AGENT_ID), Field("reason", false, TEXT)]);
static DECIDED: Shape =
    open(&[Field("decision", true, Kind::Any), Field("confidence", false, CONFIDENCE)]);
static MOCK_AGENT: Shape = open(&[
    KEY,
    Field("agentId", false, AGENT_ID),
    Field("mockToolCalls", false, list(&Kind::Shape(&TOOL_CALL))),
    Field("mockHandoff", false, Kind::Shape(&HANDOFF)),
    Field("mockDecision", false, Kind::Shape(&DECIDED)),
    Field("mockConfidence", false, CONFIDENCE),
]);

fn starts(text: &str, first: fn(char) -> bool, rest: fn(char) -> bool) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(first) && letters.all(rest)
}

fn lower(letter: char) -> bool {
    letter.is_ascii_lowercase()
}

fn lower_or_digit(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit()
}

fn id_letter(letter: char) -> bool {
    lower_or_digit(letter) || matches!(letter, '_' | '-')
}

fn type_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-')
}

fn is_id(text: &str) -> bool {
    text.len() <= 128 && starts(text, lower, id_letter)
}

fn is_slug(text: &str) -> bool {
    starts(text, lower_or_digit, id_letter)
}

fn is_type_id(text: &str) -> bool {
    starts(text, lower, type_letter)
}

fn is_reducer(text: &str) -> bool {
    let known = ["replace", "append", "merge", "counter", "votes", "feedback", "message"];
    known.contains(&text) || {
        let parts: Vec<_> = text.split('.').collect();
        matches!(parts.as_slice(), ["vendor", org, name]
            if starts(org, lower, id_letter) && starts(name, lower, id_letter))
    }
}

fn is_access_entry(text: &str) -> bool {
    text == "*"
        || (text.chars().count() <= 256
            && starts(text.strip_suffix('*').unwrap_or(text), lower, type_letter))
}

fn is_prompt_name(text: &str) -> bool {
    let rest = |letter| lower_or_digit(letter) || matches!(letter, '.' | '_' | '-');
    text.len() <= 128 && starts(text, lower_or_digit, rest)
}

/// Three numbers, then perhaps `-pre` and `+build`.
fn is_prompt_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(t, b)| (t, Some(b)));
    let (core, pre) = text.split_once('-').map_or((text, None), |(t, p)| (t, Some(p)));
    let tail = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-');
    let numbers: Vec<_> = core.split('.').collect();
    numbers.len() == 3
        && numbers.iter().all(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
        && [build, pre].into_iter().flatten().all(|t| !t.is_empty() && t.chars().all(tail))
}

fn is_prompt_ref(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("prompt:") else { return false };
    match rest.split_once('@') {
        Some((name, version)) => is_prompt_name(name) && is_prompt_version(version),
        None => is_prompt_name(rest),
    }
}
