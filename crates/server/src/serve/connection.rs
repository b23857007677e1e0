//! One connection: its handshake, its requests, its end.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::{Bounds, first};
use crate::gate::{App, Peer};
use crate::wire::Guarded;

#[derive(Clone)]
pub(super) struct Connections {
    pub(super) app: App,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) bounds: Bounds,
}

impl Connections {
    /// Ends with the connection, whoever ends it.
    pub(super) fn serve(
        &self,
        (stream, peer): (TcpStream, IpAddr),
        watcher: Watcher,
        cut: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let this = self.clone();
        async move {
            let _ = stream.set_nodelay(true);
            match this.tls.clone() {
                None => this.requests((stream, peer), watcher, cut).await,
                Some(tls) => {
                    let shaken = timeout(this.bounds.head_within, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = shaken {
                        this.requests((stream, peer), watcher, cut).await;
                    }
                }
            }
        }
    }

    async fn requests<S>(
        self,
        (stream, peer): (S, IpAddr),
        watcher: Watcher,
        mut cut: watch::Receiver<bool>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let app = self.app;
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let app = app.clone();
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            async move { Ok::<_, Infallible>(app.call(request).await) }
        });
        let guarded = Guarded::new(stream, self.bounds.write_within);
        let connection = builder(self.bounds).serve_connection(TokioIo::new(guarded), service);
        let connection = watcher.watch(connection);
        let cut = async move {
            let _ = cut.wait_for(|cut| *cut).await;
        };
        // How a connection ended is its client's affair: the requests have their own records.
        let _ = first(pin!(connection), pin!(cut)).await;
    }
}

fn builder(bounds: Bounds) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_within)
        .max_headers(bounds.max_headers)
        .max_header_size(bounds.max_head_bytes)
        .max_buf_size(bounds.max_head_bytes.max(SMALLEST_BUFFER))
        .half_close(false);
    builder
}

/// Below this hyper refuses to work.
const SMALLEST_BUFFER: usize = 8192;
