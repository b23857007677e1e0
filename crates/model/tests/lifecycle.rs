//! The life of a call: every state with every fact, the record folded from facts, and the audit
//! event of every transition.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use countersign_model::audit::AuditEvent;
use countersign_model::effect::Payload;
use countersign_model::event::{
    Asked, Authorized, CallEvent, Committed, Completed, Declared, Denied, Enforcement, Retry,
    RolledBack, Started, Usage, Withdrawn, WriteSet,
};
use countersign_model::record::CallRecord;
use countersign_model::state::next;
use countersign_model::{
    Answer, CallState, Capability, Consent, Digest, ExecutionId, Failure, GrantSignature,
    Lifecycle, ResourceLimits, SandboxMode, Timestamp,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const START: i64 = 1_800_000_000_000;

fn execution() -> ExecutionId {
    "019a7c3e-0000-7000-8000-000000000001".parse().unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

fn declared() -> CallEvent {
    CallEvent::Declared(Declared {
        chain: Vec::new(),
        files: None,
        mode: SandboxMode::default(),
        toolset: None,
        tool: "file.read".parse().unwrap(),
        version: "1.2.3".parse().unwrap(),
        declaration: Digest::of(b"declaration"),
        principal: "agent:x".parse().unwrap(),
        input: Payload::of(b"input"),
        root: Some("/srv".to_owned()),
        consumes: Vec::new(),
        work: None,
    })
}

fn failure(code: &'static str) -> Failure {
    Failure::resource(code, "no more")
}

fn authorized(attempt: u32) -> CallEvent {
    authorized_with(attempt, None)
}

fn authorized_with(attempt: u32, approval: Option<Digest>) -> CallEvent {
    CallEvent::Authorized(Authorized {
        approval,
        attempt,
        capabilities: vec![Capability::FilesystemRead],
        facts: None,
        grants: Vec::new(),
        verdict: None,
    })
}

fn asked() -> CallEvent {
    CallEvent::Asked(Asked { approvers: 2, expires_at: at(1_000), subject: Payload::of(b"shown") })
}

fn consent(answer: Answer, by: &str, shown: &[u8], millis: i64) -> Consent {
    Consent {
        answer,
        at: at(millis),
        by: by.parse().unwrap(),
        key: "019a7c3e-0000-7000-8000-000000000004".parse().unwrap(),
        reason: None,
        signature: GrantSignature::from_bytes([0; 64]),
        subject: Digest::of(shown),
    }
}

fn withdrawn() -> CallEvent {
    CallEvent::Withdrawn(Withdrawn { by: "agent:x".parse().unwrap(), reason: None })
}

fn started(attempt: u32) -> CallEvent {
    CallEvent::Started(Started {
        backend: None,
        hosts: Vec::new(),
        plan: None,
        attempt,
        transaction: "019a7c3e-0000-7000-8000-000000000002".parse().unwrap(),
        host: "019a7c3e-0000-7000-8000-000000000003".parse().unwrap(),
        limits: ResourceLimits {
            max_execution_time: 1,
            max_memory: 1,
            max_file_size: None,
            max_file_descriptors: None,
            max_processes: None,
            ..ResourceLimits::default()
        },
        enforcement: Enforcement {
            isolation: 0,
            time: "deadline".to_owned(),
            memory: "accounted".to_owned(),
            files: None,
            ..Enforcement::default()
        },
        writes: WriteSet { files: vec!["f".to_owned()], ..WriteSet::default() },
        before: Digest::of(b"before"),
        key: None,
        once: false,
    })
}

fn committed() -> CallEvent {
    CallEvent::Committed(Committed {
        output: Payload::of(b"output"),
        artifacts: Vec::new(),
        connections: Vec::new(),
        effects: Vec::new(),
        stderr: None,
        stdout: None,
    })
}

fn completed() -> CallEvent {
    CallEvent::Completed(Completed {
        output: Payload::of(b"output"),
        usage: Usage { cpu_micros: 7, ..Usage::default() },
        duration_ms: 5,
        unsettled: Vec::new(),
    })
}

fn rolled_back(retry: Option<u32>) -> CallEvent {
    CallEvent::RolledBack(RolledBack {
        connections: Vec::new(),
        stdout: None,
        stderr: None,
        unknown: false,
        error: failure("SHORT"),
        before: Digest::of(b"before"),
        after: Digest::of(b"before"),
        usage: Usage::default(),
        duration_ms: 5,
        retry: retry.map(|attempt| Retry { attempt, delay_ms: 100 }),
    })
}

/// Every fact that makes a difference, by name. The number is the attempt it speaks of.
fn events() -> Vec<(&'static str, CallEvent)> {
    vec![
        ("declared", declared()),
        ("validated", CallEvent::Validated {}),
        ("failed", CallEvent::Failed { error: failure("F") }),
        ("authorized 1", authorized(1)),
        ("authorized 2", authorized(2)),
        ("authorized 3", authorized(3)),
        ("denied", CallEvent::Denied(Denied { error: failure("D"), facts: None, verdict: None })),
        ("asked", asked()),
        ("approved by ann", CallEvent::Approved(consent(Answer::Yes, "human:ann", b"shown", 5))),
        ("approved by bob", CallEvent::Approved(consent(Answer::Yes, "human:bob", b"shown", 5))),
        ("approved for another", CallEvent::Approved(consent(Answer::Yes, "human:cy", b"x", 5))),
        ("approved late", CallEvent::Approved(consent(Answer::Yes, "human:cy", b"shown", 1_000))),
        ("approved with no", CallEvent::Approved(consent(Answer::No, "human:cy", b"shown", 5))),
        ("refused", CallEvent::Refused(consent(Answer::No, "human:cy", b"shown", 5))),
        ("refused with yes", CallEvent::Refused(consent(Answer::Yes, "human:cy", b"shown", 5))),
        ("withdrawn", withdrawn()),
        ("authorized by people", authorized_with(1, Some(Digest::of(b"shown")))),
        ("authorized by others", authorized_with(1, Some(Digest::of(b"x")))),
        ("started 1", started(1)),
        ("started 2", started(2)),
        ("committed", committed()),
        ("completed", completed()),
        ("aborted", CallEvent::Aborted { error: failure("A") }),
        ("rolledBack", rolled_back(None)),
        ("rolledBack, retry 1", rolled_back(Some(1))),
        ("rolledBack, retry 2", rolled_back(Some(2))),
        ("rolledBack, retry 3", rolled_back(Some(3))),
    ]
}

fn event(name: &str) -> CallEvent {
    let known = events();
    known.into_iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}")).1
}

/// One state, the facts that lead to it, and every fact that may follow with where it leads.
/// Whatever is not listed here is impossible.
struct Row {
    state: &'static str,
    after: &'static [&'static str],
    then: &'static [(&'static str, &'static str)],
}

