//! Whether the journal is whole, for whoever may ask. Hashes are told, and nothing of what stands
//! behind them: the journal is one for all tenants.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_host::Home;
use countersign_journal::range::{Break, Reach, Walked, walk};
use countersign_model::{Digest, Failure, KeyScope};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::fmt;

use super::{Api, answer};
use crate::auth::{Caller, blocking};
use crate::error::Refusal;
use crate::query::Query;
use crate::route::Route;
use crate::schema;

/// What one request looks at, at most. Whoever wants more asks on from `toSeq`.
const REACH: Reach = Reach { entries: 10_000, bytes: 64 * 1024 * 1024 };

pub(super) fn routes() -> Vec<Route<Api>> {
    let number = json!({"type": "integer", "minimum": 0});
    vec![
        Route::new(Method::GET, "/v1/audit/verify", "verifyAuditLog", verify)
            .summary("Whether a stretch of the journal is whole, and signed")
            .scope(KeyScope::AuditRead)
            .parameter("fromSeq", number.clone())
            .parameter("toSeq", number)
            .answer(200, "What was found", schema::of("AuditVerified"))
            .refuses(&[400, 401, 403, 429]),
    ]
}

/// Signs checkpoints for clients of the protocol, with a key that signs nothing else.
pub struct Notary {
    key: Option<Ed25519KeyPair>,
    origin: String,
}

impl fmt::Debug for Notary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notary").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// What stands before an Ed25519 key in SubjectPublicKeyInfo.
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

impl Notary {
    pub fn of(home: &Home) -> Notary {
        let seed = home.derive_key("audit checkpoints");
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).ok();
        Notary { key, origin: home.journal_key.verifier().name().to_owned() }
    }

    /// The public half, and how often the journal is signed: at every commit.
    pub fn told(&self) -> Value {
        let key = self.key.as_ref().map(|key| key.public_key().as_ref()).unwrap_or_default();
        json!({
            "hashChain": true,
            "checkpointSignatureAlgorithm": "ed25519",
            "checkpointPublicKey": BASE64.encode([&SPKI, key].concat()),
            "checkpointIntervalEntries": 1,
            "checkpointIntervalSeconds": 1,
        })
    }

    /// The signature is over the other members, as canonical JSON.
    fn checkpoint(&self, at: u64, root: Digest) -> Option<Value> {
        let mut checkpoint = json!({
            "atSequence": at,
            "checkpoint": format!("{}@{}", self.origin, at.saturating_add(1)),
            "merkleRoot": root.to_string(),
        });
        let signed = countersign_model::digest::canonical_json(&checkpoint).ok()?;
        let signature = BASE64.encode(self.key.as_ref()?.sign(&signed).as_ref());
        checkpoint.as_object_mut()?.insert("signature".to_owned(), json!(signature));
        Some(checkpoint)
    }
}

async fn verify(
    State(api): State<Api>,
    _caller: Caller,
    query: Query,
) -> Result<Response, Refusal> {
    // What is out of range is clamped, also where one stands behind the other.
    let from = query.any_number("fromSeq")?.unwrap_or(0);
    let to = query.any_number("toSeq")?.unwrap_or(u64::MAX);
    let told = blocking(move || {
        let home = api.engine().host().home();
        let key = home.journal_key.verifier();
        let walked = walk(&*home.store, key, (from, to), REACH).map_err(Failure::from)?;
        Ok(told(&walked, &api.0.notary))
    })
    .await?;
    Ok(answer(StatusCode::OK, &told))
}

/// A checkpoint is only given for what was found to be whole.
fn told(walked: &Walked, notary: &Notary) -> Value {
    let sound = walked.is_sound();
    let checkpoint = sound.then(|| notary.checkpoint(walked.to, walked.root)).flatten();
    let checkpoints: Vec<Value> = checkpoint.into_iter().collect();
    let anomalies: Vec<Value> = walked.breaks.iter().map(anomaly).collect();
    json!({
        "fromSeq": walked.from,
        "toSeq": walked.to,
        "chainValid": sound,
        "checkpointsValid": walked.is_signed && walked.fits,
        "checkpoints": checkpoints,
        "anomalies": anomalies,
    })
}

fn anomaly(found: &Break) -> Value {
    json!({
        "atSeq": found.seq,
        "expectedPrevHash": found.expected.to_string(),
        "actualPrevHash": found.actual.map(|digest| digest.to_string()).unwrap_or_default(),
    })
}
