//! What people are asked, what they answer, and who may.

use countersign_journal::{AppendError, Batch, CallFilter, Conflict, Expect, JournalError};
use countersign_model::approval::may_answer;
use countersign_model::event::{self, CallEvent, Fact, Withdrawn};
use countersign_model::record::CallSummary;
use countersign_model::state::is_enough;
use countersign_model::{
    Answer, CallState, Consent, ExecutionId, Failure, GrantSignature, Lifecycle, Principal,
    Subject, Token,
};
use serde_json::{Value, json};

use crate::host::Host;
use crate::recorder::Recorder;

/// A call that waits, with everything that a person is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    pub call: CallSummary,
    pub subject: Subject,
    pub input: Value,
    /// Who answered so far, and what.
    pub answers: Vec<Consent>,
    /// The input of the last call of the same tool by the same principal that people agreed to.
    pub previous: Option<(ExecutionId, Value)>,
}

/// How often two people who answer at the same instant take turns.
const TURNS: u32 = 100;

impl Host {
    /// Calls that wait for people, those that expire first first.
    pub fn approvals(&self) -> Result<Vec<CallSummary>, Failure> {
        self.waiting(None)
    }

    fn waiting(&self, principal: Option<Principal>) -> Result<Vec<CallSummary>, Failure> {
        let mut waiting = Vec::new();
        let state = Some(Lifecycle::Validated);
        let filter = CallFilter { state, principal, open: true, ..CallFilter::default() };
        self.home.store.visit_calls(&filter, &mut |call| {
            waiting.extend(call.is_waiting().then_some(call));
            Ok(())
        })?;
        waiting.sort_by_key(|call| call.approval.as_ref().map(|asked| asked.expires_at));
        Ok(waiting)
    }

    /// Ends calls that nobody answered in time. Until somebody does, such a call merely waits in vain:
    /// it can neither be answered nor run.
    pub fn end_expired(&self) -> Result<Vec<ExecutionId>, Failure> {
        self.end_late(self.waiting(None)?)
    }

    /// Likewise for calls of one principal. Whether there were any.
    pub(crate) fn end_expired_of(&self, principal: &Principal) -> Result<bool, Failure> {
        let ended = self.end_late(self.waiting(Some(principal.clone()))?)?;
        Ok(!ended.is_empty())
    }

