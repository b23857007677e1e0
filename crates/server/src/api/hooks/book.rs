//! Who wants to be told of what: documents in the journal, and a copy of them in memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_host::Host;
use countersign_journal::Reply;
use countersign_model::{Failure, Principal, Timestamp};
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::records::{self, Author, Change, Written};
use crate::auth::Caller;
use crate::error::Refusal;
use crate::trace::hex;
use crate::vault::Vault;
use crate::webhook::{Circuit, Registration, Target, UrlPolicy};

pub(super) const SPACE: &str = "webhooks";
/// How receivers fared, apart from what was registered: written when they are given up for a while.
const CIRCUITS: &str = "webhook-circuits";

/// Nobody needs more, and each is told of by itself.
const MOST: usize = 100;

/// A subscription as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kept {
    by: Principal,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    events: Option<BTreeSet<String>>,
    /// What the client gave, sealed. Without one, the secret is made from the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed_secret: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    url: String,
}

/// A subscription as it is served.
pub(super) struct Subscription {
    pub(super) id: String,
    pub(super) tenant: String,
    pub(super) by: Principal,
    pub(super) target: Target,
    pub(super) events: Option<BTreeSet<String>>,
    pub(super) secret: String,
}

impl Subscription {
    pub(super) fn wants(&self, kind: &str) -> bool {
        self.events.as_ref().is_none_or(|events| events.contains(kind))
    }
}

type ByTenant = HashMap<String, Vec<Arc<Subscription>>>;

pub(crate) struct Book {
    host: Arc<Host>,
    vault: Vault,
    maker: hmac::Key,
    policy: UrlPolicy,
    all: RwLock<Arc<ByTenant>>,
    /// How often it was read.
    version: AtomicU64,
}

/// A new subscription, and what its client is told.
pub(super) struct Made {
    id: String,
    kept: Kept,
    pub(super) told: Value,
}

impl Book {
    pub(super) fn open(host: Arc<Host>, policy: UrlPolicy) -> Result<Book, Failure> {
        let home = host.home();
        let vault = Vault::new(home.derive_key("webhooks"));
        let maker = hmac::Key::new(hmac::HMAC_SHA256, &home.derive_key("webhook secrets"));
        let (all, version) = (RwLock::default(), AtomicU64::new(0));
        let book = Book { host, vault, maker, policy, all, version };
        book.load()?;
        Ok(book)
    }

