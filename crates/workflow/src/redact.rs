//! What looks like a credential is taken out of what a run records, before it is recorded, and of
//! what people write down beside it.

use countersign_documents::scan::{Known, secret_spans};
use countersign_flow::NewEvent;
use countersign_model::Failure;
use serde_json::{Map, Value};

use crate::secret::Secrets;

const REDACTED: &str = "[REDACTED]";

/// Shorter texts hold no credential.
const SHORTEST: usize = 8;

/// Names of members are longer if they are one.
const SHORTEST_NAME: usize = 16;

pub(crate) fn redact(events: Vec<NewEvent>, secrets: &Secrets) -> Result<Vec<NewEvent>, Failure> {
    let known = secrets.known();
    events.into_iter().map(|event| redacted(event, secrets, &known)).collect()
}

fn redacted(new: NewEvent, secrets: &Secrets, known: &Known) -> Result<NewEvent, Failure> {
    let mut value = serde_json::to_value(&new.event).map_err(|error| unclean(&error))?;
    if !clean_with(&mut value, secrets, known) {
        return Ok(new);
    }
    // The same members with other texts in them. What can no longer be read is not recorded.
    let event = serde_json::from_value(value).map_err(|error| unclean(&error))?;
    Ok(NewEvent { event, ..new })
}

fn unclean(error: &serde_json::Error) -> Failure {
    Failure::state("INTERNAL", format!("a credential could not be taken out of an event: {error}"))
}

/// Takes credentials out of every text in a value, and says whether something was taken out.
pub(crate) fn clean(value: &mut Value, secrets: &Secrets) -> bool {
    clean_with(value, secrets, &secrets.known())
}

fn clean_with(value: &mut Value, secrets: &Secrets, known: &Known) -> bool {
    let inside = |value: &mut Value| clean_with(value, secrets, known);
    match value {
        Value::String(text) => secrets.hide(text) | clean_text(text, known),
        Value::Array(items) => items.iter_mut().fold(false, |found, item| inside(item) | found),
        Value::Object(members) => {
            let found = members.values_mut().fold(false, |found, member| inside(member) | found);
            clean_names(members, secrets, known) | found
        }
        _ => false,
    }
}

fn clean_names(members: &mut Map<String, Value>, secrets: &Secrets, known: &Known) -> bool {
    let unclean = |name: &String| {
        let mut text = name.clone();
        let found =
            secrets.hide(&mut text) | (name.len() >= SHORTEST_NAME && clean_text(&mut text, known));
        found.then(|| (name.clone(), text))
    };
    let found: Vec<_> = members.keys().filter_map(unclean).collect();
    for (name, clean) in &found {
        if let Some(value) = members.remove(name) {
            members.insert(clean.clone(), value);
        }
    }
    !found.is_empty()
}

fn clean_text(text: &mut String, known: &Known) -> bool {
    if text.len() < SHORTEST {
        return false;
    }
    let mut whole: Vec<(usize, usize)> = Vec::new();
    for span in secret_spans(text, known) {
        match whole.last_mut() {
            Some((_, end)) if span.start <= *end => *end = span.end.max(*end),
            _ => whole.push((span.start, span.end)),
        }
    }
    for (start, end) in whole.iter().rev() {
        if text.get(*start..*end).is_some() {
            text.replace_range(start..end, REDACTED);
        }
    }
    !whole.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn credentials_are_taken_out_wherever_they_stand() {
        let key = format!("{}{}", "ghp_", "r3VtYp9QwZ2LmN8sXcK4bD7fH1jT6gA0uEoI");
        let mut value =
            json!({"a": [{"b": format!("the key is {key} here")}], "c": "harmless text", &key: 1});
        let secrets = Secrets::default().with("mine", "open sesame");
        assert!(clean(&mut value, &secrets));
        assert!(!value.to_string().contains(&key), "{value}");
        assert_eq!(value["c"], "harmless text");
        assert!(!clean(&mut json!({"plain": "nothing to see here"}), &secrets));
        let mut told = json!(["say open sesame"]);
        assert!(clean(&mut told, &secrets));
        assert_eq!(told, json!(["say [REDACTED:mine]"]));
    }
}
