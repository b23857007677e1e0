//! The published schemas, as judges of every event.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::{Retrieve, Uri, Validator};
use serde_json::{Value, json};

use super::shared;

const BASE: &str = "https://openwop.dev/spec/v1/";

#[derive(Clone)]
struct Published(BTreeMap<String, Value>);

impl Retrieve for Published {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let name = uri.as_str().rsplit('/').next().unwrap_or_default();
        self.0.get(name).cloned().ok_or_else(|| format!("no schema {name}").into())
    }
}

static PUBLISHED: LazyLock<Option<Published>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(shared()?.join("schemas")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            all.insert(name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap());
        }
    }
    Some(Published(all))
});

fn compile(published: &Published, reference: &str) -> Validator {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": format!("{BASE}{reference}")});
    jsonschema::options()
        .with_retriever(published.clone())
        .should_validate_formats(true)
        .build(&schema)
        .unwrap()
}

static ENVELOPE: LazyLock<Option<Validator>> =
    LazyLock::new(|| Some(compile(PUBLISHED.as_ref()?, "run-event.schema.json")));

/// Made when an event of the type is first seen: all of them take a while.
static PAYLOADS: LazyLock<Mutex<BTreeMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

fn payload(published: &Published, kind: &str) -> Arc<Validator> {
    let index = &published.0["run-event-payloads.schema.json"]["$defs"]["_typeIndex"]["properties"];
    let make = || {
        let place = index[kind]["$ref"].as_str().unwrap_or_else(|| panic!("no schema for {kind}"));
        let reference = match place.strip_prefix(BASE) {
            Some(other) => other.to_owned(),
            None => format!("run-event-payloads.schema.json{place}"),
        };
        Arc::new(compile(published, &reference))
    };
    PAYLOADS.lock().unwrap().entry(kind.to_owned()).or_insert_with(make).clone()
}

/// Stops the test when an event is not what the contract says.
pub(crate) fn check(event: &Value) {
    let (Some(envelope), Some(published)) = (ENVELOPE.as_ref(), PUBLISHED.as_ref()) else { return };
    told(envelope, event, event);
    let kind = event["type"].as_str().unwrap();
    told(&payload(published, kind), &event["payload"], event);
}

fn told(judge: &Validator, value: &Value, event: &Value) {
    let errors: Vec<String> =
        judge.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{event:#}");
}

/// What another schema says to a value; `None` where it is not on this machine.
pub(crate) fn judge(reference: &str) -> Option<Validator> {
    Some(compile(PUBLISHED.as_ref()?, reference))
}
