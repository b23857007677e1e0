//! `countersign bundle`: whether a review bundle is whole, and still about what is there.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_actions::bundle::{Manifest, Verified, verify};
use countersign_host::Home;
use countersign_model::Failure;
use serde_json::json;

use super::audit::{read_key, unreadable};
use crate::Context;
use crate::exit::Exit;
use crate::sandbox;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Review bundles of runs
#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
    Verify(VerifyArgs),
}

/// Check every digest and receipt of a bundle, and whether the worktree has changed since
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The archive, as `countersign artifact get review_bundle` wrote it
    file: PathBuf,

    /// The key that the receipts must verify with, or a file that holds it; this home's without it
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub(super) fn run(context: &Context, command: BundleCommand) -> Done<Exit> {
    let BundleCommand::Verify(args) = command;
    let key = match &args.key {
        Some(key) => read_key(key)?,
        None => Home::open_for_inspection(&context.home)?.journal_key.verifier().clone(),
    };
    let file = File::open(&args.file).map_err(|error| unreadable("bundle", &args.file, &error))?;
    let verified = verify(BufReader::new(file), &key)?;
    if !verified.is_whole() {
        return Err(broken(context.ui, &args, &verified)?.into());
    }
    let age = age(context, &verified.manifest);
    // With --json a command says one thing.
    if !context.ui.json || !matches!(age, Age::Stale(_)) {
        report(context.ui, &verified, &age)?;
    }
    match age {
        Age::Stale(why) => Err(stale(&why).into()),
        Age::Current | Age::Unknown(_) => Ok(Exit::Done),
    }
}

/// How a bundle stands to the worktree that it was made from.
enum Age {
    Current,
    Stale(String),
    Unknown(String),
}

/// Whether the worktree still is what was bundled. Elsewhere nobody can tell.
fn age(context: &Context, manifest: &Manifest) -> Age {
    let look = || -> Result<Age, Failure> {
        let host = sandbox::open_host(&context.home)?;
        if host.run_of(&manifest.run)?.is_none() {
            return Ok(Age::Unknown(format!("this home has no run `{}`", manifest.run)));
        }
        let place = host.open_work(&manifest.workspace, &manifest.run)?;
        Ok(match place.work.tree == manifest.tree && place.work.base == manifest.base {
            true => Age::Current,
            false => Age::Stale(format!("the worktree is now {}", place.work.tree)),
        })
    };
    match look() {
        Ok(age) => age,
        Err(failure) if failure.code == "WORKTREE_LOST" => Age::Stale(failure.message),
        Err(failure) => Age::Unknown(failure.message),
    }
}

fn stale(why: &str) -> Failure {
    Failure::execution("BUNDLE_STALE", format!("the bundle is whole, but stale: {why}"))
        .hint("prepare a new bundle and review that")
}

fn broken(ui: Ui, args: &VerifyArgs, verified: &Verified) -> Done<Failure> {
    if !ui.json {
        for problem in &verified.problems {
            let (code, path) = (paint(BAD, problem.code), inert(&problem.path));
            ui.line(wrap(&format!("  {code} {path}: {}", inert(&problem.message)), 4))?;
        }
    }
    let count = verified.problems.len();
    let message = format!("{} does not verify: {count} problems", args.file.display());
    Ok(Failure::validation("BUNDLE_INVALID", message)
        .hint("it was changed since it was made, or belongs to another key")
        .details(json!({ "problems": verified.problems })))
}

fn report(ui: Ui, verified: &Verified, age: &Age) -> Done {
    let manifest = &verified.manifest;
    let (state, why) = match age {
        Age::Current => ("current", None),
        Age::Stale(why) => ("stale", Some(why)),
        Age::Unknown(why) => ("unknown", Some(why)),
    };
    if ui.json {
        let (digest, entries) = (&verified.manifest_digest, manifest.entries.len());
        return ui.json(&json!({"ok": true, "age": state, "ageReason": why, "manifest": manifest,
            "manifestDigest": digest, "receipts": verified.receipts, "entries": entries}));
    }
    let (run, entries) = (paint(BOLD, &manifest.run), manifest.entries.len() + 1);
    ui.line(wrap(
        &format!(
            "{} run {run} on {}: {entries} files, {} receipts",
            paint(GOOD, "verified"),
            manifest.workspace,
            verified.receipts
        ),
        2,
    ))?;
    ui.line(paint(DIM, format!("  base {}", manifest.base)))?;
    ui.line(paint(DIM, format!("  tree {}", manifest.tree)))?;
    for call in &manifest.calls {
        let by: Vec<_> = call.approved_by.iter().map(ToString::to_string).collect();
        let by =
            if by.is_empty() { String::new() } else { format!(", approved by {}", by.join(", ")) };
        ui.line(wrap(
            &format!("  {} {} by {}{by}", call.state, inert(&call.tool), call.principal),
            4,
        ))?;
    }
    match age {
        Age::Current => {
            ui.line(format!("{} the worktree is what was bundled", paint(GOOD, "current:")))
        }
        Age::Stale(why) => ui.line(wrap(&format!("{} {}", paint(BAD, "stale:"), inert(why)), 2)),
        Age::Unknown(why) => {
            let told =
                format!("{} whether it is stale: {}", paint(WARN, "not checked:"), inert(why));
            ui.line(wrap(&told, 2))
        }
    }
}
