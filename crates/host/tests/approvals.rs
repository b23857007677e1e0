//! Calls that wait for people: who may answer, what an answer binds, and that it is used once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use common::boxes::Boxes;
use common::office::{Office, denied, refused, waits, yes};
use common::store::{At, Mishap};
use common::{HOUR, agent, ending, names, verify_chain};
use countersign_host::people::CreateKey;
use countersign_host::{CallCommand, Cancel, Clock, Host, Outcome, receipts};
use countersign_journal::receipt::verify;
use countersign_model::event::CallEvent;
use countersign_model::{Answer, ExecutionId, Failure, KeyScope, Lifecycle, Principal, Token};
use countersign_sandbox::backend::StagedForm;
use countersign_sandbox::{Ending, LimitKind};
use serde_json::json;

#[test]
fn a_call_waits_is_approved_and_runs_once() {
    let office = Office::new();
    let host = office.host();
    let ann = office.hire(&host, "human:ann");
    let execution = office.ask(&host);
    assert_eq!(office.bench.text("a.txt").as_deref(), Some("precious"));
    assert_eq!(names(&host, execution), ["declared", "validated", "asked"]);
    let again = office.resume(&host, execution);
    waits(&again);
    let last = host.home().store.call_entries(execution).unwrap().pop().unwrap();
    assert_eq!((again.receipt.entry, again.receipt.hash), (last.entry.seq, last.hash));
    let call = host.answer(execution, &ann, Answer::Yes, Some("fine")).unwrap();
    assert!(call.approval.unwrap().is_enough());
    let outcome = office.resume(&host, execution);
    assert_eq!(outcome.state, Lifecycle::Completed, "{outcome:?}");
    assert_eq!(office.bench.text("a.txt"), None);
    let again = host.resume(execution, Cancel::default()).unwrap_err();
    assert_eq!(again.code, "NOT_WAITING", "used once");
    refused(yes(&host, execution, &ann), "NOT_WAITING");
    let authorized = common::facts(&host, execution).into_iter().find_map(|event| match event {
        CallEvent::Authorized(authorized) => Some(authorized),
        _ => None,
    });
    let authorized = authorized.unwrap();
    assert!(authorized.approval.is_some());
    assert_eq!(authorized.verdict.unwrap().rules(), ["office/deletes"]);
    verify_chain(&host);
}

#[test]
fn only_humans_who_did_not_ask_may_answer() {
    let office = Office::new();
    let host = office.host();
    let ann = office.hire(&host, "human:ann");
    let execution = office.ask(&host);
    let machine = office.hire(&host, "agent:other");
    refused(yes(&host, execution, &machine), "HUMANS_ONLY");
    let service: Principal = "service:ci".parse().unwrap();
    let forbidden = office.key(&host, &service, [KeyScope::Approve].into());
    assert!(forbidden.is_err(), "no machine gets a key that approves");
    let reader = office.key(&host, &"human:eve".parse().unwrap(), [KeyScope::Read].into());
    refused(yes(&host, execution, &reader.unwrap()), "KEY_SCOPE_MISSING");
    let stranger = Token::new(ann.id(), [9; 32]);
    refused(yes(&host, execution, &stranger), "KEY_UNKNOWN");

    // Whoever asks, by themselves or through an agent, never approves it: on any path.
    let (tool, input) = ("file.delete".parse().unwrap(), json!({"path": "a.txt"}));
    let input = input.to_string().into_bytes();
    let command = CallCommand {
        chain: vec!["human:bob".parse().unwrap(), "human:ann".parse().unwrap()],
        root: Some(office.bench.root()),
        ..CallCommand::new(tool, input, agent())
    };
    let through = waits(&host.call(command).unwrap());
    refused(yes(&host, through, &ann), "APPROVAL_OWN");
    let bob = office.hire(&host, "human:bob");
    refused(yes(&host, through, &bob), "APPROVAL_OWN");
    let refusal = host.answer(through, &bob, Answer::No, None);
    assert_eq!(refusal.unwrap_err().code, "APPROVAL_OWN", "withdrawing is another thing");
    yes(&host, execution, &bob).unwrap();
}

