//! The egress proxy as the way out of sandboxes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use countersign_egress::{Attempt, HostRule, Net, Proxy, Rules, SystemResolver};
use countersign_model::Failure;
use countersign_model::event::Connection;
use countersign_sandbox::{Gateway, GatewaySession};

/// A proxy on this machine that takes longer to say no is not at work.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts a proxy for every sandbox that may reach hosts.
#[derive(Debug)]
pub(crate) struct EgressGateway {
    /// Private addresses that the operator opened.
    pub(crate) private: Vec<Net>,
}

impl Gateway for EgressGateway {
    fn open(
        &self,
        listener: TcpListener,
        hosts: &[String],
    ) -> Result<Box<dyn GatewaySession>, Failure> {
        let hosts = hosts.iter().map(|host| host.parse()).collect::<Result<Vec<HostRule>, _>>()?;
        let rules = Rules { hosts, private: self.private.clone(), ..Rules::default() };
        let proxy = Proxy::start(listener, rules, Arc::new(SystemResolver::default()));
        let proxy = proxy.map_err(|error| {
            Failure::resource("PROXY_FAILED", format!("the egress proxy did not start: {error}"))
        })?;
        Ok(Box::new(Session(proxy)))
    }
}

/// Whether a proxy starts here and refuses what nobody allowed.
pub(crate) fn try_out() -> Result<(), String> {
    let refused = || -> io::Result<String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let proxy = Proxy::start(listener, Rules::default(), Arc::new(SystemResolver::default()))?;
        let mut client = TcpStream::connect(address)?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.write_all(b"CONNECT nobody.invalid:443 HTTP/1.1\r\nHost: nobody.invalid\r\n\r\n")?;
        let mut answer = [0; 12];
        client.read_exact(&mut answer)?;
        proxy.stop();
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    match refused() {
        Ok(answer) if answer == "HTTP/1.1 403" => Ok(()),
        Ok(answer) => Err(format!("it answered `{answer}` where it had to refuse")),
        Err(error) => Err(error.to_string()),
    }
}

struct Session(Proxy);

impl GatewaySession for Session {
    fn close(self: Box<Self>) -> Vec<Connection> {
        self.0.stop().into_iter().map(connection).collect()
    }
}

fn connection(attempt: Attempt) -> Connection {
    Connection {
        address: attempt.address.map(|address| address.to_string()),
        denied: attempt.verdict.code().map(str::to_owned),
        host: attempt.host,
        port: attempt.port,
        protocol: attempt.protocol.as_str().to_owned(),
        received: attempt.received,
        sent: attempt.sent,
    }
}
