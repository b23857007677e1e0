//! Exports: whole and partial ones verify; whatever is changed is found, and the entry named.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{
    body_lines, call_fact, check, checkpoint_of, completed, declared, entries, header, issued,
    journal, key, life, lines, rechain, revoked, signed_export, signer, stranger,
};
use countersign_journal::verify::Fault;
use countersign_journal::{CheckpointError, Entry, export};
use countersign_model::Digest;
use countersign_model::event::{CallEvent, Fact};

fn fault(export: &[u8]) -> Fault {
    check(export).expect_err("a tampered export must not verify")
}

fn named(export: &[u8]) -> u64 {
    let fault = fault(export);
    fault.entry().unwrap_or_else(|| panic!("no entry named: {fault}"))
}

#[test]
fn a_whole_export_verifies_with_its_key_and_no_other() {
    let journal = journal(40);
    let export = journal.export(0..40);
    let verified = check(&export).unwrap();
    assert_eq!((verified.first, verified.end, verified.size), (0, 40, 40));
    assert_eq!(verified.origin, "countersign/test");
    let other = export::verify(&mut &*export, stranger().verifier(), &[]).unwrap_err();
    assert!(matches!(other, Fault::Checkpoint(CheckpointError::OtherKey(_))), "{other}");
}

#[test]
fn every_range_verifies_and_is_cut_to_what_there_is() {
    let journal = journal(20);
    for first in 0..=20 {
        for end in first..=20 {
            let export = journal.export(first..end);
            let verified = check(&export).unwrap_or_else(|e| panic!("{first}..{end}: {e}"));
            assert_eq!((verified.first, verified.end, verified.size), (first, end, 20));
            assert!(export::verify(&mut &*export, stranger().verifier(), &[]).is_err());
        }
    }
    assert_eq!(check(&journal.export(5..u64::MAX)).unwrap().end, 20);
    assert_eq!(check(&journal.export(90..99)).unwrap().first, 20);
}

/// Each bit of each byte, header included, and every byte left out or written twice.
#[test]
fn every_changed_byte_is_noticed() {
    let journal = journal(5);
    for export in [journal.export(0..3), journal.export(2..4)] {
        check(&export).unwrap();
        for at in 0..export.len() {
            let mut changed = export.clone();
            for bit in 0..8 {
                changed[at] = export[at] ^ (1 << bit);
                assert!(check(&changed).is_err(), "byte {at} bit {bit}");
            }
            changed[at] = export[at];
            changed.remove(at);
            assert!(check(&changed).is_err(), "byte {at} left out");
            for byte in [export[at], b' ', b'\n', b'\r', b'0'] {
                let mut longer = export.clone();
                longer.insert(at, byte);
                assert!(check(&longer).is_err(), "{byte:#x} before byte {at}");
            }
        }
        for tail in [&b" "[..], b"\n", b"x", b"x\n"] {
            assert!(check(&[&export, tail].concat()).is_err(), "tail {tail:?}");
        }
    }
}

/// A changed byte inside an entry names that entry, wherever it stands and in every range.
#[test]
fn a_changed_entry_is_named() {
    let journal = journal(12);
    for range in [0..12, 3..12, 0..7, 4..6, 5..6, 0..1, 0..2] {
        let good = lines(&journal.export(range.clone()));
        for at in 1..good.len() {
            let place = range.start + at as u64 - 1;
            for byte in 0..good[at].len() - 1 {
                let mut changed = good.clone();
                changed[at][byte] ^= 1;
                let found = fault(&changed.concat());
                assert_eq!(found.entry(), Some(place), "{range:?} byte {byte}: {found}");
            }
        }
    }
}

