//! What people and agents think of a run. Kept beside it: no event, so nothing of it is replayed,
//! forked or in the way of the run's end.

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_flow::event::event_id;
use countersign_model::{KeyScope, RunId, Timestamp};
use countersign_workflow::Engine;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::records::{self, Change, Written};
use super::{Api, answer};
use crate::auth::{Caller, blocking};
use crate::body::{Json, object, whole};
use crate::error::Refusal;
use crate::gate::Repeatable;
use crate::route::Route;
use crate::schema::{self, beside};

const SPACE: &str = "annotations";

/// Nobody reads more of one run.
const MOST: usize = 1000;
const LONGEST_LABEL: usize = 256;
const LONGEST_TEXT: usize = 16 * 1024;

pub(super) fn routes() -> Vec<Route<Api>> {
    let path = "/v1/runs/{runId}/annotations";
    vec![
        Route::new(Method::POST, path, "createAnnotation", create)
            .summary("Say what you think of a run, an event or a node")
            .scope(KeyScope::ApprovalsRespond)
            .request(wanted())
            .answer(201, "As it is kept", schema::of("Annotation"))
            .refuses(&[400, 401, 403, 404, 409, 429]),
        Route::new(Method::GET, path, "listAnnotations", list)
            .summary("What was said of a run, oldest first")
            .scope(KeyScope::RunsRead)
            .answer(200, "All of it", schema::of("Annotations"))
            .refuses(&[401, 403, 404, 429]),
    ]
}

/// What a target names has to be there, which a shape cannot say.
fn wanted() -> Value {
    let text = |most: usize| json!({"type": "string", "maxLength": most});
    let members = [
        ("rating", beside::rating()),
        ("correction", text(LONGEST_TEXT)),
        ("label", text(LONGEST_LABEL)),
    ];
    let target = json!({"eventId": schema::maybe_text(), "nodeId": schema::maybe_text()});
    let properties = json!({"note": beside::maybe_short(LONGEST_TEXT),
        "target": schema::closed(&[], target), "signal": beside::signal(&members, true)});
    schema::closed(&["signal"], properties)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Rating,
    Correction,
    Label,
    Flag,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Signal {
    kind: Kind,
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    rating: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correction: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Target {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wanted {
    #[serde(deserialize_with = "object")]
    signal: Signal,
    #[serde(default, deserialize_with = "object")]
    target: Target,
    note: Option<String>,
}

fn wrong(field: &str, why: &str) -> Refusal {
    Refusal::invalid(format!("`{field}` {why}")).detail("field", json!(field))
}

impl Wanted {
    /// What can be said without the run.
    fn check(&self) -> Result<(), Refusal> {
        let Signal { kind, rating, label, correction } = &self.signal;
        let missing = |field: &str| Err(wrong(field, "is missing"));
        match kind {
            Kind::Rating if rating.is_none() => return missing("signal.rating"),
            Kind::Label if label.is_none() => return missing("signal.label"),
            Kind::Correction if correction.is_none() => return missing("signal.correction"),
            _ => {}
        }
        if rating.is_some_and(|rating| !(1..=5).contains(&rating)) {
            return Err(wrong("signal.rating", "has to be a whole number from 1 to 5"));
        }
        short("signal.label", label.as_deref(), LONGEST_LABEL)?;
        short("signal.correction", correction.as_deref(), LONGEST_TEXT)?;
        short("note", self.note.as_deref(), LONGEST_TEXT)
    }

    /// What it is about has to be there.
    fn check_target(&self, engine: &Engine, run: &RunId) -> Result<(), Refusal> {
        let view = engine.view(run)?;
        let count = view.state.next;
        let is_there = |id: &str| {
            let number = id.rsplit_once("-e").and_then(|(_, number)| number.parse::<u64>().ok());
            number.is_some_and(|n| n < count && event_id(run.as_str(), n) == id)
        };
        if self.target.event_id.as_deref().is_some_and(|id| !is_there(id)) {
            return Err(wrong("target.eventId", "names no event of this run"));
        }
        let node = self.target.node_id.as_deref();
        if node.is_some_and(|id| view.definition.node(id).is_none()) {
            return Err(wrong("target.nodeId", "names no node of this run"));
        }
        Ok(())
    }

    fn kept(
        self,
        engine: &Engine,
        id: &str,
        run: &RunId,
        caller: &Caller,
        now: Timestamp,
    ) -> Value {
        let mut said = json!({"signal": self.signal, "note": self.note});
        // Whoever corrects something easily copies what should not be there.
        engine.clean(&mut said);
        let mut target = json!(self.target);
        if let Some(target) = target.as_object_mut() {
            target.insert("runId".to_owned(), json!(run));
        }
        let mut kept = json!({
            "annotationId": id,
            "target": target,
            "actor": {"principalRef": caller.principal.to_string()},
            "createdAt": now.to_string(),
        });
        if let (Some(kept), Value::Object(said)) = (kept.as_object_mut(), said) {
            kept.extend(said.into_iter().filter(|(_, value)| !value.is_null()));
        }
        kept
    }
}

fn short(field: &str, text: Option<&str>, most: usize) -> Result<(), Refusal> {
    match text.is_some_and(|text| text.chars().count() > most) {
        true => Err(wrong(field, &format!("has at most {most} characters"))),
        false => Ok(()),
    }
}

async fn create(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    repeatable: Option<Extension<Repeatable>>,
    Json(wanted): Json<Wanted>,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    wanted.check()?;
    let kept = blocking(move || {
        wanted.check_target(api.engine(), &run)?;
        keep(&api, &caller, &run, wanted, repeatable.as_ref())
    })
    .await?;
    Ok(answer(StatusCode::CREATED, &kept))
}

fn keep(
    api: &Api,
    caller: &Caller,
    run: &RunId,
    wanted: Wanted,
    repeatable: Option<&Extension<Repeatable>>,
) -> Result<Value, Refusal> {
    let engine = api.engine();
    if records::list(engine.host(), &caller.tenant, SPACE, &format!("{run}/"))?.len() >= MOST {
        return Err(Refusal::conflict(format!("a run has at most {MOST} annotations")));
    }
    let clock = engine.host().clock();
    let (now, id) = (clock.now(), format!("ann-{}", clock.new_id()));
    let kept = wanted.kept(engine, &id, run, caller, now);
    let reply = api.reply(repeatable, now, 201, Some(&kept))?;
    // Ids are in the order of time, and so are keys.
    let (key, value) = (format!("{run}/{id}"), Some(kept.to_string().into_bytes()));
    let change = Change { space: SPACE, key, version: 0, value };
    match records::write(engine.host(), caller.into(), now, vec![change], reply)? {
        Written::Done => {
            let notice = json!({"type": "run.annotated", "runId": run,
                "timestamp": now.to_string(), "payload": kept});
            api.notify(run, "run.annotated", notice);
            Ok(kept)
        }
        Written::Overtaken => Err(Refusal::internal()),
    }
}

async fn list(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let found = api
        .ask(move |engine| {
            let found = records::list(engine.host(), &caller.tenant, SPACE, &format!("{run}/"))?;
            let values = found.iter().filter_map(|record| record.value.as_deref());
            values.map(records::read::<Value>).collect::<Result<Vec<_>, _>>()
        })
        .await?;
    Ok(answer(StatusCode::OK, &json!({"annotations": found})))
}
