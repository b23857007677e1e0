//! The decision: one row for each denial, and what must hold for every book of grants.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input has failed")]

mod common;

use common::{HOUR, NOW, body, child, id, record, scope, signed, tool, who};
use countersign_model::Capability::{
    self, FilesystemExecute, FilesystemRead, FilesystemWrite, ProcessSpawn, StateRead, SystemTime,
};
use countersign_model::{
    Authorization, Denial, ErrorClass, GrantBody, GrantBook, GrantRecord, Need, Timestamp,
    authorize,
};
use proptest::prelude::*;

const FILE: &str = "/srv/app/a.txt";

fn need(capability: Capability, resource: &str) -> Need {
    Need::one(capability, resource)
}

/// `agent:x` calls `file.read`, which declares and uses one capability on one resource.
fn ask(book: &GrantBook, capability: Capability, resource: &str) -> Result<Authorization, Denial> {
    let needs = [need(capability, resource)];
    authorize(&[capability], &needs, &who("agent:x"), &tool(), book, NOW)
}

fn book(records: impl IntoIterator<Item = GrantRecord>) -> GrantBook {
    records.into_iter().collect()
}

fn read(n: u32, patterns: &[&str]) -> GrantBody {
    body(n, FilesystemRead, patterns)
}

fn changed(mut body: GrantBody, change: impl Fn(&mut GrantBody)) -> GrantRecord {
    change(&mut body);
    record(body)
}

fn revoked(body: GrantBody) -> GrantRecord {
    GrantRecord { revoked_at: Some(NOW), ..record(body) }
}

fn forged(body: GrantBody) -> GrantRecord {
    GrantRecord { genuine: false, ..record(body) }
}

#[test]
fn a_live_grant_in_scope_authorises() {
    let good = ask(&book([signed(read(1, &["/srv/app/**"]))]), FilesystemRead, FILE).unwrap();
    assert_eq!(good.grants, [id(1)]);
    assert_eq!(good.capabilities, [FilesystemRead]);
    assert_eq!(good.expires_at, Some(NOW.plus_millis(HOUR)));
    let of_tool = changed(read(1, &["**"]), |b| b.grantee = tool().into());
    assert!(ask(&book([of_tool]), FilesystemRead, FILE).is_ok());
}

/// A tree, or all hosts below a name, needs a grant for all of it, not for something in it.
#[test]
fn who_needs_everything_must_be_granted_everything() {
    let ask = |scope: &[&str], pattern: &str| {
        let needs = [Need::every(FilesystemRead, pattern)];
        let book = book([signed(read(1, scope))]);
        authorize(&[FilesystemRead], &needs, &who("agent:x"), &tool(), &book, NOW)
    };
    for good in ["/srv/app/**", "/srv/**", "**", "/srv/*/**", "/**"] {
        assert!(ask(&[good], "/srv/app/**").is_ok(), "{good}");
    }
    for bad in ["/srv/app", "/srv/app/*", "/srv/app/a/**", "/srv/app/**/*.txt", "/srv/b/**"] {
        let denial = ask(&[bad], "/srv/app/**").unwrap_err();
        assert_eq!(denial.code, "GRANT_OUT_OF_SCOPE", "{bad}");
        let hint = denial.into_failure().hint.unwrap();
        assert!(hint.contains("--scope '/srv/app/**'"), "{hint}");
    }
    assert!(ask(&["*.a.org"], "*.a.org").is_ok());
    for bad in ["?.a.org", "b.a.org"] {
        assert!(ask(&[bad], "*.a.org").is_err(), "{bad}");
    }
    assert!(ask(&["**"], "/srv/[a]/**").is_err(), "a pattern that cannot be read");
}

#[test]
fn nothing_needed_needs_nothing() {
    let free = authorize(&[], &[], &who("agent:x"), &tool(), &GrantBook::new(), NOW).unwrap();
    let nothing = Authorization { grants: vec![], capabilities: vec![], expires_at: None };
    assert_eq!(free, nothing);
}

