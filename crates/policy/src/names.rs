//! Names of entities, parsed once: Cedar's parser is too slow to ask in every decision.

use cedar_policy::{EntityId, EntityTypeName, EntityUid, ParseErrors};
use countersign_model::principal::PrincipalKind;
use countersign_model::{Principal, Question, ToolId};

#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) human: EntityTypeName,
    pub(crate) agent: EntityTypeName,
    pub(crate) service: EntityTypeName,
    pub(crate) tool: EntityTypeName,
    pub(crate) family: EntityTypeName,
    pub(crate) toolset: EntityTypeName,
    pub(crate) invoke: EntityUid,
    pub(crate) unattended: EntityUid,
    pub(crate) texts: EntityUid,
    pub(crate) numbers: EntityUid,
    pub(crate) flags: EntityUid,
    pub(crate) lists: EntityUid,
}

impl Names {
    pub(crate) fn parse() -> Result<Names, ParseErrors> {
        let input = |name: &str| Ok::<_, ParseErrors>(uid(&name.parse()?, "input"));
        let action = "Action".parse()?;
        Ok(Names {
            human: "Human".parse()?,
            agent: "Agent".parse()?,
            service: "Service".parse()?,
            tool: "Tool".parse()?,
            family: "Family".parse()?,
            toolset: "Toolset".parse()?,
            invoke: uid(&action, "invoke"),
            unattended: uid(&action, "invoke_unattended"),
            texts: input("Texts")?,
            numbers: input("Numbers")?,
            flags: input("Flags")?,
            lists: input("Lists")?,
        })
    }

    pub(crate) fn kind(&self, kind: PrincipalKind) -> &EntityTypeName {
        match kind {
            PrincipalKind::Human => &self.human,
            PrincipalKind::Agent => &self.agent,
            PrincipalKind::Service => &self.service,
        }
    }

    pub(crate) fn principal(&self, principal: &Principal) -> EntityUid {
        uid(self.kind(principal.kind()), principal.name())
    }

    pub(crate) fn tool(&self, id: &ToolId) -> EntityUid {
        uid(&self.tool, id.as_str())
    }

    /// The families of a tool, and the active set of tools.
    pub(crate) fn parents(&self, id: &ToolId, toolset: Option<&str>) -> Vec<EntityUid> {
        let families = families(id.as_str()).map(|family| uid(&self.family, family));
        families.chain(toolset.map(|name| uid(&self.toolset, name))).collect()
    }

    pub(crate) fn action(&self, question: Question) -> &EntityUid {
        match question {
            Question::Invoke => &self.invoke,
            Question::InvokeUnattended => &self.unattended,
        }
    }
}

fn uid(kind: &EntityTypeName, name: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(name))
}

/// Every dotted prefix: `a` and `a.b` for `a.b.c`.
pub(crate) fn families(id: &str) -> impl Iterator<Item = &str> {
    id.match_indices('.').filter_map(|(at, _)| id.get(..at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_the_prefixes_of_a_tool() {
        assert_eq!(families("a.b.c").collect::<Vec<_>>(), ["a", "a.b"]);
        let names = Names::parse().unwrap();
        let parents = names.parents(&"file.read".parse().unwrap(), Some("review"));
        let shown: Vec<_> = parents.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [r#"Family::"file""#, r#"Toolset::"review""#]);
    }
}
