//! Every reason for which a connection does not come about, in the user's words.

use countersign_model::{ErrorClass, Failure};

use crate::host::{Host, Target};

pub(crate) fn host_not_allowed(host: &Host) -> Failure {
    Failure::authorization("HOST_NOT_ALLOWED", format!("no rule allows the host `{host}`"))
        .hint("ask for a grant that names this host")
}

pub(crate) fn port_not_allowed(target: &Target) -> Failure {
    let Target { host, port } = target;
    Failure::authorization("PORT_NOT_ALLOWED", format!("no rule allows port {port} of `{host}`"))
        .hint("without a port a rule means 443 and 80; other ports have to be named")
}

/// The address itself goes into the record only: where an internal name leads is nothing that a
/// sandbox has to learn.
pub(crate) fn address_private(host: &Host, what: &str) -> Failure {
    Failure::authorization("ADDRESS_PRIVATE", format!("`{host}` leads to {what}"))
        .hint("an operator can open a private network for this host by an explicit exception")
}

pub(crate) fn sni_mismatch(host: &Host, said: Option<&str>) -> Failure {
    let message = match said {
        Some(name) => {
            let name = crate::host::shown(name);
            format!("the TLS handshake to `{host}` asks for `{name}`")
        }
        None => format!("the TLS handshake to `{host}` names no server"),
    };
    Failure::authorization("SNI_MISMATCH", message)
        .hint("connect by name and let the client send that name (SNI)")
}

pub(crate) fn not_tls(host: &Host, why: &str) -> Failure {
    Failure::authorization("NOT_TLS", format!("what was sent to `{host}` {why}"))
        .hint("this port is for TLS only")
}

pub(crate) fn host_header_mismatch(target: &Target) -> Failure {
    let message = format!("the Host header does not say `{target}`, where the request goes");
    Failure::authorization("HOST_HEADER_MISMATCH", message)
}

pub(crate) fn upgrade() -> Failure {
    Failure::authorization("UPGRADE_NOT_ALLOWED", "plain HTTP may not change to another protocol")
        .hint("use TLS, or leave the Upgrade header out")
}

pub(crate) fn protocol(why: impl AsRef<str>) -> Failure {
    let message = format!("the request {}", why.as_ref());
    Failure::validation("PROTOCOL_ERROR", message)
        .hint("speak HTTP/1.1 to a proxy, HTTP CONNECT or SOCKS5 without authentication")
}

pub(crate) fn command() -> Failure {
    Failure::validation("COMMAND_NOT_SUPPORTED", "only CONNECT is possible through SOCKS here")
}

pub(crate) fn address_type() -> Failure {
    Failure::validation("ADDRESS_TYPE_NOT_SUPPORTED", "SOCKS names an address of an unknown kind")
}

pub(crate) fn head_timeout() -> Failure {
    Failure::timeout("HEAD_TIMEOUT", "the client did not finish its request in time")
}

pub(crate) fn too_many_connections(limit: u32) -> Failure {
    Failure::resource("TOO_MANY_CONNECTIONS", format!("{limit} connections are open already"))
        .hint("close some first")
}

pub(crate) fn too_many_attempts(limit: u32) -> Failure {
    let message = format!("after {limit} attempts the way out is closed");
    Failure::resource("TOO_MANY_ATTEMPTS", message)
}

pub(crate) fn bytes_limit(limit: u64) -> Failure {
    Failure::resource("BYTES_LIMIT", format!("all {limit} bytes of traffic are used up"))
}

pub(crate) fn unresolved(host: &Host) -> Failure {
    Failure::execution("NAME_UNRESOLVED", format!("no address was found for `{host}`"))
}

pub(crate) fn resolve_timeout(host: &Host) -> Failure {
    Failure::timeout("RESOLVE_TIMEOUT", format!("no name server answered for `{host}` in time"))
}

pub(crate) fn connect_failed(target: &Target, why: &str) -> Failure {
    Failure::execution("CONNECT_FAILED", format!("`{target}` cannot be reached: {why}"))
}

pub(crate) fn connect_timeout(target: &Target) -> Failure {
    Failure::timeout("CONNECT_TIMEOUT", format!("`{target}` did not answer in time"))
}

pub(crate) fn no_answer(target: &Target) -> Failure {
    let message = format!("`{target}` ended without an answer that can be passed on");
    Failure::execution("UPSTREAM_FAILED", message)
}

pub(crate) fn stopped() -> Failure {
    Failure::state("STOPPED", "the call has ended, and its way out with it")
}

pub(crate) fn http_status(failure: &Failure) -> &'static str {
    match (failure.code.as_ref(), failure.class) {
        ("HEAD_TIMEOUT", _) => "408 Request Timeout",
        ("TOO_MANY_CONNECTIONS" | "STOPPED", _) => "503 Service Unavailable",
        (_, ErrorClass::ValidationError) => "400 Bad Request",
        (_, ErrorClass::ExecutionError | ErrorClass::StateError) => "502 Bad Gateway",
        (_, ErrorClass::TimeoutError) => "504 Gateway Timeout",
        (_, ErrorClass::AuthorizationError | ErrorClass::ResourceError) => "403 Forbidden",
    }
}

/// The reply codes of RFC 1928.
pub(crate) fn socks_reply(failure: &Failure) -> u8 {
    match (failure.code.as_ref(), failure.class) {
        ("COMMAND_NOT_SUPPORTED", _) => 7,
        ("ADDRESS_TYPE_NOT_SUPPORTED", _) => 8,
        ("NAME_UNRESOLVED", _) => 4,
        ("CONNECT_FAILED", _) => 5,
        (_, ErrorClass::TimeoutError) => 6,
        (_, ErrorClass::AuthorizationError) => 2,
        _ => 1,
    }
}
