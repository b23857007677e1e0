//! The TypeScript compiler, which only looks.

use serde_json::Value;

use super::node::installed;
use super::project::{name, parent};
use super::{Command, Looking, Report, Source, texts};
use crate::report::LintFormat;

/// References of one project to others.
const MAX_REFERENCES: usize = 32;

/// Types of one file depend on others, so a project is always looked at as a whole.
pub(super) fn linters(looking: &mut Looking<'_, LintFormat>) {
    let settings: Vec<String> = looking
        .files()
        .filter(|path| name(path) == "tsconfig.json")
        .map(str::to_owned)
        .flat_map(|path| projects(looking, &path))
        .collect();
    let mut made: Vec<&str> = Vec::new();
    for project in &settings {
        if made.contains(&project.as_str()) {
            continue;
        }
        made.push(project);
        let program = installed(looking, "tsc");
        let mut argv = texts([&program, "--noEmit", "--pretty", "false"]);
        argv.extend(["-p".to_owned(), format!("./{project}")]);
        let report = Report { format: LintFormat::Lines, from: Source::Stdout };
        let mut command = Command::new("tsc", &looking.root.directory, argv, report)
            .needing(&["node"])
            .because(looking.root.join(project));
        if project != "tsconfig.json" {
            command.id = format!("tsc@{}", looking.root.join(project));
        }
        looking.made.push(command);
    }
}

/// A file that only lists other projects compiles nothing by itself.
fn projects(looking: &Looking<'_, LintFormat>, path: &str) -> Vec<String> {
    let text = looking.read(path).unwrap_or_default();
    let settings: Value = serde_json::from_str(&text).unwrap_or_default();
    let empty = settings.get("files").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let references = settings.get("references").and_then(Value::as_array);
    let Some(references) = references.filter(|list| empty && !list.is_empty()) else {
        return vec![path.to_owned()];
    };
    let told = references.iter().filter_map(|reference| reference.get("path")?.as_str());
    told.take(MAX_REFERENCES).filter_map(|told| resolved(looking, parent(path), told)).collect()
}

/// A file of the project, or a directory with a `tsconfig.json`.
fn resolved(looking: &Looking<'_, LintFormat>, directory: &str, told: &str) -> Option<String> {
    let told = told.trim_start_matches("./").trim_end_matches('/');
    let path = super::project::join(directory, told);
    let inner = super::project::join(&path, "tsconfig.json");
    [path, inner].into_iter().find(|path| looking.has(path))
}
