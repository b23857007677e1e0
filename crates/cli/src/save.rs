//! Many files at once, for somebody who looks at what a call left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use countersign_host::{Clock, SystemClock};
use countersign_model::Failure;

use crate::output_file::unwritable;
use crate::ui::is_harmful;

/// Refuses a directory that holds something.
pub(crate) fn check_free(directory: &Path) -> Result<(), Failure> {
    let is_there = fs::symlink_metadata(directory).is_ok();
    if is_there && fs::read_dir(directory).map_or(true, |mut files| files.next().is_some()) {
        let message = format!("{} exists and is no empty directory", directory.display());
        return Err(Failure::validation("DIRECTORY_IN_USE", message)
            .hint("name a directory that is new or empty: nothing is overwritten"));
    }
    Ok(())
}

/// Everything is written aside, into a directory that nobody else knows, and moved into place whole.
pub(crate) fn save(
    directory: &Path,
    fill: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    check_free(directory)?;
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    let aside = parent
        .unwrap_or_else(|| Path::new("."))
        .join(format!(".countersign-new-{}", SystemClock.new_id()));
    let failed = |error: std::io::Error| unwritable(directory, &error);
    let written = fs::create_dir(&aside)
        .map_err(failed)
        .and_then(|()| fill(&aside))
        .and_then(|()| fs::rename(&aside, directory).map_err(failed));
    if written.is_err() {
        let _ = fs::remove_dir_all(&aside);
    }
    written
}

/// A relative path without anything that leads elsewhere or cannot be shown. What the host recorded
/// has none of it; this does not rely on that.
pub(crate) fn safe_path(name: &str) -> String {
    let part = |part: &str| match part {
        "" | "." | ".." => "_".to_owned(),
        part => part.chars().map(|c| if is_harmful(c) { '_' } else { c }).collect(),
    };
    name.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Names that were made safe may have become the same.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeSet<String>);

impl Names {
    pub(crate) fn free(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 1_u32;
        while !self.0.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}-{number}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_and_stay_apart() {
        for (name, safe) in [
            ("a/b c.txt", "a/b c.txt"),
            ("../../etc/passwd", "_/_/etc/passwd"),
            ("/etc/passwd", "_/etc/passwd"),
            ("a//./b/", "a/_/_/b/_"),
            ("a\n\u{1b}[2J\u{202e}b", "a__[2J_b"),
            ("", "_"),
        ] {
            assert_eq!(safe_path(name), safe);
        }
        let mut names = Names::default();
        assert_eq!(
            ["a", "a", "a-2", "a"].map(|name| names.free(name)),
            ["a", "a-2", "a-2-2", "a-3"]
        );
    }
}
