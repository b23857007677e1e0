//! Clients that others wrote, against the HTTP host as a process of its own: the published Python
//! client of the protocol with all it can do, and requests made up from our OpenAPI document.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;
mod projects;
mod serving;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Bench;
use projects::Project;
use serde_json::{Value, json};
use serving::{Client, is_over, key, node, serve, workflow};

/// Every scope of the protocol that a machine may have.
const EVERYTHING: &str = "manifest:read,runs:create,runs:read,runs:cancel,artifacts:read,\
     webhooks:manage,approvals:respond,audit:read,workspace:read,workspace:write";

/// Set by `scripts/test` where the clients could be installed: then nothing is skipped.
const DEMANDED: &str = "COUNTERSIGN_REQUIRE_CLIENTS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn script(name: &str) -> PathBuf {
    root().join("crates/cli/tests/clients").join(name)
}

/// Where a client is installed, now if it was not before. Nothing where that cannot be done.
fn installed(name: &str) -> Option<String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut install = Command::new(root().join("scripts/clients"));
    let done = install.arg(name).env("CARGO_TARGET_DIR", target).output();
    let why = match done {
        Ok(done) if done.status.success() => {
            return Some(String::from_utf8(done.stdout).unwrap().trim().to_owned());
        }
        Ok(done) => String::from_utf8_lossy(&done.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os(DEMANDED).is_none(), "{name} cannot be installed: {why}");
    println!("skipped: {name} cannot be installed: {why}");
    None
}

/// Runs Python with packages, in a folder that may be littered; panics with everything it said
/// unless it succeeds.
fn python(bench: &Bench, packages: &str, args: &[&str], told: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::var_os("PYTHON").unwrap_or("python3".into()));
    command.args(args).env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    for name in ["http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    let done = command.envs(told.iter().copied()).current_dir(bench.ws()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    said
}

fn edge(from: &str, to: &str) -> Value {
    json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
}

/// A home with workflows with everything that clients meet.
fn bench(more_config: &str) -> Bench {
    let Project { bench, path, .. } = Project::new(&[("app.txt", "old\n")]);
    // Who answers gates is a human, and so is who begins the runs.
    let scope = format!("{}/**", path.display());
    let grant = ["grant", "issue", "--to", "human:h", "--capability", "filesystem.read"];
    bench.run(&[&grant[..], &["--scope", &scope]].concat()).ok();
    fs::write(bench.home().join("countersign.toml"), more_config).unwrap();
    let plain = |id: &str| node(id, "core.noop", &json!({}));
    workflow(&bench, "plain", &[plain("a")], &[]);
    let chain = [plain("a"), plain("b"), plain("c")];
    workflow(&bench, "chain", &chain, &[edge("a", "b"), edge("b", "c")]);
    workflow(&bench, "slow", &[node("a", "core.delay", &json!({"ms": 3_600_000}))], &[]);
    let gate = json!({"title": "go on?", "actions": ["accept", "reject"]});
    workflow(&bench, "asks", &[node("gate", "core.approvalGate", &gate)], &[]);
    let quiz = json!({"questions": [{"id": "q1", "question": "which?"}]});
    workflow(&bench, "quiz", &[node("ask", "core.clarificationGate", &quiz)], &[]);
    let child = json!({"workflowId": "chain", "waitForCompletion": true});
    workflow(&bench, "parent", &[node("call", "core.subWorkflow", &child)], &[]);
    let report = node("report", "core.tool", &json!({"tool": "action.generate-diff-report"}));
    workflow(&bench, "differs", &[report], &[]);
    workflow(&bench, "fails", &[node("a", "core.fail", &json!({"code": "broken"}))], &[]);
    bench
}

