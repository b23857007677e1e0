//! `apply_patch`: a patch artifact, applied to the worktree of the run. All of it or nothing: changes
//! are staged, and a hunk that does not fit ends the call before anything can be seen.

mod staging;

use std::collections::BTreeSet;

use countersign_host::path::RelPath;
use countersign_host::tool::{Footprint, NativeTool, Place, ToolContext};
use countersign_model::{ArtifactId, Capability, Failure, Need, SandboxMode};
use countersign_patch::{
    Applied, ApplyError, ApplyOptions, Effect, Mode, Name, Patch, ReadOptions, Refusal, Rejected,
    Touch, apply,
};
use serde::Deserialize;
use serde_json::{Value, json};

use self::staging::Staging;
use crate::left::{Left, arguments, counted, with_leash};
use crate::protected::check_protected;

/// The largest patch that is read.
const MOST_BYTES: u64 = 256 << 20;

/// More paths than this are asked for as a whole tree: nobody grants them one by one.
const MOST_PATHS: usize = 256;

/// Rejections that an error tells of; the count tells the rest.
const MOST_TOLD: usize = 50;

#[derive(Debug, Deserialize)]
struct Arguments {
    patch: ArtifactId,
    #[serde(default)]
    check_only: bool,
    #[serde(default)]
    reverse: bool,
    #[serde(default)]
    three_way: bool,
    #[serde(default = "one")]
    strip: usize,
    expected_tree: Option<String>,
}

fn one() -> usize {
    1
}

#[derive(Debug)]
pub(crate) struct ApplyPatch;

impl NativeTool for ApplyPatch {
    /// Reads the patch: policy and grants see every path that it touches.
    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        place.work()?;
        let asked: Arguments = arguments(input)?;
        let bytes = place.artifact_bytes(&place.artifact(&asked.patch)?, MOST_BYTES)?;
        let patch = read(&bytes, &asked)?;
        let touches = patch.touches(asked.reverse);
        check_protected(place.actions(), touches.iter().map(|touch| touch.path))?;
        let mut footprint = Footprint::nothing();
        footprint.needs = needs(&touches, place, asked.check_only)?;
        if asked.check_only {
            return Ok(footprint);
        }
        footprint.least_mode = SandboxMode::WorkspaceWrite;
        let links = links(&patch, place)?;
        let mut directories = BTreeSet::new();
        for touch in touches.iter().filter(|touch| touch.effect != Effect::Read) {
            let path = RelPath::parse(touch.path)?;
            directories.extend(path.ancestors());
            match links.contains(touch.path) {
                true => footprint.links.push(path),
                false => footprint.files.push(path),
            }
        }
        footprint.directories = directories.into_iter().collect();
        Ok(footprint)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let asked: Arguments = arguments(input)?;
        let work = context.place().work()?.work.clone();
        if let Some(expected) = asked.expected_tree.as_ref().filter(|tree| **tree != work.tree) {
            return Err(changed(expected, &work.tree));
        }
        let record = context.place().artifact(&asked.patch)?;
        let bytes = context.read_artifact(&record)?;
        let patch = read(&bytes, &asked)?;
        let options = ApplyOptions {
            reverse: asked.reverse,
            three_way: asked.three_way,
            ..ApplyOptions::default()
        };
        check_submodules(context, &patch.touches(asked.reverse))?;
        let mut staging = Staging::new(context, asked.check_only);
        let applied = apply(&patch, &mut staging, &options).map_err(rejected)?;
        tell(context, &asked, &applied)
    }
}

