//! `commit_changes`: exactly the named paths become a commit, and a branch of the repository comes to
//! point to it. Nothing of the workspace runs: no hook, no filter, no signing program.

use countersign_host::path::RelPath;
use countersign_host::tool::{Footprint, NativeTool, Place, RefMove, Repeats, ToolContext};
use countersign_host::work::WorkPlace;
use countersign_model::{Capability, Failure, Need, Principal, RunId, SandboxMode};
use countersign_repository::{Leash, Merge, NewCommit, ObjectId, Signature, Worktree};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::left::{Left, arguments, counted, with_leash};
use crate::protected::check_protected;

#[derive(Debug, Deserialize)]
struct Arguments {
    message: String,
    paths: Vec<String>,
    expected_tree: String,
    branch: Option<String>,
    author: Option<Signature>,
    #[serde(default)]
    rebase: bool,
}

impl Arguments {
    fn branch(&self, run: &RunId) -> String {
        self.branch.clone().unwrap_or_else(|| format!("countersign/{run}"))
    }
}

#[derive(Debug)]
pub(crate) struct CommitChanges;

impl NativeTool for CommitChanges {
    fn repeats(&self) -> Repeats {
        Repeats::Once
    }

    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        let work = place.work()?;
        let asked: Arguments = arguments(input)?;
        check_protected(place.actions(), asked.paths.iter().map(String::as_str))?;
        let reference =
            RelPath::parse(&format!(".git/refs/heads/{}", asked.branch(&work.work.run)))?;
        let mut footprint = Footprint::nothing();
        footprint.least_mode = SandboxMode::RepoWrite;
        footprint.needs = vec![
            place.need_of_all(Capability::FilesystemRead)?,
            Need::one(Capability::FilesystemWrite, place.resource(&reference)?),
        ];
        Ok(footprint)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let asked: Arguments = arguments(input)?;
        let place = context.place().work()?.clone();
        if asked.expected_tree != place.work.tree {
            let message =
                format!("the worktree is {}, not {}", place.work.tree, asked.expected_tree);
            return Err(Failure::state("WORKSPACE_CHANGED", message)
                .hint("review what is there now, and ask again with its tree"));
        }
        let made = with_leash(context, |leash| make(context, &asked, &place, leash))?;
        context.move_ref(made.moved.clone())?;
        tell(context, &asked, &place, &made)
    }
}

/// A commit that is in the repository, and the branch that is to point to it.
struct Made {
    commit: ObjectId,
    parent: ObjectId,
    tree: ObjectId,
    moved: RefMove,
    rebased: bool,
}

fn make(
    context: &ToolContext,
    asked: &Arguments,
    place: &WorkPlace,
    leash: &mut Leash<'_>,
) -> Result<Made, Failure> {
    let (worktree, repository) = (place.worktree(leash)?, place.repository(leash)?);
    let branch = asked.branch(&place.work.run);
    let reference = format!("refs/heads/{branch}");
    let tip = repository.reference(&reference, leash)?;
    if repository.is_checked_out(&reference, leash)? {
        return Err(checked_out(&branch));
    }
    let expected = last_commit(context, place, &reference)?;
    let (parent, tree, rebased) = match tip {
        Some(tip) if Some(&tip) != expected.as_ref() && tip != place.base()? => {
            onto(&worktree, asked, place, (&branch, tip), leash)?
        }
        tip => {
            let parent = tip.or(expected).map_or_else(|| place.base(), Ok)?;
            let tree = worktree.tree_with(&parent, &place.tree()?, &asked.paths, leash)?;
            (parent, tree, false)
        }
    };
    let commit = write(context, asked, place, &worktree, (parent, tree), leash)?;
    worktree.transfer(&repository, &commit, leash)?;
    let moved = RefMove {
        repository: place.workspace.path.clone(),
        reference,
        before: tip.map(|tip| tip.to_string()),
        after: commit.to_string(),
    };
    Ok(Made { commit, parent, tree, moved, rebased })
}

