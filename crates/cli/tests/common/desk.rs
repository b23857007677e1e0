//! Requests on their whole way: drafted, approved, run, and their results looked at.
#![allow(clippy::print_stdout, reason = "what is left out is said")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_model::Digest;
use serde_json::{Value, json};

use super::{Bench, Output, output, tree};

/// Who says yes, unless a test is about who may.
pub(crate) const ADA: &str = "human:ada";

/// What a draft asks for.
#[derive(Debug, Clone)]
pub(crate) struct Ask<'a> {
    pub(crate) slug: &'a str,
    pub(crate) language: &'a str,
    pub(crate) command: &'a str,
    /// Input files, by name.
    pub(crate) files: Vec<(&'a str, &'a [u8])>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) more: Vec<&'a str>,
}

impl<'a> Ask<'a> {
    /// A Python script that leaves the files named.
    pub(crate) fn python(slug: &'a str, script: &'a str, outputs: &[&'a str]) -> Self {
        Ask {
            slug,
            language: "python",
            command: "python /in/main.py",
            files: vec![("main.py", script.as_bytes())],
            outputs: outputs.to_vec(),
            more: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, more: &[&'a str]) -> Self {
        self.more.extend_from_slice(more);
        self
    }
}

/// A draft in the home.
#[derive(Debug, Clone)]
pub(crate) struct Drafted {
    pub(crate) id: String,
    pub(crate) file: String,
}

/// The result of a run, as a stranger sees it.
#[derive(Debug)]
pub(crate) struct Delivered {
    /// What `request run` said and ended with.
    pub(crate) exit: i32,
    pub(crate) said: Value,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

pub(crate) fn key_of(principal: &str) -> String {
    format!("../{}.key", principal.replace(':', "-"))
}

/// Said and left out where an interpreter is not installed where sandboxes look for it.
pub(crate) fn has(interpreter: &str) -> bool {
    let places = ["/usr/local/bin", "/usr/bin", "/bin"];
    let there = places.iter().any(|place| Path::new(place).join(interpreter).exists());
    if !there {
        println!("skipped: {interpreter} is not installed");
    }
    there
}

impl Bench {
    /// A home where Ada can approve, on a machine that contains programs and has Python.
    pub(crate) fn for_requests() -> Option<Self> {
        let bench = Bench::for_programs().filter(|_| has("python3"))?;
        bench.hire(ADA);
        Some(bench)
    }

    pub(crate) fn hire(&self, principal: &str) {
        self.json(&["principal", "add", principal]).ok();
        let key = key_of(principal);
        self.json(&["key", "create", "--principal", principal, "--out", &key]).ok();
    }

    /// `request new`, by an agent.
    pub(crate) fn new_request(&self, ask: &Ask<'_>) -> Output {
        let mut args = vec!["request", "new", ask.slug, "--as", "agent:core"];
        args.extend(["--purpose", "Try it.", "--language", ask.language]);
        args.extend(["--command", ask.command]);
        let folder = format!("inputs-{}", ask.slug);
        for (name, bytes) in &ask.files {
            self.write(&format!("{folder}/{name}"), bytes);
        }
        let inputs: Vec<_> = ask.files.iter().map(|file| format!("{folder}/{}", file.0)).collect();
        inputs.iter().for_each(|input| args.extend(["--input", input]));
        ask.outputs.iter().for_each(|output| args.extend(["--output", output]));
        args.extend(&ask.more);
        self.json(&args)
    }

    pub(crate) fn draft(&self, ask: &Ask<'_>) -> Drafted {
        let drafted = self.new_request(ask).ok().json();
        assert_eq!(drafted["outcome"], "ACCEPT", "{drafted:#}");
        let text = |name: &str| drafted[name].as_str().unwrap().to_owned();
        Drafted { id: text("request"), file: text("file") }
    }

    pub(crate) fn approve(&self, file: &str, who: &str) -> Output {
        self.json(&["request", "approve", file, "--yes", "--key-file", &key_of(who)])
    }

    /// A request that Ada approved.
    pub(crate) fn approved(&self, ask: &Ask<'_>) -> Drafted {
        let drafted = self.draft(ask);
        self.approve(&drafted.file, ADA).ok();
        drafted
    }

    pub(crate) fn run_request(&self, id: &str) -> Delivered {
        Delivered::of(&self.json(&["request", "run", id]))
    }

    /// From a draft to a result that conforms.
    pub(crate) fn result_of(&self, ask: &Ask<'_>) -> Delivered {
        let delivered = self.run_request(&self.approved(ask).id);
        delivered.conforms(self);
        delivered
    }

    pub(crate) fn lint_result(&self, path: &Path) -> Value {
        let lint = self.json(&["result", "lint", &path.display().to_string()]);
        let line = lint.json()[0].clone();
        assert_eq!(lint.code, if line["ok"] == true { 0 } else { 2 }, "{line:#}");
        line
    }

    pub(crate) fn request_file(&self, id: &str) -> PathBuf {
        self.home().join("requests").join(format!("{id}.md"))
    }

    pub(crate) fn folder(&self, name: &str) -> BTreeMap<String, String> {
        let path = self.home().join(name);
        if path.exists() { tree(&path) } else { BTreeMap::new() }
    }
}

/// The binary where a part of the machine looks different: a shell sets that up before. `None`, and
/// it is said, where nobody can.
pub(crate) fn elsewhere(bench: &Bench, setup: &str, args: &[&str]) -> Option<Output> {
    let script = format!("set -e; {setup}; exec \"$@\"");
    let mut probe = Command::new("unshare");
    probe.args(["--user", "--map-root-user", "--mount", "true"]);
    if !probe.status().is_ok_and(|status| status.success()) {
        println!("skipped: nobody can make a mount namespace here");
        return None;
    }
    let inner = bench.command(args);
    let mut outer = Command::new("unshare");
    outer.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    outer.arg(inner.get_program()).args(inner.get_args()).current_dir(bench.ws());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    Some(output(&mut outer))
}

const KEYS: [&str; 14] = [
    "result_type",
    "schema_version",
    "result_id",
    "created_utc",
    "request_id",
    "executor",
    "backend",
    "exit_code",
    "runtime_sec",
    "network_used",
    "network_destinations",
    "artifacts",
    "stdout_sha256",
    "stderr_sha256",
];

const SECTIONS: [&str; 6] =
    ["## Summary", "## Provenance", "## Outputs", "## Stdout", "## Stderr", "## Safety Notes"];

impl Delivered {
    #[track_caller]
    pub(crate) fn of(output: &Output) -> Self {
        let said = output.json();
        let path = said["result"]["path"].as_str();
        let path = PathBuf::from(path.unwrap_or_else(|| panic!("no result: {output:#?}")));
        let text = fs::read_to_string(&path).unwrap();
        Delivered { exit: output.code, said, path, text }
    }

    /// A value of the front matter that stands in its line, without quotes.
    pub(crate) fn front(&self, key: &str) -> &str {
        let front = self.text.split("\n---\n").next().unwrap();
        let value = front.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        value.unwrap_or_else(|| panic!("no {key}: {}", self.text)).trim_matches('"')
    }

    /// The filled lines of a section.
    pub(crate) fn section(&self, heading: &str) -> Vec<&str> {
        let lines = self.text.lines().skip_while(|line| *line != heading).skip(1);
        lines.take_while(|line| !line.starts_with("## ")).filter(|line| !line.is_empty()).collect()
    }

    pub(crate) fn stdout(&self) -> Vec<&str> {
        self.section("## Stdout")
    }

    pub(crate) fn stderr(&self) -> Vec<&str> {
        self.section("## Stderr")
    }

    /// What stands under `Unexpected behavior:`.
    pub(crate) fn notes(&self) -> &str {
        self.labelled("## Safety Notes", "Unexpected behavior: ")
    }

    pub(crate) fn labelled(&self, heading: &str, label: &str) -> &str {
        let found = self.section(heading).into_iter().find_map(|line| line.strip_prefix(label));
        found.unwrap_or_else(|| panic!("no {label}: {}", self.text))
    }

    /// The artifacts of the front matter, with their digests.
    pub(crate) fn artifacts(&self) -> Vec<(String, String)> {
        let mut lines = self.text.lines().skip_while(|line| *line != "artifacts:").skip(1);
        let mut found = Vec::new();
        while let Some(path) = lines.next().and_then(|line| line.strip_prefix("- path: ")) {
            let digest = lines.next().unwrap().strip_prefix("  sha256: ").unwrap();
            found.push((path.trim_matches('"').to_owned(), digest.trim_matches('"').to_owned()));
        }
        found
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.artifacts().into_iter().map(|file| file.0).collect()
    }

    /// The files beside the document.
    pub(crate) fn files(&self) -> PathBuf {
        self.path.with_extension("")
    }

    /// Accepted, in its place, of the form of the schema, true about its files, and all that a
    /// program printed behind bars. Reads with nothing that the host uses.
    #[track_caller]
    pub(crate) fn conforms(&self, bench: &Bench) {
        assert_eq!(self.said["result"]["outcome"], "ACCEPT", "{:#}\n{}", self.said, self.text);
        assert_eq!(self.path.parent().unwrap(), bench.home().join("core/inbound"));
        assert_eq!(self.path.file_stem().unwrap(), self.front("result_id"));
        self.has_the_form();
        self.has_the_files();
        let lint = bench.lint_result(&self.path);
        assert_eq!(lint["outcome"], "ACCEPT", "{lint:#}");
        for check in ["form", "content", "request", "journal", "artifact files"] {
            let made = lint["checked"].as_array().unwrap().contains(&json!(check));
            assert!(made, "{check} was not checked: {lint:#}");
        }
    }

    #[track_caller]
    fn has_the_form(&self) {
        let (front, body) = self.text.split_once("\n---\n\n").unwrap();
        let keys: Vec<&str> = front
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with("- ") && !line.starts_with("  "))
            .map(|line| line.split(':').next().unwrap())
            .collect();
        assert_eq!(keys, KEYS, "{front}");
        let headings: Vec<&str> = body.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(headings, SECTIONS, "{body}");
        for line in self.text.lines() {
            let plain = |c: char| !c.is_control() && !countersign_documents::is_unseen(c);
            assert!(line.chars().all(plain), "{line:?}");
        }
        for line in self.stdout().into_iter().chain(self.stderr()) {
            let note = ["[truncated: shown ", "[withheld: ", "[no newline at the end]"];
            let kept = line.starts_with("| ") || note.iter().any(|note| line.starts_with(note));
            assert!(kept, "{line:?}");
        }
    }

    /// What is listed lies beside the document and nothing else, and nothing was left on the way.
    #[track_caller]
    fn has_the_files(&self) {
        let listed = self.artifacts();
        let outputs = self.section("## Outputs");
        for (path, digest) in &listed {
            let bytes = fs::read(self.files().join(path)).unwrap();
            assert_eq!(*digest, Digest::of(&bytes).to_string(), "{path}");
            assert!(outputs.contains(&format!("- /out/{path} sha256: {digest}").as_str()));
        }
        let there = if self.files().exists() { tree(&self.files()) } else { BTreeMap::new() };
        let mut there: Vec<_> = there.into_keys().filter(|name| !name.ends_with('/')).collect();
        let mut listed: Vec<_> = listed.into_iter().map(|file| file.0).collect();
        there.sort();
        listed.sort();
        assert_eq!(there, listed);
        let left = tree(&self.path.parent().unwrap().join("../../results"));
        let id = self.front("result_id");
        assert!(!left.keys().any(|name| name.contains(id)), "{left:?}");
    }

    /// Whether anything that a program said got out from behind the bars.
    #[track_caller]
    pub(crate) fn keeps_behind_bars(&self, mark: &str) {
        for line in self.text.lines().filter(|line| line.contains(mark)) {
            assert!(line.starts_with("| "), "{line:?}\n{}", self.text);
        }
    }
}
