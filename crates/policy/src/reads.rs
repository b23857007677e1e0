//! What the conditions of rules look at. What no rule looks at is not prepared for a question.

use std::collections::HashSet;

use cedar_policy::Policy;
use serde_json::Value;

/// Attributes of the context that depend on the input.
const OF_THE_INPUT: [&str; 6] = ["complete", "flag", "input", "list", "number", "text"];

/// Types of entities that carry arguments.
const ARGUMENTS: [&str; 4] = ["Flags", "Lists", "Numbers", "Texts"];

/// Names of attributes, of whatever entity: more than is looked at, never less.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    attributes: HashSet<String>,
    /// The context as a whole, or a rule that cannot be looked into.
    everything: bool,
}

impl Reads {
    pub(crate) fn of(policy: &Policy) -> Self {
        let mut reads = Reads::default();
        match policy.to_json() {
            Ok(json) => reads.look_into(json.get("conditions").unwrap_or(&Value::Null)),
            Err(_) => reads.everything = true,
        }
        reads
    }

    pub(crate) fn extend(&mut self, other: &Reads) {
        self.everything |= other.everything;
        self.attributes.extend(other.attributes.iter().cloned());
    }

    pub(crate) fn has(&self, attribute: &str) -> bool {
        self.everything || self.attributes.contains(attribute)
    }

    pub(crate) fn has_input(&self) -> bool {
        OF_THE_INPUT.iter().any(|attribute| self.has(attribute))
    }

    fn look_into(&mut self, json: &Value) {
        match json {
            Value::Array(items) => items.iter().for_each(|item| self.look_into(item)),
            Value::Object(fields) => {
                for (operator, operands) in fields {
                    self.operation(operator, operands);
                }
            }
            _ => {}
        }
    }

    fn operation(&mut self, operator: &str, operands: &Value) {
        match operator {
            "Var" => self.everything |= operands.as_str() == Some("context"),
            // Data, whatever it reads like; but arguments can be had by name too.
            "Value" => self.everything |= names_arguments(operands),
            // Its keys are names of the author's choice, not operators.
            "Record" => match operands.as_object() {
                Some(fields) => fields.values().for_each(|field| self.look_into(field)),
                None => self.everything = true,
            },
            "." | "has" => self.access(operands.get("attr"), operands.get("left")),
            _ => self.look_into(operands),
        }
    }

    /// One attribute, or with `has` a path of them.
    fn access(&mut self, attributes: Option<&Value>, of: Option<&Value>) {
        match attributes {
            Some(Value::String(name)) => self.attributes.extend([name.clone()]),
            Some(Value::Array(path)) if path.iter().all(Value::is_string) => {
                self.attributes.extend(path.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            _ => self.everything = true,
        }
        let is_context = |of: &Value| of.get("Var").and_then(Value::as_str) == Some("context");
        match of {
            Some(of) if is_context(of) => {}
            Some(of) => self.look_into(of),
            None => self.everything = true,
        }
    }
}

/// Whether a literal holds one of the entities that carry arguments.
fn names_arguments(literal: &Value) -> bool {
    let kind = |entity: &Value| entity.get("type").and_then(Value::as_str).map(str::to_owned);
    match literal {
        Value::Array(items) => items.iter().any(names_arguments),
        Value::Object(fields) => fields.values().any(|field| {
            kind(field).is_some_and(|kind| ARGUMENTS.contains(&kind.as_str()))
                || names_arguments(field)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(condition: &str) -> Reads {
        let text = format!("permit (principal, action, resource) when {{ {condition} }};");
        Reads::of(&text.parse().unwrap())
    }

    #[test]
    fn attributes_are_found_wherever_they_stand() {
        for (condition, attributes) in [
            ("context.riskLevel >= 2", &["riskLevel"] as &[_]),
            ("context has path && context.path like \"*/x\"", &["path"]),
            ("context has time.hour", &["time", "hour"]),
            ("[1, context.time.hour].contains(3)", &["time", "hour"]),
            (
                "if context.every then true else {a: context.host}.a == \"b\"",
                &["every", "host", "a"],
            ),
            ("context[\"text\"].hasTag(\"/url\")", &["text"]),
            ("principal == User::\"context\" && \"context\" == \"b\"", &[]),
        ] {
            let found = reads(condition);
            assert!(!found.everything, "{condition}");
            let expected: HashSet<_> = attributes.iter().map(ToString::to_string).collect();
            assert_eq!(found.attributes, expected, "{condition}");
        }
    }

    #[test]
    fn the_whole_context_is_everything() {
        for condition in [
            "context == {a: 1}",
            "{a: context}.a.time.hour > 3",
            "{Value: context}.Value.time.hour > 3",
            "[context].isEmpty()",
        ] {
            assert!(reads(condition).everything, "{condition}");
        }
    }

    #[test]
    fn arguments_can_be_had_without_the_context() {
        for condition in ["Texts::\"x\".hasTag(\"a\")", "[Flags::\"x\"].contains(resource)"] {
            assert!(reads(condition).everything, "{condition}");
        }
    }

    #[test]
    fn later_parts_of_a_rule_count_too() {
        let text = "permit (principal, action, resource)
            when { context.every } unless { context.number.hasTag(\"/n\") };";
        let found = Reads::of(&text.parse().unwrap());
        assert!(found.has("every") && found.has("number") && found.has_input());
        assert!(!found.has("time"));
    }
}
