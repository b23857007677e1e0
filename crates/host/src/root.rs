//! The directory that file tools work beneath, held open by descriptor.
//!
//! Every path is walked one component at a time, each opened relative to the directory before it
//! and never through a symbolic link. What was checked is what is used: a descriptor cannot be
//! swapped behind our back as a name can.

pub(crate) mod control;
mod entries;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_journal::sync_together;
use countersign_model::digest::Hasher;
use countersign_model::effect::Image;
use countersign_model::{Digest, Failure};
use rustix::fs::{self, Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

use crate::home::Layout;
use crate::manifest::{Stamp, file_clock};
use crate::path::RelPath;
pub(crate) use entries::Standing;

/// Passing through a directory needs the right to search it, not the right to list it.
const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::PATH).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const CHUNK: usize = 64 << 10;

/// The most that a declaration may set as `maxFileSize`.
pub(crate) const LARGEST_FILE: u64 = 1 << 30;

/// A file takes more than its content: names, blocks, directories.
const SPARE_ROOM: u64 = 8 << 10;

/// A device and inode pair: a directory's identity, whatever it is called.
type Identity = (u64, u64);

#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    /// As grants name it.
    path: String,
    /// Where it really lies, if that is elsewhere.
    location: Option<String>,
    /// The home and its parts must not be touched by any call, under any name.
    home: Vec<Identity>,
    /// Whether each change is on disk when it returns, or all of them only at the end.
    syncs: Syncs,
}

/// When changes reach the disk.
#[derive(Debug)]
enum Syncs {
    Each,
    Together(Mutex<Waiting>),
}

/// What is not yet known to be on disk.
#[derive(Debug, Default)]
struct Waiting {
    files: Vec<File>,
    directories: BTreeMap<Identity, File>,
    /// More than are worth holding on to: everything is synced.
    too_many: bool,
}

impl Waiting {
    fn add(&mut self, file: File) {
        self.too_many |= self.files.len() >= ONE_BY_ONE;
        if !self.too_many {
            self.files.push(file);
        }
    }

    fn add_directory(&mut self, directory: File, identity: Identity) {
        self.too_many |= self.directories.len() >= ONE_BY_ONE;
        if !self.too_many {
            self.directories.insert(identity, directory);
        }
    }
}

/// Up to so many files are synced each by itself; for more it is cheaper to sync everything.
const ONE_BY_ONE: usize = 64;

/// A file and its content, read through one descriptor.
#[derive(Debug, Clone)]
pub struct Content {
    pub bytes: Vec<u8>,
    pub image: Image,
    /// By which a change would be noticed; nothing if it could go unnoticed.
    marks: Option<Stamp>,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub name: String,
    pub kind: &'static str,
    pub size: u64,
}

impl Root {
    pub fn open(path: &Path, home: &Path) -> Result<Self, Failure> {
        let unusable = |why: String| {
            let message = format!("the root {} cannot be used: {why}", path.display());
            Failure::validation("ROOT_INVALID", message).hint("name an existing directory")
        };
        // The root itself may be named through links; beneath it there are none.
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let refused = |e: Errno| shortage(e).unwrap_or_else(|| unusable(e.to_string()));
        let directory = fs::open(path, flags, Mode::empty()).map_err(refused)?;
        let real = real_path(&directory, path).map_err(|e| unusable(e.to_string()))?;
        let real = real.to_str().ok_or_else(|| unusable("its name is not UTF-8".to_owned()))?;
        let path = real.trim_end_matches('/').to_owned();
        let home = identities(home)?;
        let root = Root { directory, path, location: None, home, syncs: Syncs::Each };
        root.refuse_inside_home()?;
        Ok(root)
    }

    /// The private worktree of a run, which grants know by the name of the workspace. It lies in the
    /// home, where no other root may, and nothing else of the home lies beneath it.
    pub(crate) fn of_worktree(files: &Path, workspace: &str) -> Result<Self, Failure> {
        let lost = || {
            let message = format!("the worktree at {} is gone", files.display());
            Failure::state("WORKTREE_LOST", message)
                .hint("make it anew with `countersign workspace reset`")
        };
        let directory = fs::open(files, DIRECTORY, Mode::empty())
            .map_err(|e| shortage(e).unwrap_or_else(lost))?;
        let real = real_path(&directory, files).map_err(|_| lost())?;
        let location = real.to_str().map(str::to_owned).ok_or_else(lost)?;
        let path = workspace.trim_end_matches('/').to_owned();
        let (location, home) = (Some(location), Vec::new());
        Ok(Root { directory, path, location, home, syncs: Syncs::Each })
    }

