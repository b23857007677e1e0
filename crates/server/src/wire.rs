//! The stream beneath HTTP: clients that do not read are let go, and what the HTTP library answers
//! by itself becomes an envelope.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::error::Refusal;

pub(crate) struct Guarded<S> {
    inner: S,
    write_within: Duration,
    stalled: Pin<Box<Sleep>>,
    is_stalled: bool,
    replacement: Option<Replacement>,
    lingering: Option<Linger>,
}

/// What is sent in the place of bytes that the library wrote.
struct Replacement {
    bytes: Vec<u8>,
    sent: usize,
}

/// Reads on for a moment after a refusal: a socket that is closed on unread bytes is reset, and the
/// client loses the answer.
struct Linger {
    until: Pin<Box<Sleep>>,
    left: usize,
}

const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1024 * 1024;

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, write_within: Duration) -> Guarded<S> {
        Guarded {
            inner,
            write_within,
            stalled: Box::pin(sleep(Duration::ZERO)),
            is_stalled: false,
            replacement: None,
            lingering: None,
        }
    }

    /// Every step forward starts the clock anew; no step for too long is the end.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        step: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if step.is_ready() {
            self.is_stalled = false;
            return step;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.stalled.as_mut().reset(Instant::now() + self.write_within);
        }
        ready!(self.stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> Guarded<S> {
    fn poll_replacement(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(replacement) = &mut self.replacement {
            let rest = replacement.bytes.get(replacement.sent..).unwrap_or_default();
            if rest.is_empty() {
                self.replacement = None;
                break;
            }
            let sent = ready!(Pin::new(&mut self.inner).poll_write(context, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            replacement.sent = replacement.sent.saturating_add(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.replacement.is_none()
            && let Some(envelope) = bare_refusal(bytes).map(envelope)
        {
            this.replacement = Some(Replacement { bytes: envelope, sent: 0 });
            let until = Box::pin(sleep(LINGER));
            this.lingering = Some(Linger { until, left: LINGER_BYTES });
        }
        let step = match this.replacement {
            Some(_) => this.poll_replacement(context).map_ok(|()| bytes.len()),
            None => Pin::new(&mut this.inner).poll_write(context, bytes),
        };
        this.watch(context, step)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let step = Pin::new(&mut self.inner).poll_flush(context);
        self.watch(context, step)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let step = Pin::new(&mut this.inner).poll_shutdown(context);
        ready!(this.watch(context, step))?;
        let Some(linger) = &mut this.lingering else { return Poll::Ready(Ok(())) };
        linger.poll(&mut this.inner, context).map(Ok)
    }
}

impl Linger {
    fn poll<S: AsyncRead + Unpin>(&mut self, inner: &mut S, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.left == 0 || self.until.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut scratch = [0; 4096];
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut *inner).poll_read(context, &mut buffer));
            let count = buffer.filled().len();
            if read.is_err() || count == 0 {
                return Poll::Ready(());
            }
            self.left = self.left.saturating_sub(count);
        }
    }
}

/// The status of an answer that the library gave without asking us: for heads that it could not
/// read. Ours always have a body, so an empty refusal is never ours.
fn bare_refusal(bytes: &[u8]) -> Option<StatusCode> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 ").or_else(|| bytes.strip_prefix(b"HTTP/1.0 "))?;
    let status = StatusCode::from_bytes(rest.get(..3)?).ok()?;
    let text = std::str::from_utf8(bytes).ok()?;
    let bare = text.ends_with("\r\n\r\n") && text.contains("content-length: 0\r\n");
    let ours = [StatusCode::BAD_REQUEST, StatusCode::URI_TOO_LONG];
    let known = ours.contains(&status) || status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    (bare && known).then_some(status)
}

fn envelope(status: StatusCode) -> Vec<u8> {
    let refusal = match status {
        StatusCode::BAD_REQUEST => Refusal::invalid("this is not an HTTP/1.1 request"),
        status => Refusal::of_status(status),
    };
    let body = refusal.envelope().to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncache-control: no-store\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_refusals_are_replaced() {
        let bare = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        assert_eq!(bare_refusal(bare), Some(StatusCode::BAD_REQUEST));
        for other in [
            &b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 02\r\n\r\n{}",
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 4",
            b"",
        ] {
            assert_eq!(bare_refusal(other), None);
        }
    }
}
