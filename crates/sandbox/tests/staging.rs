//! The scan against a simple model: whatever a program does to a tree, doing the changes that were
//! found to the original gives the same tree.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use countersign_model::Failure;
use countersign_sandbox::backend::{StagedForm, StagedWorkspace};
use countersign_sandbox::staging::walk::Entry;
use countersign_sandbox::staging::{Bounds, Change, Was, scan_out, scan_workspace};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use tempfile::tempdir;

const BOUNDS: Bounds = Bounds { entries: 1000, original: 1000, bytes: 1 << 20 };

/// What can stand at a path.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    File(u32, String),
    Link(String),
    Directory(u32, BTreeMap<String, Node>),
}

type Tree = BTreeMap<String, Node>;

fn node() -> impl Strategy<Value = Node> {
    let mode = prop_oneof![Just(0o644u32), Just(0o600), Just(0o755)];
    let file = (mode, "[ab]{0,2}").prop_map(|(mode, text)| Node::File(mode, text));
    let leaf = prop_oneof![3 => file, 1 => "[abc]".prop_map(Node::Link)];
    let directory_mode = || prop_oneof![4 => Just(0o755u32), 1 => Just(0o700)];
    leaf.prop_recursive(3, 16, 3, move |inner| {
        (directory_mode(), prop::collection::btree_map("[abc]", inner, 0..3))
            .prop_map(|(mode, tree)| Node::Directory(mode, tree))
    })
}

fn tree() -> impl Strategy<Value = Tree> {
    prop::collection::btree_map("[abcd]", node(), 0..4)
}

fn write(at: &Path, tree: &Tree) {
    for (name, node) in tree {
        let path = at.join(name);
        match node {
            Node::File(mode, text) => {
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
            }
            Node::Link(target) => symlink(target, &path).unwrap(),
            Node::Directory(mode, inner) => {
                fs::create_dir(&path).unwrap();
                write(&path, inner);
                fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
            }
        }
    }
}

fn read(at: &Path) -> Tree {
    let mut tree = Tree::new();
    for entry in fs::read_dir(at).unwrap() {
        let (name, path) = entry.map(|e| (e.file_name(), e.path())).unwrap();
        let found = fs::symlink_metadata(&path).unwrap();
        let mode = found.mode() & 0o777;
        let node = if found.is_symlink() {
            Node::Link(fs::read_link(&path).unwrap().to_str().unwrap().to_owned())
        } else if found.is_dir() {
            Node::Directory(mode, read(&path))
        } else {
            Node::File(mode, fs::read_to_string(&path).unwrap())
        };
        tree.insert(name.into_string().unwrap(), node);
    }
    tree
}

/// The upper layer that an overlay would have after `old` became `new`.
fn write_upper(at: &Path, old: &Tree, new: &Tree) {
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        mknodat(CWD, at.join(name), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }
    for (name, node) in new {
        let path = at.join(name);
        match (old.get(name), node) {
            (Some(before), node) if before == node => {}
            (Some(Node::Directory(_, before)), Node::Directory(mode, after)) => {
                fs::create_dir(&path).unwrap();
                // Every other directory was removed and made anew.
                if before.len() % 2 == 0 {
                    write_upper(&path, before, after);
                } else {
                    write(&path, after);
                    let flags = XattrFlags::empty();
                    setxattr(&path, "user.overlay.opaque", b"y", flags).unwrap();
                }
                fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
            }
            (_, node) => write(at, &Tree::from([(name.clone(), node.clone())])),
        }
    }
}

fn scan(staged: &Path, form: StagedForm, original: &Path) -> Result<Vec<Change>, Failure> {
    let workspace = StagedWorkspace { directory: fs::File::open(staged).unwrap().into(), form };
    let mut same = |_: &str, _: Option<&Entry>| Ok(());
    scan_workspace(&workspace, fs::File::open(original).unwrap(), &BOUNDS, &mut same)
}

