//! Filling in an approval, and touching nothing else.

use std::fmt;

use countersign_model::Timestamp;

use super::fields::is_machine;
use super::moment;
use crate::front::{self, Entry, Front, Value};
use crate::reason::Findings;
use crate::text::{MAX_REQUEST_BYTES, Source};

/// Why an approval could not be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unapprovable {
    /// There is no front matter that could be read: judge the document first.
    NotADocument,
    /// What stands in the place of an approver or a time is neither.
    NotAName,
    /// `requested_by` is not there to write behind.
    NoPlace,
    /// The name of the approver cannot stand in a document, or is none of a person.
    ApproverInvalid,
}

impl fmt::Display for Unapprovable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unapprovable::NotADocument => "the document cannot be read",
            Unapprovable::NotAName => "what stands for the approval is no name or time",
            Unapprovable::NoPlace => "the document has no `requested_by`",
            Unapprovable::ApproverInvalid => "the approver's name cannot stand in a document",
        })
    }
}

impl std::error::Error for Unapprovable {}

/// The same bytes with `approved_by` and `approved_utc` filled in, behind `requested_by` where they
/// are absent. What a draft claims there gives way: who approved it is known by their signature.
pub fn approve(bytes: &[u8], approver: &str, at: Timestamp) -> Result<Vec<u8>, Unapprovable> {
    let mut findings = Findings::new();
    let source = Source::read(bytes, MAX_REQUEST_BYTES, &mut findings);
    let source = source.ok_or(Unapprovable::NotADocument)?;
    let front = front::read(&source, &mut findings).filter(|_| findings.is_empty());
    let front = front.ok_or(Unapprovable::NotADocument)?;
    let by = quoted(approver).ok_or(Unapprovable::ApproverInvalid)?;
    let edits = edits(
        &front,
        [("approved_by", by), ("approved_utc", format!("\"{}\"", moment::second(at)))],
    )?;
    Ok(apply(source.text(), edits).into_bytes())
}

fn quoted(approver: &str) -> Option<String> {
    let shown =
        |c: char| c == ' ' || (!c.is_control() && !c.is_whitespace() && !crate::is_unseen(c));
    let fits = !approver.trim().is_empty()
        && approver.trim() == approver
        && approver.chars().count() <= 128
        && approver.chars().all(shown);
    let escaped = approver.replace('\\', "\\\\").replace('"', "\\\"");
    (fits && !is_machine(approver)).then(|| format!("\"{escaped}\""))
}

/// What replaces a stretch of the document.
struct Edit {
    from: usize,
    to: usize,
    text: String,
}

fn edits(front: &Front, values: [(&str, String); 2]) -> Result<Vec<Edit>, Unapprovable> {
    let mut edits = Vec::new();
    let mut absent = String::new();
    for (key, value) in values {
        match front.entry(key) {
            Some(entry) => edits.push(fill(entry, value)?),
            None => absent.push_str(&format!("{key}: {value}\n")),
        }
    }
    if !absent.is_empty() {
        let after = front.entries.iter().position(|entry| entry.key == "requested_by");
        let after = after.ok_or(Unapprovable::NoPlace)?;
        // Behind `requested_by` is before the key that follows it, or before the end.
        let place = front.entries.get(after + 1).map_or(front.end, |next| next.at);
        edits.push(Edit { from: place, to: place, text: absent });
    }
    edits.sort_by_key(|edit| edit.from);
    Ok(edits)
}

fn fill(entry: &Entry, value: String) -> Result<Edit, Unapprovable> {
    match &entry.value {
        Value::Scalar(scalar) => Ok(Edit { from: scalar.at, to: scalar.end, text: value }),
        Value::Nothing => {
            let from = entry.at + entry.key.len() + 1;
            Ok(Edit { from, to: from, text: format!(" {value}") })
        }
        _ => Err(Unapprovable::NotAName),
    }
}

fn apply(text: &str, edits: Vec<Edit>) -> String {
    let mut out = String::with_capacity(text.len() + 128);
    let mut done = 0;
    for edit in edits {
        out.push_str(text.get(done..edit.from).unwrap_or_default());
        out.push_str(&edit.text);
        done = edit.to;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(front: &str) -> Result<String, Unapprovable> {
        let text = format!("---\n{front}---\n\nbody \n");
        let at = "2026-02-09T16:12:00Z".parse().unwrap();
        let bytes = approve(text.as_bytes(), "human:ada", at)?;
        let approved = String::from_utf8(bytes).unwrap();
        let front = approved.strip_prefix("---\n").unwrap();
        Ok(front.strip_suffix("---\n\nbody \n").unwrap().to_owned())
    }

    const BY: &str = "approved_by: \"human:ada\"";
    const AT: &str = "approved_utc: \"2026-02-09T16:12:00Z\"";

    #[test]
    fn approvals_are_filled_in_where_they_belong() {
        assert_eq!(
            check("requested_by: human\n"),
            Ok(format!("requested_by: human\n{BY}\n{AT}\n"))
        );
        assert_eq!(
            check("requested_by: human # x\n\n# y\nnext: z\n"),
            Ok(format!("requested_by: human # x\n\n# y\n{BY}\n{AT}\nnext: z\n"))
        );
        assert_eq!(
            check("approved_by: \"\" # who\nrequested_by: human\napproved_utc:\n"),
            Ok(format!("{BY} # who\nrequested_by: human\n{AT}\n"))
        );
        assert_eq!(
            check("requested_by: human\napproved_by: \"somebody\" # x\napproved_utc: 1\n"),
            Ok(format!("requested_by: human\n{BY} # x\n{AT}\n"))
        );
        assert_eq!(
            check("requested_by: human\napproved_utc:  # when\n"),
            Ok(format!("requested_by: human\n{BY}\n{AT}  # when\n"))
        );
    }

    #[test]
    fn what_is_approved_already_or_unreadable_is_left_alone() {
        assert_eq!(check("requested_by: human\napproved_by: []\n"), Err(Unapprovable::NotAName));
        assert_eq!(check("a: b\n"), Err(Unapprovable::NoPlace));
        assert_eq!(check("a: 'b'\n"), Err(Unapprovable::NotADocument));
        let at = Timestamp::from_millis(0);
        for name in ["", " a", "agent:x", "a\nb", "a\u{200b}"] {
            let text = b"---\nrequested_by: human\n---\n";
            assert_eq!(approve(text, name, at), Err(Unapprovable::ApproverInvalid), "{name:?}");
        }
        let odd = approve(b"---\nrequested_by: human\n---\n", "a \"b\" \\c", at).unwrap();
        assert!(String::from_utf8(odd).unwrap().contains("approved_by: \"a \\\"b\\\" \\\\c\"\n"));
    }
}
