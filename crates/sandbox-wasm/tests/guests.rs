//! What guests are given: streams, arguments, environment, and nothing else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(dead_code, unreachable_pub, reason = "every test uses a part of the common helpers")]

mod common;

use common::{Bench, module, say, start};
use countersign_sandbox::{Backend, Ending, Stream};

#[test]
fn a_module_writes_to_its_streams() {
    let bench = Bench::new();
    let ended = bench.run(&bench.spec(say(1, "hello\n")));
    assert_eq!(ended.ending, Ending::Exited { code: 0 });
    assert_eq!((ended.stdout.inline.as_slice(), ended.stdout.total), (&b"hello\n"[..], 6));
    assert!(ended.stderr.inline.is_empty());
    assert!(ended.staged.out.is_none());
    let ended = bench.run(&bench.spec(say(2, "oh\n")));
    assert_eq!(ended.stderr.inline, b"oh\n");
    assert!(ended.usage.peak_memory >= 2 << 16);
}

/// Copies its input to its output, through a buffer of 64 KiB.
fn echo() -> String {
    module(
        "(func (export \"_start\")
           (block $end (loop $more
             (i32.store (i32.const 0) (i32.const 1024)) (i32.store (i32.const 4) (i32.const 65536))
             (br_if $end (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
             (br_if $end (i32.eqz (i32.load (i32.const 8))))
             (i32.store (i32.const 4) (i32.load (i32.const 8)))
             (br_if $end (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)))
             (br $more))))",
    )
}

#[test]
fn input_goes_in_and_comes_out_in_full() {
    let bench = Bench::new();
    let mut spec = bench.spec(echo());
    spec.limits.inline_output = 1000;
    let input: Vec<u8> = (0..300_000_u32).map(|i| i as u8).collect();
    let mut ended = bench.run_with(&spec, &input);
    assert_eq!(ended.ending, Ending::Exited { code: 0 });
    assert_eq!(ended.stdout.inline.len(), 1000);
    assert!(ended.stdout.read_all().unwrap() == input);
}

#[test]
fn the_observer_sees_output() {
    struct Collect(Vec<u8>);
    impl countersign_sandbox::Observer for Collect {
        fn output(&mut self, stream: Stream, bytes: &[u8]) {
            assert_eq!(stream, Stream::Stdout);
            self.0.extend_from_slice(bytes);
        }
    }
    let bench = Bench::new();
    let mut collected = Collect(Vec::new());
    bench.run_watched(&bench.spec(echo()), b"abc", &mut collected);
    assert_eq!(collected.0, b"abc");
}

/// Writes what `sizes` and `get` tell: strings, each with a NUL at its end.
fn tell(sizes: &str, get: &str) -> String {
    start(&format!(
        "(drop (call ${sizes} (i32.const 0) (i32.const 4)))
         (drop (call ${get} (i32.const 1024) (i32.const 32768)))
         (i32.store (i32.const 8) (i32.const 32768)) (i32.store (i32.const 12) (i32.load (i32.const 4)))
         (drop (call $fd_write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 16)))"
    ))
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn the_environment_is_the_plans_and_not_the_hosts() {
    let bench = Bench::new();
    let mut spec = bench.spec(tell("environ_sizes_get", "environ_get"));
    spec.environment.insert("GREETING".to_owned(), "hi".to_owned());
    let plan = bench.backend.plan(&spec).unwrap();
    let expected: Vec<_> = plan.environment.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(lines(&bench.run(&spec).stdout.inline), expected);
    assert!(expected.contains(&"GREETING=hi".to_owned()));
    // Cargo sets this one for the host of this test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!expected.iter().any(|line| line.starts_with("CARGO")));
}

#[test]
fn arguments_are_the_command() {
    let bench = Bench::new();
    let mut spec = bench.spec(tell("args_sizes_get", "args_get"));
    spec.command = vec!["tool".to_owned(), "--x".to_owned(), "a b".to_owned()];
    assert_eq!(lines(&bench.run(&spec).stdout.inline), ["tool", "--x", "a b"]);
}

#[test]
fn exit_codes_and_traps_are_endings() {
    let bench = Bench::new();
    for code in [0, 1, 42, 125] {
        let spec = bench.spec(start(&format!("(call $proc_exit (i32.const {code}))")));
        assert_eq!(bench.code(&spec), code);
    }
    let ended = bench.run(&bench.spec(start("unreachable")));
    assert_eq!(ended.ending, Ending::Exited { code: 134 });
    let said = String::from_utf8(ended.stderr.inline).unwrap();
    assert!(said.contains("wasm `unreachable` instruction executed"), "{said}");
    let deep = module("(func $deep (call $deep)) (func (export \"_start\") (call $deep))");
    let ended = bench.run(&bench.spec(deep));
    assert_eq!(ended.ending, Ending::Exited { code: 134 });
    assert!(String::from_utf8(ended.stderr.inline).unwrap().contains("call stack exhausted"));
}

#[test]
fn a_plan_says_what_happens() {
    let bench = Bench::new();
    let mut spec = bench.spec(say(1, "x"));
    spec.fuel = Some(1_000_000);
    spec.tool = Some(bench.directory("tool"));
    let plan = bench.backend.plan(&spec).unwrap();
    let text = plan.to_string();
    for part in ["compile ", "limit fuel to 1000000", "as /tool, read-only", "Network: none."] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(plan.enforcement["memory"].contains("pool of 8"));
    let stored = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<countersign_sandbox::Plan>(&stored).unwrap(), plan);
}

#[test]
fn without_a_pool_memories_are_made_for_each_call() {
    let bench = Bench::with(countersign_sandbox_wasm::Options { slots: 1 << 20, cache: None });
    let spec = bench.spec(say(1, "hello\n"));
    let plan = bench.backend.plan(&spec).unwrap();
    assert!(plan.enforcement["memory"].contains("made for each call"), "{:?}", plan.enforcement);
    assert_eq!(bench.run(&spec).stdout.inline, b"hello\n");
}

#[test]
fn what_a_guest_cannot_have_is_refused() {
    let bench = Bench::new();
    let spec = bench.spec(say(1, "x"));
    let refused = |change: &dyn Fn(&mut countersign_sandbox::Spec)| {
        let mut spec = spec.clone();
        change(&mut spec);
        bench.backend.plan(&spec).unwrap_err().code
    };
    assert_eq!(refused(&|spec| spec.hosts = vec!["example.org".to_owned()]), "NETWORK_UNSUPPORTED");
    assert_eq!(refused(&|spec| spec.isolation = 1), "ISOLATION_UNSUPPORTED");
    assert_eq!(refused(&|spec| spec.module = None), "MODULE_MISSING");
    assert_eq!(refused(&|spec| spec.module = Some("/nowhere".into())), "MODULE_UNREADABLE");
}
