//! What programs change beneath a root: directories, links, and files with any number of names.
//!
//! A program sees the whole tree at once, so nothing in it is out of its scope; what could lead
//! outside is never followed here either.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use countersign_model::Failure;
use countersign_model::effect::Image;
use countersign_sandbox::staging::walk::{self, Entry, Kind};
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, Mode};
use rustix::io::Errno;

use super::{
    DIRECTORY, Root, identity, image_of, in_home, io_failure, not_a_file, not_found, permissions,
    readable, size,
};
use crate::home::Layout;
use crate::manifest::Stamp;
use crate::path::RelPath;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    Nothing,
    File,
    Directory {
        mode: u32,
    },
    /// A symbolic link and what it points to.
    Link(Vec<u8>),
    Other,
}

const SEEN: &str = "a program would see the home beneath this root, keys and all; keep the home \
                    elsewhere and name it with --home";

impl Root {
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Whether a directory belongs to the home, which no call may see.
    pub(crate) fn is_home(&self, entry: &Entry) -> bool {
        self.home.contains(&identity(&entry.stat))
    }

    /// The home's place beneath the root, if it lies there: a program must not see the keys in it.
    pub(crate) fn home_beneath(&self, home: &Path) -> Result<Option<RelPath>, Failure> {
        let parts = Layout(home).private();
        let is_around = |part: &Path| self.is_around(part);
        let inside = is_around(home)?;
        let real = std::fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
        for part in &parts {
            // A part of the home that lies elsewhere beneath the root could not be hidden with it.
            let part = std::fs::canonicalize(part).unwrap_or_else(|_| part.clone());
            if is_around(&part)? && !(inside && part.starts_with(&real)) {
                return Err(in_home().hint(SEEN));
            }
        }
        if !inside {
            return Ok(None);
        }
        let beneath = real.strip_prefix(self.location()).ok().and_then(Path::to_str);
        let beneath = beneath.and_then(|path| RelPath::parse(path).ok());
        beneath.map(Some).ok_or_else(|| in_home().hint(SEEN))
    }

    /// Whether a directory lies beneath the root, whatever names lead there.
    fn is_around(&self, directory: &Path) -> Result<bool, Failure> {
        let own = identity(&fs::fstat(&self.directory).map_err(io_failure)?);
        let Ok(mut at) = fs::openat(CWD, directory, DIRECTORY, Mode::empty()) else {
            return Ok(false);
        };
        loop {
            let here = identity(&fs::fstat(&at).map_err(io_failure)?);
            if here == own {
                return Ok(true);
            }
            let above = fs::openat(&at, "..", DIRECTORY, Mode::empty()).map_err(io_failure)?;
            if identity(&fs::fstat(&above).map_err(io_failure)?) == here {
                return Ok(false);
            }
            at = above;
        }
    }

    /// Whether the root's name still leads to it: programs are shown it by name.
    pub(crate) fn is_in_place(&self) -> bool {
        let named = fs::statat(CWD, self.location(), AtFlags::SYMLINK_NOFOLLOW);
        let held = fs::fstat(&self.directory);
        matches!((named, held), (Ok(a), Ok(b)) if identity(&a) == identity(&b))
    }