const TABLE: &[Row] = &[
    Row { state: "(none)", after: &[], then: &[("declared", "DECLARED")] },
    Row {
        state: "DECLARED",
        after: &["declared"],
        then: &[("validated", "VALIDATED"), ("failed", "FAILED")],
    },
    Row {
        state: "VALIDATED",
        after: &["declared", "validated"],
        then: &[
            ("failed", "FAILED"),
            ("authorized 1", "AUTHORIZED"),
            ("denied", "DENIED"),
            ("asked", "VALIDATED"),
        ],
    },
    Row {
        state: "VALIDATED, waiting",
        after: &["declared", "validated", "asked"],
        then: &[
            ("approved by ann", "VALIDATED"),
            ("approved by bob", "VALIDATED"),
            ("refused", "DENIED"),
            ("withdrawn", "DENIED"),
            ("denied", "DENIED"),
        ],
    },
    Row {
        state: "VALIDATED, waiting for the second",
        after: &["declared", "validated", "asked", "approved by ann"],
        then: &[
            ("approved by bob", "VALIDATED"),
            ("refused", "DENIED"),
            ("withdrawn", "DENIED"),
            ("denied", "DENIED"),
        ],
    },
    Row {
        state: "VALIDATED, approved",
        after: &["declared", "validated", "asked", "approved by ann", "approved by bob"],
        then: &[
            ("authorized by people", "AUTHORIZED"),
            ("refused", "DENIED"),
            ("withdrawn", "DENIED"),
            ("denied", "DENIED"),
        ],
    },
    Row {
        state: "AUTHORIZED 1",
        after: &["declared", "validated", "authorized 1"],
        then: &[("started 1", "EXECUTING"), ("aborted", "ABORTED")],
    },
    Row {
        state: "EXECUTING 1",
        after: &["declared", "validated", "authorized 1", "started 1"],
        then: &[
            ("committed", "EXECUTING"),
            ("aborted", "ABORTED"),
            ("rolledBack", "ROLLED_BACK"),
            ("rolledBack, retry 2", "ROLLED_BACK"),
        ],
    },
    Row {
        state: "EXECUTING 1, committed",
        after: &["declared", "validated", "authorized 1", "started 1", "committed"],
        then: &[("completed", "COMPLETED")],
    },
    Row {
        state: "ABORTED 1 before it started",
        after: &["declared", "validated", "authorized 1", "aborted"],
        then: &[("rolledBack", "ROLLED_BACK"), ("rolledBack, retry 2", "ROLLED_BACK")],
    },
    Row {
        state: "ABORTED 1",
        after: &["declared", "validated", "authorized 1", "started 1", "aborted"],
        then: &[("rolledBack", "ROLLED_BACK"), ("rolledBack, retry 2", "ROLLED_BACK")],
    },
    Row {
        state: "ROLLED_BACK 1, retry 2",
        after: &["declared", "validated", "authorized 1", "started 1", "rolledBack, retry 2"],
        then: &[("authorized 2", "AUTHORIZED"), ("denied", "DENIED"), ("aborted", "ABORTED")],
    },
    Row {
        state: "ABORTED while it waited for its retry",
        after: &[
            "declared",
            "validated",
            "authorized 1",
            "started 1",
            "rolledBack, retry 2",
            "aborted",
        ],
        then: &[("rolledBack", "ROLLED_BACK"), ("rolledBack, retry 2", "ROLLED_BACK")],
    },
    Row {
        state: "AUTHORIZED 2",
        after: &[
            "declared",
            "validated",
            "authorized 1",
            "started 1",
            "rolledBack, retry 2",
            "authorized 2",
        ],
        then: &[("started 2", "EXECUTING"), ("aborted", "ABORTED")],
    },
    Row {
        state: "EXECUTING 2",
        after: &[
            "declared",
            "validated",
            "authorized 1",
            "started 1",
            "rolledBack, retry 2",
            "authorized 2",
            "started 2",
        ],
        then: &[
            ("committed", "EXECUTING"),
            ("aborted", "ABORTED"),
            ("rolledBack", "ROLLED_BACK"),
            ("rolledBack, retry 3", "ROLLED_BACK"),
        ],
    },
    // Nothing follows an end.
    Row { state: "FAILED", after: &["declared", "failed"], then: &[] },
    Row { state: "FAILED, validated", after: &["declared", "validated", "failed"], then: &[] },
    Row { state: "DENIED", after: &["declared", "validated", "denied"], then: &[] },
    Row {
        state: "DENIED before a retry",
        after: &[
            "declared",
            "validated",
            "authorized 1",
            "started 1",
            "rolledBack, retry 2",
            "denied",
        ],
        then: &[],
    },
    Row {
        state: "COMPLETED",
        after: &["declared", "validated", "authorized 1", "started 1", "committed", "completed"],
        then: &[],
    },
    Row {
        state: "ROLLED_BACK",
        after: &["declared", "validated", "authorized 1", "started 1", "rolledBack"],
        then: &[],
    },
    Row {
        state: "ROLLED_BACK, aborted",
        after: &["declared", "validated", "authorized 1", "started 1", "aborted", "rolledBack"],
        then: &[],
    },
];