#[test]
fn removed_doubled_swapped_and_cut_entries_are_named() {
    let journal = journal(12);
    let good = lines(&journal.export(0..12));
    for at in 1..=12 {
        let mut removed = good.clone();
        removed.remove(at);
        assert_eq!(named(&removed.concat()), at as u64 - 1, "removed");
        let mut doubled = good.clone();
        doubled.insert(at, good[at].clone());
        assert_eq!(named(&doubled.concat()), at as u64, "doubled");
        if at < 12 {
            let mut swapped = good.clone();
            swapped.swap(at, at + 1);
            assert_eq!(named(&swapped.concat()), at as u64 - 1, "swapped");
        }
        let cut = good[..at].concat();
        assert_eq!(fault(&cut), Fault::Truncated { found: at as u64 - 1, end: 12 });
        let half = [&cut[..], &good[at][..good[at].len() / 2]].concat();
        assert_eq!(fault(&half), Fault::Truncated { found: at as u64 - 1, end: 12 });
        let no_end = [&cut[..], &good[at][..good[at].len() - 1]].concat();
        assert_eq!(fault(&no_end), Fault::Truncated { found: at as u64 - 1, end: 12 });
    }
    assert!(matches!(fault(b""), Fault::Header(_)));
    assert!(matches!(fault(&good[0][..good[0].len() - 1]), Fault::Header(_)));
}

/// Without the key, a forger can renumber and chain anew as much as he likes.
#[test]
fn an_inserted_or_replaced_entry_is_found_although_the_chain_is_whole() {
    let journal = journal(12);
    let good = journal.export(0..12);
    let head = lines(&good)[0].clone();
    let note = journal.store_checkpoint();
    for at in 1..=12 {
        let mut forged = entries(&good);
        forged.insert(at, Entry { fact: issued(77), ..forged[at - 1].clone() });
        let forged = rechain(forged);
        let inserted = [head.clone(), body_lines(&forged)].concat();
        assert_eq!(fault(&inserted), Fault::Surplus { seq: 12, end: 12 });
        let announced = [header(0, 13, &note), body_lines(&forged)].concat();
        assert_eq!(fault(&announced), Fault::Surplus { seq: 12, end: 12 });
        // The same number of entries: one that was pushed out at the end.
        let shifted = [head.clone(), body_lines(&forged[..12])].concat();
        if at < 12 {
            assert_eq!(fault(&shifted), Fault::WrongRoot { last: 11 });
        }
        let stranger = signed_export(&forged, &stranger());
        assert!(matches!(fault(&stranger), Fault::Checkpoint(CheckpointError::OtherKey(_))));
    }
}

#[test]
fn a_forged_checkpoint_is_found() {
    let journal = journal(12);
    let good = journal.export(0..12);
    let all = entries(&good);
    let note = journal.store_checkpoint();
    let with =
        |note: &str, end: usize| fault(&[header(0, end, note), body_lines(&all[..end])].concat());
    assert_eq!(with(&note.replace("\n12\n", "\n11\n"), 11), CheckpointError::Forged.into());
    let shorter = checkpoint_of(&all[..11], &signer());
    let root = |note: &str| note.lines().nth(2).unwrap().to_owned();
    let edited = note.replace(&root(&note), &root(&shorter));
    assert_eq!(with(&edited, 12), CheckpointError::Forged.into());
    let foreign = checkpoint_of(&all[..11], &stranger());
    assert!(matches!(with(&foreign, 11), Fault::Checkpoint(CheckpointError::OtherKey(_))));
    // The stranger's signature under our key's id.
    let (text, line) = note.rsplit_once("\n\n").unwrap();
    let lie = shorter.rsplit_once("\n\n").unwrap().1;
    assert_ne!(line, lie);
    assert_eq!(with(&format!("{text}\n\n{lie}"), 12), CheckpointError::Forged.into());
    assert_eq!(with(text, 12), CheckpointError::Malformed.into());
    // A checkpoint of the right key, but of fewer entries than the export claims.
    assert_eq!(with(&shorter, 12), Fault::Surplus { seq: 11, end: 11 });
    // Other people's signatures beside ours do no harm.
    let cosigned = format!("{note}— witness/w AAAAAAA=\n");
    check(&[header(0, 12, &cosigned), body_lines(&all)].concat()).unwrap();
}

fn extends(export: &[u8], earlier: &str) -> Result<(), Fault> {
    export::verify(&mut &*export, &key(), &[earlier.to_owned()]).map(|_| ())
}

