//! Reconstruction from the record alone.

use std::fs;
use std::io::Write;
use std::path::Path;

use countersign_host::Home;
use countersign_host::again::{Item, Kind, Obstacle, Recording, Subject};
use countersign_model::{Failure, Lifecycle};
use serde_json::{Value, json};

use super::{ReplayArgs, subject};
use crate::Context;
use crate::exit::Exit;
use crate::output_file::{self, unwritable};
use crate::save::{Names, check_free, safe_path, save};
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, bytes, inert, paint, shown, state_style, wrap};

pub(super) fn run(context: &Context, args: &ReplayArgs) -> Done<Exit> {
    let (ui, home) = (context.ui, Home::open(&context.home)?);
    if let Some(directory) = &args.out {
        check_free(directory)?;
    }
    let subject = subject(&home, &args.subject)?;
    let mut recordings = Vec::new();
    let mut obstacles = Vec::new();
    for execution in home.calls_of(&subject)? {
        let recording = home.recording(execution)?;
        obstacles.extend(home.obstacles(&recording)?);
        recordings.push(recording);
    }
    if !obstacles.is_empty() {
        return refuse(ui, &obstacles);
    }
    if let Some(directory) = &args.out {
        let many = matches!(subject, Subject::Run(_));
        save(directory, |aside| write_all(&home, &recordings, many, aside))?;
    }
    tell(ui, &home, &recordings, args.out.as_deref())?;
    Ok(Exit::Done)
}

/// Nothing was written yet: what is in the way is all that is told.
fn refuse(ui: Ui, obstacles: &[Obstacle]) -> Done<Exit> {
    if ui.json {
        ui.json(&json!({"exact": false, "obstacles": obstacles}))?;
        return Ok(Exit::ToolFailed);
    }
    ui.line(format!("{} it cannot be exact:", paint(BAD, "no:")))?;
    for obstacle in obstacles {
        let what =
            format!("  {} {}: {}", obstacle.tool, obstacle.execution, inert(&obstacle.reason));
        let code = paint(DIM, format!("[{}]", obstacle.code));
        ui.line(wrap(&format!("{what} {code}"), 2))?;
    }
    Ok(Exit::ToolFailed)
}

fn write_all(
    home: &Home,
    recordings: &[Recording],
    many: bool,
    aside: &Path,
) -> Result<(), Failure> {
    for (place, recording) in (1..).zip(recordings) {
        let directory = match many {
            true => aside.join(format!("{place:03}-{}", safe_path(recording.tool.as_str()))),
            false => aside.to_owned(),
        };
        write_one(home, recording, &directory)?;
    }
    Ok(())
}

fn write_one(home: &Home, recording: &Recording, directory: &Path) -> Result<(), Failure> {
    let mut names = Names::default();
    for item in &recording.items {
        let wanted = match (item.kind, &item.name) {
            (Kind::Artifact, Some(name)) => format!("artifacts/{}", safe_path(name)),
            (Kind::Artifact, None) => "artifacts/_".to_owned(),
            (Kind::Output, _) => "output.json".to_owned(),
            (Kind::Stdout, _) => "stdout".to_owned(),
            (Kind::Stderr, _) => "stderr".to_owned(),
        };
        let path = directory.join(names.free(&wanted));
        make_parent(&path)?;
        output_file::write(&path, |out| home.write_item(item, out))?;
    }
    if let Some(error) = &recording.error {
        let path = directory.join("error.json");
        make_parent(&path)?;
        let text = serde_json::to_vec_pretty(error)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        let put = |out: &mut dyn Write| out.write_all(&text).map_err(|e| unwritable(&path, &e));
        output_file::write(&path, put)?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(|error| unwritable(path, &error))
}

fn tell(ui: Ui, home: &Home, recordings: &[Recording], out: Option<&Path>) -> Done {
    if ui.json {
        let calls: Vec<Value> = recordings.iter().map(|one| to_json(home, one)).collect();
        let saved = out.map(|directory| directory.display().to_string());
        return ui.json(&json!({"exact": true, "calls": calls, "saved": saved}));
    }
    for recording in recordings {
        print(ui, recording)?;
    }
    let checked: usize = recordings.iter().map(|one| one.items.len()).sum();
    let calls = recordings.len();
    ui.line(format!("{} {calls} calls, {checked} contents as recorded", paint(GOOD, "exact:")))?;
    match out {
        None => Ok(()),
        Some(directory) => ui.line(format!("{} in {}", paint(GOOD, "saved"), shown(directory))),
    }
}

fn to_json(home: &Home, recording: &Recording) -> Value {
    let output = recording.items.iter().find(|item| item.kind == Kind::Output);
    let output = output.and_then(|item| home.payload(item.owner, &item.payload).ok());
    let output = output.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let mut told = json!(recording);
    if let (Value::Object(fields), Some(output)) = (&mut told, output) {
        fields.insert("output".to_owned(), output);
    }
    told
}

fn print(ui: Ui, recording: &Recording) -> Done {
    let state = paint(state_style(recording.state), recording.state);
    let id = paint(DIM, recording.execution);
    ui.line(format!("{state} {} {id}", paint(BOLD, &recording.tool)))?;
    if let Some(of) = recording.replayed_from {
        ui.line(format!("  the result of {of}"))?;
    }
    if let Some(error) =
        recording.error.as_ref().filter(|_| recording.state != Lifecycle::Completed)
    {
        ui.line(wrap(&format!("  {} {}", error.code, inert(&error.message)), 2))?;
    }
    recording.items.iter().try_for_each(|item| print_item(ui, item))
}

fn print_item(ui: Ui, item: &Item) -> Done {
    let (size, digest) = (bytes(item.payload.size), paint(DIM, item.payload.digest.short()));
    ui.line(wrap(&format!("{size:>12}  {}  {digest}", inert(&item.label())), 14))
}