/// Does the changes in their order; each must be possible when its turn comes.
fn apply(changes: &[Change], staged: &Path, root: &Path) {
    for change in changes {
        let path = root.join(change.path());
        match change {
            Change::DirectoryChanged { after, .. } => {
                fs::set_permissions(&path, Permissions::from_mode(*after)).unwrap();
            }
            Change::Removed { was: Was::Directory { .. }, .. } => fs::remove_dir(&path).unwrap(),
            Change::Removed { was: Was::File, .. } => {
                assert!(fs::symlink_metadata(&path).unwrap().is_file());
                fs::remove_file(&path).unwrap();
            }
            Change::Removed { was: Was::Link { target }, .. } => {
                assert_eq!(fs::read_link(&path).unwrap().to_str().unwrap(), target);
                fs::remove_file(&path).unwrap();
            }
            Change::DirectoryMade { mode, .. } => {
                fs::create_dir(&path).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
            }
            Change::FileWritten { mode, replaces, size, .. } => {
                assert_eq!(path.is_file(), *replaces, "{change:?}");
                let content = fs::read(staged.join(change.path())).unwrap();
                assert_eq!(content.len() as u64, *size);
                fs::write(&path, content).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
            }
            Change::LinkWritten { target, before, .. } => {
                assert_eq!(fs::read_link(&path).is_ok(), before.is_some(), "{change:?}");
                let _ = fs::remove_file(&path);
                symlink(target, &path).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_changes_found_turn_the_old_tree_into_the_new(old in tree(), new in tree()) {
        for form in [StagedForm::Whole, StagedForm::Upper] {
            let (original, staged) = (tempdir().unwrap(), tempdir().unwrap());
            write(original.path(), &old);
            match form {
                StagedForm::Whole => write(staged.path(), &new),
                StagedForm::Upper => write_upper(staged.path(), &old, &new),
            }
            let changes = scan(staged.path(), form, original.path()).unwrap();
            if old == new {
                prop_assert_eq!(&changes, &[]);
            }
            apply(&changes, staged.path(), original.path());
            prop_assert_eq!(read(original.path()), new.clone(), "{:?}: {:?}", form, changes);
        }
    }
}

#[test]
fn a_hundred_thousand_files_are_counted_and_refused() {
    let (original, staged) = (tempdir().unwrap(), tempdir().unwrap());
    for n in 0..100 {
        fs::create_dir(staged.path().join(n.to_string())).unwrap();
        for m in 0..1000 {
            fs::File::create(staged.path().join(format!("{n}/{m}"))).unwrap();
        }
    }
    let failure = scan(staged.path(), StagedForm::Upper, original.path()).unwrap_err();
    assert_eq!(failure.code, "INODE_LIMIT");
    let failure = scan_out(fs::File::open(staged.path()).unwrap(), &BOUNDS).unwrap_err();
    assert_eq!(failure.code, "INODE_LIMIT");
    let enough = Bounds { entries: 200_000, ..BOUNDS };
    let out = scan_out(fs::File::open(staged.path()).unwrap(), &enough).unwrap();
    assert_eq!(out.len(), 100_000);
}

#[test]
fn marks_of_an_overlay_that_are_not_understood_are_refused() {
    for (name, value) in [("opaque", "x"), ("redirect", "/elsewhere")] {
        let (original, staged) = (tempdir().unwrap(), tempdir().unwrap());
        let path = staged.path().join("d");
        fs::create_dir(&path).unwrap();
        let name = format!("user.overlay.{name}");
        setxattr(&path, name.as_str(), value.as_bytes(), XattrFlags::empty()).unwrap();
        let failure = scan(staged.path(), StagedForm::Upper, original.path()).unwrap_err();
        assert_eq!(failure.code, "STAGING_REFUSED", "{name}");
    }
    let (original, staged) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(staged.path().join("f"), "").unwrap();
    let path = staged.path().join("f");
    setxattr(&path, "user.overlay.metacopy", b"", XattrFlags::empty()).unwrap();
    let failure = scan(staged.path(), StagedForm::Upper, original.path()).unwrap_err();
    assert_eq!(failure.code, "STAGING_REFUSED");
}

#[test]
fn what_cannot_be_copied_is_not_missed_and_not_replaced() {
    let (original, staged) = (tempdir().unwrap(), tempdir().unwrap());
    let socket = original.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(scan(staged.path(), StagedForm::Whole, original.path()).unwrap(), []);
    fs::write(staged.path().join("socket"), "").unwrap();
    let failure = scan(staged.path(), StagedForm::Whole, original.path()).unwrap_err();
    assert_eq!(failure.code, "STAGING_REFUSED");
    drop(listener);
}

/// Links that were there before may lead anywhere; those that a program makes may not.
#[test]
fn old_links_are_left_alone() {
    let (original, staged) = (tempdir().unwrap(), tempdir().unwrap());
    for at in [original.path(), staged.path()] {
        symlink("/etc/passwd", at.join("old")).unwrap();
    }
    assert_eq!(scan(staged.path(), StagedForm::Whole, original.path()).unwrap(), []);
    fs::remove_file(staged.path().join("old")).unwrap();
    symlink("/etc/shadow", staged.path().join("old")).unwrap();
    let failure = scan(staged.path(), StagedForm::Whole, original.path()).unwrap_err();
    assert_eq!(failure.code, "STAGING_REFUSED");
}
