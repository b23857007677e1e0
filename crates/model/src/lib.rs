//! The words of Countersign and the rules that need no machine to be true.
//!
//! Everything here is a pure function of its arguments: no file, no socket, no clock, no thread.
//! The clock is passed in as a [`Timestamp`]; bytes come from the caller. Live code, recovery,
//! replay and offline verification all share these rules, so they cannot drift apart.

pub mod adoption;
pub mod approval;
pub mod audit;
pub mod authorize;
pub mod book;
pub mod capability;
pub mod declaration;
pub mod denial;
pub mod digest;
pub mod effect;
pub mod enrol;
pub mod error;
pub mod event;
pub mod facts;
pub mod grant;
pub mod grantee;
pub mod host;
pub mod id;
pub mod issue;
pub mod json;
pub mod key;
pub mod keys;
pub mod lint;
pub mod mode;
pub mod people;
pub mod principal;
pub mod record;
pub mod retry;
pub mod run;
pub mod schema;
pub mod scope;
pub mod state;
pub mod time;
pub mod token;
pub mod verdict;
pub mod work;

pub use adoption::{PolicyAdopted, PolicyEvent};
pub use approval::{Answer, Consent, Subject};
pub use authorize::{Authorization, Need, authorize};
pub use book::{GrantBook, GrantRecord};
pub use capability::{Capability, Risk};
pub use declaration::{
    Declaration, ProcessRuntime, ResourceLimits, Runtime, ToolRef, WasmRuntime, WorkspaceAccess,
};
pub use denial::Denial;
pub use digest::Digest;
pub use error::{ErrorClass, Failure};
pub use facts::{CallFacts, RuntimeKind, SafetyTier, ToolFacts};
pub use grant::{Grant, GrantBody, GrantSignature};
pub use grantee::Grantee;
pub use host::HostPattern;
pub use id::{ExecutionId, GrantId, HomeId, HostId, KeyId, ToolId, TransactionId};
pub use issue::{Delegation, check_issue, delegate};
pub use json::{JsonLimits, parse_strict};
pub use key::{KeyRecord, KeyScope, PublicKey};
pub use keys::{HeldKey, KeyBook, KeyStatus};
pub use lint::{Finding, lint};
pub use mode::SandboxMode;
pub use people::{KeyEvent, PrincipalEvent, PrincipalRecord};
pub use principal::Principal;
pub use run::{RecordFact, RunFact, RunSummary};
pub use schema::{CompiledSchema, SchemaError, Violation};
pub use scope::Scope;
pub use state::{CallState, IllegalEvent, Lifecycle};
pub use time::Timestamp;
pub use token::Token;
pub use verdict::{Decision, Question, Reason, RuleEffect, Verdict};
pub use work::{
    ArtifactEvent, ArtifactId, ArtifactRecord, Consumed, RunId, Work, Workspace, WorkspaceEvent,
    WorkspaceId,
};
