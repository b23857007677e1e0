//! `cargo fmt --check`: one diff for each place that would change.

use std::io::BufRead;

use crate::findings::Findings;
use crate::lines::each_line;
use crate::place::{Places, leading_number};
use crate::report::{Diagnostic, LintFormat, LintReport, Severity};
use crate::text::without_escapes;
use crate::unreadable::Unreadable;

pub(super) fn read<R: BufRead + ?Sized>(
    reader: &mut R,
    places: &Places<'_>,
) -> Result<LintReport, Unreadable> {
    let mut findings = Findings::default();
    each_line(reader, |line| {
        // The colours of a removed line end at the beginning of the next.
        if line.text.contains("Diff in ")
            && let Some((file, line)) = heading(&without_escapes(line.text))
        {
            let message = "not formatted as rustfmt would";
            findings.add(Diagnostic {
                file: Some(places.relative(&file)),
                line: Some(line),
                ..Diagnostic::new("rustfmt", Severity::Error, message)
            });
        }
    })?;
    Ok(findings.done(LintFormat::Rustfmt))
}

/// `Diff in src/lib.rs:12:` or, in older versions, `Diff in src/lib.rs at line 12:`
fn heading(line: &str) -> Option<(String, u32)> {
    let rest = line.strip_prefix("Diff in ")?.trim_end().strip_suffix(':')?;
    let (file, number) = rest.rsplit_once(" at line ").or_else(|| rest.rsplit_once(':'))?;
    Some((file.to_owned(), leading_number(number)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_headings_are_read() {
        let text = "Diff in /workspace/src/a.rs:3:\n-x\n\u{1b}(B\u{1b}[mDiff in src/b.rs at line 7:\n\
                    +Diff in nothing\n";
        let report = read(&mut text.as_bytes(), &Places::default()).unwrap();
        let told = report.diagnostics.iter().map(|d| (d.file.as_deref(), d.line));
        let expected = [(Some("src/a.rs"), Some(3)), (Some("src/b.rs"), Some(7))];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }
}
