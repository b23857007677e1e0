//! The launcher: a small process that makes boxes, one after another.
//!
//! It is this program started again, with one thread and little memory, so that cloning it is cheap
//! and sound. It reads one request after the other:
//!
//! 1. `Setup`: leave the host's namespaces, build the root that all boxes share. Once.
//! 2. `Prepare`: clone the first process of a box, which takes over the conversation (`init.rs`).
//! 3. When that process has ended, so has everything in the box: say so, and wait for the next.

mod init;
mod mounts;
mod program;
mod sample;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use countersign_sandbox::plan::{Namespace, SetupOp};
use rustix::process::{
    DumpableBehavior, PidfdFlags, Signal, getpid, pidfd_open, set_dumpable_behavior,
    set_parent_process_death_signal,
};

use crate::protocol::{Channel, Prepare, Reply, Request, SetupFailure};
use crate::sys;

/// Serves the socket on standard input until its other end is closed.
pub fn launcher_main() -> i32 {
    match rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) {
        Ok(fd) => serve(&Channel::of(fd)).map_or(70, |()| 0),
        Err(_) => 70,
    }
}

/// The socket tells that the host is gone, but only those that listen. Who is stopped, or stands
/// still while a box is made, hears this. A host that ended before is found out by the socket.
fn die_with_the_host() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

fn serve(channel: &Channel) -> io::Result<()> {
    die_with_the_host()?;
    // The box's processes must not inherit the way to the host.
    quiet_standard_streams()?;
    while let Some((request, _)) = channel.receive::<Request>()? {
        match request {
            Request::Setup { ops } => setup(channel, &ops)?,
            Request::Prepare(prepare) => make_box(channel, &prepare)?,
            // To a box that is gone already.
            Request::Go | Request::Count | Request::Terminate => {}
        }
    }
    Ok(())
}

fn quiet_standard_streams() -> io::Result<()> {
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

fn setup(channel: &Channel, ops: &[SetupOp]) -> io::Result<()> {
    let (outside, mut listener) = (Identity::current(), None);
    for op in ops {
        match apply(op, outside) {
            Ok(opened) => listener = listener.or(opened),
            Err(error) => return channel.send(&Reply::Failed(failed(op, &error)), &[]),
        }
    }
    // Nobody may look into this process, least of all a program in one of its boxes.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Once more: the kernel forgets it when a process changes who it is.
    die_with_the_host()?;
    let fds: Vec<BorrowedFd<'_>> = listener.iter().map(AsFd::as_fd).collect();
    channel.send(&Reply::Ready, &fds)
}

fn failed(op: &SetupOp, error: &io::Error) -> SetupFailure {
    SetupFailure { step: op.to_string(), error: error.to_string(), is_command: false }
}

fn apply(op: &SetupOp, outside: Identity) -> io::Result<Option<OwnedFd>> {
    match op {
        SetupOp::Namespaces { list } => sys::unshare(namespace_flags(list)).map(|()| None),
        SetupOp::Identity { user, group } => map_identity(outside, *user, *group).map(|()| None),
        SetupOp::Listen { port } => listen(*port).map(Some),
        op => mounts::apply(op, &mut mounts::Staging::default()).map(|()| None),
    }
}

fn namespace_flags(list: &[Namespace]) -> libc::c_int {
    let flag = |namespace: &Namespace| match namespace {
        Namespace::User => libc::CLONE_NEWUSER,
        Namespace::Mount => libc::CLONE_NEWNS,
        Namespace::Pid => libc::CLONE_NEWPID,
        Namespace::Net => libc::CLONE_NEWNET,
        Namespace::Ipc => libc::CLONE_NEWIPC,
        Namespace::Uts => libc::CLONE_NEWUTS,
        Namespace::Cgroup => libc::CLONE_NEWCGROUP,
    };
    list.iter().fold(0, |flags, namespace| flags | flag(namespace))
}

/// Maps whoever we were outside to one user and one group inside, and nobody else.
fn map_identity(outside: Identity, user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{group} {} 1", outside.group))?;
    fs::write("/proc/self/uid_map", format!("{user} {} 1", outside.user))
}

/// User and group as the namespace above knows them. Taken before leaving it: until the map is
/// written, the kernel shows a placeholder.
#[derive(Debug, Clone, Copy)]
struct Identity {
    user: u32,
    group: u32,
}

impl Identity {
    fn current() -> Self {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        Identity { user: user.as_raw(), group: group.as_raw() }
    }
}

fn listen(port: u16) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let control = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    sys::raise_loopback(control.as_fd())?;
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.into())
}

/// The whole life of one box. We stand still while it lives.
fn make_box(channel: &Channel, prepare: &Prepare) -> io::Result<()> {
    let namespaces = prepare.sandbox.iter().find_map(|op| match op {
        SetupOp::Namespaces { list } => Some(namespace_flags(list)),
        _ => None,
    });
    let before = count_sockets();
    let launcher = pidfd_open(getpid(), PidfdFlags::empty())?;
    let mut work = || init::run(channel, prepare, launcher.as_fd());
    let first = match sys::run_in_child(namespaces.unwrap_or(0), &mut work) {
        Ok(first) => first,
        Err(error) => {
            let step = "start the first process of the sandbox".to_owned();
            let failure = SetupFailure { step, error: error.to_string(), is_command: false };
            return channel.send(&Reply::Failed(failure), &[]);
        }
    };
    // It shares our memory. One that was killed may have left that in any state.
    let ended_by_itself = sys::decode_status(sys::wait_for(first)?).is_ok();
    let after = count_sockets();
    let clean = ended_by_itself && after.is_some() && after == before;
    channel.send(&Reply::Idle { clean }, &[])
}

/// How many sockets of any kind there are in the network namespace that all our boxes use. Nobody in
/// a box can change anything else about it.
fn count_sockets() -> Option<u32> {
    sockets_in(&fs::read_to_string("/proc/self/net/sockstat").ok()?)
}

fn sockets_in(text: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix("sockets: used ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_every_kind_are_counted() {
        let text =
            "sockets: used 7\nTCP: inuse 2 orphan 0 tw 0 alloc 2 mem 0\nUDP: inuse 0 mem 0\n";
        assert_eq!(sockets_in(text), Some(7));
        assert_eq!(sockets_in("TCP: inuse 2\n"), None, "what cannot be read is not clean");
        let before = count_sockets();
        assert!(before.is_some());
    }
}
