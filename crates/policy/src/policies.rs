//! A policy set: compiled once, then only asked.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use cedar_policy::{PolicySet, Schema, ValidationMode, Validator};
use countersign_model::digest::canonical_json;
use countersign_model::{CallFacts, Digest, Question, RuleEffect, Timestamp, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::index::Index;
use crate::lint::{self, Known};
use crate::names::Names;
use crate::problem::{Problem, Severity};
use crate::rule::Rule;
use crate::source::{Entry, Origin, Source};
use crate::table::{TABLE_FILE, to_cedar};

/// The schema that every policy is checked against.
pub const SCHEMA: &str = include_str!("countersign.cedarschema");

/// Parsed once: homes read their policies again and again.
static PARSED: LazyLock<Result<Schema, String>> = LazyLock::new(|| {
    let parsed = Schema::from_cedarschema_str(SCHEMA);
    parsed.map(|(schema, _)| schema).map_err(|error| format!("the schema is broken: {error}"))
});

/// What a fresh home gets as `default.cedar`.
pub const DEFAULT_POLICY: &str = include_str!("default.cedar");

/// Frozen: whoever wants other rules compiles another set.
#[derive(Debug)]
pub struct Policies {
    sources: Vec<Source>,
    /// Sorted by name.
    rows: Vec<Rule>,
    digest: Digest,
    /// Sorted by id.
    pub(crate) entries: Vec<Entry>,
    by_id: HashMap<String, usize>,
    pub(crate) names: Names,
    pub(crate) index: Index,
    /// What Cedar's validator warned of.
    warnings: Vec<Problem>,
}

/// One rule, for those who look at the set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleInfo {
    pub annotations: BTreeMap<String, String>,
    pub effect: RuleEffect,
    pub file: String,
    pub id: String,
    /// None for a row of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub questions: Vec<Question>,
    pub text: String,
}

impl Policies {
    /// Reads files and rows, or says everything that is wrong with them.
    pub fn compile(sources: &[Source], rules: &[Rule]) -> Result<Policies, Vec<Problem>> {
        let internal = |what: &str| vec![Problem::error("POLICY_INTERNAL", what)];
        let names = Names::parse().map_err(|_| internal("the names of entities do not parse"))?;
        let mut entries = read(sources, rules, &names)?;
        entries.sort_by(|a, b| a.id.cmp(&b.id));
        let repeated = repeated(&entries);
        if !repeated.is_empty() {
            return Err(repeated);
        }
        let warnings = validate(&entries, sources)?;
        let index = Index::build(&entries)?;
        let by_id = entries.iter().enumerate().map(|(at, e)| (e.id.clone(), at)).collect();
        let (sources, rows) = sorted(sources, rules);
        let document = document(&sources, &rows).ok_or_else(|| internal("no canonical form"))?;
        let digest = Digest::of(&document);
        Ok(Policies { sources, rows, digest, entries, by_id, names, index, warnings })
    }

    /// What the set is known by: the same files and rows, in any order, have the same digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The whole set as canonical JSON, from which it can be read again. The digest is the digest
    /// of these bytes, so whoever keeps them can show what decided.
    pub fn to_document(&self) -> Vec<u8> {
        // It had a canonical form when it was compiled, and is frozen since.
        document(&self.sources, &self.rows).unwrap_or_default()
    }

    /// Reads a set that was kept as [`to_document`](Self::to_document) makes it.
    pub fn from_document(bytes: &[u8]) -> Result<Policies, Vec<Problem>> {
        let document: Document = serde_json::from_slice(bytes)
            .map_err(|error| vec![Problem::error("POLICY_DOCUMENT", error.to_string())])?;
        Policies::compile(&document.sources, &document.rules)
    }

    /// Pure and total: what cannot be decided is blocked.
    pub fn decide(&self, facts: &CallFacts, input: &Value) -> Verdict {
        crate::decide::decide(self, facts, input)
    }

    /// Rules that can never match, and other things that their authors cannot have meant.
    pub fn lint(&self, known: &Known) -> Vec<Problem> {
        let mut found = self.warnings.clone();
        found.extend(lint::lint(&self.entries, known));
        found.sort();
        // A rule that never matches is found by both checks of Cedar.
        let never = |problem: &Problem| problem.code == lint::NEVER_MATCHES;
        found.dedup_by(|a, b| never(a) && never(b) && a.rule == b.rule);
        found
    }

    /// Rules whose @until has passed: they count no more.
    pub fn expired(&self, now: Timestamp) -> Vec<Problem> {
        lint::expired(&self.entries, now)
    }

    /// Sorted by id.
    pub fn rules(&self) -> impl Iterator<Item = RuleInfo> {
        self.entries.iter().map(info)
    }

    /// The rows of the table, sorted by name.
    pub fn rows(&self) -> &[Rule] {
        &self.rows
    }

    /// The files as they were given, sorted by name.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    pub(crate) fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.get(*self.by_id.get(id)?)
    }
}

