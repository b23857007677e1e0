//! A small genuine journal for the targets to start from, and what an honest verdict about it is.

use std::path::Path;
use std::sync::LazyLock;
use std::{env, fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_journal::receipt;
use countersign_journal::verify::Verified;
use countersign_journal::{Batch, NoteSigner, SqliteStore, Store, VerifierKey, export};
use countersign_model::effect::Payload;
use countersign_model::event::{
    Authorized, CallEvent, CallFact, Declared, Fact, GrantEvent, HomeEvent,
};
use countersign_model::record::{CallRecord, CallSummary};
use countersign_model::{
    Capability, Digest, ExecutionId, Failure, Grant, GrantBody, GrantId, HomeId, SandboxMode,
    Scope, Timestamp,
};
use ed25519_dalek::{Signer as _, SigningKey};

const NOW: Timestamp = Timestamp::from_millis(1_770_653_101_000);

pub fn signer() -> NoteSigner {
    NoteSigner::new("countersign/fuzz", SigningKey::from_bytes(&[7; 32]))
}

pub fn key() -> VerifierKey {
    static KEY: LazyLock<VerifierKey> = LazyLock::new(|| signer().verifier().clone());
    KEY.clone()
}

/// What was really written, and every honest way to show it.
#[derive(Debug)]
pub struct Original {
    pub entries: Vec<Vec<u8>>,
    /// The whole, two ranges of it, and a proof of one entry.
    pub files: Vec<Vec<u8>>,
    pub checkpoint: String,
    /// Of the call that was authorized.
    pub receipt: Vec<u8>,
}

impl Original {
    pub fn get() -> &'static Original {
        static ORIGINAL: LazyLock<Original> = LazyLock::new(Original::write);
        &ORIGINAL
    }

    /// Written by the real store, so a change of the format needs no change here.
    fn write() -> Original {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(&dir.path().join("journal.db"), signer()).unwrap();
        let facts = story().into_iter().map(|fact| (NOW, fact)).collect();
        let call = Some(authorized_call());
        store.append(Batch { facts, call, ..Batch::default() }).unwrap();
        let execution = uuid(2).parse().unwrap();
        let mut content = |_: &receipt::Pin| Some(b"{}".to_vec());
        let receipt = receipt::create(&store, &signer(), execution, &mut content).unwrap();
        let head = store.head().unwrap();
        let range = |first, end| {
            let mut out = Vec::new();
            export::write(&store, first..end, &mut out).unwrap();
            out
        };
        let whole = range(0, head.size);
        let entries = whole.split(|byte| *byte == b'\n').skip(1).map(<[u8]>::to_vec);
        let entries = entries.filter(|line| !line.is_empty()).collect();
        let mut proof = Vec::new();
        export::prove(&store, 4).unwrap().write(&mut proof).unwrap();
        let files = vec![whole, range(2, 5), range(3, head.size), proof];
        Original { entries, files, checkpoint: head.checkpoint, receipt }
    }

    /// Nobody but the key can sign, so what verifies must hold the entries that were written, at
    /// their places.
    pub fn assert_honest(&self, file: &[u8], verified: &Verified) {
        let places = verified.first as usize..verified.end as usize;
        let written = self.entries.get(places).expect("entries that were never written verify");
        let shown: Vec<&[u8]> = file.split(|byte| *byte == b'\n').collect();
        let proof = shown.iter().filter(|line| !line.is_empty()).count() == 1 && written.len() == 1;
        if proof {
            let line: serde_json::Value = serde_json::from_slice(shown[0]).unwrap();
            assert_eq!(line["entry"].as_str().unwrap().as_bytes(), written[0]);
        } else {
            assert_eq!(shown[1..shown.len() - 1], *written, "a changed journal verifies");
        }
    }
}

/// Writes the seeds that must be genuine, when asked to by `scripts/fuzz seeds`.
pub fn write_seeds() {
    if let Some(dir) = env::var_os("COUNTERSIGN_WRITE_SEEDS") {
        try_write_seeds(Path::new(&dir)).unwrap();
    }
}

