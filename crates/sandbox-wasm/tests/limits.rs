//! Every limit ends the guest that reaches it, in time and with its own name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(dead_code, unreachable_pub, reason = "every test uses a part of the common helpers")]

mod common;

use std::time::{Duration, Instant};

use common::{Bench, CREATE, OUT, TMP, limit, module, open, start};
use countersign_model::Failure;
use countersign_sandbox::{Ending, LimitKind, Observer};

const SPIN: &str = "(loop $again (br $again))";

/// A wait of an hour on the monotonic clock.
fn sleep() -> String {
    start(
        "(i32.store (i32.const 16) (i32.const 1)) (i64.store (i32.const 24) (i64.const 3600000000000))
         (drop (call $poll_oneoff (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))",
    )
}

fn soon(bench: &Bench, spec: &countersign_sandbox::Spec) -> Ending {
    let job = bench.job(spec, b"").unwrap();
    let started = Instant::now();
    let ended = countersign_sandbox::Backend::run(
        &bench.backend,
        job,
        &mut countersign_sandbox::backend::Unwatched,
    );
    assert!(started.elapsed() < Duration::from_secs(10), "it took {:?}", started.elapsed());
    let ended = ended.unwrap();
    if ended.ending == (Ending::Exited { code: 134 }) {
        panic!("{}", String::from_utf8_lossy(&ended.stderr.inline));
    }
    ended.ending
}

#[test]
fn wall_time_ends_those_that_compute_and_those_that_sleep() {
    let bench = Bench::new();
    let in_start = module(&format!("(func $s {SPIN}) (start $s) (func (export \"_start\"))"));
    for guest in [start(SPIN), sleep(), in_start] {
        let mut spec = bench.spec(guest);
        spec.limits.wall_ms = 100;
        assert_eq!(soon(&bench, &spec), limit(LimitKind::WallTime));
    }
}

#[test]
fn processor_time_is_limited_apart_from_wall_time() {
    let bench = Bench::new();
    let mut spec = bench.spec(start(SPIN));
    spec.limits.cpu_ms = 50;
    assert_eq!(soon(&bench, &spec), limit(LimitKind::CpuTime));
    let mut spec = bench.spec(sleep());
    (spec.limits.cpu_ms, spec.limits.wall_ms) = (50, 300);
    assert_eq!(soon(&bench, &spec), limit(LimitKind::WallTime));
}

#[test]
fn fuel_is_counted() {
    let bench = Bench::new();
    let mut spec = bench.spec(start(SPIN));
    spec.fuel = Some(100_000);
    assert_eq!(soon(&bench, &spec), limit(LimitKind::CpuTime));
    let mut spec = bench.spec(start("nop"));
    spec.fuel = Some(100_000);
    assert_eq!(soon(&bench, &spec), Ending::Exited { code: 0 });
}

#[test]
fn memory_is_limited_by_the_plan_and_by_the_module() {
    let bench = Bench::new();
    let grow = "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))";
    let mut spec = bench.spec(start(grow));
    spec.limits.memory = 64 << 20;
    let ended = bench.run(&spec);
    assert_eq!(ended.ending, limit(LimitKind::Memory));
    assert!(ended.usage.peak_memory <= 64 << 20);
    // What is there from the beginning counts as well.
    let mut spec = bench.spec(start("nop"));
    spec.limits.memory = 1 << 16;
    assert_eq!(soon(&bench, &spec), limit(LimitKind::Memory));
    let own = "(module (memory 1 4) (func (export \"_start\")
        (if (i32.ne (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))))";
    assert_eq!(soon(&bench, &bench.spec(own)), Ending::Exited { code: 0 });
}

#[test]
fn tables_count_as_memory() {
    let bench = Bench::new();
    let grow = "(module (table $t 1 funcref) (func (export \"_start\") (loop $again
        (br_if $again (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))))";
    let mut spec = bench.spec(grow);
    spec.limits.memory = 1 << 20;
    assert_eq!(soon(&bench, &spec), limit(LimitKind::Memory));
}

#[test]
fn output_is_limited() {
    let bench = Bench::new();
    for stream in [1, 2] {
        let mut spec = bench.spec(start(&format!(
            "(i32.store (i32.const 4) (i32.const 5000))
             (loop $again (drop (call $fd_write (i32.const {stream}) (i32.const 0) (i32.const 1) (i32.const 8)))
             (br $again))"
        )));
        (spec.limits.output, spec.limits.inline_output) = (1 << 20, 1 << 10);
        let ended = bench.run(&spec);
        assert_eq!(ended.ending, limit(LimitKind::Output));
        let captured = if stream == 1 { ended.stdout } else { ended.stderr };
        assert_eq!(captured.total, 1 << 20);
    }
}