/// What this run itself last put onto a branch.
fn last_commit(
    context: &ToolContext,
    place: &WorkPlace,
    reference: &str,
) -> Result<Option<ObjectId>, Failure> {
    let moved = crate::summary::moved_refs(&**context.journal(), &place.work.run)?;
    let last = moved.into_iter().rev().find(|(name, _)| name == reference);
    last.map(|(_, commit)| {
        commit.parse().map_err(|_| Failure::state("JOURNAL_CORRUPT", "a commit has no proper id"))
    })
    .transpose()
}

/// The branch holds work of others. Where nothing overlaps and whoever asks wants that, the change is
/// put on top of it.
fn onto(
    worktree: &Worktree,
    asked: &Arguments,
    place: &WorkPlace,
    (branch, tip): (&str, ObjectId),
    leash: &mut Leash<'_>,
) -> Result<(ObjectId, ObjectId, bool), Failure> {
    let base = place.base()?;
    let ours = worktree.tree_with(&base, &place.tree()?, &asked.paths, leash)?;
    match worktree.merge_check(&base, &ours, &tip, leash)? {
        Merge::Clean(tree) if asked.rebase => Ok((tip, tree, true)),
        merged => Err(moved(branch, &tip, &merged)),
    }
}

fn moved(branch: &str, tip: &ObjectId, merged: &Merge) -> Failure {
    let (how, hint) = match merged {
        Merge::Clean(_) => (
            "nothing overlaps",
            "ask again with `rebase` to put the change on top, or publish to another branch",
        ),
        Merge::Conflicts(_) => {
            ("the changes overlap", "the details say where; make the change anew from that commit")
        }
    };
    let message = format!("`{branch}` has moved to {tip}, and {how}");
    Failure::state("PUBLISH_CONFLICT", message).hint(hint).details(json!(merged))
}

fn checked_out(branch: &str) -> Failure {
    let message = format!("`{branch}` is checked out, and nothing touches a checkout");
    Failure::validation("BRANCH_CHECKED_OUT", message)
        .hint("publish to a branch of the run (leave `branch` out), and merge it yourself")
}

fn write(
    context: &ToolContext,
    asked: &Arguments,
    place: &WorkPlace,
    worktree: &Worktree,
    (parent, tree): (ObjectId, ObjectId),
    leash: &mut Leash<'_>,
) -> Result<ObjectId, Failure> {
    let caller = context.caller();
    let message = format!(
        "{}\n\nCountersign-Run: {}\nCountersign-Receipt: {}\n",
        asked.message.trim_end(),
        place.work.run,
        caller.execution
    );
    let seconds = u64::try_from(caller.started_at.as_millis()).unwrap_or_default() / 1000;
    let new = NewCommit {
        tree,
        parents: &[parent],
        author: asked.author.clone().unwrap_or_else(|| signature(&caller.principal)),
        committer: Signature {
            name: "Countersign".to_owned(),
            email: "countersign@localhost".to_owned(),
        },
        time: seconds,
        message: &message,
    };
    worktree.commit(&new, leash)
}

/// Whoever asked, as far as it can be an author.
fn signature(principal: &Principal) -> Signature {
    let name = principal.to_string();
    let email = format!("{}@localhost", name.replace(':', "."));
    Signature { name, email }
}

fn tell(
    context: &mut ToolContext,
    asked: &Arguments,
    place: &WorkPlace,
    made: &Made,
) -> Result<Value, Failure> {
    let branch = asked.branch(&place.work.run);
    let (commit, parent, tree) =
        (made.commit.to_string(), made.parent.to_string(), made.tree.to_string());
    let record = json!({
        "commit": commit, "parent": parent, "tree": tree, "branch": branch,
        "paths": asked.paths, "rebased": made.rebased, "run": place.work.run,
    });
    let mut left = Left::default();
    left.json(context, "commit", &record)?;
    let short: String = commit.chars().take(12).collect();
    Ok(json!({
        "summary": format!("{} committed as {short} on {branch}", counted(asked.paths.len() as u64, "file")),
        "artifacts": left.list(),
        "base": place.work.base,
        "tree": place.work.tree,
        "commit": commit,
        "parent": parent,
        "branch": branch,
        "committed_tree": tree,
        "files": asked.paths.len(),
        "rebased": made.rebased,
    }))
}
