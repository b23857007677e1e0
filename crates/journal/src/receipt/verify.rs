//! Verifying a receipt: needs its bytes and the journal's public key, and nothing else of ours.

use countersign_model::Digest;
use countersign_model::event::{CallEvent, Fact, HomeEvent};
use countersign_model::record::CallRecord;
use countersign_model::{HomeId, KeyEvent};
use ed25519_dalek::VerifyingKey;

use super::MAX_RECEIPT;
use super::basis::Needs;
use super::dsse::{Envelope, Unsigned};
use super::pins::{Pin, Values, pins};
use super::proofs::Entries;
use super::report::{Check, Report};
use super::statement::{Claims, Included, Statement, Subject, event_of, left};
use super::story::Story;
use crate::checkpoint::VerifierKey;
use crate::entry::Entry;

/// Checks everything that can be checked, and goes on after a problem as long as there is something
/// left to look at.
pub fn verify(bytes: &[u8], key: &VerifierKey) -> Report {
    let mut report = Report::default();
    if let Some(statement) = open(&mut report, bytes, key) {
        Verification { key, statement: &statement, report: &mut report }.run();
    }
    report.close()
}

/// The statement in the envelope, which is checked on the way.
fn open(report: &mut Report, bytes: &[u8], key: &VerifierKey) -> Option<Statement> {
    let unreadable = |report: &mut Report, why: String| {
        report.problem(Check::Format, "RECEIPT_UNREADABLE", None, why);
    };
    if bytes.len() > MAX_RECEIPT {
        unreadable(report, format!("it has more than {MAX_RECEIPT} bytes"));
        return None;
    }
    let envelope: Envelope = serde_json::from_slice(bytes)
        .map_err(|error| unreadable(report, format!("it is no receipt: {error}")))
        .ok()?;
    match envelope.check(key) {
        Ok(()) => report.reached(Check::Signature, format!("signed by {}", key.id())),
        Err(why) => unsigned(report, key, why),
    }
    let statement: Statement = serde_json::from_slice(&envelope.payload.0)
        .map_err(|error| unreadable(report, format!("its statement cannot be read: {error}")))
        .ok()?;
    if !statement.is_ours() {
        let message = "the statement is about something else than a call";
        report.problem(Check::Format, "STATEMENT_UNKNOWN", None, message);
        return None;
    }
    report.reached(Check::Format, "an in-toto statement in a DSSE envelope");
    Some(statement)
}

fn unsigned(report: &mut Report, key: &VerifierKey, why: Unsigned) {
    let (code, message) = match why {
        Unsigned::OtherType => ("STATEMENT_UNKNOWN", "the envelope holds no statement".to_owned()),
        Unsigned::OtherKey => ("OTHER_KEY", format!("it does not say that {} signed it", key.id())),
        Unsigned::Forged => ("SIGNATURE_FORGED", "the signature does not fit".to_owned()),
    };
    report.problem(Check::Signature, code, None, message);
}

pub(super) struct Verification<'a> {
    pub(super) key: &'a VerifierKey,
    pub(super) statement: &'a Statement,
    pub(super) report: &'a mut Report,
}

