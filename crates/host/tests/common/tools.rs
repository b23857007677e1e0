//! Tools that misbehave on purpose, each with its declaration.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use countersign_host::path::RelPath;
use countersign_host::tool::{Footprint, NativeTool, Place, ToolContext};
use countersign_host::{Handlers, builtin};
use countersign_model::{Capability, Failure, Need};
use serde_json::{Value, json};

type Action = Box<dyn FnOnce() + Send>;

/// Something that happens in the world while a call runs.
#[derive(Clone, Default)]
pub struct Hook(Arc<Mutex<Option<Action>>>);

impl Hook {
    pub fn set(&self, action: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(action));
    }

    fn run(&self) {
        let action = self.0.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

pub fn handlers(hook: &Hook) -> Handlers {
    builtin::handlers()
        .with("test.sleep", Sleep)
        .with("test.panic", Panic)
        .with("test.hog", Hog)
        .with("test.bad-output", BadOutput)
        .with("test.flaky", Flaky::default())
        .with("test.undeclared", Undeclared)
        .with("test.many", Many(hook.clone()))
        .with("test.bump", Bump)
}

const FILES: [&str; 3] = ["filesystem.read", "filesystem.write", "filesystem.delete"];
const KEYS: [&str; 3] = ["state.read", "state.write", "state.delete"];

/// File names and texts for a home's `tools/`.
pub fn declarations() -> Vec<(String, String)> {
    let all: Vec<&str> = FILES.into_iter().chain(KEYS).collect();
    let tools = [
        ("test.sleep", "test.sleep", slept(), vec!["state.write"], true),
        ("test.nap", "test.sleep", slept(), vec!["state.write"], false),
        ("test.panic", "test.panic", json!({"early": flag("At once")}), vec![], false),
        ("test.hog", "test.hog", json!({"bytes": whole()}), vec![], true),
        ("test.bad-output", "test.bad-output", place(), all.clone(), false),
        ("test.flaky", "test.flaky", flaky(), vec!["state.write"], true),
        ("test.brittle", "test.flaky", flaky(), vec!["state.write"], false),
        ("test.undeclared", "test.undeclared", json!({"what": text()}), all.clone(), false),
        ("test.many", "test.many", many(), all.clone(), false),
        ("test.bump", "test.bump", place(), all, false),
    ];
    tools
        .into_iter()
        .map(|(id, handler, input, capabilities, idempotent)| {
            let declaration = declare(id, handler, &input, &capabilities, idempotent);
            (format!("{id}.json"), declaration.to_string())
        })
        .collect()
}

fn text() -> Value {
    json!({"type": "string", "description": "A text"})
}

fn whole() -> Value {
    json!({"type": "integer", "description": "A number", "minimum": 0})
}

fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn slept() -> Value {
    json!({"ms": whole(), "key": text(), "stubborn": {"type": "boolean", "description": "Does not listen"}})
}

fn place() -> Value {
    json!({"path": text(), "key": text()})
}

fn flaky() -> Value {
    json!({"fails": whole(), "as": text(), "key": text()})
}

fn many() -> Value {
    let item = |name: &str| {
        json!({
            "type": "object", "description": "One change; without a value, a deletion",
            "properties": {"name": text(), "value": text()},
            "required": ["name"], "additionalProperties": false,
            "$comment": name,
        })
    };
    let list = |name: &str| json!({"type": "array", "description": name, "items": item(name)});
    json!({
        "files": list("files"), "keys": list("keys"),
        "fail": {"type": "boolean", "description": "Fails after all is staged"},
    })
}

pub fn declare(
    id: &str,
    handler: &str,
    properties: &Value,
    capabilities: &[&str],
    idempotent: bool,
) -> Value {
    const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
    json!({
        "id": id, "version": "1.0.0", "name": id, "description": "A tool for tests",
        "inputSchema": {
            "$schema": DIALECT, "type": "object", "properties": properties,
            "required": [], "additionalProperties": false,
        },
        "outputSchema": {
            "$schema": DIALECT, "type": "object",
            "properties": {"done": {"type": "boolean", "description": "It is done"}},
            "required": ["done"], "additionalProperties": false,
        },
        "requiredCapabilities": capabilities,
        "resourceLimits": {
            "maxExecutionTime": 60_000, "maxMemory": 1 << 20, "maxFileSize": 1000,
        },
        "deterministic": false, "idempotent": idempotent,
        "runtime": {"kind": "builtin", "handler": handler},
    })
}

fn done() -> Result<Value, Failure> {
    Ok(json!({"done": true}))
}

fn string(input: &Value, name: &str) -> Option<String> {
    input.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn number(input: &Value, name: &str) -> u64 {
    input.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn need(capability: Capability, resource: &str) -> Need {
    Need::one(capability, resource)
}

fn json_text(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).unwrap()
}

/// Takes its time; puts a key at the end. A stubborn one does not look whether it should stop.
#[derive(Debug)]
struct Sleep;

impl NativeTool for Sleep {
    fn footprint(&self, input: &Value, _place: &Place) -> Result<Footprint, Failure> {
        let key = string(input, "key").unwrap_or_else(|| "slept".to_owned());
        Ok(Footprint::needs(Capability::StateWrite, key.clone()).may_change_key(key))
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let key = string(input, "key").unwrap_or_else(|| "slept".to_owned());
        let end = Instant::now() + Duration::from_millis(number(input, "ms"));
        let stubborn = input.get("stubborn") == Some(&json!(true));
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
            if !stubborn {
                context.check()?;
            }
        }
        context.put_key(&key, json_text("slept"))?;
        done()
    }
}

#[derive(Debug)]
struct Panic;

impl NativeTool for Panic {
    fn footprint(&self, input: &Value, _place: &Place) -> Result<Footprint, Failure> {
        if input.get("early") == Some(&json!(true)) {
            panic!("a secret that only the log may know");
        }
        Ok(Footprint::nothing())
    }

    fn run(&self, _input: &Value, _context: &mut ToolContext) -> Result<Value, Failure> {
        panic!("a secret that only the log may know")
    }
}

#[derive(Debug)]
struct Hog;

impl NativeTool for Hog {
    fn footprint(&self, _input: &Value, _place: &Place) -> Result<Footprint, Failure> {
        Ok(Footprint::nothing())
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        context.charge_memory(number(input, "bytes"))?;
        done()
    }
}

/// Everything is staged well; only the answer is wrong.
#[derive(Debug)]
struct BadOutput;

impl NativeTool for BadOutput {
    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        changes(&places(input), place)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        stage(&places(input), context)?;
        Ok(json!({"done": "perhaps"}))
    }
}

