//! The promise behind everything else: a process may die at any append, and between any two steps
//! of publishing, and the world is afterwards as if the call in flight had happened or had not.
//!
//! A child process runs a seeded sequence of calls and notes each outcome; its store kills it
//! before or after the n-th append, for every n. The parent recovers and compares with a model.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(clippy::print_stdout, reason = "how much was tried is worth knowing")]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::store::{At, Mishap, TestStore};
use common::{
    Bench, command_in, home_in, host_in, key, open_store, root_in, spawn_self, verify_chain,
};
use countersign_host::recovery::Recovered;
use countersign_host::{Host, Outcome};
use countersign_model::Lifecycle;
use serde_json::{Value, json};

const DIR: &str = "COUNTERSIGN_TEST_DIR";
const SEED: &str = "COUNTERSIGN_TEST_SEED";
const APPEND: &str = "COUNTERSIGN_TEST_APPEND";
const HOW: &str = "COUNTERSIGN_TEST_HOW";

const CALLS: usize = 10;
const PATHS: [&str; 4] = ["a", "b", "d/c", "d/e/f"];
/// Changed by programs only: a file that turns into a directory and back, and a link.
const PROGRAM_PATHS: [&str; 3] = ["t", "t/x", "l"];
const KEYS: [&str; 3] = ["k", "l", "m/n"];

/// A small generator, so that a seed says everything (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }
}

