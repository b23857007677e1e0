//! Many who follow one run, beside the same bytes through bare sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use countersign_model::Failure;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;
use serde_json::json;

use super::stage::{ASKS, Serving, Stage};
use super::{begin, events, failed};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Streams {
    pub(super) subscribers: usize,
    pub(super) events: u64,
    pub(super) events_per_second: f64,
    /// The time that it took over that of the same bytes through bare sockets.
    pub(super) over_bare_sockets: f64,
}

pub(super) fn measure(stage: &Stage, host: &Serving, count: usize) -> Result<Streams, Failure> {
    let mut client = host.client(stage)?;
    let run = begin(&mut client, ASKS)?;
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    let mut followers = Vec::new();
    for _ in 0..count {
        followers.push(Follower::new(host.client(stage)?.follow(&path)?));
    }
    // Everybody has what was there already: the stream stands.
    let there = events(&mut client, &run)?;
    follow(&mut followers, |follower| follower.frames >= there)?;
    let before: usize = followers.iter().map(|follower| follower.bytes).sum();

    let start = Instant::now();
    let accept = json!({"resumeValue": {"action": "accept"}});
    client.post(&format!("/v1/runs/{run}/interrupts/gate"), &accept)?;
    follow(&mut followers, |follower| follower.ended)?;
    let took = start.elapsed();

    let all = events(&mut client, &run)?;
    if let Some(odd) = followers.iter().find(|follower| follower.frames != all) {
        return Err(failed(&format!("a stream had {} of {all} events", odd.frames)));
    }
    let after: usize = followers.iter().map(|follower| follower.bytes).sum();
    let bare = bare(count, (after - before) / count.max(1))?;
    let told = (all - there) * count as u64;
    Ok(Streams {
        subscribers: count,
        events: told,
        events_per_second: told as f64 / took.as_secs_f64(),
        over_bare_sockets: took.as_secs_f64() / bare,
    })
}

struct Follower {
    stream: TcpStream,
    frames: u64,
    bytes: usize,
    ended: bool,
    last: u8,
}

impl Follower {
    fn new(stream: TcpStream) -> Self {
        Follower { stream, frames: 0, bytes: 0, ended: false, last: 0 }
    }

    /// A frame ends with an empty line; so does a comment, which is long in coming.
    fn read(&mut self) -> Result<(), Failure> {
        let mut some = [0; 64 * 1024];
        let count = self.stream.read(&mut some).map_err(|error| failed(&error))?;
        let some = some.get(..count).unwrap_or_default();
        self.bytes += count;
        self.ended = count == 0 || some.ends_with(b"0\r\n\r\n");
        for byte in some {
            if *byte == b'\n' && self.last == b'\n' {
                self.frames += 1;
            }
            self.last = *byte;
        }
        Ok(())
    }
}

/// Reads all of them until each is so far.
fn follow(followers: &mut [Follower], is_done: impl Fn(&Follower) -> bool) -> Result<(), Failure> {
    loop {
        let mut open: Vec<_> = followers.iter_mut().filter(|one| !is_done(one)).collect();
        if open.is_empty() {
            return Ok(());
        }
        if open.iter().any(|follower| follower.ended) {
            return Err(failed(&"a stream ended early"));
        }
        let mut polled: Vec<_> =
            open.iter().map(|one| PollFd::from_borrowed_fd(fd(one), PollFlags::IN)).collect();
        poll(&mut polled, None).map_err(|error| failed(&error))?;
        let ready: Vec<_> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        for (follower, _) in open.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            follower.read()?;
        }
    }
}

fn fd(follower: &Follower) -> std::os::fd::BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(&follower.stream)
}

/// Seconds that so many bytes take to so many sockets of this machine.
fn bare(count: usize, bytes: usize) -> Result<f64, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| failed(&error))?;
    let port = listener.local_addr().map_err(|error| failed(&error))?.port();
    let (mut followers, mut senders) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let near = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|e| failed(&e))?;
        senders.push(listener.accept().map_err(|error| failed(&error))?.0);
        followers.push(Follower::new(near));
    }
    let start = Instant::now();
    let content = vec![b'x'; bytes];
    let sending =
        thread::spawn(move || senders.iter_mut().try_for_each(|sender| sender.write_all(&content)));
    follow(&mut followers, |follower| follower.bytes >= bytes)?;
    let took = start.elapsed().as_secs_f64();
    match sending.join() {
        Ok(Ok(())) => Ok(took),
        _ => Err(failed(&"bare sockets could not be written to")),
    }
}
