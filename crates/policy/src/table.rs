//! The table of rules as Cedar. One row becomes one policy, or two where it asks.

use countersign_model::{Capability, HostPattern, Principal, Risk, ToolId};

use crate::glob::Glob;
use crate::notes::parse_duration;
use crate::problem::Problem;
use crate::quote::{quote, quote_all};
use crate::rule::{Conditions, Rule, RuleOutcome};

/// Where the table stands, for those who look for a row.
pub(crate) const TABLE_FILE: &str = "countersign.toml";

const INVOKE: &str = "action == Action::\"invoke\"";
const UNATTENDED: &str = "action == Action::\"invoke_unattended\"";
const BOTH: &str = "action in [Action::\"invoke\", Action::\"invoke_unattended\"]";

/// Readable Cedar that decides as the rows do, or everything that is wrong with them.
pub fn to_cedar(rules: &[Rule]) -> Result<String, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut texts = Vec::new();
    for rule in rules {
        match Row::read(rule) {
            Ok(row) => texts.push(row.policies()),
            Err(found) => problems.extend(
                found.into_iter().map(|p| p.in_file(TABLE_FILE).of_rule(&id_of(&rule.name))),
            ),
        }
    }
    if problems.is_empty() { Ok(texts.join("\n")) } else { Err(problems) }
}

pub(crate) fn id_of(name: &str) -> String {
    format!("rules/{name}")
}

/// Names of rules become parts of ids, on terminals and in addresses.
pub(crate) fn is_rule_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}

/// A row whose every part was understood.
struct Row<'a> {
    rule: &'a Rule,
    principal: String,
    resource: String,
    paths: Vec<Glob>,
    hosts: Vec<Host<'a>>,
}

struct Host<'a> {
    text: &'a str,
    pattern: HostPattern,
}

/// What a policy's conditions are for: to let pass, or to stop. Both fail closed, so they read the
/// same row differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    Permit,
    Forbid,
}

