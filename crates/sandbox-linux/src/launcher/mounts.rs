//! Mounts: how a root is built, staged and entered. Paths are those of the box; until the root is
//! entered, it stands at [`ROOT`].

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use countersign_sandbox::plan::SetupOp;
use rustix::fs::{CWD, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount,
    mount_bind, mount_bind_recursive, mount_change, move_mount, unmount,
};

use crate::sys::set_mount_flags;

/// Every system has this directory, no program needs it, and nobody works in it.
const CARRIER: &str = "/sys";
const ROOT: &str = "/sys/root";
const SCRATCH: &str = "/sys/scratch";

/// How deep a workspace may be that has to be copied.
const DEEPEST: u32 = 256;

/// What the host gets to see of a box's files.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    pub(crate) scratch: Option<OwnedFd>,
    pub(crate) out: Option<OwnedFd>,
    pub(crate) workspace: Option<OwnedFd>,
}

pub(crate) fn apply(op: &SetupOp, staging: &mut Staging) -> io::Result<()> {
    match op {
        SetupOp::Root => new_root(),
        SetupOp::Directory { path } => fs::create_dir_all(inside(path)),
        SetupOp::Link { path, target } => link(path, target),
        SetupOp::File { path, content } => file(path, content),
        SetupOp::Bind { source, target } => bind(source, target),
        SetupOp::Device { name } => device(name),
        SetupOp::SealRoot => set_mount_flags(ROOT, MountFlags::RDONLY),
        SetupOp::Scratch { bytes, inodes } => scratch(*bytes, *inodes, staging),
        SetupOp::Writable { name, target } => writable(name, target, staging),
        SetupOp::Overlay { source, name, target, writable } => {
            let upper = overlay(source, name, target, *writable)?;
            staging.workspace = staging.workspace.take().or(writable.then_some(upper));
            Ok(())
        }
        SetupOp::Copy { source, name, target, writable } => {
            let place = copy(source, name, target, *writable)?;
            staging.workspace = writable.then_some(place);
            Ok(())
        }
        SetupOp::Hide { target } => hide(target),
        SetupOp::Proc => proc(),
        SetupOp::EnterRoot => enter_root(),
        SetupOp::Hostname { name } => Ok(rustix::system::sethostname(name.as_bytes())?),
        op => Err(io::Error::other(format!("this is no step of building a root: {op}"))),
    }
}

fn inside(path: &str) -> String {
    format!("{ROOT}{path}")
}

/// Nothing that is mounted from here on is seen by the host, nor the other way round.
fn new_root() -> io::Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", CARRIER, "tmpfs", flags, Some(c"mode=755,size=64k,nr_inodes=16"))?;
    fs::create_dir(ROOT)?;
    fs::create_dir(SCRATCH)?;
    Ok(mount("tmpfs", ROOT, "tmpfs", flags, Some(c"mode=755,size=1m,nr_inodes=512"))?)
}

fn link(path: &str, target: &str) -> io::Result<()> {
    make_parent(path)?;
    symlink(target, inside(path))
}

fn file(path: &str, content: &str) -> io::Result<()> {
    make_parent(path)?;
    fs::write(inside(path), content)
}

fn make_parent(path: &str) -> io::Result<()> {
    Path::new(&inside(path)).parent().map_or(Ok(()), fs::create_dir_all)
}

/// Recursive, because a part of the tree cannot be shown without what is mounted on it.
fn bind(source: &str, target: &str) -> io::Result<()> {
    let place = inside(target);
    make_mount_point(source, &place)?;
    mount_bind_recursive(source, &place)?;
    set_mount_flags(&place, MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV)
}

fn make_mount_point(source: &str, place: &str) -> io::Result<()> {
    if fs::symlink_metadata(place).is_ok() {
        return Ok(());
    }
    if fs::metadata(source)?.is_dir() {
        return fs::create_dir_all(place);
    }
    Path::new(place).parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::File::create_new(place).map(|_| ())
}

fn device(name: &str) -> io::Result<()> {
    let (source, place) = (format!("/dev/{name}"), inside(&format!("/dev/{name}")));
    fs::File::create_new(&place)?;
    mount_bind(&source, &place)?;
    set_mount_flags(&place, MountFlags::NOSUID | MountFlags::NOEXEC)
}

