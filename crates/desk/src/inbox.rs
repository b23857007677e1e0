//! Results: written from the journal, judged, and moved to where they belong. Every step can be
//! done again: a crash between two of them loses nothing and doubles nothing.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_documents::request::request_moment;
use countersign_documents::result::{Against, Judged, Pipe, judge, result_id};
use countersign_documents::{Code, Judgement, MAX_RESULT_BYTES, Reason};
use countersign_host::order::{Ordered, Standing};
use countersign_model::effect::Payload;
use countersign_model::{Failure, Timestamp};
use serde_json::json;

use crate::Desk;
use crate::draft::file_name;
use crate::files::check_files;
use crate::folders::{self, Folder, move_to, put, put_with, unwritable};
use crate::story::Story;
use crate::tell::Told;

/// A result that stands where it belongs.
#[derive(Debug, Clone)]
pub struct Delivered {
    pub result: String,
    pub path: PathBuf,
    pub accepted: bool,
    pub reasons: Vec<Reason>,
}

impl Desk<'_> {
    /// Writes the result of an order that ran, judges it and moves it.
    pub(crate) fn deliver(&self, ordered: &Ordered) -> Result<Delivered, Failure> {
        let home = self.host.home().path();
        // Two who finish the same run would carry off each other's files.
        let _alone = Folder::Results.lock(home)?;
        folders::sweep(&Folder::Results.of(home));
        if let Some(delivered) = self.delivered(ordered)? {
            return Ok(delivered);
        }
        let told = self.tell(ordered)?;
        let path = Folder::Results.of(home).join(format!("{}.md", told.rendered.id));
        self.write_artifacts(&told, &path.with_extension(""))?;
        put(&path, told.rendered.text.as_bytes())?;
        let judged = self.judge_against(&path, &told)?;
        let path = match judged.judgement.reasons() {
            [] => self.accept(&path)?,
            reasons => self.set_aside(&path, reasons)?,
        };
        Ok(told.delivered(path, &judged))
    }

    /// What stands where it belongs already. Looked up by name: nothing long is read again.
    fn delivered(&self, ordered: &Ordered) -> Result<Option<Delivered>, Failure> {
        let story = Story::of(self.host, ordered)?;
        let (home, id) = (self.host.home().path(), result_id(story.ended_at, &story.order.id));
        let inbound = Folder::Inbound.of(home).join(format!("{id}.md"));
        let quarantined = Folder::Quarantine.of(home).join(format!("{id}.md.quarantined"));
        if !inbound.exists() && !quarantined.exists() {
            return Ok(None);
        }
        let accepted = inbound.exists();
        let path = if accepted { inbound } else { quarantined };
        Ok(Some(Delivered { result: id, path, accepted, reasons: Vec::new() }))
    }

    fn judge_against(&self, path: &Path, told: &Told) -> Result<Judged, Failure> {
        let bytes = folders::read(path, MAX_RESULT_BYTES as u64)?;
        let name = format!("{}.md", told.rendered.id);
        let judged = judge(&bytes, &told.against(&name, self.host.clock().now()));
        Ok(check_files(path, &bytes, judged))
    }

    /// Judges a result from anywhere against what this home knows about its request.
    pub fn judge_result(&self, path: &Path) -> Result<Judged, Failure> {
        let bytes = folders::read(path, MAX_RESULT_BYTES as u64)?;
        let judged = self.judge_text(path, &bytes)?;
        Ok(check_files(path, &bytes, judged))
    }

    fn judge_text(&self, path: &Path, bytes: &[u8]) -> Result<Judged, Failure> {
        let (name, now) = (file_name(path), self.host.clock().now());
        let alone = judge(bytes, &Against { file_name: name, now, request: None, journal: None });
        let Judgement::Accept(result) = &alone.judgement else { return Ok(alone) };
        let Some(made) = request_moment(&result.request_id) else { return Ok(alone) };
        match self.host.ordered(&result.request_id, made)? {
            Some(ordered) if ordered.standing == Standing::Ran => {
                let told = self.tell(&ordered)?;
                let against = Against { file_name: name, ..told.against("", now) };
                let judged = judge(bytes, &against);
                Ok(refuse_if(judged, bytes != told.rendered.text.as_bytes(), ANOTHER))
            }
            // The journal knows the request, and that it has not run.
            Some(_) => Ok(refuse_if(alone, true, NOT_RUN)),
            None => Ok(alone),
        }
    }

    /// Files first, the document last: where it stands, everything stands.
    fn accept(&self, path: &Path) -> Result<PathBuf, Failure> {
        let folder = Folder::Inbound.make(self.host.home().path())?;
        let files = path.with_extension("");
        if files.is_dir() {
            move_to(&files, &folder.join(files.file_name().unwrap_or_default()))?;
        }
        let place = folder.join(path.file_name().unwrap_or_default());
        move_to(path, &place)?;
        Ok(place)
    }

    /// The files of a result that is rejected go with it, and before it.
    fn set_aside(&self, path: &Path, reasons: &[Reason]) -> Result<PathBuf, Failure> {
        let files = path.with_extension("");
        if files.is_dir() {
            let name = format!("{}.files", file_name(path).unwrap_or_default());
            move_to(&files, &Folder::Quarantine.make(self.host.home().path())?.join(name))?;
        }
        self.quarantine(path, &json!(reasons))
    }

    /// What a program left, and streams that are too long to be shown: a folder that is whole or
    /// absent.
    fn write_artifacts(&self, told: &Told, folder: &Path) -> Result<(), Failure> {
        // Moved already, by a process that ended before it could move the document.
        let name = folder.file_name().unwrap_or_default();
        let home = self.host.home().path();
        let moved = Folder::Inbound.of(home).join(name).is_dir();
        let files = told.files();
        if moved || files.is_empty() {
            return Ok(());
        }
        // Where the document stands, its files stood before it. Whatever else is there is rubble.
        match folder.with_extension("md").exists() {
            true if folder.is_dir() => return Ok(()),
            _ => drop(fs::remove_dir_all(folder)),
        }
        let aside = folders::aside(folder);
        let written = files
            .iter()
            .try_for_each(|(name, payload)| self.write_one(&told.story, &aside, name, payload))
            .and_then(|()| move_to(&aside, folder));
        if written.is_err() {
            let _ = fs::remove_dir_all(&aside);
        }
        written
    }

    fn write_one(
        &self,
        story: &Story,
        folder: &Path,
        name: &str,
        payload: &Payload,
    ) -> Result<(), Failure> {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
        let home = self.host.home();
        put_with(&path, |file| Ok(home.copy_payload(story.execution, payload, file)?))
    }
}

