//! Private keys on disk: one line of text each, readable by their owner only.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ed25519_dalek::SigningKey;

use crate::checkpoint::NoteSigner;
use crate::error::JournalError;

/// Makes a key called `name` and writes it to `path`, with its public half in `path.pub`.
pub fn create(path: &Path, name: &str) -> Result<NoteSigner, JournalError> {
    let mut seed = [0u8; 32];
    getrandom::fill(&mut seed).map_err(|e| JournalError::Internal(e.to_string()))?;
    let signer = NoteSigner::new(name, SigningKey::from_bytes(&seed));
    write_new(path, 0o600, &signer.to_secret_text())?;
    write_new(&path.with_extension("pub"), 0o644, &signer.verifier().to_string())?;
    Ok(signer)
}

fn write_new(path: &Path, mode: u32, line: &str) -> Result<(), JournalError> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    writeln!(file, "{line}")?;
    Ok(file.sync_all()?)
}

pub fn load(path: &Path) -> Result<NoteSigner, JournalError> {
    let text = fs::read_to_string(path)
        .map_err(|e| JournalError::Corrupt(format!("the key {} : {e}", path.display())))?;
    NoteSigner::from_secret_text(&text)
        .ok_or_else(|| JournalError::Corrupt(format!("{} is not a key", path.display())))
}
