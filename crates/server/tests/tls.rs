//! TLS with certificates of our own.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use common::authority::{Authority, set_mode};
use common::{Bench, Setup};
use countersign_server::serve::TlsFiles;
use countersign_server::{Bounds, Listener, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::rustls::pki_types::ServerName;

/// Asks over TLS as somebody who believes the authority, and gives the whole answer.
fn ask(bench: &Bench, authority: &Authority, name: &str, request: &[u8]) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connector = countersign_server::tls::connector(Some(&authority.bundle)).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    runtime.block_on(async move {
        let stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
        let mut stream = connector.connect(name, stream).await.map_err(|e| e.to_string())?;
        stream.write_all(request).await.unwrap();
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told).await;
        Ok(String::from_utf8(told).unwrap())
    })
}

#[test]
fn requests_are_answered_under_tls() {
    let Some(authority) = Authority::new() else { return };
    let bounds = Bounds { head_within: Duration::from_millis(400), ..Bounds::default() };
    let tls = Some(authority.files.clone());
    let bench = Bench::with(Setup { tls, bounds, ..Setup::default() });
    let request = |more: &str| {
        bench.request("GET", "/v1/things/x", &format!("connection: close\r\n{more}"), "")
    };
    let told = ask(&bench, &authority, "localhost", &request("")).unwrap();
    assert!(told.starts_with("HTTP/1.1 200") && told.ends_with(r#"{"id":"x"}"#), "{told}");
    let own =
        ask(&bench, &authority, "localhost", &request("origin: https://localhost\r\n")).unwrap();
    assert!(own.starts_with("HTTP/1.1 200"), "{own}");
    let other =
        ask(&bench, &authority, "localhost", &request("origin: http://localhost\r\n")).unwrap();
    assert!(other.starts_with("HTTP/1.1 403"), "{other}");
    let nonsense = ask(&bench, &authority, "localhost", b"nonsense\r\n\r\n").unwrap();
    assert!(
        nonsense.starts_with("HTTP/1.1 400") && nonsense.contains("validation_error"),
        "{nonsense}"
    );
    assert!(ask(&bench, &authority, "other.example", &request("")).is_err());
    // Whoever does not speak TLS, or nothing at all, is let go.
    for first in [&b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"[..], b"", &[0x16, 3, 1]] {
        let mut plain = bench.connect();
        plain.write_all(first).unwrap();
        let mut told = Vec::new();
        let _ = plain.read_to_end(&mut told);
        assert!(!told.starts_with(b"HTTP"), "{told:?}");
    }
}

#[test]
fn certificates_and_keys_that_are_none() {
    let Some(authority) = Authority::new() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bind = |files: TlsFiles| {
        let settings = Settings { tls: Some(files), ..Settings::default() };
        runtime.block_on(Listener::bind(&settings)).map(|_| ()).map_err(|failure| failure.code)
    };
    let good = authority.files.clone();
    assert!(bind(good.clone()).is_ok());
    let at = |name: &str| authority.folder.path().join(name);
    std::fs::write(at("empty"), "").unwrap();
    set_mode(&at("empty"), 0o600);
    for files in [
        TlsFiles { certificates: at("absent"), ..good.clone() },
        TlsFiles { certificates: at("empty"), ..good.clone() },
        TlsFiles { key: at("absent"), ..good.clone() },
        TlsFiles { key: at("empty"), ..good.clone() },
        TlsFiles { key: at("ca.key"), ..good.clone() },
    ] {
        set_mode(&at("ca.key"), 0o600);
        assert_eq!(bind(files.clone()).unwrap_err(), "TLS_INVALID", "{files:?}");
    }
    set_mode(&at("leaf.key"), 0o640);
    assert_eq!(bind(good).unwrap_err(), "TLS_KEY_EXPOSED");
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = Settings { listen: taken.local_addr().unwrap(), ..Settings::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(Listener::bind(&settings)).unwrap_err().code, "LISTEN_FAILED");
}
