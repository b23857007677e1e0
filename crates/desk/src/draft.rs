//! Drafts: read once, judged, and known by their bytes from then on.

use std::path::{Path, PathBuf};

use countersign_documents::request::{Given, Request, judge};
use countersign_documents::{Judgement, MAX_REQUEST_BYTES, Reason};
use countersign_model::{Digest, Failure};
use serde_json::json;

use crate::folders;

/// A request that was read and accepted.
#[derive(Debug, Clone)]
pub struct Draft {
    pub path: PathBuf,
    pub text: String,
    pub request: Request,
}

impl Draft {
    /// What the document is known by: its exact bytes.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }
}

/// Reads a request and judges it. Nothing else is done.
pub fn judge_request(
    path: &Path,
    given: &Given<'_>,
) -> Result<Result<Draft, Vec<Reason>>, Failure> {
    let bytes = folders::read(path, MAX_REQUEST_BYTES as u64)?;
    let request = match judge(&bytes, given) {
        Judgement::Accept(request) => request,
        Judgement::Reject(reasons) => return Ok(Err(reasons)),
    };
    // Accepted bytes are UTF-8.
    let text =
        String::from_utf8(bytes).map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
    Ok(Ok(Draft { path: path.to_owned(), text, request }))
}

/// The name that a document must have.
pub(crate) fn file_name(path: &Path) -> Option<&str> {
    path.file_name().and_then(|name| name.to_str())
}

/// A document that cannot be used, with everything that is wrong with it.
pub(crate) fn rejected(path: &Path, reasons: &[Reason]) -> Failure {
    let message = format!("{} is rejected, for {} reasons", path.display(), reasons.len());
    let message = match reasons {
        [one] => format!("{} is rejected: {}", path.display(), one.message),
        _ => message,
    };
    Failure::validation("REQUEST_REJECTED", message)
        .hint(format!("see all reasons with `countersign request lint {}`", path.display()))
        .details(json!(reasons))
}