fn info(entry: &Entry) -> RuleInfo {
    RuleInfo {
        annotations: entry.annotations(),
        effect: if entry.is_permit() { RuleEffect::Permit } else { RuleEffect::Forbid },
        file: entry.file.clone(),
        id: entry.id.clone(),
        line: entry.line(),
        questions: entry.questions.clone(),
        text: entry.text.clone(),
    }
}

fn sorted(sources: &[Source], rules: &[Rule]) -> (Vec<Source>, Vec<Rule>) {
    let (mut sources, mut rules) = (sources.to_vec(), rules.to_vec());
    sources.sort();
    rules.sort_by(|a, b| a.name.cmp(&b.name));
    (sources, rules)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[expect(dead_code, reason = "there is one format so far")]
    format: u32,
    rules: Vec<Rule>,
    sources: Vec<Source>,
}

/// The contract: canonical JSON of the files sorted by name and the rows sorted by name.
fn document(sources: &[Source], rules: &[Rule]) -> Option<Vec<u8>> {
    canonical_json(&serde_json::json!({"format": 1, "rules": rules, "sources": sources})).ok()
}

fn read(sources: &[Source], rules: &[Rule], names: &Names) -> Result<Vec<Entry>, Vec<Problem>> {
    let (mut entries, mut problems) = (Vec::new(), files_twice(sources));
    let mut take = |read: Result<Vec<Entry>, Vec<Problem>>| match read {
        Ok(read) => entries.extend(read),
        Err(found) => problems.extend(found),
    };
    for source in sources {
        take(Origin::of(source).map_err(|p| vec![p]).and_then(|origin| origin.entries(names)));
    }
    take(
        to_cedar(rules).and_then(|text| {
            Origin { file: TABLE_FILE, stem: "rules", text: &text }.entries(names)
        }),
    );
    problems.sort();
    if problems.is_empty() { Ok(entries) } else { Err(problems) }
}

fn files_twice(sources: &[Source]) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let twice = sources.iter().filter(|source| !seen.insert(&source.name));
    twice
        .map(|source| {
            let message = format!("`{}` is given twice", source.name);
            Problem::error("POLICY_FILE_TWICE", message).in_file(&source.name)
        })
        .collect()
}

/// Two rules with one id could not be told apart in a verdict.
fn repeated(sorted: &[Entry]) -> Vec<Problem> {
    let pairs = sorted.iter().zip(sorted.iter().skip(1)).filter(|(a, b)| a.id == b.id);
    pairs
        .map(|(first, second)| {
            let message = format!("the id `{}` is taken", second.id);
            second.blame(Problem::error("POLICY_ID_TWICE", message).hint(match first.line() {
                Some(line) => format!("see line {line} of {}", first.file),
                None => format!("see the rules in {}", first.file),
            }))
        })
        .collect()
}

/// Strictly against the schema; answers with the warnings.
fn validate(entries: &[Entry], sources: &[Source]) -> Result<Vec<Problem>, Vec<Problem>> {
    let internal = |what: String| vec![Problem::error("POLICY_INTERNAL", what)];
    let schema = PARSED.clone().map_err(internal)?;
    let set = PolicySet::from_policies(entries.iter().map(|entry| entry.policy.clone()))
        .map_err(|error| internal(error.to_string()))?;
    let result = Validator::new(schema).validate(&set, ValidationMode::Strict);
    let place = Placer { entries, sources };
    let mut errors: Vec<_> = result
        .validation_errors()
        .map(|error| place.blame(error.policy_id().as_ref(), "POLICY_INVALID", error))
        .collect();
    if !errors.is_empty() {
        // Cedar finds the same flaw once for each question.
        errors.sort();
        errors.dedup_by(|a, b| {
            (a.code, &a.rule, a.line, a.column) == (b.code, &b.rule, b.line, b.column)
        });
        return Err(errors);
    }
    let warnings = result.validation_warnings().map(|warning| {
        let problem = place.blame(warning.policy_id().as_ref(), lint::code_of(warning), warning);
        Problem { severity: Severity::Warning, ..problem }
    });
    Ok(warnings.collect())
}

struct Placer<'a> {
    entries: &'a [Entry],
    sources: &'a [Source],
}

impl Placer<'_> {
    fn blame(&self, id: &str, code: &'static str, finding: &dyn miette::Diagnostic) -> Problem {
        let at = self.entries.binary_search_by(|entry| entry.id.as_str().cmp(id)).ok();
        let Some(entry) = at.and_then(|at| self.entries.get(at)) else {
            return Problem::error(code, finding.to_string());
        };
        let text = self.sources.iter().find(|source| source.name == entry.file);
        let text = text.map_or("", |source| source.text.as_str());
        let problem = Problem::found(code, finding, text);
        // Cedar names the rule in front of what it says; the problem has a field for that.
        let prefix = format!("for policy `{id}`, ");
        let message = problem.message.strip_prefix(&prefix).unwrap_or(&problem.message).to_owned();
        entry.blame(Problem { message, ..problem })
    }
}
