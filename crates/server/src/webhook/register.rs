//! What a client says when it registers a webhook, in either spelling of the protocol.

use std::collections::BTreeSet;

use countersign_model::Timestamp;
use serde_json::{Map, Value, json};

use super::sign::fingerprint;
use super::url::{Target, UrlPolicy};
use crate::error::Refusal;
use crate::schema::{self, beside::public_url};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    pub target: Target,
    /// Which types of events; nothing means all.
    pub events: Option<BTreeSet<String>>,
    pub tags: Vec<String>,
    /// What the client calls its tenant. The key decides; another one is refused.
    pub tenant: Option<String>,
    pub secret: Option<String>,
}

const MAX_EVENTS: usize = 200;
const MAX_TAGS: usize = 100;
const MAX_TEXT: usize = 256;
/// Characters of a secret: one that can be guessed signs nothing.
const SECRET: std::ops::RangeInclusive<usize> = 16..=256;

impl Registration {
    /// What [`Registration::parse`] reads, in the words of OpenAPI. Newer clients may send more.
    pub(crate) fn shape() -> Value {
        let text = json!({"type": "string", "minLength": 1, "maxLength": MAX_TEXT});
        let both = "One thing with two names: whoever sends both has to say the same twice.";
        let events = json!({"type": ["array", "null"], "items": text, "maxItems": MAX_EVENTS,
            "description": both});
        let tags = json!({"type": ["array", "null"], "items": text, "maxItems": MAX_TAGS});
        let (least, most) = SECRET.into_inner();
        json!({
            "type": "object",
            "required": ["url"],
            "properties": {
                "url": public_url(), "events": events, "eventTypes": events,
                "tags": tags, "tenantId": schema::maybe_text(),
                "secret": {"type": ["string", "null"], "minLength": least, "maxLength": most},
            },
            "additionalProperties": schema::of("Any"),
        })
    }

    pub fn parse(body: &Value, policy: UrlPolicy) -> Result<Registration, Refusal> {
        let body =
            body.as_object().ok_or_else(|| Refusal::invalid("the body has to be an object"))?;
        let url = text(body, "url")?.ok_or_else(|| Refusal::invalid("`url` is missing"))?;
        let secret = text(body, "secret")?;
        if secret.is_some_and(|secret| !SECRET.contains(&secret.chars().count())) {
            return Err(Refusal::invalid("`secret` has to have 16 to 256 characters"));
        }
        Ok(Registration {
            target: Target::parse(url, policy)?,
            events: events(body)?,
            tags: texts(body, "tags", MAX_TAGS)?.unwrap_or_default(),
            tenant: text(body, "tenantId")?.map(str::to_owned),
            secret: secret.map(str::to_owned),
        })
    }

    /// Whether this webhook is told of an event.
    pub fn wants(&self, kind: &str) -> bool {
        self.events.as_ref().is_none_or(|events| events.contains(kind))
    }

    /// The answer, with the names of both spellings.
    pub fn answer(&self, id: &str, secret: &str, at: Timestamp) -> Value {
        let events: Vec<&String> = self.events.iter().flatten().collect();
        json!({
            "subscriptionId": id,
            "webhookId": id,
            "url": self.target.to_string(),
            "events": events,
            "eventTypes": events,
            "tags": self.tags,
            "secret": secret,
            "secretFingerprint": fingerprint(secret),
            "createdAt": at.to_string(),
        })
    }
}

/// `events` or `eventTypes`; both only if they say the same. `*` and an empty list mean all.
fn events(body: &Map<String, Value>) -> Result<Option<BTreeSet<String>>, Refusal> {
    let set = |name| Ok::<_, Refusal>(texts(body, name, MAX_EVENTS)?.map(BTreeSet::from_iter));
    let events: Option<BTreeSet<String>> = match (set("events")?, set("eventTypes")?) {
        (Some(one), Some(other)) if one != other => {
            return Err(Refusal::invalid("`events` and `eventTypes` contradict each other"));
        }
        (one, other) => one.or(other),
    };
    Ok(events.filter(|events| !events.is_empty() && !events.contains("*")))
}

fn text<'b>(body: &'b Map<String, Value>, name: &str) -> Result<Option<&'b str>, Refusal> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::invalid(format!("`{name}` has to be a text"))),
    }
}

fn texts(
    body: &Map<String, Value>,
    name: &str,
    most: usize,
) -> Result<Option<Vec<String>>, Refusal> {
    let Some(value) = body.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let list = value.as_array().filter(|list| list.len() <= most);
    let short = |item: &Value| {
        item.as_str()
            .filter(|text| (1..=MAX_TEXT).contains(&text.chars().count()))
            .map(str::to_owned)
    };
    let texts: Option<Vec<String>> = list.and_then(|list| list.iter().map(short).collect());
    let message =
        format!("`{name}` has to be a list of at most {most} texts of 1 to 256 characters");
    texts.map(Some).ok_or_else(|| Refusal::invalid(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(body: &Value) -> Result<Registration, String> {
        let policy = UrlPolicy::default();
        Registration::parse(body, policy).map_err(|refusal| refusal.code.into_owned())
    }

    const URL: &str = "https://hooks.example.org/x";

    #[test]
    fn both_spellings_are_read() {
        let all = parse(&json!({"url": URL})).unwrap();
        assert!(all.wants("run.started") && all.secret.is_none());
        for name in ["events", "eventTypes"] {
            let some =
                parse(&json!({"url": URL, name: ["run.completed"], "tenantId": "t"})).unwrap();
            assert!(some.wants("run.completed") && !some.wants("run.started"));
        }
        assert!(parse(&json!({"url": URL, "events": []})).unwrap().wants("x"));
        let answer = all.answer("wh-1", "0123456789abcdef", Timestamp::from_millis(0));
        assert_eq!(
            (&answer["webhookId"], &answer["subscriptionId"]),
            (&json!("wh-1"), &json!("wh-1"))
        );
        assert_eq!(answer["secretFingerprint"].as_str().unwrap().len(), 8);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for bad in [
            json!([]),
            json!({}),
            json!({"url": 1}),
            json!({"url": URL, "events": "run.started"}),
            json!({"url": URL, "events": [1]}),
            json!({"url": URL, "events": [""]}),
            json!({"url": URL, "events": ["a"], "eventTypes": ["b"]}),
            json!({"url": URL, "secret": "short"}),
            json!({"url": URL, "tags": ["x".repeat(257)]}),
            json!({"url": URL, "tenantId": 7}),
        ] {
            assert_eq!(parse(&bad), Err("validation_error".to_owned()), "{bad}");
        }
        assert_eq!(
            parse(&json!({"url": "http://x.example"})),
            Err("webhook_url_rejected".to_owned())
        );
    }

    proptest! {
        #[test]
        fn any_url_is_judged(url in "\\PC{0,60}|https://[a-z0-9.:@\\[\\]/-]{0,40}") {
            if let Ok(registration) = parse(&json!({"url": url})) {
                let again = Target::parse(&registration.target.to_string(), UrlPolicy::default());
                prop_assert_eq!(again.unwrap(), registration.target);
            }
        }
    }
}
