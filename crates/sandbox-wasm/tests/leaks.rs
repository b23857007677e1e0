//! Nothing is left behind: no descriptor, no directory, also not by a host that died.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(dead_code, unreachable_pub, reason = "every test uses a part of the common helpers")]

mod common;

use std::fs;

use common::{Bench, CREATE, OUT, limit, open, say, start};
use countersign_sandbox::LimitKind;
use countersign_sandbox_wasm::clean_leftovers;

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// One test, for the descriptors of this process are counted.
#[test]
fn a_thousand_calls_leave_nothing() {
    let bench = Bench::new();
    let mut specs = [
        bench.spec(say(1, "hello")),
        bench.spec(open(OUT, "made", CREATE)),
        bench.spec(start("unreachable")),
        bench.spec(start("(loop $again (br $again))")),
    ];
    specs[3].limits.cpu_ms = 1;
    let once = || {
        for spec in &specs {
            bench.run(spec);
        }
    };
    once();
    let (open_before, entries) = (descriptors(), bench.entries());
    for _ in 0..250 {
        once();
    }
    assert_eq!((descriptors(), bench.entries()), (open_before, entries));
    let root = fs::read_dir(bench.spill()).unwrap().next().unwrap().unwrap().path();
    assert!(fs::read_dir(&root).unwrap().count() <= 2, "scratch directories pile up");

    // A living host's directory stays; one whose host is gone is removed.
    let dead = bench.spill().join("countersign-wasm-1-2-3");
    fs::create_dir_all(dead.join("0/out/deep")).unwrap();
    fs::write(dead.join("0/out/deep/file"), "x").unwrap();
    fs::write(bench.spill().join("other"), "not ours").unwrap();
    assert_eq!(clean_leftovers(&bench.spill()).unwrap(), 1);
    assert!(!dead.exists() && root.exists() && bench.spill().join("other").exists());

    let Bench { backend, home } = bench;
    drop(backend);
    assert!(!root.exists(), "the backend leaves its directory");
    drop(home);

    // Many at once, more than the pool has: they end well or are told to come back.
    let bench = Bench::new();
    let mut spec = bench.spec(start("(loop $again (br $again))"));
    spec.limits.wall_ms = 300;
    let plan = bench.job(&spec, b"").unwrap();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    let mut unwatched = countersign_sandbox::backend::Unwatched;
                    countersign_sandbox::Backend::run(&bench.backend, plan.clone(), &mut unwatched)
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for outcome in outcomes {
        match outcome {
            Ok(ended) => assert_eq!(ended.ending, limit(LimitKind::WallTime)),
            Err(failure) => assert_eq!(failure.code, "SANDBOX_BUSY"),
        }
    }
}
