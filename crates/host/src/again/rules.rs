//! What may differ between two executions of the same, written down for each tool.

use countersign_model::ToolId;

/// Places are JSON pointers, in which `*` stands for every item or field.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// Values of an output that differ each time, such as durations.
    pub output: &'static [&'static str],
    /// Values of an output that differ between calls, such as what names the call itself.
    pub output_apart: &'static [&'static str],
    pub artifacts: &'static [ArtifactRule],
    /// It tells of the journal, so it can only be compared while its run has not gone on.
    pub reads_journal: bool,
}

/// The same for an artifact.
#[derive(Debug, Clone, Copy)]
pub struct ArtifactRule {
    pub name: &'static str,
    /// Values that differ each time, if it is JSON.
    pub values: &'static [&'static str],
    pub values_apart: &'static [&'static str],
    /// Why it cannot be compared at all, if it differs.
    pub incomparable: Option<&'static str>,
    /// The same between two calls.
    pub incomparable_apart: Option<&'static str>,
}

impl ArtifactRule {
    /// Every byte counts.
    pub const EXACT: ArtifactRule = ArtifactRule {
        name: "",
        values: &[],
        values_apart: &[],
        incomparable: None,
        incomparable_apart: None,
    };
}

impl Rules {
    pub(super) fn artifact(&self, name: &str) -> ArtifactRule {
        let found = self.artifacts.iter().find(|rule| rule.name == name);
        found.copied().unwrap_or(ArtifactRule::EXACT)
    }
}

/// The rules of every tool.
pub type RuleBook = fn(&ToolId) -> Rules;
