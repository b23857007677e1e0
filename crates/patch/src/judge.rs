//! Whether a diff may become a patch.
//!
//! All old contents are read from the tree as it was before the patch. So a path may be taken away
//! once (changed, deleted, renamed) and be made once (changed, created, target of a rename or
//! copy), and one part may take it away while another makes it anew: that is how git writes a file
//! that becomes a link, and two files that swap names. Anything else contradicts itself.

use std::collections::HashMap;

use crate::code::Code;
use crate::diff::{Diff, FilePatch, Op};
use crate::problem::{Problem, Problems, Refusal};
use crate::safety::unsafe_path;

const MAX_PROBLEMS: usize = 100;

pub(crate) fn judge(diff: &Diff<'_>) -> Result<(), Refusal> {
    let mut problems = Problems::new(MAX_PROBLEMS);
    for file in &diff.files {
        file_problems(file).into_iter().for_each(|problem| problems.add(problem));
    }
    let before = Claims::collect(&diff.files, takes, &mut problems);
    let after = Claims::collect(&diff.files, makes, &mut problems);
    before.check_directories(&mut problems);
    after.check_directories(&mut problems);
    check_order(&diff.files, &after, &mut problems);
    problems.into_result(())
}

fn file_problems(file: &FilePatch<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    let names = [&file.old, &file.new];
    let once = if file.old == file.new { 1 } else { 2 };
    for name in names.into_iter().flatten().take(once) {
        let Some(text) = name.text() else {
            let message = format!("the name `{}` is not UTF-8", name.shown());
            found.push(Problem::new(Code::NameNotText, file.line, message));
            continue;
        };
        if let Some((code, why)) = unsafe_path(text) {
            let message = format!("`{}` {why}", name.shown());
            found.push(Problem::new(code, file.line, message));
        }
    }
    if file.is_submodule() {
        let name = file.name().map(crate::Name::shown).unwrap_or_default();
        let message = format!("`{name}` is a submodule, which a patch cannot change");
        found.push(
            Problem::new(Code::Submodule, file.line, message)
                .hint("leave it out of the patch: `git diff --ignore-submodules`"),
        );
    }
    found
}

/// The path whose old content is taken away.
fn takes<'f>(file: &'f FilePatch<'_>) -> Option<&'f str> {
    file.old.as_ref().filter(|_| file.op != Op::Copy)?.text()
}

/// The path that has a content of the patch afterwards.
fn makes<'f>(file: &'f FilePatch<'_>) -> Option<&'f str> {
    file.new.as_ref()?.text()
}

/// Paths on one side of the patch, with the part that claims each.
struct Claims<'f> {
    claims: HashMap<&'f str, usize>,
    ordered: Vec<(&'f str, u64)>,
}

impl<'f> Claims<'f> {
    fn collect<'a: 'f>(
        files: &'f [FilePatch<'a>],
        claim: impl Fn(&'f FilePatch<'a>) -> Option<&'f str>,
        problems: &mut Problems,
    ) -> Claims<'f> {
        let mut claims = HashMap::with_capacity(files.len());
        let mut ordered = Vec::with_capacity(files.len());
        for (index, file) in files.iter().enumerate() {
            let Some(path) = claim(file) else { continue };
            if claims.insert(path, index).is_some() {
                problems.add(twice(path, file.line));
            }
            ordered.push((path, file.line));
        }
        Claims { claims, ordered }
    }

    fn check_directories(&self, problems: &mut Problems) {
        for (path, line) in &self.ordered {
            if let Some(above) = ancestors(path).find(|above| self.claims.contains_key(above)) {
                let message = format!(
                    "`{}` cannot be a file while `{}` is in it",
                    crate::shown(above.as_bytes(), 200),
                    crate::shown(path.as_bytes(), 200),
                );
                problems.add(Problem::new(Code::FileAndDirectory, *line, message));
            }
        }
    }
}

fn twice(path: &str, line: u64) -> Problem {
    let message = format!("`{}` is changed a second time", crate::shown(path.as_bytes(), 200));
    Problem::new(Code::PathTwice, line, message)
        .hint("join the changes, or apply several patches one after the other")
}

/// A file made first and deleted later is a series of patches, not one.
fn check_order(files: &[FilePatch<'_>], after: &Claims<'_>, problems: &mut Problems) {
    for (index, file) in files.iter().enumerate().filter(|(_, file)| file.op == Op::Delete) {
        let Some(path) = takes(file) else { continue };
        if after.claims.get(path).is_some_and(|made| *made < index) {
            problems.add(twice(path, file.line));
        }
    }
}

/// The directories above a path, from the top.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at))
}
