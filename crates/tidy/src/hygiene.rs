//! What no file of the repository may contain.

use crate::code::{code_only, has_word};
use crate::tree::{File, Tree};

/// A file that has grown longer holds more than one thing.
const MAX_RUST_LINES: usize = 700;

/// Packages in `Cargo.lock`, ours included. More is a decision, made by changing this number.
/// WebAssembly is 152 of them: a compiler, a runtime and WASI, of which 31 are for other systems
/// and never built. Cedar is 80: a parser and what generates it, a validator and their reports.
/// Documents are 8: ours, a reader of Markdown, and for tests alone a reader of YAML.
/// Context packs are 6: ours, a counter of tokens with what unpacks its vocabularies, and for tests
/// alone a second counter.
/// Patches are 7: ours, zlib, the names of git, and the lines that differ.
/// Reports are 2, repositories one, actions 3 with their archives.
/// Flow is 3: ours, and an expression language with the map it keeps.
/// Runs are one. The HTTP host is 25: ours, HTTP with its routes, TLS, and one that only other systems build.
pub const MAX_PACKAGES: usize = 491;

/// The only place for unsafe code: system calls that nothing safe offers.
const UNSAFE_HOME: &str = "crates/sandbox-linux/";

/// Spelt so that this file does not contain them itself.
const UNFINISHED: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Code that is not done, and tests that do not run.
const UNDONE: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];

pub fn problems(tree: &Tree) -> Vec<String> {
    tree.files.iter().flat_map(file_problems).collect()
}

pub fn file_problems(file: &File) -> Vec<String> {
    let mut found = text_problems(&file.text);
    if file.extension() == Some("rs") {
        found.extend(rust_problems(&file.path, &file.text));
    }
    found.into_iter().map(|what| format!("{}: {what}", file.path)).collect()
}

fn text_problems(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.split('\n')) {
        let mut say = |what: String| found.push(format!("line {number} {what}"));
        if line.ends_with('\r') {
            say("ends in a carriage return".to_owned());
        } else if line.ends_with([' ', '\t']) {
            say("ends in white space".to_owned());
        }
        if line.contains('\t') {
            say("has a tab".to_owned());
        }
        for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
            say(format!("says `{word}`"));
        }
        for path in MACHINE_PATHS.iter().filter(|path| has_absolute(line, path)) {
            say(format!("names `{path}`, a path of one machine"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        found.push("its last line does not end".to_owned());
    }
    found
}

/// The prefix where a path starts, not in the middle of a longer one; something must follow.
fn has_absolute(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + prefix.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.*}>)".contains(c))
            && after.is_some_and(char::is_alphanumeric)
    })
}

fn rust_problems(path: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let mut found = Vec::new();
    if !path.starts_with(UNSAFE_HOME) && has_word(&code, "unsafe") {
        found.push(format!("has `unsafe`, which belongs in {UNSAFE_HOME}"));
    }
    let undone = UNDONE.iter().filter(|undone| code.contains(*undone));
    found.extend(undone.map(|undone| format!("has `{undone}`")));
    let lines = text.lines().count();
    if lines > MAX_RUST_LINES {
        found.push(format!("has {lines} lines, more than {MAX_RUST_LINES}: split it"));
    }
    if is_test_file(path) && !text.starts_with("//!") {
        found.push("does not start with `//!` and what it tests".to_owned());
    }
    found.extend(silenced_without_reason(&code));
    found
}

/// `crates/x/tests/y.rs`, not the modules below it.
fn is_test_file(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(directory, _)| directory.ends_with("/tests"))
}

fn silenced_without_reason(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for opening in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
        for (at, _) in code.match_indices(opening) {
            let line = code.get(..at).map_or(0, |before| before.matches('\n').count()) + 1;
            let attribute = code.get(at..).and_then(|rest| rest.split(']').next());
            if !attribute.is_some_and(|attribute| has_word(attribute, "reason")) {
                found.push(format!("line {line} silences a lint without a `reason`"));
            }
        }
    }
    found
}

/// Every crate takes the workspace's lints, by this very text.
pub fn crates_without_lints(tree: &Tree) -> Vec<String> {
    tree.files
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"))
        .filter(|file| !file.text.contains("[lints]\nworkspace = true\n"))
        .map(|file| format!("{} does not take the workspace's lints", file.path))
        .collect()
}

pub fn package_count(lock: &str) -> usize {
    lock.lines().filter(|line| *line == "[[package]]").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> String {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        file_problems(&file).join("; ")
    }

    #[test]
    fn every_rule_finds_its_sample() {
        for (text, expected) in [
            ("a \n", "a.rs: line 1 ends in white space"),
            ("a\r\n", "a.rs: line 1 ends in a carriage return"),
            ("\ta\n", "a.rs: line 1 has a tab"),
            ("a", "a.rs: its last line does not end"),
            ("unsafe {}\n", "a.rs: has `unsafe`, which belongs in crates/sandbox-linux/"),
            ("todo!()\n", "a.rs: has `todo!`"),
            ("#[ignore]\n", "a.rs: has `#[ignore`"),
            ("#[ignore = \"slow\"]\n", "a.rs: has `#[ignore`"),
            ("\n#[allow(dead_code)]\n", "a.rs: line 2 silences a lint without a `reason`"),
            ("#[allow(dead_code, reason = \"x\")]\n", ""),
            ("// unsafe, todo!() and dbg!() in prose\nlet x = \"unsafe\";\n", ""),
        ] {
            assert_eq!(check("a.rs", text), expected, "{text}");
        }
        assert_eq!(check("crates/sandbox-linux/src/sys.rs", "unsafe {}\n"), "");
        assert_eq!(check("crates/a/tests/common/mod.rs", "use x;\n"), "");
        assert!(check("crates/a/tests/b.rs", "use x;\n").contains("does not start with"));
        assert!(check("a.rs", &"\n".repeat(701)).contains("split it"));
        assert!(check("a.md", &format!("{} later\n", UNFINISHED[0])).contains("says"));
    }

    #[test]
    fn paths_of_one_machine_are_absolute() {
        for prefix in MACHINE_PATHS {
            assert!(has_absolute(&format!("see `{prefix}ada/x`"), prefix));
            assert!(!has_absolute(&format!("see sub{prefix}ada"), prefix));
            assert!(!has_absolute(prefix, prefix));
        }
    }
}
