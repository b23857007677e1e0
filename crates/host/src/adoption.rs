//! Which policy sets have decided here. A set is kept, and the journal says so, before it decides
//! for the first time.

use std::sync::Arc;

use countersign_journal::{Batch, JournalError};
use countersign_model::effect::Payload;
use countersign_model::event::Fact;
use countersign_model::{Digest, Failure, PolicyAdopted, PolicyEvent};
use countersign_policy::{Policies, Problem};

use crate::home::Home;
use crate::host::Host;

impl Host {
    /// The policies as they stand now, on record: only such a set decides about calls.
    pub(crate) fn policies_in_force(&self) -> Result<Arc<Policies>, Failure> {
        let policies = self.policies()?;
        if !self.shelf.is_adopted(policies.digest()) {
            self.adopt(&policies)?;
            self.shelf.set_adopted(policies.digest());
        }
        Ok(policies)
    }

    /// The texts first: the journal must not name a set that nobody can look up. Two hosts may do
    /// this at once, and then the set is on record twice.
    fn adopt(&self, policies: &Policies) -> Result<(), Failure> {
        if self.home.store.has_policy(&policies.digest())? {
            return Ok(());
        }
        let document = policies.to_document();
        self.home.blobs.put(&document)?;
        let at = self.clock.now();
        let adopted = PolicyAdopted {
            at,
            policy: Payload::of(&document),
            rules: u32::try_from(policies.rules().count()).unwrap_or(u32::MAX),
            sources: policies.sources().iter().map(|source| source.name.clone()).collect(),
        };
        let fact = Fact::Policy(PolicyEvent::Adopted(adopted));
        self.home.store.append(Batch { facts: vec![(at, fact)], ..Batch::default() })?;
        Ok(())
    }
}

impl Home {
    /// Every policy set that has decided here, oldest first.
    pub fn policy_history(&self) -> Result<Vec<PolicyAdopted>, Failure> {
        Ok(self.store.policies()?)
    }

    /// A set that decided here once; none if it was never kept or is damaged.
    pub fn policy_set(&self, digest: &Digest) -> Result<Option<Policies>, Failure> {
        let bytes = match self.blobs.get(digest) {
            Err(JournalError::Blob(_)) => return Ok(None),
            bytes => bytes?,
        };
        Policies::from_document(&bytes).map(Some).map_err(|problems| unreadable(digest, &problems))
    }
}

fn unreadable(digest: &Digest, problems: &[Problem]) -> Failure {
    let why = problems.first().map_or_else(String::new, |first| format!(": {first}"));
    let message = format!("the policy set {} is kept, but cannot be read{why}", digest.short());
    Failure::state("POLICY_SET_UNREADABLE", message)
        .hint("another version of Countersign may have written it")
}
