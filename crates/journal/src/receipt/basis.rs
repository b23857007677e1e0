//! What a call rests on beside its own facts: who asked and who agreed, with which keys, and what
//! they were granted.

use std::collections::BTreeSet;

use countersign_model::event::{CallEvent, Fact, GrantEvent};
use countersign_model::{GrantId, KeyEvent, KeyId, Principal, PrincipalEvent};

/// Whoever makes a receipt looks for exactly these facts, and whoever verifies one admits no other.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) grants: BTreeSet<GrantId>,
    pub(super) keys: BTreeSet<KeyId>,
    pub(super) people: BTreeSet<Principal>,
}

impl Needs {
    /// `replaced` tells the key that a key followed in a rotation: its facts are needed as well,
    /// since a key is only as good as the one it replaced was its principal's.
    pub(super) fn of<'a>(
        events: impl IntoIterator<Item = &'a CallEvent>,
        replaced: impl Fn(&KeyId) -> Option<KeyId>,
    ) -> Self {
        let mut needs = Needs::default();
        events.into_iter().for_each(|event| needs.note(event));
        let mut open: Vec<_> = needs.keys.iter().copied().collect();
        while let Some(key) = open.pop() {
            let older = replaced(&key).filter(|older| needs.keys.insert(*older));
            open.extend(older);
        }
        needs
    }

    fn note(&mut self, event: &CallEvent) {
        match event {
            CallEvent::Declared(declared) => {
                self.people.insert(declared.principal.clone());
                self.people.extend(declared.chain.iter().cloned());
            }
            CallEvent::Approved(consent) | CallEvent::Refused(consent) => {
                self.keys.insert(consent.key);
                self.people.insert(consent.by.clone());
            }
            CallEvent::Authorized(authorized) => {
                self.grants.extend(authorized.grants.iter().copied());
            }
            _ => {}
        }
    }

    pub(super) fn wants(&self, fact: &Fact) -> bool {
        match fact {
            Fact::Home(_) => true,
            Fact::Grant(GrantEvent::Issued { grant }) => self.grants.contains(&grant.body.id),
            Fact::Grant(GrantEvent::Revoked { grant, .. }) => self.grants.contains(grant),
            Fact::Principal(event) => self.people.contains(principal_of(event)),
            Fact::Key(event) => self.keys.contains(&key_of(event)),
            // Verdicts name the policies by digest, and stand in the facts of the call.
            Fact::Call(_)
            | Fact::Policy(_)
            | Fact::Workspace(_)
            | Fact::Artifact(_)
            | Fact::Run(_)
            | Fact::Record(_) => false,
        }
    }
}

fn principal_of(event: &PrincipalEvent) -> &Principal {
    match event {
        PrincipalEvent::Added { principal, .. } | PrincipalEvent::Removed { principal, .. } => {
            principal
        }
    }
}

fn key_of(event: &KeyEvent) -> KeyId {
    match event {
        KeyEvent::Created { key, .. } => key.id,
        KeyEvent::Retired { key, .. } | KeyEvent::Revoked { key, .. } => *key,
    }
}
