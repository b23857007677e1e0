//! A human's answer as a rule: as narrow as the call it was given to, and no longer than they say.

use countersign_model::principal::PrincipalKind;
use countersign_model::{
    CallFacts, Decision, Digest, ExecutionId, Need, Principal, Question, RuleEffect, Timestamp,
};
use serde_json::Value;

use crate::effect::attribute;
use crate::policies::{Policies, RuleInfo};
use crate::quote::{quote, quote_all};
use crate::source::Source;

/// Longer inputs are cut in the example: nobody reads them. The rule binds all of the input.
const LONGEST: usize = 200;

/// What to remember.
#[derive(Debug, Clone)]
pub struct Memory<'a> {
    pub facts: &'a CallFacts,
    pub input: &'a Value,
    pub execution: ExecutionId,
    pub by: &'a Principal,
    pub until: Timestamp,
}

impl Memory<'_> {
    /// A rule that permits this call again, unattended, and next to nothing else.
    pub fn to_cedar(&self, id: &str) -> String {
        let notes = [
            ("id", id.to_owned()),
            ("remembered", self.execution.to_string()),
            ("by", self.by.to_string()),
            ("until", self.until.to_string()),
            ("example", self.example()),
            ("near_miss", self.near_miss_text()),
        ];
        let notes: String =
            notes.iter().map(|(name, value)| format!("@{name}({})\n", quote(value))).collect();
        let facts = self.facts;
        let kind = match facts.principal.kind() {
            PrincipalKind::Human => "Human",
            PrincipalKind::Agent => "Agent",
            PrincipalKind::Service => "Service",
        };
        let (name, tool) = (quote(facts.principal.name()), quote(facts.tool.id.as_str()));
        let clauses = self.clauses().join(" &&\n    ");
        format!(
            "{notes}permit (\n    principal == {kind}::{name},\n    \
             action == Action::\"invoke_unattended\",\n    resource == Tool::{tool}\n)\n\
             when {{\n    {clauses}\n}};\n"
        )
    }

    /// Everything that can be bound is: whoever wants it wider says so.
    fn clauses(&self) -> Vec<String> {
        let facts = self.facts;
        let tool = &facts.tool;
        let mut clauses = vec![
            format!("resource.declaration == {}", quote(&tool.declaration.to_string())),
            format!("context.mode == {}", quote(facts.mode.as_str())),
        ];
        clauses.push(match tool.files {
            Some(files) => {
                format!("resource has files && resource.files == {}", quote(&files.to_string()))
            }
            None => "!(resource has files)".to_owned(),
        });
        let asked: Vec<String> =
            facts.chain.iter().chain([&facts.principal]).map(ToString::to_string).collect();
        clauses.push(format!("context.asked == {}", quote_all(asked.iter().map(String::as_str))));
        clauses.push(optional("toolset", facts.toolset.as_deref()));
        clauses.push(optional("workspace", facts.workspace.as_deref()));
        clauses.extend(self.effects());
        // Without a digest nothing is equal to this, and the rule permits nothing.
        let input = Digest::of_json(self.input).map(|digest| digest.to_string());
        clauses.push(format!("context.input == {}", quote(&input.unwrap_or_default())));
        clauses
    }

    /// The things that the call touched, each by its exact name.
    fn effects(&self) -> Option<String> {
        let mut tests: Vec<String> = Vec::new();
        for need in &self.facts.effects {
            let name = attribute(need);
            let test = format!(
                "(context has {name} && context.{name} == {} && context has capability && \
                 context.capability == {})",
                quote(&need.resource),
                quote(need.capability.as_str())
            );
            if !tests.contains(&test) {
                tests.push(test);
            }
        }
        (!tests.is_empty()).then(|| format!("({})", tests.join(" ||\n     ")))
    }

    fn example(&self) -> String {
        let input = self.input.to_string();
        let shown: String = input.chars().take(LONGEST).collect();
        format!("{} by {} with {shown}", self.facts.tool.id, self.facts.principal)
    }

    fn near_miss_text(&self) -> String {
        match self.facts.effects.first() {
            Some(need) => format!("the same with {} on {}", need.capability, other(&need.resource)),
            None => format!("the same by {}", self.stranger()),
        }
    }

    fn stranger(&self) -> String {
        other(&self.facts.principal.to_string())
    }

    /// A call that looks much like this one, and that the rule must not permit.
    fn near_miss(&self) -> Option<CallFacts> {
        let mut facts = self.facts.clone();
        match facts.effects.first_mut() {
            Some(Need { resource, .. }) => *resource = other(resource),
            None => facts.principal = self.stranger().parse().ok()?,
        }
        Some(facts)
    }

    /// Whether a rule is one that may be kept: one permit of unattended calls, with an end, that
    /// permits the example and not the near miss. Its text may have been edited.
    pub fn is_kept_by(&self, rule: &Source) -> Result<bool, Vec<crate::Problem>> {
        // By itself such a rule permits nothing: what may run at all is for other rules to say.
        let all = "permit (principal, action == Action::\"invoke\", resource);".to_owned();
        let base = Source { name: "everything.cedar".to_owned(), text: all };
        let policies = Policies::compile(&[base, rule.clone()], &[])?;
        let mut own = policies.rules().filter(|one| one.file == rule.name);
        let is_one = own.next().is_some_and(|one| self.is_in_form(&one)) && own.next().is_none();
        let allows =
            |facts: &CallFacts| policies.decide(facts, self.input).decision == Decision::Allow;
        let near = self.near_miss();
        Ok(is_one && allows(self.facts) && near.is_some_and(|near| !allows(&near)))
    }

    fn is_in_form(&self, rule: &RuleInfo) -> bool {
        let until = rule.annotations.get("until").and_then(|text| text.parse::<Timestamp>().ok());
        rule.effect == RuleEffect::Permit
            && rule.questions == [Question::InvokeUnattended]
            && rule.annotations.contains_key("remembered")
            && until.is_some_and(|until| until <= self.until)
    }
}

