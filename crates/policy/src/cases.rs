//! Tables of cases: what policies should say about calls, written down and run.

use std::collections::{BTreeMap, BTreeSet};

use countersign_model::{CallFacts, Timestamp, ToolFacts, Verdict};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::policies::{DEFAULT_POLICY, Policies};
use crate::rule::Rule;
use crate::source::Source;

/// One file of cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// For readers.
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    sets: BTreeMap<String, Set>,
    cases: Vec<Case>,
}

/// A policy set that stands in the file itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    #[serde(default)]
    files: BTreeMap<String, Text>,
    #[serde(default)]
    rules: Vec<Rule>,
}

/// A text, or its lines.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Text {
    One(String),
    Lines(Vec<String>),
}

/// One call and what should be said about it. What is not given is not compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// A set of this file; without it and `when`, the policies that the cases are run against.
    #[serde(default)]
    set: Option<String>,
    /// Everything is permitted, and `invoke` forbidden when this condition holds.
    #[serde(default)]
    when: Option<String>,
    #[serde(default)]
    facts: Value,
    #[serde(default)]
    input: Option<Value>,
    decision: String,
    #[serde(default)]
    rules: Option<Vec<String>>,
    #[serde(default)]
    approvers: Option<u32>,
    #[serde(default)]
    expires_after_ms: Option<u64>,
    #[serde(default)]
    effects: Option<Vec<String>>,
}

/// What cases are run against.
#[derive(Debug, Default)]
pub struct Against<'a> {
    /// For cases that name no set of their own.
    pub policies: Option<&'a Policies>,
    /// Tools that cases may name by id alone.
    pub tools: BTreeMap<String, ToolFacts>,
}

/// How one case went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    pub name: String,
    /// What is not as written; nothing means that the case holds.
    pub failures: Vec<String>,
    /// None when it did not come to a decision.
    pub verdict: Option<Verdict>,
}

impl CaseFile {
    /// Whether some case needs policies from outside of the file.
    pub fn needs_policies(&self) -> bool {
        self.cases.iter().any(|case| case.set.is_none() && case.when.is_none())
    }

    /// Every case, in the order of the file.
    pub fn run(&self, against: &Against<'_>) -> Vec<CaseResult> {
        let sets: BTreeMap<_, _> =
            self.sets.iter().map(|(name, set)| (name.as_str(), set.compile())).collect();
        self.cases.iter().map(|case| case.run(&sets, against)).collect()
    }
}

type Sets<'a> = BTreeMap<&'a str, Result<Policies, String>>;

impl Set {
    fn compile(&self) -> Result<Policies, String> {
        let source =
            |(name, text): (&String, &Text)| Source { name: name.clone(), text: text.whole() };
        let sources: Vec<_> = self.files.iter().map(source).collect();
        compile(&sources, &self.rules)
    }
}

impl Text {
    fn whole(&self) -> String {
        match self {
            // So that a file of cases can ask what a fresh home would say.
            Text::One(text) if text == "DEFAULT_POLICY" => DEFAULT_POLICY.to_owned(),
            Text::One(text) => text.clone(),
            Text::Lines(lines) => lines.join("\n"),
        }
    }
}

fn compile(sources: &[Source], rules: &[Rule]) -> Result<Policies, String> {
    Policies::compile(sources, rules)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn forbid_when(condition: &str) -> Result<Policies, String> {
    let text = format!(
        "@id(\"base\") permit (principal, action, resource);\n@id(\"when\") forbid (principal, \
         action == Action::\"invoke\", resource) when {{ {condition} }};"
    );
    compile(&[Source { name: "a.cedar".to_owned(), text }], &[])
}

impl Case {
    fn run(&self, sets: &Sets<'_>, against: &Against<'_>) -> CaseResult {
        let name = self.name.clone();
        match self.decide(sets, against) {
            Ok(verdict) => {
                CaseResult { name, failures: self.compare(&verdict), verdict: Some(verdict) }
            }
            Err(why) => CaseResult { name, failures: vec![why], verdict: None },
        }
    }

    fn decide(&self, sets: &Sets<'_>, against: &Against<'_>) -> Result<Verdict, String> {
        let facts = case_facts(&self.facts, &against.tools)?;
        let input = self.input.clone().unwrap_or_else(|| json!({}));
        match (&self.set, &self.when) {
            (Some(_), Some(_)) => Err("it has both a set and a condition".to_owned()),
            (None, Some(condition)) => Ok(forbid_when(condition)?.decide(&facts, &input)),
            (Some(set), None) => match sets.get(set.as_str()) {
                Some(Ok(policies)) => Ok(policies.decide(&facts, &input)),
                Some(Err(why)) => Err(format!("the set `{set}` is not valid: {why}")),
                None => Err(format!("there is no set `{set}` in this file")),
            },
            (None, None) => match against.policies {
                Some(policies) => Ok(policies.decide(&facts, &input)),
                None => Err("there are no policies to run it against".to_owned()),
            },
        }
    }

    fn compare(&self, verdict: &Verdict) -> Vec<String> {
        let mut failures = Vec::new();
        let mut check = |what: &str, wanted: Option<Value>, found: Value| {
            if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
                failures.push(format!("{what} should be {wanted}, and is {found}"));
            }
        };
        check("the decision", Some(json!(self.decision)), json!(verdict.decision));
        check("the rules", self.rules.as_ref().map(|rules| json!(rules)), json!(verdict.rules()));
        let found: BTreeSet<String> = verdict.reasons.iter().map(|r| word(&r.effect)).collect();
        check("the effects", self.effects.as_ref().map(|effects| json!(effects)), json!(found));
        check("approvers", self.approvers.map(|n| json!(n)), json!(verdict.approvers));
        let expires = self.expires_after_ms.map(|n| json!(n));
        check("expires_after_ms", expires, json!(verdict.expires_after_ms));
        failures
    }
}

fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// A call of `file.write` by an agent, on a Monday in February, which touches nothing.
fn default_facts() -> Value {
    json!({
        "mode": "workspace_write",
        "principal": "agent:builder",
        "time": "2026-02-09T16:05:01Z",
        "tool": {
            "capabilities": ["filesystem.read", "filesystem.write"],
            "declaration": "a".repeat(64),
            "id": "file.write",
            "isolation": 0,
            "runtime": "builtin",
            "tier": "write",
            "version": "1.2.0",
        },
        "workspace": "/srv/app",
    })
}

/// The defaults with some of them replaced. `null` removes; `effects` are short texts such as
/// `filesystem.write /srv/app/a` and `every filesystem.read /srv/app/**`; `time` is RFC 3339.
pub fn case_facts(
    changes: &Value,
    tools: &BTreeMap<String, ToolFacts>,
) -> Result<CallFacts, String> {
    let mut facts = default_facts();
    let mut changes = changes.clone();
    if let Some(tool) = changes.get_mut("tool") {
        name_tool(tool, tools)?;
    }
    merge(&mut facts, &changes);
    let object = facts.as_object_mut().ok_or("the facts are no object")?;
    let time = object.get("time").and_then(Value::as_str).ok_or("`time` must be a text")?;
    let time: Timestamp = time.parse().map_err(|_| format!("`{time}` is not a time"))?;
    object.insert("time".to_owned(), json!(time.as_millis()));
    if let Some(effects) = object.get_mut("effects") {
        *effects = effects
            .as_array()
            .ok_or("`effects` must be a list")?
            .iter()
            .map(effect)
            .collect::<Result<_, _>>()?;
    }
    serde_json::from_value(facts).map_err(|error| format!("the facts are not valid: {error}"))
}

/// `tool = "file.write"` stands for everything that is known of the tool.
fn name_tool(tool: &mut Value, tools: &BTreeMap<String, ToolFacts>) -> Result<(), String> {
    let Some(id) = tool.as_str() else { return Ok(()) };
    let known = tools.get(id).ok_or_else(|| format!("there is no tool `{id}`"))?;
    let mut facts = serde_json::to_value(known).map_err(|error| error.to_string())?;
    // What the defaults have and this tool does not must go.
    if let Some(facts) = facts.as_object_mut() {
        facts.entry("files").or_insert(Value::Null);
    }
    *tool = facts;
    Ok(())
}

fn merge(into: &mut Value, changes: &Value) {
    let none = Map::new();
    let Some(into) = into.as_object_mut() else { return };
    for (name, change) in changes.as_object().unwrap_or(&none) {
        match (change, into.get_mut(name)) {
            (Value::Null, _) => drop(into.remove(name)),
            (Value::Object(_), Some(inner)) => merge(inner, change),
            _ => drop(into.insert(name.clone(), change.clone())),
        }
    }
}

/// `filesystem.write /srv/app/a`, or `every filesystem.read /srv/app/**`.
fn effect(text: &Value) -> Result<Value, String> {
    let text = text.as_str().ok_or("an effect must be a text")?;
    let rest = text.strip_prefix("every ");
    let parts = rest.unwrap_or(text).split_once(' ');
    let (capability, resource) =
        parts.ok_or_else(|| format!("`{text}` is no effect: write `filesystem.read /a/path`"))?;
    Ok(json!({"capability": capability, "resource": resource, "every": rest.is_some()}))
}
