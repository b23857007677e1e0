//! Secrets that this process holds for its runs. They are in memory alone: whatever is recorded has
//! their names where their values were.

use std::collections::BTreeMap;
use std::fmt;

use countersign_documents::scan::Known;
use countersign_flow::Outcome;
use countersign_flow::event::RunError;
use countersign_model::Digest;
use serde_json::{Map, Value, json};

/// A shorter value would be found in texts that have nothing to do with it.
const SHORTEST: usize = 8;

/// Values by their names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, String>);

/// The names alone.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Secrets {
    /// Nothing is kept of a value that is too short to be told from ordinary text.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if value.len() >= SHORTEST {
            self.0.insert(name.to_owned(), value.to_owned());
        }
        self
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Digests of values may be shown, although they look like keys.
    pub(crate) fn known(&self) -> Known {
        Known::of(self.0.values().map(|value| fingerprint(value)))
    }

    /// Puts names where values are. Whether there were any.
    pub(crate) fn hide(&self, text: &mut String) -> bool {
        let mut found = false;
        for (name, value) in &self.0 {
            if text.contains(value.as_str()) {
                *text = text.replace(value.as_str(), &format!("[REDACTED:{name}]"));
                found = true;
            }
        }
        found
    }

    /// What a node may show of a secret: that it was there.
    pub(crate) fn echoed(&self, node: &str, name: &str) -> Outcome {
        let Some(value) = self.get(name) else {
            let message = format!("this host holds no secret `{name}`");
            let error = RunError::new("credential_not_found", message);
            return Outcome::Failed { error, retryable: false };
        };
        let shown = Map::from_iter([
            ("secretSha256".to_owned(), json!(fingerprint(value))),
            ("secretLength".to_owned(), json!(value.len())),
        ]);
        // Readers look for them by their names, or by the node that found them.
        let mut variables = shown.clone();
        variables.insert(node.to_owned(), Value::Object(shown.clone()));
        Outcome::Completed { outputs: shown, variables }
    }
}

fn fingerprint(value: &str) -> String {
    let bytes = Digest::of(value.as_bytes()).into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_by_name_alone() {
        let secrets = Secrets::default().with("a", "long enough").with("b", "short");
        assert_eq!(format!("{secrets:?}"), r#"{"a"}"#);
        let mut text = "say long enough twice: long enough".to_owned();
        assert!(secrets.hide(&mut text));
        assert_eq!(text, "say [REDACTED:a] twice: [REDACTED:a]");
        assert!(!secrets.hide(&mut text));
        assert!(matches!(secrets.echoed("n", "b"), Outcome::Failed { .. }));
    }
}
