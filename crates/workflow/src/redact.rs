//! What looks like a credential is taken out of what a run records, before it is recorded.

use countersign_documents::scan::{Known, secret_spans};
use countersign_flow::NewEvent;
use serde_json::Value;

const REDACTED: &str = "[REDACTED]";

/// Shorter texts hold no credential.
const SHORTEST: usize = 8;

pub(crate) fn redact(events: Vec<NewEvent>) -> Vec<NewEvent> {
    events.into_iter().map(redacted).collect()
}

fn redacted(new: NewEvent) -> NewEvent {
    let Ok(mut value) = serde_json::to_value(&new.event) else { return new };
    if !clean(&mut value) {
        return new;
    }
    // The same members with other texts in them. What can no longer be read had a word of ours
    // changed, which is no secret.
    serde_json::from_value(value).map_or(new.clone(), |event| NewEvent { event, ..new })
}

/// Whether something was taken out.
pub(crate) fn clean(value: &mut Value) -> bool {
    match value {
        Value::String(text) => clean_text(text),
        Value::Array(items) => items.iter_mut().fold(false, |found, item| clean(item) | found),
        Value::Object(members) => {
            members.iter_mut().fold(false, |found, (_, member)| clean(member) | found)
        }
        _ => false,
    }
}

fn clean_text(text: &mut String) -> bool {
    if text.len() < SHORTEST {
        return false;
    }
    let mut whole: Vec<(usize, usize)> = Vec::new();
    for span in secret_spans(text, &Known::default()) {
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
            json!({"a": [{"b": format!("the key is {key} here")}], "c": "harmless text"});
        assert!(clean(&mut value));
        assert!(!value.to_string().contains(&key), "{value}");
        assert_eq!(value["c"], "harmless text");
        assert!(!clean(&mut json!({"plain": "nothing to see here"})));
    }
}
