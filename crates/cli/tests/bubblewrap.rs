//! The same programs in our box and in bubblewrap: what bubblewrap contains we contain, and what
//! works there works here.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and shows a table of what it saw"
)]

mod arena;

use std::fs;
use std::path::Path;

use arena::program::{Ending, Program, programs};
use arena::table::{Row, judge};
use arena::{Arena, Caller, Case, Finished, PATH, guarded};

/// Staging is ours alone, and a program that needs a limit would know none in bubblewrap.
const GROUPS: [&str; 4] = ["kernel", "files", "network", "identity"];

fn is_installed(command: &str) -> bool {
    PATH.split(':').any(|directory| Path::new(directory).join(command).exists())
}

/// Bubblewrap with everything that it offers and we do as well.
fn run_in_bubblewrap(arena: &Arena, program: &Program, case: &Case, caller: Caller) -> Finished {
    let mut words: Vec<String> = Vec::new();
    let mut say = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    say(&["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    say(&["--uid", "1000", "--gid", "1000", "--clearenv", "--ro-bind", "/usr", "/usr"]);
    for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64"] {
        match fs::read_link(name) {
            Ok(target) => say(&["--symlink", target.to_str().unwrap(), name]),
            Err(_) => say(&["--ro-bind-try", name, name]),
        }
    }
    for name in ["alternatives", "ld.so.cache", "nsswitch.conf", "localtime", "ssl"] {
        let path = format!("/etc/{name}");
        say(&["--ro-bind-try", &path, &path]);
    }
    say(&["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    say(&["--ro-bind", arena.tool().to_str().unwrap(), "/tool"]);
    say(&["--bind", case.ws.to_str().unwrap(), "/workspace"]);
    say(&["--bind", case.out.to_str().unwrap(), "/out"]);
    say(&["--chdir", "/workspace", "--setenv", "PATH", PATH, "--setenv", "LANG", "C.UTF-8"]);
    say(&["--setenv", "HOME", "/tmp", "--setenv", "PYTHONHASHSEED", "0"]);
    words.push("--".to_owned());
    words.extend(program.command("/tool"));
    words.extend(arena.facts(case, caller, true));
    guarded(&mut arena.command(case, caller, program.terminal, &words))
}

#[test]
fn what_bubblewrap_contains_we_contain() {
    if !is_installed("bwrap") {
        println!("skipped: bubblewrap is not installed");
        return;
    }
    let all: Vec<Program> =
        GROUPS.iter().flat_map(|group| programs(&format!("hostile/{group}"))).collect();
    let arena = Arena::new(&all);
    arena.assert_there_is_a_box();
    let probes: Vec<Program> =
        all.into_iter().filter(|program| !program.part && program.is_probe()).collect();
    let mut rows = Vec::new();
    for caller in arena.callers() {
        rows.extend(arena.each(&probes, |program| {
            let theirs = run_in_bubblewrap(&arena, program, &arena.case(program, caller), caller);
            let ours = arena.run_boxed(program, &arena.case(program, caller), caller);
            let mut wrong = Vec::new();
            if theirs.code == 0 && !program.expect.contains(&ours.ending) {
                wrong.push("bubblewrap contains it and we do not".to_owned());
            }
            let verdict = match theirs.code {
                0 => "contained".to_owned(),
                42 => "ESCAPED".to_owned(),
                code => format!("exit {code}"),
            };
            let cells = [&program.name, caller.name(), &verdict, &ours.ending.to_string()];
            Row { cells: cells.map(str::to_owned).to_vec(), wrong, detail: ours.detail }
        }));
    }
    judge("probes", &["program", "as", "bubblewrap", "ours"], &rows, &arena.leftovers());
}

#[test]
fn what_works_in_bubblewrap_works_here() {
    if !is_installed("bwrap") {
        println!("skipped: bubblewrap is not installed");
        return;
    }
    let (benign, missing): (Vec<Program>, Vec<Program>) = programs("benign")
        .into_iter()
        .partition(|program| program.needs.as_deref().is_none_or(is_installed));
    for program in missing {
        println!("skipped: {}, its command is not installed", program.name);
    }
    let arena = Arena::new(&benign);
    arena.assert_there_is_a_box();
    let mut rows = Vec::new();
    for caller in arena.callers() {
        rows.extend(arena.each(&benign, |program| {
            let theirs = run_in_bubblewrap(&arena, program, &arena.case(program, caller), caller);
            let ours = arena.run_boxed(program, &arena.case(program, caller), caller);
            let mut wrong = ours.problems;
            if theirs.code != 0 {
                wrong.push(format!("in bubblewrap: exit {}\n{}", theirs.code, theirs.stderr));
            }
            if ours.ending != Ending::Exit(0) {
                wrong.push(format!("it ended with {}", ours.ending));
            }
            if theirs.stdout != ours.stdout {
                wrong.push(format!("in bubblewrap it says {:?}", theirs.stdout));
            }
            let theirs = format!("exit {}", theirs.code);
            let cells = [&program.name, caller.name(), &theirs, &ours.ending.to_string()];
            Row { cells: cells.map(str::to_owned).to_vec(), wrong, detail: ours.detail }
        }));
    }
    judge("benign", &["program", "as", "bubblewrap", "ours"], &rows, &arena.leftovers());
}