/// Opens a file in `/out`, does `first` with its descriptor, and then writes without end.
fn fill(first: &str) -> String {
    let opened = open(OUT, "f", CREATE);
    let end = opened.rfind("))").unwrap();
    format!(
        "{} {first} (i32.store (i32.const 4) (i32.const 65536)) (loop $again
           (call $check (call $fd_write (i32.load (i32.const 8)) (i32.const 0) (i32.const 1) (i32.const 12)))
           (br $again))))",
        &opened[..end]
    )
}

#[test]
fn disk_fillers_end_in_time_also_without_a_name() {
    let bench = Bench::new();
    let unlink =
        "(call $check (call $path_unlink_file (i32.const 4) (i32.const 64) (i32.const 1)))";
    for first in ["", unlink] {
        let mut spec = bench.spec(fill(first));
        (spec.limits.total_size, spec.limits.file_size) = (4 << 20, 1 << 40);
        assert_eq!(soon(&bench, &spec), limit(LimitKind::TotalSize));
    }
    let mut spec = bench.spec(fill(""));
    spec.limits.file_size = 1 << 20;
    assert_eq!(soon(&bench, &spec), limit(LimitKind::FileSize));
}

#[test]
fn a_file_that_is_too_large_at_the_end_counts() {
    let bench = Bench::new();
    let grow = "(call $check (call $fd_filestat_set_size (i32.load (i32.const 8)) (i64.const 1099511627776)))";
    let spec = bench.spec(fill(&format!("{grow} (call $proc_exit (i32.const 0))")));
    assert_eq!(soon(&bench, &spec), limit(LimitKind::FileSize));
}

/// Makes something with a new name again and again; the name is a counter in letters.
fn many(make: &str) -> String {
    start(&format!(
        "(loop $again
           (i64.store (i32.const 64) (i64.or (i64.const 0x4141414141414141)
             (i64.or (i64.extend_i32_u (i32.and (local.get $i) (i32.const 0x0f)))
             (i64.or (i64.shl (i64.extend_i32_u (i32.and (local.get $i) (i32.const 0xf0))) (i64.const 4))
             (i64.or (i64.shl (i64.extend_i32_u (i32.and (local.get $i) (i32.const 0xf00))) (i64.const 8))
                     (i64.shl (i64.extend_i32_u (i32.and (local.get $i) (i32.const 0xf000))) (i64.const 12)))))))
           (local.set $i (i32.add (local.get $i) (i32.const 2)))
           {make} (br $again))"
    ))
}

#[test]
fn inode_fillers_end_in_time() {
    let bench = Bench::new();
    for directory in [TMP, OUT] {
        let make = format!(
            "(drop (call $path_create_directory (i32.const {directory}) (i32.const 64) (i32.const 8)))"
        );
        let mut spec = bench.spec(many(&make));
        spec.limits.inodes = 100;
        assert_eq!(soon(&bench, &spec), limit(LimitKind::Inodes));
    }
}

#[test]
fn open_files_are_limited() {
    let bench = Bench::new();
    let make = "(drop (call $path_open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 8)
        (i32.const 1) (i64.const 0x42) (i64.const 0) (i32.const 0) (i32.const 8)))";
    let mut spec = bench.spec(many(make));
    spec.limits.open_files = 50;
    assert_eq!(soon(&bench, &spec), limit(LimitKind::OpenFiles));
}

#[test]
fn a_tree_too_deep_to_walk_is_ended_and_removed() {
    let bench = Bench::new();
    // Every directory is made in the one before, and holds the next.
    let nest = "(local.set $i (i32.const 3)) (i32.store8 (i32.const 64) (i32.const 100))
      (loop $again
        (drop (call $path_create_directory (local.get $i) (i32.const 64) (i32.const 1)))
        (drop (call $path_open (local.get $i) (i32.const 0) (i32.const 64) (i32.const 1)
          (i32.const 2) (i64.const 0x4002) (i64.const 0) (i32.const 0) (i32.const 8)))
        (drop (call $fd_close (local.get $i)))
        (local.set $i (i32.load (i32.const 8)))
        (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
        (br_if $again (i32.lt_u (i32.load (i32.const 0)) (i32.const 3000))))";
    let spec = bench.spec(start(nest));
    assert_eq!(soon(&bench, &spec), limit(LimitKind::Inodes));
    let root = std::fs::read_dir(bench.spill()).unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::read_dir(root).unwrap().count(), 0);
}

#[test]
fn the_observer_ends_guests() {
    struct Cancel(Instant);
    impl Observer for Cancel {
        fn tick(&mut self) -> Result<(), Failure> {
            if self.0.elapsed() < Duration::from_millis(30) {
                return Ok(());
            }
            Err(Failure::execution("CANCELLED", "no longer wanted"))
        }
    }
    let bench = Bench::new();
    for guest in [start(SPIN), sleep()] {
        let spec = bench.spec(guest);
        bench.job(&spec, b"").unwrap();
        let started = Instant::now();
        let ended = bench.run_watched(&spec, b"", &mut Cancel(started));
        let failure = Failure::execution("CANCELLED", "no longer wanted");
        assert_eq!(ended.ending, Ending::Stopped { failure });
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
