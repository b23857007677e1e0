//! A home where some calls ask people, and people who have keys.

use std::collections::BTreeSet;

use countersign_host::people::{AddPrincipal, CreateKey};
use countersign_host::{Cancel, Clock, Host, Outcome};
use countersign_model::{
    Answer, ErrorClass, ExecutionId, Failure, KeyScope, Lifecycle, Principal, Token,
};
use serde_json::json;

use super::{Bench, HOUR, ending};

/// Whatever deletes asks a human; whatever `state.put` does asks two.
const POLICY: &str = r#"
@id("deletes")
@reason("deleting is for people")
forbid (principal, action == Action::"invoke_unattended", resource == Tool::"file.delete");

@id("two")
@approvers("2")
forbid (principal, action == Action::"invoke_unattended", resource == Tool::"state.put");
"#;

pub struct Office {
    pub bench: Bench,
}

impl Office {
    pub fn new() -> Self {
        let bench = Bench::new();
        std::fs::write(bench.home().join("policy/office.cedar"), POLICY).unwrap();
        bench.write("a.txt", "precious");
        Office { bench }
    }

    pub fn host(&self) -> Host {
        self.bench.host()
    }

    /// A person with a key.
    pub fn hire(&self, host: &Host, name: &str) -> Token {
        let principal: Principal = name.parse().unwrap();
        let scopes = KeyScope::defaults(&principal);
        self.key(host, &principal, scopes).unwrap()
    }

    pub fn key(
        &self,
        host: &Host,
        principal: &Principal,
        scopes: BTreeSet<KeyScope>,
    ) -> Result<Token, Failure> {
        let by: Principal = "human:root".parse().unwrap();
        let add = AddPrincipal { principal: principal.clone(), description: None, by: by.clone() };
        host.add_principal(&add).unwrap();
        let expires_at = self.bench.clock.now().plus_millis(HOUR * 1_000);
        let create =
            CreateKey { principal: principal.clone(), tenant: None, scopes, expires_at, by };
        host.create_key(&create).map(|(_, token)| token)
    }

    pub fn ask(&self, host: &Host) -> ExecutionId {
        let outcome = self.bench.call(host, "file.delete", &json!({"path": "a.txt"}));
        waits(&outcome)
    }

    pub fn ask_two(&self, host: &Host) -> ExecutionId {
        waits(&self.bench.call(host, "state.put", &json!({"key": "k", "value": "v"})))
    }

    pub fn resume(&self, host: &Host, execution: ExecutionId) -> Outcome {
        host.resume(execution, Cancel::default()).unwrap()
    }
}

pub fn waits(outcome: &Outcome) -> ExecutionId {
    let expected = (Lifecycle::Validated, ErrorClass::AuthorizationError, "APPROVAL_REQUIRED");
    assert_eq!(ending(outcome), expected);
    outcome.execution
}

pub fn yes(host: &Host, execution: ExecutionId, token: &Token) -> Result<(), Failure> {
    host.answer(execution, token, Answer::Yes, None).map(|_| ())
}

#[track_caller]
pub fn refused(result: Result<(), Failure>, code: &str) {
    assert_eq!(result.unwrap_err().code, code);
}

#[track_caller]
pub fn denied(outcome: &Outcome, code: &str) {
    assert_eq!((outcome.state, ending(outcome).2), (Lifecycle::Denied, code));
}
