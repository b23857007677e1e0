//! A host: one process at work on a home.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use countersign_journal::presence::Presence;
use countersign_journal::{JournalError, People};
use countersign_model::{ExecutionId, Failure, GrantBook, HostId};

use crate::backends::Backends;
use crate::builtin;
use crate::clock::{Clock, SystemClock};
use crate::home::Home;
use crate::policies::Shelf;
use crate::recovery::Recovered;
use crate::registry::{Handlers, Registry};
use crate::resources::Resources;
use crate::tool::Services;
use crate::workers::Workers;

#[derive(Debug)]
pub struct Host {
    pub(crate) home: Home,
    pub(crate) registry: Registry,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) backends: Backends,
    pub(crate) workers: Workers,
    pub(crate) resources: Resources,
    services: Services,
    /// Announced by the first call that runs.
    presence: OnceLock<Presence>,
    announcing: Mutex<()>,
    /// Calls that this process is running right now.
    active: Mutex<HashSet<ExecutionId>>,
    /// Some call of this process was given up before its end; recovery has to finish it.
    unfinished: AtomicBool,
    /// The grants, and the version of the journal's grants that they show.
    pub(crate) book: RwLock<(u64, Arc<GrantBook>)>,
    pub(crate) shelf: Shelf,
    /// Principals and keys, likewise.
    pub(crate) people: RwLock<Arc<People>>,
    /// What recovery did when this host was opened.
    recovered: Recovered,
}

impl Host {
    /// Opens a home for work: built-in tools, the system's clock, and recovery of whatever a dead
    /// process left unfinished.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        Self::start(Home::open(path)?, &builtin::handlers(), Arc::new(SystemClock))
    }

    /// As [`open`](Self::open), with tools and clock of the caller's choice.
    pub fn start(home: Home, handlers: &Handlers, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        Self::start_with(home, handlers, clock, Backends::default())
    }

    /// As [`start`](Self::start), with what runs programs.
    pub fn start_with(
        home: Home,
        handlers: &Handlers,
        clock: Arc<dyn Clock>,
        backends: Backends,
    ) -> Result<Self, Failure> {
        let registry = Registry::load(&home.tools(), handlers)?;
        let services = Services {
            store: Arc::clone(&home.store),
            blobs: home.blobs.clone(),
            made: home.blobs.clone(),
            journal_key: home.journal_key.clone(),
            backends: backends.clone(),
            staging: home.staging(),
            show: home.config.sandbox.show.clone().into(),
            actions: Arc::new(home.config.actions.clone()),
        };
        let mut host = Host {
            home,
            registry,
            clock,
            backends,
            workers: Workers::default(),
            resources: Resources::default(),
            services,
            presence: OnceLock::new(),
            announcing: Mutex::new(()),
            active: Mutex::new(HashSet::new()),
            unfinished: AtomicBool::new(true),
            shelf: Shelf::default(),
            book: RwLock::new((0, Arc::new(GrantBook::new()))),
            people: RwLock::default(),
            recovered: Recovered::default(),
        };
        host.recovered = host.finish_leftovers();
        Ok(host)
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    pub(crate) fn services(&self) -> Services {
        self.services.clone()
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Makes this process known, so that others leave its calls alone while it lives.
    pub(crate) fn announce(&self) -> Result<HostId, JournalError> {
        if let Some(presence) = self.presence.get() {
            return Ok(presence.host());
        }
        let _one = self.announcing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(presence) = self.presence.get() {
            return Ok(presence.host());
        }
        let host = HostId::from_uuid(self.clock.new_id());
        let presence = Presence::announce(&self.home.hosts(), host)?;
        Ok(self.presence.get_or_init(|| presence).host())
    }

    pub(crate) fn enter(&self, execution: ExecutionId) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).insert(execution);
    }

    pub(crate) fn leave(&self, execution: ExecutionId) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).remove(&execution);
    }

    /// Stops working on a call that has not ended. It is nobody's now, so recovery may take it up.
    pub(crate) fn give_up(&self, execution: ExecutionId) {
        self.leave(execution);
        self.unfinished.store(true, Ordering::Release);
    }

    /// Recovers what was given up. What cannot be finished yet stays claimed, so it stands in the
    /// way of nothing but itself: the journal can still be read and other calls can still run.
    pub(crate) fn finish_leftovers(&self) -> Recovered {
        if !self.unfinished.swap(false, Ordering::AcqRel) {
            return Recovered::default();
        }
        let recovered = self
            .recover()
            .unwrap_or_else(|failure| Recovered { pending: vec![failure], ..Recovered::default() });
        for failure in &recovered.pending {
            self.unfinished.store(true, Ordering::Release);
            tracing::warn!(%failure, "recovery is not finished");
        }
        recovered
    }

    /// Whether some living process, this one or another, is still at work on a call.
    pub(crate) fn is_at_work(
        &self,
        host: Option<HostId>,
        execution: ExecutionId,
    ) -> Result<bool, JournalError> {
        let Some(host) = host else { return Ok(false) };
        if self.presence.get().is_some_and(|presence| presence.host() == host) {
            let active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(active.contains(&execution));
        }
        countersign_journal::presence::is_alive(&self.home.hosts(), host)
    }
}
