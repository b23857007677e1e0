//! From names to addresses.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::net::Net;
use crate::table::forbidden;

/// Asked once for each connection. Every address of the answer is checked, and only an address of
/// this very answer is connected to.
///
/// The proxy asks on a thread that it can leave, so an implementation may block.
pub trait Resolve: fmt::Debug + Send + Sync {
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<IpAddr>>;
}

/// What the operating system answers, with its hosts file and its name servers.
#[derive(Debug, Default)]
pub struct SystemResolver {
    asking: AtomicUsize,
}

impl SystemResolver {
    /// The system's resolver cannot be interrupted. Lookups that nobody waits for any more still
    /// have their threads, and those may not pile up without end.
    const MAX_ASKING: usize = 64;
}

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<IpAddr>> {
        let _place = Place::take(&self.asking)?;
        Ok((host, port).to_socket_addrs()?.map(|found| found.ip()).collect())
    }
}

struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(asking: &'a AtomicUsize) -> io::Result<Place<'a>> {
        let before = asking.fetch_add(1, Ordering::Relaxed);
        let place = Place(asking);
        if before >= SystemResolver::MAX_ASKING {
            return Err(io::Error::other("too many lookups are waiting"));
        }
        Ok(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why nothing may connect to this address: a range that leads inside, or this machine itself.
/// `opened` are the exceptions of the operator.
pub fn closed(address: IpAddr, opened: &[Net]) -> Option<String> {
    forbidden(address, opened).or_else(|| {
        let named = opened.iter().any(|net| net.contains(address));
        (!named && is_this_machine(address)).then(|| "the machine that runs the host".to_owned())
    })
}

/// Whether this machine has the address itself, which no table knows: what listens on a public
/// address of the host is often meant for its own network only.
///
/// The system is asked which address it would send from, and answers without sending anything. To
/// itself it sends from the very address it sends to.
pub(crate) fn is_this_machine(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => [0; 4].into(),
        IpAddr::V6(_) => [0_u16; 8].into(),
    };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_knows_itself() {
        assert_eq!(
            SystemResolver::default().resolve("127.0.0.1", 80).unwrap(),
            [IpAddr::from([127, 0, 0, 1])]
        );
        assert!(is_this_machine([127, 0, 0, 1].into()));
        assert!(!is_this_machine([192, 0, 2, 1].into()));
    }

    #[test]
    fn lookups_do_not_pile_up() {
        let resolver = SystemResolver::default();
        resolver.asking.store(SystemResolver::MAX_ASKING, Ordering::Relaxed);
        assert!(resolver.resolve("127.0.0.1", 80).is_err());
        resolver.asking.store(0, Ordering::Relaxed);
        assert!(resolver.resolve("127.0.0.1", 80).is_ok());
        assert_eq!(resolver.asking.load(Ordering::Relaxed), 0);
    }
}
