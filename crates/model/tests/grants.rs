//! Grants: the signature binds every field; issuing and delegating obey their rules.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input has failed")]

mod common;

use common::{HOUR, NOW, body, child, id, key, record, scope, signed, who};
use countersign_model::issue::{MAX_DEPTH, MAX_LIFETIME_MILLIS};
use countersign_model::{
    Capability, Delegation, Failure, Grant, GrantBody, GrantBook, Timestamp, check_issue, delegate,
};
use ed25519_dalek::SigningKey;
use proptest::prelude::*;

/// Pins the signing contract: if this literal changes, every grant ever signed is worthless.
#[test]
fn the_signature_contract_is_pinned() {
    let root = body(1, Capability::FilesystemRead, &["/srv/app/**"]);
    let grant = Grant::sign(child(2, &root, "tool:file.read", &["/srv/app/*"]), &key()).unwrap();
    assert_eq!(
        serde_json::to_string(&grant).unwrap(),
        concat!(
            r#"{"id":"019a7c3e-0000-7000-8000-000000000002","capability":"filesystem.read","#,
            r#""grantee":"tool:file.read","grantor":"agent:x","scope":["/srv/app/*"],"#,
            r#""issuedAt":1770649501000,"expiresAt":1770656641000,"delegable":true,"#,
            r#""parent":"019a7c3e-0000-7000-8000-000000000001","depth":1,"#,
            r#""signature":"1a2b0ade44540cf7e97746cbd7105e5107931e31e23b03b3d90992955c6bd840"#,
            r#"e23d8bdf1d98c427b660ae70e4f4f8d55838538e86b0c5cb49f6987f199dad0a"}"#,
        )
    );
}

#[test]
fn grants_round_trip_and_refuse_unknown_or_unsigned_fields() {
    let grant = signed(body(1, Capability::StateRead, &["a"])).grant;
    let json = serde_json::to_value(&grant).unwrap();
    assert!(json.get("parent").is_none());
    let read: Grant = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(read, grant);
    read.verify(&key().verifying_key()).unwrap();
    let with = |field: &str, value: serde_json::Value| {
        let mut json = json.clone();
        json[field] = value;
        serde_json::from_value::<Grant>(json)
    };
    assert!(with("note", "extra".into()).is_err());
    assert!(with("signature", grant.signature.to_string().to_uppercase().into()).is_err());
    assert!(with("signature", "00".into()).is_err());
    assert!(with("depth", 256.into()).is_err());
    assert!(with("capability", "filesystem".into()).is_err());
}

#[test]
fn changing_any_field_breaks_the_signature() {
    let root = body(1, Capability::FilesystemRead, &["/srv/**"]);
    let genuine = Grant::sign(child(2, &root, "agent:y", &["/srv/a"]), &key()).unwrap();
    let changes: [fn(&mut GrantBody); 14] = [
        |b| b.id = id(3),
        |b| b.capability = Capability::FilesystemWrite,
        |b| b.grantee = "agent:z".parse().unwrap(),
        |b| b.grantee = "human:y".parse().unwrap(),
        |b| b.grantor = who("human:eve"),
        |b| b.scope = scope(&["/srv/b"]),
        |b| b.scope = scope(&["/srv/a", "/srv/b"]),
        |b| b.scope = scope(&[]),
        |b| b.issued_at = b.issued_at.plus_millis(1),
        |b| b.expires_at = b.expires_at.plus_millis(1),
        |b| b.delegable = !b.delegable,
        |b| b.parent = Some(id(9)),
        |b| b.parent = None,
        |b| b.depth = 0,
    ];
    genuine.verify(&key().verifying_key()).unwrap();
    for (n, change) in changes.iter().enumerate() {
        let mut grant = genuine.clone();
        change(&mut grant.body);
        let failure = grant.verify(&key().verifying_key()).unwrap_err();
        assert_eq!(failure.code, "GRANT_FORGED", "change {n}");
    }
}

#[test]
fn another_key_or_domain_does_not_verify() {
    let grant = signed(body(1, Capability::StateRead, &["a"])).grant;
    let other = SigningKey::from_bytes(&[8; 32]).verifying_key();
    assert_eq!(grant.verify(&other).unwrap_err().code, "GRANT_FORGED");
    // The same key over the same JSON without the domain line is another statement.
    let json = countersign_model::digest::canonical_json(&grant.body).unwrap();
    let bare = ed25519_dalek::Signer::sign(&key(), &json).to_bytes();
    let signature = countersign_model::GrantSignature::from_bytes(bare);
    let replayed = Grant { signature, ..grant };
    assert!(replayed.verify(&key().verifying_key()).is_err());
}

/// Canonical JSON has doubles only: such moments would share a signature with their neighbours.
#[test]
fn moments_without_an_exact_number_are_not_signed() {
    let mut far = body(1, Capability::StateRead, &["a"]);
    far.expires_at = Timestamp::from_millis(1 << 53);
    assert_eq!(Grant::sign(far.clone(), &key()).unwrap_err().code, "GRANT_UNSIGNABLE");
    assert_eq!(record(far).grant.verify(&key().verifying_key()).unwrap_err().code, "GRANT_FORGED");
}