/// The place of a submodule belongs to another repository: what is written there would end up in
/// neither of the two, and the submodule would be gone.
fn check_submodules(context: &ToolContext, touches: &[Touch<'_>]) -> Result<(), Failure> {
    let place = context.place().work()?;
    let submodules = with_leash(context, |leash| place.worktree(leash)?.submodules())?;
    let is_in = |path: &str, submodule: &str| {
        let rest = path.strip_prefix(submodule);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for touch in touches {
        if let Some(submodule) = submodules.iter().find(|one| is_in(touch.path, &one.path)) {
            let (path, submodule) = (touch.path.escape_debug(), submodule.path.escape_debug());
            let message = format!("`{path}` is in the submodule `{submodule}`");
            return Err(Failure::validation("PATH_SUBMODULE", message)
                .hint("change it in the repository that it comes from"));
        }
    }
    Ok(())
}

fn tell(context: &mut ToolContext, asked: &Arguments, applied: &Applied) -> Result<Value, Failure> {
    let work = context.place().work()?.work.clone();
    let totals = &applied.totals;
    let verb = if asked.check_only { "would change" } else { "changed" };
    let summary = format!(
        "{verb} {}, {}, +{} -{} lines",
        counted(totals.files, "file"),
        counted(totals.hunks, "hunk"),
        totals.added,
        totals.removed
    );
    let mut left = Left::default();
    let report = json!({"applied": !asked.check_only, "tree_before": work.tree, "result": applied});
    left.json(context, "patch_applied", &report)?;
    Ok(json!({
        "summary": summary,
        "artifacts": left.list(),
        "base": work.base,
        "tree": work.tree,
        "applied": !asked.check_only,
        "files": totals.files,
        "hunks": totals.hunks,
        "added": totals.added,
        "removed": totals.removed,
    }))
}

fn read<'a>(bytes: &'a [u8], asked: &Arguments) -> Result<Patch<'a>, Failure> {
    let options = ReadOptions { strip: asked.strip, ..ReadOptions::default() };
    Patch::read(bytes, &options).map_err(|refusal| refused(&refusal))
}

/// Links are staged apart from files, so it must be known which is which. A patch says so by modes,
/// but for a link that is only renamed it says nothing.
fn links(patch: &Patch<'_>, place: &Place) -> Result<BTreeSet<String>, Failure> {
    let mut links = BTreeSet::new();
    for file in patch.files() {
        let names: Vec<String> =
            [&file.old, &file.new].into_iter().flatten().filter_map(text).collect();
        let said = [file.old_mode, file.new_mode].contains(&Some(Mode::Link));
        let is_link = said || stands_as_link(place, &names)?;
        if is_link {
            links.extend(names);
        }
    }
    Ok(links)
}

/// A judged patch has no other names.
fn text(name: &Name<'_>) -> Option<String> {
    name.text().map(str::to_owned)
}

fn stands_as_link(place: &Place, names: &[String]) -> Result<bool, Failure> {
    let [from, to] = names else { return Ok(false) };
    Ok(from != to && place.is_link(&RelPath::parse(from)?)?)
}

fn needs(touches: &[Touch<'_>], place: &Place, check_only: bool) -> Result<Vec<Need>, Failure> {
    if check_only || touches.len() > MOST_PATHS {
        let mut all = vec![Capability::FilesystemRead];
        if !check_only {
            all.extend([Capability::FilesystemWrite, Capability::FilesystemDelete]);
        }
        return all.into_iter().map(|capability| place.need_of_all(capability)).collect();
    }
    // Directories around what is touched are looked at as well.
    let mut needs = vec![place.need_of_all(Capability::FilesystemRead)?];
    for touch in touches {
        let resource = place.resource(&RelPath::parse(touch.path)?)?;
        let mut need = |capability| needs.push(Need::one(capability, resource.clone()));
        if matches!(touch.effect, Effect::Create | Effect::Modify | Effect::Replace) {
            need(Capability::FilesystemWrite);
        }
        if matches!(touch.effect, Effect::Remove | Effect::Replace) {
            need(Capability::FilesystemDelete);
        }
    }
    Ok(needs)
}

fn changed(expected: &str, found: &str) -> Failure {
    Failure::state("WORKSPACE_CHANGED", format!("the worktree is {found}, not {expected}"))
        .hint("look at what changed, and ask again with the tree that is there now")
}

fn refused(refusal: &Refusal) -> Failure {
    let first = refusal.problems.first();
    let first = first.map(|problem| format!("line {}: {}", problem.line, problem.message));
    Failure::validation("PATCH_INVALID", first.unwrap_or_else(|| "the patch is not valid".into()))
        .hint("send a unified diff as `git diff` or `diff -u` write it; the details say all")
        .details(json!(refusal))
}

fn rejected(error: ApplyError<Failure>) -> Failure {
    match error {
        ApplyError::Tree(failure) => failure,
        ApplyError::Rejected(rejected) => does_not_fit(&rejected),
    }
}

fn does_not_fit(rejected: &Rejected) -> Failure {
    let count = rejected.rejections.len() as u64 + rejected.left_out;
    let told: Vec<_> = rejected.rejections.iter().take(MOST_TOLD).collect();
    let first = told.first().map(|first| format!(": {}", first.message)).unwrap_or_default();
    Failure::execution("PATCH_REJECTED", format!("{count} parts of the patch do not fit{first}"))
        .hint("nothing was changed; make the patch anew from the files that are there")
        .details(json!({"rejections": told, "total": count}))
}
