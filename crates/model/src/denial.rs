//! Why a call was not allowed, and what to type about it.

use serde_json::json;

use crate::authorize::{Extent, Need};
use crate::capability::Capability;
use crate::error::Failure;
use crate::id::{GrantId, ToolId};
use crate::principal::Principal;
use crate::scope::{is_resource, pattern_for};

/// A refusal: the first capability that was not granted, and every grant that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a denial ends the call; record it"]
pub struct Denial {
    pub capability: Capability,
    pub resource: Option<String>,
    pub code: &'static str,
    pub reason: String,
    /// Only grants of the principal and the tool that asked, so nobody learns of others.
    pub considered: Vec<(GrantId, &'static str)>,
    hint: String,
}

/// What is wrong with one grant, the nearest to success first: waiting is easier than renewing,
/// renewing than asking for something that was withdrawn or never given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flaw {
    NotYetValid,
    Expired,
    Revoked,
    OutOfScope,
    Orphaned,
    Unfounded,
    Forged,
}

/// A flaw of a grant, its own or of one it was delegated from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    pub(crate) flaw: Flaw,
    pub(crate) inherited: bool,
}

impl Fault {
    pub(crate) fn code(self) -> &'static str {
        match self.flaw {
            Flaw::NotYetValid => "GRANT_NOT_YET_VALID",
            Flaw::Expired => "GRANT_EXPIRED",
            Flaw::Revoked => "GRANT_REVOKED",
            Flaw::OutOfScope => "GRANT_OUT_OF_SCOPE",
            Flaw::Orphaned => "GRANT_MISSING",
            Flaw::Unfounded | Flaw::Forged => "GRANT_FORGED",
        }
    }

    /// Completes the sentence that begins with the grant.
    pub(crate) fn why(self) -> &'static str {
        match (self.flaw, self.inherited) {
            (Flaw::NotYetValid, false) => "is not valid yet",
            (Flaw::NotYetValid, true) => "was delegated from one that is not valid yet",
            (Flaw::Expired, false) => "has expired",
            (Flaw::Expired, true) => "was delegated from one that has expired",
            (Flaw::Revoked, false) => "was revoked",
            (Flaw::Revoked, true) => "was delegated from one that was revoked",
            (Flaw::OutOfScope, false) => "is for something else",
            (Flaw::OutOfScope, true) => "was delegated from one that is for something else",
            (Flaw::Orphaned, _) => "was delegated from one that is not known",
            (Flaw::Unfounded, _) => "does not follow from the one it was delegated from",
            (Flaw::Forged, false) => "has a signature that does not fit",
            (Flaw::Forged, true) => "was delegated from one whose signature does not fit",
        }
    }
}

/// What was asked: `capability` is missing because `wanted`, which may be the same, needs it.
pub(crate) struct Asked<'a> {
    pub(crate) capability: Capability,
    pub(crate) wanted: Capability,
    pub(crate) resource: Extent<'a>,
    pub(crate) principal: &'a Principal,
    pub(crate) tool: &'a ToolId,
}

impl Asked<'_> {
    fn code(&self, nearest: Option<&(GrantId, Fault)>) -> &'static str {
        match nearest {
            _ if !self.is_possible() => "GRANT_OUT_OF_SCOPE",
            Some((_, fault)) => fault.code(),
            None => "GRANT_MISSING",
        }
    }

    fn reason(&self, nearest: Option<&(GrantId, Fault)>) -> String {
        let Asked { capability, principal, tool, .. } = self;
        let on = self.resource.resource().map(|r| format!(" on `{r}`")).unwrap_or_default();
        let needed = match self.wanted == self.capability {
            true => String::new(),
            false => format!(", which `{}` needs,", self.wanted),
        };
        let refusal = format!("`{principal}` may not use `{capability}`{needed}{on}");
        match nearest {
            _ if !self.is_possible() => format!("{refusal}: no grant can contain that"),
            Some((id, fault)) => format!("{refusal}: grant `{id}` {}", fault.why()),
            None => format!("{refusal}: neither it nor `tool:{tool}` holds a grant of it"),
        }
    }

    fn is_possible(&self) -> bool {
        self.resource.resource().is_none_or(is_resource)
    }

    /// The command that would have made the difference, ready to paste.
    fn command(&self) -> String {
        if !self.is_possible() {
            return "name it without empty, `.` or `..` parts".to_owned();
        }
        let scope = match self.resource {
            Extent::Any => "**".to_owned(),
            Extent::One(resource) => pattern_for(resource),
            Extent::Every(pattern) => pattern.to_owned(),
        };
        format!(
            "countersign grant issue --to {} --capability {} --scope {} --expires 1h",
            self.principal,
            self.capability,
            quote(&scope),
        )
    }
}

/// One word for a POSIX shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl Denial {
    pub(crate) fn undeclared(need: &Need, tool: &ToolId) -> Self {
        let Need { capability, resource, .. } = need;
        Denial {
            capability: *capability,
            resource: Some(resource.clone()),
            code: "CAPABILITY_UNDECLARED",
            reason: format!("`{tool}` does not declare `{capability}`, so it may not use it"),
            considered: Vec::new(),
            hint: format!("add `{capability}` to `requiredCapabilities` in its declaration"),
        }
    }

    pub(crate) fn of(asked: &Asked<'_>, faults: Vec<(GrantId, Fault)>) -> Self {
        let nearest = faults.iter().min_by_key(|(_, fault)| *fault);
        Denial {
            capability: asked.capability,
            resource: asked.resource.resource().map(str::to_owned),
            code: asked.code(nearest),
            reason: asked.reason(nearest),
            hint: asked.command(),
            considered: faults.into_iter().map(|(id, fault)| (id, fault.why())).collect(),
        }
    }

    /// What every surface shows. The hint is the command to type.
    pub fn into_failure(self) -> Failure {
        let considered: Vec<_> =
            self.considered.iter().map(|(id, why)| json!({"grant": id, "why": why})).collect();
        let details = json!({
            "capability": self.capability,
            "resource": self.resource,
            "considered": considered,
        });
        Failure::authorization(self.code, self.reason).hint(self.hint).details(details)
    }
}

impl From<Denial> for Failure {
    fn from(denial: Denial) -> Self {
        denial.into_failure()
    }
}
