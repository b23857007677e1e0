//! Which hosts a request may reach.

use std::collections::BTreeSet;

use countersign_model::HostPattern;

use super::{Destination, Network};
use crate::code::Code;
use crate::front::{Fields, Scalar};
use crate::reason::Findings;

const MAX_HOSTS: usize = 32;

/// The network as the front matter declares it.
pub(super) fn judge(
    fields: &Fields<'_>,
    wanted: Option<bool>,
    findings: &mut Findings,
) -> Option<Network> {
    let entries = fields.texts("network_allowlist")?;
    if entries.len() > MAX_HOSTS {
        let message = format_args!("more than {MAX_HOSTS} hosts");
        findings.add(Code::TooManyEntries, fields.at("network_allowlist"), message);
        return None;
    }
    let hosts: Vec<_> = entries.iter().map(|entry| destination(entry, findings)).collect();
    duplicates(entries, &hosts, findings);
    match (wanted?, entries.is_empty()) {
        (true, true) => {
            let message = "`allowlist` without a host in `network_allowlist`";
            findings.add(Code::NetworkInconsistent, fields.at("network_allowlist"), message);
            None
        }
        (false, false) => {
            let message = "hosts are listed, but `network` is `none`";
            findings.add(Code::NetworkInconsistent, fields.at("network_allowlist"), message);
            None
        }
        (true, false) => Some(Network::Allowlist(hosts.into_iter().collect::<Option<_>>()?)),
        (false, true) => Some(Network::None),
    }
}

fn destination(entry: &Scalar, findings: &mut Findings) -> Option<Destination> {
    let destination = parse(&entry.text);
    if let Err(message) = destination {
        findings.quote(Code::HostInvalid, entry.at, &entry.text, message);
    }
    destination.ok()
}

pub(crate) fn parse(text: &str) -> Result<Destination, &'static str> {
    let host = text.split(':').next().unwrap_or(text);
    if host.contains('*') {
        return Err("is a pattern: each host is listed by its name");
    }
    let pattern: HostPattern = text.parse().map_err(|_| "is not the name of a host")?;
    if !host.contains('.') {
        return Err("is not a full name");
    }
    if is_private(host) {
        return Err("is a name inside of a private network");
    }
    Ok(Destination { host: host.to_owned(), port: pattern.port() })
}

/// Names that belong to a local network, a cloud's metadata or nobody. That a public name leads to
/// a private address is for the proxy to see, when it is resolved.
fn is_private(host: &str) -> bool {
    const SUFFIXES: [&str; 13] = [
        "arpa",
        "corp",
        "home",
        "internal",
        "intranet",
        "invalid",
        "lan",
        "local",
        "localdomain",
        "localhost",
        "onion",
        "private",
        "metadata.goog",
    ];
    let below = |suffix: &str| {
        host.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    SUFFIXES.iter().any(|suffix| below(suffix))
}

fn duplicates(entries: &[Scalar], hosts: &[Option<Destination>], findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (entry, host) in entries.iter().zip(hosts) {
        if host.as_ref().is_some_and(|host| !seen.insert(host)) {
            findings.quote(Code::DuplicateEntry, entry.at, &entry.text, "is listed twice");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_exact_public_names() {
        let api = |port| Ok(Destination { host: "api.example.org".to_owned(), port });
        assert_eq!(parse("api.example.org"), api(443));
        assert_eq!(parse("api.example.org:8443"), api(8443));
        for bad in [
            "*.example.org",
            "example.*",
            "API.example.org",
            "localhost",
            "intranet",
            "db.internal",
            "printer.local",
            "metadata.google.internal",
            "metadata.goog",
            "10.0.0.1",
            "169.254.169.254",
            "[::1]",
            "https://api.example.org",
            "api.example.org/v1",
            "api.example.org:0",
            "api.example.org:99999",
            "user@api.example.org",
            "api.example.org.",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse("localhost.example.org").is_ok());
        assert!(parse("mylocal.org").is_ok());
    }
}
