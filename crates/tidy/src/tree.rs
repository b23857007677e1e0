//! The files of the repository, read once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// What is ours to check: everything Git tracks or would track, without what must keep its bytes.
#[derive(Debug)]
pub struct Tree {
    pub root: PathBuf,
    pub files: Vec<File>,
}

/// A text file. Its path is relative to the root, with `/` between parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub text: String,
}

/// Seeds and documents to judge are data: a trailing space in one of them may be the point of it.
const DATA: [&str; 3] = ["fuzz/seeds/", "testdata/", "crates/documents/corpus/"];

/// Built or downloaded, never ours. Only needed where Git does not say so.
const BUILT: [&str; 5] = [".git", ".countersign", "target", "fuzz/corpus", "fuzz/artifacts"];

impl Tree {
    pub fn read() -> io::Result<Tree> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        // A source archive has no Git, and Git may refuse a directory that belongs to another user.
        let mut paths = match tracked(&root) {
            Some(paths) => paths,
            None => walk(&root)?,
        };
        paths.sort();
        paths.retain(|path| !DATA.iter().any(|data| path.contains(data)));
        let files = paths.into_iter().filter_map(|path| {
            // A deleted file is still tracked; what is not UTF-8 is not text.
            let text = fs::read_to_string(root.join(&path)).ok()?;
            Some(File { path, text })
        });
        let files = files.collect();
        Ok(Tree { root, files })
    }

    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.extension() == Some(extension))
    }

    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl File {
    pub fn extension(&self) -> Option<&str> {
        Path::new(&self.path).extension()?.to_str()
    }
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(listed.stdout).ok()?;
    let paths: Vec<String> =
        text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    (listed.status.success() && !paths.is_empty()).then_some(paths)
}

fn walk(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let relative = path.strip_prefix(root).unwrap_or(&path);
            if BUILT.iter().any(|built| relative.ends_with(built)) {
                continue;
            }
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_the_walk_find_the_same_sources() {
        let tree = Tree::read().unwrap();
        let walked = walk(&tree.root).unwrap();
        for file in tree.with_extension("rs") {
            assert!(walked.contains(&file.path), "the walk misses {}", file.path);
        }
        assert!(tree.file("crates/tidy/src/tree.rs").is_some());
    }
}
