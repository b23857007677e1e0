//! The files of a program: pinned when its declaration is read, and looked at again at every call.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use countersign_model::digest::Hasher;
use countersign_model::{Digest, Failure};
use countersign_sandbox::staging::walk::{self, Entry, Kind};
use countersign_sandbox::staging::{DEEPEST, check_target};
use serde::Serialize;

use crate::manifest::{Stamp, file_clock};

const MOST_ENTRIES: u64 = 10_000;
const MOST_BYTES: u64 = 512 << 20;

/// What a program consists of, beside its declaration.
#[derive(Debug, Default)]
pub struct PinnedFiles {
    /// Seen by the program as `/tool`. Absolute, without links.
    pub directory: Option<PathBuf>,
    /// The WebAssembly module.
    pub module: Option<PathBuf>,
    /// Over path, kind, permissions and content of everything; `None` if there are no files.
    pub digest: Option<Digest>,
    seen: Seen,
}

/// Marks of everything that was read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    stamps: BTreeMap<String, Stamp>,
    /// Whether the marks were old enough to tell any later change.
    settled: bool,
}

/// One line of what the digest is taken over.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", untagged)]
enum Line {
    Directory { mode: u32 },
    File { mode: u32, sha256: Digest },
    Link { target: String },
}

type Problem = String;

impl PinnedFiles {
    /// Reads the files that a declaration in `base` names. All of them lie beneath `tools`.
    pub(crate) fn read(
        base: &Path,
        tools: &Path,
        files: Option<&str>,
        module: Option<&str>,
    ) -> Result<Self, Problem> {
        let place = |name: &str| resolve(base, tools, name);
        let mut pinned = PinnedFiles {
            directory: files.map(place).transpose()?,
            module: module.map(place).transpose()?,
            ..PinnedFiles::default()
        };
        let (digest, seen) = pinned.survey()?;
        (pinned.digest, pinned.seen) = (digest, seen);
        Ok(pinned)
    }

