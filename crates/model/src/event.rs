//! Facts: what happened, in the past tense, as the journal stores them.
//!
//! INVARIANT: fields stand in the order of their JSON names, which is the order of canonical JSON.
//! [`Fact::to_canonical_json`] relies on it and a test holds it against the canonicaliser.

use std::collections::BTreeMap;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::adoption::PolicyEvent;
use crate::approval::Consent;
use crate::capability::Capability;
use crate::declaration::ResourceLimits;
use crate::digest::{CanonicalError, Digest, canonical_json};
use crate::effect::{Artifact, Effect, Payload};
use crate::error::Failure;
use crate::grant::Grant;
use crate::id::{ExecutionId, GrantId, HomeId, HostId, ToolId, TransactionId};
use crate::mode::SandboxMode;
use crate::people::{KeyEvent, PrincipalEvent};
use crate::principal::Principal;
use crate::run::{RecordFact, RunFact};
use crate::time::Timestamp;
use crate::verdict::Verdict;
use crate::work::{ArtifactEvent, Consumed, Work, WorkspaceEvent};

/// One fact about one subject. Each journal entry holds exactly one.
#[expect(clippy::large_enum_variant, reason = "almost every fact is about a call")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fact {
    Home(HomeEvent),
    Grant(GrantEvent),
    Principal(PrincipalEvent),
    Key(KeyEvent),
    Policy(PolicyEvent),
    Workspace(WorkspaceEvent),
    Artifact(ArtifactEvent),
    Call(CallFact),
    Run(RunFact),
    Record(RecordFact),
}

impl Fact {
    /// The bytes that are hashed. Most facts of a call are plain: names and whole numbers in fixed
    /// fields, already in canonical order, which any JSON writer puts down canonically. Failures
    /// carry free-form details, so they go the long way.
    pub fn to_canonical_json(&self) -> Result<Vec<u8>, CanonicalError> {
        if self.is_plain() { Ok(serde_json::to_vec(self)?) } else { canonical_json(self) }
    }

    /// Whether the fact is of fixed shape: nothing in it can nest.
    pub fn is_plain(&self) -> bool {
        matches!(self, Fact::Call(call) if call.event.is_plain())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallFact {
    pub event: CallEvent,
    pub execution: ExecutionId,
}

/// The first entry of every journal says whose journal it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum HomeEvent {
    /// `journal_key` signs checkpoints, `authority_key` signs grants; both in the form that
    /// signed notes use.
    Created { home: HomeId, journal_key: String, authority_key: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum GrantEvent {
    Issued {
        grant: Grant,
    },
    Revoked {
        grant: GrantId,
        by: Principal,
        at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// The life of a call, one fact per step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallEvent {
    Declared(Declared),
    Validated {},
    Failed {
        error: Failure,
    },
    /// Policy asks for people's consent. The call waits, and costs nothing while it does.
    Asked(Asked),
    /// One of them agreed.
    Approved(Consent),
    /// One of them did not, which ends it.
    Refused(Consent),
    /// Whoever asked does not want it any more.
    Withdrawn(Withdrawn),
    Authorized(Authorized),
    /// The same was done before, and well: this is what came of it.
    Replayed(Replayed),
    Denied(Denied),
    Started(Started),
    Committed(Committed),
    Completed(Completed),
    Aborted {
        error: Failure,
    },
    RolledBack(RolledBack),
}

impl CallEvent {
    fn is_plain(&self) -> bool {
        match self {
            CallEvent::Declared(_)
            | CallEvent::Validated {}
            | CallEvent::Asked(_)
            | CallEvent::Approved(_)
            | CallEvent::Refused(_)
            | CallEvent::Withdrawn(_)
            | CallEvent::Authorized(_)
            | CallEvent::Replayed(_)
            | CallEvent::Started(_)
            | CallEvent::Committed(_)
            | CallEvent::Completed(_) => true,
            CallEvent::Failed { .. }
            | CallEvent::Denied(_)
            | CallEvent::Aborted { .. }
            | CallEvent::RolledBack(_) => false,
        }
    }
}

/// The tool exists, its declaration is pinned, and this is what was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Declared {
    /// On whose behalf the principal asks, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Principal>,
    /// Artifacts that its input names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumes: Vec<Consumed>,
    pub declaration: Digest,
    /// Digest of a program's own files, which are pinned like its declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Digest>,
    pub input: Payload,
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: SandboxMode,
    pub principal: Principal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    pub tool: ToolId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
    pub version: Version,
    /// On what it works, if it belongs to a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_default(mode: &SandboxMode) -> bool {
    *mode == SandboxMode::default()
}

/// People are asked. What they are shown is kept beside the facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Asked {
    /// How many different people must agree.
    pub approvers: u32,
    pub expires_at: Timestamp,
    /// The canonical JSON of [`crate::approval::Subject`]; its digest is what they sign.
    pub subject: Payload,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Withdrawn {
    pub by: Principal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A capability or a policy said no, or nobody said yes in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Denied {
    pub error: Failure,
    /// What policy had to go by; none when the call did not get that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// Every capability that the tool requires is granted, in scope and unexpired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authorized {
    /// The digest of what people agreed to, if they were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Digest>,
    /// Counts from 1; every retry is authorised again.
    pub attempt: u32,
    pub capabilities: Vec<Capability>,
    /// What policy had to go by, as canonical JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Payload>,
    pub grants: Vec<GrantId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// A transaction is open and the tool is about to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Started {
    pub attempt: u32,
    /// What runs a program, as `name/version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Digest of the write set before the call.
    pub before: Digest,
    pub enforcement: Enforcement,
    /// The process that runs it; when that process is gone, recovery ends the call.
    pub host: HostId,
    /// Hosts that the program can reach: what it does there cannot be undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What makes it the same as another call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Digest>,
    pub limits: ResourceLimits,
    /// It must not be done twice: no other call may start under the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// Every set-up operation of the sandbox, as canonical JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Payload>,
    pub transaction: TransactionId,
    /// What the call may change, so that recovery needs nothing but the journal.
    #[serde(default, skip_serializing_if = "WriteSet::is_empty")]
    pub writes: WriteSet,
}

/// Files and links (relative to the root) and keys that a call may change, or all of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteSet {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Everything beneath the root.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub workspace: bool,
}

impl WriteSet {
    pub fn is_empty(&self) -> bool {
        *self == WriteSet::default()
    }
}

/// How each limit is really enforced. What is not enforced is not listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Enforcement {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    pub isolation: u8,
    pub memory: String,
    /// What the kernel confirmed of a sandbox, barrier by barrier.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sandbox: BTreeMap<String, String>,
    pub time: String,
    /// What is enforced more weakly than asked, as the declaration allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weaker: Vec<String>,
}

/// One attempt of a sandboxed program to reach a host, allowed or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Connection {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Why it was refused; absent when it was allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<String>,
    pub host: String,
    pub port: u16,
    pub protocol: String,
    pub received: u64,
    pub sent: u64,
}

/// The commit point. After this fact the call cannot fail, only be finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Committed {
    /// What a program left in `/out`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<Connection>,
    pub effects: Vec<Effect>,
    pub output: Payload,
    /// What a program said on its diagnostic stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Payload>,
    /// What a command said that is no JSON output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Payload>,
}

