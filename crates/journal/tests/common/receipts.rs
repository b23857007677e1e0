//! A call that two people agreed to, with everything it rests on; receipts of it, honest and forged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_journal::receipt::{self, Pin, Report};
use countersign_journal::{Batch, NoteSigner, SqliteStore, Store, VerifierKey};
use countersign_model::approval::Subject;
use countersign_model::digest::canonical_json;
use countersign_model::effect::{Artifact, Payload};
use countersign_model::event::{
    Asked, Authorized, CallEvent, Committed, Declared, Fact, GrantEvent, HomeEvent, Started,
};
use countersign_model::record::{CallRecord, CallSummary};
use countersign_model::{
    Answer, CallFacts, Capability, Consent, Decision, Digest, Grant, GrantSignature, HomeId,
    KeyEvent, KeyRecord, KeyScope, Need, Question, Reason, ResourceLimits, RuleEffect, RuntimeKind,
    SafetyTier, SandboxMode, Token, ToolFacts, Verdict,
};
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};

use super::{
    Journal, NOW, added, batch, call_fact, call_id, completed, declared, grant_id, home, issued,
    key, key_id, key_record, life, signer, uuid,
};

/// The call that receipts are made of.
pub(crate) const CALL: u64 = 500;

/// Signs grants and keys; another key than the journal's.
pub(crate) fn authority() -> NoteSigner {
    NoteSigner::new("countersign-authority/test", SigningKey::from_bytes(&[9; 32]))
}

pub(crate) fn token(n: u64) -> Token {
    Token::new(key_id(n), [u8::try_from(n).unwrap(); 32])
}

/// What a journal is to hold, and the values that its facts pin.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) facts: Vec<Fact>,
    pub(crate) values: Vec<Vec<u8>>,
}

pub(crate) fn call_facts() -> CallFacts {
    CallFacts {
        chain: Vec::new(),
        effects: vec![Need::one(Capability::FilesystemRead, "/srv/app/a.txt")],
        hosts: Vec::new(),
        mode: SandboxMode::default(),
        people: 0,
        principal: "agent:x".parse().unwrap(),
        time: NOW,
        tool: ToolFacts {
            capabilities: vec![Capability::FilesystemRead],
            declaration: Digest::of(b"declaration"),
            files: None,
            id: "file.read".parse().unwrap(),
            isolation: 0,
            runtime: RuntimeKind::Builtin,
            tier: SafetyTier::Read,
            version: "1.0.0".parse().unwrap(),
        },
        toolset: None,
        workspace: Some("/srv/app".to_owned()),
    }
}

pub(crate) fn verdict() -> Verdict {
    let reason = Reason {
        about: None,
        effect: RuleEffect::Missing,
        more: 0,
        question: Question::InvokeUnattended,
        rule: Some("two-people".to_owned()),
        text: None,
    };
    Verdict {
        approvers: 2,
        decision: Decision::RequireApproval,
        expires_after_ms: None,
        policy: Digest::of(b"policies"),
        reasons: vec![reason],
    }
}

pub(crate) fn shown() -> Subject {
    Subject {
        execution: call_id(CALL),
        expires_at: NOW.plus_millis(60_000),
        facts: call_facts(),
        input: Payload::of(b"{}"),
        limits: ResourceLimits::default(),
        verdict: verdict(),
        workspace: Digest::ZERO,
    }
}

pub(crate) fn consent(by: &str, n: u64) -> Consent {
    let consent = Consent {
        answer: Answer::Yes,
        at: NOW.plus_millis(10),
        by: by.parse().unwrap(),
        key: key_id(n),
        reason: Some("looked at it".to_owned()),
        signature: GrantSignature::from_bytes([0; 64]),
        subject: shown().digest().unwrap().digest,
    };
    consent.sign(&token(n).signing_key()).unwrap()
}

/// A home whose grants and keys are signed by another key than its journal.
pub(crate) fn split_home() -> Fact {
    let Fact::Home(HomeEvent::Created { home, journal_key, .. }) = home() else {
        panic!("no home")
    };
    let authority_key = authority().verifier().to_string();
    Fact::Home(HomeEvent::Created { home, journal_key, authority_key })
}

pub(crate) fn granted(n: u64) -> Fact {
    let Fact::Grant(GrantEvent::Issued { grant }) = issued(n) else { panic!("no grant") };
    let grant = Grant::sign(grant.body, authority().signing_key()).unwrap();
    Fact::Grant(GrantEvent::Issued { grant })
}

