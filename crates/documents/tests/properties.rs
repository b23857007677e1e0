//! What holds for every request: judging never panics, reasons are in order and inside of the
//! document, a draft with proper fields is accepted once it is approved.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::sync::LazyLock;

use common::{Case, cases, given, told};
use countersign_documents::request::{
    Cores, Destination, Input, Language, Network, NewRequest, Output, RequestedBy, Risk, RiskLevel,
    Sensitivity, Stage, approve, draft, judge,
};
use countersign_documents::{Code, Findings, Judgement, Reason};
use countersign_model::{Digest, Timestamp};
use proptest::prelude::*;
use proptest::sample::{Index, select};

static ACCEPTED: LazyLock<Vec<Case>> = LazyLock::new(|| cases("accept"));

fn check(bytes: &[u8], reasons: &[Reason]) {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.split('\n').collect();
    assert!(reasons.len() <= Findings::MAX);
    assert!(reasons.is_sorted_by_key(|reason| (reason.line, reason.column)));
    for reason in reasons {
        let line = lines.get(reason.line as usize - 1).expect("a line of the document");
        assert!((1..=line.chars().count() + 1).contains(&(reason.column as usize)));
        assert!(reason.message.chars().chain(reason.fix.chars()).all(|c| (' '..='~').contains(&c)));
    }
}

fn judged_at(bytes: &[u8], stage: Stage) {
    match judge(bytes, &given(None, stage)) {
        Judgement::Accept(request) => assert!(!request.command.words.is_empty()),
        Judgement::Reject(reasons) => {
            assert!(!reasons.is_empty());
            check(bytes, &reasons);
        }
    }
}

/// Pieces that documents are made of, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "---\n",
        "## Command\n",
        "## Input Files\n",
        "## Output Expectations\n",
        "## Risk Assessment\n",
        "- Risk level: low\n",
        "Justification: x\n",
        "- Data sensitivity: public\n",
        "Network rationale: none\n",
        "inputs:\n",
        "  - name: a.py\n",
        "    sha256: \"x\"\n",
        "constraints: []\n",
        "python a.py\n",
        "\n",
        " ",
        "\"",
        "'",
        "`",
        "$",
        "|",
        "<",
        ">",
        "#",
        "- ",
        "/in/",
        "/out/",
        "..",
        "\u{200b}",
        "é",
        "\t",
        "\r",
        "```\n",
        "[a]: b\n",
        "<!--",
        "-->",
        "network: none\n",
        "schema_version: 1\n",
        "&",
        "*",
        ":",
        ",",
        "=",
        "\\",
        "~",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn word(pattern: &'static str) -> impl Strategy<Value = String> {
    proptest::string::string_regex(pattern).unwrap()
}

/// A sentence about nothing that a rule knows.
fn sentence() -> impl Strategy<Value = String> {
    let words = select(vec![
        "sums", "of", "the", "yearly", "table", "with", "three", "columns", "größer", "\"so\"",
        "a\\b", "50%", "(all)",
    ]);
    prop::collection::vec(words, 1..12).prop_map(|words| words.join(" "))
}

fn network() -> impl Strategy<Value = Network> {
    let host = (word("[a-z][a-z0-9]{0,8}"), 1..=u16::MAX)
        .prop_map(|(name, port)| Destination { host: format!("{name}.example.org"), port });
    let hosts = prop::collection::btree_set(host, 1..4);
    prop_oneof![
        Just(Network::None),
        hosts.prop_map(|hosts| Network::Allowlist(hosts.into_iter().collect())),
    ]
}