/// What an earlier call under the same key left; nothing ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replayed {
    pub key: Digest,
    /// The call that did it.
    pub of: ExecutionId,
    pub output: Payload,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Completed {
    pub duration_ms: u64,
    pub output: Payload,
    /// Paths that held neither the old nor the new content when the host came to publish them.
    /// They were left alone: a human must look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<String>,
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolledBack {
    pub error: Failure,
    /// Digests of the write set before the call and after the rollback.
    pub before: Digest,
    pub after: Digest,
    pub usage: Usage,
    pub duration_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<Connection>,
    /// What a program had said before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Payload>,
    /// Something may have happened outside that nobody can tell of or undo: a human must look.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

impl RolledBack {
    pub fn restored(&self) -> bool {
        self.before == self.after
    }
}

/// Another attempt will follow, after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    pub attempt: u32,
    pub delay_ms: u64,
}

/// What the attempt used, as far as the host could measure it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub cpu_micros: u64,
    pub peak_memory: u64,
    /// How long a sandboxed program ran.
    #[serde(default, skip_serializing_if = "is_none")]
    pub wall_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::Answer;
    use crate::effect::Image;
    use crate::grant::GrantSignature;
    use crate::verdict::{Decision, Question, Reason, RuleEffect};

    fn plain_events() -> Vec<CallEvent> {
        let digest = Digest::of(b"x");
        let payload = Payload { digest, size: 7 };
        let image = Image { digest, mode: 0o644, size: 9 };
        let (key, path) = ("k/é".to_owned(), "a \"b\"\u{7f}\u{1}/\u{10000}".to_owned());
        let id = "019a7c3e-0000-7000-8000-000000000001";
        let consent = Consent {
            answer: Answer::Yes,
            at: Timestamp::from_millis(6),
            by: "human:c".parse().unwrap(),
            key: id.parse().unwrap(),
            reason: Some(path.clone()),
            signature: GrantSignature::from_bytes([3; 64]),
            subject: digest,
        };
        vec![
            CallEvent::Declared(Declared {
                chain: vec!["human:b".parse().unwrap()],
                declaration: digest,
                files: Some(digest),
                input: payload,
                mode: SandboxMode::RepoWrite,
                principal: "agent:a".parse().unwrap(),
                root: Some(path.clone()),
                tool: "file.read".parse().unwrap(),
                toolset: Some("é".to_owned()),
                version: Version::new(1, 2, 3),
                consumes: vec![Consumed {
                    artifact: crate::work::ArtifactId::of(id.parse().unwrap(), "a"),
                    digest,
                }],
                work: Some(Work {
                    base: "b".to_owned(),
                    run: "r".parse().unwrap(),
                    tree: "t".to_owned(),
                    workspace: "w".parse().unwrap(),
                }),
            }),
            CallEvent::Validated {},
            CallEvent::Asked(Asked {
                approvers: 2,
                expires_at: Timestamp::from_millis(5),
                subject: payload,
            }),
            CallEvent::Approved(consent.clone()),
            CallEvent::Refused(consent),
            CallEvent::Withdrawn(Withdrawn {
                by: "agent:a".parse().unwrap(),
                reason: Some(path.clone()),
            }),
            CallEvent::Authorized(Authorized {
                approval: Some(digest),
                attempt: 2,
                capabilities: Capability::ALL.to_vec(),
                facts: Some(payload),
                grants: vec![id.parse().unwrap()],
                verdict: Some(Verdict {
                    approvers: 2,
                    decision: Decision::RequireApproval,
                    expires_after_ms: Some(7),
                    policy: digest,
                    reasons: vec![Reason {
                        about: Some(path.clone()),
                        effect: RuleEffect::Forbid,
                        more: 3,
                        question: Question::InvokeUnattended,
                        rule: Some("a/b".to_owned()),
                        text: Some("é".to_owned()),
                    }],
                }),
            }),
            CallEvent::Replayed(Replayed { key: digest, of: id.parse().unwrap(), output: payload }),
            CallEvent::Started(Started {
                attempt: 1,
                backend: Some("linux/1".to_owned()),
                before: digest,
                enforcement: Enforcement {
                    files: Some("beneath-root".to_owned()),
                    isolation: 0,
                    memory: "accounted".to_owned(),
                    time: "deadline".to_owned(),
                    sandbox: [
                        ("landlock".to_owned(), "é".to_owned()),
                        ("b".to_owned(), "c".to_owned()),
                    ]
                    .into(),
                    weaker: vec!["memory".to_owned()],
                },
                host: id.parse().unwrap(),
                hosts: vec!["a.org:443".to_owned()],
                limits: ResourceLimits {
                    max_cpu_time: Some(6),
                    max_inodes: Some(7),
                    max_output: Some(8),
                    max_threads: Some(9),
                    max_total_size: Some(10),
                    max_execution_time: 1,
                    max_file_descriptors: Some(2),
                    max_file_size: Some(3),
                    max_memory: 4,
                    max_processes: Some(5),
                },
                plan: Some(payload),
                transaction: id.parse().unwrap(),
                writes: WriteSet {
                    files: vec![path.clone()],
                    keys: vec![key.clone()],
                    links: vec![path.clone()],
                    workspace: true,
                },
                key: Some(digest),
                once: true,
            }),
            CallEvent::Committed(Committed {
                artifacts: vec![Artifact {
                    digest,
                    media_type: Some(path.clone()),
                    name: path.clone(),
                    size: 5,
                }],
                connections: vec![Connection {
                    address: Some("192.0.2.1".to_owned()),
                    denied: Some("é".to_owned()),
                    host: "a.org".to_owned(),
                    port: 443,
                    protocol: "tls".to_owned(),
                    received: 1,
                    sent: 2,
                }],
                stderr: Some(payload),
                stdout: Some(payload),
                effects: vec![
                    Effect::DirectoryChanged { after: 0o700, before: 0o755, path: path.clone() },
                    Effect::DirectoryDeleted { before: 0o755, path: path.clone() },
                    Effect::LinkDeleted { before: path.clone(), path: path.clone() },
                    Effect::DirectoryCreated { mode: Some(0o755), path: path.clone() },
                    Effect::LinkWritten {
                        after: key.clone(),
                        before: Some(path.clone()),
                        path: path.clone(),
                    },
                    Effect::FileWritten { after: image, before: Some(image), path: path.clone() },
                    Effect::FileDeleted { before: image, path: path.clone() },
                    Effect::StatePut { after: digest, before: Some(digest), key: key.clone() },
                    Effect::StateDeleted { before: digest, key },
                ],
                output: payload,
            }),
            CallEvent::Completed(Completed {
                duration_ms: 1,
                output: payload,
                unsettled: vec![path],
                usage: Usage {
                    bytes_read: 1,
                    bytes_written: 2,
                    cpu_micros: 3,
                    peak_memory: 4,
                    wall_ms: 5,
                },
            }),
        ]
    }

    #[test]
    fn plain_facts_are_written_canonically() {
        for event in plain_events() {
            assert!(event.is_plain());
            let execution = "019a7c3e-0000-7000-8000-000000000002".parse().unwrap();
            let fact = Fact::Call(CallFact { event, execution });
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            assert_eq!(
                text(fact.to_canonical_json().unwrap()),
                text(canonical_json(&fact).unwrap())
            );
        }
    }
}
