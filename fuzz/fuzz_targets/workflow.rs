//! Workflow definitions: any bytes are read or refused with problems, what is read keeps its source,
//! and a run of it rests or ends however its work turns out.
#![no_main]

use countersign_flow::decide::{Context, Decision, Outcome, advance, deadline, settle};
use countersign_flow::run::RunState;
use countersign_flow::seed::{Limits, NewRun, create};
use countersign_flow::{Definition, NewEvent, Offers, RunEvent, seal};
use countersign_model::Timestamp;
use libfuzzer_sys::fuzz_target;
use serde_json::Map;

fuzz_target!(|data: &[u8]| {
    let definition = match Definition::parse(data) {
        Ok(definition) => definition,
        Err(problems) => return assert!(!problems.is_empty()),
    };
    let again = Definition::of(definition.source().clone()).unwrap();
    assert_eq!(definition.digest(), again.digest());
    let mut context = Context { now: Timestamp::from_millis(0), offers: Offers::conformance() };
    let limits = Limits { max_node_executions: 200, ..Limits::default() };
    let new = NewRun { run_id: "run-1".to_owned(), ..NewRun::default() };
    let Ok(seed) = create(&definition, new, &context.offers, &limits, context.now) else { return };
    let mut state = RunState::new(&definition, &seed);
    for _ in 0..300 {
        let Decision { events, work, fault } = advance(&definition, &seed, &state, &context);
        assert_eq!(fault, None);
        let moved = !events.is_empty();
        apply(&mut state, events, context.now);
        let Some(key) = work.iter().find_map(|work| work.key()) else {
            if !moved {
                break;
            }
            continue;
        };
        let (outputs, variables) = (Map::new(), Map::new());
        let outcome = Outcome::Completed { outputs, variables };
        if let Ok(events) = settle(&definition, &seed, &state, key, outcome, &context) {
            apply(&mut state, events, context.now);
        }
        context.now = deadline(&definition, &seed, &state).unwrap_or(context.now);
    }
    let rest = advance(&definition, &seed, &state, &context);
    assert!(state.end.is_none() || rest.events.is_empty());
});

/// Whatever is decided can follow what was before, and is read back as it was written.
fn apply(state: &mut RunState, events: Vec<NewEvent>, now: Timestamp) {
    for event in seal(state.next, events, now) {
        let stored = serde_json::to_vec(&event).unwrap();
        assert_eq!(serde_json::from_slice::<RunEvent>(&stored).unwrap(), event);
        state.apply(&event).unwrap();
    }
}