/// Made with the newer interface, which hands over a descriptor before anything is mounted.
fn scratch(bytes: u64, inodes: u64, staging: &mut Staging) -> io::Result<()> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "size", bytes.to_string())?;
    // The directories that the box itself makes do not count.
    fsconfig_set_string(&context, "nr_inodes", inodes.saturating_add(16).to_string())?;
    fsconfig_set_string(&context, "mode", "755")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mounted = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    attach(&mounted, SCRATCH)?;
    staging.scratch = Some(directory(SCRATCH)?);
    Ok(())
}

fn attach(mounted: &OwnedFd, place: &str) -> io::Result<()> {
    Ok(move_mount(mounted, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn directory(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn writable(name: &str, target: &str, staging: &mut Staging) -> io::Result<()> {
    let place = format!("{SCRATCH}/{name}");
    fs::create_dir(&place)?;
    if target == "/out" {
        staging.out = Some(directory(&place)?);
    }
    Ok(mount_bind(&place, inside(target))?)
}

/// `userxattr`, because a user namespace may not write other attributes; `volatile`, because what is
/// in memory needs no syncing.
fn overlay(source: &str, name: &str, target: &str, writable: bool) -> io::Result<OwnedFd> {
    let (upper, work) = (format!("{SCRATCH}/{name}"), format!("{SCRATCH}/{name}.work"));
    fs::create_dir(&upper)?;
    fs::create_dir(&work)?;
    fs::set_permissions(&upper, fs::metadata(source)?.permissions())?;
    keeps_attributes(&work)?;
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", "workspace")?;
    // From within, because options end after 255 bytes, and because the program can read them.
    rustix::process::chdir(source)?;
    fsconfig_set_string(&context, "lowerdir", ".")?;
    fsconfig_set_string(&context, "upperdir", &upper)?;
    fsconfig_set_string(&context, "workdir", &work)?;
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_set_flag(&context, "volatile")?;
    fsconfig_create(&context)?;
    rustix::process::chdir("/")?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, !writable);
    let mounted = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    attach(&mounted, &inside(target))?;
    directory(&upper)
}

/// Without attributes an overlay can be made, but no directory removed from it: whether one hides
/// what was there before could not be written down.
fn keeps_attributes(place: &str) -> io::Result<()> {
    let name = "user.overlay.tried";
    rustix::fs::setxattr(place, name, b"y", XattrFlags::empty()).map_err(|error| match error {
        Errno::OPNOTSUPP => io::Error::other("files in memory keep no attributes before Linux 6.6"),
        error => error.into(),
    })?;
    Ok(rustix::fs::removexattr(place, name)?)
}

fn copy(source: &str, name: &str, target: &str, writable: bool) -> io::Result<OwnedFd> {
    let place = format!("{SCRATCH}/{name}");
    copy_tree(Path::new(source), Path::new(&place), 0).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => io::Error::other(
            "it does not fit into the bytes and files that may be written: raise those limits",
        ),
        _ => error,
    })?;
    mount_bind(&place, inside(target))?;
    if !writable {
        set_mount_flags(&inside(target), MountFlags::RDONLY)?;
    }
    directory(&place)
}

/// Files, directories and links. Anything else is nothing that a program could change.
fn copy_tree(source: &Path, place: &Path, depth: u32) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other(
            "the workspace has too many directories inside of each other",
        ));
    }
    let metadata = fs::symlink_metadata(source)?;
    if metadata.is_symlink() {
        return symlink(fs::read_link(source)?, place);
    }
    if metadata.is_file() {
        return fs::copy(source, place).map(|_| ());
    }
    if !metadata.is_dir() {
        return Ok(());
    }
    fs::create_dir(place)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        copy_tree(&entry.path(), &place.join(entry.file_name()), depth + 1)?;
    }
    fs::set_permissions(place, metadata.permissions())
}

/// Nothing is beneath a mount that can be removed, renamed or written.
fn hide(target: &str) -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("tmpfs", inside(target), "tmpfs", flags, Some(c"mode=555,size=4k,nr_inodes=1"))?)
}

/// Processes only: no /proc/sys, no /proc/kcore, nothing of the kernel's.
fn proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", inside("/proc"), "proc", flags, Some(c"subset=pid"))?)
}

/// The old root ends up on top of the new one for a moment, and is let go of with all its mounts.
fn enter_root() -> io::Result<()> {
    rustix::process::chdir(ROOT)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}
