//! The guest's standard streams: memory in, captures out.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use countersign_sandbox::{Capture, Captured, LimitKind};
use tokio::io::AsyncWrite;
use wasmtime::Error;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::limiter::Reached;

/// How much a guest may write in one go.
const PERMIT: usize = 64 << 10;

/// One output stream, shared by the guest that writes and the host that watches.
#[derive(Debug, Clone)]
pub(crate) struct Output(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    capture: Option<Capture>,
    /// What the observer has not seen yet.
    fresh: Vec<u8>,
}

impl Output {
    pub(crate) fn new(capture: Capture) -> Self {
        Output(Arc::new(Mutex::new(State { capture: Some(capture), fresh: Vec::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What arrived since this was asked last.
    pub(crate) fn fresh(&self) -> Vec<u8> {
        mem::take(&mut self.state().fresh)
    }

    /// Adds words of the host's own. Too long an output keeps its beginning.
    pub(crate) fn say(&self, text: &str) {
        let _ = self.take(text.as_bytes());
    }

    pub(crate) fn finish(&self) -> Captured {
        self.state().capture.take().map(Capture::finish).unwrap_or_default()
    }

    fn take(&self, bytes: &[u8]) -> StreamResult<()> {
        let mut state = self.state();
        let Some(capture) = &mut state.capture else { return Err(StreamError::Closed) };
        let taken = capture.take(bytes).map_err(|error| StreamError::Trap(Error::new(error)))?;
        state.fresh.extend_from_slice(bytes);
        taken.map_err(|_| StreamError::Trap(Error::new(Reached(LimitKind::Output))))
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    /// Only guests of a later WASI would ask for this one, and there is no linker for them.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(MemoryOutputPipe::new(0))
    }
}
