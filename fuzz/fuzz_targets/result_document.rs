//! Results: any bytes are judged, with reasons in order; and whatever a program printed, the result
//! that is written about it is accepted.
#![no_main]

use std::collections::BTreeMap;

use countersign_documents::request::Cores;
use countersign_documents::result::{
    Against, Backend, Captured, Ending, Limits, Outcome, Recorded, judge, render,
};
use countersign_documents::scan::Known;
use countersign_documents::{Findings, Judgement};
use countersign_model::Timestamp;
use libfuzzer_sys::fuzz_target;

const NOW: Timestamp = Timestamp::from_millis(1_772_323_200_000);

fn against(journal: Option<&Recorded>) -> Against<'_> {
    Against { file_name: None, now: NOW, request: None, journal }
}

/// The bytes as what a program printed, the first half to stdout.
fn outcome(printed: &[u8]) -> Outcome {
    let (stdout, stderr) = printed.split_at(printed.len() / 2);
    let known = Known::default();
    Outcome {
        backend: Backend { name: "fuzz".into(), version: None },
        command: "python script.py".into(),
        created: NOW,
        destinations: Vec::new(),
        ending: Ending::Exited(printed.first().copied().unwrap_or(0)),
        limits: Limits { cpu: Cores { thousandths: 1000 }, memory_mb: 64, time_sec: 10 },
        notes: BTreeMap::new(),
        produced: Vec::new(),
        request_id: "TR-20260209-160501Z-fuzz".into(),
        runtime_ms: 12,
        stderr: Captured::of(stderr, &known),
        stdout: Captured::of(stdout, &known),
    }
}

fuzz_target!(|data: &[u8]| {
    match judge(data, &against(None)).judgement {
        Judgement::Accept(result) => assert!(result.id.ends_with(&result.request_id)),
        Judgement::Reject(reasons) => {
            assert!((1..=Findings::MAX).contains(&reasons.len()));
            assert!(reasons.is_sorted_by_key(|reason| (reason.line, reason.column)));
        }
    }
    let outcome = outcome(data);
    let rendered = render(&outcome);
    let journal = Recorded::of(&outcome, &rendered);
    let judged = judge(rendered.text.as_bytes(), &against(Some(&journal)));
    assert_eq!(judged.judgement.reasons(), [], "{}", rendered.text);
});
