//! What version control works in, by whatever name: the directory that a `.git` file or link leads
//! to, the one that a linked worktree shares with others, and whatever looks like one.
//!
//! The one place that follows links, because version control does. Nothing is opened for a call here:
//! what is found only says no.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use countersign_model::SandboxMode;
use rustix::fs::{Mode, OFlags};

use super::Root;

/// A file that only names a directory is not longer.
const MOST_BYTES: u64 = 64 << 10;

/// The first of some paths beneath a root that a mode does not allow to be changed.
pub(crate) fn forbidden(
    mode: SandboxMode,
    root: &Root,
    paths: impl IntoIterator<Item = String>,
) -> Option<String> {
    // The whole path: whoever names the root does not choose what lies around it.
    let whole = |path: &str| format!("{}/{path}", root.path().trim_end_matches('/'));
    let paths: Vec<String> = paths.into_iter().collect();
    if let Some(path) = paths.iter().map(|path| whole(path)).find(|path| !mode.allows_change(path))
    {
        return Some(path);
    }
    if mode == SandboxMode::DangerFullAccess || paths.is_empty() {
        return None;
    }
    let real = |path: &String| root.location().join(path).to_string_lossy().into_owned();
    let real: Vec<String> = paths.iter().map(real).collect();
    let controls = Controls::around(&real);
    let found = real.iter().position(|path| !controls.allow(mode, Path::new(path)))?;
    paths.get(found).map(|path| whole(path))
}

/// Directories and files that version control uses, by their real paths.
#[derive(Debug, Default)]
struct Controls(HashMap<PathBuf, Vec<Use>>);

/// What something is to version control.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Use {
    /// It stands at this place in a control directory; for the directory itself that is empty.
    Place(String),
    /// The changes would make it a control directory, so nobody has ever looked at what is in it.
    New,
}

impl Controls {
    /// All that the directories around some paths lead to.
    fn around(paths: &[String]) -> Self {
        let mut controls = Controls::default();
        let changed: HashSet<&Path> =
            paths.iter().flat_map(|path| Path::new(path).ancestors()).collect();
        let directories: HashSet<&Path> =
            paths.iter().flat_map(|path| Path::new(path).ancestors().skip(1)).collect();
        // What is called `.git` is known by its name.
        for directory in directories.into_iter().filter(|directory| !directory.ends_with(".git")) {
            controls.add_led_to(directory);
            let is_there = |name: &str| directory.join(name).exists();
            let will_be = |name: &str| changed.contains(&*directory.join(name)) || is_there(name);
            if is_control(is_there) {
                controls.add(directory.to_owned());
            } else if is_control(will_be) {
                controls.use_as(directory.to_owned(), Use::New);
            }
        }
        controls
    }

    /// What the `.git` in a directory stands for.
    fn add_led_to(&mut self, directory: &Path) {
        let git = directory.join(".git");
        let leads_to = match (fs::metadata(&git), fs::read_link(&git)) {
            (Ok(found), _) if found.is_dir() => Some(git),
            (Ok(_), _) => named_in(&git, b"gitdir: ").map(|named| directory.join(named)),
            // A link to what is not there yet.
            (Err(_), target) => target.ok().map(|target| directory.join(target)),
        };
        if let Some(real) = leads_to.and_then(|path| real(&path)) {
            self.add(real);
        }
    }

    /// A control directory, the one that it shares with other worktrees, and what links in either
    /// lead to.
    fn add(&mut self, control: PathBuf) {
        let shared = named_in(&control.join("commondir"), b"");
        let shared = shared.and_then(|named| real(&control.join(named)));
        for directory in [Some(control), shared].into_iter().flatten() {
            self.use_as(directory.clone(), Use::Place(String::new()));
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            let is_link = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|it| it.is_symlink());
            for link in entries.filter(is_link) {
                if let Some(target) = real(&link.path()) {
                    let name = link.file_name().to_string_lossy().into_owned();
                    self.use_as(target, Use::Place(name));
                }
            }
        }
    }

    fn use_as(&mut self, path: PathBuf, what: Use) {
        let uses = self.0.entry(path).or_default();
        if !uses.contains(&what) {
            uses.push(what);
        }
    }

    fn allow(&self, mode: SandboxMode, path: &Path) -> bool {
        path.ancestors().all(|above| {
            let rest = path.strip_prefix(above).unwrap_or(path).to_string_lossy();
            self.0.get(above).into_iter().flatten().all(|what| match what {
                Use::Place(place) => mode.allows_change_in_control(&format!("{place}/{rest}")),
                Use::New => false,
            })
        })
    }
}

/// Whether a directory is one that version control would work in: on its own, or as a worktree of
/// another. Looked at with less rigour than it would: better one too many.
fn is_control(has: impl Fn(&str) -> bool) -> bool {
    let is_store = || has("refs") && ["HEAD", "config", "packed-refs"].into_iter().any(&has);
    has("objects") && is_store() || has("commondir") && has("HEAD")
}

/// Where a path leads. What is not there yet leads to where it would be.
fn real(path: &Path) -> Option<PathBuf> {
    let beside = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(beside)
}

/// The path that a file names after some words. What cannot be read leads nowhere: not for us, nor
/// for version control.
fn named_in(file: &Path, words: &[u8]) -> Option<PathBuf> {
    // Whoever made it may have made a pipe, which nobody writes to.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(file, flags, Mode::empty()).ok()?);
    let mut text = Vec::new();
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    let line = text.strip_prefix(words)?.split(|byte| matches!(byte, b'\n' | b'\r' | 0)).next()?;
    (!line.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(line)))
}
