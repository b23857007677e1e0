//! WebAssembly as tools, end to end: the same doors, limits and endings as processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;

use common::{Bench, tree};
use serde_json::{Value, json};

const IMPORTS: &str = r#"
 (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
 (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
 (import "wasi_snapshot_preview1" "path_open"
   (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
 (import "wasi_snapshot_preview1" "path_unlink_file" (func $unlink (param i32 i32 i32) (result i32)))
 (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
 (memory (export "memory") 1)"#;

fn module(body: &str) -> String {
    format!("(module {IMPORTS} {body})")
}

/// Copies standard input, up to a page, to standard output.
fn echo() -> String {
    module(
        r#"(func (export "_start")
          (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 60000))
          (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
          (i32.store (i32.const 4) (i32.load (i32.const 8)))
          (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))"#,
    )
}

/// Says `{}`, writes `hello` to a new file of each of two directories, and removes `gone`.
fn writer(out: u8, workspace: u8, ending: &str) -> String {
    let make = |directory: u8| {
        format!(
            "(call $must (call $open (i32.const {directory}) (i32.const 1) (i32.const 64) (i32.const 4)
               (i32.const 1) (i64.const 0x42) (i64.const 0) (i32.const 0) (i32.const 40)))
             (call $must (call $write (i32.load (i32.const 40)) (i32.const 0) (i32.const 1) (i32.const 48)))"
        )
    };
    module(&format!(
        "(data (i32.const 0) \"\\20\\00\\00\\00\\05\\00\\00\\00\") (data (i32.const 32) \"hello\")
         (data (i32.const 16) \"\\50\\00\\00\\00\\02\\00\\00\\00\") (data (i32.const 80) \"{{}}\")
         (data (i32.const 64) \"made\") (data (i32.const 70) \"gone\")
         (func $must (param i32) (if (local.get 0) (then (call $exit (local.get 0)))))
         (func (export \"_start\") {}{}
           (call $must (call $unlink (i32.const {workspace}) (i32.const 70) (i32.const 4)))
           (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 48))) {ending})",
        make(out),
        make(workspace)
    ))
}

fn writable(declaration: &mut Value) {
    let all = ["filesystem.read", "filesystem.write", "filesystem.delete"];
    declaration["requiredCapabilities"] = json!(all);
    declaration["runtime"]["workspace"] = json!("write");
}

#[test]
fn a_module_reads_its_input_and_its_output_is_the_answer() {
    let bench = Bench::new();
    bench.declare_module("wasm.echo", &echo(), |declaration| {
        declaration["deterministic"] = json!(true);
        declaration["runtime"]["fuel"] = json!(1_000_000);
        declaration["runtime"]["arguments"] = json!(["--quick"]);
    });
    let call = bench.call("wasm.echo", &json!({"q": "é"})).ok().json();
    assert_eq!((&call["state"], &call["output"]), (&json!("COMPLETED"), &json!({"q": "é"})));
    let told = bench.told();
    for words in
        ["isolation 2", "plan ", "code       compiled", "network    no sockets", "memory     "]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
    let stored = bench.json(&["execution", "plan", "last"]).ok().json();
    let explained = bench.json(&["sandbox", "explain", "wasm.echo"]).ok().json();
    assert_eq!(stored["plan"], explained);
    let text = bench.run(&["sandbox", "explain", "wasm.echo"]).ok().stdout;
    for words in ["For each call, in a new store", "limit fuel to 1000000", "run main.wasm --quick"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let shown = bench.run(&["tool", "show", "wasm.echo"]).ok().stdout;
    for words in
        ["WebAssembly, in the host's process", "main.wasm", "1000000 instructions", "--quick"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    // The second process takes what the first one compiled; a cache that was changed is not used.
    let cache = bench.home().join("state/cache/wasm");
    let files: Vec<_> = fs::read_dir(&cache).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        fs::write(file, "forged").unwrap();
    }
    bench.call("wasm.echo", &json!({"again": true})).ok();
}

#[test]
fn a_workspace_is_staged_and_published_or_left() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write,filesystem.delete");
    for (ending, code) in
        [("(call $exit (i32.const 3))", "TOOL_FAILED"), ("unreachable", "TOOL_FAILED")]
    {
        bench.write("gone", "x");
        bench.declare_module("wasm.writes", &writer(4, 5, ending), writable);
        let error = bench.call("wasm.writes", &json!({})).fails(1, code);
        if ending == "unreachable" {
            assert!(
                error["details"]["stderr"].as_str().unwrap().contains("unreachable"),
                "{error}"
            );
        }
        assert_eq!(tree(&bench.ws()), [("gone".to_owned(), "x".to_owned())].into());
        let back = bench.fact("rolledBack");
        assert_eq!(back["before"], back["after"]);
    }
    bench.declare_module("wasm.writes", &writer(4, 5, ""), writable);
    let call = bench.call("wasm.writes", &json!({})).ok().json();
    assert_eq!(call["artifacts"][0]["name"], "made");
    assert_eq!(tree(&bench.ws()), [("made".to_owned(), "hello".to_owned())].into());
    let told = bench.told();
    for words in ["created made (5 bytes)", "deleted gone", "left /out/made (5 bytes)"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // Another time there is nothing to remove: the guest fails with what the host told it.
    bench.call("wasm.writes", &json!({})).fails(1, "TOOL_FAILED");
}

#[test]
fn every_limit_ends_a_guest_under_its_own_name() {
    let bench = Bench::new();
    let spin = module(r#"(func (export "_start") (loop $l (br $l)))"#);
    let grow =
        module(r#"(func (export "_start") (loop $l (drop (memory.grow (i32.const 64))) (br $l)))"#);
    let flood = module(
        r#"(data (i32.const 0) "\10\00\00\00\00\10\00\00")
           (func (export "_start") (loop $l
             (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))) (br $l)))"#,
    );
    let cases: [(&str, &str, Value, Value); 5] = [
        (&spin, "TIME_LIMIT", json!({"maxExecutionTime": 200}), json!({})),
        (&spin, "CPU_LIMIT", json!({"maxCpuTime": 100}), json!({})),
        (&spin, "CPU_LIMIT", json!({}), json!({"fuel": 100_000})),
        (&grow, "MEMORY_LIMIT", json!({"maxMemory": 32 << 20}), json!({})),
        (&flood, "OUTPUT_LIMIT", json!({"maxOutput": 1000}), json!({})),
    ];
    for (text, code, limits, runtime) in cases {
        bench.declare_module("wasm.greedy", text, |declaration| {
            let extend = |value: &mut Value, more: &Value| {
                value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            };
            extend(&mut declaration["resourceLimits"], &limits);
            extend(&mut declaration["runtime"], &runtime);
        });
        let call = bench.call("wasm.greedy", &json!({}));
        call.fails(5, code);
        assert_eq!(call.json()["state"], "ROLLED_BACK");
    }
    assert_eq!(bench.stats()["open"], 0);
}

#[test]
fn what_is_no_module_is_refused_before_it_runs() {
    let bench = Bench::new();
    bench.declare_module("wasm.bad", "(module (func (export \"_start\") i32.add))", |_| {});
    let error = bench.call("wasm.bad", &json!({})).fails(2, "MODULE_INVALID");
    assert!(error["message"].as_str().is_some_and(|text| !text.contains('\u{1b}')), "{error}");
    bench.json(&["sandbox", "explain", "wasm.bad"]).fails(2, "MODULE_INVALID");
    bench.declare_binary("wasm.bad", echo().as_bytes(), |_| {});
    let error = bench.call("wasm.bad", &json!({})).fails(2, "MODULE_INVALID");
    assert!(error["message"].as_str().unwrap().contains("as a binary"), "text: {error}");
    bench.declare_module(
        "wasm.bad",
        "(module (import \"env\" \"f\" (func)) (func (export \"_start\")))",
        |_| {},
    );
    let refused = bench.call("wasm.bad", &json!({}));
    assert_eq!(refused.code, 2, "{refused:#?}");
    bench.declare_module("wasm.silent", &module("(func (export \"_start\"))"), |_| {});
    bench.call("wasm.silent", &json!({})).fails(1, "OUTPUT_INVALID");
}
