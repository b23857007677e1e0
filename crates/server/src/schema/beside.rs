//! Shapes of what stands beside runs: annotations, artifacts, files, webhooks and the journal.

use serde_json::{Map, Value, json};

use super::{closed, count, of, text, time};

/// Names of files, as the protocol has them, with no part that is empty, `.` or `..`.
pub(crate) const FILE_PATH: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*\
    (/(\\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]*|\\.{3}[A-Za-z0-9._-]*))*$";

/// Where events are sent. What lies behind the name is judged too, which no pattern can say.
const PUBLIC_URL: &str = "^[Hh][Tt][Tt][Pp][Ss]://[!-\"$-\\[\\]-~]+$";

pub(crate) fn shapes() -> [(&'static str, Value); 8] {
    [
        ("Annotation", annotation()),
        ("Annotations", closed(&["annotations"], json!({"annotations": list("Annotation")}))),
        ("Artifact", artifact()),
        ("WorkspaceFile", file(true)),
        ("WorkspaceFileKnown", file(false)),
        ("WorkspaceFiles", closed(&["files"], json!({"files": list("WorkspaceFileKnown")}))),
        ("Webhook", webhook()),
        ("AuditVerified", verified()),
    ]
}

fn list(name: &str) -> Value {
    json!({"type": "array", "items": of(name)})
}

pub(crate) fn rating() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 5})
}

/// A text of at most so many characters, or nothing.
pub(crate) fn maybe_short(most: usize) -> Value {
    json!({"type": ["string", "null"], "maxLength": most})
}

/// What kind of a signal it is says which of its members has to be there. It may have others too,
/// and in a request these may also be `null`.
pub(crate) fn signal(members: &[(&'static str, Value)], or_null: bool) -> Value {
    let one = |kind: &str| {
        let mut properties: Map<String, Value> = Map::new();
        properties.insert("kind".to_owned(), json!({"const": kind}));
        for (name, shape) in members {
            let shape = if or_null && *name != kind { perhaps(shape) } else { shape.clone() };
            properties.insert((*name).to_owned(), shape);
        }
        let required: &[&str] = if kind == "flag" { &["kind"] } else { &["kind", kind] };
        closed(required, Value::Object(properties))
    };
    let kinds = ["rating", "correction", "label", "flag"].map(one);
    json!({"oneOf": kinds})
}

fn perhaps(shape: &Value) -> Value {
    json!({"anyOf": [{"type": "null"}, shape]})
}

fn annotation() -> Value {
    let plain = json!({"type": "string"});
    let target = closed(&["runId"], json!({"runId": text(), "eventId": plain, "nodeId": plain}));
    let members = [("rating", rating()), ("correction", plain.clone()), ("label", plain.clone())];
    let actor = closed(&["principalRef"], json!({"principalRef": text()}));
    let properties = json!({"annotationId": text(), "target": target, "createdAt": time(),
        "signal": signal(&members, false), "actor": actor, "note": plain});
    closed(&["annotationId", "target", "signal", "actor", "createdAt"], properties)
}

/// With its content, or with why it has none.
fn artifact() -> Value {
    let known = json!({"artifactId": text(), "runId": text(), "artifactType": text(),
        "name": text(), "size": count(), "createdAt": time(), "executionId": text(),
        "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}, "mediaType": text()});
    let with = |more: Value| {
        let mut required = vec![
            "artifactId",
            "runId",
            "artifactType",
            "name",
            "size",
            "digest",
            "createdAt",
            "executionId",
        ];
        let mut properties = known.clone();
        if let (Some(all), Value::Object(more)) = (properties.as_object_mut(), &more) {
            required.extend(more.keys().map(String::as_str));
            all.extend(more.clone());
        }
        closed(&required, properties)
    };
    json!({"oneOf": [
        with(json!({"encoding": {"enum": ["utf8", "base64"]}, "content": {"type": "string"}})),
        with(json!({"contentOmitted": {"const": true}})),
        with(json!({"collectedAt": time()})),
    ]})
}

fn file(with_content: bool) -> Value {
    let path = json!({"type": "string", "pattern": FILE_PATH, "maxLength": 256});
    let mut properties = json!({"path": path, "updatedAt": time(), "etag": text(),
        "version": {"type": "integer", "minimum": 1}, "contentType": text()});
    let mut required = vec!["path", "version", "etag", "contentType", "updatedAt"];
    if let (true, Some(members)) = (with_content, properties.as_object_mut()) {
        members.insert("content".to_owned(), json!({"type": "string"}));
        required.push("content");
    }
    closed(&required, properties)
}

/// A URL in a request, as far as a pattern can tell.
pub(crate) fn public_url() -> Value {
    json!({"type": "string", "pattern": PUBLIC_URL, "maxLength": 2048,
        "description": "Has to lead to a public address."})
}

pub(crate) fn maybe_public_url() -> Value {
    perhaps(&public_url())
}

fn webhook() -> Value {
    let texts = json!({"type": "array", "items": text()});
    let print = json!({"type": "string", "pattern": "^[0-9a-f]{8}$"});
    let properties = json!({"subscriptionId": text(), "webhookId": text(), "url": text(),
        "events": texts, "eventTypes": texts, "tags": texts, "secret": text(),
        "secretFingerprint": print, "createdAt": time()});
    let required = [
        "subscriptionId",
        "webhookId",
        "url",
        "events",
        "eventTypes",
        "tags",
        "secret",
        "secretFingerprint",
        "createdAt",
    ];
    closed(&required, properties)
}

fn verified() -> Value {
    let hash = json!({"type": "string", "pattern": "^[0-9a-f]{64}$"});
    let id = json!({"type": "string", "minLength": 1, "maxLength": 256});
    let checkpoint = closed(
        &["checkpoint", "atSequence", "merkleRoot", "signature"],
        json!({"checkpoint": id, "atSequence": count(), "merkleRoot": hash, "signature": text()}),
    );
    let anomaly = closed(
        &["atSeq", "expectedPrevHash", "actualPrevHash"],
        json!({"atSeq": count(), "expectedPrevHash": hash,
            "actualPrevHash": {"type": "string", "pattern": "^([0-9a-f]{64})?$"}}),
    );
    let truth = json!({"type": "boolean"});
    let properties = json!({"fromSeq": count(), "toSeq": count(), "chainValid": truth,
        "checkpointsValid": truth, "checkpoints": {"type": "array", "items": checkpoint},
        "anomalies": {"type": "array", "items": anomaly}});
    let required =
        ["fromSeq", "toSeq", "chainValid", "checkpointsValid", "checkpoints", "anomalies"];
    closed(&required, properties)
}
