//! TLS, with ring beneath: what the host shows, and whom it believes when it is the client.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_model::Failure;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::serve::TlsFiles;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, Failure> {
    let certificates = certificates(&files.certificates)?;
    check_private(&files.key)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unreadable(&files.key, "no private key in PEM", &error.to_string()))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(certificates, key);
    let mut config = config.map_err(|error| invalid(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(|certificates| certificates.collect());
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(unreadable(path, "no certificate in PEM", "it is empty")),
        Err(error) => Err(unreadable(path, "no certificate in PEM", &error.to_string())),
    }
}

/// A key that others can read is everybody's key.
fn check_private(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = File::open(path).and_then(|file| file.metadata());
    let metadata =
        metadata.map_err(|error| unreadable(path, "no private key in PEM", &error.to_string()))?;
    if metadata.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    let message = format!("others can read the private key `{}`", path.display());
    Err(Failure::validation("TLS_KEY_EXPOSED", message).hint("chmod 600, then start again"))
}

fn unreadable(path: &Path, what: &str, why: &str) -> Failure {
    invalid(format!("`{}` has {what}: {why}", path.display()))
}

fn invalid(message: String) -> Failure {
    Failure::validation("TLS_INVALID", message)
        .hint("give a certificate chain and its private key, both as PEM files")
}

/// Where systems keep the authorities that they trust.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Whom the host believes when it connects to others: the authorities of this system, or of a
/// bundle that the operator names.
pub fn connector(bundle: Option<&Path>) -> Result<TlsConnector, Failure> {
    let known = BUNDLES.iter().map(PathBuf::from).find(|path| path.exists());
    let path = bundle.map(Path::to_path_buf).or(known).ok_or_else(|| {
        Failure::resource("TLS_ROOTS_MISSING", "this system has no bundle of authorities")
            .hint("install ca-certificates")
    })?;
    let mut roots = RootCertStore::empty();
    // Some bundles hold what no verifier understands; the others count.
    roots.add_parsable_certificates(certificates(&path)?);
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
