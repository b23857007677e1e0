//! What is known of the files in `tree/` since they were last looked at, and the tree that they
//! make, named without git as long as git has no say in it.
//!
//! Git judges every name when it is seen for the first time, unless it is so plain that there is
//! nothing to judge. What is not within the limits below is left to git as well.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::thread;
use std::time::SystemTime;

use countersign_model::{Digest, Failure};
use rustix::fs::{Mode as Rights, OFlags};

use crate::id::{ObjectFormat, ObjectId};
use crate::leash::Leash;
use crate::object::{self, Kind, Writing};
use crate::parse::Mode;
use crate::recall::Stamp;

/// More than this is read faster by git, which knows how files were laid out.
const MOST_FILES: usize = 2_000;
const LARGEST: u64 = 16 << 20;
const MOST_BYTES: u64 = 256 << 20;

/// How many files are read between two looks at the leash.
const STRIDE: usize = 64;

const FILE: &str = "countersign-table";
const MAGIC: &[u8] = b"countersign table 1\n";

type Files = BTreeMap<Vec<u8>, Stamp>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Nothing, if the file could change without a change of its marks.
    stamp: Option<Stamp>,
    mode: Mode,
    id: ObjectId,
}

/// Every file with what git calls its content, and all trees above them that are in the store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    files: BTreeMap<Vec<u8>, Known>,
    trees: HashSet<ObjectId>,
}

impl Table {
    /// Of what git has just recorded, if we come to the same tree. Marks were taken before git read
    /// the files: whoever changed a file since has changed its marks.
    pub(crate) fn of_recorded<'e>(
        tree: &ObjectId,
        (found, moment): (&Files, SystemTime),
        listed: impl Iterator<Item = (&'e [u8], Mode, ObjectId)>,
    ) -> Option<Self> {
        let known = |(path, mode, id): (&[u8], Mode, ObjectId)| {
            let stamp = found.get(path).filter(|stamp| stamp.is_settled(moment)).copied();
            (path.to_vec(), Known { stamp, mode, id })
        };
        let files = listed.map(known).collect();
        let mut trees = Trees::new(tree.format(), None);
        (trees.of(&files).ok()? == *tree).then_some(Table { files, trees: trees.made })
    }

    /// The table as it is now, and the tree; nothing if that is for git to say. New objects are on
    /// disk when this returns.
    pub(crate) fn renew(
        self,
        (root, objects): (&Path, &Path),
        format: ObjectFormat,
        (found, moment): (&Files, SystemTime),
        leash: &mut Leash<'_>,
    ) -> Result<Option<(Self, ObjectId)>, Failure> {
        let Some(unread) = self.unread(found) else { return Ok(None) };
        let mut writing = Writing::new(objects);
        let reader = Reader { root, objects, format };
        let mut read = BTreeMap::new();
        for some in unread.chunks(STRIDE) {
            leash.check()?;
            for (path, one) in reader.read(some)? {
                let Some(Fresh { mode, id, packed }) = one else { return Ok(None) };
                let seen = found.get(path).is_some_and(Stamp::is_link);
                if seen != (mode == Mode::SYMLINK) {
                    return Ok(None);
                }
                writing.add(&id, packed.as_deref())?;
                read.insert(path, (mode, id));
            }
        }
        let mut files = BTreeMap::new();
        for (path, stamp) in found {
            let stamp = Some(*stamp).filter(|stamp| stamp.is_settled(moment));
            let known = read.get(path.as_slice()).copied();
            let known = known.or_else(|| self.files.get(path).map(|known| (known.mode, known.id)));
            let Some((mode, id)) = known else { return Ok(None) };
            files.insert(path.clone(), Known { stamp, mode, id });
        }
        let mut trees = Trees::new(format, Some((objects, &self.trees, &mut writing)));
        let tree = trees.of(&files)?;
        let trees = trees.made;
        writing.finish()?;
        Ok(Some((Table { files, trees }, tree)))
    }

    /// Files whose content has to be read, if these are few, and of names that git would take.
    fn unread<'f>(&self, found: &'f Files) -> Option<Vec<&'f [u8]>> {
        let (mut unread, mut bytes) = (Vec::new(), 0u64);
        for (path, stamp) in found {
            let known = self.files.get(path);
            if known.is_some_and(|known| known.stamp == Some(*stamp)) {
                continue;
            }
            bytes = bytes.saturating_add(stamp.size());
            // Git has judged the name for what stood there.
            let judged =
                known.is_some_and(|known| stamp.is_link() == (known.mode == Mode::SYMLINK));
            let is_ours = stamp.size() <= LARGEST && (judged || is_plain(path));
            if !is_ours || bytes > MOST_BYTES || unread.len() == MOST_FILES {
                return None;
            }
            unread.push(path.as_slice());
        }
        Some(unread)
    }
}