/// Mock agents that emit every event of agents there is.
fn agents(bench: &Bench) {
    let agent = |config: &Value| {
        let mut agent = node("agent", "core.conformance.mock-agent", config);
        agent["agent"] = json!({"agentId": "sample.thinker", "modelClass": "reasoning"});
        agent
    };
    let called = json!({"toolId": "sample:echo", "arguments": {"x": 1}, "result": {"x": 1},
        "durationMs": 1});
    let thinks = json!({"mockReasoning": {"summary": "so be it", "tokenCount": 3},
        "mockToolCalls": [called],
        "mockHandoff": {"toAgentId": "sample.other", "reason": "done here"},
        "mockDecision": {"decision": {"next": "done"}, "confidence": 1}});
    workflow(bench, "conformance-thinks", &[agent(&thinks)], &[]);
    let aloud = json!({"mockReasoning": {"summary": "aloud", "tokenCount": 3,
        "streamChunks": ["first ", "then"]}});
    workflow(bench, "conformance-thinks-aloud", &[agent(&aloud)], &[]);
    let says = json!({"promptId": "sample", "expectsStreaming": true});
    workflow(bench, "conformance-says", &[node("ai", "core.ai.callPrompt", &says)], &[]);
}

/// A run that has left an artifact, and its artifact: `run/artifact`.
fn left(client: &Client<'_>) -> String {
    let run = client.start("differs", &json!({"workspace": "app"}));
    client.until(&run, is_over);
    let events = client.events(&run);
    let made = events.iter().find(|event| event["payload"]["name"] == "diff_report").unwrap();
    format!("{run}/{}", made["payload"]["artifactId"].as_str().unwrap())
}

/// All of `openwop-client`; what was left out fails in the script.
#[test]
fn the_published_client_works_with_all_it_can_do() {
    let Some(packages) = installed("sdk") else { return };
    let bench = bench("[serve]\nwebhook_allow_private = true\n");
    agents(&bench);
    let key = key(&bench, "human:h", "one", EVERYTHING);
    let host = serve(&bench, &["--conformance"]);
    let url = format!("http://127.0.0.1:{}", host.port);
    let said = python(&bench, &packages, &[script("sdk.py").to_str().unwrap(), &url, &key], &[]);
    println!("{said}");
    assert!(said.contains("methods and functions of openwop-client"), "{said}");
    drop(host);
    bench.verify();
}

/// Requests made up from our OpenAPI document, right and wrong ones: no server error, and no answer
/// that the document does not tell. A fixed seed and number of examples make a failure come again;
/// `COUNTERSIGN_REQUESTS_SEED` and `COUNTERSIGN_REQUESTS_EXAMPLES` make other and longer tries.
#[test]
fn whatever_is_asked_the_answer_is_as_documented() {
    let Some(packages) = installed("schemathesis") else { return };
    // Requests without a key are part of it, and many.
    let bench = bench("[serve]\nrequests_per_second_of_address = 0\n");
    let key = key(&bench, "human:h", "one", EVERYTHING);
    let host = serve(&bench, &[]);
    let url = format!("http://127.0.0.1:{}", host.port);
    let left = left(&Client { port: host.port, key: &key });
    let from = |name: &str, usual: &str| std::env::var(name).unwrap_or(usual.to_owned());
    let seed = from("COUNTERSIGN_REQUESTS_SEED", "1");
    let examples = from("COUNTERSIGN_REQUESTS_EXAMPLES", "30");
    let config = script("schemathesis.toml");
    let (document, bearer) =
        (format!("{url}/v1/openapi.json"), format!("Authorization: Bearer {key}"));
    let hooks = root().join("crates/cli/tests/clients");
    let path = format!("{packages}:{}", hooks.display());
    let args = [
        ["-m", "schemathesis.cli", "--config-file", config.to_str().unwrap()].as_slice(),
        &["run", &document, "-H", &bearer, "--no-color"],
        &["--request-timeout", "10", "--generation-database", "none"],
        &["--seed", &seed, "--max-examples", &examples],
    ]
    .concat();
    let told = [
        ("SCHEMATHESIS_HOOKS", "requests_hooks"),
        ("COUNTERSIGN_CLIENT_URL", &url),
        ("COUNTERSIGN_CLIENT_KEY", &key),
        ("COUNTERSIGN_CLIENT_ARTIFACT", &left),
    ];
    let said = python(&bench, &path, &args, &told);
    println!("{said}");
    assert!(said.contains("succeeded: ") && !said.contains("never succeeded"), "{said}");
    drop(host);
    bench.verify();
}
