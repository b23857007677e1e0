//! How much is under way at a time. What comes on top is told to come back, instead of waiting in
//! a queue that nobody sees.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Refusal;

#[derive(Debug, Clone)]
pub struct Inflight {
    places: Arc<Semaphore>,
    retry_after: u32,
}

impl Inflight {
    pub fn new(most: usize, retry_after_seconds: u32) -> Inflight {
        let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Inflight { places, retry_after: retry_after_seconds.max(1) }
    }

    pub(crate) fn enter(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Refusal::unavailable("the host is busy; wait and ask again", self.retry_after)
        })
    }
}

/// The place is held until the last byte was sent or the client went away: a stream counts for as
/// long as it lasts.
pub(crate) fn hold(response: Response, place: OwnedSemaphorePermit) -> Response {
    response.map(|body| Body::new(Held { body, _place: place }))
}

struct Held {
    body: Body,
    _place: OwnedSemaphorePermit,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