fn issue(change: impl Fn(&mut GrantBody), held: &[Capability]) -> Result<(), Failure> {
    let mut body = body(1, Capability::ProcessSpawn, &["/usr/bin/git"]);
    change(&mut body);
    check_issue(&body, |capability| held.contains(&capability), NOW)
}

#[test]
fn issuing_obeys_its_rules() {
    use Capability::{FilesystemExecute, FilesystemRead};
    let all = [FilesystemRead, FilesystemExecute];
    let at = |millis| NOW.plus_millis(millis);
    issue(|_| (), &all).unwrap();
    issue(|b| (b.issued_at, b.expires_at) = (NOW, at(MAX_LIFETIME_MILLIS)), &all).unwrap();
    let code = |change: &dyn Fn(&mut GrantBody), held| issue(change, held).unwrap_err().code;
    assert_eq!(code(&|b| b.scope = scope(&[]), &all), "GRANT_SCOPE_EMPTY");
    assert_eq!(code(&|b| b.expires_at = NOW, &all), "GRANT_EXPIRED");
    assert_eq!(code(&|b| b.expires_at = at(MAX_LIFETIME_MILLIS + 1), &all), "GRANT_TOO_LONG");
    assert_eq!(code(&|b| b.issued_at = at(-MAX_LIFETIME_MILLIS), &all), "GRANT_TOO_LONG");
    assert_eq!(code(&|b| b.issued_at = at(5_001), &all), "GRANT_NOT_YET_VALID");
    assert_eq!(code(&|b| b.depth = 1, &all), "GRANT_DEPTH_INVALID");
    assert_eq!(code(&|b| b.parent = Some(id(9)), &all), "GRANT_DEPTH_INVALID");
    assert_eq!(code(&|b| b.depth = 4, &all), "GRANT_TOO_DEEP");
    for held in [&[][..], &[FilesystemRead], &[FilesystemExecute]] {
        assert_eq!(code(&|_| (), held), "GRANT_PREREQUISITE_MISSING", "{held:?}");
    }
    let failure = issue(|_| (), &[FilesystemRead]).unwrap_err();
    let message = "`process.spawn` needs `filesystem.execute`, which `agent:x` does not hold";
    assert_eq!(failure.message, message);
    assert!(failure.hint.unwrap().contains("grant `filesystem.execute` to `agent:x` first"));
}

fn asked<'a>(by: &'a countersign_model::Principal, patterns: &[&str]) -> Delegation<'a> {
    Delegation {
        id: id(2),
        by,
        to: "agent:y".parse().unwrap(),
        scope: scope(patterns),
        expires_at: NOW.plus_millis(HOUR / 2),
        delegable: true,
    }
}

#[test]
fn delegating_narrows_and_shortens() {
    let by = who("agent:x");
    let parent = record(body(1, Capability::StateRead, &["/srv/**", "keys/*"])).grant;
    let child = delegate(&parent, asked(&by, &["/srv/app/**", "keys/a"]), NOW).unwrap();
    assert_eq!(
        (child.parent, child.depth, child.capability),
        (Some(id(1)), 1, Capability::StateRead)
    );
    assert_eq!((child.grantor, child.issued_at), (by.clone(), NOW));

    let refused = |change: &dyn Fn(&mut GrantBody), asked| {
        let mut parent = parent.clone();
        change(&mut parent.body);
        delegate(&parent, asked, NOW).unwrap_err().code
    };
    let (good, eve) = (asked(&by, &["keys/a"]), who("agent:eve"));
    let until = |expires_at| Delegation { expires_at, ..good.clone() };
    assert_eq!(refused(&|_| (), asked(&eve, &["keys/a"])), "GRANT_NOT_YOURS");
    let to_tool = |b: &mut GrantBody| b.grantee = "tool:a.b".parse().unwrap();
    assert_eq!(refused(&to_tool, good.clone()), "GRANT_NOT_YOURS");
    assert_eq!(refused(&|b| b.delegable = false, good.clone()), "GRANT_NOT_DELEGABLE");
    assert_eq!(refused(&|b| b.depth = MAX_DEPTH, good.clone()), "GRANT_TOO_DEEP");
    assert_eq!(refused(&|_| (), asked(&by, &["keys/**"])), "GRANT_WIDER");
    assert_eq!(refused(&|_| (), asked(&by, &["keys/a", "**"])), "GRANT_WIDER");
    assert_eq!(refused(&|_| (), asked(&by, &[])), "GRANT_SCOPE_EMPTY");
    assert_eq!(refused(&|_| (), until(parent.body.expires_at)), "GRANT_OUTLIVES_PARENT");
    assert_eq!(refused(&|_| (), until(NOW)), "GRANT_EXPIRED");
}