#[test]
fn each_way_to_fail_has_its_code() {
    let mut root = read(8, &["/srv/**"]);
    root.grantee = "agent:m".parse().unwrap();
    let leaf = child(1, &root, "agent:x", &["/srv/**"]);
    let later = |millis| NOW.plus_millis(millis);
    let to = |who: &'static str| move |b: &mut GrantBody| b.grantee = who.parse().unwrap();
    let table = [
        ("GRANT_MISSING", vec![]),
        ("GRANT_MISSING", vec![changed(read(1, &["**"]), to("agent:y"))]),
        ("GRANT_MISSING", vec![changed(read(1, &["**"]), to("human:x"))]),
        ("GRANT_MISSING", vec![changed(read(1, &["**"]), to("tool:file.write"))]),
        ("GRANT_MISSING", vec![record(body(1, FilesystemWrite, &["**"]))]),
        ("GRANT_EXPIRED", vec![changed(read(1, &["**"]), |b| b.expires_at = NOW)]),
        ("GRANT_REVOKED", vec![revoked(read(1, &["**"]))]),
        ("GRANT_FORGED", vec![forged(read(1, &["**"]))]),
        ("GRANT_OUT_OF_SCOPE", vec![record(read(1, &["/srv/app/*.md"]))]),
        ("GRANT_OUT_OF_SCOPE", vec![record(read(1, &[]))]),
        ("GRANT_NOT_YET_VALID", vec![changed(read(1, &["**"]), |b| b.issued_at = later(5_001))]),
        // Chains.
        ("GRANT_MISSING", vec![record(leaf.clone())]),
        ("GRANT_REVOKED", vec![record(leaf.clone()), revoked(root.clone())]),
        ("GRANT_FORGED", vec![record(leaf.clone()), forged(root.clone())]),
        (
            "GRANT_EXPIRED",
            vec![record(leaf.clone()), changed(root.clone(), |b| b.expires_at = NOW)],
        ),
        (
            "GRANT_OUT_OF_SCOPE",
            vec![record(leaf.clone()), changed(root.clone(), |b| b.scope = scope(&["/srv/b"]))],
        ),
        (
            "GRANT_FORGED",
            vec![record(leaf.clone()), changed(root.clone(), |b| b.delegable = false)],
        ),
        ("GRANT_FORGED", vec![record(leaf.clone()), changed(root.clone(), to("agent:z"))]),
        (
            "GRANT_FORGED",
            vec![record(leaf.clone()), changed(root.clone(), |b| b.capability = StateRead)],
        ),
        ("GRANT_FORGED", vec![changed(leaf.clone(), |b| b.depth = 2), record(root.clone())]),
        ("GRANT_FORGED", vec![changed(leaf.clone(), |b| b.depth = 0), record(root.clone())]),
        ("GRANT_FORGED", vec![changed(leaf.clone(), |b| b.parent = None)]),
        ("GRANT_FORGED", vec![changed(leaf.clone(), |b| b.parent = Some(b.id))]),
    ];
    for (n, (code, records)) in table.into_iter().enumerate() {
        let denial = ask(&book(records), FilesystemRead, FILE).unwrap_err();
        assert_eq!(denial.code, code, "row {n}: {}", denial.reason);
        assert_eq!(denial.clone().into_failure().class, ErrorClass::AuthorizationError);
    }
}

#[test]
fn the_edges_of_time_are_exact() {
    let at = |issued: i64, expires: i64| {
        changed(read(1, &["**"]), |b| {
            (b.issued_at, b.expires_at) = (NOW.plus_millis(issued), NOW.plus_millis(expires));
        })
    };
    for (issued, expires, good) in
        [(0, 1, true), (0, 0, false), (5_000, 9_000, true), (5_001, 9_000, false)]
    {
        let decision = ask(&book([at(issued, expires)]), FilesystemRead, FILE);
        assert_eq!(decision.is_ok(), good, "{issued} {expires}");
    }
}

#[test]
fn what_the_tool_did_not_declare_is_denied_even_if_granted() {
    let all = book([record(read(1, &["**"])), record(body(2, FilesystemWrite, &["**"]))]);
    let needs = [need(FilesystemRead, FILE), need(FilesystemWrite, FILE)];
    let denial =
        authorize(&[FilesystemRead], &needs, &who("agent:x"), &tool(), &all, NOW).unwrap_err();
    assert_eq!((denial.code, denial.capability), ("CAPABILITY_UNDECLARED", FilesystemWrite));
    let failure = denial.into_failure();
    assert_eq!(
        failure.hint.unwrap(),
        "add `filesystem.write` to `requiredCapabilities` in its declaration"
    );
}

