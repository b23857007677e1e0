//! A genuine export, edited: a byte changed, lines removed, doubled, swapped, the tail cut. It may
//! verify only when every entry in it is still the entry that was written.
#![no_main]

use countersign_fuzz::{Original, key};
use countersign_journal::export;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
enum Edit {
    Set(u16, u8),
    Insert(u16, Vec<u8>),
    Remove(u16, u8),
    Cut(u16),
    DropLine(u8),
    DoubleLine(u8),
    SwapLines(u8, u8),
    LineOf(u8, u8),
}

fuzz_target!(|input: (u8, Vec<Edit>)| {
    let (which, edits) = input;
    let original = Original::get();
    let mut bytes = original.files[usize::from(which) % original.files.len()].clone();
    for edit in edits.iter().take(8) {
        apply(edit, &mut bytes, original);
    }
    match export::verify(&mut &*bytes, &key(), &[]) {
        Ok(verified) => original.assert_honest(&bytes, &verified),
        Err(_) => assert!(!original.files.contains(&bytes), "a genuine export was refused"),
    }
});

fn apply(edit: &Edit, bytes: &mut Vec<u8>, original: &Original) {
    let len = bytes.len();
    if len == 0 {
        return;
    }
    let at = |place: &u16| usize::from(*place) % len;
    match edit {
        Edit::Set(place, byte) => bytes[at(place)] = *byte,
        Edit::Insert(place, more) => drop(bytes.splice(at(place)..at(place), more.iter().copied())),
        Edit::Remove(place, count) => {
            bytes.drain(at(place)..(at(place) + usize::from(*count)).min(len));
        }
        Edit::Cut(place) => bytes.truncate(at(place)),
        lines => {
            let mut parts: Vec<Vec<u8>> =
                bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            edit_lines(lines, &mut parts, original);
            *bytes = parts.concat();
        }
    }
}

fn edit_lines(edit: &Edit, lines: &mut Vec<Vec<u8>>, original: &Original) {
    let len = lines.len();
    let at = |place: &u8| usize::from(*place) % len;
    match edit {
        Edit::DropLine(a) => drop(lines.remove(at(a))),
        Edit::DoubleLine(a) => lines.insert(at(a), lines[at(a)].clone()),
        Edit::SwapLines(a, b) => lines.swap(at(a), at(b)),
        Edit::LineOf(a, b) => {
            let other = &original.entries[usize::from(*b) % original.entries.len()];
            lines[at(a)] = [other, b"\n".as_slice()].concat();
        }
        _ => {}
    }
}