    /// Where programs find it.
    pub(crate) fn location(&self) -> &Path {
        Path::new(self.location.as_deref().unwrap_or_else(|| self.path()))
    }

    /// The name of `path` on this machine, as grants are scoped.
    pub fn resource(&self, path: &RelPath) -> String {
        if path.is_root() && self.path.is_empty() {
            return "/".to_owned();
        }
        if path.is_root() {
            return self.path.clone();
        }
        format!("{}/{path}", self.path)
    }

    pub fn path(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }

    fn refuse_inside_home(&self) -> Result<(), Failure> {
        let mut at =
            fs::openat(&self.directory, ".", DIRECTORY, Mode::empty()).map_err(io_failure)?;
        loop {
            let here = identity(&fs::fstat(&at).map_err(io_failure)?);
            if self.home.contains(&here) {
                return Err(in_home());
            }
            let above = fs::openat(&at, "..", DIRECTORY, Mode::empty()).map_err(io_failure)?;
            if identity(&fs::fstat(&above).map_err(io_failure)?) == here {
                return Ok(());
            }
            at = above;
        }
    }

    /// Opens a directory beneath the root, component by component.
    fn walk(&self, path: &RelPath) -> Result<OwnedFd, Failure> {
        let open = |at: &OwnedFd, name: &str| {
            fs::openat(at, name, DIRECTORY, Mode::empty())
                .map_err(|e| self.step_failure(e, at, name, path))
        };
        let mut at = open(&self.directory, ".")?;
        for name in path.components() {
            at = open(&at, name)?;
            if self.home.contains(&identity(&fs::fstat(&at).map_err(io_failure)?)) {
                return Err(in_home());
            }
        }
        Ok(at)
    }

