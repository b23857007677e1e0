//! Sockets: listening, bounded connections, and an end that loses nothing.

mod connection;

use std::fmt;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use countersign_model::Failure;
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use uuid::Uuid;

use crate::error::Refusal;
use crate::gate::{App, Edge};
use connection::Connections;

/// How the host listens.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    pub tls: Option<TlsFiles>,
    pub bounds: Bounds,
}

/// Certificate chain and private key, as PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    pub certificates: PathBuf,
    pub key: PathBuf,
}

impl Default for Settings {
    /// Loopback, and a port that the system chooses.
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Settings { listen, tls: None, bounds: Bounds::default() }
    }
}

/// What one connection, and all of them, may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub max_connections: usize,
    /// For a handshake, for the head of a request, and between two requests.
    pub head_within: Duration,
    /// How long a client may leave what was sent to it unread.
    pub write_within: Duration,
    pub max_head_bytes: usize,
    pub max_headers: usize,
    /// How many may wait for a disk at a time.
    pub max_blocking_threads: usize,
    /// How long requests may take to end when the host does.
    pub drain_within: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            max_connections: 4096,
            head_within: Duration::from_secs(20),
            write_within: Duration::from_secs(30),
            max_head_bytes: 32 * 1024,
            max_headers: 64,
            max_blocking_threads: 256,
            drain_within: Duration::from_secs(10),
        }
    }
}

/// A socket that listens already, so that its address is known before anything is served.
pub struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    bounds: Bounds,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Listener {
    pub async fn bind(settings: &Settings) -> Result<Listener, Failure> {
        let tls = settings.tls.as_ref().map(crate::tls::acceptor).transpose()?;
        let socket = TcpListener::bind(settings.listen).await.map_err(|error| {
            let message = format!("cannot listen on {}: {error}", settings.listen);
            Failure::resource("LISTEN_FAILED", message)
                .hint("choose another address or port with --listen")
        })?;
        Ok(Listener { socket, tls, bounds: settings.bounds })
    }

    pub fn address(&self) -> Result<SocketAddr, Failure> {
        self.socket
            .local_addr()
            .map_err(|error| Failure::resource("LISTEN_FAILED", error.to_string()))
    }

    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

/// Serves from a program that knows nothing of tasks: returns when the host has ended. Whoever
/// holds the edge of the application ends it, with [`crate::gate::Closing::close`], from any
/// thread. `ready` is told the address as soon as clients can connect.
pub fn run(
    settings: &Settings,
    app: App,
    ready: impl FnOnce(SocketAddr),
) -> Result<Ended, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("countersign-http")
        .max_blocking_threads(settings.bounds.max_blocking_threads)
        .enable_all()
        .build()
        .map_err(|error| Failure::resource("LISTEN_FAILED", error.to_string()))?;
    let ended = runtime.block_on(async move {
        let listener = Listener::bind(settings).await?;
        ready(listener.address()?);
        let closing = app.edge().closing.clone();
        tokio::spawn(keep_swept(Arc::clone(app.edge())));
        Ok(serve(listener, app, async move { closing.wait().await }).await)
    });
    // What still blocks has answered nobody, and its records say how far it came.
    runtime.shutdown_timeout(settings.bounds.drain_within);
    ended
}

const BETWEEN_SWEEPS: Duration = Duration::from_secs(3600);

/// Old answers go when the host starts, and then once in an hour, whether or not anybody asks.
async fn keep_swept(edge: Arc<Edge>) {
    loop {
        let (shelf, now) = (Arc::clone(&edge.shelf), edge.clock.now());
        let swept = tokio::task::spawn_blocking(move || shelf.sweep(now)).await;
        if let Ok(Err(failure)) = swept {
            tracing::warn!(code = %failure.code, message = %failure.message, "not swept");
        }
        sleep(BETWEEN_SWEEPS).await;
    }
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every request that was begun got its answer.
    Drained,
    /// Some took too long and were cut.
    Cut,
}

/// Serves until `shutdown`, then stops accepting, ends streams, lets requests finish, and leaves.
pub async fn serve(listener: Listener, app: App, shutdown: impl Future<Output = ()>) -> Ended {
    let Listener { socket, tls, bounds } = listener;
    let places = Arc::new(Semaphore::new(bounds.max_connections));
    let graceful = GracefulShutdown::new();
    let cut = watch::Sender::new(false);
    let connections = Connections { app: app.clone(), tls, bounds };
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = match first(shutdown.as_mut(), pin!(socket.accept())).await {
            First::Left(()) => break,
            First::Right(accepted) => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors, most likely: others must end first.
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            turn_away(&stream, connections.tls.is_some());
            continue;
        };
        let serving = connections.serve((stream, peer.ip()), graceful.watcher(), cut.subscribe());
        tokio::spawn(async move {
            serving.await;
            drop(place);
        });
    }
    drop(socket);
    app.edge().closing.close();
    let drained = timeout(bounds.drain_within, graceful.shutdown()).await;
    cut.send_replace(true);
    if drained.is_ok() { Ended::Drained } else { Ended::Cut }
}

/// One try, without waiting: whoever came to a full house must not cost anything.
fn turn_away(stream: &TcpStream, tls: bool) {
    if !tls {
        let refusal = Refusal::unavailable("the host has no room for another connection", 1)
            .detail("correlationId", json!(Uuid::now_v7().simple().to_string()));
        let body = refusal.envelope().to_string();
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
             retry-after: 1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let _ = stream.try_write(answer.as_bytes());
    }
}

/// Whichever of two comes first.
pub(crate) enum First<A, B> {
    Left(A),
    Right(B),
}

pub(crate) async fn first<A: Future, B: Future>(
    mut left: Pin<&mut A>,
    mut right: Pin<&mut B>,
) -> First<A::Output, B::Output> {
    std::future::poll_fn(move |context| {
        if let Poll::Ready(done) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(done));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}
