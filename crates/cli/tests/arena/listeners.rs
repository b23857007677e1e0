//! Services of the host that nobody in a box may reach. They answer, so that an escape is seen on
//! both sides.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) port: u16,
    /// Zero where the host has no IPv6.
    pub(crate) port6: u16,
    pub(crate) udp: u16,
    pub(crate) abstract_name: String,
    contacts: Arc<AtomicUsize>,
}

impl Listeners {
    pub(crate) fn start(mark: &str) -> Listeners {
        let contacts = Arc::new(AtomicUsize::new(0));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        serve_tcp(tcp, &contacts);
        let mut port6 = 0;
        if let Ok(tcp) = TcpListener::bind("[::1]:0") {
            port6 = tcp.local_addr().unwrap().port();
            serve_tcp(tcp, &contacts);
        }
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp = datagrams.local_addr().unwrap().port();
        let counter = Arc::clone(&contacts);
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = datagrams.recv_from(&mut question) {
                counter.fetch_add(1, Ordering::SeqCst);
                let _ = datagrams.send_to(&question[..length], from);
            }
        });
        let abstract_name = format!("{mark}-abstract");
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        serve_unix(UnixListener::bind_addr(&address).unwrap(), &contacts);
        Listeners { port, port6, udp, abstract_name, contacts }
    }

    /// A socket with a path; it answers as long as the tests run.
    pub(crate) fn at(&self, path: &Path) {
        serve_unix(UnixListener::bind(path).unwrap(), &self.contacts);
    }

    /// How often anybody got through since the last time this was asked.
    pub(crate) fn contacts(&self) -> usize {
        self.contacts.swap(0, Ordering::SeqCst)
    }
}

fn serve_tcp(listener: TcpListener, contacts: &Arc<AtomicUsize>) {
    let contacts = Arc::clone(contacts);
    thread::spawn(move || {
        for mut caller in listener.incoming().flatten() {
            contacts.fetch_add(1, Ordering::SeqCst);
            let _ = caller.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
}

fn serve_unix(listener: UnixListener, contacts: &Arc<AtomicUsize>) {
    let contacts = Arc::clone(contacts);
    thread::spawn(move || {
        for mut caller in listener.incoming().flatten() {
            contacts.fetch_add(1, Ordering::SeqCst);
            let _ = caller.read(&mut [0; 16]);
        }
    });
}
