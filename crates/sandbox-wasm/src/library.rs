//! Modules, compiled once and kept by the digest of their bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_model::{Digest, Failure};
use wasmtime::component::Component;
use wasmtime::{ExternType, InstancePre, Module};
use wasmtime_wasi::p2::bindings::CommandPre;

use crate::cache::DiskCache;
use crate::engine::Kit;
use crate::guest::Guest;

/// Compiled modules at hand.
const KEEP: usize = 64;

const MAGIC: &[u8] = b"\0asm";
/// What follows the magic number, for the two kinds of binaries.
const MODULE: &[u8] = &[1, 0, 0, 0];
const COMPONENT: &[u8] = &[0x0d, 0, 1, 0];

/// Something that can be instantiated, with its imports in place.
pub(crate) enum Compiled {
    Module(InstancePre<Guest>),
    Component(CommandPre<Guest>),
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Compiled::Module(_) => "Module",
            Compiled::Component(_) => "Component",
        })
    }
}

/// The bytes of a module, and whether its engine counts fuel.
type Key = (Digest, bool);

#[derive(Debug, Default)]
pub(crate) struct Library {
    shelf: Mutex<Shelf>,
    /// One compilation at a time: the disk cache is loaded for one module.
    compiling: Mutex<()>,
}

#[derive(Debug, Default)]
struct Shelf {
    books: HashMap<Key, (Arc<Compiled>, u64)>,
    uses: u64,
}

impl Library {
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Compiled>> {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.uses += 1;
        let uses = shelf.uses;
        let (compiled, used) = shelf.books.get_mut(key)?;
        *used = uses;
        Some(Arc::clone(compiled))
    }

    /// Compiles bytes of this digest, unless somebody did meanwhile.
    pub(crate) fn compile(
        &self,
        kit: &Kit,
        disk: Option<&DiskCache>,
        key: Key,
        bytes: &[u8],
    ) -> Result<Arc<Compiled>, Failure> {
        let _one = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = self.find(&key) {
            return Ok(compiled);
        }
        if let Some(disk) = disk {
            disk.load(&key.0);
        }
        let compiled = Arc::new(compile(kit, bytes)?);
        if let Some(disk) = disk {
            disk.save(&key.0);
        }
        self.keep(key, &compiled);
        Ok(compiled)
    }

    fn keep(&self, key: Key, compiled: &Arc<Compiled>) {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        if shelf.books.len() >= KEEP {
            let oldest = shelf.books.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            oldest.and_then(|oldest| shelf.books.remove(&oldest));
        }
        let uses = shelf.uses;
        shelf.books.insert(key, (Arc::clone(compiled), uses));
    }
}

pub(crate) fn invalid(why: impl std::fmt::Display) -> Failure {
    Failure::validation("MODULE_INVALID", format!("the module cannot be used: {why}"))
        .hint("build it for wasm32-wasip1, or as a component for wasm32-wasip2")
}

fn compile(kit: &Kit, bytes: &[u8]) -> Result<Compiled, Failure> {
    let kind = bytes.strip_prefix(MAGIC).and_then(|rest| rest.get(..4));
    match kind {
        Some(MODULE) => compile_module(kit, bytes),
        Some(COMPONENT) => compile_component(kit, bytes),
        _ => Err(invalid("it is neither a WebAssembly module nor a component, as a binary")),
    }
}

fn compile_module(kit: &Kit, bytes: &[u8]) -> Result<Compiled, Failure> {
    let module = Module::new(&kit.engine, bytes).map_err(|error| invalid(words(&error)))?;
    let is_start = |kind: ExternType| {
        kind.func().is_some_and(|kind| kind.params().len() == 0 && kind.results().len() == 0)
    };
    if !module.get_export("_start").is_some_and(is_start) {
        return Err(invalid("it has no function `_start`, with which a command begins"));
    }
    let linked = kit.modules.instantiate_pre(&module).map_err(|error| invalid(words(&error)))?;
    Ok(Compiled::Module(linked))
}

fn compile_component(kit: &Kit, bytes: &[u8]) -> Result<Compiled, Failure> {
    let component = Component::new(&kit.engine, bytes).map_err(|error| invalid(words(&error)))?;
    let linked =
        kit.components.instantiate_pre(&component).map_err(|error| invalid(words(&error)))?;
    let command = CommandPre::new(linked).map_err(|error| invalid(words(&error)))?;
    Ok(Compiled::Component(command))
}

fn words(error: &wasmtime::Error) -> String {
    format!("{error:#}")
}
