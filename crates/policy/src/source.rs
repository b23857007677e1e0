//! Texts to rules: parsing, naming, and every problem at once.

use std::collections::BTreeMap;

use cedar_policy::{ActionConstraint, Effect, EntityUid, Policy, PolicyId, PolicySet};
use countersign_model::Question;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::names::Names;
use crate::notes::Notes;
use crate::problem::{Lines, Place, Problem};
use crate::table::{TABLE_FILE, is_rule_name};

/// One policy file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The name of the file, such as `default.cedar`.
    pub name: String,
    pub text: String,
}

/// One rule, ready to be asked.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) file: String,
    pub(crate) place: Place,
    pub(crate) text: String,
    pub(crate) notes: Notes,
    pub(crate) questions: Vec<Question>,
    pub(crate) policy: Policy,
}

impl Entry {
    pub(crate) fn is_permit(&self) -> bool {
        self.policy.effect() == Effect::Permit
    }

    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        self.policy.annotations().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    /// None for a row of the table, whose Cedar stands nowhere.
    pub(crate) fn line(&self) -> Option<u32> {
        (self.file != TABLE_FILE).then_some(self.place.line)
    }

    /// A finding about this rule, at its place.
    pub(crate) fn blame(&self, mut problem: Problem) -> Problem {
        if self.line().is_none() {
            (problem.line, problem.column) = (None, None);
        } else if problem.line.is_none() {
            problem = problem.at(self.place);
        }
        problem.in_file(&self.file).of_rule(&self.id)
    }
}

/// Where rules come from: a file's name, its short name in ids, and its text.
pub(crate) struct Origin<'a> {
    pub(crate) file: &'a str,
    pub(crate) stem: &'a str,
    pub(crate) text: &'a str,
}

/// Stems that ids of other rules start with.
const RESERVED: [&str; 2] = ["rules", "builtin"];

impl<'a> Origin<'a> {
    pub(crate) fn of(source: &'a Source) -> Result<Origin<'a>, Problem> {
        let Source { name, text } = source;
        let stem = name.strip_suffix(".cedar").unwrap_or(name);
        if !is_rule_name(stem) || RESERVED.contains(&stem) {
            let message = format!("`{name}` cannot be the name of a policy file");
            return Err(Problem::error("POLICY_FILE_NAME", message)
                .hint("use letters, digits and - _ . only; rules and builtin are taken")
                .in_file(name));
        }
        Ok(Origin { file: name, stem, text })
    }

    pub(crate) fn entries(&self, names: &Names) -> Result<Vec<Entry>, Vec<Problem>> {
        let set: PolicySet = self.text.parse().map_err(|errors: cedar_policy::ParseErrors| {
            errors.iter().map(|error| self.syntax(error)).collect::<Vec<_>>()
        })?;
        let mut problems: Vec<_> =
            set.templates().map(|template| self.template(template)).collect();
        let mut entries = Vec::new();
        let lines = Lines::of(self.text);
        for policy in set.policies() {
            match self.entry(policy, &lines, names) {
                Ok(entry) => entries.push(entry),
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(entries) } else { Err(problems) }
    }

    fn syntax(&self, error: &cedar_policy::ParseError) -> Problem {
        let problem = Problem::found("POLICY_SYNTAX", error, self.text).in_file(self.file);
        match problem.hint {
            Some(_) => problem,
            None => {
                problem.hint("a rule reads: permit (principal, action, resource) when { ... };")
            }
        }
    }

    fn template(&self, template: &cedar_policy::Template) -> Problem {
        let name = template.annotation("id").unwrap_or("a rule");
        let message = format!("`{name}` is a template: it leaves a principal or resource open");
        Problem::error("POLICY_TEMPLATE", message)
            .hint("name the principal and the resource in place of ?principal and ?resource")
            .in_file(self.file)
    }

    fn entry(
        &self,
        policy: &Policy,
        lines: &Lines<'_>,
        names: &Names,
    ) -> Result<Entry, Vec<Problem>> {
        let offset = policy.as_ref().loc().map_or(0, |loc| loc.start());
        let place = lines.place(offset);
        let blame = |problem: Problem| problem.at(place).in_file(self.file);
        let id = self.id(policy, place).map_err(|problem| vec![blame(problem)])?;
        let notes = Notes::read(policy).map_err(|found| {
            found.into_iter().map(|problem| blame(problem).of_rule(&id)).collect::<Vec<_>>()
        })?;
        let text = policy.to_cedar().unwrap_or_else(|| policy.to_string());
        let policy = policy.new_id(PolicyId::new(&id));
        let questions = questions(&policy.action_constraint(), names);
        let file = self.file.to_owned();
        Ok(Entry { id, file, place, text, notes, questions, policy })
    }

    fn id(&self, policy: &Policy, place: Place) -> Result<String, Problem> {
        match policy.annotation("id") {
            Some(id) if is_rule_name(id) => Ok(format!("{}/{id}", self.stem)),
            Some(id) => Err(Problem::error(
                "POLICY_ID_INVALID",
                format!("`{id}` cannot be the id of a rule"),
            )
            .hint("use letters, digits and - _ . only, at most 64")),
            None => Ok(format!("{}/line-{}", self.stem, place.line)),
        }
    }
}

fn questions(constraint: &ActionConstraint, names: &Names) -> Vec<Question> {
    let both = [Question::Invoke, Question::InvokeUnattended];
    let named = |uid: &EntityUid| match constraint {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(one) => one == uid,
        ActionConstraint::In(several) => several.contains(uid),
    };
    both.into_iter().filter(|question| named(names.action(*question))).collect()
}

/// The rule as it is asked. What its author limited in time carries the limit as a condition, so
/// that no path through a decision can forget it.
pub(crate) fn limited(entry: &Entry) -> Result<Policy, Problem> {
    let Some(until) = entry.notes.until else { return Ok(entry.policy.clone()) };
    let failed = || entry.blame(Problem::error("POLICY_UNTIL_INVALID", "@until cannot be applied"));
    let mut json = entry.policy.to_json().map_err(|_| failed())?;
    let conditions = json.get_mut("conditions").and_then(Value::as_array_mut);
    conditions.ok_or_else(failed)?.push(before(until.as_millis().div_euclid(1000)));
    Policy::from_json(Some(PolicyId::new(&entry.id)), json).map_err(|_| failed())
}

/// `when { context.time.unix < moment }`
fn before(moment: i64) -> Value {
    let time = json!({".": {"left": {"Var": "context"}, "attr": "time"}});
    let unix = json!({".": {"left": time, "attr": "unix"}});
    json!({"kind": "when", "body": {"<": {"left": unix, "right": {"Value": moment}}}})
}