fn reach(names: &[&str]) -> Option<CallState> {
    names.iter().fold(None, |state, name| Some(next(state, &event(name)).unwrap()))
}

#[test]
fn every_state_with_every_fact() {
    for Row { state, after, then } in TABLE {
        let here = reach(after);
        let terminal = here.as_ref().is_some_and(CallState::is_terminal);
        assert_eq!(terminal, then.is_empty(), "{state}: an end is where nothing follows");
        for (name, event) in events() {
            let allowed = then.iter().find(|(follower, _)| *follower == name);
            match (next(here.clone(), &event), allowed) {
                (Ok(found), Some((_, expected))) => {
                    assert_eq!(found.lifecycle().as_str(), *expected, "{state} + {name}");
                }
                (Err(error), None) => {
                    assert_eq!(error.event, event.name(), "{state} + {name}");
                    assert!(state.starts_with(error.state), "{state} + {name}: {error}");
                }
                (found, allowed) => panic!("{state} + {name}: {found:?}, table {allowed:?}"),
            }
        }
    }
}

/// The edges of the picture in the design, and the way back for a retry.
const EDGES: &[(Lifecycle, Lifecycle)] = {
    use Lifecycle::*;
    &[
        (Declared, Validated),
        (Declared, Failed),
        // People are asked, and agree: the call waits where it is.
        (Validated, Validated),
        (Validated, Failed),
        (Validated, Denied),
        (Validated, Authorized),
        (Authorized, Executing),
        (Authorized, Aborted),
        // The commit point: a fact, but no other state.
        (Executing, Executing),
        (Executing, Completed),
        (Executing, Aborted),
        (Executing, RolledBack),
        (Aborted, RolledBack),
        (RolledBack, Authorized),
        (RolledBack, Denied),
        (RolledBack, Aborted),
    ]
};

