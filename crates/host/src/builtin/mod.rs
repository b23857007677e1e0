//! The tools that come with Countersign. Each is declared in a file like any other tool; these are
//! the implementations that `runtime.handler` may name.

mod files;
mod state;
mod text;

use countersign_model::Failure;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::registry::Handlers;

/// The declarations that `countersign init` puts into `tools/`.
pub const DECLARATIONS: [(&str, &str); 8] = [
    ("file.read.json", include_str!("../../declarations/file.read.json")),
    ("file.write.json", include_str!("../../declarations/file.write.json")),
    ("file.list.json", include_str!("../../declarations/file.list.json")),
    ("file.delete.json", include_str!("../../declarations/file.delete.json")),
    ("state.get.json", include_str!("../../declarations/state.get.json")),
    ("state.put.json", include_str!("../../declarations/state.put.json")),
    ("state.delete.json", include_str!("../../declarations/state.delete.json")),
    ("text.digest.json", include_str!("../../declarations/text.digest.json")),
];

pub fn handlers() -> Handlers {
    Handlers::default()
        .with("file.read", files::Read)
        .with("file.write", files::Write)
        .with("file.list", files::List)
        .with("file.delete", files::Delete)
        .with("state.get", state::Get)
        .with("state.put", state::Put)
        .with("state.delete", state::Delete)
        .with("text.digest", text::TextDigest)
}

/// A tool declared with another schema may hand a built-in something that it does not understand.
fn arguments<T: DeserializeOwned>(input: &Value) -> Result<T, Failure> {
    T::deserialize(input).map_err(|error| {
        Failure::validation(
            "INPUT_UNSUITABLE",
            format!("the built-in cannot use this input: {error}"),
        )
        .hint("let the tool's inputSchema ask for what its handler needs")
    })
}

/// The arguments of tools that take a path and nothing else.
#[derive(Debug, Deserialize)]
struct PathArguments {
    path: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::{Declaration, Runtime};

    #[test]
    fn every_declaration_is_clean_and_has_its_handler() {
        let handlers = handlers();
        for (name, text) in DECLARATIONS {
            let declaration = Declaration::parse(text.as_bytes())
                .unwrap_or_else(|findings| panic!("{name}: {findings:#?}"));
            assert_eq!(name, format!("{}.json", declaration.id));
            let Runtime::Builtin { handler } = &declaration.runtime else { panic!("{name}") };
            assert!(handlers.names().any(|known| known == handler), "{name}");
        }
    }
}
