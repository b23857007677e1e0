mod human;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_host::grants::IssueCommand;
use countersign_host::inspect::verify_home;
use countersign_host::{CallCommand, Clock, Home, Host, Outcome, SystemClock};
use countersign_model::scope::pattern_for;
use countersign_model::{Capability, Failure, Grantee, Principal, Scope};
use serde_json::{Value, json};

use super::{acting, call};
use crate::Context;
use crate::exit::Exit;
use crate::sandbox;
use crate::ui::{BOLD, DIM, Done, GOOD, Ui, paint, shell_word, shown, wrap};

/// See the whole thing work: a home, four tools, five calls, a verified journal
#[derive(Debug, Args)]
pub(crate) struct QuickstartArgs {
    /// Where to work; made if it does not exist
    #[arg(default_value = "countersign-quickstart")]
    dir: PathBuf,
}

const SAMPLES: [(&str, &str); 6] = [
    ("notes.add.json", include_str!("../../samples/notes.add.json")),
    ("notes.read.json", include_str!("../../samples/notes.read.json")),
    ("words.count/tool.json", include_str!("../../samples/words.count/tool.json")),
    ("words.count/files/main.sh", include_str!("../../samples/words.count/files/main.sh")),
    ("words.runaway/tool.json", include_str!("../../samples/words.runaway/tool.json")),
    ("words.runaway/files/main.sh", include_str!("../../samples/words.runaway/files/main.sh")),
];

/// One call of the tour.
struct Scene {
    title: &'static str,
    tool: &'static str,
    input: Value,
    /// Beneath the workspace.
    root: &'static str,
    moral: &'static str,
}

fn scenes() -> [Scene; 5] {
    let long = "The same note, but this time far longer than the tool promises its notes to be. "
        .repeat(4);
    [
        Scene {
            title: "1. A call that succeeds",
            tool: "notes.add",
            input: json!({"path": "notes/today.md", "content": "Water the plants.\n", "createDirectories": true}),
            root: "",
            moral: "Declared, validated, authorised, run in a transaction, committed. Each step is in the journal.",
        },
        Scene {
            title: "2. A call that is refused",
            tool: "notes.read",
            input: json!({"path": "private/diary.md"}),
            root: "",
            moral: "The agent holds a grant for notes/, not for private/. Nothing ran.",
        },
        Scene {
            title: "3. A call that fails and is rolled back",
            tool: "notes.add",
            input: json!({"path": "notes/today.md", "content": long}),
            root: "",
            moral: "The tool broke the promise in its outputSchema, so its change never became visible: notes/today.md is as it was.",
        },
        Scene {
            title: "4. A program in a sandbox",
            tool: "words.count",
            input: json!({}),
            root: "notes",
            moral: "A shell script that nobody has to trust: it saw the notes, read-only, and no other file, process or network.",
        },
        Scene {
            title: "5. A program that misbehaves",
            tool: "words.runaway",
            input: json!({}),
            root: "notes",
            moral: "It looked for secrets, tried to change a note and never ended. It found nothing, changed nothing, and was ended by its limit.",
        },
    ]
}

pub(super) fn run(context: &Context, args: &QuickstartArgs) -> Done<Exit> {
    let ui = context.ui;
    let (home, workspace) = (args.dir.join("home"), args.dir.join("workspace"));
    prepare(&home, &workspace)?;
    let host = sandbox::open_host(&home)?;
    let agent: Principal = "agent:demo".parse()?;
    grant_notes(&host, &agent, &workspace)?;
    if !ui.json {
        say(ui, &home)?;
    }
    let mut outcomes = Vec::new();
    for scene in scenes() {
        let outcome = play(&host, &scene, &agent, &workspace)?;
        let contained = !outcome.result.as_ref().is_err_and(is_uncontained);
        if !ui.json {
            show(ui, &host, &scene, &outcome, contained)?;
        }
        outcomes.push(call::to_json(&outcome));
        if !contained {
            break;
        }
    }
    let (waiting, approved) = human::play(&host, &agent, &workspace)?;
    for outcome in [&waiting, &approved] {
        outcomes.push(call::to_json(outcome));
    }
    if !ui.json {
        show_approval(ui, &host, &approved)?;
    }
    let verified = verify_home(host.home(), &[], |_| {}).map_err(Failure::from)?;
    if ui.json {
        ui.json(
            &json!({"home": home.display().to_string(), "calls": outcomes, "verified": verified}),
        )?;
        return Ok(Exit::Done);
    }
    let entries =
        format!("{} all {} entries of the journal", paint(GOOD, "verified"), verified.size);
    ui.line(entries)?;
    next_steps(ui, &home, &workspace)?;
    Ok(Exit::Done)
}

