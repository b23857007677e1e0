//! One small export, letter by letter: whoever changes the format will notice here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{batch, call_fact, check, declared, export_of, home, issued, signer};
use countersign_journal::{SqliteStore, Store, export};

const KEY: &str = "countersign/test+f5d9ad30+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs";

const EXPORT: &str = r#"{"format":"countersign-journal/1","first":0,"end":2,"left":[],"right":["95dadea48581bf2977f2b1bed9ce1e754dbae4aeef4e941302fb23084346410b"],"checkpoint":"countersign/test\n3\nkBzbkyWDQH89yPxvQXaEoAg1oXrBREy4m2I8ShxuvpI=\n\n— countersign/test 9dmtMIQZcLJDFpsXdGPyKWBgc+PUmDMR2ZVWUsyP1c6C3JBPd27ZT29uc3uM6RB/KdnhoLZaWVe+MDXMMwDyg72HBw4=\n"}
{"fact":{"home":{"created":{"authorityKey":"countersign/test+f5d9ad30+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs","home":"019a7c3e-0000-7000-8000-000000000000","journalKey":"countersign/test+f5d9ad30+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs"}}},"prev":"0000000000000000000000000000000000000000000000000000000000000000","seq":0,"time":1770653101000}
{"fact":{"call":{"event":{"declared":{"declaration":"abcd0ee1fc2cdf511d8a85bd020c5f2f18468d6c442f5506fec7d859b8fea335","input":{"digest":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"principal":"agent:x","root":"/srv/app","tool":"file.read","version":"1.0.0"}},"execution":"019a7c3e-0000-7000-8000-000000000003"}},"prev":"0e32f39bef0e1e80480e1f1f473875fdf280d6d6d466e1ae7620e6aed5f023ad","seq":1,"time":1770653101000}
"#;

const PROOF: &str = r#"{"format":"countersign-proof/1","entry":"{\"fact\":{\"call\":{\"event\":{\"declared\":{\"declaration\":\"abcd0ee1fc2cdf511d8a85bd020c5f2f18468d6c442f5506fec7d859b8fea335\",\"input\":{\"digest\":\"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\",\"size\":2},\"principal\":\"agent:x\",\"root\":\"/srv/app\",\"tool\":\"file.read\",\"version\":\"1.0.0\"}},\"execution\":\"019a7c3e-0000-7000-8000-000000000003\"}},\"prev\":\"0e32f39bef0e1e80480e1f1f473875fdf280d6d6d466e1ae7620e6aed5f023ad\",\"seq\":1,\"time\":1770653101000}","seq":1,"path":["0e32f39bef0e1e80480e1f1f473875fdf280d6d6d466e1ae7620e6aed5f023ad","95dadea48581bf2977f2b1bed9ce1e754dbae4aeef4e941302fb23084346410b"],"checkpoint":"countersign/test\n3\nkBzbkyWDQH89yPxvQXaEoAg1oXrBREy4m2I8ShxuvpI=\n\n— countersign/test 9dmtMIQZcLJDFpsXdGPyKWBgc+PUmDMR2ZVWUsyP1c6C3JBPd27ZT29uc3uM6RB/KdnhoLZaWVe+MDXMMwDyg72HBw4=\n"}
"#;

#[test]
fn the_formats_are_pinned() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::create(&dir.path().join("journal.db"), signer()).unwrap();
    store.append(batch([home(), call_fact(3, declared()), issued(2)])).unwrap();
    let mut proof = Vec::new();
    export::prove(&store, 1).unwrap().write(&mut proof).unwrap();
    assert_eq!(signer().verifier().to_string(), KEY);
    assert_eq!(String::from_utf8(export_of(&store, 0..2)).unwrap(), EXPORT);
    assert_eq!(String::from_utf8(proof).unwrap(), PROOF);
}

/// Files written by the first version must verify for ever.
#[test]
fn the_pinned_files_verify() {
    assert_eq!(check(EXPORT.as_bytes()).unwrap().end, 2);
    assert_eq!(check(PROOF.as_bytes()).unwrap().first, 1);
}