    fn end_late(&self, waiting: Vec<CallSummary>) -> Result<Vec<ExecutionId>, Failure> {
        let (mut ended, now) = (Vec::new(), self.clock.now());
        for call in waiting {
            if call.approval.as_ref().is_none_or(|asked| asked.expires_at > now) {
                continue;
            }
            let late = self.on_waiting_call(call.execution, |_, question, _| {
                let error = expired(question);
                Ok(CallEvent::Denied(event::Denied { error, facts: None, verdict: None }))
            });
            match late {
                Ok(_) => ended.push(call.execution),
                // Somebody else was faster.
                Err(failure) if failure.code == "NOT_WAITING" => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(ended)
    }

    /// What a person is shown, also after the call has gone on.
    pub fn approval(&self, execution: ExecutionId) -> Result<Approval, Failure> {
        let mut question = None;
        let mut answers = Vec::new();
        for stored in self.home.store.call_entries(execution)? {
            let Fact::Call(call) = stored.entry.fact else { continue };
            match call.event {
                CallEvent::Asked(asked) => question = Some(asked),
                CallEvent::Approved(consent) | CallEvent::Refused(consent) => answers.push(consent),
                _ => {}
            }
        }
        let call = self.home.store.call(execution)?;
        let (Some(question), Some(call)) = (question, call) else {
            let message = format!("nobody was asked about an execution {execution}");
            return Err(Failure::validation("APPROVAL_UNKNOWN", message)
                .hint("list what waits with `countersign approval list`"));
        };
        let subject = self.subject(execution, &question)?;
        let input = self.input_of(&call)?;
        let previous = self.previous(&call)?;
        Ok(Approval { call, subject, input, answers, previous })
    }

    pub(crate) fn subject(
        &self,
        execution: ExecutionId,
        question: &event::Asked,
    ) -> Result<Subject, Failure> {
        let bytes = self.home.payload(execution, &question.subject)?;
        read_json(&bytes, "what people were shown")
    }

    pub(crate) fn input_of(&self, call: &CallSummary) -> Result<Value, Failure> {
        read_json(&self.home.payload(call.execution, &call.input)?, "the input")
    }

    /// Newest first, so the first that fits is the last that was approved.
    fn previous(&self, call: &CallSummary) -> Result<Option<(ExecutionId, Value)>, Failure> {
        let filter = CallFilter {
            tool: Some(call.tool.clone()),
            principal: Some(call.principal.clone()),
            limit: Some(PREVIOUS),
            ..CallFilter::default()
        };
        let mut found = None;
        self.home.store.visit_calls(&filter, &mut |earlier| {
            let approved = earlier.approval.as_ref().is_some_and(|asked| asked.is_enough());
            if found.is_none() && earlier.execution < call.execution && approved {
                found = Some(earlier);
            }
            Ok(())
        })?;
        // What is no longer kept cannot be compared with, and keeps nobody from looking at this one.
        Ok(found.and_then(|earlier| Some((earlier.execution, self.input_of(&earlier).ok()?))))
    }

    /// Records one person's answer, signed with their own key. The call as it stands afterwards.
    pub fn answer(
        &self,
        execution: ExecutionId,
        token: &Token,
        answer: Answer,
        reason: Option<&str>,
    ) -> Result<CallSummary, Failure> {
        self.on_waiting_call(execution, |host, question, given| {
            let by = host.approver(token)?;
            let subject = host.subject(execution, question)?;
            may_answer(&subject.facts, &by, given)?;
            let now = host.clock.now();
            if now >= question.expires_at {
                return Err(expired(question));
            }
            if answer == Answer::Yes && is_enough(question, given) {
                let message = "as many people as it takes have agreed already";
                return Err(Failure::validation("APPROVAL_COMPLETE", message)
                    .hint(format!("run it with `countersign execution resume {execution}`")));
            }
            let consent = Consent {
                answer,
                at: now,
                by,
                key: token.id(),
                reason: reason.map(str::to_owned),
                signature: GrantSignature::from_bytes([0; 64]),
                subject: question.subject.digest,
            };
            let consent = consent.sign(&token.signing_key())?;
            Ok(match answer {
                Answer::Yes => CallEvent::Approved(consent),
                Answer::No => CallEvent::Refused(consent),
            })
        })
    }

    /// Whether the holder of a key may answer a call that waits, and who that is.
    pub fn may_answer(&self, execution: ExecutionId, token: &Token) -> Result<Principal, Failure> {
        let approval = self.approval(execution)?;
        if !approval.call.is_waiting() {
            return Err(answered(&approval.call));
        }
        let by = self.approver(token)?;
        may_answer(&approval.subject.facts, &by, &approval.answers)?;
        Ok(by)
    }

    /// The human whose key this is, if it is good for approving now.
    pub fn approver(&self, token: &Token) -> Result<Principal, Failure> {
        let (people, now) = (self.people()?, self.clock.now());
        people.book.authenticate(token, now)?;
        let (by, _) = people.book.approver(&token.id(), now)?;
        Ok(by.clone())
    }

    /// Whether an answer still counts: its signature fits, and its key was not revoked since. One
    /// that merely expired was good when it signed.
    pub(crate) fn is_sound(&self, consent: &Consent) -> Result<bool, Failure> {
        let people = self.people()?;
        let approver = people.book.approver(&consent.key, consent.at);
        let Ok((by, verifier)) = approver else { return Ok(false) };
        Ok(*by == consent.by && consent.is_genuine(&verifier))
    }

    /// Whoever asked no longer wants it; so may a human who looks after this home.
    pub fn withdraw(
        &self,
        execution: ExecutionId,
        by: &Principal,
        reason: Option<&str>,
    ) -> Result<CallSummary, Failure> {
        self.on_waiting_call(execution, |host, question, _| {
            let subject = host.subject(execution, question)?;
            if !subject.facts.is_asked_by(by) && !by.is_human() {
                let message = format!("`{by}` did not ask for this call");
                return Err(Failure::authorization("NOT_YOURS", message)
                    .hint("only whoever asked, or a human, withdraws a call"));
            }
            let (by, reason) = (by.clone(), reason.map(str::to_owned));
            Ok(CallEvent::Withdrawn(Withdrawn { by, reason }))
        })
    }

    /// Appends one fact to a call that waits, provided that nobody else's standing changed meanwhile.
    /// Whoever comes second looks again at what the first did.
    fn on_waiting_call(
        &self,
        execution: ExecutionId,
        fact: impl Fn(&Host, &event::Asked, &[Consent]) -> Result<CallEvent, Failure>,
    ) -> Result<CallSummary, Failure> {
        for _ in 0..TURNS {
            let record = self.fold(execution)?.ok_or_else(|| unknown(execution))?;
            let CallState::Waiting { asked, given } = &record.state else {
                return Err(answered(&record.summary));
            };
            let people = self.people()?.version;
            let event = fact(self, asked, given)?;
            let (store, clock) = (self.home.store.clone(), self.clock.clone());
            let mut recorder = Recorder::resume(store, clock, record);
            recorder.note(event)?;
            let expect = vec![Expect::PeopleAt(people)];
            match recorder.flush_with(Batch { expect, ..Batch::default() }) {
                Ok(()) => return Ok(recorder.summary().clone()),
                Err(AppendError::Conflict(Conflict::Call(_) | Conflict::People)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(JournalError::Internal("too many answers at once".to_owned()).into())
    }
}

/// How many earlier calls are looked through for one that was approved.
const PREVIOUS: u64 = 1_000;

fn read_json<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::state("JOURNAL_CORRUPT", format!("{what} cannot be read: {error}"))
    })
}

fn unknown(execution: ExecutionId) -> Failure {
    Failure::validation("EXECUTION_UNKNOWN", format!("there is no execution {execution}"))
        .hint("list them with `countersign execution list`")
}

/// The first answer counts: a call that has gone on cannot be answered again.
fn answered(call: &CallSummary) -> Failure {
    let message = format!("execution {} is {} and waits for nobody", call.execution, call.state);
    Failure::validation("NOT_WAITING", message)
        .hint(format!("see what became of it with `countersign execution show {}`", call.execution))
}

/// Not a refusal: it goes on when people agree.
pub(crate) fn pending(execution: ExecutionId, question: &event::Asked, given: usize) -> Failure {
    let people = match question.approvers {
        1 => "a human".to_owned(),
        n => format!("{n} humans ({given} agreed so far)"),
    };
    let message = format!("the call waits for {people}, until {}", question.expires_at);
    Failure::authorization("APPROVAL_REQUIRED", message)
        .hint(format!(
            "a human decides with `countersign approval show {execution}`; then run it with \
             `countersign execution resume {execution}`"
        ))
        .details(json!({
            "approval": execution,
            "approvers": question.approvers,
            "given": given,
            "expiresAt": question.expires_at,
            "subject": question.subject.digest,
        }))
}

/// Nobody reads a thousand questions; whoever asks so many is not asking.
pub(crate) fn too_many(principal: &Principal, most: u32) -> Failure {
    let message = format!("{most} calls of `{principal}` wait for people already");
    Failure::authorization("TOO_MANY_WAITING", message).hint(
        "have some of them answered, or withdraw them with `countersign approval withdraw`; \
         `[approval] max_waiting_per_principal` in countersign.toml allows more",
    )
}

/// Nobody said no: nobody said anything in time.
pub(crate) fn expired(question: &event::Asked) -> Failure {
    let message = format!("nobody decided before {}", question.expires_at);
    Failure::authorization("APPROVAL_EXPIRED", message).hint("call again to ask again")
}

/// What was agreed to is no longer what would run.
pub(crate) const VOID: &str = "APPROVAL_VOID";

pub(crate) fn void(changes: &[&str]) -> Failure {
    let message = format!("{} changed after the call was shown", changes.join(", "));
    Failure::authorization(VOID, message)
        .hint("what people agreed to is not what would run now; call again to ask again")
        .details(json!({ "changed": changes }))
}

/// A part of what was shown is not there any more, or nobody can tell.
pub(crate) fn void_without(what: &str, cause: &Failure) -> Failure {
    let message = format!("{what} cannot be read any more: {}", cause.message);
    Failure::authorization(VOID, message)
        .hint("what people agreed to cannot run now; mend that, then call again to ask again")
        .details(json!({ "changed": [what], "cause": cause.code }))
}