    /// Reads all of them anew.
    pub(super) fn load(&self) -> Result<(), Failure> {
        let mut all = ByTenant::new();
        for (tenant, record) in self.host.home().store.records(None, SPACE, "")? {
            let kept = record.value.and_then(|value| serde_json::from_slice::<Kept>(&value).ok());
            match kept.and_then(|kept| self.served(&tenant, &record.key, kept)) {
                Some(one) => all.entry(tenant).or_default().push(Arc::new(one)),
                // The rules may be stricter than when it was registered.
                None => tracing::warn!(webhook = %record.key, "cannot be served"),
            }
        }
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(all);
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn served(&self, tenant: &str, id: &str, kept: Kept) -> Option<Subscription> {
        let secret = match &kept.sealed_secret {
            None => self.secret_of(id),
            Some(sealed) => {
                let sealed = BASE64.decode(sealed).ok()?;
                String::from_utf8(self.vault.open(&about(tenant, id), &sealed)?).ok()?
            }
        };
        let target = Target::parse(&kept.url, self.policy).ok()?;
        let (id, tenant) = (id.to_owned(), tenant.to_owned());
        Some(Subscription { id, tenant, by: kept.by, target, events: kept.events, secret })
    }

    /// The secret of a subscription whose client gave none.
    fn secret_of(&self, id: &str) -> String {
        hex(hmac::sign(&self.maker, id.as_bytes()).as_ref())
    }

    pub(super) fn of(&self, tenant: &str) -> Vec<Arc<Subscription>> {
        self.known().get(tenant).cloned().unwrap_or_default()
    }

    pub(super) fn has(&self, tenant: &str) -> bool {
        self.known().contains_key(tenant)
    }

    pub(super) fn is_there(&self, tenant: &str, id: &str) -> bool {
        self.known().get(tenant).is_some_and(|all| all.iter().any(|one| one.id == id))
    }

    fn known(&self) -> Arc<ByTenant> {
        Arc::clone(&self.all.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn make(
        &self,
        caller: &Caller,
        wanted: Registration,
        now: Timestamp,
    ) -> Result<Made, Refusal> {
        let id = format!("wh-{}", self.host.clock().new_id());
        let sealed = wanted
            .secret
            .as_ref()
            .map(|secret| self.vault.seal(&about(&caller.tenant, &id), secret.as_bytes()));
        let secret = wanted.secret.clone().unwrap_or_else(|| self.secret_of(&id));
        let told = wanted.answer(&id, &secret, now);
        let kept = Kept {
            by: caller.principal.clone(),
            created_at: now,
            events: wanted.events,
            sealed_secret: sealed.transpose()?.map(|sealed| BASE64.encode(sealed)),
            tags: wanted.tags,
            url: wanted.target.to_string(),
        };
        Ok(Made { id, kept, told })
    }

    pub(super) fn keep(
        &self,
        caller: &Caller,
        made: &Made,
        now: Timestamp,
        reply: Option<Reply>,
    ) -> Result<(), Refusal> {
        if records::list(&self.host, &caller.tenant, SPACE, "")?.len() >= MOST {
            return Err(Refusal::conflict(format!("a tenant has at most {MOST} webhooks")));
        }
        let value = Some(json!(made.kept).to_string().into_bytes());
        let change = Change { space: SPACE, key: made.id.clone(), version: 0, value };
        match records::write(&self.host, caller.into(), now, vec![change], reply)? {
            Written::Done => Ok(self.load()?),
            Written::Overtaken => Err(Refusal::internal()),
        }
    }

    /// Whether there was one.
    pub(super) fn remove(&self, caller: &Caller, id: &str) -> Result<bool, Refusal> {
        let host = &self.host;
        let mut changes = Vec::new();
        for space in [SPACE, CIRCUITS] {
            let found = records::find(host, &caller.tenant, space, id)?;
            let found = found.filter(|record| record.value.is_some());
            changes.extend(found.map(|record| Change {
                space,
                key: id.to_owned(),
                version: record.version,
                value: None,
            }));
        }
        if changes.first().is_none_or(|change| change.space != SPACE) {
            return Ok(false);
        }
        let done = records::write(host, caller.into(), host.clock().now(), changes, None)?;
        self.load()?;
        match done {
            Written::Done => Ok(true),
            // Somebody removes it too, or it has just failed: whoever asks again will see.
            Written::Overtaken => Err(Refusal::conflict("this webhook is being changed")),
        }
    }

    /// How a receiver fared so far.
    pub(super) fn circuit(&self, one: &Subscription) -> Circuit {
        let found = records::find(&self.host, &one.tenant, CIRCUITS, &one.id);
        let value = found.ok().flatten().and_then(|record| record.value);
        value.and_then(|value| serde_json::from_slice(&value).ok()).unwrap_or_default()
    }

    pub(super) fn keep_circuit(&self, one: &Subscription, circuit: &Circuit) {
        let kept = || -> Result<(), Refusal> {
            let found = records::find(&self.host, &one.tenant, CIRCUITS, &one.id)?;
            let version = found.map_or(0, |record| record.version);
            let value = Some(json!(circuit).to_string().into_bytes());
            let change = Change { space: CIRCUITS, key: one.id.clone(), version, value };
            let author = Author { tenant: &one.tenant, principal: &one.by };
            records::write(&self.host, author, self.host.clock().now(), vec![change], None)?;
            Ok(())
        };
        if let Err(refusal) = kept() {
            tracing::warn!(webhook = %one.id, why = %refusal.message, "not kept how it fared");
        }
    }
}

fn about(tenant: &str, id: &str) -> String {
    format!("{tenant}\n{id}")
}
