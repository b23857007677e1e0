//! What goes into a program and what comes out of it.

use std::io;
use std::os::fd::OwnedFd;

use countersign_model::Failure;
use countersign_sandbox::Capture;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::protocol::retry;

const CHUNK: usize = 64 << 10;

/// What the program reads: a file in memory that nobody can change, so feeding it never blocks.
pub(super) fn input(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("input", flags)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = retry(|| rustix::io::write(&file, rest))?;
        rest = rest.get(written..).unwrap_or_default();
    }
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// Reading never blocks the host; writing blocks the program when it is faster than we are.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

/// Output that could not be put aside.
pub(super) fn unkept(error: &io::Error) -> Failure {
    let message = format!("the tool's output could not be kept: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Failure::resource("DISK_FULL", message).hint("free some space and call again")
        }
        _ => Failure::state("OUTPUT_LOST", message),
    }
}

/// `true` if there was more than may be kept.
pub(super) fn drain_one(
    stream: &mut Option<OwnedFd>,
    capture: &mut Capture,
    seen: &mut dyn FnMut(&[u8]),
) -> io::Result<bool> {
    let mut buffer = [0u8; CHUNK];
    let mut overflow = false;
    // Bounded, so that a program that writes without pause cannot keep us from looking at the clock.
    for _ in 0..16 {
        let Some(fd) = &stream else { break };
        match retry(|| rustix::io::read(fd, &mut buffer)) {
            Ok(0) => *stream = None,
            Ok(read) => {
                let bytes = buffer.get(..read).unwrap_or_default();
                seen(bytes);
                overflow |= capture.take(bytes)?.is_err();
            }
            Err(rustix::io::Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(overflow)
}
