//! Requests: any bytes are judged, with reasons in order, and a draft that is accepted is still
//! accepted when a person approves it.
#![no_main]

use countersign_documents::request::{Ceilings, Given, Stage, approve, judge};
use countersign_documents::{Findings, Judgement};
use countersign_model::Timestamp;
use libfuzzer_sys::fuzz_target;

const NOW: Timestamp = Timestamp::from_millis(1_772_323_200_000);

/// What an approval adds could make a document too large.
const ROOM: usize = 256;

fn given(stage: Stage) -> Given<'static> {
    Given { file_name: None, now: NOW, ceilings: Ceilings::default(), stage }
}

fuzz_target!(|data: &[u8]| {
    for stage in [Stage::Draft, Stage::Approved] {
        match judge(data, &given(stage)) {
            Judgement::Accept(request) => {
                assert!(!request.command.words.is_empty());
                assert!(stage == Stage::Draft || request.approved.is_some());
                let at = request.created.max(NOW);
                let Ok(approved) = approve(data, "human:ada", at) else { continue };
                let judgement = judge(&approved, &given(Stage::Approved));
                assert!(data.len() + ROOM > 65_536 || judgement.reasons().is_empty());
            }
            Judgement::Reject(reasons) => {
                assert!((1..=Findings::MAX).contains(&reasons.len()));
                assert!(reasons.is_sorted_by_key(|reason| (reason.line, reason.column)));
            }
        }
    }
});
