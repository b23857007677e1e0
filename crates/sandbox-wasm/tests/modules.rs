//! Modules and components: recognised, compiled once, kept on disk, and refused when malformed.

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
use std::path::PathBuf;

use common::{Bench, assemble, limit, say, start};
use countersign_model::ErrorClass;
use countersign_sandbox::{Backend, Ending, LimitKind};
use countersign_sandbox_wasm::{CacheOptions, Options};

/// A component that exports `wasi:cli/run` and does `code` in it.
fn component(code: &str) -> String {
    format!(
        "(component
           (core module $m (memory 1) (func (export \"run\") (result i32) {code}))
           (core instance $i (instantiate $m))
           (func $run (result (result)) (canon lift (core func $i \"run\")))
           (instance $run (export \"run\" (func $run)))
           (export \"wasi:cli/run@0.2.0\" (instance $run)))"
    )
}

/// A component that writes to the standard output it imports.
const HELLO: &str = r#"(component
  (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $err))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "output-stream" (type $os (sub resource)))
    (alias outer 1 $err (type $e))
    (type $se (variant (case "last-operation-failed" (own $e)) (case "closed")))
    (export "stream-error" (type $se2 (eq $se)))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $os)) (param "contents" (list u8)) (result (result (error $se2)))))))
  (alias export $streams "output-stream" (type $os))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $os (type $o))
    (export "output-stream" (type $o2 (eq $o)))
    (export "get-stdout" (func (result (own $o2))))))
  (core module $libc (memory (export "memory") 1) (data (i32.const 0) "hello from a component\n"))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (core func $get (canon lower (func $stdout "get-stdout")))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
    (memory $memory)))
  (core module $main
    (import "host" "get" (func $get (result i32)))
    (import "host" "write" (func $write (param i32 i32 i32 i32)))
    (import "libc" "memory" (memory 1))
    (func (export "run") (result i32)
      (call $write (call $get) (i32.const 0) (i32.const 23) (i32.const 64))
      (i32.load8_u (i32.const 64))))
  (core instance $main (instantiate $main
    (with "host" (instance (export "get" (func $get)) (export "write" (func $write))))
    (with "libc" (instance $libc))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (instance $run (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $run)))"#;

#[test]
fn components_run_as_commands() {
    let bench = Bench::new();
    assert_eq!(bench.code(&bench.spec(component("i32.const 0"))), 0);
    assert_eq!(bench.code(&bench.spec(component("i32.const 1"))), 1);
    let ended = bench.run(&bench.spec(HELLO));
    assert_eq!(ended.ending, Ending::Exited { code: 0 });
    assert_eq!(ended.stdout.inline, b"hello from a component\n");
    let ended = bench.run(&bench.spec(component("unreachable")));
    assert_eq!(ended.ending, Ending::Exited { code: 134 });
}

#[test]
fn components_have_the_same_limits() {
    let bench = Bench::new();
    let mut spec = bench.spec(component("(loop $again (br $again)) i32.const 0"));
    spec.limits.wall_ms = 100;
    assert_eq!(bench.run(&spec).ending, limit(LimitKind::WallTime));
    spec.fuel = Some(1_000);
    assert_eq!(bench.run(&spec).ending, limit(LimitKind::CpuTime));
    let mut spec = bench.spec(component("(drop (memory.grow (i32.const 100))) i32.const 0"));
    spec.limits.memory = 1 << 20;
    assert_eq!(bench.run(&spec).ending, limit(LimitKind::Memory));
    let mut spec = bench.spec(HELLO);
    spec.limits.output = 10;
    let ended = bench.run(&spec);
    assert_eq!((ended.ending, ended.stdout.total), (limit(LimitKind::Output), 10));
}

fn refused(bench: &Bench, module: &[u8]) -> String {
    let failure = bench.backend.plan(&bench.spec_of(module)).unwrap_err();
    assert_eq!((failure.class, &*failure.code), (ErrorClass::ValidationError, "MODULE_INVALID"));
    failure.message
}

#[test]
fn what_cannot_run_is_refused_with_the_reason() {
    let bench = Bench::new();
    for (module, reason) in [
        ("(module)", "_start"),
        ("(module (func (export \"_start\") (param i32)))", "_start"),
        ("(module (import \"env\" \"x\" (func)) (func (export \"_start\")))", "env"),
        ("(module (func (export \"_start\") i32.add))", "type mismatch"),
        ("(module (memory i64 1) (func (export \"_start\")))", "memory64"),
        ("(module (memory 1 1 shared) (func (export \"_start\")))", "threads"),
        ("(component)", "wasi:cli/run"),
    ] {
        let message = refused(&bench, &assemble(module));
        assert!(message.contains(reason), "{module}: {message}");
    }
    let text = say(1, "text is assembled by whoever writes it");
    for bytes in [b"", b"#!/bin/sh".as_slice(), text.as_bytes(), &[0xff; 100]] {
        let message = refused(&bench, bytes);
        assert!(message.contains("neither a WebAssembly module nor a component"), "{message}");
    }
}

/// Where the sections of a binary end: each is a number, a length and that many bytes.
fn section_ends(binary: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (8, vec![8]);
    while at < binary.len() {
        at += 1;
        let (mut length, mut shift) = (0, 0);
        loop {
            length |= usize::from(binary[at] & 0x7f) << shift;
            (at, shift) = (at + 1, shift + 7);
            if binary[at - 1] & 0x80 == 0 {
                break;
            }
        }
        at += length;
        ends.push(at);
    }
    ends
}

#[test]
fn every_truncation_and_many_changes_are_survived() {
    let bench = Bench::new();
    for module in [assemble(say(1, "hi")), assemble(HELLO)] {
        bench.backend.plan(&bench.spec_of(&module)).unwrap();
        let ends = section_ends(&module);
        for at in 0..module.len() {
            // A whole section less may still be a module: names and data can be left out.
            match bench.backend.plan(&bench.spec_of(&module[..at])) {
                Ok(_) => assert!(ends.contains(&at), "cut at {at}"),
                Err(failure) => assert_eq!(failure.code, "MODULE_INVALID", "cut at {at}"),
            }
        }
        for at in (0..module.len()).step_by(3) {
            let mut changed = module.clone();
            changed[at] ^= 0x15;
            if let Err(failure) = bench.backend.plan(&bench.spec_of(&changed)) {
                assert_eq!(failure.code, "MODULE_INVALID", "byte {at}");
            }
        }
    }
}

#[test]
fn a_module_that_changed_after_the_plan_does_not_run() {
    let bench = Bench::new();
    let spec = bench.spec(say(1, "one"));
    let job = bench.job(&spec, b"").unwrap();
    fs::write(spec.module.as_ref().unwrap(), assemble(say(1, "two"))).unwrap();
    // What was compiled for the planned digest is still at hand here, but not elsewhere.
    let mut unwatched = countersign_sandbox::backend::Unwatched;
    let other = Bench::new();
    let failure = other.backend.run(job.clone(), &mut unwatched).unwrap_err();
    assert_eq!(failure.code, "MODULE_CHANGED");
    assert_eq!(bench.backend.run(job, &mut unwatched).unwrap().stdout.inline, b"one");
    assert_eq!(bench.run(&spec).stdout.inline, b"two");
}

fn with_cache(directory: &std::path::Path, key: u8) -> Bench {
    let cache = Some(CacheOptions { directory: directory.to_owned(), key: [key; 32] });
    Bench::with(Options { slots: 8, cache })
}

fn only_file(directory: &std::path::Path) -> PathBuf {
    let mut entries = fs::read_dir(directory).unwrap();
    let file = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none());
    file
}

