//! What calls of runs leave, fetched over HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;
mod judge;
mod projects;
mod serving;

use base64::Engine as _;
use countersign_model::Digest;
use judge::fits;
use judge::schemas::check;
use projects::Project;
use serde_json::{Value, json};
use serving::{Client, is_over, key, node, serve, workflow};

const SCOPES: &str = "runs:create,runs:read,artifacts:read";

/// A run that leaves a report of what differs, and the events that say so.
fn left(client: &Client<'_>) -> (String, Vec<Value>) {
    let run = client.start("differs", &json!({"workspace": "app"}));
    let shown = client.until(&run, is_over);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    let events = client.events(&run);
    events.iter().for_each(check);
    let is_made = |event: &&Value| event["type"] == "artifact.created";
    let made: Vec<_> = events.iter().filter(is_made).cloned().collect();
    let last = events.iter().position(|event| event["type"] == "node.completed").unwrap();
    assert!(made.iter().all(|event| event["sequence"].as_u64().unwrap() < last as u64));
    (run, made)
}

fn project() -> Project {
    let project = Project::new(&[("app.txt", "old\n")]);
    let bench = &project.bench;
    let report = node("report", "core.tool", &json!({"tool": "action.generate-diff-report"}));
    workflow(bench, "differs", &[report], &[]);
    project
}

#[test]
fn artifacts_of_a_run_are_told_and_fetched() {
    let project = project();
    let bench = &project.bench;
    let key = key(bench, "agent:a", "one", SCOPES);
    let host = serve(bench, &[]);
    let client = Client { port: host.port, key: &key };
    let (run, made) = left(&client);
    let names: Vec<_> = made.iter().map(|event| &event["payload"]["name"]).collect();
    assert!(names.contains(&&json!("diff_report")), "{made:#?}");
    for event in &made {
        let (id, payload) = (event["payload"]["artifactId"].as_str().unwrap(), &event["payload"]);
        let path = format!("/v1/runs/{run}/artifacts/{id}");
        let told = client.get(&path).is(200);
        assert_eq!((&told["artifactId"], &told["name"]), (&json!(id), &payload["name"]));
        let content = match told["encoding"].as_str().unwrap() {
            "utf8" => told["content"].as_str().unwrap().as_bytes().to_vec(),
            _ => {
                let text = told["content"].as_str().unwrap();
                base64::engine::general_purpose::STANDARD.decode(text).unwrap()
            }
        };
        assert_eq!(told["digest"], format!("sha256:{}", Digest::of(&content)));
        assert_eq!(told["size"], content.len());
        let bytes = client.try_send("GET", &path, &[("Accept", "application/octet-stream")], None);
        let bytes = bytes.unwrap();
        assert!(bytes.head.contains("application/octet-stream"), "{}", bytes.head);
        assert_eq!((bytes.status, bytes.text.as_bytes()), (200, content.as_slice()));
    }
    // A replay was told the same, and a run that made nothing has none of it.
    let fork = client.post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "replay"})).is(201);
    let fork = fork["runId"].as_str().unwrap();
    client.until(fork, is_over);
    let id = made[0]["payload"]["artifactId"].as_str().unwrap();
    assert_eq!(client.get(&format!("/v1/runs/{fork}/artifacts/{id}")).is(200)["runId"], fork);
    drop(host);
    bench.verify();
}

#[test]
fn whoever_may_not_have_it_learns_nothing() {
    let project = project();
    let bench = &project.bench;
    let (one, two) = (key(bench, "agent:a", "one", SCOPES), key(bench, "agent:b", "two", SCOPES));
    let reader = key(bench, "agent:c", "one", "runs:read");
    workflow(bench, "plain", &[node("a", "core.noop", &json!({}))], &[]);
    let host = serve(bench, &[]);
    let client = |key| Client { port: host.port, key };
    let (run, made) = left(&client(&one));
    let id = made[0]["payload"]["artifactId"].as_str().unwrap();
    let path = format!("/v1/runs/{run}/artifacts/{id}");
    // First who asks, then how, then whether it is there.
    let nowhere = "/v1/runs/run-nowhere/artifacts/nothing";
    for path in [path.as_str(), nowhere] {
        for method in ["GET", "POST", "DELETE"] {
            assert_eq!(client("").send(method, path, None).status, 401, "{method}");
        }
        assert_eq!(client(&one).send("POST", path, Some(&json!({}))).status, 405);
        assert_eq!(client(&reader).get(path).status, 403);
    }
    let absent = client(&two).get(nowhere);
    fits("error-envelope.schema.json", &absent.json());
    assert_eq!(absent.status, 404);
    let other = client(&one).start("plain", &json!({}));
    for (key, path) in [
        (&two, path.clone()),
        (&one, format!("/v1/runs/{other}/artifacts/{id}")),
        (&one, format!("/v1/runs/{run}/artifacts/art_00000000000000000000000000000000")),
        (&one, format!("/v1/runs/{run}/artifacts/..%2f..%2fstate")),
        (&one, format!("/v1/runs/..%2f{run}/artifacts/{id}")),
    ] {
        let found = client(key).get(&path);
        assert_eq!((found.status, &found.text), (404, &absent.text), "{path}");
    }
}

#[test]
fn a_damaged_content_is_never_served() {
    let project = project();
    let bench = &project.bench;
    let key = key(bench, "agent:a", "one", SCOPES);
    let host = serve(bench, &[]);
    let client = Client { port: host.port, key: &key };
    let (run, made) = left(&client);
    let id = made[0]["payload"]["artifactId"].as_str().unwrap();
    let path = format!("/v1/runs/{run}/artifacts/{id}");
    let told = client.get(&path).is(200);
    let digest = told["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
    let blob = find(&bench.home().join("state"), &digest).unwrap();
    let mut content = std::fs::read(&blob).unwrap();
    content.push(b'!');
    std::fs::remove_file(&blob).unwrap();
    std::fs::write(&blob, content).unwrap();
    for accept in ["application/json", "application/octet-stream"] {
        let refused = client.try_send("GET", &path, &[("Accept", accept)], None).unwrap();
        assert_eq!(refused.is(500)["error"], "internal_error");
    }
}

/// Contents are named by their digests, whole or cut into directories.
fn find(root: &std::path::Path, digest: &str) -> Option<std::path::PathBuf> {
    std::fs::read_dir(root).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => find(&path, digest),
            false => {
                let name = path.display().to_string().replace('/', "");
                name.ends_with(digest).then_some(path)
            }
        }
    })
}
