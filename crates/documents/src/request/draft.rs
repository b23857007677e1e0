//! A fresh request, well-formed and not approved.

use std::fmt::Write as _;

use countersign_model::Timestamp;

use super::{
    Constraint, Cores, Input, Language, Network, Output, RequestedBy, Risk, RiskLevel, Sensitivity,
    moment,
};

/// What a person or a program wants to run. It is judged like any other once it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRequest {
    /// The last part of the id: lower-case letters, digits and hyphens.
    pub slug: String,
    pub created: Timestamp,
    pub requested_by: RequestedBy,
    pub purpose: String,
    pub language: Language,
    pub network: Network,
    pub cpu_limit: Cores,
    pub memory_limit_mb: u32,
    pub time_limit_sec: u32,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    /// Sentences beyond the three of the schema.
    pub claims: Vec<String>,
    pub command: String,
    pub risk: Risk,
}

impl NewRequest {
    pub fn id(&self) -> String {
        moment::request_id(self.created, &self.slug)
    }

    pub fn file_name(&self) -> String {
        format!("{}.md", self.id())
    }
}

/// Writes the document. Fields that no request may have come out as they are, and are refused when
/// the draft is judged.
pub fn draft(new: &NewRequest) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = front_matter(&mut out, new).and_then(|()| body(&mut out, new));
    out
}

fn front_matter(out: &mut String, new: &NewRequest) -> std::fmt::Result {
    let by = match new.requested_by {
        RequestedBy::Human => "human",
        RequestedBy::CoreDraft => "core_draft",
    };
    writeln!(out, "---\nrequest_type: tool_request\nschema_version: 1")?;
    writeln!(out, "request_id: {}", quoted(&new.id()))?;
    writeln!(out, "created_utc: {}", quoted(&moment::second(new.created)))?;
    writeln!(out, "requested_by: {}", quoted(by))?;
    writeln!(out, "approved_by: \"\"\napproved_utc: \"\"")?;
    writeln!(out, "purpose: {}", quoted(&new.purpose))?;
    writeln!(out, "language: {}", quoted(new.language.as_str()))?;
    network(out, &new.network)?;
    writeln!(out, "cpu_limit: {}", quoted(&new.cpu_limit.to_string()))?;
    writeln!(out, "memory_limit_mb: {}", new.memory_limit_mb)?;
    writeln!(out, "time_limit_sec: {}", new.time_limit_sec)?;
    files(out, new)?;
    writeln!(out, "constraints:")?;
    for known in Constraint::ALL {
        writeln!(out, "  - {}", quoted(known.as_str()))?;
    }
    for claim in &new.claims {
        writeln!(out, "  - {}", quoted(claim))?;
    }
    writeln!(out, "---")
}

fn network(out: &mut String, network: &Network) -> std::fmt::Result {
    match network {
        Network::None => writeln!(out, "network: \"none\"\nnetwork_allowlist: []"),
        Network::Allowlist(hosts) => {
            writeln!(out, "network: \"allowlist\"\nnetwork_allowlist:")?;
            hosts.iter().try_for_each(|to| writeln!(out, "  - \"{}:{}\"", to.host, to.port))
        }
    }
}

fn files(out: &mut String, new: &NewRequest) -> std::fmt::Result {
    writeln!(out, "inputs:{}", if new.inputs.is_empty() { " []" } else { "" })?;
    for input in &new.inputs {
        writeln!(out, "  - name: {}\n    sha256: \"{}\"", quoted(&input.name), input.sha256)?;
    }
    writeln!(out, "outputs_expected:{}", if new.outputs.is_empty() { " []" } else { "" })?;
    for output in &new.outputs {
        let description = quoted(&output.description);
        writeln!(out, "  - path: {}\n    description: {description}", quoted(&output.path))?;
    }
    Ok(())
}

fn body(out: &mut String, new: &NewRequest) -> std::fmt::Result {
    writeln!(out, "\n## Command\n\n{}\n\n## Input Files\n", new.command)?;
    for input in &new.inputs {
        writeln!(out, "- /in/{} sha256: {}", input.name, input.sha256)?;
    }
    writeln!(out, "\n## Output Expectations\n")?;
    for output in &new.outputs {
        writeln!(out, "- /out/{}", output.path)?;
        if !output.description.is_empty() {
            writeln!(out, "  Description: {}", output.description)?;
        }
    }
    let (level, sensitivity) = (new.risk.level.as_str(), new.risk.sensitivity.as_str());
    writeln!(out, "\n## Risk Assessment\n")?;
    writeln!(out, "- Risk level: {level}")?;
    writeln!(out, "- Justification: {}", new.risk.justification)?;
    writeln!(out, "- Data sensitivity: {sensitivity}")?;
    writeln!(out, "- Network rationale: {}", new.risk.network_rationale)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl RiskLevel {
    pub const fn as_str(self) -> &'static str {
        match self {
            RiskLevel::Low => "low",
            RiskLevel::Medium => "medium",
            RiskLevel::High => "high",
        }
    }
}

impl Sensitivity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Sensitivity::Public => "public",
            Sensitivity::Internal => "internal",
            Sensitivity::Confidential => "confidential",
        }
    }
}
