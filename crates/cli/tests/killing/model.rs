//! What a workspace holds in its n-th state, said independently of the program that brings it there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// Paths with kind, permissions and content.
pub(crate) type State = BTreeMap<String, (&'static str, u32, String)>;

pub(crate) fn state(n: u64) -> State {
    let mut state = State::new();
    let mut file = |name: &str, mode: u32, content: String| {
        state.insert(name.to_owned(), ("file", mode, content));
    };
    let data = format!("{n}\n").repeat(usize::try_from(n * 37 % 400 + 1).unwrap());
    let mode = [0o644, 0o600, 0o755][usize::try_from(n % 3).unwrap()];
    file("counter", 0o644, format!("{n}\n"));
    file("data", mode, data.clone());
    file("twin", mode, data);
    file("untouched", 0o640, "as it was\n".to_owned());
    for recent in n.saturating_sub(2)..=n {
        file(&format!("recent/{recent}"), 0o644, format!("{recent}\n"));
    }
    for number in 0..40 {
        file(&format!("many/{number}"), 0o644, format!("{}\n", n / 5));
    }
    match n % 2 {
        0 => file("shape/inside", 0o644, format!("{n}\n")),
        _ => file("shape", 0o644, format!("{n}\n")),
    }
    let directories = ["", "many", "recent", "shape"];
    for directory in directories.iter().take(if n.is_multiple_of(2) { 4 } else { 3 }) {
        state.insert((*directory).to_owned(), ("directory", 0o755, String::new()));
    }
    state.insert("latest".to_owned(), ("link", 0o777, format!("recent/{n}")));
    state
}

/// Makes a directory what the state says.
pub(crate) fn make(state: &State, root: &Path) {
    for (name, (kind, mode, content)) in state {
        let path = root.join(name);
        match *kind {
            "directory" => fs::create_dir_all(&path).unwrap(),
            "link" => symlink(content, &path).unwrap(),
            _ => fs::write(&path, content).unwrap(),
        }
        if *kind != "link" {
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
    }
}

/// What a directory really holds.
pub(crate) fn look(root: &Path) -> State {
    let mut state = State::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let (kind, content) = if metadata.is_symlink() {
            ("link", fs::read_link(&path).unwrap().display().to_string())
        } else if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            ("directory", String::new())
        } else if metadata.is_file() {
            ("file", fs::read_to_string(&path).unwrap())
        } else {
            ("special", String::new())
        };
        let name = path.strip_prefix(root).unwrap().display().to_string();
        state.insert(name, (kind, metadata.mode() & 0o7777, content));
    }
    state
}

/// The paths in which two states differ.
pub(crate) fn differences(one: &State, other: &State) -> Vec<String> {
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| one.get(*name) != other.get(*name));
    names.into_iter().cloned().collect()
}