pub(crate) fn approver(n: u64, principal: &str) -> Fact {
    let (hash, verifier) = (token(n).hash(), token(n).verifier());
    let key = KeyRecord { hash, verifier, ..key_record(n, principal, KeyScope::Approve) };
    let signature = key.sign(authority().signing_key()).unwrap();
    Fact::Key(KeyEvent::Created { key: key.into(), signature })
}

pub(crate) fn asked() -> CallEvent {
    let (expires_at, subject) = (shown().expires_at, shown().digest().unwrap());
    CallEvent::Asked(Asked { approvers: 2, expires_at, subject })
}

pub(crate) fn allowed() -> Authorized {
    let facts = canonical_json(&call_facts()).unwrap();
    Authorized {
        approval: Some(shown().digest().unwrap().digest),
        attempt: 1,
        capabilities: vec![Capability::FilesystemRead],
        facts: Some(Payload::of(&facts)),
        grants: vec![grant_id(1)],
        verdict: Some(verdict()),
    }
}

fn running() -> CallEvent {
    let started = life(0).into_iter().find_map(|event| match event {
        CallEvent::Started(started) => Some(started),
        _ => None,
    });
    let plan = Some(Payload::of(b"plan"));
    CallEvent::Started(Started { plan, ..started.unwrap() })
}

fn done() -> CallEvent {
    let digest = Digest::of(b"artifact");
    let artifact = Artifact { digest, media_type: None, name: "report.txt".to_owned(), size: 8 };
    CallEvent::Committed(Committed {
        artifacts: vec![artifact],
        connections: Vec::new(),
        effects: Vec::new(),
        output: Payload::of(b"out"),
        stderr: Some(Payload::of(b"said")),
        stdout: None,
    })
}

/// The events of the call that two people agreed to.
pub(crate) fn approved_life() -> Vec<CallEvent> {
    vec![
        declared(),
        CallEvent::Validated {},
        asked(),
        CallEvent::Approved(consent("human:ada", 1)),
        CallEvent::Approved(consent("human:bob", 2)),
        CallEvent::Authorized(allowed()),
        running(),
        done(),
        completed(),
    ]
}

impl Case {
    /// The facts of a call between those of two others, after people, keys and grants.
    pub(crate) fn of(life: Vec<CallEvent>) -> Self {
        let mut facts =
            vec![split_home(), added("human:ada"), added("human:bob"), added("agent:x")];
        facts.extend([
            approver(1, "human:ada"),
            approver(2, "human:bob"),
            approver(3, "human:bob"),
        ]);
        facts.extend([granted(1), granted(2)]);
        facts.extend(super::life(0).into_iter().map(|event| call_fact(600, event)));
        for event in life {
            facts.push(call_fact(CALL, event));
            facts.push(call_fact(700 + facts.len() as u64, declared()));
        }
        let shown = shown().bytes().unwrap();
        let seen = canonical_json(&call_facts()).unwrap();
        let rest = [&b"declaration"[..], b"{}", b"out", b"said", b"plan"];
        let values = rest.iter().map(|value| value.to_vec()).chain([shown, seen]).collect();
        Case { facts, values }
    }

    pub(crate) fn approved() -> Self {
        Case::of(approved_life())
    }

    /// The first fact for which `change` answers is replaced, as a home that lies would.
    pub(crate) fn with(mut self, change: impl Fn(&CallEvent) -> Option<CallEvent>) -> Self {
        let place = self.facts.iter_mut().find_map(|fact| match fact {
            Fact::Call(call) if call.execution == call_id(CALL) => {
                change(&call.event).map(|event| (call, event))
            }
            _ => None,
        });
        let (call, event) = place.expect("no such fact");
        call.event = event;
        self
    }

    pub(crate) fn journal(&self) -> Journal {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(&dir.path().join("journal.db"), signer()).unwrap();
        let call = Some(self.summary());
        store.append(Batch { call, ..batch(self.facts.clone()) }).unwrap();
        Journal { dir, store }
    }

    /// Only to have the call found; it need not be what the facts say.
    fn summary(&self) -> CallSummary {
        let ours =
            |fact: &&Fact| matches!(fact, Fact::Call(call) if call.execution == call_id(CALL));
        let events = self.facts.iter().filter(ours).count();
        let CallEvent::Declared(declared) = declared() else { panic!("not a declaration") };
        let mut summary = CallRecord::begin(call_id(CALL), NOW, &declared).summary;
        summary.events = u32::try_from(events).unwrap();
        summary
    }

    pub(crate) fn receipt(&self) -> Vec<u8> {
        self.receipt_from(&self.journal().store)
    }

