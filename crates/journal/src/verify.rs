//! Verification: needs the entries, a signed checkpoint and a public key, and nothing else of ours.
//!
//! The same code checks a live home, an exported file and a single proof.

use std::collections::{HashMap, HashSet};

use countersign_model::event::{CallFact, Fact, GrantEvent, HomeEvent};
use countersign_model::state::next;
use countersign_model::{
    CallState, Digest, ExecutionId, GrantId, KeyBook, RecordFact, RunFact, RunId, WorkspaceEvent,
    WorkspaceId,
};
use serde::Serialize;

use crate::checkpoint::{Checkpoint, CheckpointError, VerifierKey};
use crate::entry::Entry;
use crate::merkle::{Frontier, leaf_hash, tiling};

/// What is wrong, and with which entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("entry {seq} cannot be read: {why}")]
    Unreadable { seq: u64, why: String },
    #[error("entry {expected} is missing: entry {found} stands in its place")]
    OutOfOrder { expected: u64, found: u64 },
    #[error("entry {seq} was changed: it is not the entry that its neighbours name")]
    Changed { seq: u64 },
    #[error("entry {seq} says something impossible: {why}")]
    Impossible { seq: u64, why: String },
    #[error("the tail is cut off: entries {found} to {} are missing", end.saturating_sub(1))]
    Truncated { found: u64, end: u64 },
    #[error("entry {seq} does not belong here: the checkpoint covers {end} entries")]
    Surplus { seq: u64, end: u64 },
    #[error(
        "the entries do not lead to the signed root: entry {last} was changed, or the chain up to it, or an edge hash"
    )]
    WrongRoot { last: u64 },
    #[error("the journal was rewritten: its first {size} entries are not the ones signed before")]
    Forked { size: u64 },
    #[error("this range cannot show that it continues the checkpoint of {size} entries")]
    OutOfReach { size: u64 },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("the file is not a journal export: {0}")]
    Header(String),
}

impl Fault {
    /// The entry to look at, if one can be named.
    pub fn entry(&self) -> Option<u64> {
        match self {
            Fault::Unreadable { seq, .. }
            | Fault::Changed { seq }
            | Fault::Impossible { seq, .. }
            | Fault::Surplus { seq, .. } => Some(*seq),
            Fault::OutOfOrder { expected, .. } => Some(*expected),
            Fault::Truncated { found, .. } => Some(*found),
            Fault::WrongRoot { last } => Some(*last),
            Fault::Forked { size } => size.checked_sub(1),
            Fault::OutOfReach { .. } | Fault::Checkpoint(_) | Fault::Header(_) => None,
        }
    }
}

/// What was proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    pub origin: String,
    pub first: u64,
    pub end: u64,
    pub size: u64,
    pub root: Digest,
}

/// Takes entries one by one and says at the end whether they are exactly what was signed.
#[derive(Debug)]
pub struct Verifier {
    key: VerifierKey,
    checkpoint: Checkpoint,
    first: u64,
    end: u64,
    right: Vec<Digest>,
    frontier: Frontier,
    /// The last entry, whose hash the next one must name.
    last: Option<Link>,
    /// Empty and unused when the range does not start at 0.
    story: Story,
    /// Older checkpoints that this journal must be a continuation of.
    earlier: Vec<Checkpoint>,
    /// A mismatch whose culprit the next entry will tell.
    suspect: Option<(u64, Digest)>,
    /// The tree without its last two entries, in case they contradict each other.
    before_last: Frontier,
}

/// What the entries told so far, as far as it limits what can follow.
#[derive(Debug, Default)]
struct Story {
    open: HashMap<ExecutionId, CallState>,
    ended: HashSet<ExecutionId>,
    grants: HashSet<GrantId>,
    people: KeyBook,
    workspaces: HashSet<WorkspaceId>,
    /// How many events of each run there are; none once it has ended.
    runs: HashMap<RunId, Option<u64>>,
    /// The version of each document, by tenant, space and key.
    records: HashMap<(String, String, String), u64>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    seq: u64,
    hash: Digest,
}

/// The hashes on both sides of a range, as an export carries them.
#[derive(Debug, Clone, Default)]
pub struct Edges {
    pub left: Vec<Digest>,
    pub right: Vec<Digest>,
}

impl Verifier {
    pub fn new(
        key: VerifierKey,
        note: &str,
        first: u64,
        end: u64,
        edges: Edges,
    ) -> Result<Self, Fault> {
        let checkpoint = key.open(note)?;
        let frontier = Frontier::from_peaks(first, edges.left)
            .ok_or_else(|| Fault::Header("the left edge does not fit the range".to_owned()))?;
        if first > end {
            return Err(Fault::Header("the range ends before it starts".to_owned()));
        }
        if end > checkpoint.size {
            return Err(Fault::Surplus { seq: checkpoint.size, end: checkpoint.size });
        }
        Ok(Verifier {
            key,
            checkpoint,
            first,
            end,
            right: edges.right,
            frontier,
            last: None,
            story: Story::default(),
            earlier: Vec::new(),
            suspect: None,
            before_last: Frontier::default(),
        })
    }