fn places(input: &Value) -> Value {
    let one = |name| string(input, name).map(|name| json!([{"name": name, "value": "bad"}]));
    json!({"files": one("path").unwrap_or(json!([])), "keys": one("key").unwrap_or(json!([]))})
}

/// Fails the first `fails` times that it is called with this key.
#[derive(Debug, Default)]
struct Flaky(Mutex<HashMap<String, u64>>);

impl NativeTool for Flaky {
    fn footprint(&self, input: &Value, _place: &Place) -> Result<Footprint, Failure> {
        let key = string(input, "key").unwrap_or_else(|| "flaky".to_owned());
        Ok(Footprint::needs(Capability::StateWrite, key.clone()).may_change_key(key))
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let key = string(input, "key").unwrap_or_else(|| "flaky".to_owned());
        context.put_key(&key, json_text("tried"))?;
        let mut tried = self.0.lock().unwrap();
        let tries = tried.entry(key).or_default();
        *tries += 1;
        if *tries > number(input, "fails") {
            return done();
        }
        Err(match string(input, "as").as_deref() {
            Some("execution") => Failure::execution("FLAKY", "not now"),
            Some("memory") => Failure::resource("MEMORY_LIMIT", "never"),
            Some("time") => Failure::timeout("FLAKY", "not now"),
            _ => Failure::resource("FLAKY", "not now"),
        })
    }
}

/// Announces `announced` and touches something else, or touches it in another way.
#[derive(Debug)]
struct Undeclared;