impl Told {
    /// Every file that stands beside the result.
    fn files(&self) -> Vec<(String, Payload)> {
        let Told { story, rendered, .. } = self;
        let left = story
            .artifacts
            .iter()
            .map(|file| (file.name.clone(), Payload { digest: file.digest, size: file.size }));
        let stream = |pipe: &Pipe| {
            let stream = match pipe {
                Pipe::Stdout => story.stdout,
                Pipe::Stderr => story.stderr,
            };
            stream.map(|payload| (pipe.file().to_owned(), payload))
        };
        left.chain(rendered.keep.iter().filter_map(stream)).collect()
    }
}

const ANOTHER: &str = "this home wrote another result about this run";
const NOT_RUN: &str = "this home knows the request, and it has not run";

/// One more reason against a result that nothing else speaks against.
fn refuse_if(mut judged: Judged, refused: bool, message: &str) -> Judged {
    if refused && matches!(judged.judgement, Judgement::Accept(_)) {
        let code = Code::JournalDiffers;
        let (message, fix) = (message.to_owned(), code.fix().to_owned());
        judged.judgement =
            Judgement::Reject(vec![Reason { code, column: 1, fix, line: 1, message }]);
    }
    judged
}

/// Judges a result by itself.
pub fn judge_result(path: &Path, now: Timestamp) -> Result<Judged, Failure> {
    let bytes = folders::read(path, MAX_RESULT_BYTES as u64)?;
    let against = Against { file_name: file_name(path), now, request: None, journal: None };
    Ok(check_files(path, &bytes, judge(&bytes, &against)))
}
