//! The mock of a model: it says what it was told to say. Only where the conformance switch is on,
//! and only in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_flow::{ModelReply, WorkKey};
use countersign_model::{Failure, RunId};
use serde_json::Value;

/// Replies of one program, and programs of one tenant.
const MOST: usize = 256;

/// What is to be said, node by node, for each tenant.
#[derive(Debug, Default)]
pub struct Mock(Mutex<HashMap<String, BTreeMap<String, Program>>>);

#[derive(Debug, Default)]
struct Program {
    left: VecDeque<ModelReply>,
    /// What was said already: whoever asks the same again hears the same.
    said: HashMap<(RunId, WorkKey), ModelReply>,
    room: Option<u64>,
}

impl Mock {
    /// Replaces what a node of this name hears next.
    pub fn program(
        &self,
        tenant: &str,
        node: &str,
        replies: Vec<ModelReply>,
    ) -> Result<(), Failure> {
        let mut all = self.locked();
        let own = all.entry(tenant.to_owned()).or_default();
        if replies.len() > MOST || (own.len() >= MOST && !own.contains_key(node)) {
            let message = format!("a tenant has at most {MOST} programs of {MOST} replies");
            return Err(Failure::validation("MOCK_TOO_LARGE", message));
        }
        let program = Program { left: replies.into(), ..Program::default() };
        own.insert(node.to_owned(), program);
        Ok(())
    }

    /// Forgets everything of a tenant.
    pub fn reset(&self, tenant: &str) {
        self.locked().remove(tenant);
    }

    /// The room that the last request for this node left for a reply.
    pub fn room(&self, tenant: &str, node: &str) -> Option<u64> {
        self.locked().get(tenant)?.get(node)?.room
    }

    /// The next reply. Without a program, or after its end, the model says nothing.
    pub(crate) fn reply(
        &self,
        tenant: &str,
        run: &RunId,
        key: &WorkKey,
        request: &Value,
    ) -> ModelReply {
        let mut all = self.locked();
        let program = all.get_mut(tenant).and_then(|own| own.get_mut(&key.node));
        let Some(program) = program else { return ModelReply::default() };
        program.room = request.get("maxTokens").and_then(Value::as_u64);
        let asked = (run.clone(), key.clone());
        if let Some(said) = program.said.get(&asked) {
            return said.clone();
        }
        let reply = program.left.pop_front().unwrap_or_default();
        if program.said.len() < MOST {
            program.said.insert(asked, reply.clone());
        }
        reply
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, BTreeMap<String, Program>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_same_question_hears_the_same_and_tenants_hear_their_own() {
        let mock = Mock::default();
        let say = |text: &str| ModelReply { text: text.to_owned(), ..ModelReply::default() };
        mock.program("a", "n", vec![say("one"), say("two")]).unwrap();
        let run: RunId = "run-1".parse().unwrap();
        let key = |step| WorkKey { node: "n".to_owned(), round: 1, attempt: 0, step };
        let ask = |tenant: &str, step| {
            mock.reply(tenant, &run, &key(step), &json!({"maxTokens": 7})).text
        };
        assert_eq!(
            (ask("a", 0), ask("a", 0), ask("a", 1)),
            ("one".into(), "one".into(), "two".into())
        );
        assert_eq!((ask("a", 2), ask("b", 0)), (String::new(), String::new()));
        assert_eq!((mock.room("a", "n"), mock.room("b", "n")), (Some(7), None));
        mock.reset("a");
        assert_eq!(ask("a", 0), "");
    }
}
