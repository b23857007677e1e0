//! Output of a program, shown while it runs.
//!
//! A stream that leads to a file or a pipe gets the program's bytes as they are. A terminal gets
//! text that cannot steer it: lines and tabs stay, every other control character is shown by its
//! number.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use countersign_model::Failure;
use countersign_sandbox::Stream;

use crate::ui::inert_lines;

/// Writes aside, so that a slow reader never delays the limits of the program.
#[derive(Debug)]
pub(crate) struct Live {
    sender: Sender<(Stream, Vec<u8>)>,
    writer: JoinHandle<io::Result<()>>,
    /// Set when nobody reads any more.
    is_over: Arc<AtomicBool>,
    left: Left,
}

/// What each stream may still show.
#[derive(Debug)]
struct Left {
    stdout: u64,
    stderr: u64,
}

impl Live {
    /// Shows at most `most` bytes of each stream: what comes later is no output any more.
    pub(crate) fn new(most: u64) -> Result<Self, Failure> {
        let (sender, receiver) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let write = move || {
            let written = write_all(&receiver);
            over.store(written.is_err(), Ordering::Relaxed);
            written
        };
        let writer = thread::Builder::new().name("output".to_owned()).spawn(write);
        let writer = writer.map_err(|error| Failure::resource("NO_THREAD", error.to_string()))?;
        Ok(Live { sender, writer, is_over, left: Left { stdout: most, stderr: most } })
    }

    pub(crate) fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let left = match stream {
            Stream::Stdout => &mut self.left.stdout,
            Stream::Stderr => &mut self.left.stderr,
        };
        let fits = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
        *left -= fits as u64;
        // A writer that has given up says so by its result.
        let _ = self.sender.send((stream, bytes.get(..fits).unwrap_or_default().to_vec()));
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits until everything is written.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.sender);
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
    }
}

fn write_all(receiver: &Receiver<(Stream, Vec<u8>)>) -> io::Result<()> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let mut out = Show::new(stdout.is_terminal(), stdout);
    let mut err = Show::new(stderr.is_terminal(), stderr);
    while let Ok((stream, bytes)) = receiver.recv() {
        match stream {
            Stream::Stdout => out.write(&bytes)?,
            Stream::Stderr => err.write(&bytes)?,
        }
    }
    out.finish()?;
    err.finish()
}

/// One stream, as it is or made harmless.
#[derive(Debug)]
pub(crate) struct Show<W> {
    is_terminal: bool,
    to: W,
    /// The first bytes of a character whose others have not arrived.
    begun: Vec<u8>,
}

impl<W: Write> Show<W> {
    pub(crate) fn new(is_terminal: bool, to: W) -> Self {
        Show { is_terminal, to, begun: Vec::new() }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.is_terminal {
            self.to.write_all(bytes)?;
            return self.to.flush();
        }
        self.begun.extend_from_slice(bytes);
        let rest = self.begun.split_off(self.begun.len() - unfinished(&self.begun));
        let text = std::mem::replace(&mut self.begun, rest);
        self.show(&text)
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.begun);
        self.show(&rest)
    }

    fn show(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(inert_lines(&String::from_utf8_lossy(bytes)).as_bytes())?;
        self.to.flush()
    }
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let begins = std::str::from_utf8(last).err().is_some_and(|error| error.error_len().is_none());
    if begins { last.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_terminal: bool, parts: &[&[u8]]) -> Vec<u8> {
        let mut show = Show::new(is_terminal, Vec::new());
        parts.iter().for_each(|part| show.write(part).unwrap());
        show.finish().unwrap();
        show.to
    }

    #[test]
    fn a_pipe_gets_bytes_and_a_terminal_text() {
        let parts: [&[u8]; 4] = [b"a\x1b[31m\n\xe2", b"\x82", b"\xac\t\xff", b"\xe2\x82"];
        assert_eq!(shown(false, &parts), parts.concat());
        let text = "a\\u{1b}[31m\n€\t\u{fffd}\u{fffd}";
        assert_eq!(String::from_utf8(shown(true, &parts)).unwrap(), text);
    }
}
