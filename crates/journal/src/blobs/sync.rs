//! Waiting for the disk once for several files.

use std::fs::File;
use std::io;
use std::thread;

/// As many waits at the same time; file systems bring them to disk together.
const AT_ONCE: usize = 8;

/// Makes files and directories durable. When this returns, all of them are.
pub fn sync_together<'f>(files: impl IntoIterator<Item = &'f File>) -> io::Result<()> {
    let files: Vec<&File> = files.into_iter().collect();
    let in_turn = |files: &[&File]| files.iter().try_for_each(|file| file.sync_all());
    if files.len() < 2 {
        return in_turn(&files);
    }
    let each = files.len().div_ceil(AT_ONCE);
    thread::scope(|scope| {
        let mut parts = files.chunks(each);
        let own = parts.next().unwrap_or_default();
        let others: Vec<_> = parts
            .map(|part| {
                let other = thread::Builder::new().spawn_scoped(scope, move || in_turn(part));
                // Whoever gets no thread waits in turn.
                other.map_err(|_| part)
            })
            .collect();
        let mut synced = in_turn(own);
        for other in others {
            let done = match other {
                Ok(other) => other.join().unwrap_or_else(|_| Err(io::Error::other("crashed"))),
                Err(part) => in_turn(part),
            };
            synced = synced.and(done);
        }
        synced
    })
}