/// Files and keys: all that calls can change.
#[derive(Debug, Clone, Default, PartialEq)]
struct World {
    files: BTreeMap<String, String>,
    keys: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
struct Change {
    files: Vec<(String, Option<String>)>,
    keys: Vec<(String, Option<String>)>,
    fail: bool,
    /// A program clears what is in its way, and does not mind what is missing.
    program: bool,
}

impl Change {
    /// The model of a call: what the world is afterwards, and whether the call succeeds.
    fn applied_to(&self, world: &World) -> (World, bool) {
        let missing = |(name, value): &(String, Option<String>)| {
            value.is_none() && !world.files.contains_key(name)
        };
        if self.fail || !self.program && self.files.iter().any(missing) {
            return (world.clone(), false);
        }
        let mut next = world.clone();
        for (name, _) in self.files.iter().filter(|_| self.program) {
            let beneath = |other: &str, above: &str| other.starts_with(&format!("{above}/"));
            let written = self.files.iter().any(|(n, value)| n == name && value.is_some());
            // What is written takes the place of what is above and beneath it.
            next.files
                .retain(|other, _| !(beneath(other, name) || written && beneath(name, other)));
        }
        change(&mut next.files, &self.files);
        change(&mut next.keys, &self.keys);
        (next, true)
    }
}

fn change(map: &mut BTreeMap<String, String>, changes: &[(String, Option<String>)]) {
    for (name, value) in changes {
        match value {
            Some(value) => map.insert(name.clone(), value.clone()),
            None => map.remove(name),
        };
    }
}

/// The n-th call of a sequence: tool, input and what it means.
fn plan(seed: u64) -> Vec<(&'static str, Value, Change)> {
    let mut dice = Dice(seed);
    (0..CALLS).map(|n| one_call(&mut dice, n)).collect()
}

fn one_call(dice: &mut Dice, n: usize) -> (&'static str, Value, Change) {
    let (path, key, text) = (PATHS[dice.roll(4)], KEYS[dice.roll(3)], format!("value {n}"));
    let file = |value: Option<String>| Change {
        files: vec![(path.to_owned(), value)],
        keys: Vec::new(),
        fail: false,
        program: false,
    };
    let one_key = |value: Option<String>| Change {
        files: Vec::new(),
        keys: vec![(key.to_owned(), value)],
        fail: false,
        program: false,
    };
    match dice.roll(10) {
        0 | 1 => (
            "file.write",
            json!({"path": path, "content": text, "createDirectories": true}),
            file(Some(text)),
        ),
        2 => ("file.delete", json!({"path": path}), file(None)),
        3 => ("state.put", json!({"key": key, "value": text}), one_key(Some(text))),
        4 => ("state.delete", json!({"key": key}), one_key(None)),
        5 | 6 => many(dice, n),
        _ => program(dice, n),
    }
}

fn program(dice: &mut Dice, n: usize) -> (&'static str, Value, Change) {
    let mut files = Vec::new();
    for name in PATHS {
        if dice.roll(3) == 0 {
            let value = (dice.roll(4) > 0).then(|| format!("program {n} {name}"));
            files.push((name.to_owned(), value));
        }
    }
    match dice.roll(4) {
        0 => files.push(("t".to_owned(), Some(format!("program {n} t")))),
        1 => files.push(("t/x".to_owned(), Some(format!("program {n} t/x")))),
        2 => files.push(("t".to_owned(), None)),
        _ => {}
    }
    match dice.roll(3) {
        0 => files.push(("l".to_owned(), Some(format!("-> {}", PATHS[dice.roll(4)])))),
        1 => files.push(("l".to_owned(), (dice.roll(2) == 0).then(|| format!("program {n} l")))),
        _ => {}
    }
    let fail = dice.roll(6) == 0;
    let change = Change { files, keys: Vec::new(), fail, program: true };
    ("test.program", json!({"files": list(&change.files), "fail": fail}), change)
}

fn list(items: &[(String, Option<String>)]) -> Vec<Value> {
    let item = |(name, value): &(String, Option<String>)| match value {
        Some(value) => json!({"name": name, "value": value}),
        None => json!({"name": name}),
    };
    items.iter().map(item).collect()
}

fn many(dice: &mut Dice, n: usize) -> (&'static str, Value, Change) {
    let pick = |dice: &mut Dice, names: &[&str], writes: usize| {
        let mut picked = Vec::new();
        for name in names {
            if dice.roll(2) == 0 {
                let value = (dice.roll(writes) > 0).then(|| format!("many {n} {name}"));
                picked.push(((*name).to_owned(), value));
            }
        }
        picked
    };
    let change = Change {
        files: pick(dice, &PATHS, 8),
        keys: pick(dice, &KEYS, 3),
        fail: dice.roll(6) == 0,
        program: false,
    };
    let input =
        json!({"files": list(&change.files), "keys": list(&change.keys), "fail": change.fail});
    ("test.many", input, change)
}

fn acknowledgements(dir: &Path) -> PathBuf {
    dir.join("acknowledged")
}

/// Not a test by itself: the process that dies.
#[test]
fn in_another_process() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let dir = PathBuf::from(dir);
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let store = Arc::new(TestStore::over(open_store(&home_in(&dir))));
    let host = host_in(&dir, store.clone());
    match std::env::var(HOW).unwrap().as_str() {
        "before" => store.plan(At::Append(number(APPEND)), Mishap::DiesBefore),
        "after" => store.plan(At::Append(number(APPEND)), Mishap::DiesAfter),
        how => die_when_seen(&dir, how),
    }
    for (tool, input, _) in plan(number(SEED)) {
        let outcome = host.call(command_in(&dir, tool, &input)).unwrap();
        acknowledge(&dir, &outcome);
    }
}

fn acknowledge(dir: &Path, outcome: &Outcome) {
    let path = acknowledgements(dir);
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    let word = if outcome.state == Lifecycle::Completed { "done" } else { "failed" };
    writeln!(file, "{word}").unwrap();
}

/// Dies as soon as a file holds what one call of the sequence writes into it: in the middle of
/// publishing, where no append marks the place.
fn die_when_seen(dir: &Path, place: &str) {
    let (name, content) = place.split_once('=').unwrap();
    let (path, content) = (root_in(dir).join(name), content.to_owned());
    std::thread::spawn(move || {
        loop {
            if fs::read_to_string(&path).is_ok_and(|text| text == content) {
                std::process::abort();
            }
        }
    });
}

fn world(dir: &Path, host: &Host) -> World {
    let mut world = World::default();
    for name in PATHS.into_iter().chain(PROGRAM_PATHS) {
        let path = root_in(dir).join(name);
        let link = fs::read_link(&path).map(|target| format!("-> {}", target.display()));
        if let Ok(text) = link.or_else(|_| fs::read_to_string(path)) {
            world.files.insert(name.to_owned(), text);
        }
    }
    for name in KEYS {
        if let Some(value) = key(host, name) {
            world.keys.insert(name.to_owned(), value.as_str().unwrap().to_owned());
        }
    }
    world
}

