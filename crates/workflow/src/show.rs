//! Looking at runs, without a step of them.

use std::sync::{Arc, PoisonError};

use countersign_flow::RunEvent;
use countersign_journal::RunFilter;
use countersign_model::{RunId, RunSummary};

use crate::engine::Engine;
use crate::feed::{Growth, Subscription};
use crate::live::{Live, View, events};
use crate::trouble::Trouble;

impl Engine {
    /// A run as it stands.
    pub fn view(&self, run: &RunId) -> Result<View, Trouble> {
        let mut view = match self.cached(run) {
            Some(view) => view,
            None => {
                let live = Live::load(&self.0.host, &self.0.library, run)?.ok_or(Trouble::NoRun)?;
                live.shown()
            }
        };
        view.children = self.children(&view.state)?;
        Ok(view)
    }

    fn cached(&self, run: &RunId) -> Option<View> {
        let slot = self.known(run)?;
        let held = slot.live.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(Live::shown)
    }

    /// The same, if nothing has to be waited for: neither a disk nor somebody who records.
    pub fn view_at_hand(&self, run: &RunId) -> Option<View> {
        let slot = self.known(run)?;
        let held = slot.live.try_lock().ok()?;
        held.as_ref().filter(|live| live.state.children.is_empty()).map(Live::shown)
    }

    /// Whose run it is. That never changes.
    pub fn tenant(&self, run: &RunId) -> Result<Option<String>, Trouble> {
        Ok(self.summary(run)?.map(|summary| summary.tenant))
    }

    /// The same, if nothing has to be waited for.
    pub fn tenant_at_hand(&self, run: &RunId) -> Option<String> {
        let slot = self.known(run)?;
        let held = slot.live.try_lock().ok()?;
        held.as_ref().map(|live| live.summary.tenant.clone())
    }

    /// The events of a run from a number on, and whether the last of them is its end.
    pub fn events(&self, run: &RunId, from: u64) -> Result<Vec<Arc<RunEvent>>, Trouble> {
        if let Some(slot) = self.known(run)
            && let Some(live) = &*slot.live.lock().unwrap_or_else(PoisonError::into_inner)
        {
            let skip = usize::try_from(from).unwrap_or(usize::MAX);
            return Ok(live.events.iter().skip(skip).cloned().collect());
        }
        Ok(events(&self.0.host, run, from)?.into_iter().map(Arc::new).collect())
    }

    /// The same, if nothing has to be waited for.
    pub fn events_at_hand(&self, run: &RunId, from: u64) -> Option<Vec<Arc<RunEvent>>> {
        let slot = self.known(run)?;
        let held = slot.live.try_lock().ok()?;
        let skip = usize::try_from(from).unwrap_or(usize::MAX);
        held.as_ref().map(|live| live.events.iter().skip(skip).cloned().collect())
    }

    /// Tells whenever a run has grown, until the subscription is dropped.
    pub fn listen(
        &self,
        run: &RunId,
        listener: impl Fn(Growth) + Send + Sync + 'static,
    ) -> Subscription {
        self.0.feed.listen(run, listener)
    }

    pub fn summary(&self, run: &RunId) -> Result<Option<RunSummary>, Trouble> {
        Ok(self.0.host.home().store.run(run)?)
    }

    pub fn list(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, Trouble> {
        let mut runs = Vec::new();
        self.0.host.home().store.visit_runs(filter, &mut |run| {
            runs.push(run);
            Ok(())
        })?;
        Ok(runs)
    }
}