    /// What stands at a path. Where a parent is missing or no directory, nothing does.
    fn look(&self, path: &RelPath) -> Result<Option<Entry>, Failure> {
        let (parent, name) = match self.open_parent(path) {
            Ok(found) => found,
            Err(failure) if is_absence(&failure) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        walk::look(&parent, &c_name(name)?).map_err(io_failure)
    }

    pub(crate) fn standing(&self, path: &RelPath) -> Result<Standing, Failure> {
        let Some(entry) = self.look(path)? else { return Ok(Standing::Nothing) };
        Ok(match entry.kind() {
            Kind::File => Standing::File,
            Kind::Directory => Standing::Directory { mode: entry.mode() },
            Kind::Link => {
                let (parent, name) = self.open_parent(path)?;
                Standing::Link(walk::read_link(&parent, &c_name(name)?).map_err(io_failure)?)
            }
            Kind::Whiteout | Kind::Other => Standing::Other,
        })
    }

    /// Where a link leads; `None` if nothing stands there.
    pub(crate) fn link(&self, path: &RelPath) -> Result<Option<String>, Failure> {
        match self.standing(path)? {
            Standing::Nothing => Ok(None),
            Standing::Link(target) => String::from_utf8(target).map(Some).map_err(|_| {
                let message = format!("the link `{path}` leads to a name that is not UTF-8");
                Failure::execution("LINK_NOT_TEXT", message)
            }),
            _ => {
                let message = format!("`{path}` is not a symbolic link");
                Err(Failure::execution("NOT_A_LINK", message))
            }
        }
    }

    /// The marks by which a change is noticed; `None` if there is nothing.
    pub(crate) fn stamp(&self, path: &RelPath) -> Result<Option<Stamp>, Failure> {
        Ok(self.look(path)?.map(|entry| Stamp::of(&entry.stat)))
    }

    /// A file's content, whatever other names it has.
    pub(crate) fn content(&self, path: &RelPath) -> Result<(File, u32), Failure> {
        let (file, stat) = self.open_regular(path)?.ok_or_else(|| not_found(path))?;
        Ok((File::from(file), permissions(&stat)))
    }

    /// Whether a file is this one, byte for byte.
    pub(crate) fn holds(&self, path: &RelPath, image: Image) -> Result<bool, Failure> {
        Ok(self.holds_one(path, &[image])?.is_some())
    }

    /// Which of these a file is, byte for byte; the first, if two are alike. It is read once.
    pub(crate) fn holds_one(
        &self,
        path: &RelPath,
        images: &[Image],
    ) -> Result<Option<Image>, Failure> {
        let found = match self.open_regular(path) {
            Err(failure) if failure.code == "FILE_FORBIDDEN" => {
                // The program took the right to read it away, from us as well. Size and permissions
                // have to do.
                let entry = self.look(path)?;
                let fits = |image: &&Image| {
                    let same = |e: &Entry| (e.size(), e.mode()) == (image.size, image.mode);
                    image.mode & 0o400 == 0 && entry.as_ref().is_some_and(same)
                };
                return Ok(images.iter().find(fits).copied());
            }
            found => found?,
        };
        match found {
            // A different size is enough to tell.
            Some((file, stat)) if images.iter().any(|image| size(&stat) == image.size) => {
                let found = image_of(file, &stat, path)?;
                Ok(images.contains(&found).then_some(found))
            }
            _ => Ok(None),
        }
    }

    /// `false` if something stands there that is no directory.
    pub(crate) fn set_mode(&self, path: &RelPath, mode: u32) -> Result<bool, Failure> {
        let directory = match self.walk(path) {
            Ok(directory) => directory,
            Err(failure) if is_absence(&failure) => return Ok(false),
            Err(failure) => return Err(failure),
        };
        let mode = Mode::from_raw_mode(mode);
        // A directory that was only passed through cannot be changed by its descriptor.
        match readable(&directory) {
            Ok(readable) => fs::fchmod(readable, mode).map_err(io_failure)?,
            Err(_) => {
                let (parent, name) = self.open_parent(path)?;
                fs::chmodat(&parent, name, mode, AtFlags::empty()).map_err(io_failure)?;
            }
        }
        let (parent, _) = self.open_parent(path)?;
        self.sync(&directory)?;
        self.sync(&parent)?;
        Ok(true)
    }

    /// `false` if somebody has put something into it.
    pub(crate) fn remove_directory(&self, path: &RelPath) -> Result<bool, Failure> {
        let (parent, name) = self.open_parent(path)?;
        match fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => self.sync(&parent).map(|()| true),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(io_failure(error)),
        }
    }

    /// Makes or replaces a link at once.
    pub(crate) fn write_link(
        &self,
        path: &RelPath,
        target: &str,
        temporary: &str,
    ) -> Result<(), Failure> {
        let (parent, name) = self.open_parent(path)?;
        let _ = fs::unlinkat(&parent, temporary, AtFlags::empty());
        fs::symlinkat(target, &parent, temporary).map_err(io_failure)?;
        if let Err(error) = fs::renameat(&parent, temporary, &parent, name) {
            let _ = fs::unlinkat(&parent, temporary, AtFlags::empty());
            return Err(if error == Errno::ISDIR { not_a_file(path) } else { io_failure(error) });
        }
        self.sync(&parent)
    }
}

/// A parent that is missing, or something else than a directory.
fn is_absence(failure: &Failure) -> bool {
    matches!(failure.code.as_ref(), "FILE_NOT_FOUND" | "NOT_A_DIRECTORY" | "PATH_SYMLINK")
}

fn c_name(name: &str) -> Result<CString, Failure> {
    CString::new(name).map_err(|_| io_failure(Errno::INVAL))
}