impl NativeTool for Undeclared {
    fn footprint(&self, _input: &Value, place: &Place) -> Result<Footprint, Failure> {
        let file = RelPath::parse("announced")?;
        let resource = place.resource(&file)?;
        let listed = RelPath::parse("unlisted")?;
        let unlisted = place.resource(&listed)?;
        let mut footprint = Footprint::needs(Capability::FilesystemRead, resource.clone())
            .may_change_file(file)
            .may_change_key("announced".to_owned());
        footprint.needs.extend([
            need(Capability::FilesystemWrite, &unlisted),
            need(Capability::FilesystemDelete, &unlisted),
            need(Capability::StateRead, "announced"),
            need(Capability::StateWrite, "unlisted"),
            need(Capability::StateDelete, "unlisted"),
        ]);
        Ok(footprint)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let path = |name: &str| RelPath::parse(name).unwrap();
        match string(input, "what").as_deref() {
            Some("readFile") => context.read_file(&path("other")).map(drop),
            Some("list") => context.list_directory(&path(".")).map(drop),
            Some("writeFile") => context.write_file(&path("announced"), vec![1]).map(drop),
            Some("deleteFile") => context.delete_file(&path("announced")).map(drop),
            Some("unlistedWrite") => context.write_file(&path("unlisted"), vec![1]).map(drop),
            Some("unlistedDelete") => context.delete_file(&path("unlisted")).map(drop),
            Some("getKey") => context.get_key("other").map(drop),
            Some("putKey") => context.put_key("announced", vec![1]).map(drop),
            Some("deleteKey") => context.delete_key("announced").map(drop),
            Some("unlistedPut") => context.put_key("unlisted", vec![1]).map(drop),
            Some("unlistedKeyDelete") => context.delete_key("unlisted").map(drop),
            other => panic!("unknown: {other:?}"),
        }?;
        done()
    }
}

/// Changes several files and keys at once.
#[derive(Debug)]
struct Many(Hook);

fn items(input: &Value, list: &str) -> Vec<(String, Option<String>)> {
    let items = input.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    items.iter().map(|item| (string(item, "name").unwrap(), string(item, "value"))).collect()
}

fn changes(input: &Value, place: &Place) -> Result<Footprint, Failure> {
    let mut footprint = Footprint::nothing();
    for (name, value) in items(input, "files") {
        let path = RelPath::parse(&name)?;
        let resource = place.resource(&path)?;
        let capability = match value {
            Some(_) => Capability::FilesystemWrite,
            None => Capability::FilesystemDelete,
        };
        footprint.needs.push(need(capability, &resource));
        footprint.directories.extend(path.ancestors());
        footprint.files.push(path);
    }
    for (name, value) in items(input, "keys") {
        let capability = match value {
            Some(_) => Capability::StateWrite,
            None => Capability::StateDelete,
        };
        footprint.needs.push(need(capability, &name));
        footprint.keys.push(name);
    }
    Ok(footprint)
}

fn stage(input: &Value, context: &mut ToolContext) -> Result<(), Failure> {
    for (name, value) in items(input, "files") {
        let path = RelPath::parse(&name)?;
        match value {
            Some(text) => context.write_file(&path, text.into_bytes()).map(drop)?,
            None => context.delete_file(&path).map(drop)?,
        }
    }
    for (name, value) in items(input, "keys") {
        match value {
            Some(text) => context.put_key(&name, json_text(&text)).map(drop)?,
            None => context.delete_key(&name).map(drop)?,
        }
    }
    Ok(())
}

impl NativeTool for Many {
    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        changes(input, place)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        stage(input, context)?;
        self.0.run();
        if input.get("fail") == Some(&json!(true)) {
            return Err(Failure::execution("ASKED_TO_FAIL", "as asked"));
        }
        done()
    }
}

/// Adds one to the number in a file, or under a key.
#[derive(Debug)]
struct Bump;

impl NativeTool for Bump {
    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        let mut footprint = Footprint::nothing();
        if let Some(path) = string(input, "path") {
            let path = RelPath::parse(&path)?;
            let resource = place.resource(&path)?;
            footprint.needs.push(need(Capability::FilesystemRead, &resource));
            footprint.needs.push(need(Capability::FilesystemWrite, &resource));
            footprint.files.push(path);
        }
        if let Some(key) = string(input, "key") {
            footprint.needs.push(need(Capability::StateRead, &key));
            footprint.needs.push(need(Capability::StateWrite, &key));
            footprint.keys.push(key);
        }
        Ok(footprint)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<u64>().unwrap();
        if let Some(path) = string(input, "path") {
            let path = RelPath::parse(&path)?;
            let old = context.existing(&path).map(|_| context.read_file(&path)).transpose()?;
            let next = old.map_or(0, |old| number(&old)) + 1;
            context.write_file(&path, next.to_string().into_bytes())?;
        }
        if let Some(key) = string(input, "key") {
            let next = context.get_key(&key)?.map_or(0, |old| number(&old)) + 1;
            context.put_key(&key, next.to_string().into_bytes())?;
        }
        done()
    }
}
