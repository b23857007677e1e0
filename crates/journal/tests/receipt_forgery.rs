//! Receipts that lie, by strangers without the key and by homes with it: each is refused, with the
//! code of its own lie.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use common::receipts::{
    CALL, Case, allowed, approver, asked, check_receipt, codes, consent, edited, forged, granted,
    other_home, payload_of, redeclared, refused, seal, shown, token, verified,
};
use common::{
    NOW, added, call_fact, key_id, key_revoked, removed, retired, revoked, signer, stranger,
};
use countersign_journal::receipt;
use countersign_model::effect::Payload;
use countersign_model::event::{Asked, Authorized, CallEvent, Completed, Fact, GrantEvent};
use countersign_model::{
    Answer, Capability, Consent, Decision, Digest, KeyEvent, KeyRecord, Verdict,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// One entry inside of the statement, changed in its bytes.
fn with_entry(part: &str, at: usize, change: impl Fn(&str) -> String) -> Vec<u8> {
    edited(&Case::approved().receipt(), |statement| {
        let place = &mut statement["predicate"][part][at]["entry"];
        let bytes = BASE64.decode(place.as_str().unwrap()).unwrap();
        *place = json!(BASE64.encode(change(&String::from_utf8(bytes).unwrap())));
    })
}

fn predicate(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    edited(&Case::approved().receipt(), |statement| change(&mut statement["predicate"]))
}

/// An answer that is changed, and signed again with the key of whoever gives it.
fn with_answer(change: impl Fn(&mut Consent)) -> Case {
    Case::approved().with(|event| match event {
        CallEvent::Approved(consent) => {
            let mut changed = consent.clone();
            change(&mut changed);
            Some(CallEvent::Approved(changed))
        }
        _ => None,
    })
}

fn resigned(mut consent: Consent, n: u64) -> Consent {
    consent.key = key_id(n);
    consent.sign(&token(n).signing_key()).unwrap()
}

fn with_authorized(change: impl Fn(&mut Authorized)) -> Case {
    Case::approved().with(|event| match event {
        CallEvent::Authorized(_) => {
            let mut changed = allowed();
            change(&mut changed);
            Some(CallEvent::Authorized(changed))
        }
        _ => None,
    })
}

/// A fact put in before the first answer.
fn before(event: fn(&CallEvent) -> bool, fact: Fact) -> Case {
    let mut case = Case::approved();
    let is_it = |fact: &Fact| matches!(fact, Fact::Call(call) if event(&call.event));
    let at = case.facts.iter().position(is_it).unwrap();
    case.facts.insert(at, fact);
    case
}

fn before_answers(fact: Fact) -> Case {
    before(|event| matches!(event, CallEvent::Approved(_)), fact)
}

#[test]
fn the_forge_itself_is_honest() {
    verified(&forged(&Case::approved()));
    verified(&edited(&Case::approved().receipt(), |_| {}));
}

#[test]
fn strangers_cannot_change_anything() {
    let file = Case::approved().receipt();
    let payload = payload_of(&file);
    refused("another signer", &seal(&payload, &stranger()), "OTHER_KEY");
    assert_eq!(codes(&receipt::verify(&file, &other_home()))[0], "OTHER_KEY");
    let other = receipt::verify(&file, stranger().verifier());
    let found = codes(&other);
    assert!(
        ["OTHER_KEY", "CHECKPOINT_INVALID", "HOME_MISMATCH"]
            .iter()
            .all(|code| found.iter().any(|c| c == code)),
        "{found:?}"
    );

    let envelope: Value = serde_json::from_slice(&file).unwrap();
    let mut unsigned = envelope.clone();
    unsigned["signatures"][0]["sig"] = json!(BASE64.encode([0; 64]));
    refused("no signature", unsigned.to_string().as_bytes(), "SIGNATURE_FORGED");
    unsigned["signatures"][0]["sig"] = json!("AAAA");
    refused("a short signature", unsigned.to_string().as_bytes(), "SIGNATURE_FORGED");
    let mut renamed = envelope.clone();
    renamed["payloadType"] = json!("application/json");
    refused("another type", renamed.to_string().as_bytes(), "STATEMENT_UNKNOWN");
    let mut doubled = envelope.clone();
    doubled["signatures"] = json!([envelope["signatures"][0], envelope["signatures"][0]]);
    refused("two signatures", doubled.to_string().as_bytes(), "RECEIPT_UNREADABLE");
    let mut none = envelope.clone();
    none["signatures"] = json!([]);
    refused("no signatures", none.to_string().as_bytes(), "RECEIPT_UNREADABLE");
    let mut more = envelope;
    more["note"] = json!("trust me");
    refused("an unknown field", more.to_string().as_bytes(), "RECEIPT_UNREADABLE");
}

#[test]
fn what_is_no_receipt_is_refused() {
    let file = Case::approved().receipt();
    for cut in [0, 1, file.len() / 2, file.len() - 2] {
        refused("cut", &file[..cut], "RECEIPT_UNREADABLE");
    }
    refused("something behind it", &[&file[..], b"{}"].concat(), "RECEIPT_UNREADABLE");
    refused("no JSON", b"receipt", "RECEIPT_UNREADABLE");
    refused("too long", &vec![b' '; receipt::MAX_RECEIPT + 1], "RECEIPT_UNREADABLE");
    refused("no statement", &seal(b"{}", &signer()), "RECEIPT_UNREADABLE");
    let other = edited(&file, |s| s["predicateType"] = json!("https://slsa.dev/provenance/v1"));
    refused("another predicate", &other, "STATEMENT_UNKNOWN");
    let other = edited(&file, |s| s["_type"] = json!("https://in-toto.io/Statement/v0.1"));
    refused("another statement", &other, "STATEMENT_UNKNOWN");
}

/// Nothing that nobody checks may stand in the file.
#[test]
fn unknown_fields_are_refused_everywhere() {
    let file = Case::approved().receipt();
    let places = [
        "",
        "/subject/0",
        "/subject/0/digest",
        "/predicate",
        "/predicate/summary",
        "/predicate/entries/0",
        "/predicate/basis/0",
        "/predicate/values/0",
    ];
    for place in places {
        let more = edited(&file, |s| s.pointer_mut(place).unwrap()["note"] = json!("trust me"));
        refused(place, &more, "RECEIPT_UNREADABLE");
    }
}

#[test]
fn every_entry_is_bound() {
    for at in 0..9 {
        let changed =
            with_entry("entries", at, |entry| entry.replacen("1770653101000", "1770653101001", 1));
        refused("a changed entry", &changed, "ENTRY_NOT_INCLUDED");
        let broken = with_entry("entries", at, |entry| entry.replacen('{', "[", 1));
        refused("a broken entry", &broken, "ENTRY_UNREADABLE");
        let dropped = predicate(|p| drop(p["entries"].as_array_mut().unwrap().remove(at)));
        let report = check_receipt(&dropped);
        let found = codes(&report);
        // The home's word is all there is against an answer that was not needed or an end that is
        // not shown; here every one is needed, and the summary and subjects tell the end.
        let known = ["CALL_IMPOSSIBLE", "SUMMARY_MISMATCH", "APPROVAL_INCOMPLETE"];
        assert!(found.iter().any(|code| known.contains(&code.as_str())), "{at}: {found:?}");
    }
    for at in 0..7 {
        let changed =
            with_entry("basis", at, |entry| entry.replacen("1770653101000", "1770653101001", 1));
        refused("a changed basis", &changed, "ENTRY_NOT_INCLUDED");
    }
}

#[test]
fn entries_stand_in_their_order_and_belong_to_the_call() {
    let swapped = predicate(|p| p["entries"].as_array_mut().unwrap().swap(3, 4));
    refused("swapped", &swapped, "ENTRY_ORDER");
    let doubled = predicate(|p| {
        let again = p["entries"][3].clone();
        p["entries"].as_array_mut().unwrap().insert(3, again);
    });
    refused("doubled", &doubled, "ENTRY_ORDER");
    let renumbered = predicate(|p| p["entries"][0]["seq"] = json!(3));
    refused("renumbered", &renumbered, "ENTRY_ORDER");
    let moved = predicate(|p| {
        let first = p["entries"].as_array_mut().unwrap().remove(0);
        p["basis"].as_array_mut().unwrap().push(first);
    });
    refused("moved", &moved, "ENTRY_FOREIGN");
    let path = predicate(|p| p["entries"][0]["path"] = p["entries"][1]["path"].clone());
    refused("another entry's path", &path, "ENTRY_NOT_INCLUDED");
    let path = predicate(|p| p["entries"][0]["path"] = json!([]));
    refused("no path", &path, "ENTRY_NOT_INCLUDED");

    // An entry of the same journal, with a good proof, but about another call, key or grant.
    let idle = {
        let mut case = Case::approved();
        case.facts.push(call_fact(CALL + 1, CallEvent::Validated {}));
        case
    };
    let journal = idle.journal();
    let honest = idle.receipt_from(&journal.store);
    let head = countersign_journal::Store::head(&journal.store).unwrap();
    for (part, seq) in
        [("entries", head.size - 1), ("basis", head.size - 1), ("basis", 6), ("basis", 8)]
    {
        let foreign = edited(&honest, |statement| {
            let store: &dyn countersign_journal::Store = &journal.store;
            store
                .visit_raw(seq..seq + 1, &mut |bytes| {
                    let path = store.inclusion_path(seq, head.size)?;
                    let proven = json!({"entry": BASE64.encode(bytes), "path": path, "seq": seq});
                    let list = statement["predicate"][part].as_array_mut().unwrap();
                    list.push(proven);
                    list.sort_by_key(|entry| entry["seq"].as_u64());
                    Ok(())
                })
                .unwrap();
        });
        refused(&format!("{part} {seq}"), &foreign, "ENTRY_FOREIGN");
    }
}

#[test]
fn another_checkpoint_is_noticed() {
    let mut longer = Case::approved();
    longer.facts.push(added("human:eve"));
    let note = longer.journal().store_checkpoint();
    let other = predicate(|p| p["checkpoint"] = json!(note));
    refused("a later checkpoint", &other, "ENTRY_NOT_INCLUDED");
    let note = stranger().sign(30, Digest::of(b"root"));
    let other = predicate(|p| p["checkpoint"] = json!(note));
    refused("a stranger's checkpoint", &other, "CHECKPOINT_INVALID");
    let cut = predicate(|p| p["checkpoint"] = json!("countersign/test\n"));
    refused("no checkpoint", &cut, "CHECKPOINT_INVALID");
}

#[test]
fn the_home_and_its_keys_are_named() {
    let missing = predicate(|p| drop(p["basis"].as_array_mut().unwrap().remove(0)));
    refused("no home", &missing, "HOME_MISSING");
    let mut case = Case::approved();
    case.facts[0] = Fact::Home(countersign_model::event::HomeEvent::Created {
        home: common::receipts::home_id(),
        journal_key: stranger().verifier().to_string(),
        authority_key: common::receipts::authority().verifier().to_string(),
    });
    refused("another's journal", &case.receipt(), "HOME_MISMATCH");
    let other = predicate(|p| p["summary"]["home"] = json!("019a7c3e-0000-7000-8000-0000000000ff"));
    refused("another home", &other, "SUMMARY_MISMATCH");
}

#[test]
fn claims_and_subjects_are_what_the_facts_say() {
    for (field, value) in [
        ("state", json!("FAILED")),
        ("ended", json!(false)),
        ("tool", json!("file.write")),
        ("version", json!("1.0.1")),
        ("principal", json!("agent:y")),
    ] {
        let lie = predicate(|p| p["summary"][field] = value);
        refused(field, &lie, "SUMMARY_MISMATCH");
    }
    let other = predicate(|p| p["summary"]["execution"] = json!(common::call_id(CALL + 1)));
    refused("another execution", &other, "ENTRY_FOREIGN");
    let file = Case::approved().receipt();
    for at in 0..3 {
        let lie =
            edited(&file, |s| s["subject"][at]["digest"]["sha256"] = json!(Digest::of(b"lie")));
        refused("a subject's digest", &lie, "SUBJECT_MISMATCH");
        let lie = edited(&file, |s| s["subject"][at]["name"] = json!("lie"));
        refused("a subject's name", &lie, "SUBJECT_MISMATCH");
        let lie = edited(&file, |s| drop(s["subject"].as_array_mut().unwrap().remove(at)));
        refused("a subject less", &lie, "SUBJECT_MISMATCH");
    }
}

#[test]
fn the_output_is_the_one_that_was_committed() {
    let other = Case::approved().with(|event| match event {
        CallEvent::Completed(completed) => {
            let output = Payload::of(b"other");
            Some(CallEvent::Completed(Completed { output, ..completed.clone() }))
        }
        _ => None,
    });
    refused("another output", &other.receipt(), "SUBJECT_MISMATCH");
}

#[test]
fn values_are_those_that_facts_pin() {
    let count = Case::approved().values.len();
    for at in 0..count {
        let lie = predicate(|p| p["values"][at]["content"] = json!(BASE64.encode("lie")));
        refused("a changed value", &lie, "VALUE_CHANGED");
    }
    let more = json!({"content": BASE64.encode("lie"), "digest": Digest::of(b"lie")});
    let surplus = predicate(|p| p["values"].as_array_mut().unwrap().push(more));
    refused("a value that nothing pins", &surplus, "VALUE_UNPINNED");
    let twice = predicate(|p| {
        let again = p["values"][0].clone();
        p["values"].as_array_mut().unwrap().push(again);
    });
    refused("a value twice", &twice, "VALUE_UNPINNED");
}

/// A home that shows approvers one thing and runs another.
#[test]
fn what_was_shown_is_what_ran() {
    let other_input = Case::approved().with(|event| {
        matches!(event, CallEvent::Declared(_))
            .then(|| redeclared(|it| it.input = Payload::of(b"[]")))
    });
    refused("another input", &other_input.receipt(), "VALUE_CONTRADICTS");
    let other_tool = Case::approved().with(|event| {
        matches!(event, CallEvent::Declared(_))
            .then(|| redeclared(|it| it.declaration = Digest::of(b"other")))
    });
    refused("another declaration", &other_tool.receipt(), "VALUE_CONTRADICTS");
    let fewer = Case::approved().with(|event| match event {
        CallEvent::Asked(asked) => Some(CallEvent::Asked(Asked { approvers: 1, ..asked.clone() })),
        _ => None,
    });
    refused("fewer people", &fewer.receipt(), "VALUE_CONTRADICTS");
}

#[test]
fn answers_are_signed_by_those_who_may() {
    let later = |consent: &mut Consent| consent.at = consent.at.plus_millis(1);
    refused("another time", &with_answer(later).receipt(), "ANSWER_FORGED");
    let reworded = |consent: &mut Consent| consent.reason = None;
    refused("another reason", &with_answer(reworded).receipt(), "ANSWER_FORGED");
    let swapped = |consent: &mut Consent| consent.key = key_id(2);
    refused("another's key", &with_answer(swapped).receipt(), "APPROVER_MISMATCH");
    let stolen = |c: &mut Consent| *c = resigned(c.clone(), 2);
    refused("signed with another's key", &with_answer(stolen).receipt(), "APPROVER_MISMATCH");
    let unknown = |c: &mut Consent| *c = resigned(c.clone(), 77);
    refused("a key that was never made", &with_answer(unknown).receipt(), "KEY_UNKNOWN");
    let dropped = predicate(|p| drop(p["basis"].as_array_mut().unwrap().remove(4)));
    refused("without its key", &dropped, "KEY_UNKNOWN");
}

type Change = fn(&mut Consent);

/// Answers that the fold refuses as well: no honest home could write them down.
#[test]
fn answers_are_to_the_question_in_time_and_by_different_people() {
    let table: [(&str, Change, &str); 4] = [
        (
            "no",
            |c| *c = resigned(Consent { answer: Answer::No, ..c.clone() }, 1),
            "ANSWER_MISMATCH",
        ),
        (
            "other",
            |c| {
                *c = resigned(Consent { subject: Digest::of(b"x"), ..c.clone() }, 1);
            },
            "ANSWER_MISMATCH",
        ),
        (
            "late",
            |c| *c = resigned(Consent { at: shown().expires_at, ..c.clone() }, 1),
            "ANSWER_LATE",
        ),
        ("twice", |c| *c = consent("human:bob", 2), "APPROVAL_TWICE"),
    ];
    for (what, change, code) in table {
        let file = forged(&with_answer(change));
        refused(what, &file, code);
        refused(what, &file, "CALL_IMPOSSIBLE");
    }
    let three = Case::approved().with(|event| {
        let CallEvent::Asked(asked) = event else { return None };
        Some(CallEvent::Asked(Asked { approvers: 3, ..asked.clone() }))
    });
    refused("too few", &forged(&three), "APPROVAL_INCOMPLETE");
}

#[test]
fn nobody_answers_for_themselves_and_no_machine_answers() {
    let own = Case::approved().with(|event| {
        matches!(event, CallEvent::Declared(_))
            .then(|| redeclared(|it| it.chain = vec!["human:bob".parse().unwrap()]))
    });
    refused("who asked through others", &own.receipt(), "APPROVAL_OWN");
    let machine =
        with_answer(|c| *c = resigned(Consent { by: "agent:x".parse().unwrap(), ..c.clone() }, 1));
    refused("a machine", &machine.receipt(), "APPROVER_NOT_HUMAN");
}

#[test]
fn keys_are_good_when_they_sign() {
    refused("revoked", &before_answers(key_revoked(1)).receipt(), "KEY_REVOKED");
    let late = before(|event| matches!(event, CallEvent::Authorized(_)), key_revoked(1));
    refused("revoked before it counted", &late.receipt(), "KEY_REVOKED");
    refused("removed", &before_answers(removed("human:ada")).receipt(), "PRINCIPAL_UNKNOWN");
    refused("retired", &before_answers(retired(1, 10)).receipt(), "KEY_EXPIRED");
    verified(&before_answers(retired(1, 11)).receipt());

    let replace = |n: u64, key: Fact| {
        let mut case = Case::approved();
        let of = |fact: &Fact| matches!(fact, Fact::Key(KeyEvent::Created { key, .. }) if key.id == key_id(n));
        let at = case.facts.iter().position(of).unwrap();
        case.facts[at] = key;
        case
    };
    let made = |change: &dyn Fn(&mut KeyRecord), by: &countersign_journal::NoteSigner| {
        let Fact::Key(KeyEvent::Created { mut key, .. }) = approver(1, "human:ada") else {
            panic!()
        };
        change(&mut key);
        let signature = key.sign(by.signing_key()).unwrap();
        Fact::Key(KeyEvent::Created { key, signature })
    };
    let authority = common::receipts::authority();
    let strange = made(&|_| {}, &stranger());
    refused("not the home's", &replace(1, strange).receipt(), "KEY_FORGED");
    let calls = made(&|key| key.scopes = [countersign_model::KeyScope::Call].into(), &authority);
    refused("for calls only", &replace(1, calls).receipt(), "KEY_SCOPE_MISSING");
    let swapped = made(&|key| key.verifier = token(2).verifier(), &authority);
    refused("swapped", &replace(1, swapped).receipt(), "ANSWER_FORGED");
}

#[test]
fn grants_are_the_homes_in_force_and_enough() {
    let mut case = Case::approved();
    let at = case.facts.iter().position(|fact| matches!(fact, Fact::Grant(_))).unwrap();
    let Fact::Grant(GrantEvent::Issued { mut grant }) = granted(1) else { panic!("no grant") };
    grant.body.depth = 1;
    case.facts[at] = Fact::Grant(GrantEvent::Issued { grant: grant.clone() });
    refused("changed", &case.receipt(), "GRANT_FORGED");
    case.facts[at] = common::issued(1);
    refused("signed with the journal's key", &case.receipt(), "GRANT_FORGED");
    grant.body.depth = 0;
    grant.body.expires_at = NOW;
    let ended =
        countersign_model::Grant::sign(grant.body, common::receipts::authority().signing_key());
    case.facts[at] = Fact::Grant(GrantEvent::Issued { grant: ended.unwrap() });
    refused("expired", &case.receipt(), "GRANT_INSUFFICIENT");
    refused("none", &with_authorized(|it| it.grants.clear()).receipt(), "GRANT_INSUFFICIENT");
    let more = |it: &mut Authorized| it.capabilities.push(Capability::FilesystemWrite);
    refused("more", &with_authorized(more).receipt(), "GRANT_INSUFFICIENT");
    refused("revoked", &before_answers(revoked(1)).receipt(), "GRANT_REVOKED");
    let dropped = predicate(|p| drop(p["basis"].as_array_mut().unwrap().remove(6)));
    refused("without its grant", &dropped, "GRANT_MISSING");
    let mut after = Case::approved();
    after.facts.push(revoked(1));
    verified(&after.receipt());
}

#[test]
fn verdicts_are_obeyed() {
    let decide = |decision| {
        move |it: &mut Authorized| {
            let verdict = it.verdict.take().unwrap();
            it.verdict = Some(Verdict { decision, ..verdict });
        }
    };
    refused("block", &with_authorized(decide(Decision::Block)).receipt(), "VERDICT_IGNORED");
    verified(&with_authorized(decide(Decision::Allow)).receipt());
    // Rules that asked for more when the call ran than when people were asked.
    let demand = |approvers| {
        move |it: &mut Authorized| {
            let verdict = it.verdict.take().unwrap();
            it.verdict = Some(Verdict { approvers, ..verdict });
        }
    };
    refused("a third", &with_authorized(demand(3)).receipt(), "VERDICT_IGNORED");
    verified(&with_authorized(demand(2)).receipt());
    verified(&with_authorized(demand(1)).receipt());
    let mut unasked = with_authorized(|it| it.approval = None);
    let is_about_people = |fact: &Fact| {
        let Fact::Call(call) = fact else { return false };
        matches!(call.event, CallEvent::Asked(_) | CallEvent::Approved(_))
    };
    unasked.facts.retain(|fact| !is_about_people(fact));
    refused("nobody asked", &unasked.receipt(), "VERDICT_IGNORED");
    let other = with_authorized(|it| it.approval = Some(Digest::of(b"other")));
    refused("another approval", &forged(&other), "APPROVAL_MISMATCH");
    let none = Case::approved().with(|event| matches!(event, CallEvent::Approved(_)).then(asked));
    refused("an answer less", &forged(&none), "APPROVAL_INCOMPLETE");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever byte of what was signed, or of the signature, is changed: it never verifies.
    #[test]
    fn no_flipped_byte_verifies(at in 0usize..100_000, bit in 0u8..8) {
        let file = approved_receipt();
        let mut envelope: Value = serde_json::from_slice(file).unwrap();
        let places = ["/payload", "/signatures/0/sig"];
        let place = envelope.pointer_mut(places[usize::from(at % 10 == 0)]).unwrap();
        let mut bytes = BASE64.decode(place.as_str().unwrap()).unwrap();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        *place = json!(BASE64.encode(bytes));
        let report = check_receipt(envelope.to_string().as_bytes());
        prop_assert!(!report.is_verified());
        prop_assert!(!report.problems.is_empty());
    }

    /// The same with the home's own signature on top: the proofs still tell.
    #[test]
    fn no_flipped_byte_of_an_entry_verifies_even_if_it_is_signed_again(
        part in 0usize..2, at in 0usize..9, byte in 0usize..10_000, bit in 0u8..7,
    ) {
        let part = ["entries", "basis"][part];
        let changed = edited(approved_receipt(), |statement| {
            let list = statement["predicate"][part].as_array_mut().unwrap();
            let at = at % list.len();
            let mut bytes = BASE64.decode(list[at]["entry"].as_str().unwrap()).unwrap();
            let byte = byte % bytes.len();
            bytes[byte] ^= 1 << bit;
            list[at]["entry"] = json!(BASE64.encode(bytes));
        });
        prop_assert!(!check_receipt(&changed).is_verified());
    }
}

fn approved_receipt() -> &'static [u8] {
    static FILE: std::sync::LazyLock<Vec<u8>> =
        std::sync::LazyLock::new(|| Case::approved().receipt());
    &FILE
}
