//! Hostile programs in the box: each ends as its first lines say, as root and as an ordinary user,
//! changes nothing that it may not and leaves nothing behind. The programs and their words are
//! explained in `hostile/README.md`.
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

use arena::program::{Bare, Ending, Program, programs};
use arena::snapshot::{changes, poison, surprises};
use arena::table::{Row, judge};
use arena::{Arena, Caller, Views};

const GROUPS: [&str; 6] = ["limits", "kernel", "files", "network", "identity", "staging"];

/// Runs all programs of a group as everybody.
fn run_group(group: &str) {
    let programs = programs(&format!("hostile/{group}"));
    let arena = Arena::new(&programs);
    arena.assert_there_is_a_box();
    let programs: Vec<Program> = programs.into_iter().filter(|program| !program.part).collect();
    let mut rows = Vec::new();
    for caller in arena.callers() {
        rows.extend(arena.each(&programs, |program| run(&arena, program, caller)));
    }
    let mut left = arena.leftovers();
    let contacts = arena.listeners.contacts();
    if contacts > 0 {
        left.push(format!("{contacts} contacts with services of the host"));
    }
    judge(group, &["program", "as", "expected", "ended"], &rows, &left);
}

/// Runs one program in the box and looks at everything it could have changed.
fn run(arena: &Arena, program: &Program, caller: Caller) -> Row {
    let case = arena.case(program, caller);
    let boxed = arena.run_boxed(program, &case, caller);
    let after = Views::of(&case.root);
    let mut wrong = boxed.problems;
    if !program.expect.contains(&boxed.ending) {
        wrong.push(format!("it ended with {}", boxed.ending));
    }
    // Only success publishes.
    let success = boxed.ending == Ending::Exit(0);
    let (ws, out) =
        if success { (&program.workspace[..], &program.out[..]) } else { (&[][..], &[][..]) };
    wrong.extend(surprises("workspace", ws, &changes(&case.before.ws, &after.ws)));
    wrong.extend(surprises("out", out, &changes(&case.before.out, &after.out)));
    wrong.extend(surprises("host", &[], &changes(&case.before.host, &after.host)));
    wrong.extend(poison(&case.ws, &case.before.ws, &after.ws, caller.uid()));
    wrong.extend(poison(&case.out, &case.before.out, &after.out, caller.uid()));
    let expected: Vec<String> = program.expect.iter().map(Ending::to_string).collect();
    let cells = [&program.name, caller.name(), &expected.join(" or "), &boxed.ending.to_string()];
    Row { cells: cells.map(str::to_owned).to_vec(), wrong, detail: boxed.detail }
}

#[test]
fn limits_hold() {
    run_group("limits");
}

#[test]
fn the_kernel_refuses() {
    run_group("kernel");
}

#[test]
fn files_of_the_host_stay_out_of_reach() {
    run_group("files");
}

#[test]
fn no_way_leads_out_over_the_network() {
    run_group("network");
}

#[test]
fn nobody_becomes_somebody_else() {
    run_group("identity");
}

#[test]
fn only_what_is_sound_is_published() {
    run_group("staging");
}

/// A probe that reports nothing when there is no box would prove nothing when there is one.
#[test]
fn harmless_probes_escape_where_there_is_no_box() {
    if confined() {
        println!("skipped: this host is itself a box, in which probes are contained");
        return;
    }
    let all: Vec<Program> =
        GROUPS.iter().flat_map(|group| programs(&format!("hostile/{group}"))).collect();
    let arena = Arena::new(&all);
    let mut rows = Vec::new();
    for caller in arena.callers() {
        let root = caller.uid() == 0;
        let chosen: Vec<Program> = all
            .iter()
            .filter(|program| match program.bare {
                Bare::NotRun => false,
                Bare::Anybody => true,
                Bare::Root => root,
                Bare::User => !root,
            })
            .cloned()
            .collect();
        rows.extend(arena.each(&chosen, |program| run_bare(&arena, program, caller)));
    }
    judge("without a box", &["program", "as", "exit"], &rows, &arena.leftovers());
}

fn run_bare(arena: &Arena, program: &Program, caller: Caller) -> Row {
    let case = arena.case(program, caller);
    let finished = arena.run_bare(program, &case, caller);
    let mut wrong = Vec::new();
    if finished.code != 42 {
        wrong.push("it found no way out where there is no wall".to_owned());
    }
    let cells = vec![program.name.clone(), caller.name().to_owned(), finished.code.to_string()];
    Row { cells, wrong, detail: format!("{}{}", finished.stdout, finished.stderr) }
}

/// Whether a filter or missing capabilities already confine this process.
fn confined() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default().to_owned()
    };
    // CAP_SYS_ADMIN has the number 21.
    let powers = u64::from_str_radix(&value("CapEff:"), 16).unwrap_or_default();
    let weak_root = rustix::process::getuid().is_root() && powers & (1 << 21) == 0;
    value("Seccomp:") != "0" || value("NoNewPrivs:") != "0" || weak_root
}

#[test]
fn there_are_enough_programs_and_each_is_described() {
    let all: Vec<Program> =
        GROUPS.iter().flat_map(|group| programs(&format!("hostile/{group}"))).collect();
    let count = all.iter().filter(|program| !program.part).count();
    assert!(count >= 70, "{count} programs");
    // They share one directory when they run.
    let mut names: Vec<String> = all.iter().map(|program| program.command("").join(" ")).collect();
    names.sort();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before, "two programs have the same name");
}
