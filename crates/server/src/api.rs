//! The operations of the protocol, on top of the engine of runs. Handlers parse, ask the engine and
//! render; what is right is decided below.

mod annotations;
mod artifacts;
mod audit;
mod bundle;
mod events;
mod files;
mod hooks;
mod interrupts;
mod offer;
mod records;
mod roles;
mod runs;
mod sample;
mod shelf;
mod trouble;
mod workflows;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use countersign_model::RunId;
use countersign_workflow::Engine;

use crate::auth::{Caller, blocking};
use crate::body::answer;
use crate::error::Refusal;
use crate::gate::Closing;
use crate::route::{Table, is_id};
use crate::token::Signer;
use crate::vault::Vault;
use crate::{discovery, openapi};

pub use audit::Notary;
pub use hooks::{Post, PostSettings};
pub use offer::{Offered, offer};
pub use sample::{definitions as sample_workflows, secrets as sample_secrets};
pub use shelf::JournalShelf;

/// What handlers work with.
#[derive(Debug, Clone)]
pub struct Api(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    signer: Signer,
    /// Seals answers that are kept for who asks again.
    answers: Vault,
    notary: Notary,
    post: Post,
    closing: Closing,
    roles: roles::Roles,
    /// Runs that somebody follows, each read once for all of them.
    followed: Mutex<HashMap<RunId, Weak<events::Followed>>>,
}

impl Api {
    /// `secret` signs the tokens of interrupts; `post` is what the engine tells of its runs.
    pub fn new(engine: Engine, secret: &[u8; 32], closing: Closing, post: Post) -> Api {
        let (signer, followed) = (Signer::new(secret), Mutex::default());
        let roles = roles::Roles::new(engine.settings().offers.conformance);
        let answers = shelf::vault(engine.host());
        let notary = Notary::of(engine.host().home());
        let inner = Inner { engine, signer, answers, notary, post, closing, roles, followed };
        Api(Arc::new(inner))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    fn post(&self) -> &Post {
        &self.0.post
    }

    /// Runs what may wait for the journal.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let api = self.clone();
        blocking(move || work(api.engine())).await
    }

    /// The run that a path names, if it is the caller's tenant's. Absent and another's look alike.
    async fn run_of(&self, caller: &Caller, id: &str) -> Result<RunId, Refusal> {
        let run = named(id)?;
        if self.engine().tenant_at_hand(&run).is_some_and(|tenant| tenant == caller.tenant) {
            return Ok(run);
        }
        let (id, tenant) = (id.to_owned(), caller.tenant.clone());
        self.ask(move |engine| mine(engine, &tenant, &id)).await
    }
}

fn unknown() -> Refusal {
    Refusal::named_not_found("run_not_found")
}

fn named(id: &str) -> Result<RunId, Refusal> {
    Some(id).filter(|id| is_id(id)).and_then(|id| id.parse().ok()).ok_or_else(unknown)
}

fn mine(engine: &Engine, tenant: &str, id: &str) -> Result<RunId, Refusal> {
    let run = named(id)?;
    let found = engine.tenant(&run).map_err(Refusal::from)?;
    found.filter(|owner| owner == tenant).map(|_| run).ok_or_else(unknown)
}

/// Every route there is.
pub fn table(offered: &Offered, version: &str) -> Result<Table<Api>, countersign_model::Failure> {
    let document = offer(offered, version).document()?;
    let mut table = Table::default().with(discovery::route(document));
    for route in workflows::routes()
        .into_iter()
        .chain(runs::routes())
        .chain(events::routes())
        .chain(interrupts::routes())
        .chain(bundle::routes())
        .chain(offered.conformance.then(sample::routes).into_iter().flatten())
        .chain(annotations::routes())
        .chain(artifacts::routes())
        .chain(files::routes())
        .chain(audit::routes())
        .chain(hooks::routes())
    {
        table = table.with(route);
    }
    Ok(openapi::published(table, version))
}