fn try_write_seeds(dir: &Path) -> io::Result<()> {
    let write = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(dir.join(target))?;
        fs::write(dir.join(target).join(name), bytes)
    };
    let original = Original::get();
    for (name, file) in ["whole", "range", "tail", "proof"].iter().zip(&original.files) {
        write("journal", &format!("{name}.jsonl"), file)?;
    }
    for (seq, entry) in original.entries.iter().enumerate() {
        write("entry", &format!("{seq}.json"), entry)?;
    }
    write("note", "checkpoint.txt", original.checkpoint.as_bytes())?;
    write("note", "key.txt", key().to_string().as_bytes())?;
    write("note", "secret.txt", signer().to_secret_text().as_bytes())?;
    write("grant", "grant.json", &serde_json::to_vec(&grant())?)
}

/// The statement inside of a receipt.
pub fn payload(receipt: &[u8]) -> Vec<u8> {
    let envelope: serde_json::Value = serde_json::from_slice(receipt).unwrap();
    BASE64.decode(envelope["payload"].as_str().unwrap()).unwrap()
}

/// A DSSE envelope around anything.
pub fn seal(payload: &[u8]) -> Vec<u8> {
    let kind = "application/vnd.in-toto+json";
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    let sig = BASE64.encode(signer().signing_key().sign(&message).to_bytes());
    let (keyid, payload) = (key().id(), BASE64.encode(payload));
    let signatures = serde_json::json!([{"keyid": keyid, "sig": sig}]);
    let envelope =
        serde_json::json!({"payload": payload, "payloadType": kind, "signatures": signatures});
    envelope.to_string().into_bytes()
}

/// So that the store finds the facts of call 2.
fn authorized_call() -> CallSummary {
    let CallEvent::Declared(declared) = declared() else { unreachable!() };
    let mut summary = CallRecord::begin(uuid(2).parse().unwrap(), NOW, &declared).summary;
    summary.events = 3;
    summary
}

fn uuid(n: u8) -> String {
    format!("019a7c3e-0000-7000-8000-{n:012x}")
}

fn call(n: u8, event: CallEvent) -> Fact {
    let execution: ExecutionId = uuid(n).parse().unwrap();
    Fact::Call(CallFact { execution, event })
}

fn declared() -> CallEvent {
    CallEvent::Declared(Declared {
        chain: Vec::new(),
        files: None,
        mode: SandboxMode::default(),
        toolset: None,
        tool: "file.read".parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
        declaration: Digest::of(b"declaration"),
        principal: "agent:x".parse().unwrap(),
        input: Payload::of(b"{}"),
        root: Some("/srv/app".into()),
        consumes: Vec::new(),
        work: None,
    })
}

pub fn grant() -> Grant {
    let id: GrantId = uuid(1).parse().unwrap();
    let body = GrantBody {
        id,
        capability: Capability::FilesystemRead,
        grantee: "agent:x".parse().unwrap(),
        grantor: "human:ada".parse().unwrap(),
        scope: Scope::parse(["/srv/app/**"]).unwrap(),
        issued_at: NOW,
        expires_at: NOW.plus_millis(3_600_000),
        delegable: false,
        parent: None,
        depth: 0,
    };
    Grant::sign(body, signer().signing_key()).unwrap()
}

fn story() -> Vec<Fact> {
    let home: HomeId = uuid(0).parse().unwrap();
    let created = HomeEvent::Created {
        home,
        journal_key: key().to_string(),
        authority_key: key().to_string(),
    };
    let error = Failure::timeout("TIMEOUT", "took “too” long\n");
    let authorized = Authorized {
        approval: None,
        attempt: 1,
        capabilities: vec![],
        facts: None,
        grants: vec![],
        verdict: None,
    };
    vec![
        Fact::Home(created),
        Fact::Grant(GrantEvent::Issued { grant: grant() }),
        call(2, declared()),
        call(2, CallEvent::Validated {}),
        call(3, declared()),
        call(2, CallEvent::Authorized(authorized)),
        call(3, CallEvent::Failed { error }),
    ]
}
