//! What a conformance suite cannot see through the protocol alone. These routes exist only where the
//! conformance switch is on; elsewhere they are as unknown as any other path. Each one does what it
//! shows on the way that every client goes, and shows what came of it.
//!
//! One module a family. Those of tools (`toolhooks`), of the network (`http`, `egress`), of
//! `credentials` and `oauth`, of `budget` and of `test/sandbox-*` have nothing to drive yet.

mod canaries;
mod events;
mod governance;
mod identity;
mod models;

use countersign_flow::{Definition, Problem};
use serde_json::{Value, json};

use super::Api;
use crate::route::Route;
pub use canaries::secrets;

pub(super) fn routes() -> Vec<Route<Api>> {
    events::routes()
        .into_iter()
        .chain(models::routes())
        .chain(governance::routes())
        .chain(identity::routes())
        .collect()
}

/// The workflows that these routes run; they come with the host.
pub fn definitions() -> Result<Vec<Definition>, Vec<Problem>> {
    governance::workflows().into_iter().chain(identity::workflows()).map(Definition::of).collect()
}

/// A workflow of one node.
fn workflow(id: &str, type_id: &str, config: &Value) -> Value {
    let node = json!({"id": NODE, "typeId": type_id, "name": id, "config": config,
        "position": {"x": 0, "y": 0}, "inputs": {}});
    json!({"id": id, "name": id, "version": "1", "nodes": [node], "edges": [], "variables": [],
        "triggers": [{"id": "manual", "type": "manual"}], "metadata": {}, "settings": {}})
}

const NODE: &str = "node";

#[cfg(test)]
mod tests {
    #[test]
    fn the_workflows_of_the_host_are_without_problems() {
        assert_eq!(super::definitions().map(|all| all.len()), Ok(3));
    }
}