    /// With `O_DIRECTORY|O_NOFOLLOW` a link and a file both give `ENOTDIR`: look which it is.
    fn step_failure(&self, error: Errno, at: &OwnedFd, name: &str, path: &RelPath) -> Failure {
        let is_link = fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink());
        match error {
            _ if is_link => symlink(path),
            Errno::NOENT => not_found(path),
            Errno::NOTDIR => Failure::execution(
                "NOT_A_DIRECTORY",
                format!("a part of `{path}` is not a directory"),
            ),
            error => io_failure(error),
        }
    }

    fn open_parent<'p>(&self, path: &'p RelPath) -> Result<(OwnedFd, &'p str), Failure> {
        let (parent, name) = path.split().ok_or_else(|| not_a_file(path))?;
        Ok((self.walk(&parent)?, name))
    }

    /// Opens a regular file that has no other name anywhere.
    fn open_file(&self, path: &RelPath) -> Result<Option<(OwnedFd, Stat)>, Failure> {
        match self.open_regular(path)? {
            Some((_, stat)) if stat.st_nlink > 1 => {
                let message = format!("`{path}` has another name, which may lie outside the root");
                Err(Failure::authorization("PATH_HARD_LINK", message)
                    .hint("copy the file instead of linking it"))
            }
            found => Ok(found),
        }
    }

    /// Opens a regular file, whatever other names it has.
    fn open_regular(&self, path: &RelPath) -> Result<Option<(OwnedFd, Stat)>, Failure> {
        let (parent, name) = match self.open_parent(path) {
            Ok(found) => found,
            Err(failure) if failure.code == "FILE_NOT_FOUND" => return Ok(None),
            Err(failure) => return Err(failure),
        };
        // NONBLOCK: a FIFO must not make us wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(&parent, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(symlink(path)),
            Err(error) => return Err(io_failure(error)),
        };
        let stat = fs::fstat(&file).map_err(io_failure)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(not_a_file(path));
        }
        Ok(Some((file, stat)))
    }

    /// The content of a file of at most `limit` bytes; `None` if there is no such file.
    pub fn read(&self, path: &RelPath, limit: u64) -> Result<Option<Content>, Failure> {
        let now = file_clock();
        let Some((file, stat)) = self.open_file(path)? else { return Ok(None) };
        let mut bytes = Vec::with_capacity(usize::try_from(size(&stat).min(limit)).unwrap_or(0));
        let mut limited = File::from(file).take(limit.saturating_add(1));
        limited.read_to_end(&mut bytes).map_err(|e| std_failure(&e))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(path, limit));
        }
        let image = Image {
            digest: Digest::of(&bytes),
            size: bytes.len() as u64,
            mode: permissions(&stat),
        };
        // What changed in this tick of the clock may change again without another mark.
        let marks = Some(Stamp::of(&stat)).filter(|marks| marks.changed_at() < now);
        Ok(Some(Content { bytes, image, marks }))
    }

    /// The file as it stands, without holding it in memory; `None` if there is no such file. No
    /// call ever wrote a larger one than this reads.
    pub fn image(&self, path: &RelPath) -> Result<Option<Image>, Failure> {
        self.open_file(path)?.map(|(file, stat)| image_of(file, &stat, path)).transpose()
    }

    /// Whether a file is still what it was. The same marks are enough to tell, because whoever changes
    /// a file moves its change time, which nobody can set; and so is a different size, so that a file
    /// which somebody else made huge is not read.
    pub fn is_still(&self, path: &RelPath, before: Option<&Content>) -> Result<bool, Failure> {
        match (self.open_file(path)?, before) {
            (None, None) => Ok(true),
            (Some((_, stat)), Some(content)) if content.marks == Some(Stamp::of(&stat)) => Ok(true),
            (Some((file, stat)), Some(content)) if size(&stat) == content.image.size => {
                Ok(image_of(file, &stat, path)? == content.image)
            }
            _ => Ok(false),
        }
    }

    /// The names in a directory, sorted. `each` is told of every name and may stop the listing.
    pub fn list(
        &self,
        path: &RelPath,
        mut each: impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Vec<Listed>, Failure> {
        let directory = self.walk(path)?;
        let mut listed = Vec::new();
        for found in Dir::new(readable(&directory)?).map_err(io_failure)? {
            let found = found.map_err(io_failure)?;
            let name = found.file_name().to_string_lossy();
            if matches!(name.as_ref(), "." | "..") {
                continue;
            }
            each(&name)?;
            // A name that vanished meanwhile is not there.
            if let Ok(stat) = fs::statat(&directory, found.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                listed.push(Listed {
                    name: name.into_owned(),
                    kind: kind(&stat),
                    size: size(&stat),
                });
            }
        }
        listed.sort();
        Ok(listed)
    }

    pub fn has_directory(&self, path: &RelPath) -> Result<bool, Failure> {
        match self.walk(path) {
            Ok(_) => Ok(true),
            Err(failure) if failure.code == "FILE_NOT_FOUND" => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Without permissions of its own it gets the usual ones. `false` if something stands there
    /// that is no directory.
    pub fn make_directory(&self, path: &RelPath, mode: Option<u32>) -> Result<bool, Failure> {
        let (parent, name) = self.open_parent(path)?;
        match fs::mkdirat(&parent, name, Mode::from_raw_mode(mode.unwrap_or(0o755))) {
            // The umask has a say in making a directory, and none in this.
            Ok(()) => match mode {
                Some(mode) => self.set_mode(path, mode),
                None => self.sync(&parent).map(|()| true),
            },
            Err(Errno::EXIST) => {
                self.sync(&parent)?;
                let stat = fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
                Ok(stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()))
            }
            Err(error) => Err(io_failure(error)),
        }
    }

    /// Whether names in a directory can be changed. Asked before the commit, because afterwards it
    /// is too late to say no.
    pub fn check_writable(&self, directory: &RelPath) -> Result<(), Failure> {
        let at = self.walk(directory)?;
        // Reading too: a directory that cannot be opened cannot be synced either.
        let access = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        fs::accessat(&at, ".", access, AtFlags::EACCESS).map_err(io_failure)
    }

    /// Whether a new file of this size fits. Others may fill the disk meanwhile; then publishing is
    /// finished later.
    pub fn check_room(&self, directory: &RelPath, size: u64) -> Result<(), Failure> {
        let room = fs::fstatvfs(self.walk(directory)?).map_err(io_failure)?;
        if room.f_bavail.saturating_mul(room.f_frsize) < size.saturating_add(SPARE_ROOM) {
            return Err(io_failure(Errno::NOSPC));
        }
        Ok(())
    }

    /// Removes what an interrupted [`replace`](Self::replace) left behind.
    pub fn discard(&self, path: &RelPath, temporary: &str) {
        if let Ok((parent, _)) = self.open_parent(path) {
            let _ = fs::unlinkat(&parent, temporary, AtFlags::empty());
        }
    }

    /// Replaces a file at once: whoever looks sees the old content or the new, never a part.
    pub fn replace(
        &self,
        path: &RelPath,
        mode: u32,
        temporary: &str,
        write: impl FnOnce(&mut File) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.write_aside(path, mode, temporary, write)?;
        self.put_in_place(path, temporary)
    }

    /// Writes a file beside its place.
    pub(crate) fn write_aside(
        &self,
        path: &RelPath,
        mode: u32,
        temporary: &str,
        write: impl FnOnce(&mut File) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (parent, name) = self.open_parent(path)?;
        let _ = fs::unlinkat(&parent, temporary, AtFlags::empty());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&parent, temporary, flags, Mode::from_raw_mode(0o600))
            .map_err(io_failure)?;
        let mut file = File::from(file);
        let written = write(&mut file).and_then(|()| self.complete(&file, mode, &parent, name));
        if written.is_err() {
            let _ = fs::unlinkat(&parent, temporary, AtFlags::empty());
        }
        written
    }

    /// Puts what was written aside into its place.
    pub(crate) fn put_in_place(&self, path: &RelPath, temporary: &str) -> Result<(), Failure> {
        let (parent, name) = self.open_parent(path)?;
        if let Err(error) = fs::renameat(&parent, temporary, &parent, name) {
            let _ = fs::unlinkat(&parent, temporary, AtFlags::empty());
            return Err(io_failure(error));
        }
        self.sync(&parent)
    }

    fn complete(
        &self,
        file: &File,
        mode: u32,
        parent: &OwnedFd,
        name: &str,
    ) -> Result<(), Failure> {
        // The new file keeps the old one's owner where we may set it; only root writes for others.
        if let Ok(old) = fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            let owner =
                (rustix::fs::Uid::from_raw(old.st_uid), rustix::fs::Gid::from_raw(old.st_gid));
            let _ = fs::fchown(file, Some(owner.0), Some(owner.1));
        }
        fs::fchmod(file, Mode::from_raw_mode(mode as RawMode)).map_err(io_failure)?;
        match &self.syncs {
            Syncs::Each => file.sync_all().map_err(|e| std_failure(&e)),
            Syncs::Together(waiting) => {
                lock(waiting).add(file.try_clone().map_err(|e| std_failure(&e))?);
                Ok(())
            }
        }
    }

    /// The same root for many changes, which are on disk when [`sync_all`](Self::sync_all) returns.
    pub(crate) fn for_many(&self) -> Result<Root, Failure> {
        let directory =
            fs::openat(&self.directory, ".", DIRECTORY, Mode::empty()).map_err(io_failure)?;
        let (path, location) = (self.path.clone(), self.location.clone());
        let home = self.home.clone();
        Ok(Root { directory, path, location, home, syncs: Syncs::Together(Mutex::default()) })
    }

    pub(crate) fn is_for_many(&self) -> bool {
        matches!(self.syncs, Syncs::Together(_))
    }

    /// Everything that was changed so far is on disk when this returns.
    pub(crate) fn sync_all(&self) -> Result<(), Failure> {
        let Syncs::Together(waiting) = &self.syncs else { return Ok(()) };
        let Waiting { files, directories, too_many } = std::mem::take(&mut *lock(waiting));
        if too_many {
            return fs::syncfs(readable(&self.directory)?).map_err(io_failure);
        }
        sync_together(files.iter().chain(directories.values())).map_err(|e| std_failure(&e))
    }

    fn sync(&self, directory: &OwnedFd) -> Result<(), Failure> {
        match &self.syncs {
            Syncs::Each => fs::fsync(readable(directory)?).map_err(io_failure),
            Syncs::Together(waiting) => {
                let identity = identity(&fs::fstat(directory).map_err(io_failure)?);
                lock(waiting).add_directory(readable(directory)?.into(), identity);
                Ok(())
            }
        }
    }

    pub fn remove(&self, path: &RelPath) -> Result<(), Failure> {
        let (parent, name) = self.open_parent(path)?;
        match fs::unlinkat(&parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => self.sync(&parent),
            Err(error) => Err(io_failure(error)),
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

fn image_of(file: OwnedFd, stat: &Stat, path: &RelPath) -> Result<Image, Failure> {
    if size(stat) > LARGEST_FILE {
        return Err(too_large(path, LARGEST_FILE));
    }
    let mut file = File::from(file);
    let (mut hasher, mut size, mut chunk) = (Hasher::default(), 0u64, vec![0; CHUNK]);
    loop {
        let read = file.read(&mut chunk).map_err(|e| std_failure(&e))?;
        if read == 0 {
            return Ok(Image { digest: hasher.finish(), size, mode: permissions(stat) });
        }
        hasher.update(chunk.get(..read).unwrap_or_default());
        size += read as u64;
    }
}

/// The descriptor knows its own name; asking for it after opening leaves no gap for a swap.
fn real_path(directory: &OwnedFd, asked: &Path) -> std::io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
    std::fs::read_link(link).or_else(|_| std::fs::canonicalize(asked))
}

/// The home, and the directories in it that could be mounted elsewhere by themselves.
fn identities(home: &Path) -> Result<Vec<Identity>, Failure> {
    let look = |path: &Path| fs::statat(CWD, path, AtFlags::empty()).map(|stat| identity(&stat));
    let parts = Layout(home).private();
    let mut found = match look(home) {
        Ok(home) => vec![home],
        // Commands can be tried without a home.
        Err(Errno::NOENT) => Vec::new(),
        Err(error) => {
            let message = format!("the home cannot be looked at: {error}");
            return Err(
                shortage(error).unwrap_or_else(|| Failure::state("HOME_UNREADABLE", message))
            );
        }
    };
    // A part that is missing cannot be reached.
    found.extend(parts.iter().filter_map(|part| look(part).ok()));
    Ok(found)
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o777
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn kind(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        _ => "other",
    }
}

/// A descriptor that was only passed through can neither be listed nor synced; this one can.
fn readable(directory: &OwnedFd) -> Result<OwnedFd, Failure> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    fs::openat(directory, ".", flags, Mode::empty()).map_err(io_failure)
}

