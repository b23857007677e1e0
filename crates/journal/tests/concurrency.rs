//! Many threads, many processes, and processes that die: one chain, nothing lost, nothing doubled.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use common::{batch, check_live, issued, journal, reopen};
use countersign_journal::{SqliteStore, Store};
use countersign_model::event::{Fact, GrantEvent};

/// Set for the processes that these tests start: which journal, which numbers, how many appends.
const WORK: &str = "JOURNAL_TEST_WORK";

/// Appended entries by number, as whoever appended them was told.
type Acknowledged = HashMap<u64, String>;

fn append(store: &SqliteStore, n: u64) -> (u64, String) {
    let appended = store.append(batch([issued(n)])).unwrap();
    (appended.entries.start, appended.hash.to_string())
}

/// Every acknowledged entry is where it was said to be, and every grant is there once.
fn check_all(store: &SqliteStore, acknowledged: &Acknowledged) -> u64 {
    let size = check_live(store).unwrap().size;
    let mut stored = HashMap::new();
    let mut grants = Vec::new();
    store
        .visit(0..size, &mut |entry| {
            stored.insert(entry.entry.seq, entry.hash.to_string());
            if let Fact::Grant(GrantEvent::Issued { grant }) = entry.entry.fact {
                grants.push(grant.body.id);
            }
            Ok(())
        })
        .unwrap();
    for (seq, hash) in acknowledged {
        assert_eq!(stored.get(seq), Some(hash), "entry {seq} was acknowledged");
    }
    let all = grants.len();
    grants.sort_unstable();
    grants.dedup();
    assert_eq!((grants.len(), store.grants().unwrap().len()), (all, all));
    size
}

#[test]
fn threads_share_one_chain() {
    let journal = journal(4);
    let store = &journal.store;
    let acknowledged: Acknowledged = thread::scope(|scope| {
        let threads: Vec<_> = (1..=16)
            .map(|t| {
                let work = move || (0..50).map(|n| append(store, t * 1000 + n)).collect::<Vec<_>>();
                scope.spawn(work)
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>()
    })
    .into_iter()
    .collect();
    assert_eq!(acknowledged.len(), 800);
    assert_eq!(check_all(store, &acknowledged), 804);
    assert_eq!(check_all(&reopen(&journal.path()).unwrap(), &acknowledged), 804);
}

/// Not a test of its own: the work of a started process.
#[test]
fn work() {
    let Ok(work) = std::env::var(WORK) else { return };
    let parts: Vec<_> = work.split('|').collect();
    let (first, count): (u64, u64) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
    let store = reopen(Path::new(parts[0])).unwrap();
    let mut out = std::io::stdout();
    for n in first..first + count {
        let (seq, hash) = append(&store, n);
        writeln!(out, "\nacknowledged {seq} {hash}").unwrap();
        out.flush().unwrap();
    }
}

fn start(path: &Path, first: u64, count: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "work", "--nocapture"])
        .env(WORK, format!("{}|{first}|{count}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// What a process says it appended; a last line that death cut short says nothing.
fn heard(line: &str) -> Option<(u64, String)> {
    let (seq, hash) = line.strip_prefix("acknowledged ")?.split_once(' ')?;
    (hash.len() == 64).then(|| (seq.parse().unwrap(), hash.to_owned()))
}

#[test]
fn processes_share_one_chain() {
    let journal = journal(4);
    let path = journal.path();
    let children: Vec<_> = (1..=4).map(|p| start(&path, p * 1000, 60)).collect();
    // This process works on the same journal meanwhile, and opens it again and again.
    let mut acknowledged: Acknowledged = (0..40)
        .map(|n| {
            reopen(&path).unwrap();
            append(&journal.store, 90_000 + n)
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        acknowledged.extend(String::from_utf8(output.stdout).unwrap().lines().filter_map(heard));
    }
    assert_eq!(acknowledged.len(), 4 * 60 + 40);
    assert_eq!(check_all(&journal.store, &acknowledged), 4 + 4 * 60 + 40);
    assert_eq!(check_all(&reopen(&path).unwrap(), &acknowledged), 284);
}

#[test]
fn a_killed_process_breaks_nothing_and_loses_nothing() {
    let journal = journal(4);
    let path = journal.path();
    let _dir = journal.close();
    let mut acknowledged = Acknowledged::new();
    for round in 0..20u64 {
        // In the second half another process lives on and works with what the dead one left.
        let survivor = (round >= 10).then(|| reopen(&path).unwrap());
        let mut child = start(&path, (round + 1) * 100_000, 90_000);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let before = acknowledged.len();
        while acknowledged.len() < before + 1 + round as usize {
            acknowledged
                .extend(heard(&lines.next().expect("the process works until it is killed")));
        }
        child.kill().unwrap();
        acknowledged.extend(lines.filter_map(|line| heard(&line)));
        child.wait().unwrap();
        acknowledged.extend(survivor.map(|store| append(&store, 90_000_000 + round)));
        let store = reopen(&path).unwrap();
        let size = check_all(&store, &acknowledged);
        // Each death leaves at most one append that nobody was told about.
        let told = 4 + acknowledged.len() as u64;
        assert!(size >= told && size <= told + round + 1, "{size} entries, {told} told");
    }
}