/// This machine cannot make the sandbox, so the program was refused.
fn is_uncontained(failure: &Failure) -> bool {
    Exit::of_failure(failure) == Exit::CannotEnforce
}

/// A second run works on what the first one made.
fn prepare(home: &Path, workspace: &Path) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| unwritable(&error);
    fs::create_dir_all(workspace.join("private")).map_err(unwritable)?;
    fs::write(workspace.join("private/diary.md"), "Dear diary\n").map_err(unwritable)?;
    if !home.exists() {
        Home::create(home, &SystemClock)?;
    }
    for (name, text) in SAMPLES {
        let path = home.join("tools").join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(unwritable)?;
        fs::write(path, text).map_err(unwritable)?;
    }
    human::prepare(home)
}

fn unwritable(error: &std::io::Error) -> Failure {
    Failure::state("QUICKSTART_UNWRITABLE", format!("the quickstart cannot be set up: {error}"))
        .hint("name a writable directory: countersign quickstart DIR")
}

fn grant_notes(host: &Host, agent: &Principal, workspace: &Path) -> Result<(), Failure> {
    let root = workspace.canonicalize().map_err(|error| {
        Failure::state("QUICKSTART_UNWRITABLE", format!("the workspace is gone: {error}"))
    })?;
    for capability in [Capability::FilesystemRead, Capability::FilesystemWrite] {
        host.issue_grant(IssueCommand {
            capability,
            to: Grantee::from(agent.clone()),
            by: acting(None)?,
            scope: Scope::parse([format!(
                "{}/notes/**",
                pattern_for(&root.display().to_string())
            )])?,
            expires_at: SystemClock.now().plus_millis(3_600_000),
            delegable: false,
        })?;
    }
    Ok(())
}

fn play(
    host: &Host,
    scene: &Scene,
    agent: &Principal,
    workspace: &Path,
) -> Result<Outcome, Failure> {
    let (tool, input) = (scene.tool.parse()?, scene.input.to_string().into_bytes());
    let root = Some(workspace.join(scene.root));
    host.call(CallCommand { root, ..CallCommand::new(tool, input, agent.clone()) })
}

fn say(ui: Ui, home: &Path) -> Done {
    ui.line(format!("{} {}", paint(BOLD, "A home at"), shown(home)))?;
    ui.line(wrap("Four sample tools are declared: notes.add and notes.read are built in, words.count and words.runaway are shell scripts. agent:demo was granted filesystem.read and filesystem.write on notes/ for an hour.", 0))?;
    ui.line("")
}

fn show(ui: Ui, host: &Host, scene: &Scene, outcome: &Outcome, contained: bool) -> Done {
    ui.line(paint(BOLD, scene.title))?;
    call::print(ui, host, outcome)?;
    let refused = "Without a sandbox programs do not run. `countersign doctor` says what to change on this machine; everything else works.";
    let moral = if contained { scene.moral } else { refused };
    ui.line(wrap(&format!("{} {moral}", paint(GOOD, "→")), 0))?;
    ui.line("")
}

fn show_approval(ui: Ui, host: &Host, approved: &Outcome) -> Done {
    ui.line(paint(BOLD, "6. A call that a human approves"))?;
    call::print(ui, host, approved)?;
    let moral = "A policy asks for a human before notes/plan.md is changed. The call waited in the journal until human:demo had signed exactly what it was going to do, and then it ran, once.";
    ui.line(wrap(&format!("{} {moral}", paint(GOOD, "→")), 0))?;
    ui.line("")
}

fn next_steps(ui: Ui, home: &Path, workspace: &Path) -> Done {
    let program = program();
    ui.line("")?;
    ui.line(paint(BOLD, "Next, try:"))?;
    ui.line(format!("  export COUNTERSIGN_HOME={}", shell_word(home.display())))?;
    for (command, what) in [
        ("execution list", "what was called"),
        ("execution show last", "one call, step by step"),
        ("tool show words.count", "what a declaration says"),
        ("sandbox explain words.count", "every step of making its sandbox"),
        ("grant list", "who may do what"),
        ("approval show last", "what the human was shown"),
        ("audit export journal.jsonl", "a journal that anyone can verify"),
    ] {
        ui.line(format!("  {program} {command}  {}", paint(DIM, format!("# {what}"))))?;
    }
    let input = r#"'{"path":"notes/today.md"}'"#;
    ui.line(format!(
        "  {program} call notes.read --as agent:demo --root {} --input {input}",
        shell_word(workspace.display())
    ))
}

/// How this program can be called again: by name if the shell would find it.
fn program() -> String {
    let name = "countersign";
    let on_path = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()));
    if on_path {
        return name.to_owned();
    }
    let program = std::env::args().next().unwrap_or_else(|| name.to_owned());
    shell_word(program)
}