/// An attribute of the call that is what it was, or still absent.
fn optional(name: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("context has {name} && context.{name} == {}", quote(value)),
        None => format!("!(context has {name})"),
    }
}

fn other(name: &str) -> String {
    format!("{name}-other")
}

#[cfg(test)]
mod tests {
    use countersign_model::{Capability, RuntimeKind, SafetyTier, SandboxMode, ToolFacts};
    use serde_json::json;

    use super::*;

    fn facts() -> CallFacts {
        CallFacts {
            chain: Vec::new(),
            effects: vec![
                Need::one(Capability::FilesystemRead, "/srv/app/a \"b\".txt"),
                Need::one(Capability::FilesystemDelete, "/srv/app/a \"b\".txt"),
            ],
            hosts: Vec::new(),
            mode: SandboxMode::WorkspaceWrite,
            people: 0,
            principal: "agent:x".parse().unwrap(),
            time: Timestamp::from_millis(1_800_000_000_000),
            tool: ToolFacts {
                capabilities: vec![Capability::FilesystemRead, Capability::FilesystemDelete],
                declaration: Digest::of(b"d"),
                files: None,
                id: "file.delete".parse().unwrap(),
                isolation: 0,
                runtime: RuntimeKind::Builtin,
                tier: SafetyTier::Write,
                version: "1.0.0".parse().unwrap(),
            },
            toolset: None,
            workspace: Some("/srv/app".to_owned()),
        }
    }

    const ASK: &str = "@id(\"ask\") forbid (principal, action == Action::\"invoke_unattended\", \
                       resource); permit (principal, action, resource);";

    fn memory<'a>(facts: &'a CallFacts, input: &'a Value, by: &'a Principal) -> Memory<'a> {
        let execution = "019a7c3e-0000-7000-8000-000000000001".parse().unwrap();
        let until = facts.time.plus_millis(3_600_000);
        Memory { facts, input, execution, by, until }
    }

    #[test]
    fn an_answer_is_remembered_for_the_same_call_and_no_other() {
        let (facts, by) = (facts(), "human:ann".parse().unwrap());
        let input = json!({"path": "a \"b\".txt", "deep": {"n": 3, "yes": true}, "l": ["x"]});
        let memory = memory(&facts, &input, &by);
        let text = memory.to_cedar("one");
        let rule = Source { name: "remembered.one.cedar".to_owned(), text };
        assert_eq!(memory.is_kept_by(&rule), Ok(true), "{}", rule.text);
        let ask = Source { name: "ask.cedar".to_owned(), text: ASK.to_owned() };
        let decide = |ask: &Source, facts: &CallFacts, input: &Value| {
            let both = [ask.clone(), rule.clone()];
            Policies::compile(&both, &[]).unwrap().decide(facts, input).decision
        };
        assert_eq!(decide(&ask, &facts, &input), Decision::Allow);
        let asks = Decision::RequireApproval;
        let late = CallFacts { time: facts.time.plus_millis(3_600_000), ..facts.clone() };
        assert_eq!(decide(&ask, &late, &input), asks, "it ends");
        let other = CallFacts { principal: "agent:y".parse().unwrap(), ..facts.clone() };
        assert_eq!(decide(&ask, &other, &input), asks);
        let danger = CallFacts { mode: SandboxMode::DangerFullAccess, ..facts.clone() };
        assert_eq!(decide(&ask, &danger, &input), asks);
        let mut drifted = facts.clone();
        drifted.tool.declaration = Digest::of(b"other");
        assert_eq!(decide(&ask, &drifted, &input), asks);
        assert_eq!(decide(&ask, &facts, &json!({"path": "c.txt"})), asks);
        let more =
            json!({"path": "a \"b\".txt", "deep": {"n": 3, "yes": true}, "l": ["x"], "f": 1});
        assert_eq!(decide(&ask, &facts, &more), asks, "one more argument is another call");
        let through = CallFacts { chain: vec!["human:b".parse().unwrap()], ..facts.clone() };
        assert_eq!(decide(&ask, &through, &input), asks);
        let mut replaced = facts.clone();
        replaced.tool.files = Some(Digest::of(b"other"));
        assert_eq!(decide(&ask, &replaced, &input), asks, "other files are another program");
        let always = ASK.replace("@id(\"ask\")", "@id(\"ask\") @remember(\"never\")");
        let always = Source { name: "ask.cedar".to_owned(), text: always };
        assert_eq!(decide(&always, &facts, &input), asks, "some rules ask every time");
    }

    #[test]
    fn a_rule_that_was_edited_too_wide_is_not_kept() {
        let (facts, by) = (facts(), "human:ann".parse().unwrap());
        let input = json!({});
        let memory = memory(&facts, &input, &by);
        let good = memory.to_cedar("one");
        let until = format!("@until(\"{}\")\n", memory.until);
        for text in [
            "@remembered(\"x\") permit (principal, action, resource);".to_owned(),
            good.replace(&until, ""),
            good.replace("action == Action::\"invoke_unattended\"", "action"),
            good.replace("@remembered", "@description"),
            format!("{good}\npermit (principal, action, resource in Family::\"x\");"),
        ] {
            let rule = Source { name: "remembered.one.cedar".to_owned(), text };
            assert_eq!(memory.is_kept_by(&rule), Ok(false), "{}", rule.text);
        }
    }
}
