//! Sends what happens to who wants to know it: once, in order for each receiver, and never in the
//! way of the engine. What does not fit into a queue is dropped, and that is said.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use countersign_egress::SystemResolver;
use countersign_flow::event::wire;
use countersign_flow::{Definition, RunEvent};
use countersign_host::Host;
use countersign_model::{Failure, RunId};
use countersign_workflow::{Grown, Observer};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::book::{Book, SPACE, Subscription};
use crate::auth::blocking;
use crate::error::Refusal;
use crate::webhook::{
    Courier, Delivery, SignatureForm, Target, UrlPolicy, Verdict, body, headers, unsigned,
};

#[derive(Debug, Clone, Copy, Default)]
pub struct PostSettings {
    pub policy: UrlPolicy,
    pub form: SignatureForm,
}

/// Events that wait to be sorted, and to be sent to one receiver.
const MOST_WAITING: usize = 8192;
const MOST_FOR_ONE: usize = 1024;
const MOST_CALLBACKS: usize = 64;

/// The post of one host. Cheap to clone.
#[derive(Clone)]
pub struct Post(Arc<Inner>);

struct Inner {
    host: Arc<Host>,
    settings: PostSettings,
    book: Book,
    courier: OnceLock<Courier>,
    queue: Mutex<Option<mpsc::Sender<Letter>>>,
    dropped: AtomicU64,
    over: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

/// An event before anybody has asked who wants it.
struct Letter {
    tenant: String,
    run: RunId,
    definition: Arc<Definition>,
    event: Arc<RunEvent>,
    callback: Option<String>,
}

/// What one receiver gets.
struct Sealed {
    kind: String,
    body: Vec<u8>,
}

struct Mailbox {
    tenant: String,
    letters: mpsc::Sender<Arc<Sealed>>,
    worker: JoinHandle<()>,
}

impl Post {
    /// Reads who is to be told, and begins to wait for something to tell.
    pub fn open(host: Arc<Host>, settings: PostSettings) -> Result<Post, Failure> {
        let book = Book::open(Arc::clone(&host), settings.policy)?;
        let (queue, letters) = mpsc::channel(MOST_WAITING);
        let (done, over) = std::sync::mpsc::channel();
        let post = Post(Arc::new(Inner {
            host,
            settings,
            book,
            courier: OnceLock::new(),
            queue: Mutex::new(Some(queue)),
            dropped: AtomicU64::new(0),
            over: Mutex::new(Some(over)),
        }));
        let short = |error: std::io::Error| {
            Failure::resource("HOST_EXHAUSTED", format!("no thread could be started: {error}"))
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(8).build().map_err(short)?;
        let sorting = post.clone();
        let work = move || {
            runtime.block_on(sorting.sort_all(letters));
            runtime.shutdown_background();
            let _ = done.send(());
        };
        thread::Builder::new().name("webhooks".to_owned()).spawn(work).map_err(short)?;
        Ok(post)
    }

    /// Takes nothing more, and waits a while until what was taken is sent.
    pub fn close(&self, patience: Duration) {
        self.queue().take();
        let over = self.0.over.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(over) = over {
            let _ = over.recv_timeout(patience);
        }
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<Letter>>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn policy(&self) -> UrlPolicy {
        self.0.settings.policy
    }

    pub(super) fn book(&self) -> &Book {
        &self.0.book
    }

    /// A name that leads inside is refused. One that leads nowhere now is judged at each delivery.
    pub(super) async fn check_addresses(&self, target: &Target) -> Result<(), Refusal> {
        let post = self.clone();
        // Making the courier reads files.
        blocking(move || Ok(post.courier().map(drop)?)).await?;
        match self.courier()?.addresses(target).await {
            Err(failure) if failure.code == "WEBHOOK_URL_REJECTED" => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// Made when it is first needed: reading all authorities of a system takes a while.
    fn courier(&self) -> Result<&Courier, Failure> {
        if let Some(courier) = self.0.courier.get() {
            return Ok(courier);
        }
        let resolver = Arc::new(SystemResolver::default());
        let made = Courier::new(self.policy(), resolver, None)?;
        Ok(self.0.courier.get_or_init(|| made))
    }

    fn drop_one(&self) {
        let dropped = self.0.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if dropped.is_power_of_two() {
            tracing::warn!(dropped, "receivers are too slow: events were not sent to all of them");
        }
    }
}

impl Observer for Post {
    fn grew(&self, grown: Grown<'_>) {
        let url = grown.seed.and_then(|seed| seed.callback_url.as_ref());
        if url.is_none() && !self.0.book.has(&grown.summary.tenant) {
            return;
        }
        let queue = self.queue();
        let Some(queue) = queue.as_ref() else { return };
        for event in grown.events {
            let letter = Letter {
                tenant: grown.summary.tenant.clone(),
                run: grown.summary.run.clone(),
                definition: Arc::clone(grown.definition),
                event: Arc::clone(event),
                callback: url.filter(|_| event.event.is_terminal()).cloned(),
            };
            if queue.try_send(letter).is_err() {
                self.drop_one();
            }
        }
    }

    fn changed(&self, space: &str) {
        if space == SPACE
            && let Err(failure) = self.0.book.load()
        {
            tracing::warn!(message = %failure.message, "webhooks could not be read");
        }
    }
}

impl Post {
    async fn sort_all(self, mut letters: mpsc::Receiver<Letter>) {
        let mut boxes: HashMap<String, Mailbox> = HashMap::new();
        let places = Arc::new(Semaphore::new(MOST_CALLBACKS));
        let mut version = 0;
        while let Some(letter) = letters.recv().await {
            let now = self.0.book.version();
            if std::mem::replace(&mut version, now) != now {
                boxes.retain(|id, mailbox| self.0.book.is_there(&mailbox.tenant, id));
            }
            self.sort(&mut boxes, &places, &letter);
        }
        for mailbox in boxes.into_values() {
            drop(mailbox.letters);
            let _ = mailbox.worker.await;
        }
        let _ = places.acquire_many(MOST_CALLBACKS as u32).await;
    }

    fn sort(&self, boxes: &mut HashMap<String, Mailbox>, places: &Arc<Semaphore>, letter: &Letter) {
        let shown = wire(&letter.definition, letter.run.as_str(), &letter.event);
        let kind = shown.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let sealed = Arc::new(Sealed { body: body(&shown, &letter.tenant), kind });
        for one in self.0.book.of(&letter.tenant) {
            if one.wants(&sealed.kind) {
                let mailbox = boxes.entry(one.id.clone()).or_insert_with(|| self.mailbox(one));
                if mailbox.letters.try_send(Arc::clone(&sealed)).is_err() {
                    self.drop_one();
                }
            }
        }
        if let Some(url) = &letter.callback {
            self.call_back(places, url, sealed);
        }
    }

    fn mailbox(&self, one: Arc<Subscription>) -> Mailbox {
        let (letters, waiting) = mpsc::channel(MOST_FOR_ONE);
        let tenant = one.tenant.clone();
        let worker = tokio::spawn(self.clone().serve(one, waiting));
        Mailbox { tenant, letters, worker }
    }

    /// One receiver, one letter after the other.
    async fn serve(self, one: Arc<Subscription>, mut waiting: mpsc::Receiver<Arc<Sealed>>) {
        let mut circuit = self.0.book.circuit(&one);
        while let Some(letter) = waiting.recv().await {
            // Whoever was removed gets nothing more, not even what waits for them.
            if !self.0.book.is_there(&one.tenant, &one.id) {
                return;
            }
            let now = self.0.host.clock().now();
            if circuit.judge(now) != Verdict::Go {
                continue;
            }
            let Sealed { kind, body } = &*letter;
            let form = self.0.settings.form;
            let headers = headers(&one.id, kind, &one.secret, now, body, form);
            let target = one.target.clone();
            let delivered = self.deliver(Delivery { target, headers, body: body.clone() }).await;
            let (before, now) = (circuit.was_open(), self.0.host.clock().now());
            circuit = circuit.after(delivered, now);
            // Written down when somebody is given up or heard of again, which is seldom.
            if before || circuit.judge(now) != Verdict::Go {
                let (post, one, circuit) = (self.clone(), Arc::clone(&one), circuit.clone());
                let kept = move || post.0.book.keep_circuit(&one, &circuit);
                let _ = tokio::task::spawn_blocking(kept).await;
            }
        }
    }

    async fn deliver(&self, delivery: Delivery) -> bool {
        let answered = match self.courier() {
            Ok(courier) => courier.deliver(&delivery).await,
            Err(failure) => Err(failure),
        };
        match answered {
            Ok(status) => (200..300).contains(&status),
            Err(failure) => {
                tracing::debug!(host = %delivery.target.host, why = %failure.message, "not told");
                false
            }
        }
    }

    /// The end of one run, for whoever asked for it when it began. Nobody agreed on a secret for
    /// it, so it bears no signature.
    fn call_back(&self, places: &Arc<Semaphore>, url: &str, letter: Arc<Sealed>) {
        let Ok(place) = Arc::clone(places).try_acquire_owned() else { return self.drop_one() };
        let Ok(target) = Target::parse(url, self.policy()) else { return };
        let post = self.clone();
        tokio::spawn(async move {
            let headers = unsigned(&letter.kind, post.0.host.clock().now());
            post.deliver(Delivery { target, headers, body: letter.body.clone() }).await;
            drop(place);
        });
    }
}
