//! The content of an artifact.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_host::Home;
use countersign_journal::JournalError;
use countersign_model::{ArtifactRecord, Failure};
use serde_json::json;

use super::Which;
use crate::live::Show;
use crate::output_file::{self, unwritable};
use crate::ui::{Done, GOOD, Stop, Ui, bytes, inert, paint, shown, wrap};

/// Write the content of an artifact to a file or to standard output
///
/// It is checked against its digest as it is read. A file is whole or not there; standard output may
/// have got a part of a damaged content, and then the command fails.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    which: Which,

    /// The file to write, or - for standard output
    #[arg(long, short, default_value = "-", value_name = "FILE|-")]
    out: PathBuf,
}

pub(super) fn run(ui: Ui, home: &Home, args: &GetArgs) -> Done {
    let record = args.which.find(home)?;
    if let Some(at) = record.collected_at {
        let message = format!("the content of `{}` was let go of at {at}", inert(&record.name));
        let failure = Failure::state("ARTIFACT_COLLECTED", message);
        return Err(failure.hint("run the action that made it again").into());
    }
    match args.out.as_os_str() == "-" {
        true if ui.json => Err(Failure::validation("USAGE", "the content itself is no JSON")
            .hint("name a file with -o, or leave --json out")
            .into()),
        true => to_stdout(home, &record),
        false => to_file(ui, home, &record, &args.out),
    }
}

fn to_file(ui: Ui, home: &Home, record: &ArtifactRecord, path: &Path) -> Done {
    output_file::write(path, |out| {
        let mut sink = Sink { to: out, error: None };
        let copied = home.blobs.copy_to(&record.digest, &mut sink);
        match sink.error {
            Some(error) => Err(unwritable(path, &error)),
            None => copied.map_err(|error| lost(record, error)),
        }
    })?;
    if ui.json {
        return ui.json(&json!({"artifact": record, "file": path.display().to_string()}));
    }
    let size = bytes(record.size);
    ui.line(wrap(&format!("{} {} ({size})", paint(GOOD, "wrote"), shown(path)), 2))
}

fn to_stdout(home: &Home, record: &ArtifactRecord) -> Done {
    let stdout = io::stdout();
    let mut screen;
    let mut plain;
    let to: &mut dyn Write = match stdout.is_terminal() {
        true => {
            screen = Screen { show: Show::new(true, stdout), first: true };
            &mut screen
        }
        false => {
            plain = stdout.lock();
            &mut plain
        }
    };
    let mut sink = Sink { to, error: None };
    let copied = home.blobs.copy_to(&record.digest, &mut sink);
    match sink.error {
        Some(error) if error.kind() == io::ErrorKind::InvalidData => Err(binary(record).into()),
        Some(error) => Err(Stop::Output(error)),
        None => {
            copied.map_err(|error| Stop::Cut(lost(record, error)))?;
            sink.to.flush().map_err(Stop::Output)
        }
    }
}

/// Tells what went wrong with the target apart from what went wrong with the content.
struct Sink<'t> {
    to: &'t mut dyn Write,
    error: Option<io::Error>,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write_all(bytes).map_err(|error| {
            let kind = error.kind();
            self.error = Some(error);
            io::Error::from(kind)
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A terminal, which gets text and nothing else.
struct Screen {
    show: Show<io::Stdout>,
    first: bool,
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.first, false) && is_binary(bytes) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.show.write(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.show.finish()
    }
}

/// By its first piece: zeros, or what is no text.
fn is_binary(start: &[u8]) -> bool {
    let cut_short = |error: std::str::Utf8Error| error.error_len().is_none();
    start.contains(&0) || std::str::from_utf8(start).is_err_and(|error| !cut_short(error))
}

fn binary(record: &ArtifactRecord) -> Failure {
    let message = format!("`{}` is binary, and no terminal shows that", inert(&record.name));
    Failure::validation("BINARY_TO_TERMINAL", message).hint("write it to a file with -o FILE")
}

fn lost(record: &ArtifactRecord, error: JournalError) -> Failure {
    let failure = Failure::from(error);
    let message = format!("`{}`: {}", inert(&record.name), failure.message);
    Failure { message, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_what_no_terminal_shows() {
        for text in [&b"plain\n"[..], "naïve 日本".as_bytes(), b"", b"cut \xe6\x97"] {
            assert!(!is_binary(text), "{text:?}");
        }
        for binary in [&b"a\0b"[..], b"\xff\xfe", b"\x89PNG\r\n"] {
            assert!(is_binary(binary), "{binary:?}");
        }
    }
}
