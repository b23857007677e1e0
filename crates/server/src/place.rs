//! Where a request may come from, and by what name it may call this host.
//!
//! A page in a browser can send requests to a loopback address, and a name that its owner points
//! there makes such a page look like our own. So a request that a page of somebody else sent is
//! refused by its `Origin`, and one for a name that is not ours by its `Host`. There are no CORS
//! headers at all.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, Uri, Version, header};

use crate::error::Refusal;

/// The names of this host.
#[derive(Debug, Clone, Default)]
pub struct Place {
    names: Vec<String>,
    origins: Vec<String>,
    tls: bool,
}

impl Place {
    /// `names` are those that clients may use beside the loopback ones, without ports; `origins` are
    /// whole origins such as `https://console.example.org`.
    pub fn new(names: &[String], origins: &[String], tls: bool) -> Place {
        let lower = |texts: &[String]| texts.iter().map(|text| text.to_ascii_lowercase()).collect();
        Place { names: lower(names), origins: lower(origins), tls }
    }

    pub(crate) fn check(
        &self,
        version: Version,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let host = single(headers, &header::HOST)?;
        // An absolute form names the host a second time; both must be ours.
        let named = [host, uri.authority().map(|authority| authority.as_str())];
        if named == [None, None] && version >= Version::HTTP_11 {
            return Err(Refusal::invalid("a request has to have a `Host` header"));
        }
        if !named.into_iter().flatten().all(|name| self.is_ours(name)) {
            return Err(Refusal::forbidden("this host does not go by that name"));
        }
        match single(headers, &header::ORIGIN)? {
            Some(origin) if !self.is_own_origin(origin) => {
                Err(Refusal::forbidden("requests of other origins are refused"))
            }
            _ => Ok(()),
        }
    }

    fn is_ours(&self, authority: &str) -> bool {
        let Some(name) = name_of(authority) else { return false };
        is_loopback(&name) || self.names.contains(&name)
    }

    /// Our own pages, or those that the operator named. `null` is an origin of others.
    fn is_own_origin(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let scheme = if self.tls { "https://" } else { "http://" };
        let own = origin.strip_prefix(scheme).is_some_and(|authority| self.is_ours(authority));
        own || self.origins.contains(&origin)
    }
}

/// A header that may stand once only: with two, two readers could each believe another.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let (value, more) = (values.next(), values.next());
    let readable = value.is_none_or(|value| value.to_str().is_ok());
    if more.is_some() || !readable {
        return Err(Refusal::invalid(format!("the header `{name}` has to stand once, in ASCII")));
    }
    Ok(value.and_then(|value| value.to_str().ok()))
}

/// The name in `name:port`, in lower case; nothing if it is not written like one.
fn name_of(authority: &str) -> Option<String> {
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (authority, None),
    };
    let plain = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let odd = |c: char| matches!(c, '/' | '@' | '\\' | '?' | '#' | ' ' | '%');
    (plain && !name.is_empty() && !name.contains(odd)).then(|| name.to_ascii_lowercase())
}

fn is_loopback(name: &str) -> bool {
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address: Option<IpAddr> = inner.unwrap_or(name).parse().ok();
    name == "localhost" || address.is_some_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(host: &[&str], origin: &[&str]) -> u16 {
        let place = Place::new(
            &["Runs.example.org".to_owned()],
            &["https://console.example.org".to_owned()],
            false,
        );
        let mut headers = HeaderMap::new();
        for value in host {
            headers.append(header::HOST, value.parse().unwrap());
        }
        for value in origin {
            headers.append(header::ORIGIN, value.parse().unwrap());
        }
        let judged = place.check(Version::HTTP_11, &Uri::from_static("/"), &headers);
        judged.map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_our_names_are_answered() {
        for ours in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:1",
            "127.8.9.1",
            "[::1]:80",
            "[::1]",
            "runs.example.org",
            "RUNS.example.org:443",
        ] {
            assert_eq!(status(&[ours], &[]), 200, "{ours}");
        }
        for other in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "127.0.0.1:x",
            "127.0.0.1:99999",
            "a@localhost",
            "localhost/",
            "",
            "127.1",
            "0x7f.0.0.1",
            "[::1",
            "::1",
        ] {
            let judged = status(&[other], &[]);
            // `::1` without brackets reads as name `:` and port `:1`.
            assert_eq!(judged, 403, "{other}");
        }
        assert_eq!((status(&[], &[]), status(&["localhost", "localhost"], &[])), (400, 400));
    }

    #[test]
    fn other_origins_are_refused() {
        for ours in ["http://localhost:8080", "http://127.0.0.1", "https://console.example.org"] {
            assert_eq!(status(&["localhost"], &[ours]), 200, "{ours}");
        }
        for other in [
            "null",
            "https://localhost",
            "http://evil.example",
            "http://localhost.evil.example",
            "file://",
            "https://console.example.org.evil.example",
            "http://evil.example:80@localhost",
        ] {
            assert_eq!(status(&["localhost"], &[other]), 403, "{other}");
        }
        assert_eq!(status(&["localhost"], &["http://localhost", "http://localhost"]), 400);
    }
}
