//! Deltas of git: a content told as copies from another one and new bytes.

/// The content that `delta` makes of `base`; none when it does not belong to it or is malformed.
/// No more than `limit` bytes are made.
pub(crate) fn apply(base: &[u8], delta: &[u8], limit: u64) -> Option<Vec<u8>> {
    let mut bytes = delta;
    let base_size = take_size(&mut bytes)?;
    let size = take_size(&mut bytes).filter(|size| *size <= limit)?;
    if base_size != base.len() as u64 {
        return None;
    }
    let size = usize::try_from(size).ok()?;
    let mut out = Vec::new();
    while let Some(op) = take(&mut bytes) {
        let piece = match op {
            0 => return None,
            copy if copy & 0x80 != 0 => copied(base, copy, &mut bytes)?,
            count => take_slice(&mut bytes, count.into())?,
        };
        // A delta of a few bytes can ask for gigabytes; what was announced is the limit.
        if out.len().checked_add(piece.len())? > size {
            return None;
        }
        out.extend_from_slice(piece);
    }
    (out.len() == size).then_some(out)
}

fn take(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn take_slice<'d>(bytes: &mut &'d [u8], count: usize) -> Option<&'d [u8]> {
    let (slice, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(slice)
}

/// Seven bits a byte, the lowest first.
fn take_size(bytes: &mut &[u8]) -> Option<u64> {
    let mut size = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = take(bytes)?;
        size |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(size);
        }
    }
    None
}

fn copied<'b>(base: &'b [u8], op: u8, bytes: &mut &[u8]) -> Option<&'b [u8]> {
    let mut number = |bits: std::ops::Range<u32>| {
        let first = bits.start;
        bits.filter(|bit| op & (1 << bit) != 0).try_fold(0usize, |number, bit| {
            Some(number | usize::from(take(bytes)?) << ((bit - first) * 8))
        })
    };
    let start = number(0..4)?;
    let count = match number(4..7)? {
        0 => 0x10000,
        count => count,
    };
    base.get(start..start.checked_add(count)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_new_bytes_make_the_content() {
        // 10 bytes become 7: four from place 2, then three new ones.
        let delta = [10, 7, 0x91, 2, 4, 3, b'x', b'y', b'z'];
        assert_eq!(apply(b"0123456789", &delta, 100).unwrap(), b"2345xyz");
        assert_eq!(apply(b"012345678", &delta, 100), None, "another base");
        assert_eq!(apply(b"0123456789", &delta, 6), None, "over the limit");
        assert_eq!(apply(b"0123456789", &delta[..8], 100), None, "cut off");
        assert_eq!(apply(b"0123456789", &[10, 4, 0x91, 8, 4], 100), None, "beyond the base");
        assert_eq!(apply(b"0123456789", &[10, 1, 0], 100), None, "reserved");
    }

    #[test]
    fn a_bomb_is_stopped_by_what_it_announces() {
        let base = vec![7; 0x10000];
        let mut delta = vec![0x80, 0x80, 4, 5];
        delta.extend(std::iter::repeat_n(0x80, 100_000));
        assert_eq!(apply(&base, &delta, u64::MAX), None);
        assert_eq!(apply(&base, &[0xff; 20], u64::MAX), None, "endless size");
    }
}
