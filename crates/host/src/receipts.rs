//! Receipts of calls, with the values that a home still has.

use countersign_journal::receipt::{self, Pin, Role};
use countersign_journal::{Blobs, NoteSigner, Store};
use countersign_model::digest::canonical_json;
use countersign_model::effect::Payload;
use countersign_model::{ExecutionId, Failure};

use crate::home::Home;
use crate::order::Order;
use crate::registry::Registry;

/// A larger value stays a digest: a receipt is to be mailed, not to be a backup.
const MOST: u64 = 8 << 20;

/// The receipt of a call as it stands. Input, output and what a program said are in it only if
/// `with_content`: a receipt is for outsiders, and they may be nobody else's business.
pub fn create(
    home: &Home,
    registry: &Registry,
    execution: ExecutionId,
    with_content: bool,
) -> Result<Vec<u8>, Failure> {
    let mut content = |pin: &Pin| match pin.role {
        Role::Declaration => declaration(registry, pin).or_else(|| of_order(home, execution, pin)),
        role if role.is_content() && !with_content => None,
        _ => kept(home, execution, pin),
    };
    receipt::create(&*home.store, &home.journal_key, execution, &mut content)
}

/// The same for whoever has only the journal and its contents at hand.
pub(crate) fn of(
    store: &dyn Store,
    blobs: &Blobs,
    key: &NoteSigner,
    execution: ExecutionId,
) -> Result<Vec<u8>, Failure> {
    let mut content = |pin: &Pin| match pin.role {
        Role::Declaration => None,
        role if role.is_content() => None,
        _ if pin.size.is_none_or(|size| size > MOST) => None,
        _ => match store.payload(execution, &pin.digest) {
            Ok(Some(bytes)) => Some(bytes),
            _ => blobs.get(&pin.digest).ok(),
        },
    };
    receipt::create(store, key, execution, &mut content)
}

/// If the tool is still declared as it was at the call.
fn declaration(registry: &Registry, pin: &Pin) -> Option<Vec<u8>> {
    let tool = registry.tools().find(|tool| tool.digest == pin.digest)?;
    canonical_json(&tool.declaration).ok()
}

/// The declaration that an order makes is made again from the order.
fn of_order(home: &Home, execution: ExecutionId, pin: &Pin) -> Option<Vec<u8>> {
    let call = home.store.call(execution).ok()??;
    let input = home.payload(execution, &call.input).ok()?;
    let tool = Order::from_input(&serde_json::from_slice(&input).ok()?).ok()?.tool().ok()?;
    (tool.digest == pin.digest).then(|| canonical_json(&tool.declaration).ok())?
}

/// What was erased is not a failure: its digest stays.
fn kept(home: &Home, execution: ExecutionId, pin: &Pin) -> Option<Vec<u8>> {
    let size = pin.size.filter(|size| *size <= MOST)?;
    home.payload(execution, &Payload { digest: pin.digest, size }).ok()
}
