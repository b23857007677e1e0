//! Compiled functions on disk, so that a new process does not compile again what an older one did.
//!
//! Whoever could change what is compiled could run anything in the host. So a file is used only if
//! it carries a code that nobody can make without the key, which the caller keeps elsewhere; and
//! it is checked as the bytes that are then used, not as the file that they came from.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use countersign_model::Digest;
use wasmtime::CacheStore;

/// Begins every file, and every code is taken over it: another format is another file.
const FORMAT: &[u8] = b"countersign-wasm-cache 1\n";
const CODE: usize = 32;
const SUFFIX: &str = "functions";

/// Files kept; those used longest ago go first.
const KEEP: usize = 256;

/// Longer files are not read.
const MAX_FILE: u64 = 512 << 20;

/// Where compiled functions are kept, and the key that proves them ours.
#[derive(Clone)]
pub struct CacheOptions {
    pub directory: PathBuf,
    /// Secret, and not in `directory`.
    pub key: [u8; 32],
}

impl std::fmt::Debug for CacheOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheOptions").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// The functions of the module that is being compiled.
#[derive(Debug)]
pub(crate) struct DiskCache {
    options: CacheOptions,
    functions: Mutex<Functions>,
    hits: AtomicU64,
}

#[derive(Debug, Default)]
struct Functions {
    /// From the file.
    kept: HashMap<Vec<u8>, Vec<u8>>,
    /// Compiled just now.
    fresh: HashMap<Vec<u8>, Vec<u8>>,
}

impl CacheStore for DiskCache {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let functions = self.functions();
        if let Some(kept) = functions.kept.get(key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Some(Cow::Owned(kept.clone()));
        }
        functions.fresh.get(key).cloned().map(Cow::Owned)
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        self.functions().fresh.insert(key.to_owned(), value);
        true
    }
}

impl DiskCache {
    pub(crate) fn new(options: CacheOptions) -> Self {
        DiskCache { options, functions: Mutex::default(), hits: AtomicU64::new(0) }
    }

    /// Functions that were not compiled again.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    fn functions(&self) -> MutexGuard<'_, Functions> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is kept for a module, if it is genuine.
    pub(crate) fn load(&self, module: &Digest) {
        let kept = read(&self.file(module))
            .and_then(|bytes| unpack(genuine(&self.options.key, module, &bytes)?));
        *self.functions() = Functions { kept: kept.unwrap_or_default(), fresh: HashMap::default() };
    }

    /// Keeps what was compiled for a module. Without it, the next process only takes longer.
    pub(crate) fn save(&self, module: &Digest) {
        let Functions { mut kept, fresh } = std::mem::take(&mut *self.functions());
        if fresh.is_empty() {
            return;
        }
        kept.extend(fresh);
        let body = pack(&kept);
        let code = code(&self.options.key, module, &body);
        let bytes = [FORMAT, code.as_bytes(), &body].concat();
        let file = self.file(module);
        let fresh = file.with_extension(format!("{}.new", std::process::id()));
        if fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, &file)).is_err() {
            let _ = fs::remove_file(&fresh);
        }
        forget_oldest(&self.options.directory);
    }

    fn file(&self, module: &Digest) -> PathBuf {
        self.options.directory.join(format!("{module}.{SUFFIX}"))
    }
}

fn read(file: &Path) -> Option<Vec<u8>> {
    let length = fs::symlink_metadata(file).ok().filter(fs::Metadata::is_file)?.len();
    let bytes = if length <= MAX_FILE { fs::read(file).ok()? } else { return None };
    // So that it is not the one used longest ago.
    let _ = fs::File::options()
        .write(true)
        .open(file)
        .and_then(|file| file.set_modified(SystemTime::now()));
    Some(bytes)
}

/// The body of a file that carries the right code.
fn genuine<'b>(key: &[u8; 32], module: &Digest, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let (claimed, body) = bytes.strip_prefix(FORMAT)?.split_at_checked(CODE)?;
    let code = code(key, module, body);
    // In time that does not depend on where they differ.
    let differ = code.as_bytes().iter().zip(claimed).fold(0, |differ, (a, b)| differ | (a ^ b));
    (differ == 0).then_some(body)
}

/// HMAC-SHA-256 over the format, the module that the functions belong to, and the functions.
fn code(key: &[u8; 32], module: &Digest, body: &[u8]) -> Digest {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Digest::of_parts(&[&pad(0x36), FORMAT, module.as_bytes(), body]);
    Digest::of_parts(&[&pad(0x5c), inner.as_bytes()])
}

/// Every key and every value, each after its length.
fn pack(functions: &HashMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut body = Vec::new();
    for part in functions.iter().flat_map(|(key, value)| [key, value]) {
        body.extend_from_slice(&(part.len() as u64).to_le_bytes());
        body.extend_from_slice(part);
    }
    body
}

fn unpack(mut body: &[u8]) -> Option<HashMap<Vec<u8>, Vec<u8>>> {
    let mut functions = HashMap::new();
    while !body.is_empty() {
        let key = part(&mut body)?;
        functions.insert(key, part(&mut body)?);
    }
    Some(functions)
}

fn part(body: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = body.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (part, rest) = rest.split_at_checked(length)?;
    *body = rest;
    Some(part.to_owned())
}

fn forget_oldest(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut files: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|suffix| suffix == SUFFIX))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    let surplus = files.len().saturating_sub(KEEP);
    for (_, path) in files.iter().take(surplus) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_of_this_key_and_module_is_used() {
        let (key, module) = ([7; 32], Digest::of(b"module"));
        let functions = HashMap::from([(b"a".to_vec(), b"bc".to_vec()), (vec![], vec![])]);
        let body = pack(&functions);
        let file = [FORMAT, code(&key, &module, &body).as_bytes(), &body].concat();
        assert_eq!(genuine(&key, &module, &file).and_then(unpack), Some(functions));
        assert_eq!(genuine(&[8; 32], &module, &file), None);
        assert_eq!(genuine(&key, &Digest::of(b"other"), &file), None);
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert_eq!(genuine(&key, &module, &changed), None, "byte {at}");
            assert_eq!(genuine(&key, &module, &file[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn the_code_is_hmac() {
        // From another implementation: Python's `hmac`, over the format, 32 zero bytes and "body".
        let found = code(&[1; 32], &Digest::ZERO, b"body").to_string();
        assert_eq!(found, "02d8de479450d596ee2a9f20c71be17adc1b454389ac81a77b3a54394bc8730f");
    }
}