fn any_event() -> impl Strategy<Value = CallEvent> {
    prop_oneof![
        (0..events().len()).prop_map(|n| events().swap_remove(n).1),
        (0u32..5).prop_map(authorized),
        (0u32..5).prop_map(started),
        (0u32..5).prop_map(|attempt| rolled_back(Some(attempt))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Impossible facts are left out, as a journal would never hold them; the rest is a life.
    #[test]
    fn a_life_moves_along_the_edges_only(facts in prop::collection::vec(any_event(), 0..120)) {
        let mut state: Option<CallState> = None;
        let mut attempts = 0;
        for event in &facts {
            let Ok(after) = next(state.clone(), event) else { continue };
            if let Some(before) = &state {
                prop_assert!(!before.is_terminal());
                let edge = (before.lifecycle(), after.lifecycle());
                prop_assert!(EDGES.contains(&edge), "{edge:?}");
            }
            if let CallEvent::Authorized(decision) = event {
                prop_assert_eq!(decision.attempt, attempts + 1, "attempts are counted one by one");
                attempts = decision.attempt;
            }
            if event.leads_to().is_some() {
                prop_assert_eq!(event.leads_to(), Some(after.lifecycle()));
            }
            state = Some(after);
        }
    }

    #[test]
    fn folding_is_applying_one_by_one(facts in prop::collection::vec(any_event(), 0..60)) {
        let timed: Vec<_> = (0i64..).map(at).zip(&facts).collect();
        let folded = CallRecord::fold(execution(), timed.iter().copied());
        let mut record: Result<Option<CallRecord>, _> = Ok(None);
        for (time, event) in &timed {
            record = match (record, event) {
                (Ok(None), CallEvent::Declared(declared)) => {
                    Ok(Some(CallRecord::begin(execution(), *time, declared)))
                }
                (Ok(None), event) => next(None, event).map(|_| None),
                (Ok(Some(record)), event) => record.apply(*time, event).map(Some),
                (Err(error), _) => Err(error),
            };
        }
        prop_assert_eq!(folded, record);
    }

    #[test]
    fn the_record_agrees_with_its_state(facts in prop::collection::vec(any_event(), 0..120)) {
        let CallEvent::Declared(first) = declared() else { unreachable!() };
        let mut record = CallRecord::begin(execution(), at(0), &first);
        let mut count = 1;
        for (event, millis) in facts.iter().zip(1..) {
            let Ok(after) = record.clone().apply(at(millis), event) else { continue };
            count += 1;
            prop_assert_eq!(after.summary.state, after.state.lifecycle());
            prop_assert_eq!(after.summary.terminal, after.state.is_terminal());
            prop_assert_eq!((after.summary.events, after.summary.updated_at), (count, at(millis)));
            record = after;
        }
    }

    #[test]
    fn facts_survive_the_journal(event in any_event()) {
        let text = serde_json::to_string(&event).unwrap();
        prop_assert_eq!(serde_json::from_str::<CallEvent>(&text).unwrap(), event);
    }
}

/// The audit trail of a list of facts, one millisecond apart, as JSON.
fn audit(names: &[&str]) -> Vec<Option<Value>> {
    let mut record: Option<CallRecord> = None;
    let mut trail = Vec::new();
    for (name, millis) in names.iter().zip(0..) {
        let event = event(name);
        let now = match (record, &event) {
            (None, CallEvent::Declared(declared)) => {
                CallRecord::begin(execution(), at(millis), declared)
            }
            (Some(record), event) => record.apply(at(millis), event).unwrap(),
            (None, _) => panic!("a life begins with its declaration"),
        };
        let id = Digest::of(name.as_bytes());
        let event = AuditEvent::of(id, at(millis), &event, &now.summary);
        trail.push(event.map(|event| serde_json::to_value(event).unwrap()));
        record = Some(now);
    }
    trail
}

fn base(name: &str, millis: i64, state: &str, capabilities: &[&str]) -> Value {
    json!({
        "eventId": Digest::of(name.as_bytes()), "timestamp": START + millis, "toolId": "file.read",
        "toolVersion": "1.2.3", "executionId": execution(), "state": state, "userId": "agent:x",
        "capabilities": capabilities, "inputHash": Digest::of(b"input"),
    })
}

fn with(mut event: Value, more: &[(&str, Value)]) -> Value {
    for (name, value) in more {
        event[*name] = value.clone();
    }
    event
}

fn error(code: &str) -> Value {
    json!({"class": "ResourceError", "code": code, "message": "no more"})
}

#[test]
fn every_transition_has_its_audit_event() {
    let read: &[&str] = &["filesystem.read"];
    let output = json!(Digest::of(b"output"));
    let good = ["declared", "validated", "authorized 1", "started 1", "committed", "completed"];
    assert_eq!(
        audit(&good),
        [
            Some(base("declared", 0, "DECLARED", &[])),
            Some(base("validated", 1, "VALIDATED", &[])),
            Some(base("authorized 1", 2, "AUTHORIZED", read)),
            Some(base("started 1", 3, "EXECUTING", read)),
            None,
            Some(with(
                base("completed", 5, "COMPLETED", read),
                &[("duration", json!(5)), ("outputHash", output)],
            )),
        ]
    );
    assert_eq!(
        audit(&["declared", "failed"]).pop().unwrap().unwrap(),
        with(base("failed", 1, "FAILED", &[]), &[("duration", json!(1)), ("error", error("F"))])
    );
    assert_eq!(
        audit(&["declared", "validated", "denied"]).pop().unwrap().unwrap(),
        with(base("denied", 2, "DENIED", &[]), &[("duration", json!(2)), ("error", error("D"))])
    );
}

#[test]
fn failed_attempts_have_their_audit_events() {
    let read: &[&str] = &["filesystem.read"];
    let names = [
        "declared",
        "validated",
        "authorized 1",
        "started 1",
        "aborted",
        "rolledBack, retry 2",
        "authorized 2",
        "started 2",
        "rolledBack",
    ];
    let trail = audit(&names);
    assert_eq!(
        trail[4..],
        [
            Some(with(base("aborted", 4, "ABORTED", read), &[("error", error("A"))])),
            Some(with(
                base("rolledBack, retry 2", 5, "ROLLED_BACK", read),
                &[("duration", json!(5)), ("error", error("SHORT"))],
            )),
            Some(base("authorized 2", 6, "AUTHORIZED", read)),
            Some(base("started 2", 7, "EXECUTING", read)),
            Some(with(
                base("rolledBack", 8, "ROLLED_BACK", read),
                &[("duration", json!(8)), ("error", error("SHORT"))],
            )),
        ]
    );
}