    /// Whether everything is still what it was when the declaration was read. Contents are read
    /// again only where the marks of a file have moved.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Some(digest) = self.digest else { return Ok(()) };
        if self.seen.settled && self.marks().is_ok_and(|stamps| stamps == self.seen.stamps) {
            return Ok(());
        }
        match self.survey() {
            Ok((Some(now), _)) if now == digest => Ok(()),
            _ => Err(changed()),
        }
    }

    fn marks(&self) -> Result<BTreeMap<String, Stamp>, Problem> {
        let mut survey = Survey { left: MOST_ENTRIES, ..Survey::default() };
        self.visit(&mut survey)?;
        Ok(survey.stamps)
    }

    fn survey(&self) -> Result<(Option<Digest>, Seen), Problem> {
        let now = file_clock();
        let mut survey = Survey { left: MOST_ENTRIES, reads: true, ..Survey::default() };
        self.visit(&mut survey)?;
        if self.directory.is_none() && self.module.is_none() {
            return Ok((None, Seen::default()));
        }
        let digest = Digest::of_json(&survey.lines).map_err(|error| error.to_string())?;
        let settled = survey.stamps.values().all(|stamp| stamp.changed_at() < now);
        Ok((Some(digest), Seen { stamps: survey.stamps, settled }))
    }

    fn visit(&self, survey: &mut Survey) -> Result<(), Problem> {
        if let Some(directory) = &self.directory {
            let open = open(directory)?;
            survey.directory(open.as_fd(), "")?;
        }
        if let Some(module) = &self.module {
            let (parent, name) = module.parent().zip(module.file_name()).ok_or("it has no name")?;
            let name = CString::new(name.as_encoded_bytes()).map_err(|error| error.to_string())?;
            let parent = open(parent)?;
            let entry = walk::look(&parent, &name).map_err(|error| error.to_string())?;
            let entry = entry.ok_or("the module is missing")?;
            // A colon keeps it apart from every path, since no path begins with one and a slash.
            survey.file(parent.as_fd(), &entry, ":/module".to_owned())?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Survey {
    left: u64,
    bytes: u64,
    /// Whether contents are read as well.
    reads: bool,
    stamps: BTreeMap<String, Stamp>,
    lines: BTreeMap<String, Line>,
}

impl Survey {
    fn directory(&mut self, directory: BorrowedFd<'_>, path: &str) -> Result<(), Problem> {
        let entries = walk::list(directory, self.left).map_err(|e| said(path, e))?;
        let entries = entries.ok_or_else(|| format!("there are more than {MOST_ENTRIES} files"))?;
        self.left -= entries.len() as u64;
        for entry in entries {
            let name = entry.name.to_str().ok().filter(|name| !name.chars().any(char::is_control));
            let name = name.ok_or_else(|| said(path, "a name in it cannot be shown"))?;
            let place = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            if place.split('/').count() > DEEPEST {
                return Err(said(&place, "it lies too deep"));
            }
            self.entry(directory, &entry, place)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: BorrowedFd<'_>,
        entry: &Entry,
        place: String,
    ) -> Result<(), Problem> {
        match entry.kind() {
            Kind::File => return self.file(directory, entry, place),
            Kind::Directory => {
                let inner = walk::open_directory(directory, &entry.name);
                let inner = inner.map_err(|error| said(&place, error))?;
                self.directory(inner.as_fd(), &place)?;
                // What a directory holds is listed; its own times say nothing more.
                self.lines.insert(place, Line::Directory { mode: entry.mode() });
                return Ok(());
            }
            Kind::Link => {
                let target = walk::read_link(directory, &entry.name);
                let target = target.map_err(|error| said(&place, error))?;
                let target = check_target(&place, &target)
                    .map_err(|_| said(&place, "it is a link that can lead outside"))?;
                self.lines.insert(place.clone(), Line::Link { target });
            }
            Kind::Whiteout | Kind::Other => {
                return Err(said(&place, "it is a socket, FIFO or device"));
            }
        }
        self.stamps.insert(place, Stamp::of(&entry.stat));
        Ok(())
    }

    fn file(
        &mut self,
        directory: BorrowedFd<'_>,
        entry: &Entry,
        place: String,
    ) -> Result<(), Problem> {
        if entry.kind() != Kind::File {
            return Err(said(&place, "it is not a file"));
        }
        if entry.stat.st_mode & 0o6000 != 0 {
            return Err(said(&place, "it is a setuid or setgid file"));
        }
        self.bytes = self.bytes.saturating_add(entry.size());
        if self.bytes > MOST_BYTES {
            return Err(format!("the files have more than {MOST_BYTES} bytes"));
        }
        if self.reads {
            let file = walk::open_file(directory, &entry.name).map_err(|e| said(&place, e))?;
            let sha256 = Hasher::of_all(file).map_err(|error| said(&place, error))?;
            self.lines.insert(place.clone(), Line::File { mode: entry.mode(), sha256 });
        }
        self.stamps.insert(place, Stamp::of(&entry.stat));
        Ok(())
    }
}

/// The real place of something beside a declaration. No part of it is a link, so that what was
/// read is what the program is shown.
fn resolve(base: &Path, tools: &Path, name: &str) -> Result<PathBuf, Problem> {
    let missing = |error: std::io::Error| format!("`{name}` cannot be found: {error}");
    let tools = fs::canonicalize(tools).map_err(missing)?;
    let base = fs::canonicalize(base).map_err(missing)?;
    let plain = name.trim_start_matches("./").trim_end_matches('/');
    let wanted = match plain {
        "" | "." => base,
        plain => base.join(plain),
    };
    let real = fs::canonicalize(&wanted).map_err(missing)?;
    match () {
        () if real != wanted => Err(format!("`{name}` leads through a link")),
        () if !real.starts_with(&tools) => Err(format!("`{name}` lies outside of tools/")),
        () if real == tools => Err(format!("`{name}` is all of tools/: give the tool a folder")),
        () => Ok(real),
    }
}

fn open(directory: &Path) -> Result<OwnedFd, Problem> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::empty())
        .map_err(|error| format!("{} cannot be read: {error}", directory.display()))
}

fn said(path: &str, what: impl std::fmt::Display) -> Problem {
    let path = if path.is_empty() { "." } else { path };
    format!("`{}`: {what}", path.escape_debug())
}

fn changed() -> Failure {
    Failure::state("TOOL_FILES_CHANGED", "the tool's files are not what they were when it was read")
        .hint("start again, so that the new files are read and pinned, or put the old ones back")
}
