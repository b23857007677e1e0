//! Branches that a built-in tool moves: staged like files, and moved when the call is published.

use countersign_model::Failure;

use super::ToolContext;

/// A branch of a repository is to point elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefMove {
    pub repository: String,
    pub reference: String,
    pub before: Option<String>,
    pub after: String,
}

impl ToolContext {
    /// The commit is in the repository already, where nothing points to it yet.
    pub fn move_ref(&mut self, moved: RefMove) -> Result<(), Failure> {
        self.meter.check()?;
        self.staged.refs.push(moved);
        Ok(())
    }
}