    /// Demands that the journal continues an older checkpoint, kept elsewhere.
    ///
    /// Only where the range begins, ends or passes by can roots be compared: a range that starts
    /// after the older checkpoint or ends before it proves nothing about it, and is refused.
    pub fn must_extend(&mut self, note: &str) -> Result<(), Fault> {
        let earlier = self.key.open(note)?;
        let (size, end) = (earlier.size, self.checkpoint.size);
        if size > end {
            return Err(Fault::Truncated { found: end, end: size });
        }
        if size == end {
            let same = earlier.root == self.checkpoint.root;
            return same.then_some(()).ok_or(Fault::Forked { size });
        }
        if !(self.expected()..=self.end).contains(&size) {
            return Err(Fault::OutOfReach { size });
        }
        self.earlier.push(earlier);
        self.check_earlier()
    }

    /// Where the next entry must stand.
    fn expected(&self) -> u64 {
        self.frontier.size()
    }

    pub fn entry(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let seq = self.expected();
        if seq >= self.end {
            return Err(Fault::Surplus { seq, end: self.end });
        }
        let hash = leaf_hash(bytes);
        let entry = match Entry::parse(bytes) {
            Ok(entry) => entry,
            Err(error) => return Err(self.blame(seq, error.to_string())),
        };
        self.resolve_suspect(seq, &entry)?;
        if entry.seq != seq {
            return Err(Fault::OutOfOrder { expected: seq, found: entry.seq });
        }
        self.check_link(&entry, hash)?;
        if self.suspect.is_none() && self.first == 0 {
            self.check_fact(&entry)?;
        }
        if seq + 2 == self.end {
            self.before_last = self.frontier.clone();
        }
        self.frontier.push(hash, |_| {});
        self.last = Some(Link { seq, hash });
        self.check_earlier()
    }

    /// An entry that cannot be read convicts itself, unless an earlier mismatch is still open.
    fn blame(&self, seq: u64, why: String) -> Fault {
        match self.suspect {
            Some((suspect, _)) => Fault::Changed { seq: suspect },
            None => Fault::Unreadable { seq, why },
        }
    }

    /// When `entry` does not name the entry before it, one of the two was changed. If the entry
    /// after it vouches for `entry`, the one before it is the culprit.
    fn check_link(&mut self, entry: &Entry, hash: Digest) -> Result<(), Fault> {
        let named = match self.last {
            Some(last) => Some(last.hash),
            None if self.first == 0 => Some(Digest::ZERO),
            None => None,
        };
        if named.is_none_or(|named| named == entry.prev) {
            return Ok(());
        }
        if entry.seq == 0 {
            return Err(Fault::Changed { seq: 0 });
        }
        if entry.seq + 1 == self.end {
            return Err(Fault::Changed { seq: self.culprit_of_two(entry, hash) });
        }
        self.suspect = Some((entry.seq, hash));
        Ok(())
    }

    /// Nothing follows the last entry to vouch for it, except the root: if the root fits what the
    /// last entry says about the one before, the last one is honest.
    fn culprit_of_two(&self, last: &Entry, hash: Digest) -> u64 {
        let mut tree = self.before_last.clone();
        tree.push(last.prev, |_| {});
        tree.push(hash, |_| {});
        let honest = self.whole(tree).is_some_and(|tree| tree.root() == self.checkpoint.root);
        if honest { last.seq - 1 } else { last.seq }
    }

    fn resolve_suspect(&mut self, seq: u64, entry: &Entry) -> Result<(), Fault> {
        match self.suspect.take() {
            None => Ok(()),
            Some((suspect, hash)) if entry.prev == hash && entry.seq == seq => {
                Err(Fault::Changed { seq: suspect - 1 })
            }
            Some((suspect, _)) => Err(Fault::Changed { seq: suspect }),
        }
    }

    /// A chain can be whole and still tell a story that cannot have happened.
    fn check_fact(&mut self, entry: &Entry) -> Result<(), Fault> {
        let told = match &entry.fact {
            Fact::Home(event) => self.check_home(entry.seq, event),
            _ if entry.seq == 0 => Err("the first entry must make the home".to_owned()),
            Fact::Grant(event) => self.story.grant(event),
            Fact::Principal(_) | Fact::Key(_) => self.story.people.take_in(&entry.fact),
            // Any set may be taken up at any time, and by two hosts at once.
            Fact::Policy(_) => Ok(()),
            Fact::Workspace(event) => self.story.workspace(event),
            // What was let go of was made before; records of it may be older than the range.
            Fact::Artifact(_) => Ok(()),
            Fact::Call(call) => self.story.call(call),
            Fact::Run(fact) => self.story.run(fact),
            Fact::Record(fact) => self.story.record(fact),
        };
        told.map_err(|why| Fault::Impossible { seq: entry.seq, why })
    }