impl<'a> Row<'a> {
    fn read(rule: &'a Rule) -> Result<Row<'a>, Vec<Problem>> {
        let mut problems = flaws(rule);
        let mut text = |part: Result<String, Problem>| {
            part.map_err(|problem| problems.push(problem)).unwrap_or_default()
        };
        let principal = text(principal_scope(rule.principal.as_deref().unwrap_or("*")));
        let resource = text(resource_scope(&rule.tool));
        let paths = gather(rule.when.paths.iter().map(|glob| Glob::parse(glob)), &mut problems);
        let hosts = gather(rule.when.hosts.iter().map(|host| Host::parse(host)), &mut problems);
        let row = Row { rule, principal, resource, paths, hosts };
        if problems.is_empty() { Ok(row) } else { Err(problems) }
    }

    fn policies(&self) -> String {
        let name = &self.rule.name;
        match self.rule.outcome {
            RuleOutcome::Allow => self.policy(name, Aim::Permit, BOTH),
            RuleOutcome::Block => self.policy(name, Aim::Forbid, INVOKE),
            RuleOutcome::Ask => {
                let permit = self.policy(&format!("{name}.permit"), Aim::Permit, INVOKE);
                format!("{permit}\n{}", self.policy(name, Aim::Forbid, UNATTENDED))
            }
        }
    }

    fn policy(&self, id: &str, aim: Aim, action: &str) -> String {
        let effect = if aim == Aim::Permit { "permit" } else { "forbid" };
        let Row { principal, resource, .. } = self;
        let clauses = self.clauses(aim);
        let when = match clauses.is_empty() {
            true => String::new(),
            false => format!("\nwhen {{\n    {}\n}}", clauses.join(" &&\n    ")),
        };
        let notes = self.notes(id, aim);
        format!("{notes}{effect} ({principal}, {action}, {resource}){when};\n")
    }

    fn notes(&self, id: &str, aim: Aim) -> String {
        let rule = self.rule;
        let mut notes = format!("@id({})\n", quote(id));
        let mut note = |key: &str, value: &str| notes += &format!("@{key}({})\n", quote(value));
        rule.reason.iter().for_each(|reason| note("reason", reason));
        if aim == Aim::Forbid {
            rule.approvers.iter().for_each(|count| note("approvers", &count.to_string()));
            rule.expires.iter().for_each(|length| note("expires_after", length));
        }
        notes
    }

    fn clauses(&self, aim: Aim) -> Vec<String> {
        let Conditions { capabilities, max_risk, min_risk, modes, toolset, .. } = &self.rule.when;
        let mut clauses = Vec::new();
        if !modes.is_empty() {
            let names = quote_all(modes.iter().map(|mode| mode.as_str()));
            clauses.push(format!("{names}.contains(context.mode)"));
        }
        clauses.extend(toolset.iter().map(|toolset| {
            format!("context has toolset && context.toolset == {}", quote(toolset))
        }));
        clauses.extend(max_risk.map(|risk| format!("context.riskLevel <= {}", level(risk))));
        clauses.extend(min_risk.map(|risk| format!("context.riskLevel >= {}", level(risk))));
        if !capabilities.is_empty() {
            clauses.push(self.capability_clause(aim));
        }
        clauses.extend(self.effect_clause(aim));
        clauses
    }

    fn binds_effects(&self) -> bool {
        !self.paths.is_empty() || !self.hosts.is_empty()
    }

    fn capability_clause(&self, aim: Aim) -> String {
        let listed = &self.rule.when.capabilities;
        let names = quote_all(listed.iter().map(|capability| capability.as_str()));
        match aim {
            Aim::Permit => format!("{}.containsAll(resource.capabilities)", closure(listed)),
            Aim::Forbid if self.binds_effects() => {
                format!("context has capability && {names}.contains(context.capability)")
            }
            Aim::Forbid => format!("resource.capabilities.containsAny({names})"),
        }
    }

    /// What the row says about the one thing in question.
    fn effect_clause(&self, aim: Aim) -> Option<String> {
        let mut tests = Vec::new();
        tests.extend((aim == Aim::Permit).then(|| "!(context has capability)".to_owned()));
        if aim == Aim::Forbid {
            tests.extend((!self.paths.is_empty()).then(|| "context has pathPattern".to_owned()));
            tests.extend((!self.hosts.is_empty()).then(|| "context has hostPattern".to_owned()));
        }
        tests.extend(self.paths.iter().flat_map(|glob| path_tests(glob, aim)));
        tests.extend(self.hosts.iter().flat_map(|host| host.tests(aim)));
        self.binds_effects().then(|| format!("({})", tests.join(" ||\n     ")))
    }
}

fn path_tests(glob: &Glob, aim: Aim) -> Vec<String> {
    let (one, every) =
        if glob.absolute { ("path", "pathPattern") } else { ("relative", "relativePattern") };
    let mut tests = vec![glob.on(one)];
    match aim {
        Aim::Permit => tests.extend(glob.on_pattern(every)),
        // A name that may stand anywhere is also meant where there is no workspace.
        Aim::Forbid if glob.floating => {
            tests.push(format!("(!(context has relative) && {})", glob.on("path")));
        }
        Aim::Forbid => {}
    }
    tests
}

impl<'a> Host<'a> {
    fn parse(text: &'a str) -> Result<Host<'a>, Problem> {
        let pattern = text
            .parse()
            .map_err(|failure| Problem::from_failure("POLICY_HOST_INVALID", failure))?;
        Ok(Host { text, pattern })
    }

    fn tests(&self, aim: Aim) -> Vec<String> {
        let resource = self.pattern.resource();
        // A host's name has no wildcard but the first, so `like` says both.
        let like = |attribute: &str, pattern: &str| {
            format!("context has {attribute} && context.{attribute} like {}", quote(pattern))
        };
        if aim == Aim::Forbid && !self.text.contains(':') {
            return vec![
                format!("({})", like("host", &resource)),
                format!("({})", like("host", &format!("{resource}:*"))),
            ];
        }
        let over = quote(self.pattern.capability().as_str());
        let exact = |attribute: &str| {
            let like = like(attribute, &resource);
            format!("({like} && context has capability && context.capability == {over})")
        };
        match aim {
            Aim::Permit => vec![exact("host"), exact("hostPattern")],
            Aim::Forbid => vec![exact("host")],
        }
    }
}

fn gather<T>(
    parts: impl Iterator<Item = Result<T, Problem>>,
    problems: &mut Vec<Problem>,
) -> Vec<T> {
    parts.filter_map(|part| part.map_err(|problem| problems.push(problem)).ok()).collect()
}

/// What is wrong with a row apart from its patterns.
fn flaws(rule: &Rule) -> Vec<Problem> {
    let mut found = Vec::new();
    if !is_rule_name(&rule.name) {
        let message = format!("`{}` is not a name for a rule", rule.name);
        found.push(
            Problem::error("RULE_NAME_INVALID", message)
                .hint("use letters, digits and - _ . only, at most 64"),
        );
    }
    let asks = rule.outcome == RuleOutcome::Ask;
    if !asks && (rule.approvers.is_some() || rule.expires.is_some()) {
        let message = "only a rule that asks has approvers and an expiry";
        found.push(Problem::error("RULE_DOES_NOT_ASK", message).hint("write outcome = \"ask\""));
    }
    if rule.approvers.is_some_and(|count| !(1..=100).contains(&count)) {
        found.push(Problem::error("RULE_APPROVERS_INVALID", "approvers is from 1 to 100"));
    }
    found.extend(rule.expires.as_deref().and_then(|length| parse_duration(length).err()));
    found
}

fn principal_scope(pattern: &str) -> Result<String, Problem> {
    let kind = |kind: &str| match kind {
        "human" => Some("Human"),
        "agent" => Some("Agent"),
        "service" => Some("Service"),
        _ => None,
    };
    if pattern == "*" {
        return Ok("principal".to_owned());
    }
    if let Some(kind) = pattern.strip_suffix(":*").and_then(kind) {
        return Ok(format!("principal is {kind}"));
    }
    let exact = pattern.parse::<Principal>().ok().and_then(|principal| {
        let kind = kind(pattern.split(':').next()?)?;
        Some(format!("principal == {kind}::{}", quote(principal.name())))
    });
    exact.ok_or_else(|| {
        let message = format!("`{pattern}` does not name principals");
        Problem::error("RULE_PRINCIPAL_INVALID", message)
            .hint("write agent:NAME, agent:*, human:*, service:* or *")
    })
}

fn resource_scope(pattern: &str) -> Result<String, Problem> {
    if pattern == "*" {
        return Ok("resource".to_owned());
    }
    if let Some(family) = pattern.strip_suffix(".*").filter(|family| is_family(family)) {
        return Ok(format!("resource in Family::{}", quote(family)));
    }
    pattern.parse::<ToolId>().map(|id| format!("resource == Tool::{}", quote(id.as_str()))).map_err(
        |_| {
            let message = format!("`{pattern}` does not name tools");
            Problem::error("RULE_TOOL_INVALID", message)
                .hint("write a tool such as file.write, a family such as file.*, or *")
        },
    )
}

/// Whether a tool's id can start so.
fn is_family(family: &str) -> bool {
    format!("{family}.x").parse::<ToolId>().is_ok()
}

/// The capabilities and all that they require: who may write may read.
fn closure(listed: &[Capability]) -> String {
    let mut all: Vec<Capability> = listed.to_vec();
    all.extend(listed.iter().flat_map(|capability| capability.requires_all()));
    all.sort_unstable();
    all.dedup();
    quote_all(all.iter().map(|capability| capability.as_str()))
}

pub(crate) fn level(risk: Risk) -> i64 {
    match risk {
        Risk::Low => 0,
        Risk::Medium => 1,
        Risk::High => 2,
        Risk::Critical => 3,
    }
}
