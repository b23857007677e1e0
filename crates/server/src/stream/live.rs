//! Runs as they happen. A reader pulls: what it does not take is not read for it either, so a
//! client that never reads costs one page and is let go when its socket has stalled for too long.

use std::fmt;
use std::pin::Pin;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use countersign_model::Failure;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::Event;
use super::ask::{PollAsk, StreamAsk};
use super::frame::{Buffer, KEEPALIVE};
use super::modes::{Modes, Shown, snapshot};
use crate::auth::blocking;
use crate::error::Refusal;
use crate::gate::Closing;
use crate::serve::{First, first};

/// Some events, in order.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub events: Vec<Event>,
    /// The run has ended, and these are its last events.
    pub complete: bool,
}

/// Something that is no event of the run, and has no place in its order.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Counted from 1, as long as somebody listens.
    pub number: u64,
    pub kind: &'static str,
    pub json: Arc<Value>,
}

/// Where the events of one run come from.
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// At most so many events after a sequence. May block.
    fn read(&self, after: Option<u64>, most: usize) -> Result<Page, Failure>;

    /// The same, if it is at hand: never blocks. Many readers of one run are served from here.
    fn at_hand(&self, _after: Option<u64>, _most: usize) -> Option<Page> {
        None
    }

    /// The state of the run after an event. May block.
    fn snapshot(&self, after: u64) -> Result<Value, Failure>;

    /// What was said beside the run after so many things: for who listens now, and kept nowhere.
    /// Never blocks.
    fn notices(&self, _after: u64) -> Vec<Notice> {
        Vec::new()
    }

    /// Changes whenever there may be more to read.
    fn changes(&self) -> watch::Receiver<u64>;
}

const PAGE: usize = 256;

/// Frames that are ready go out together, up to so many bytes.
const TOGETHER: usize = 32 * 1024;

/// At most this long without a byte.
pub const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);

async fn page(source: &Arc<dyn Source>, after: Option<u64>) -> Result<Page, Refusal> {
    if let Some(page) = source.at_hand(after, PAGE) {
        return Ok(page);
    }
    let source = Arc::clone(source);
    blocking(move || Ok(source.read(after, PAGE)?)).await
}

/// What is shown of an event; the state of the run is looked up where it is wanted.
async fn show(
    source: &Arc<dyn Source>,
    modes: Modes,
    event: &Event,
) -> Result<Vec<Event>, Refusal> {
    let mut events = Vec::new();
    for shown in modes.shown(event) {
        events.push(match shown {
            Shown::Event(event) => event,
            Shown::Snapshot(_) => state_at(source, event).await?,
        });
    }
    Ok(events)
}

async fn state_at(source: &Arc<dyn Source>, event: &Event) -> Result<Event, Refusal> {
    let (source, sequence) = (Arc::clone(source), event.sequence);
    let state = blocking(move || Ok(source.snapshot(sequence)?)).await?;
    Ok(snapshot(event, &state))
}

/// What a list may hold: it is put together in memory.
const LONGEST_LIST: usize = 64 * 1024 * 1024;

/// Everything there is, as a list.
pub async fn list(source: Arc<dyn Source>, ask: &StreamAsk) -> Result<Value, Refusal> {
    let (mut after, mut shown, mut bytes) = (ask.after, Vec::new(), 0);
    loop {
        let page = page(&source, after).await?;
        let Some(last) = page.events.last() else { break };
        after = Some(last.sequence);
        for event in &page.events {
            let events = show(&source, ask.modes, event).await?;
            bytes += events.iter().map(|event| event.text.len()).sum::<usize>();
            if bytes > LONGEST_LIST {
                return Err(Refusal::invalid("the list is too long; follow it as a stream"));
            }
            shown.extend(events.into_iter().map(|event| Value::clone(&event.json)));
        }
    }
    Ok(json!({"events": shown}))
}

/// What came after a sequence; waits for it if nothing did.
pub async fn poll(
    source: Arc<dyn Source>,
    ask: PollAsk,
    closing: &Closing,
) -> Result<Value, Refusal> {
    let mut changes = source.changes();
    let until = Instant::now() + ask.within;
    loop {
        changes.mark_unchanged();
        let (events, complete) = rest(&source, ask.after).await?;
        let done = complete || !events.is_empty() || Instant::now() >= until;
        if done || closing.is_closing() {
            let events: Vec<&Value> = events.iter().map(|event| &*event.json).collect();
            return Ok(json!({"events": events, "isComplete": complete}));
        }
        let change = async { drop(changes.changed().await) };
        let ended = either(sleep_until(until), closing.wait());
        let _ = first(pin!(change), pin!(ended)).await;
    }
}

/// Whichever comes first, when it does not matter which.
async fn either(one: impl Future, other: impl Future) {
    let _ = first(pin!(one), pin!(other)).await;
}

/// Everything after a sequence, and whether that is the end of the run.
async fn rest(source: &Arc<dyn Source>, after: Option<u64>) -> Result<(Vec<Event>, bool), Refusal> {
    let (mut after, mut all) = (after, Vec::new());
    loop {
        let page = page(source, after).await?;
        let full = page.events.len() >= PAGE;
        after = page.events.last().map(|event| event.sequence).or(after);
        all.extend(page.events);
        if page.complete || !full {
            return Ok((all, page.complete));
        }
    }
}

/// Whether whoever follows may still do so.
pub type Allowed = Box<dyn Fn() -> bool + Send>;

