//! Binary changes: where they stand and whether their letters are right. They are decoded later.

use crate::binary::base85;
use crate::code::Code;
use crate::diff::{Binary, BinaryKind, Body};
use crate::problem::Problem;
use crate::read::lines::Lines;

/// Reads what follows `GIT binary patch`: the change, and maybe the way back.
pub(crate) fn read<'a>(lines: &mut Lines<'a>, limit: u64) -> Result<Body<'a>, Problem> {
    let at = lines.line_number();
    let forward = read_one(lines, limit)?
        .ok_or_else(|| malformed(at, "`literal` or `delta` and a size must stand here"))?;
    let backward = read_one(lines, limit)?;
    Ok(Body::Binary { forward, backward })
}

fn malformed(line: u64, message: &str) -> Problem {
    Problem::new(Code::BinaryMalformed, line, message)
        .hint("make the patch anew with `git diff --binary`, and send it unchanged")
}

fn read_one<'a>(lines: &mut Lines<'a>, limit: u64) -> Result<Option<Binary<'a>>, Problem> {
    let at = lines.line_number();
    let literal = lines.after(b"literal ").map(|size| (BinaryKind::Literal, size));
    let delta = || lines.after(b"delta ").map(|size| (BinaryKind::Delta, size));
    let Some((kind, size)) = literal.or_else(delta) else { return Ok(None) };
    let size = read_size(size).ok_or_else(|| malformed(at, "the size is not a number"))?;
    if size > limit {
        let message = format!("the binary content has {size} bytes, more than {limit}");
        return Err(Problem::new(Code::BinaryTooLarge, at, message));
    }
    lines.advance();
    let data = read_data(lines)?;
    Ok(Some(Binary { line: at, kind, size, data }))
}

fn read_size(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Lines of data, up to the empty one that ends them.
fn read_data<'a>(lines: &mut Lines<'a>) -> Result<&'a [u8], Problem> {
    let start = *lines;
    loop {
        let at = lines.line_number();
        match lines.header() {
            None => return Err(malformed(at, "the patch ends in the middle of binary data")),
            Some(b"") => break,
            Some(line) if base85::is_line(line) => lines.advance(),
            Some(_) => return Err(malformed(at, "this is not a line of binary data")),
        }
    }
    let data = lines.since(&start);
    if data.is_empty() {
        return Err(malformed(start.line_number(), "there is no binary data"));
    }
    lines.advance();
    Ok(data)
}
