//! The documentation: its table of codes is the table in the code, its example is accepted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::path::Path;

use common::{given, told};
use countersign_documents::request::{Request, Stage, judge};
use countersign_documents::result::{self, Against, Note};
use countersign_documents::{Code, Judgement};

fn documentation() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/documents.md");
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_of_a_request_is_accepted() {
    let text = documentation();
    let (_, example) = text.split_once("```markdown\n").unwrap();
    let (example, _) = example.split_once("```\n").unwrap();
    let name = "TR-20260209-160501Z-python-stats.md";
    let judgement = judge(example.as_bytes(), &given(Some(name), Stage::Approved));
    assert!(matches!(judgement, Judgement::Accept(_)), "{}", told(&judgement));
}

#[test]
fn every_code_is_documented_as_it_is() {
    let text = documentation();
    let (_, table) = text.split_once("\n## Codes\n").expect("a heading `Codes`");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = Code::ALL.iter().map(|code| row(*code)).collect();
    assert_eq!(rows, expected, "the table should be\n{}\n", expected.join("\n"));
}

fn row(code: Code) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    format!("| `{code}` | {} | {} |", cell(code.meaning()), cell(code.fix()))
}

#[test]
fn the_example_of_a_result_is_accepted() {
    let text = documentation();
    let (_, examples) = text.split_once("\n## Results\n").unwrap();
    let (_, example) = examples.split_once("```markdown\n").unwrap();
    let (example, _) = example.split_once("```\n").unwrap();
    let name = "TS-20260209-161230Z-TR-20260209-160501Z-python-stats.md";
    let request = request(&text);
    let now = given(None, Stage::Approved).now;
    let against = Against { file_name: Some(name), now, request: Some(&request), journal: None };
    let judgement = result::judge(example.as_bytes(), &against).judgement;
    assert!(matches!(judgement, Judgement::Accept(_)), "{}", told(&judgement));
}

fn request(text: &str) -> Request {
    let (_, example) = text.split_once("```markdown\n").unwrap();
    let (example, _) = example.split_once("```\n").unwrap();
    judge(example.as_bytes(), &given(None, Stage::Approved)).accepted().unwrap()
}

#[test]
fn every_note_is_documented_as_it_is() {
    let text = documentation();
    for note in Note::ALL {
        let row = format!("\n| `{}` | {} |\n", note.as_str(), note.meaning());
        assert!(text.contains(&row), "{row}");
    }
}
