//! Artifacts put and got, beside a plain copy with a SHA-256 that is on disk when it is done.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use countersign_model::digest::Hasher;
use countersign_model::{ArtifactId, Digest, Failure};
use serde::Serialize;

use super::super::measure::{peak_bytes, reset_peak, resident_bytes, timed};
use super::smallest::{self, SMALL};
use super::stage::{Stage, failed};
use super::{Beside, Size, Steps};

/// What memory may grow by, however long and however many the contents are.
pub(super) const MOST_GROWN: u64 = 64 << 20;

const PLACE: (&str, &str) = (SMALL, "run_artifacts");
const CHUNK: usize = 64 << 10;
const MIB: u64 = 1 << 20;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Contents {
    pub(super) count: usize,
    pub(super) put: Beside,
    pub(super) get: Beside,
    pub(super) large_bytes: u64,
    pub(super) put_large: Beside,
    pub(super) get_large: Beside,
    pub(super) grown_by_many: u64,
    pub(super) grown_by_large: u64,
}

pub(super) fn measure(dir: &Path, size: &Size, steps: &mut Steps) -> Result<Contents, Failure> {
    let many = apart(&dir.join("many"), (size.artifacts, MIB), steps)?;
    let rounds = if size.large > 1 << 30 { 1 } else { 3 };
    let large = apart(&dir.join("long"), (rounds, size.large), steps)?;
    Ok(Contents {
        count: size.artifacts,
        put: many.put,
        get: many.get,
        large_bytes: size.large,
        put_large: large.put,
        get_large: large.get,
        grown_by_many: many.grown,
        grown_by_large: large.grown,
    })
}

struct Measured {
    put: Beside,
    get: Beside,
    grown: u64,
}

#[derive(Default)]
struct Times {
    ours: Vec<Duration>,
    plain: Vec<Duration>,
}

impl Times {
    fn beside(self) -> Beside {
        Beside::of(self.ours, self.plain)
    }
}

/// In a home that is gone afterwards: there need not be room for all contents at once.
fn apart(dir: &Path, what: (usize, u64), steps: &mut Steps) -> Result<Measured, Failure> {
    fs::create_dir(dir).map_err(|error| failed(&error))?;
    let stage = Stage::new(dir)?;
    stage.workspace(SMALL, smallest::files())?;
    stage.put(PLACE, "first", &b"1"[..])?;
    let measured = several(&stage, what, steps)?;
    drop(stage);
    fs::remove_dir_all(dir).map_err(|error| failed(&error))?;
    Ok(measured)
}

fn several(
    stage: &Stage,
    (count, size): (usize, u64),
    steps: &mut Steps,
) -> Result<Measured, Failure> {
    let (mut put, mut get) = (Times::default(), Times::default());
    let copy = stage.dir.join("copy");
    let got = stage.dir.join("got");
    stage.settle()?;
    let before = resident_bytes();
    reset_peak();
    for number in 0..count {
        let content = || Content { seed: number as u64 ^ size, left: size };
        put.plain.push(timed(|| kept(stage, &mut content(), &copy))?);
        get.plain.push(timed(|| copied(&copy, &got))?);
        removed(&[&copy, &got])?;
        let mut id = None;
        put.ours.push(timed(|| {
            id = Some(stage.put(PLACE, &format!("{size}-{number}"), content())?);
            Ok(())
        })?);
        let id = id.ok_or_else(|| failed(&"no artifact was made"))?;
        get.ours.push(timed(|| taken(stage, &id, &got))?);
        removed(&[&got])?;
        steps.step();
    }
    let grown = peak_bytes().saturating_sub(before);
    Ok(Measured { put: put.beside(), get: get.beside(), grown })
}

fn removed(paths: &[&Path]) -> Result<(), Failure> {
    paths.iter().try_for_each(fs::remove_file).map_err(|error| failed(&error))
}

/// Whole under its name and on disk when this returns, as an artifact is.
fn kept(stage: &Stage, content: &mut impl Read, path: &Path) -> Result<(), Failure> {
    let mut write = || {
        let aside = path.with_added_extension("new");
        let mut file = File::create(&aside)?;
        hashed(content, &mut file)?;
        file.sync_all()?;
        fs::rename(&aside, path)?;
        File::open(&stage.dir)?.sync_all()
    };
    write().map_err(|error| failed(&error))
}

fn copied(from: &Path, to: &Path) -> Result<(), Failure> {
    let copy = || hashed(&mut File::open(from)?, &mut File::create(to)?);
    copy().map(drop).map_err(|error| failed(&error))
}

/// As `artifact get` does: the record first, then its content, checked as it goes.
fn taken(stage: &Stage, id: &ArtifactId, to: &Path) -> Result<(), Failure> {
    let home = stage.host.home();
    let found = home.store.artifact(id)?;
    let record = stage.host.present_artifact(found, id.as_str())?;
    let mut file = File::create(to).map_err(|error| failed(&error))?;
    Ok(home.blobs.copy_to(&record.digest, &mut file)?)
}

fn hashed(from: &mut impl Read, to: &mut impl Write) -> io::Result<Digest> {
    let (mut hasher, mut chunk) = (Hasher::default(), vec![0; CHUNK]);
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 {
            return Ok(hasher.finish());
        }
        let bytes = chunk.get(..read).unwrap_or_default();
        hasher.update(bytes);
        to.write_all(bytes)?;
    }
}

/// Bytes of which no two chunks are the same, made as they are read.
struct Content {
    seed: u64,
    left: u64,
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let bytes = buffer.get_mut(..most).unwrap_or_default();
        bytes.fill(b'.');
        for (place, byte) in bytes.iter_mut().zip((self.seed ^ self.left << 20).to_le_bytes()) {
            *place = byte;
        }
        self.left -= most as u64;
        Ok(most)
    }
}