    pub(crate) fn receipt_from(&self, store: &dyn Store) -> Vec<u8> {
        let mut content = |pin: &Pin| self.values.iter().find(|value| pin.fits(value)).cloned();
        receipt::create(store, &signer(), call_id(CALL), &mut content).unwrap()
    }
}

/// A receipt by a home that does not ask whether its own story is possible: the facts of `case`, in
/// the frame of an honest one.
pub(crate) fn forged(case: &Case) -> Vec<u8> {
    let journal = case.journal();
    let head = journal.store.head().unwrap();
    let (mut entries, mut basis) = (Vec::new(), Vec::new());
    let mut seq = 0;
    journal
        .store
        .visit_raw(0..head.size, &mut |bytes| {
            let path = journal.store.inclusion_path(seq, head.size)?;
            let proven = json!({"entry": BASE64.encode(&bytes), "path": path, "seq": seq});
            match &case.facts[usize::try_from(seq).unwrap()] {
                Fact::Call(call) if call.execution == call_id(CALL) => entries.push(proven),
                fact if is_basis(fact) => basis.push(proven),
                _ => {}
            }
            seq += 1;
            Ok(())
        })
        .unwrap();
    edited(&Case::approved().receipt(), |statement| {
        statement["predicate"]["checkpoint"] = json!(head.checkpoint);
        statement["predicate"]["entries"] = json!(entries);
        statement["predicate"]["basis"] = json!(basis);
        let last = entries.last().map(|last| BASE64.decode(last["entry"].as_str().unwrap()));
        let last = Digest::of(&last.unwrap().unwrap());
        statement["subject"][0]["digest"]["sha256"] = json!(last);
    })
}

/// Keys 1 and 2 and grant 1 are what the call rests on.
fn is_basis(fact: &Fact) -> bool {
    match fact {
        Fact::Grant(GrantEvent::Issued { grant }) => grant.body.id == grant_id(1),
        Fact::Key(KeyEvent::Created { key, .. }) => key.id != key_id(3),
        Fact::Call(_) => false,
        _ => true,
    }
}

pub(crate) fn check_receipt(file: &[u8]) -> Report {
    receipt::verify(file, &key())
}

#[track_caller]
pub(crate) fn verified(file: &[u8]) -> Report {
    let report = check_receipt(file);
    assert!(report.is_verified(), "{:#?}", report.problems);
    report
}

pub(crate) fn codes(report: &Report) -> Vec<String> {
    report.problems.iter().map(|problem| problem.code.to_string()).collect()
}

/// Refused, and for this reason among others.
#[track_caller]
pub(crate) fn refused(what: &str, file: &[u8], code: &str) {
    let report = check_receipt(file);
    assert!(!report.is_verified(), "{what} verifies");
    assert!(codes(&report).iter().any(|c| c == code), "{what}: {:#?}", report.problems);
}

pub(crate) fn payload_of(file: &[u8]) -> Vec<u8> {
    let envelope: Value = serde_json::from_slice(file).unwrap();
    BASE64.decode(envelope["payload"].as_str().unwrap()).unwrap()
}

/// Signs any payload as DSSE has it, written here once more from its standard.
pub(crate) fn seal(payload: &[u8], by: &NoteSigner) -> Vec<u8> {
    let kind = "application/vnd.in-toto+json";
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    let sig = BASE64.encode(by.signing_key().sign(&message).to_bytes());
    let full = by.verifier().to_string();
    let (keyid, _) = full.rsplit_once('+').unwrap();
    let payload = BASE64.encode(payload);
    let signatures = json!([{"keyid": keyid, "sig": sig}]);
    json!({"payload": payload, "payloadType": kind, "signatures": signatures})
        .to_string()
        .into_bytes()
}

/// The statement, changed, and signed again with the right key.
pub(crate) fn edited(file: &[u8], edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut statement: Value = serde_json::from_slice(&payload_of(file)).unwrap();
    edit(&mut statement);
    seal(statement.to_string().as_bytes(), &signer())
}

pub(crate) fn other_home() -> VerifierKey {
    NoteSigner::new("countersign/other", SigningKey::from_bytes(&[7; 32])).verifier().clone()
}

pub(crate) fn home_id() -> HomeId {
    HomeId::from_uuid(uuid(0))
}

pub(crate) fn redeclared(change: impl FnOnce(&mut Declared)) -> CallEvent {
    let CallEvent::Declared(mut it) = declared() else { panic!("not a declaration") };
    change(&mut it);
    CallEvent::Declared(it)
}