#[test]
fn a_quorum_takes_different_people() {
    let office = Office::new();
    let host = office.host();
    let (ann, bob) = (office.hire(&host, "human:ann"), office.hire(&host, "human:bob"));
    let second = CreateKey {
        principal: "human:ann".parse().unwrap(),
        tenant: None,
        scopes: [KeyScope::Approve].into(),
        expires_at: office.bench.clock.now().plus_millis(HOUR),
        by: "human:root".parse().unwrap(),
    };
    let (_, another) = host.create_key(&second).unwrap();
    let execution = office.ask_two(&host);
    yes(&host, execution, &ann).unwrap();
    refused(yes(&host, execution, &ann), "APPROVAL_TWICE");
    refused(yes(&host, execution, &another), "APPROVAL_TWICE");
    waits(&office.resume(&host, execution));
    yes(&host, execution, &bob).unwrap();
    let carol = office.hire(&host, "human:carol");
    refused(yes(&host, execution, &carol), "APPROVAL_COMPLETE");
    assert_eq!(office.resume(&host, execution).state, Lifecycle::Completed);
}

#[test]
fn refused_expired_and_withdrawn_are_three_things() {
    let office = Office::new();
    let host = office.host();
    let ann = office.hire(&host, "human:ann");
    let [first, second, third, late] = [(); 4].map(|()| office.ask(&host));

    host.answer(first, &ann, Answer::No, Some("not today")).unwrap();
    let call = host.home().store.call(first).unwrap().unwrap();
    let error = call.error.unwrap();
    assert_eq!((call.state, error.code.as_ref()), (Lifecycle::Denied, "APPROVAL_REFUSED"));
    assert!(error.message.contains("not today"), "{error}");
    refused(yes(&host, first, &ann), "NOT_WAITING");

    let eve: Principal = "agent:eve".parse().unwrap();
    assert_eq!(host.withdraw(second, &eve, None).unwrap_err().code, "NOT_YOURS");
    let call = host.withdraw(second, &agent(), None).unwrap();
    assert_eq!(call.error.unwrap().code, "APPROVAL_WITHDRAWN");

    yes(&host, third, &ann).unwrap();
    office.bench.clock.advance(24 * HOUR);
    denied(&office.resume(&host, third), "APPROVAL_EXPIRED");
    refused(yes(&host, late, &ann), "APPROVAL_EXPIRED");
    assert_eq!(host.end_expired().unwrap(), [late]);
    assert_eq!(host.end_expired().unwrap(), []);
    let call = host.home().store.call(late).unwrap().unwrap();
    assert_eq!(
        (call.state, call.error.unwrap().code.as_ref()),
        (Lifecycle::Denied, "APPROVAL_EXPIRED")
    );
    assert_eq!(office.bench.text("a.txt").as_deref(), Some("precious"));
    verify_chain(&host);
}

/// Changes something between the approval and the run, and expects that nothing runs.
fn voided_by(change: impl FnOnce(&Office, &Host), what: &str) {
    let office = Office::new();
    let host = office.host();
    let ann = office.hire(&host, "human:ann");
    let execution = office.ask(&host);
    yes(&host, execution, &ann).unwrap();
    change(&office, &host);
    let later = office.host();
    let outcome = office.resume(&later, execution);
    denied(&outcome, "APPROVAL_VOID");
    let message = outcome.result.unwrap_err().message;
    assert!(message.contains(what), "{message}");
    assert!(office.bench.text("a.txt").is_some(), "{what}");
    verify_chain(&later);
}

#[test]
fn whatever_changes_after_the_approval_makes_it_void() {
    voided_by(|office, _| office.bench.write("a.txt", "something else"), "the workspace");
    voided_by(
        |office, _| {
            let path = office.bench.home().join("tools/file.delete.json");
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.replace("\"maxMemory\": ", "\"maxMemory\": 1");
            std::fs::write(&path, text).unwrap();
        },
        "the tool",
    );
    voided_by(
        |office, _| {
            let path = office.bench.home().join("policy/other.cedar");
            std::fs::write(path, "permit (principal, action, resource);").unwrap();
        },
        "the policies",
    );
    voided_by(
        |_, host| {
            let people = host.people().unwrap();
            let ann: Principal = "human:ann".parse().unwrap();
            let key = people.book.keys_of(&ann).next().unwrap().record.id;
            host.revoke_key(key, &"human:root".parse().unwrap(), Some("stolen")).unwrap();
        },
        "who may approve",
    );
}

