//! A call as it is compared with another one: everything that must differ is taken out, and what is
//! named after the call is called by its part in the run.

use std::collections::BTreeMap;

use countersign_model::effect::{Artifact, Payload};
use countersign_model::event::{CallEvent, Fact};
use countersign_model::record::CallSummary;
use countersign_model::{ArtifactId, ExecutionId, Failure, RunId};
use serde_json::Value;

use super::differ::mask;
use super::rules::Rules;
use crate::home::Home;
use crate::tool::comparable;

/// Values of facts that differ whenever something is done again: ids, moments, durations, hosts, and
/// digests of what holds them. What came in and out is compared by its content instead.
const MUST_DIFFER: &[(&str, &[&str])] = &[
    ("declared", &["/input", "/consumes/*/artifact"]),
    ("asked", &["/expiresAt", "/subject"]),
    ("approved", &["/at", "/signature", "/subject"]),
    ("refused", &["/at", "/signature", "/subject"]),
    ("authorized", &["/approval", "/facts"]),
    ("denied", &["/facts", "/error/executionId"]),
    ("failed", &["/error/executionId"]),
    ("aborted", &["/error/executionId"]),
    ("started", &["/before", "/host", "/key", "/plan", "/transaction"]),
    ("replayed", &["/key", "/of", "/output"]),
    (
        "committed",
        &[
            "/artifacts",
            "/connections/*/received",
            "/connections/*/sent",
            "/effects",
            "/output",
            "/stderr",
            "/stdout",
        ],
    ),
    ("completed", &["/durationMs", "/output", "/usage"]),
    (
        "rolledBack",
        &["/after", "/before", "/durationMs", "/error/executionId", "/stderr", "/stdout", "/usage"],
    ),
];

/// One call, told so that another one can be held against it.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) summary: CallSummary,
    /// Its facts by name, in order.
    pub(super) events: Vec<(String, Value)>,
    pub(super) effects: Vec<Value>,
    pub(super) artifacts: Vec<Artifact>,
    /// The call that artifacts and streams are kept with.
    pub(super) owner: ExecutionId,
    pub(super) streams: Vec<(&'static str, Payload)>,
    pub(super) input: Option<Value>,
    pub(super) output: Option<Value>,
    names: Names,
}

impl Story {
    pub(super) fn read(home: &Home, summary: CallSummary, rules: &Rules) -> Result<Self, Failure> {
        let mut names = Names::of(home, &summary)?;
        let owner = summary.replayed.unwrap_or(summary.execution);
        let mut story = Story {
            events: Vec::new(),
            effects: Vec::new(),
            artifacts: Vec::new(),
            owner,
            streams: Vec::new(),
            input: None,
            output: None,
            names: Names::default(),
            summary,
        };
        for event in events(home, story.summary.execution)? {
            if let CallEvent::Declared(declared) = &event {
                names.note_consumed(declared);
            }
            story.take_in(&event, &names);
        }
        if story.summary.replayed.is_some() {
            story.take_in_earlier(home)?;
        }
        story.input = value(home, &story.summary, Some(story.summary.input));
        story.output = value(home, &story.summary, story.summary.output);
        for value in [&mut story.input, &mut story.output].into_iter().flatten() {
            names.rename(value);
        }
        if let Some(output) = &mut story.output {
            mask(output, rules.output);
            mask(output, rules.output_apart);
        }
        story.names = names;
        Ok(story)
    }

    fn take_in(&mut self, event: &CallEvent, names: &Names) {
        let Ok(Value::Object(tagged)) = serde_json::to_value(event) else { return };
        for (name, mut value) in tagged {
            let dropped = MUST_DIFFER.iter().find(|(of, _)| *of == name);
            mask(&mut value, dropped.map_or(&[], |(_, pointers)| pointers));
            names.rename(&mut value);
            self.events.push((name, value));
        }
        match event {
            CallEvent::Committed(done) => {
                self.effects = comparable(&done.effects);
                self.effects.iter_mut().for_each(|effect| names.rename(effect));
                self.artifacts.clone_from(&done.artifacts);
                self.say(done.stdout, done.stderr);
            }
            CallEvent::RolledBack(back) => self.say(back.stdout, back.stderr),
            _ => {}
        }
    }