/// Runs a module in a new backend; says how many functions came from the cache.
fn hits(directory: &std::path::Path, key: u8, module: &str) -> u64 {
    let bench = with_cache(directory, key);
    assert_eq!(bench.run(&bench.spec(module)).stdout.inline, b"cached");
    bench.backend.cache_hits()
}

#[test]
fn the_disk_cache_is_used_only_when_it_is_genuine() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let module = say(1, "cached");
    assert_eq!(hits(directory, 1, &module), 0);
    let genuine = fs::read(only_file(directory)).unwrap();
    assert!(hits(directory, 1, &module) > 0);
    // Foreign: made with another key.
    assert_eq!(hits(directory, 2, &module), 0);
    assert_ne!(fs::read(only_file(directory)).unwrap(), genuine);
    // Tampered, at the beginning, in the middle and at the end, and cut.
    for at in [0, 30, genuine.len() / 2, genuine.len() - 1] {
        let mut tampered = genuine.clone();
        tampered[at] ^= 1;
        fs::write(only_file(directory), tampered).unwrap();
        assert_eq!(hits(directory, 1, &module), 0, "byte {at}");
        fs::write(only_file(directory), &genuine[..at]).unwrap();
        assert_eq!(hits(directory, 1, &module), 0, "cut at {at}");
    }
    assert!(hits(directory, 1, &module) > 0);
    // The file of one module does not serve another.
    let file = only_file(directory);
    let other = assemble(start("(call $proc_exit (i32.const 7))"));
    let name = format!("{}.functions", countersign_model::Digest::of(&other));
    fs::rename(file, directory.join(name)).unwrap();
    let bench = with_cache(directory, 1);
    assert_eq!(bench.code(&bench.spec_of(&other)), 7);
    assert_eq!(bench.backend.cache_hits(), 0);
}