fn new_request() -> impl Strategy<Value = NewRequest> {
    let names = prop::collection::btree_set(word("[a-z][a-z0-9_]{0,10}\\.csv"), 0..4);
    let outputs = prop::collection::btree_set(word("[a-z]{1,6}/[a-z]{1,6}\\.json"), 0..4);
    let fields = (word("[a-z0-9][a-z0-9-]{0,20}"), 0..1_000_000_000_i64, any::<bool>(), sentence());
    let limits = (1..=4000_u32, 1..=1024_u32, 1..=300_u32);
    let texts = (sentence(), prop::collection::vec(sentence(), 0..3));
    (fields, network(), limits, names, outputs, texts, select(Language::ALL.to_vec())).prop_map(
        |(
            (slug, seconds, human, purpose),
            network,
            (cpu, memory, time),
            names,
            outputs,
            (why, claims),
            language,
        )| {
            let program = match language {
                Language::Python => "program.py",
                Language::Node => "program.js",
                Language::Ts => "program.ts",
                Language::Go => "program.go",
                Language::Ruby => "program.rb",
            };
            let run = match language {
                Language::Python => "python",
                Language::Node | Language::Ts => "node",
                Language::Go => "go run",
                Language::Ruby => "ruby",
            };
            let input = |name: String| Input { sha256: Digest::of(name.as_bytes()), name };
            let files = names.iter().map(|name| format!(" /in/{name}"));
            let made = outputs.iter().map(|path| format!(" '/out/{path}'"));
            let rationale = match network {
                Network::None => "none".to_owned(),
                Network::Allowlist(_) => why.clone(),
            };
            NewRequest {
                slug,
                created: Timestamp::from_millis(seconds * 1000),
                requested_by: if human { RequestedBy::Human } else { RequestedBy::CoreDraft },
                purpose,
                language,
                network,
                cpu_limit: Cores { thousandths: cpu },
                memory_limit_mb: memory,
                time_limit_sec: time,
                command: format!(
                    "{run} {program}{}{}",
                    files.collect::<String>(),
                    made.collect::<String>()
                ),
                inputs: names.into_iter().chain([program.to_owned()]).map(input).collect(),
                outputs: outputs
                    .into_iter()
                    .map(|path| Output { path, description: why.clone() })
                    .collect(),
                claims,
                risk: Risk {
                    level: RiskLevel::Medium,
                    justification: why,
                    sensitivity: Sensitivity::Internal,
                    network_rationale: rationale,
                },
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        judged_at(&bytes, Stage::Approved);
    }

    #[test]
    fn any_pieces_are_judged(text in pieces()) {
        judged_at(text.as_bytes(), Stage::Approved);
        judged_at(format!("---\n{text}\n---\n{text}").as_bytes(), Stage::Draft);
    }

    #[test]
    fn drafts_are_accepted_once_they_are_approved(new in new_request(), after in 0..1_000_000_i64) {
        let text = draft(&new);
        let name = new.file_name();
        let as_draft = judge(text.as_bytes(), &given(Some(&name), Stage::Draft));
        prop_assert!(matches!(as_draft, Judgement::Accept(_)), "{}\n{}", told(&as_draft), text);
        let too_early = judge(text.as_bytes(), &given(Some(&name), Stage::Approved));
        prop_assert!(too_early.reasons().iter().all(|reason| reason.code == Code::NotApproved));
        let at = new.created.plus_millis(after * 1000);
        let approved = approve(text.as_bytes(), "human:ada", at).unwrap();
        let judgement = judge(&approved, &given(Some(&name), Stage::Approved));
        prop_assert!(matches!(judgement, Judgement::Accept(_)), "{}\n{}", told(&judgement), text);
        let request = judgement.accepted().unwrap();
        prop_assert_eq!(request.id, new.id());
        prop_assert_eq!(request.purpose, new.purpose);
        prop_assert_eq!(request.network, new.network);
        prop_assert_eq!(request.cpu_limit, new.cpu_limit);
        prop_assert_eq!(request.inputs, new.inputs);
        prop_assert_eq!(request.outputs, new.outputs);
        prop_assert_eq!(request.constraints.claims, new.claims);
        prop_assert_eq!(request.command.line, new.command);
        prop_assert_eq!(request.risk, new.risk);
        prop_assert_eq!(request.approved_by.as_deref(), Some("human:ada"));
        prop_assert_eq!(request.approved, Some(at));
    }

    #[test]
    fn changed_documents_are_judged(which in any::<Index>(), at in any::<Index>(), byte in any::<u8>()) {
        let mut bytes = which.get(&ACCEPTED).bytes.clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        judged_at(&bytes, Stage::Approved);
    }
}