#[test]
fn a_declared_capability_needs_a_grant_even_when_nothing_is_named() {
    let required = [SystemTime, FilesystemRead];
    let decide = |records: &[GrantRecord]| {
        let book = book(records.iter().cloned());
        authorize(&required, &[need(FilesystemRead, FILE)], &who("agent:x"), &tool(), &book, NOW)
    };
    let (time, file) = (record(body(1, SystemTime, &["any"])), record(read(2, &["**"])));
    let denial = decide(std::slice::from_ref(&file)).unwrap_err();
    assert_eq!(
        (denial.capability, denial.resource, denial.code),
        (SystemTime, None, "GRANT_MISSING")
    );
    let good = decide(&[time, file.clone()]).unwrap();
    assert_eq!(
        (good.grants, good.capabilities),
        (vec![id(1), id(2)], vec![FilesystemRead, SystemTime])
    );
    let empty = record(body(1, SystemTime, &[]));
    assert_eq!(decide(&[empty, file]).unwrap_err().code, "GRANT_OUT_OF_SCOPE");
}

#[test]
fn prerequisites_are_asked_again_at_use_for_the_same_resource() {
    let git = "/usr/bin/git";
    let spawn = record(body(1, ProcessSpawn, &["/usr/bin/*"]));
    let execute = record(body(2, FilesystemExecute, &["/usr/bin/*"]));
    let read_it = record(read(3, &["/usr/**"]));
    let all = [spawn.clone(), execute.clone(), read_it.clone()];
    let good = ask(&book(all), ProcessSpawn, git).unwrap();
    assert_eq!((good.grants, good.capabilities), (vec![id(1), id(2), id(3)], vec![ProcessSpawn]));

    let denial = ask(&book([spawn.clone(), read_it.clone()]), ProcessSpawn, git).unwrap_err();
    assert_eq!((denial.capability, denial.code), (FilesystemExecute, "GRANT_MISSING"));
    assert!(denial.reason.contains("`filesystem.execute`, which `process.spawn` needs, on"));
    let elsewhere = record(read(3, &["/srv/**"]));
    let denial = ask(&book([spawn, execute, elsewhere]), ProcessSpawn, git).unwrap_err();
    assert_eq!((denial.capability, denial.code), (FilesystemRead, "GRANT_OUT_OF_SCOPE"));
}

#[test]
fn every_need_counts_by_itself() {
    let halves = book([record(read(1, &["/a/*"])), record(read(2, &["/b/*"]))]);
    let decide = |needs: &[Need]| {
        authorize(&[FilesystemRead], needs, &who("agent:x"), &tool(), &halves, NOW)
    };
    let both = [need(FilesystemRead, "/a/1"), need(FilesystemRead, "/b/1")];
    assert_eq!(decide(&both).unwrap().grants, [id(1), id(2)]);
    let third = [&both[..], &[need(FilesystemRead, "/c/1")]].concat();
    assert_eq!(decide(&third).unwrap_err().resource.as_deref(), Some("/c/1"));
}

#[test]
fn ancestors_are_part_of_the_authorisation_and_of_its_expiry() {
    let mut root = read(9, &["/srv/**"]);
    root.grantee = "agent:m".parse().unwrap();
    let leaf = child(1, &root, "agent:x", &["/srv/app/**"]);
    // A child that claims to outlive its parent does not.
    let long = changed(leaf, |b| b.expires_at = NOW.plus_millis(9 * HOUR));
    let good = ask(&book([record(root.clone()), long]), FilesystemRead, FILE).unwrap();
    assert_eq!(good.grants, [id(1), id(9)]);
    assert_eq!(good.expires_at, Some(root.expires_at));
}

#[test]
fn a_chain_counts_down_to_its_root_and_ends_at_depth_three() {
    let mut chain = vec![read(10, &["**"])];
    for n in 11..15 {
        chain.push(child(n, chain.last().unwrap(), "agent:x", &["**"]));
    }
    let judged = |length: usize| {
        let records = chain.iter().take(length).cloned();
        book(records.map(record)).live(&"agent:x".parse().unwrap(), NOW).count()
    };
    assert_eq!((judged(4), judged(5)), (4, 4));
}

#[test]
fn the_grant_that_lasts_longest_is_used() {
    let until =
        |n, hours: i64| changed(read(n, &["**"]), |b| b.expires_at = NOW.plus_millis(hours * HOUR));
    let good = ask(&book([until(1, 1), until(2, 3), until(3, 3)]), FilesystemRead, FILE).unwrap();
    assert_eq!((good.grants, good.expires_at), (vec![id(2)], Some(NOW.plus_millis(3 * HOUR))));
}

