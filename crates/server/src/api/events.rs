//! The events of a run: streamed, listed, polled. However many follow a run, it is read once.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use countersign_flow::event::wire;
use countersign_flow::view::snapshot;
use countersign_flow::{Definition, RunEvent, RunState, Seed};
use countersign_model::{Failure, KeyScope, RunId};
use countersign_workflow::{Engine, Subscription, Trouble, View};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Api, answer};
use crate::auth::Caller;
use crate::error::Refusal;
use crate::query::Query;
use crate::route::Route;
use crate::schema::{self, MAX_WHOLE};
use crate::stream::{Event, Notice, Page, PollAsk, Source, StreamAsk, list, poll, sse};

pub(super) fn routes() -> Vec<Route<Api>> {
    let modes = "^(values|(updates|debug|messages)(,(updates|debug|messages))*)$";
    vec![
        Route::new(Method::GET, "/v1/runs/{runId}/events", "streamRunEvents", stream)
            .summary("The events of a run as they happen, or as a list")
            .scope(KeyScope::RunsRead)
            .parameter("streamMode", json!({"type": "string", "pattern": modes}))
            .parameter("bufferMs", json!({"type": "integer", "minimum": 0, "maximum": 5000}))
            .answer_as(200, "Frames", "text/event-stream", schema::frame())
            .answer(200, "A list", schema::of("RunEvents"))
            .header("Last-Event-ID", json!({"type": "string", "pattern": "^[0-9]{0,19}$"}))
            .refuses(&[400, 401, 403, 404, 429, 503]),
        Route::new(Method::GET, "/v1/runs/{runId}/events/poll", "pollRunEvents", polled)
            .summary("What came after an event; waits for it")
            .scope(KeyScope::RunsRead)
            .parameter(
                "lastSequence",
                json!({"type": "integer", "minimum": 0, "maximum": MAX_WHOLE}),
            )
            .parameter("timeout", json!({"type": "integer", "minimum": 1, "maximum": 60}))
            .answer(200, "Events", schema::of("RunEventsPolled"))
            .refuses(&[400, 401, 403, 404, 429, 503]),
    ]
}

async fn stream(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let ask = StreamAsk::parse(&Query::parse(query.as_deref().unwrap_or_default())?, &headers)?;
    let source = api.follow(run).await?;
    if ask.as_list {
        return Ok(answer(StatusCode::OK, &list(source, &ask).await?));
    }
    let (engine, key) = (api.engine().clone(), caller.key);
    let allowed = Box::new(move || {
        let host = engine.host();
        host.is_key_good(&key, host.clock().now())
    });
    Ok(sse(source, &ask, api.0.closing.clone(), allowed))
}

async fn polled(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let ask = PollAsk::parse(&Query::parse(query.as_deref().unwrap_or_default())?)?;
    let source = api.follow(run).await?;
    Ok(answer(StatusCode::OK, &poll(source, ask, &api.0.closing).await?))
}

/// A run that somebody follows: its events as they are shown, as far as they were read.
pub(crate) struct Followed {
    engine: Engine,
    run: RunId,
    definition: Arc<Definition>,
    seed: Arc<Seed>,
    known: Mutex<Known>,
    /// As far as somebody wanted to see the state.
    folded: Mutex<Option<RunState>>,
    /// The last few things that were said beside it.
    notices: Mutex<VecDeque<Notice>>,
    grown: watch::Sender<u64>,
    subscription: Mutex<Option<Subscription>>,
}

