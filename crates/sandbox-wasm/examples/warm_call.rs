//! What a warm call costs beyond the work itself, and what compiling costs with and without the
//! disk cache: `cargo run --release -p countersign-sandbox-wasm --example warm_call`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a measurement stops at the first surprise and prints"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_sandbox::backend::Unwatched;
use countersign_sandbox::{Backend, Job, Spec};
use countersign_sandbox_wasm::{CacheOptions, Options, WasmBackend};

const NOTHING: &str = "(module (memory (export \"memory\") 2) (func (export \"_start\")))";
const COMPONENT: &str = "(component
    (core module $m (func (export \"run\") (result i32) i32.const 0))
    (core instance $i (instantiate $m))
    (func $run (result (result)) (canon lift (core func $i \"run\")))
    (instance $run (export \"run\" (func $run)))
    (export \"wasi:cli/run@0.2.0\" (instance $run)))";

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!("{name:<28} median {:>10.1?}  p90 {:>10.1?}  p99 {:>10.1?}", at(50), at(90), at(99));
}

fn measure(name: &str, calls: usize, mut call: impl FnMut()) {
    for _ in 0..calls / 10 {
        call();
    }
    let times = (0..calls).map(|_| {
        let started = Instant::now();
        call();
        started.elapsed()
    });
    report(name, times.collect());
}

fn main() {
    let home = tempfile::tempdir().unwrap();
    let backend = WasmBackend::new(Options::default()).unwrap();
    let mut unwatched = Unwatched;
    measure("no-op in this process", 100_000, || {
        black_box(black_box(vec![0_u8; 16]).len());
    });
    for (name, text, fuel) in [
        ("module", NOTHING, None),
        ("module with fuel", NOTHING, Some(1_000_000)),
        ("component", COMPONENT, None),
    ] {
        let path = home.path().join(format!("{name}.wasm"));
        std::fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
        let mut spec = Spec::of(vec![name.to_owned()]);
        (spec.module, spec.fuel) = (Some(path), fuel);
        let plan = Arc::new(backend.plan(&spec).unwrap());
        let job = |plan: &Arc<_>| Job {
            plan: Arc::clone(plan),
            input: b"{}".to_vec(),
            spill: home.path().to_owned(),
            gateway: None,
            warm: 0,
        };
        measure(name, 5_000, || {
            let ended = backend.run(job(&plan), &mut unwatched).unwrap();
            assert!(ended.ending.is_success());
        });
    }
    compile(home.path());
}

/// A module of many functions, none like another.
fn large() -> String {
    let function = |n: u32| {
        let step = |i: u32| {
            format!(
                "(local.set 0 (i32.mul (i32.xor (local.get 0) (i32.const {})) (i32.const {n})))",
                n * i
            )
        };
        let body: String = (1..40).map(step).collect();
        format!("(func $f{n} (param i32) (result i32) {body} (local.get 0))")
    };
    let functions: String = (1..3_000).map(function).collect();
    format!("(module {functions} (func (export \"_start\")))")
}

fn compile(home: &std::path::Path) {
    let path = home.join("large.wasm");
    std::fs::write(&path, wat::parse_str(large()).unwrap()).unwrap();
    let mut spec = Spec::of(vec!["large".to_owned()]);
    spec.module = Some(path);
    let cache = Some(CacheOptions { directory: home.to_owned(), key: [1; 32] });
    for (name, cache) in
        [("without a cache", None), ("with an empty cache", cache.clone()), ("with a cache", cache)]
    {
        let backend = WasmBackend::new(Options { cache, ..Options::default() }).unwrap();
        let started = Instant::now();
        backend.plan(&spec).unwrap();
        println!("compile 3,000 functions {name}: {:.0?}", started.elapsed());
    }
}