/// The worlds after each prefix of the sequence, with what each call must answer.
fn model(seed: u64) -> (Vec<World>, Vec<bool>) {
    let (mut worlds, mut answers) = (vec![World::default()], Vec::new());
    for (_, _, change) in plan(seed) {
        let (next, succeeds) = change.applied_to(worlds.last().unwrap());
        worlds.push(next);
        answers.push(succeeds);
    }
    (worlds, answers)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn temporaries(dir: &Path) -> usize {
    let mut found = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found += temporaries(&entry.path());
        } else if entry.file_name().to_str().unwrap().starts_with(".countersign-") {
            found += 1;
        }
    }
    found
}

/// Lets a process die once and judges what it left. `false` if it lived to the end.
fn crash_once(template: &Path, seed: u64, how: &str, append: u64) -> bool {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("copy");
    copy(template, &dir);
    let role = [
        (DIR, dir.to_str().unwrap().to_owned()),
        (SEED, seed.to_string()),
        (APPEND, append.to_string()),
        (HOW, how.to_owned()),
    ];
    let status = spawn_self("in_another_process", &role).wait().unwrap();
    let what = format!("seed {seed}, {how} append {append}");
    judge(&dir, seed, status.success(), &what);
    !status.success()
}

fn judge(dir: &Path, seed: u64, lived: bool, what: &str) {
    let acknowledged = fs::read_to_string(acknowledgements(dir)).unwrap_or_default();
    let acknowledged: Vec<_> = acknowledged.lines().map(|line| line == "done").collect();
    let (worlds, answers) = model(seed);
    let n = acknowledged.len();
    assert_eq!(acknowledged, answers[..n], "{what}: answers");

    let host = host_in(dir, Arc::new(open_store(&home_in(dir))));
    let found = world(dir, &host);
    let allowed = &worlds[n..worlds.len().min(n + 2)];
    assert!(allowed.contains(&found), "{what}: {n} acknowledged, {found:#?} not in {allowed:#?}");
    assert!(!lived || n == CALLS, "{what}: the process failed without dying");
    assert!(host.home().store.open_calls().unwrap().is_empty(), "{what}: a call is left open");
    assert_eq!(temporaries(&root_in(dir)), 0, "{what}: a temporary file is left");
    verify_chain(&host);
    let head = host.home().store.head().unwrap();
    assert_eq!(host.recover().unwrap(), Recovered::default(), "{what}");
    assert_eq!(host.home().store.head().unwrap(), head, "{what}: recovered twice");
    // Nothing is claimed any more: every path can be written.
    for path in PATHS {
        let input = json!({"path": path, "content": "after", "createDirectories": true});
        let outcome = host.call(command_in(dir, "file.write", &input)).unwrap();
        assert_eq!(outcome.state, Lifecycle::Completed, "{what}: {path} {:?}", outcome.result);
    }
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.declare_program("test.program", |_| {});
    bench
}

fn crash_everywhere(seed: u64) {
    let bench = bench();
    let mut deaths = 0;
    for how in ["before", "after"] {
        let mut append = 1;
        while crash_once(bench.path(), seed, how, append) {
            append += 1;
            deaths += 1;
        }
    }
    assert!(deaths >= CALLS, "seed {seed}: only {deaths} deaths");
    println!("seed {seed}: died {deaths} times");
}

#[test]
fn a_process_may_die_at_every_append_1() {
    crash_everywhere(1);
}

#[test]
fn a_process_may_die_at_every_append_2() {
    crash_everywhere(20);
}

#[test]
fn a_process_may_die_at_every_append_3() {
    crash_everywhere(300);
}

/// For every file that a call of several effects writes: dies when that file is seen.
#[test]
fn a_process_may_die_between_two_steps_of_publishing() {
    let bench = bench();
    let mut deaths = 0;
    for seed in [4, 5, 6] {
        for (tool, _, change) in plan(seed) {
            if !["test.many", "test.program"].contains(&tool) || change.fail {
                continue;
            }
            for (name, value) in &change.files {
                if let Some(value) = value {
                    let place = format!("{name}={value}");
                    deaths += usize::from(crash_once(bench.path(), seed, &place, 0));
                }
            }
        }
    }
    println!("died {deaths} times while publishing");
    assert!(deaths > 0);
}