    fn say(&mut self, stdout: Option<Payload>, stderr: Option<Payload>) {
        let said = [("stdout", stdout), ("stderr", stderr)];
        self.streams = said.into_iter().filter_map(|(name, said)| Some((name, said?))).collect();
    }

    /// What was given again is what the earlier call made.
    fn take_in_earlier(&mut self, home: &Home) -> Result<(), Failure> {
        for event in events(home, self.owner)? {
            if let CallEvent::Committed(done) = event {
                self.artifacts = done.artifacts;
            }
        }
        Ok(())
    }

    /// JSON with what it names called by its part.
    pub(super) fn renamed_json(&self, bytes: &[u8]) -> Option<Value> {
        let mut value = serde_json::from_slice(bytes).ok()?;
        self.names.rename(&mut value);
        Some(value)
    }

    /// A content with what it names called by its part.
    pub(super) fn renamed(&self, bytes: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.names.rename_text(text).into_bytes(),
            Err(_) => bytes.to_vec(),
        }
    }
}

fn events(home: &Home, execution: ExecutionId) -> Result<Vec<CallEvent>, Failure> {
    let entries = home.store.call_entries(execution)?;
    let event = |fact| match fact {
        Fact::Call(call) => Some(call.event),
        _ => None,
    };
    Ok(entries.into_iter().filter_map(|stored| event(stored.entry.fact)).collect())
}

/// A value that is still kept.
fn value(home: &Home, call: &CallSummary, payload: Option<Payload>) -> Option<Value> {
    let bytes = home.payload(call.execution, &payload?).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// What ids mean: the part that they play in a run.
#[derive(Debug, Default)]
struct Names {
    ids: BTreeMap<String, String>,
    run: Option<RunId>,
}

impl Names {
    fn of(home: &Home, call: &CallSummary) -> Result<Self, Failure> {
        let run = call.work.as_ref().map(|work| work.run.clone());
        let calls = match &run {
            Some(run) => home.store.run_calls(run)?,
            None => vec![call.execution],
        };
        let mut names = Names { ids: BTreeMap::new(), run };
        for (place, execution) in (1..).zip(&calls) {
            names.note_call(home, place, *execution)?;
        }
        names.ids.insert(call.execution.to_string(), "<this call>".to_owned());
        if let Some(earlier) = call.replayed {
            names.note_call(home, 0, earlier)?;
        }
        Ok(names)
    }

    fn note_call(&mut self, home: &Home, place: u32, call: ExecutionId) -> Result<(), Failure> {
        self.ids.insert(call.to_string(), format!("<call {place}>"));
        for event in events(home, call)? {
            let CallEvent::Committed(done) = event else { continue };
            for made in done.artifacts {
                let name = format!("<artifact {}>", made.name);
                self.ids.insert(ArtifactId::of(call, &made.name).to_string(), name);
            }
        }
        Ok(())
    }

    /// What it was given is known by its content.
    fn note_consumed(&mut self, declared: &countersign_model::event::Declared) {
        for given in &declared.consumes {
            let name = format!("<artifact {}>", given.digest);
            self.ids.insert(given.artifact.to_string(), name);
        }
    }

    fn rename(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.rename_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item)),
            Value::Object(fields) => fields.values_mut().for_each(|item| self.rename(item)),
            _ => {}
        }
    }

    fn rename_text(&self, text: &str) -> String {
        let Some(run) = &self.run else { return self.rename_ids(text) };
        if text == run.as_str() {
            return "<run>".to_owned();
        }
        let branch = format!("countersign/{run}");
        self.rename_ids(&text.replace(&branch, "countersign/<run>"))
    }

    fn rename_ids(&self, text: &str) -> String {
        // Ids have one length each and begin in one of two ways: most texts hold none.
        if !text.contains("art_") && !text.contains('-') {
            return text.to_owned();
        }
        let known = self.ids.iter().filter(|(id, _)| text.contains(id.as_str()));
        known.fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
    }
}
