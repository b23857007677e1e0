//! Binary contents: from letters to bytes.

pub(crate) mod base85;
mod delta;

use crate::diff::{Binary, BinaryKind};

/// The content that a binary change makes of `old`, or what is wrong with it.
pub(crate) fn result(change: &Binary<'_>, old: &[u8], limit: u64) -> Result<Vec<u8>, &'static str> {
    let data = inflated(change).ok_or("the binary data is damaged")?;
    match change.kind {
        BinaryKind::Literal => Ok(data),
        BinaryKind::Delta => delta::apply(old, &data, limit)
            .ok_or("the delta does not belong to the file that is there, or is damaged"),
    }
}

/// Inflates to exactly the size that was announced, and never to more.
fn inflated(change: &Binary<'_>) -> Option<Vec<u8>> {
    let limit = usize::try_from(change.size).ok()?;
    let packed = base85::decode(change.data)?;
    let data = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&packed, limit).ok()?;
    (data.len() == limit).then_some(data)
}