#[test]
fn the_nearest_miss_is_named_and_all_are_listed() {
    let records = [
        forged(read(1, &["**"])),
        record(read(2, &["/other/**"])),
        revoked(read(3, &["**"])),
        changed(read(4, &["**"]), |b| b.expires_at = NOW),
        changed(read(5, &["**"]), |b| b.issued_at = NOW.plus_millis(HOUR)),
    ];
    let codes = [
        "GRANT_NOT_YET_VALID",
        "GRANT_EXPIRED",
        "GRANT_REVOKED",
        "GRANT_OUT_OF_SCOPE",
        "GRANT_FORGED",
    ];
    for (gone, code) in codes.into_iter().enumerate() {
        let left = &records[..5 - gone];
        let denial = ask(&book(left.iter().cloned()), FilesystemRead, FILE).unwrap_err();
        assert_eq!((denial.code, denial.considered.len()), (code, left.len()));
    }
}

#[test]
fn a_denial_says_what_to_type() {
    let hint = |resource: &str| {
        ask(&GrantBook::new(), FilesystemRead, resource).unwrap_err().into_failure().hint.unwrap()
    };
    let command = "countersign grant issue --to agent:x --capability filesystem.read --scope ";
    assert_eq!(hint(FILE), format!("{command}'/srv/app/a.txt' --expires 1h"));
    assert_eq!(hint("/it's; rm [1]"), format!(r"{command}'/it'\''s; rm ?1?' --expires 1h"));
    assert_eq!(hint("/srv/../etc"), "name it without empty, `.` or `..` parts");

    let expired = changed(read(1, &["**"]), |b| b.expires_at = NOW);
    let failure = ask(&book([expired]), FilesystemRead, FILE).unwrap_err().into_failure();
    let reason = format!(
        "`agent:x` may not use `filesystem.read` on `{FILE}`: grant `{}` has expired",
        id(1)
    );
    assert_eq!(failure.message, reason);
    let considered = serde_json::json!([{"grant": id(1), "why": "has expired"}]);
    assert_eq!(failure.details.unwrap()["considered"], considered);
}

/// What the hint promises: with the command's grant, the same call is allowed.
#[test]
fn following_the_hints_leads_to_an_authorisation() {
    let mut grants = GrantBook::new();
    for n in 1.. {
        let Err(denial) = ask(&grants, ProcessSpawn, "/opt/[a] b/git") else { break };
        let hint = denial.clone().into_failure().hint.unwrap();
        let pattern = hint.split('\'').nth(1).unwrap();
        let issued = body(n, denial.capability, &[pattern]);
        let held = |c| grants.holds(&issued.grantee, c, NOW);
        countersign_model::check_issue(&issued, held, NOW).unwrap();
        grants.insert(record(issued));
        assert!(n <= 3, "{hint}");
    }
    assert_eq!(grants.len(), 3);
}

fn a_grant() -> impl Strategy<Value = GrantRecord> {
    let capability = prop::sample::select(vec![FilesystemRead, FilesystemWrite]);
    let patterns = prop::sample::subsequence(vec!["**", "/a/**", "/a/b", "/b/*", "k"], 0..3);
    let holder = prop::sample::select(vec!["agent:x", "agent:y", "tool:file.read"]);
    let grantor = prop::sample::select(vec!["agent:x", "agent:y"]);
    let parent = prop::option::of(0u32..8);
    let times = (-2i64..2, -1i64..3);
    let odd = (prop::bool::weighted(0.1), prop::bool::weighted(0.9), prop::bool::weighted(0.8));
    (0u32..8, capability, patterns, holder, grantor, parent, 0u8..3, times, odd).prop_map(
        |(n, capability, patterns, holder, grantor, parent, depth, (issued, expires), odd)| {
            let (is_revoked, genuine, delegable) = odd;
            let mut body = body(n, capability, &patterns);
            body.grantee = holder.parse().unwrap();
            body.grantor = who(grantor);
            body.parent = parent.map(id);
            body.depth = if parent.is_some() { depth } else { 0 };
            body.issued_at = NOW.plus_millis(issued * HOUR);
            body.expires_at = NOW.plus_millis(expires * HOUR);
            body.delegable = delegable;
            GrantRecord { revoked_at: is_revoked.then_some(NOW), genuine, ..record(body) }
        },
    )
}

