//! What host, launcher and box say to each other: one message a packet, descriptors beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use countersign_sandbox::plan::SetupOp;
use countersign_sandbox::{LimitKind, Limits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A packet is a plan at most, and plans are small.
const MAX_PACKET: usize = 192 << 10;
const MAX_DESCRIPTORS: usize = 8;

/// From the host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// To the launcher, once: leave the host's namespaces and build the root.
    Setup { ops: Vec<SetupOp> },
    /// To the launcher: make a box, up to the moment before the program starts.
    Prepare(Box<Prepare>),
    /// To the box, with the three standard descriptors: start the program.
    Go,
    /// To the box: tell whether there are too many processes or too many threads.
    Count,
    /// To the box: ask every process to end.
    Terminate,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) sandbox: Vec<SetupOp>,
    pub(crate) program: Vec<SetupOp>,
    pub(crate) command: Vec<String>,
    pub(crate) environment: Vec<String>,
    pub(crate) directory: String,
    pub(crate) limits: Limits,
    /// What no control group counts, so that the first process has to.
    pub(crate) sample_memory: bool,
    pub(crate) sample_cpu: bool,
}

/// To the host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The launcher is set up. Beside it: the socket that listens inside, if the plan has one.
    Ready,
    /// The box is set up. Beside it: the first process, the scratch space, `/out`, the staged
    /// workspace if there is one.
    Prepared,
    Started,
    Failed(SetupFailure),
    /// A limit that only the box can see was reached.
    Limit(LimitKind),
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        cpu_micros: u64,
        peak_memory: u64,
        /// How many processes it left to be ended.
        others: u32,
    },
    /// The box is gone. `clean`: its network namespace is as empty as before.
    Idle {
        clean: bool,
    },
}

/// A step that did not work.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SetupFailure {
    pub(crate) step: String,
    pub(crate) error: String,
    /// The program itself could not be started, which is not the sandbox's fault.
    pub(crate) is_command: bool,
}

/// One end of the connection.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    pub(crate) fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Channel(ours), theirs))
    }

    pub(crate) fn of(fd: OwnedFd) -> Self {
        Channel(fd)
    }

    pub(crate) fn send<M: Serialize>(&self, message: &M, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MAX_PACKET {
            return Err(io::Error::other("the command and its environment are too long"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        let slices = [IoSlice::new(&bytes)];
        rustix::net::sendmsg(&self.0, &slices, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// As [`receive`](Self::receive), but an error when nothing comes in time.
    pub(crate) fn receive_within<M: DeserializeOwned>(
        &self,
        patience: Duration,
    ) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        match is_ready(self.as_fd(), patience)? {
            true => self.receive(),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// `None` when the other end is gone.
    pub(crate) fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; self.next_size()?];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let received = past_reset(|| {
            rustix::net::recvmsg(&self.0, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::other("a message arrived cut off"));
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        let message = serde_json::from_slice(bytes.get(..received.bytes).unwrap_or_default())?;
        Ok(Some((message, fds)))
    }
}

impl Channel {
    /// The size of the packet that comes next. Waits for it, and leaves it there.
    fn next_size(&self) -> io::Result<usize> {
        let mut nothing: [u8; 0] = [];
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
        let (_, size) = past_reset(|| rustix::net::recv(&self.0, &mut nothing, flags))?;
        Ok(size)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether there is something to read, or nobody left to write, at once or after a while.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        let timeout = Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// Whether the process behind a descriptor has ended.
pub(crate) fn has_ended(process: BorrowedFd<'_>) -> io::Result<bool> {
    is_ready(process, Duration::ZERO)
}

/// Whether a message is small enough to be sent.
pub(crate) fn fits<M: Serialize>(message: &M) -> bool {
    serde_json::to_vec(message).is_ok_and(|bytes| bytes.len() <= MAX_PACKET)
}

/// That the other end left without having read everything is reported once. What it said before is
/// still there to be read, and after that its end.
fn past_reset<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match retry(&mut call) {
        Err(rustix::io::Errno::CONNRESET) => retry(call),
        result => result,
    }
}

/// Signals interrupt; that is no answer.
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_heard_from_an_end_that_did_not_listen() -> io::Result<()> {
        let (ours, theirs) = Channel::pair()?;
        let theirs = Channel::of(theirs);
        ours.send(&Request::Terminate, &[])?;
        theirs.send(&Reply::Started, &[])?;
        drop(theirs);
        assert!(matches!(ours.receive()?, Some((Reply::Started, _))));
        assert!(ours.receive::<Reply>()?.is_none());
        Ok(())
    }
}