    fn check_home(&self, seq: u64, event: &HomeEvent) -> Result<(), String> {
        let HomeEvent::Created { journal_key, .. } = event;
        if seq != 0 {
            return Err("the home was made already".to_owned());
        }
        let ours = *journal_key == self.key.to_string();
        ours.then_some(()).ok_or_else(|| "the journal belongs to another key".to_owned())
    }

    fn check_earlier(&self) -> Result<(), Fault> {
        let size = self.frontier.size();
        let forked = self.earlier.iter().any(|c| c.size == size && c.root != self.frontier.root());
        if forked { Err(Fault::Forked { size }) } else { Ok(()) }
    }

    /// What has no line end is no entry: behind the last one it is too much, before that it was
    /// cut off and counts as missing.
    pub fn fragment(&self) -> Result<(), Fault> {
        let (seq, end) = (self.expected(), self.end);
        if seq < end { Ok(()) } else { Err(Fault::Surplus { seq, end }) }
    }

    /// The verdict, once all entries were seen.
    pub fn finish(self) -> Result<Verified, Fault> {
        if let Some((suspect, _)) = self.suspect {
            return Err(Fault::Changed { seq: suspect });
        }
        if self.expected() < self.end {
            return Err(Fault::Truncated { found: self.expected(), end: self.end });
        }
        let tree = self
            .whole(self.frontier.clone())
            .ok_or_else(|| Fault::Header("the right edge does not fit the range".to_owned()))?;
        if tree.root() != self.checkpoint.root {
            let last = self.last.map_or(self.first, |link| link.seq);
            return Err(Fault::WrongRoot { last });
        }
        let Checkpoint { origin, size, root } = self.checkpoint;
        Ok(Verified { origin, first: self.first, end: self.end, size, root })
    }

    /// `tree` and the subtrees of the right edge after it; `None` if they do not fit together.
    fn whole(&self, mut tree: Frontier) -> Option<Frontier> {
        let mut right = self.right.iter();
        for (height, _) in tiling(self.end..self.checkpoint.size) {
            if !tree.push_subtree(height, *right.next()?) {
                return None;
            }
        }
        right.next().is_none().then_some(tree)
    }
}

impl Story {
    fn call(&mut self, call: &CallFact) -> Result<(), String> {
        let id = call.execution;
        if self.ended.contains(&id) {
            return Err(format!("execution {id} has ended already"));
        }
        let state = next(self.open.remove(&id), &call.event).map_err(|e| e.to_string())?;
        if state.is_terminal() {
            self.ended.insert(id);
        } else {
            self.open.insert(id, state);
        }
        Ok(())
    }

    fn run(&mut self, fact: &RunFact) -> Result<(), String> {
        fact.check()?;
        let known = self.runs.entry(fact.run.clone()).or_insert(Some(0));
        match *known {
            None => return Err(format!("run `{}` has ended already", fact.run)),
            Some(count) if count != fact.first => {
                let first = fact.first;
                return Err(format!("event {first} of run `{}` follows {count} events", fact.run));
            }
            Some(_) => *known = (!fact.is_last()).then(|| fact.end()),
        }
        Ok(())
    }

    fn record(&mut self, fact: &RecordFact) -> Result<(), String> {
        let key = (fact.tenant.clone(), fact.space.clone(), fact.key.clone());
        let version = self.records.entry(key).or_insert(0);
        *version += 1;
        let fits = *version == fact.version;
        fits.then_some(())
            .ok_or_else(|| format!("version {} of `{}` is not the next", fact.version, fact.key))
    }

    fn workspace(&mut self, event: &WorkspaceEvent) -> Result<(), String> {
        let (id, possible, why) = match event {
            WorkspaceEvent::Added { workspace } => {
                (&workspace.id, self.workspaces.insert(workspace.id.clone()), "was added already")
            }
            WorkspaceEvent::Reset { workspace, .. } => {
                (workspace, self.workspaces.contains(workspace), "was never added")
            }
            WorkspaceEvent::Removed { workspace, .. } => {
                (workspace, self.workspaces.remove(workspace), "was never added")
            }
        };
        possible.then_some(()).ok_or_else(|| format!("workspace {id} {why}"))
    }

    /// Two processes may revoke one grant at the same time; nobody can issue one twice.
    fn grant(&mut self, event: &GrantEvent) -> Result<(), String> {
        let (id, possible, why) = match event {
            GrantEvent::Issued { grant } => {
                let id = grant.body.id;
                (id, self.grants.insert(id), "was issued already")
            }
            GrantEvent::Revoked { grant, .. } => {
                (*grant, self.grants.contains(grant), "was never issued")
            }
        };
        possible.then_some(()).ok_or_else(|| format!("grant {id} {why}"))
    }
}