#[test]
fn three_hands_are_enough() {
    let by = who("agent:x");
    let mut parent = record(body(1, Capability::StateRead, &["**"])).grant;
    for depth in 1..=3 {
        let to = "agent:x".parse().unwrap();
        let expires_at = parent.body.expires_at.plus_millis(-1);
        let asked = Delegation { to, expires_at, ..asked(&by, &["**"]) };
        parent.body = delegate(&parent, asked, NOW).unwrap();
        assert_eq!(parent.body.depth, depth);
    }
    let failure = delegate(&parent, asked(&by, &["**"]), NOW).unwrap_err();
    assert_eq!(failure.code, "GRANT_TOO_DEEP");
}

#[test]
fn a_book_delegates_only_from_what_is_good_now() {
    let by = who("agent:x");
    let mut book = GrantBook::from_iter([record(body(1, Capability::StateRead, &["a/**"]))]);
    assert!(book.delegate(&id(1), asked(&by, &["a/b"]), NOW).is_ok());
    let unknown = book.delegate(&id(9), asked(&by, &["a/b"]), NOW).unwrap_err();
    assert_eq!(unknown.code, "GRANT_MISSING");
    book.revoke(&id(1), NOW);
    let revoked = book.delegate(&id(1), asked(&by, &["a/b"]), NOW).unwrap_err();
    assert_eq!(revoked.code, "GRANT_REVOKED");
    let eve = who("agent:eve");
    let stranger = book.delegate(&id(1), asked(&eve, &["a/b"]), NOW).unwrap_err();
    assert_eq!(stranger.code, "GRANT_NOT_YOURS");
}

#[test]
fn a_book_finds_subtrees_and_live_grants() {
    let root = body(1, Capability::StateRead, &["**"]);
    let (left, right) = (child(2, &root, "agent:y", &["a"]), child(3, &root, "agent:z", &["b"]));
    let leaf = child(4, &left, "agent:y", &["a"]);
    let all = [&root, &left, &right, &leaf].map(|b| record(b.clone()));
    let mut book: GrantBook = all.iter().cloned().collect();
    assert_eq!(book.len(), 4);
    assert_eq!(book.subtree(&id(1)).into_iter().collect::<Vec<_>>(), [id(2), id(3), id(4)]);
    assert_eq!(book.subtree(&id(3)).len(), 0);

    let y = "agent:y".parse().unwrap();
    assert_eq!(book.live(&y, NOW).count(), 2);
    assert!(book.holds(&y, Capability::StateRead, NOW));
    assert!(!book.holds(&y, Capability::StateWrite, NOW));
    assert!(book.revoke(&id(1), NOW) && !book.revoke(&id(1), NOW) && !book.revoke(&id(9), NOW));
    assert_eq!(book.live(&y, NOW).count(), 0);
    // Reading the same grant again does not bring it back.
    let old = book.insert(all[0].clone()).unwrap();
    assert_eq!(old.revoked_at, Some(NOW));
    assert_eq!(book.get(&id(1)).unwrap().revoked_at, Some(NOW));
}

#[test]
fn a_replaced_grant_leaves_no_trace_in_the_index() {
    let mut book = GrantBook::from_iter([record(body(1, Capability::StateRead, &["a"]))]);
    let mut other = body(1, Capability::StateWrite, &["a"]);
    other.grantee = "agent:y".parse().unwrap();
    book.insert(record(other));
    assert_eq!(book.live(&"agent:x".parse().unwrap(), NOW).count(), 0);
    assert!(book.holds(&"agent:y".parse().unwrap(), Capability::StateWrite, NOW));
}

#[test]
fn a_ring_of_parents_has_an_end() {
    let ring = |n, parent| GrantBody {
        parent: Some(id(parent)),
        depth: 1,
        ..body(n, Capability::StateRead, &["a"])
    };
    let book = GrantBook::from_iter([ring(1, 2), ring(2, 1), ring(3, 3)].map(record));
    assert_eq!(book.subtree(&id(1)).into_iter().collect::<Vec<_>>(), [id(2)]);
    assert_eq!(book.subtree(&id(3)).len(), 0);
    assert_eq!(book.live(&"agent:x".parse().unwrap(), NOW).count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    /// Whatever byte of the stored grant is changed, it is refused or no longer verifies.
    #[test]
    fn flipping_a_byte_of_the_stored_grant_is_noticed(place in any::<prop::sample::Index>(), bit in 0u8..8) {
        let root = body(1, Capability::FilesystemRead, &["/srv/**"]);
        let grant = Grant::sign(child(2, &root, "agent:y", &["/srv/a"]), &key()).unwrap();
        let mut bytes = serde_json::to_vec(&grant).unwrap();
        let at = place.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(changed) = serde_json::from_slice::<Grant>(&bytes) {
            // An upper-case id is the same id; only such a spelling may still verify.
            prop_assert!(changed == grant || changed.verify(&key().verifying_key()).is_err());
        }
    }
}