#[derive(Default)]
struct Known {
    events: Vec<Event>,
    complete: bool,
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Api {
    pub(super) async fn follow(&self, run: RunId) -> Result<Arc<dyn Source>, Refusal> {
        let known = self.locked().get(&run).and_then(Weak::upgrade);
        if let Some(known) = known {
            return Ok(known);
        }
        let view = match self.engine().view_at_hand(&run) {
            Some(view) => view,
            None => {
                let run = run.clone();
                self.ask(move |engine| Ok(engine.view(&run)?)).await?
            }
        };
        Ok(self.followed(&run, view))
    }

    fn followed(&self, run: &RunId, view: View) -> Arc<Followed> {
        let engine = self.engine().clone();
        let followed = Arc::new(Followed {
            engine: engine.clone(),
            run: run.clone(),
            definition: view.definition,
            seed: view.seed,
            known: Mutex::default(),
            folded: Mutex::default(),
            notices: Mutex::default(),
            grown: watch::Sender::new(0),
            subscription: Mutex::default(),
        });
        let told = Arc::downgrade(&followed);
        let subscription = engine.listen(run, move |growth| {
            if let Some(followed) = told.upgrade() {
                followed.grown.send_replace(growth.events);
            }
        });
        *followed.subscription.lock().unwrap_or_else(PoisonError::into_inner) = Some(subscription);
        let mut all = self.locked();
        // Somebody else may have come meanwhile.
        if let Some(known) = all.get(run).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, followed| followed.strong_count() > 0);
        all.insert(run.clone(), Arc::downgrade(&followed));
        followed
    }

    /// Tells whoever follows a run at the moment, and nobody else.
    pub(super) fn notify(&self, run: &RunId, kind: &'static str, json: Value) {
        let followed = self.locked().get(run).and_then(Weak::upgrade);
        if let Some(followed) = followed {
            followed.note(kind, json);
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<RunId, Weak<Followed>>> {
        self.0.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever is slower than this misses some.
const MOST_NOTICES: usize = 64;

impl Followed {
    fn note(&self, kind: &'static str, json: Value) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let number = notices.back().map_or(1, |last| last.number + 1);
        notices.push_back(Notice { number, kind, json: Arc::new(json) });
        while notices.len() > MOST_NOTICES {
            notices.pop_front();
        }
        drop(notices);
        self.grown.send_modify(|_| {});
    }

    fn refreshed(&self) -> Result<MutexGuard<'_, Known>, Trouble> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.complete {
            let from = known.events.len() as u64;
            self.take_in(&mut known, self.engine.events(&self.run, from)?);
        }
        Ok(known)
    }

    fn take_in(&self, known: &mut Known, events: Vec<Arc<RunEvent>>) {
        for event in events {
            known.complete = event.event.is_terminal();
            let shown = wire(&self.definition, self.run.as_str(), &event);
            known.events.extend(Event::new(shown));
        }
    }
}

impl Known {
    fn page(&self, after: Option<u64>, most: usize) -> Page {
        let skip = after.map_or(0, |after| after.saturating_add(1));
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let events: Vec<Event> = self.events.iter().skip(skip).take(most).cloned().collect();
        let last = skip.saturating_add(events.len()) >= self.events.len();
        Page { complete: self.complete && last, events }
    }
}

impl Source for Followed {
    fn read(&self, after: Option<u64>, most: usize) -> Result<Page, Failure> {
        match self.refreshed() {
            Ok(known) => Ok(known.page(after, most)),
            Err(Trouble::Failure(failure)) => Err(failure),
            Err(trouble) => Err(Failure::state("RUN_UNREADABLE", trouble.to_string())),
        }
    }

    fn at_hand(&self, after: Option<u64>, most: usize) -> Option<Page> {
        let mut known = self.known.try_lock().ok()?;
        if !known.complete
            && let Some(new) = self.engine.events_at_hand(&self.run, known.events.len() as u64)
        {
            self.take_in(&mut known, new);
            return Some(known.page(after, most));
        }
        let page = known.page(after, most);
        // Nothing at hand may mean that there is more to read.
        (page.complete || !page.events.is_empty()).then_some(page)
    }

    fn snapshot(&self, after: u64) -> Result<Value, Failure> {
        let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        // Readers go forward; only one that begins anew has to begin at the beginning.
        let state = match folded.take().filter(|state| state.next <= after.saturating_add(1)) {
            Some(state) => folded.insert(state),
            None => folded.insert(RunState::new(&self.definition, &self.seed)),
        };
        let events = self
            .engine
            .events(&self.run, state.next)
            .map_err(|trouble| Failure::state("RUN_UNREADABLE", trouble.to_string()))?;
        for event in events.iter().take_while(|event| event.sequence <= after) {
            let _ = state.apply(event);
        }
        Ok(snapshot(&self.definition, &self.seed, state, &[]))
    }

    fn notices(&self, after: u64) -> Vec<Notice> {
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.iter().filter(|notice| notice.number > after).cloned().collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }
}