/// A path of which no system makes anything but what it says: letters, digits and a few signs, and
/// nothing that resembles what belongs to git.
fn is_plain(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|name| {
        let begins = name.get(..4).unwrap_or(name);
        !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-+@".contains(byte))
            && !begins.eq_ignore_ascii_case(b".git")
            && !name.ends_with(b".")
    })
}

/// A file that was read: its packed content, unless that is in the store.
struct Fresh {
    mode: Mode,
    id: ObjectId,
    packed: Option<Vec<u8>>,
}

type Read<'p> = Vec<(&'p [u8], Option<Fresh>)>;

#[derive(Clone, Copy)]
struct Reader<'r> {
    root: &'r Path,
    objects: &'r Path,
    format: ObjectFormat,
}

impl Reader<'_> {
    /// Two halves at the same time, where there is something to share.
    fn read<'p>(self, paths: &[&'p [u8]]) -> Result<Read<'p>, Failure> {
        let some = |paths: &[&'p [u8]]| -> Result<Read<'p>, Failure> {
            paths.iter().map(|path| Ok((*path, self.one(path)?))).collect()
        };
        if paths.len() < 4 {
            return some(paths);
        }
        let (left, right) = paths.split_at_checked(paths.len() / 2).unwrap_or_default();
        let (left, right) = thread::scope(|scope| {
            let other = scope.spawn(|| some(right));
            (some(left), other.join())
        });
        let crashed = |_| Failure::execution("TREE_UNREADABLE", "reading the files crashed");
        let mut all = left?;
        all.extend(right.map_err(crashed)??);
        Ok(all)
    }

    /// Nothing if something else stands there by now.
    fn one(self, path: &[u8]) -> Result<Option<Fresh>, Failure> {
        let place = self.root.join(std::ffi::OsStr::from_bytes(path));
        let Some((mode, content)) = content(&place) else { return Ok(None) };
        let id = object::name(self.format, Kind::Blob, &content)?;
        let packed = object::packed(self.objects, &id, Kind::Blob, &content);
        Ok(Some(Fresh { mode, id, packed }))
    }
}

fn content(place: &Path) -> Option<(Mode, Vec<u8>)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(place, flags, Rights::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => {
            let target = fs::read_link(place).ok()?;
            return Some((Mode::SYMLINK, target.into_os_string().into_vec()));
        }
        Err(_) => return None,
    };
    let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mode = std::os::unix::fs::MetadataExt::mode(&metadata);
    let mode = if mode & 0o100 == 0 { Mode::FILE } else { Mode::EXECUTABLE };
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).ok()?.min(1 << 24));
    file.take(LARGEST + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= LARGEST).then_some((mode, content))
}

/// Trees in the making, from the files of an index in order.
struct Trees<'t, 'w> {
    format: ObjectFormat,
    made: HashSet<ObjectId>,
    /// Where those go that are not known to be in the store, if they are to go anywhere.
    store: Option<(&'t Path, &'t HashSet<ObjectId>, &'t mut Writing<'w>)>,
}

/// A directory whose entries are still coming.
#[derive(Default)]
struct Level<'n> {
    name: &'n [u8],
    content: Vec<u8>,
}

impl Level<'_> {
    /// Entries come in the order of whole paths, which is the one that git wants in a tree.
    fn add(&mut self, mode: &str, name: &[u8], id: &ObjectId) {
        self.content.extend_from_slice(mode.as_bytes());
        self.content.push(b' ');
        self.content.extend_from_slice(name);
        self.content.push(0);
        self.content.extend_from_slice(id.as_bytes());
    }
}

impl<'t, 'w> Trees<'t, 'w> {
    fn new(
        format: ObjectFormat,
        store: Option<(&'t Path, &'t HashSet<ObjectId>, &'t mut Writing<'w>)>,
    ) -> Self {
        Trees { format, made: HashSet::new(), store }
    }