fn a_call() -> impl Strategy<Value = Vec<Need>> {
    let capability = prop::sample::select(vec![FilesystemRead, FilesystemWrite]);
    let resource = prop::sample::select(vec!["/a/b", "/a/c/d", "/b/x", "k", "/a/../b"]);
    prop::collection::vec((capability, resource).prop_map(|(c, r)| need(c, r)), 0..3)
}

fn decide(records: &[GrantRecord], needs: &[Need]) -> Result<Authorization, Denial> {
    let required = [FilesystemRead, FilesystemWrite];
    authorize(&required, needs, &who("agent:x"), &tool(), &book(records.iter().cloned()), NOW)
}

/// Later records with the same id replace earlier ones; keep books free of that here.
fn a_book() -> impl Strategy<Value = Vec<GrantRecord>> {
    prop::collection::vec(a_grant(), 0..12).prop_map(|mut records| {
        records.sort_by_key(|record| record.grant.body.id);
        records.dedup_by_key(|record| record.grant.body.id);
        records
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..Default::default() })]

    #[test]
    fn revoking_never_authorises(records in a_book(), needs in a_call(), which in 0u32..8) {
        if decide(&records, &needs).is_err() {
            let mut book = book(records);
            book.revoke(&id(which), NOW);
            let required = [FilesystemRead, FilesystemWrite];
            prop_assert!(authorize(&required, &needs, &who("agent:x"), &tool(), &book, NOW).is_err());
        }
    }

    #[test]
    fn removing_a_grant_never_authorises(records in a_book(), needs in a_call(), which in 0u32..8) {
        if decide(&records, &needs).is_err() {
            let left: Vec<_> =
                records.into_iter().filter(|r| r.grant.body.id != id(which)).collect();
            prop_assert!(decide(&left, &needs).is_err());
        }
    }

    #[test]
    fn an_authorisation_ends_when_it_says(records in a_book(), needs in a_call()) {
        if let Ok(good) = decide(&records, &needs) {
            let end = good.expires_at.unwrap();
            prop_assert!(end > NOW && good.grants.is_sorted_by(|a, b| a < b));
            // Other grants may have become valid meanwhile, but these are no longer enough.
            let required = [FilesystemRead, FilesystemWrite];
            let then = authorize(&required, &needs, &who("agent:x"), &tool(), &book(records), end);
            prop_assert!(then.is_err() || then.is_ok_and(|then| then.grants != good.grants));
        }
    }

    /// Whatever the child claims, what it authorises its parent would have authorised too.
    #[test]
    fn a_delegated_grant_never_goes_beyond_its_parent(
        parent in a_grant(), leaf in a_grant(), resource in "/[ab]/[bc]", later in 0i64..3,
    ) {
        let mut parent = parent;
        parent.grant.body.id = id(90);
        parent.grant.body.grantee = "agent:m".parse().unwrap();
        (parent.grant.body.parent, parent.grant.body.depth) = (None, 0);
        let mut leaf = leaf;
        leaf.grant.body.grantor = who("agent:m");
        leaf.grant.body.grantee = "agent:x".parse().unwrap();
        (leaf.grant.body.parent, leaf.grant.body.depth) = (Some(id(90)), 1);
        let now = NOW.plus_millis(later * HOUR);
        let decide = |who_asks: &str, capability, book: &GrantBook| {
            let needs = [need(capability, &resource)];
            authorize(&[capability], &needs, &who(who_asks), &tool(), book, now)
        };
        let capability = leaf.grant.body.capability;
        let help = |n, to: &str| changed(read(n, &["**"]), |b| {
            b.grantee = to.parse().unwrap();
            b.expires_at = Timestamp::from_millis(i64::MAX);
        });
        let mut all = vec![parent, leaf];
        if capability == FilesystemWrite {
            // Both hold the prerequisite, so that only the chain decides.
            all.extend([help(91, "agent:m"), help(92, "agent:x")]);
        }
        let all = book(all);
        if let Ok(good) = decide("agent:x", capability, &all) {
            let parents = decide("agent:m", capability, &all);
            prop_assert!(parents.is_ok_and(|p| p.expires_at >= good.expires_at));
        }
    }
}