/// An approved call, and the host that takes it up after something was taken away.
fn approved_then(taken: impl FnOnce(&Office)) -> (Office, ExecutionId) {
    let office = Office::new();
    let host = office.host();
    let ann = office.hire(&host, "human:ann");
    let execution = office.ask(&host);
    yes(&host, execution, &ann).unwrap();
    taken(&office);
    (office, execution)
}

fn remove_tool(office: &Office) {
    std::fs::remove_file(office.bench.home().join("tools/file.delete.json")).unwrap();
}

fn break_policy(office: &Office) {
    let path = office.bench.home().join("policy/broken.cedar");
    std::fs::write(path, "permit (principal").unwrap();
}

fn move_root(office: &Office) {
    std::fs::rename(office.bench.root(), office.bench.path().join("elsewhere")).unwrap();
}

/// What is taken away, what is then said to be unreadable, and why.
type Case = (&'static str, fn(&Office), &'static str, &'static str);

#[test]
fn what_cannot_be_read_any_more_makes_an_approval_void() {
    let break_tools = |office: &Office| {
        std::fs::write(office.bench.home().join("tools/other.json"), "{").unwrap();
    };
    let replace_root = |office: &Office| {
        move_root(office);
        std::fs::write(office.bench.root(), "a file").unwrap();
    };
    let replace_file = |office: &Office| {
        std::fs::remove_file(office.bench.root().join("a.txt")).unwrap();
        std::fs::create_dir(office.bench.root().join("a.txt")).unwrap();
    };
    let cases: [Case; 6] = [
        ("no tool", remove_tool, "the tool", "TOOL_UNKNOWN"),
        ("no tools", break_tools, "the tool", "TOOLS_INVALID"),
        ("no root", move_root, "the workspace", "ROOT_INVALID"),
        ("a file for a root", replace_root, "the workspace", "ROOT_INVALID"),
        ("no file", replace_file, "the workspace", "NOT_A_FILE"),
        ("no policies", break_policy, "the policies", "POLICY_INVALID"),
    ];
    for (case, taken, what, code) in cases {
        let (office, execution) = approved_then(taken);
        let host = office.host();
        let outcome = office.resume(&host, execution);
        denied(&outcome, "APPROVAL_VOID");
        let error = outcome.result.unwrap_err();
        assert!(error.message.contains(&format!("{what} cannot be read")), "{case}: {error}");
        let details = error.details.unwrap();
        assert_eq!((&details["changed"][0], &details["cause"]), (&json!(what), &json!(code)));
        let again = host.resume(execution, Cancel::default()).unwrap_err();
        assert_eq!(again.code, "NOT_WAITING", "{case}: what comes back later is another matter");
        verify_chain(&host);
    }
}

#[test]
fn what_expired_is_expired_whatever_else_is_gone() {
    for taken in [remove_tool, move_root, break_policy] {
        let (office, execution) = approved_then(taken);
        office.bench.clock.advance(24 * HOUR);
        denied(&office.resume(&office.host(), execution), "APPROVAL_EXPIRED");
    }
}

#[test]
fn what_still_waits_does_so_whatever_is_gone() {
    for taken in [remove_tool, move_root, break_policy] {
        let office = Office::new();
        let execution = office.ask(&office.host());
        taken(&office);
        let host = office.host();
        waits(&office.resume(&host, execution));
        assert_eq!(names(&host, execution), ["declared", "validated", "asked"]);
    }
}

/// The journal's own trouble says nothing about what was approved.
#[test]
fn a_journal_that_fails_voids_nothing() {
    let (office, execution) = approved_then(|office| {
        let path = office.bench.home().join("policy/other.cedar");
        std::fs::write(path, "permit (principal, action, resource);").unwrap();
    });
    let store = office.bench.store();
    let host = office.bench.host_on(Arc::clone(&store));
    store.plan(At::Append(1), Mishap::Fails);
    let failure = host.resume(execution, Cancel::default()).unwrap_err();
    assert_eq!(failure.code, "JOURNAL_FULL", "the new set could not be recorded");
    assert_eq!(host.approvals().unwrap().len(), 1);
    std::fs::remove_file(office.bench.home().join("policy/other.cedar")).unwrap();
    assert_eq!(office.resume(&office.host(), execution).state, Lifecycle::Completed);
}

#[test]
fn a_grant_that_is_gone_still_counts_for_nothing() {
    let office = Office::new();
    let host = office.host();
    let ann = office.hire(&host, "human:ann");
    let execution = office.ask(&host);
    yes(&host, execution, &ann).unwrap();
    office.bench.clock.advance(2 * HOUR);
    denied(&office.resume(&host, execution), "GRANT_EXPIRED");
}

#[test]
fn a_waiting_call_survives_every_restart_and_is_not_recovered_away() {
    let office = Office::new();
    let ann = office.hire(&office.host(), "human:ann");
    let execution = office.ask(&office.host());
    assert!(office.host().recover().unwrap().rolled_back.is_empty());
    assert_eq!(office.host().approvals().unwrap().len(), 1);
    yes(&office.host(), execution, &ann).unwrap();
    let host = office.host();
    assert_eq!(host.approvals().unwrap().len(), 1, "approved, and not yet run");
    assert_eq!(office.resume(&host, execution).state, Lifecycle::Completed);
    assert!(host.approvals().unwrap().is_empty());
}

#[test]
fn two_people_who_answer_at_the_same_instant_both_count() {
    let office = Office::new();
    let host = Arc::new(office.host());
    let people = ["human:ann", "human:bob"].map(|name| office.hire(&host, name));
    for _ in 0..10 {
        let execution = office.ask_two(&host);
        thread::scope(|scope| {
            for token in &people {
                let host = Arc::clone(&host);
                scope.spawn(move || yes(&host, execution, token).unwrap());
            }
        });
        assert_eq!(office.resume(&host, execution).state, Lifecycle::Completed);
    }
    let execution = office.ask(&host);
    let results: Vec<_> = thread::scope(|scope| {
        let answers = people.iter().map(|token| {
            let host = Arc::clone(&host);
            scope.spawn(move || yes(&host, execution, token))
        });
        let threads: Vec<_> = answers.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "one is enough");
}

#[test]
fn two_resumes_at_once_run_it_once() {
    let office = Office::new();
    let host = Arc::new(office.host());
    let ann = office.hire(&host, "human:ann");
    let execution = office.ask(&host);
    yes(&host, execution, &ann).unwrap();
    let ended: Vec<_> = thread::scope(|scope| {
        let resume = |host: Arc<Host>| move || host.resume(execution, Cancel::default());
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(resume(Arc::clone(&host)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let completed = |result: &&Result<Outcome, Failure>| matches!(result, Ok(outcome) if outcome.state == Lifecycle::Completed);
    assert_eq!(ended.iter().filter(completed).count(), 1, "{ended:?}");
    verify_chain(&host);
}

#[test]
fn policy_blocks_and_says_which_rule() {
    let office = Office::new();
    let path = office.bench.home().join("policy/never.cedar");
    let text = "@id(\"never\") @reason(\"not here\") forbid (principal, action, resource == \
                Tool::\"file.write\");";
    std::fs::write(&path, text).unwrap();
    let host = office.host();
    let input = json!({"path": "b.txt", "content": "x"});
    let outcome = office.bench.call(&host, "file.write", &input);
    denied(&outcome, "POLICY_BLOCKED");
    let error = outcome.result.unwrap_err();
    assert!(error.message.contains("never/never") && error.message.contains("not here"), "{error}");
    // The same process sees the change at its next call.
    std::fs::remove_file(&path).unwrap();
    office.bench.done(&host, "file.write", &input);
    std::fs::write(&path, "permit (principal, action, resource").unwrap();
    let broken = host.call(office.bench.command("file.write", &input)).unwrap_err();
    assert_eq!(broken.code, "POLICY_INVALID", "what cannot be read lets nothing run");
    std::fs::remove_dir_all(office.bench.home().join("policy")).unwrap();
    let outcome = office.bench.call(&host, "file.write", &input);
    denied(&outcome, "POLICY_BLOCKED");
}

#[test]
fn what_a_person_is_shown_is_what_the_call_would_do() {
    let office = Office::new();
    let host = office.host();
    let ann = office.hire(&host, "human:ann");
    let first = office.ask(&host);
    let shown = host.approval(first).unwrap();
    assert_eq!(shown.input, json!({"path": "a.txt"}));
    assert!(shown.previous.is_none());
    let path = office.bench.root().canonicalize().unwrap().join("a.txt");
    let touched = &shown.subject.facts.effects;
    assert!(touched.iter().any(|need| need.resource == path.display().to_string()), "{touched:?}");
    assert_eq!(shown.subject.verdict.rules(), ["office/deletes"]);
    yes(&host, first, &ann).unwrap();
    office.resume(&host, first);
    office.bench.write("b.txt", "other");
    let second = waits(&office.bench.call(&host, "file.delete", &json!({"path": "b.txt"})));
    let previous = host.approval(second).unwrap().previous;
    assert_eq!(previous, Some((first, json!({"path": "a.txt"}))));
    let none = office.bench.call(&host, "text.digest", &json!({"text": "x"})).execution;
    assert_eq!(host.approval(none).unwrap_err().code, "APPROVAL_UNKNOWN");
}

/// The whole life of an approval, on a store that may fail; what was reached.
fn live(office: &Office, host: &Host, ann: &Token) -> Result<Outcome, Failure> {
    let asked = host.call(office.bench.command("file.delete", &json!({"path": "a.txt"})))?;
    host.answer(asked.execution, ann, Answer::Yes, None)?;
    host.resume(asked.execution, Cancel::default())
}

#[test]
fn an_append_that_fails_anywhere_leaves_a_call_that_can_be_finished() {
    for mishap in [Mishap::Fails, Mishap::AnswerLost] {
        for append in 1.. {
            let office = Office::new();
            let ann = office.hire(&office.host(), "human:ann");
            let store = office.bench.store();
            let host = office.bench.host_on(Arc::clone(&store));
            store.plan(At::Append(append), mishap);
            let reached = live(&office, &host, &ann);
            drop(host);
            let host = office.host();
            if reached.as_ref().is_ok_and(|outcome| outcome.state == Lifecycle::Completed) {
                assert_eq!(office.bench.text("a.txt"), None);
                assert!(append > 3, "asking, answering and running are appended");
                break;
            }
            finish(&office, &host, &ann);
            verify_chain(&host);
        }
    }
}

/// Takes up whatever waits, and expects that it has not run, and runs once now.
fn finish(office: &Office, host: &Host, ann: &Token) {
    let waiting = host.approvals().unwrap();
    let Some(call) = waiting.first() else {
        // Nothing was asked, or what ran was finished or rolled back when this host was opened.
        return;
    };
    assert_eq!(office.bench.text("a.txt").as_deref(), Some("precious"));
    if !call.approval.as_ref().unwrap().is_enough() {
        yes(host, call.execution, ann).unwrap();
    }
    assert_eq!(office.resume(host, call.execution).state, Lifecycle::Completed);
    assert_eq!(office.bench.text("a.txt"), None);
}

#[test]
fn receipts_prove_who_agreed_to_what() {
    let office = Office::new();
    let host = office.host();
    let (ann, bob) = (office.hire(&host, "human:ann"), office.hire(&host, "human:bob"));
    let key = host.home().journal_key.verifier().clone();
    let report = |execution| {
        let file = receipts::create(host.home(), host.registry(), execution, false).unwrap();
        let report = verify(&file, &key);
        assert!(report.is_verified(), "{:#?}", report.problems);
        report
    };
    let execution = office.ask_two(&host);
    assert!(!report(execution).call.unwrap().terminal, "it waits, and the receipt says so");
    yes(&host, execution, &ann).unwrap();
    yes(&host, execution, &bob).unwrap();
    office.resume(&host, execution);
    let proven = report(execution);
    assert_eq!(proven.call.as_ref().unwrap().state, Lifecycle::Completed);
    let names: Vec<_> = proven.answers.iter().map(|answer| answer.by.to_string()).collect();
    assert_eq!(names, ["human:ann", "human:bob"]);
    assert_eq!(proven.verdict.unwrap().rules(), ["office/two"]);
    let refused = office.ask(&host);
    host.answer(refused, &bob, Answer::No, Some("no")).unwrap();
    assert_eq!(report(refused).call.unwrap().state, Lifecycle::Denied);
}

#[test]
fn a_key_that_is_revoked_at_the_last_moment_still_counts_for_nothing() {
    for fact in ["authorized", "committed"] {
        let office = Office::new();
        let host = office.host();
        let ann = office.hire(&host, "human:ann");
        let execution = office.ask(&host);
        yes(&host, execution, &ann).unwrap();
        let store = office.bench.store();
        let other = office.host();
        let key = ann.id();
        store.before(fact, move || {
            other.revoke_key(key, &"human:root".parse().unwrap(), Some("stolen")).unwrap();
        });
        let host = office.bench.host_on(Arc::clone(&store));
        let outcome = office.resume(&host, execution);
        assert_eq!((outcome.state, ending(&outcome).2), (Lifecycle::RolledBack, "APPROVAL_VOID"));
        assert_eq!(office.bench.text("a.txt").as_deref(), Some("precious"));
        verify_chain(&host);
    }
}

/// Two are asked after six, one before: what was asked before is not enough afterwards.
#[test]
fn policy_that_asks_for_more_when_the_call_runs_is_obeyed() {
    let office = Office::new();
    let policy = "@id(\"late\") @approvers(\"2\") forbid (principal, action == \
                  Action::\"invoke_unattended\", resource == Tool::\"file.delete\") \
                  when { context.time.unix >= 1800000600 };";
    std::fs::write(office.bench.home().join("policy/late.cedar"), policy).unwrap();
    let host = office.host();
    let ann = office.hire(&host, "human:ann");
    let execution = office.ask(&host);
    yes(&host, execution, &ann).unwrap();
    office.bench.clock.advance(HOUR / 2);
    denied(&office.resume(&host, execution), "APPROVAL_VOID");
    assert!(office.bench.text("a.txt").is_some());
}

/// The agent owns the workspace and may change it whenever it likes, also between two attempts.
#[test]
fn a_workspace_that_changes_before_a_retry_is_not_what_was_approved() {
    let office = Office::new();
    let policy = "@id(\"programs\") @approvers(\"1\") forbid (principal, action == \
                  Action::\"invoke_unattended\", resource == Tool::\"test.program\");";
    std::fs::write(office.bench.home().join("policy/programs.cedar"), policy).unwrap();
    office.bench.declare_program("test.program", |declaration| {
        declaration["idempotent"] = json!(true);
    });
    let root = office.bench.root();
    let boxes = Boxes::new(StagedForm::Upper, move |_| {
        std::fs::write(root.join("Makefile"), "all: evil").unwrap();
        Ending::Limit { limit: LimitKind::WallTime }
    });
    let host = office.bench.host_with(&boxes);
    let ann = office.hire(&host, "human:ann");
    let execution = waits(&host.call(office.bench.command("test.program", &json!({}))).unwrap());
    yes(&host, execution, &ann).unwrap();
    let outcome = office.resume(&host, execution);
    assert_eq!((outcome.state, ending(&outcome).2), (Lifecycle::RolledBack, "APPROVAL_VOID"));
    assert_eq!(boxes.runs.load(Ordering::SeqCst), 1, "it ran once, on what was approved");
    verify_chain(&host);
}

#[test]
fn what_takes_two_people_is_not_remembered_by_one() {
    let office = Office::new();
    let host = office.host();
    let ann: Principal = "human:ann".parse().unwrap();
    let until = office.bench.clock.now().plus_millis(HOUR);
    let two = host.approval(office.ask_two(&host)).unwrap();
    let proposal = host.propose(&two, &ann, until);
    let refused = host.check_proposal(&two, &ann, until, &proposal).unwrap_err();
    assert_eq!(refused.code, "MEMORY_NEEDS_ONE");
    let one = host.approval(office.ask(&host)).unwrap();
    let mut proposal = host.propose(&one, &ann, until);
    host.check_proposal(&one, &ann, until, &proposal).unwrap();
    proposal.text = proposal.text.replace("@until", "@description");
    let wide = host.check_proposal(&one, &ann, until, &proposal).unwrap_err();
    assert_eq!(wide.code, "MEMORY_NOT_NARROW", "it would never end");
}
