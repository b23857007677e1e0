//! The one place where a connection to the outside is made.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_model::Failure;

use crate::ending::{Endings, Unfinished, Waiting};
use crate::flow::Flow;
use crate::host::{Host, Target};
use crate::ledger::{Budget, Case, Ledger};
use crate::refusal;
use crate::resolve::{Resolve, closed};
use crate::rules::{Rules, Traffic};

#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) rules: Rules,
    pub(crate) ledger: Ledger,
    pub(crate) endings: Arc<Endings>,
    resolver: Arc<dyn Resolve>,
    budget: Arc<Budget>,
}

/// A connection to a server that was judged. There is no other way to make one.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) stream: TcpStream,
    pub(crate) flow: Flow,
    pub(crate) target: Target,
    pub(crate) traffic: Traffic,
    _waiting: Waiting,
}

/// Names with more addresses exist, but not ones where the seventeenth helps.
const MAX_TRIED: usize = 16;

impl Gate {
    pub(crate) fn new(rules: Rules, resolver: Arc<dyn Resolve>) -> Gate {
        let budget = Arc::new(Budget::new(rules.max_bytes));
        Gate { rules, ledger: Ledger::default(), endings: Arc::default(), resolver, budget }
    }

    /// Judges the name, resolves it once, judges every address, and connects to one of those.
    /// The case is on record as allowed when this succeeds; a refusal is for the caller to record.
    pub(crate) fn open(&self, case: &mut Case, target: Target) -> Result<Outbound, Failure> {
        case.asks_for(&target);
        self.rules.judge(&target)?;
        if self.budget.is_empty() {
            return Err(self.spent());
        }
        let addresses = self.addresses(&target)?;
        self.judge_addresses(case, &target.host, &addresses)?;
        case.address = addresses.first().copied();
        let stream = self.connect(&target, addresses)?;
        case.address = stream.peer_addr().ok().map(|peer| peer.ip());
        self.outbound(case, target, stream).map_err(|_| refusal::stopped())
    }

    fn spent(&self) -> Failure {
        refusal::bytes_limit(self.rules.max_bytes)
    }

    fn addresses(&self, target: &Target) -> Result<Vec<IpAddr>, Failure> {
        let name = match &target.host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name.clone(),
        };
        let (resolver, port) = (Arc::clone(&self.resolver), target.port);
        let ask = move || resolver.resolve(&name, port);
        match self.endings.wait_for(self.rules.timeouts.resolve, ask) {
            Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
            Ok(_) => Err(refusal::unresolved(&target.host)),
            Err(Unfinished::TooLate) => Err(refusal::resolve_timeout(&target.host)),
            Err(Unfinished::Stopped) => Err(refusal::stopped()),
        }
    }

    /// One bad address condemns the whole answer: a name that leads inside as well as outside is
    /// either a mistake or an attack.
    fn judge_addresses(
        &self,
        case: &mut Case,
        host: &Host,
        addresses: &[IpAddr],
    ) -> Result<(), Failure> {
        for address in addresses {
            if let Some(what) = self.forbidden(*address) {
                case.address = Some(*address);
                return Err(refusal::address_private(host, &what));
            }
        }
        Ok(())
    }

    fn forbidden(&self, address: IpAddr) -> Option<String> {
        closed(address, &self.rules.private)
    }

    fn connect(&self, target: &Target, addresses: Vec<IpAddr>) -> Result<TcpStream, Failure> {
        let (limit, port) = (self.rules.timeouts.connect, target.port);
        match self.endings.wait_for(limit, move || connect_one(&addresses, port, limit)) {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => {
                Err(refusal::connect_timeout(target))
            }
            Ok(Err(error)) => Err(refusal::connect_failed(target, &error.kind().to_string())),
            Err(Unfinished::TooLate) => Err(refusal::connect_timeout(target)),
            Err(Unfinished::Stopped) => Err(refusal::stopped()),
        }
    }

    fn outbound(&self, case: &Case, target: Target, stream: TcpStream) -> io::Result<Outbound> {
        let idle = self.rules.timeouts.idle;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(idle))?;
        let waiting = self.endings.connection(&stream)?;
        let entry = self.ledger.allow(case.clone());
        let flow = Flow::new(entry, Arc::clone(&self.budget), self.spent(), idle);
        let traffic = self.rules.traffic(target.port);
        Ok(Outbound { stream, flow, target, traffic, _waiting: waiting })
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        self.flow.entry().settle();
    }
}

/// Tries the addresses in the order of the answer, each for its share of the time that is left.
fn connect_one(addresses: &[IpAddr], port: u16, limit: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + limit;
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let tried = addresses.len().min(MAX_TRIED);
    for (place, address) in addresses.iter().take(tried).enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let others = u32::try_from(tried.saturating_sub(place)).unwrap_or(1);
        let share = left.checked_div(others).filter(|share| !share.is_zero());
        let share = share.ok_or(io::ErrorKind::TimedOut)?;
        match TcpStream::connect_timeout(&SocketAddr::new(*address, port), share) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