#[test]
fn a_checkpoint_kept_elsewhere_reveals_a_rollback() {
    let journal = journal(12);
    let all = entries(&journal.export(0..12));
    let kept = journal.store_checkpoint();
    for size in 1..12 {
        let cut = signed_export(&all[..size], &signer());
        check(&cut).expect("cut back and signed again: nothing is wrong with it in itself");
        let expected = Fault::Truncated { found: size as u64, end: 12 };
        assert_eq!(extends(&cut, &kept).unwrap_err(), expected);
    }
}

#[test]
fn a_checkpoint_kept_elsewhere_reveals_a_fork() {
    let journal = journal(12);
    let all = entries(&journal.export(0..12));
    for size in 1..=12 {
        let kept = checkpoint_of(&all[..size], &signer());
        extends(&journal.export(0..12), &kept).unwrap();
        let mut forged = all.clone();
        forged[size - 1].time = forged[size - 1].time.plus_millis(1);
        let forged = signed_export(&rechain(forged), &signer());
        check(&forged).unwrap();
        let found = extends(&forged, &kept).unwrap_err();
        assert_eq!(found, Fault::Forked { size: size as u64 });
        assert_eq!(found.entry(), Some(size as u64 - 1));
        assert!(extends(&journal.export(0..12), &checkpoint_of(&all, &stranger())).is_err());
    }
}

/// What a range cannot show it must not seem to show.
#[test]
fn a_partial_export_extends_only_what_it_can_prove() {
    let journal = journal(12);
    let all = entries(&journal.export(0..12));
    let kept: Vec<_> = (1..=12).map(|size| checkpoint_of(&all[..size], &signer())).collect();
    let mut forged = all.clone();
    forged[2].time = forged[2].time.plus_millis(1);
    let forged = rechain(forged);
    for first in 0..12u64 {
        for end in first..=12 {
            let export = journal.export(first..end);
            for size in 1..=12u64 {
                let provable = (first..=end).contains(&size) || size == 12;
                let expected = if provable { Ok(()) } else { Err(Fault::OutOfReach { size }) };
                assert_eq!(extends(&export, &kept[size as usize - 1]), expected);
                let lie = checkpoint_of(&forged[..size as usize], &signer());
                assert_eq!(extends(&export, &lie).is_ok(), provable && size < 3);
            }
        }
    }
}

#[test]
fn impossible_stories_are_found_inside_a_valid_chain() {
    let validated = || CallEvent::Validated {};
    let complete = || life(20).into_iter().map(|event| call_fact(20, event));
    let cases: Vec<(&str, Vec<Fact>)> = vec![
        ("no declaration", vec![call_fact(20, validated())]),
        (
            "validated twice",
            vec![declared(), validated(), validated()]
                .into_iter()
                .map(|e| call_fact(20, e))
                .collect(),
        ),
        ("never run", vec![call_fact(20, declared()), call_fact(20, completed())]),
        ("after the end", complete().chain([call_fact(20, validated())]).collect()),
        ("born again", complete().chain([call_fact(20, declared())]).collect()),
        ("home twice", vec![common::home()]),
        ("grant twice", vec![issued(9), issued(9)]),
        ("unknown grant", vec![revoked(9)]),
    ];
    for (what, facts) in cases {
        let story: Vec<_> = std::iter::once(common::home()).chain(facts).collect();
        let last = story.len() as u64 - 1;
        let blank = |fact| Entry { seq: 0, prev: Digest::ZERO, time: common::NOW, fact };
        let entries = rechain(story.into_iter().map(blank).collect());
        let found = fault(&signed_export(&entries, &signer()));
        assert!(matches!(found, Fault::Impossible { .. }), "{what}: {found}");
        assert_eq!(found.entry(), Some(last), "{what}: {found}");
        check(&signed_export(&entries[..entries.len() - 1], &signer())).expect(what);
    }
    let homeless = rechain(entries(&journal(4).export(0..4)).split_off(1));
    assert_eq!(named(&signed_export(&homeless, &signer())), 0);
}