/// How often that is asked.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The answer that streams.
pub fn sse(
    source: Arc<dyn Source>,
    ask: &StreamAsk,
    closing: Closing,
    allowed: Allowed,
) -> Response {
    let (frames, body) = mpsc::channel(1);
    let noticed = source.notices(0).last().map_or(0, |last| last.number);
    let reader = Reader {
        changes: source.changes(),
        noticed,
        source,
        modes: ask.modes,
        buffer: Buffer::new(ask.buffer_millis),
        after: ask.after,
        resumed: ask.after.is_some(),
        began: Instant::now(),
        allowed,
        asked: Instant::now(),
        ready: String::new(),
        frames,
        closing,
    };
    // Ends when the run does, when the host does, or when nobody takes its frames any more.
    tokio::spawn(reader.run());
    let mut response = Response::new(Body::new(Frames(body)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The end of the run is the end of the connection: readers wait for that.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Reader {
    source: Arc<dyn Source>,
    changes: watch::Receiver<u64>,
    modes: Modes,
    buffer: Buffer,
    after: Option<u64>,
    resumed: bool,
    noticed: u64,
    began: Instant,
    allowed: Allowed,
    asked: Instant,
    /// Frames that are not handed on yet.
    ready: String,
    frames: mpsc::Sender<Bytes>,
    closing: Closing,
}

/// The reader's client, run or host is gone.
struct Gone;

impl Reader {
    async fn run(mut self) {
        // However it ends, what is held goes out if anybody still takes it.
        let _ = self.follow().await;
        let _ = self.hand_on().await;
        if let Some(text) = self.buffer.flush() {
            let _ = self.send(text).await;
        }
    }

    async fn follow(&mut self) -> Result<(), Gone> {
        self.greet().await?;
        loop {
            self.check()?;
            self.changes.mark_unchanged();
            let page = page(&self.source, self.after).await.map_err(|_| Gone)?;
            let (complete, idle) = (page.complete, page.events.len() < PAGE);
            self.tell(page.events).await?;
            self.notify().await?;
            if complete || self.closing.is_closing() {
                return Ok(());
            }
            if idle {
                self.wait().await?;
            }
        }
    }

    /// A key that was taken away is good for nothing more, not even for what it began.
    fn check(&mut self) -> Result<(), Gone> {
        if self.asked.elapsed() < ASKED_EVERY {
            return Ok(());
        }
        self.asked = Instant::now();
        if (self.allowed)() { Ok(()) } else { Err(Gone) }
    }

    /// Whoever comes back for the state gets it first.
    async fn greet(&mut self) -> Result<(), Gone> {
        let (true, true, Some(after)) = (self.modes.values, self.resumed, self.after) else {
            return Ok(());
        };
        // Nothing for whoever has seen more than there is.
        let seen = page(&self.source, after.checked_sub(1)).await.map_err(|_| Gone)?;
        let Some(seen) = seen.events.first() else { return Ok(()) };
        let event = state_at(&self.source, seen).await.map_err(|_| Gone)?;
        self.put(event).await
    }

    async fn tell(&mut self, events: Vec<Event>) -> Result<(), Gone> {
        for event in events {
            self.after = Some(event.sequence);
            let shown = show(&self.source, self.modes, &event).await.map_err(|_| Gone)?;
            for event in shown {
                self.put(event).await?;
            }
        }
        self.hand_on().await
    }

    /// A notice has no id, so that nobody resumes from it.
    async fn notify(&mut self) -> Result<(), Gone> {
        if !(self.modes.updates || self.modes.debug) {
            return Ok(());
        }
        for notice in self.source.notices(self.noticed) {
            self.noticed = notice.number;
            self.send(format!("event: {}\ndata: {}\n\n", notice.kind, notice.json)).await?;
        }
        Ok(())
    }

    async fn put(&mut self, event: Event) -> Result<(), Gone> {
        let now = self.now_millis();
        if let Some(text) = self.buffer.push(event, now) {
            self.ready.push_str(&text);
        }
        if self.ready.len() < TOGETHER {
            return Ok(());
        }
        self.hand_on().await
    }

    async fn hand_on(&mut self) -> Result<(), Gone> {
        match std::mem::take(&mut self.ready) {
            text if text.is_empty() => Ok(()),
            text => self.send(text).await,
        }
    }

    /// Until there may be more, the buffer is due, the line has been quiet for too long, or the
    /// host ends.
    async fn wait(&mut self) -> Result<(), Gone> {
        let quiet = Instant::now() + KEEPALIVE_EVERY;
        let due = self.buffer.due().map(|due| self.began + Duration::from_millis(due));
        let until = due.map_or(quiet, |due| due.min(quiet));
        let change = async { self.changes.changed().await.is_ok() };
        let frames = self.frames.clone();
        let closing = self.closing.clone();
        let over = either(closing.wait(), frames.closed());
        let timer = either(sleep_until(until), over);
        match first(pin!(change), pin!(timer)).await {
            First::Left(true) => return Ok(()),
            First::Left(false) => return Err(Gone),
            First::Right(()) => {}
        }
        let text = self.buffer.flush();
        match text {
            Some(text) => self.send(text).await,
            None if self.closing.is_closing() => Ok(()),
            None => self.send(KEEPALIVE.to_owned()).await,
        }
    }

    async fn send(&mut self, text: String) -> Result<(), Gone> {
        self.frames.send(Bytes::from(text)).await.map_err(|_| Gone)
    }

    fn now_millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

struct Frames(mpsc::Receiver<Bytes>);

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