pub(crate) fn not_found(path: &RelPath) -> Failure {
    Failure::execution("FILE_NOT_FOUND", format!("there is no `{path}` beneath the root"))
}

fn not_a_file(path: &RelPath) -> Failure {
    Failure::execution("NOT_A_FILE", format!("`{path}` is not a regular file"))
}

fn symlink(path: &RelPath) -> Failure {
    let message = format!("`{path}` leads through a symbolic link");
    Failure::authorization("PATH_SYMLINK", message)
        .hint("name the real path; links are not followed")
}

pub(crate) fn in_home() -> Failure {
    let message = "calls cannot touch the home of Countersign itself";
    Failure::authorization("PATH_IN_HOME", message).hint("choose a root and paths outside the home")
}

pub(crate) fn too_large(path: &RelPath, limit: u64) -> Failure {
    let message = format!("`{path}` is larger than the {limit} bytes that the tool may handle");
    Failure::resource("FILE_TOO_LARGE", message).hint("raise maxFileSize in the tool's declaration")
}

pub(crate) fn std_failure(error: &std::io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(errno) => io_failure(errno),
        None => Failure::execution("IO_FAILED", error.to_string()),
    }
}

/// What this machine lacks at the moment, if that is why something failed.
pub(crate) fn shortage(error: Errno) -> Option<Failure> {
    match error {
        Errno::NOSPC | Errno::DQUOT => Some(
            Failure::resource("DISK_FULL", "the disk is full")
                .hint("free some space and call again; nothing was changed"),
        ),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => Some(Failure::resource(
            "HOST_EXHAUSTED",
            format!("this machine is out of resources: {error}"),
        )),
        _ => None,
    }
}

/// Shortages may pass; everything else is final.
fn io_failure(error: Errno) -> Failure {
    shortage(error).unwrap_or_else(|| match error {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            Failure::execution("FILE_FORBIDDEN", format!("the operating system refused: {error}"))
        }
        error => Failure::execution("IO_FAILED", format!("the file could not be used: {error}")),
    })
}
