//! What a long action is at, for whoever sits at the terminal. A pipe gets nothing of it.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use countersign_host::tool::{News, Progress};
use countersign_sandbox::Stream;

use crate::ui::{DIM, inert, paint};

/// Nobody reads faster.
const INTERVAL: Duration = Duration::from_millis(100);

/// The most of a line that is looked at.
const LONGEST: usize = 1000;

enum Word {
    Step(String),
    /// The last line that a program said.
    Line(String),
    End,
}

/// Writes aside, so that a slow terminal never delays the limits of a program.
#[derive(Debug)]
pub(crate) struct Steps(Option<(Sender<Word>, JoinHandle<()>)>);

impl Steps {
    pub(crate) fn begin() -> Self {
        if !io::stderr().is_terminal() {
            return Steps(None);
        }
        let (sender, receiver) = channel();
        let writer = thread::Builder::new().name("steps".to_owned()).spawn(move || {
            // Nobody is left to tell if this cannot be written.
            let _ = write_all(&receiver);
        });
        Steps(writer.ok().map(|writer| (sender, writer)))
    }

    pub(crate) fn progress(&self) -> Progress {
        let Some((sender, _)) = &self.0 else { return Progress::default() };
        let (sender, last) = (Mutex::new(sender.clone()), Mutex::new(Last::default()));
        Progress::new(move |news| {
            let word = match news {
                News::Step(step) => Some(Word::Step(step.to_owned())),
                News::Output(stream, bytes) => {
                    last.lock().ok().and_then(|mut last| last.take(stream, bytes)).map(Word::Line)
                }
            };
            if let (Some(word), Ok(sender)) = (word, sender.lock()) {
                let _ = sender.send(word);
            }
        })
    }

    pub(crate) fn end(self) {
        if let Some((sender, writer)) = self.0 {
            let _ = sender.send(Word::End);
            let _ = writer.join();
        }
    }
}

/// The line that a program is at.
#[derive(Debug, Default)]
struct Last {
    begun: Vec<u8>,
    told: Option<Instant>,
}

impl Last {
    /// The last whole line, if it is time to show one.
    fn take(&mut self, _stream: Stream, bytes: &[u8]) -> Option<String> {
        let from = bytes.len().saturating_sub(LONGEST);
        self.begun.extend_from_slice(bytes.get(from..).unwrap_or_default());
        if self.told.is_some_and(|told| told.elapsed() < INTERVAL) {
            self.shorten();
            return None;
        }
        let text = String::from_utf8_lossy(&self.begun).into_owned();
        let (whole, _) = text.rsplit_once('\n')?;
        let line = whole.lines().rev().find(|line| !line.trim().is_empty())?.to_owned();
        self.shorten();
        self.told = Some(Instant::now());
        Some(line)
    }

    fn shorten(&mut self) {
        let over = self.begun.len().saturating_sub(LONGEST);
        self.begun.drain(..over);
    }
}

fn write_all(receiver: &Receiver<Word>) -> io::Result<()> {
    let mut out = anstream::stderr();
    while let Ok(word) = receiver.recv() {
        match word {
            Word::Step(step) => writeln!(out, "\r\u{1b}[K{}", cut(&inert(&step), "· "))?,
            Word::Line(line) => write!(out, "\r\u{1b}[K{}", paint(DIM, cut(&inert(&line), "│ ")))?,
            Word::End => break,
        }
        out.flush()?;
    }
    write!(out, "\r\u{1b}[K")?;
    out.flush()
}

/// As much of a line as stands on one.
fn cut(text: &str, mark: &str) -> String {
    let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| width.0);
    let room = usize::from(width).saturating_sub(mark.chars().count() + 1);
    format!("{mark}{}", text.chars().take(room).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_is_told_and_not_too_often() {
        let mut last = Last::default();
        assert_eq!(last.take(Stream::Stdout, b"no end"), None);
        assert_eq!(last.take(Stream::Stdout, b" yet\nnext\n\nhal").as_deref(), Some("next"));
        assert_eq!(last.take(Stream::Stderr, b"f\n"), None, "too soon");
        last.told = None;
        assert_eq!(last.take(Stream::Stdout, b"").as_deref(), Some("half"));
        last.told = None;
        let long = [vec![b'x'; 1 << 20], b"\nend\n".to_vec()].concat();
        assert_eq!(last.take(Stream::Stdout, &long).as_deref(), Some("end"));
        assert!(last.begun.len() <= LONGEST);
    }
}
