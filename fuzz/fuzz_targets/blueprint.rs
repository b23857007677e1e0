//! Blueprints: any text is read or refused with problems, and what is read becomes a workflow.
#![no_main]

use countersign_flow::Blueprint;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Blueprint::parse(text) {
        Ok(blueprint) => {
            // Names of stages may meet those that are made for their gates; nothing else is left.
            if let Err(problems) = blueprint.compile(&|action| action.to_owned()) {
                assert!(problems.iter().all(|problem| problem.code == "WORKFLOW_ID_TWICE"));
            }
        }
        Err(problems) => assert!(!problems.is_empty()),
    }
});