impl Verification<'_> {
    fn run(mut self) {
        let checkpoint = self.checkpoint();
        let entries = self.entries(checkpoint.as_ref());
        let home = self.home(entries.basis.first());
        let events: Vec<_> = self.events(&entries.call);
        self.admit(&entries, &events);
        let values = self.values(&pins(events.iter().copied()));
        let authority = home.as_ref().map(|home| &home.authority);
        let execution = self.statement.predicate.summary.execution;
        let story = Story::new(execution, authority, &values, self.report);
        let call = story.tell(&entries.call, &entries.basis);
        self.summary(home.map(|home| home.id), call.as_ref());
        self.subjects(call.as_ref(), &events);
        self.report.call = call.map(|call| call.summary);
    }

    /// The journal's first entry says whose journal it is, and which key signs grants and keys.
    fn home(&mut self, first: Option<&Entry>) -> Option<Home> {
        let created = first.filter(|entry| entry.seq == 0).and_then(|entry| match &entry.fact {
            Fact::Home(HomeEvent::Created { home, journal_key, authority_key }) => {
                Some((*home, journal_key, authority_key))
            }
            _ => None,
        });
        let Some((id, journal_key, authority_key)) = created else {
            let message = "the journal's first entry, which names the home, is not there";
            self.report.problem(Check::Home, "HOME_MISSING", Some(0), message);
            return None;
        };
        if *journal_key != self.key.to_string() {
            let message = "the journal belongs to another key";
            self.report.problem(Check::Home, "HOME_MISMATCH", Some(0), message);
        }
        let Ok(authority) = authority_key.parse::<VerifierKey>() else {
            let message = "the key that signs grants cannot be read";
            self.report.problem(Check::Home, "HOME_MISMATCH", Some(0), message);
            return None;
        };
        self.report.reached(Check::Home, format!("home {id}"));
        self.report.home = Some(id);
        Some(Home { id, authority: *authority.verifying_key() })
    }

    fn events<'e>(&self, call: &'e [Entry]) -> Vec<&'e CallEvent> {
        let execution = self.statement.predicate.summary.execution;
        call.iter().filter_map(|entry| event_of(entry, execution)).collect()
    }

    /// Every entry is about this call, or about something that it rests on.
    fn admit(&mut self, entries: &Entries, events: &[&CallEvent]) {
        let execution = self.statement.predicate.summary.execution;
        let made = |id: &_| {
            entries.basis.iter().find_map(|entry| match &entry.fact {
                Fact::Key(KeyEvent::Created { key, .. }) if key.id == *id => key.replaces,
                _ => None,
            })
        };
        let needs = Needs::of(events.iter().copied(), made);
        let strange = entries.call.iter().filter(|entry| event_of(entry, execution).is_none());
        let idle = entries.basis.iter().filter(|entry| !needs.wants(&entry.fact));
        let foreign: Vec<_> = strange.chain(idle).map(|entry| entry.seq).collect();
        for seq in foreign {
            let message = format!("entry {seq} has nothing to do with execution {execution}");
            self.faulty("ENTRY_FOREIGN", seq, message);
        }
    }

    fn values(&mut self, pins: &[Pin]) -> Values {
        let included = &self.statement.predicate.values;
        let mut values = Values::new();
        for value in included {
            if let Err((code, message)) = check_value(value, pins) {
                self.report.problem(Check::Values, code, None, message);
            } else if values.insert(value.digest, value.content.0.clone()).is_some() {
                let message = format!("value {} is there twice", value.digest.short());
                self.report.problem(Check::Values, "VALUE_UNPINNED", None, message);
            }
        }
        let left = pins.iter().filter(|pin| !values.contains_key(&pin.digest));
        for pin in left {
            let line = format!("{} is not included, only its digest {}", pin.role, pin.digest);
            self.report.unchecked.push(line);
        }
        let what = format!("{} of {} values are included", values.len(), distinct(pins));
        self.report.reached(Check::Values, what);
        values
    }

    fn summary(&mut self, home: Option<HomeId>, call: Option<&CallRecord>) {
        let claimed = &self.statement.predicate.summary;
        let Some((home, call)) = home.zip(call) else { return };
        let found = Claims::of(home, call);
        if found != *claimed {
            let Claims { tool, version, principal, state, .. } = found;
            let message = format!(
                "the summary is not what the facts tell: {tool}@{version} for {principal}, {state}"
            );
            self.report.problem(Check::Story, "SUMMARY_MISMATCH", None, message);
        }
        if !call.summary.terminal {
            let remark = format!("the call had not ended: it was {}", call.summary.state);
            self.report.remarks.push(remark);
        }
    }

    fn subjects(&mut self, call: Option<&CallRecord>, events: &[&CallEvent]) {
        let last = self.statement.predicate.entries.last();
        let (Some(call), Some(last)) = (call, last) else { return };
        let found = Subject::all(call, &last.entry.0, left(events.iter().copied()));
        if found != self.statement.subject {
            let message = "the statement's subjects are not what the facts name";
            self.report.problem(Check::Subjects, "SUBJECT_MISMATCH", None, message);
        }
        if !is_one_output(events) {
            let message = "the call completed with another output than it had committed";
            self.report.problem(Check::Subjects, "SUBJECT_MISMATCH", None, message);
        }
        self.report.reached(Check::Subjects, format!("{} subjects", found.len()));
    }
}

struct Home {
    id: HomeId,
    authority: VerifyingKey,
}

fn is_one_output(events: &[&CallEvent]) -> bool {
    let committed = left(events.iter().copied()).map(|left| left.output);
    events.iter().all(|event| match event {
        CallEvent::Completed(completed) => Some(completed.output) == committed,
        _ => true,
    })
}

fn distinct(pins: &[Pin]) -> usize {
    pins.iter().map(|pin| pin.digest).collect::<std::collections::BTreeSet<Digest>>().len()
}

fn check_value(value: &Included, pins: &[Pin]) -> Result<(), (&'static str, String)> {
    let name = value.digest.short();
    let Some(pin) = pins.iter().find(|pin| pin.digest == value.digest) else {
        return Err(("VALUE_UNPINNED", format!("no fact of the call names value {name}")));
    };
    if pin.fits(&value.content.0) {
        return Ok(());
    }
    Err(("VALUE_CHANGED", format!("{} is not what its digest {name} stands for", pin.role)))
}
