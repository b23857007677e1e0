//! What all commands of an action said, one after the other, in a file without a name.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use countersign_host::tool::ToolContext;
use countersign_model::{Digest, Failure};
use countersign_sandbox::Captured;

use crate::left::Left;

pub(super) struct Log {
    file: File,
    /// How much more is taken.
    left: u64,
    cut: u64,
}

fn lost(error: &std::io::Error) -> Failure {
    Failure::state("LOG_LOST", format!("the log cannot be written: {error}"))
        .hint("free some space, and try again")
}

impl Log {
    pub(super) fn new(context: &ToolContext) -> Result<Self, Failure> {
        let left = u64::from(context.place().actions().max_log_mb) << 20;
        Ok(Log { file: context.scratch_file()?, left, cut: 0 })
    }

    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.take(&mut format!("{text}\n").as_bytes())
    }

    /// Takes a stream as far as there is room, and counts the rest.
    pub(super) fn stream(&mut self, said: &mut Captured) -> Result<(), Failure> {
        let ends = match &mut said.spill {
            Some(spill) => {
                spill.seek(SeekFrom::Start(0)).map_err(|error| lost(&error))?;
                self.take(spill)?;
                spill.seek(SeekFrom::End(-1)).map_err(|error| lost(&error))?;
                let mut last = [0];
                spill.read_exact(&mut last).map_err(|error| lost(&error))?;
                last == *b"\n"
            }
            None => {
                self.take(&mut said.inline.as_slice())?;
                said.inline.is_empty() || said.inline.ends_with(b"\n")
            }
        };
        if ends { Ok(()) } else { self.line("") }
    }

    fn take(&mut self, from: &mut impl Read) -> Result<(), Failure> {
        let taken = std::io::copy(&mut from.by_ref().take(self.left), &mut self.file);
        self.left -= taken.map_err(|error| lost(&error))?;
        self.cut += std::io::copy(from, &mut std::io::sink()).map_err(|error| lost(&error))?;
        Ok(())
    }

    /// Keeps the log as an artifact.
    pub(super) fn keep(
        mut self,
        context: &mut ToolContext,
        left: &mut Left,
        name: &str,
    ) -> Result<Digest, Failure> {
        if self.cut > 0 {
            let note = format!("\n[{} more bytes were cut off]\n", self.cut);
            self.file.write_all(note.as_bytes()).map_err(|error| lost(&error))?;
        }
        self.file.seek(SeekFrom::Start(0)).map_err(|error| lost(&error))?;
        Ok(left.make(context, name, "text/plain; charset=utf-8", &mut self.file)?.digest)
    }
}
