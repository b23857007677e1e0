//! The files beside a result: as many as it names, and with the digests that it names.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use countersign_documents::result::{Artifact, Judged};
use countersign_documents::{Code, Judgement, Reason};
use countersign_model::Digest;
use countersign_model::digest::Hasher;

/// What the check is called in the answer.
const CHECK: &str = "artifact files";

/// Holds the files of a result against it, if they stand beside it in a folder of its name.
pub(crate) fn check_files(path: &Path, bytes: &[u8], mut judged: Judged) -> Judged {
    let folder = path.with_extension("");
    let Judgement::Accept(result) = &judged.judgement else { return judged };
    // Where there are files and nowhere to look for them, nothing was checked.
    if !folder.is_dir() && !result.artifacts.is_empty() {
        return judged;
    }
    let text = String::from_utf8_lossy(bytes);
    let reasons = differences(&folder, &text, &result.artifacts);
    for check in judged.checks.iter_mut().filter(|check| check.name == CHECK) {
        check.made = true;
    }
    if !reasons.is_empty() {
        judged.judgement = Judgement::Reject(reasons);
    }
    judged
}

fn differences(folder: &Path, text: &str, artifacts: &[Artifact]) -> Vec<Reason> {
    let mut found: Vec<_> =
        artifacts.iter().filter_map(|file| difference(folder, text, file)).collect();
    let named: BTreeSet<_> = artifacts.iter().map(|file| folder.join(&file.path)).collect();
    let mut there = Vec::new();
    if folder.is_dir() && walk(folder, &mut there).is_err() {
        found.push(reason(1, "the folder of files cannot be read".to_owned()));
    }
    let surplus = there.iter().filter(|path| !named.contains(*path));
    found.extend(surplus.map(|path| {
        let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        reason(
            1,
            format!("`{}` stands beside the result, which does not name it", name.escape_debug()),
        )
    }));
    found
}

fn difference(folder: &Path, text: &str, file: &Artifact) -> Option<Reason> {
    let name = &file.path;
    let line = line_of(text, &file.sha256.to_string());
    match digest(&folder.join(name)) {
        Ok(digest) if digest == file.sha256 => None,
        Ok(_) => Some(reason(line, format!("`{name}` has another digest than the result names"))),
        Err(error) => Some(reason(line, format!("`{name}` cannot be read: {error}"))),
    }
}

fn reason(line: u32, message: String) -> Reason {
    let code = Code::ArtifactsDiffer;
    Reason { code, column: 1, fix: code.fix().to_owned(), line, message }
}

/// The line that names a digest first.
fn line_of(text: &str, digest: &str) -> u32 {
    let found = (1..).zip(text.lines()).find(|(_, line)| line.contains(digest));
    found.map_or(1, |(number, _)| number)
}

fn digest(path: &Path) -> io::Result<Digest> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Hasher::of_all(File::open(path)?)
}

fn walk(folder: &Path, there: &mut Vec<std::path::PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => walk(&entry.path(), there)?,
            false => there.push(entry.path()),
        }
    }
    Ok(())
}
