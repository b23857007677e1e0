//! Context packs: any request over any files gives an error, or a text with exactly the tokens it
//! claims, within its budget, the same every time.
#![no_main]

use countersign_model::Failure;
use countersign_pack::{
    Change, ChangeStatus, Commit, Entry, EntryKind, Request, Sources, Tokenizer, build,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Case {
    /// As it would come from outside.
    request: String,
    task: Option<String>,
    budget: u16,
    most: Option<u8>,
    other: bool,
    paths: Vec<String>,
    exclude: Vec<String>,
    workspace: Workspace,
}

#[derive(Debug, Arbitrary)]
struct Workspace {
    files: Vec<(String, Vec<u8>)>,
    diffs: Vec<(String, Vec<u8>)>,
    commits: Vec<(String, String)>,
}

fn found(list: &[(String, Vec<u8>)], path: &str, at_most: u64) -> Result<Vec<u8>, Failure> {
    let absent = || Failure::execution("NO_SUCH_FILE", "it is not there");
    let (_, bytes) = list.iter().find(|(name, _)| name == path).ok_or_else(absent)?;
    Ok(bytes.iter().take(at_most as usize).copied().collect())
}

impl Sources for Workspace {
    fn entries(&mut self) -> Result<Vec<Entry>, Failure> {
        let entry = |(path, bytes): &(String, Vec<u8>)| Entry {
            path: path.clone(),
            size: bytes.len() as u64,
            kind: EntryKind::File,
        };
        Ok(self.files.iter().map(entry).collect())
    }

    fn changes(&mut self) -> Result<Vec<Change>, Failure> {
        let change = |(path, _): &(String, Vec<u8>)| Change {
            path: path.clone(),
            status: ChangeStatus::Added,
            from: None,
        };
        Ok(self.diffs.iter().map(change).collect())
    }

    fn history(&mut self, at_most: usize) -> Result<Vec<Commit>, Failure> {
        let commit = |(id, subject): &(String, String)| Commit {
            id: id.clone(),
            author: "Ada".into(),
            date: "2026-02-09".into(),
            subject: subject.clone(),
        };
        Ok(self.commits.iter().take(at_most).map(commit).collect())
    }

    fn read(&mut self, path: &str, at_most: u64) -> Result<Vec<u8>, Failure> {
        found(&self.files, path, at_most)
    }

    fn diff(&mut self, path: &str, at_most: u64) -> Result<Vec<u8>, Failure> {
        found(&self.diffs, path, at_most)
    }
}

fuzz_target!(|case: Case| {
    let mut workspace = case.workspace;
    let request = serde_json::from_str(&case.request).unwrap_or_else(|_| Request {
        task: case.task,
        token_budget: case.budget.into(),
        max_file_tokens: case.most.map(u64::from),
        paths: case.paths,
        exclude: case.exclude,
        tokenizer: if case.other { Tokenizer::Cl100kBase } else { Tokenizer::O200kBase },
        ..Request::default()
    });
    let Ok(pack) = build(&request, None, &mut workspace) else { return };
    let text = pack.render();
    let counter = request.tokenizer.counter().expect("both vocabularies are built in");
    assert_eq!(counter.count(&text), pack.total_tokens);
    assert!(pack.total_tokens <= request.token_budget);
    let mark = text.split_once(' ').map(|(mark, _)| mark).unwrap_or_default();
    let marks = text.lines().filter(|line| line.starts_with(mark)).count();
    assert_eq!(marks, 2 * pack.items.len() + 2);
    assert_eq!(pack.expected_digest().expect("a pack has canonical JSON"), pack.context_digest);
    assert_eq!(build(&request, None, &mut workspace).expect("it was built before"), pack);
});