    fn of(&mut self, files: &BTreeMap<Vec<u8>, Known>) -> Result<ObjectId, Failure> {
        let mut top = Level::default();
        let mut open: Vec<Level<'_>> = Vec::new();
        for (path, known) in files {
            let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
            let name = names.pop().unwrap_or_default();
            let same = open.iter().zip(&names).take_while(|(level, name)| level.name == **name);
            let same = same.count();
            self.close(&mut top, &mut open, same)?;
            open.extend(
                names.into_iter().skip(same).map(|name| Level { name, content: Vec::new() }),
            );
            open.last_mut().unwrap_or(&mut top).add(octal(known.mode), name, &known.id);
        }
        self.close(&mut top, &mut open, 0)?;
        self.make(&top.content)
    }

    fn close<'n>(
        &mut self,
        top: &mut Level<'n>,
        open: &mut Vec<Level<'n>>,
        left: usize,
    ) -> Result<(), Failure> {
        while open.len() > left {
            let Some(done) = open.pop() else { break };
            let id = self.make(&done.content)?;
            open.last_mut().unwrap_or(top).add("40000", done.name, &id);
        }
        Ok(())
    }

    fn make(&mut self, content: &[u8]) -> Result<ObjectId, Failure> {
        let id = object::name(self.format, Kind::Tree, content)?;
        if let (true, Some((objects, known, writing))) = (self.made.insert(id), &mut self.store)
            && !known.contains(&id)
        {
            writing.add(&id, object::packed(objects, &id, Kind::Tree, content).as_deref())?;
        }
        Ok(id)
    }
}

fn octal(mode: Mode) -> &'static str {
    match mode {
        Mode::EXECUTABLE => "100755",
        Mode::SYMLINK => "120000",
        _ => "100644",
    }
}

impl Table {
    /// Nothing if it is not whole, or of another kind of repository.
    pub(crate) fn read(git_dir: &Path, format: ObjectFormat) -> Option<Self> {
        let bytes = fs::read(git_dir.join(FILE)).ok()?;
        let (bytes, sum) = bytes.split_last_chunk::<32>()?;
        if Digest::of(bytes).as_bytes() != sum {
            return None;
        }
        let mut rest = Cut(bytes.strip_prefix(MAGIC)?);
        let (mut files, mut trees) = (BTreeMap::new(), HashSet::new());
        for _ in 0..rest.word()? {
            let length = usize::try_from(rest.word()?).ok()?;
            let path = rest.take(length)?.to_vec();
            let mode = Mode::read(rest.take(6)?)?;
            let id = rest.id(format)?;
            let stamp = rest.stamp()?;
            files.insert(path, Known { stamp, mode, id });
        }
        for _ in 0..rest.word()? {
            trees.insert(rest.id(format)?);
        }
        Some(Table { files, trees }).filter(|_| rest.0.is_empty())
    }

    /// Written in its place: half of it proves nothing, and a new file each time costs more than the
    /// bytes. What cannot be written costs time, and nothing else.
    pub(crate) fn note(&self, git_dir: &Path) {
        let path = git_dir.join(FILE);
        if fs::write(&path, self.bytes()).is_err() {
            let _ = fs::remove_file(path);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAGIC.len() + self.files.len() * 160);
        let word = |bytes: &mut Vec<u8>, word: u64| bytes.extend(word.to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        word(&mut bytes, self.files.len() as u64);
        for (path, known) in &self.files {
            word(&mut bytes, path.len() as u64);
            bytes.extend_from_slice(path);
            bytes.extend_from_slice(octal(known.mode).as_bytes());
            bytes.extend_from_slice(known.id.as_bytes());
            let words = known.stamp.map_or([0; 8], Stamp::words);
            words.into_iter().for_each(|one| word(&mut bytes, one));
        }
        word(&mut bytes, self.trees.len() as u64);
        let in_order: BTreeSet<_> = self.trees.iter().collect();
        in_order.into_iter().for_each(|id| bytes.extend_from_slice(id.as_bytes()));
        bytes.extend(Digest::of(&bytes).into_bytes());
        bytes
    }
}

/// Bytes that are taken from the front.
struct Cut<'c>(&'c [u8]);

impl<'c> Cut<'c> {
    fn take(&mut self, count: usize) -> Option<&'c [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn id(&mut self, format: ObjectFormat) -> Option<ObjectId> {
        Some(ObjectId::from_bytes(format, self.take(format.length())?))
    }

    fn stamp(&mut self) -> Option<Option<Stamp>> {
        let mut words = [0; 8];
        for word in &mut words {
            *word = self.word()?;
        }
        Some((words != [0; 8]).then(|| Stamp::from_words(words)))
    }
}
