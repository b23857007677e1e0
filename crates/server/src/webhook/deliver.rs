//! One attempt to tell a receiver: five seconds, no redirect, and only to an address that was
//! judged a moment before.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_egress::{Host, Resolve};
use countersign_model::Failure;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::url::{Target, UrlPolicy};

/// What is sent once.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub target: Target,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// Sends webhooks.
#[derive(Clone)]
pub struct Courier {
    policy: UrlPolicy,
    resolver: Arc<dyn Resolve>,
    tls: TlsConnector,
    within: Duration,
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Courier").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// How long an attempt may take, from the name to the status.
pub const WITHIN: Duration = Duration::from_secs(5);

/// A status line and some headers; nothing after that is read.
const MAX_ANSWER: usize = 8192;

impl Courier {
    /// `bundle` names authorities in the place of the system's.
    pub fn new(
        policy: UrlPolicy,
        resolver: Arc<dyn Resolve>,
        bundle: Option<&Path>,
    ) -> Result<Courier, Failure> {
        let tls = crate::tls::connector(bundle)?;
        Ok(Courier { policy, resolver, tls, within: WITHIN })
    }

    #[must_use]
    pub fn within(mut self, within: Duration) -> Courier {
        self.within = within;
        self
    }

    /// Where a name leads now, if all of it leads out. Also for registrations.
    pub async fn addresses(&self, target: &Target) -> Result<Vec<IpAddr>, Failure> {
        let addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name.clone(), target.port).await?,
        };
        let judged = target.judge(&addresses, self.policy);
        judged.map_err(|refusal| Failure::validation("WEBHOOK_URL_REJECTED", refusal.message))?;
        Ok(addresses)
    }

    async fn resolve(&self, name: String, port: u16) -> Result<Vec<IpAddr>, Failure> {
        let resolver = Arc::clone(&self.resolver);
        let asked = tokio::task::spawn_blocking(move || resolver.resolve(&name, port));
        let found = timeout(self.within, asked).await.ok().and_then(Result::ok);
        found.and_then(Result::ok).ok_or_else(|| failed("the name could not be resolved"))
    }

    /// The status that the receiver answered. Anything but 2xx is a failure too, which is for the
    /// caller to count; a redirect is not followed.
    pub async fn deliver(&self, delivery: &Delivery) -> Result<u16, Failure> {
        let attempt = timeout(self.within, self.attempt(delivery)).await;
        attempt.unwrap_or_else(|_| Err(failed("the receiver took too long")))
    }

    async fn attempt(&self, delivery: &Delivery) -> Result<u16, Failure> {
        let target = &delivery.target;
        let addresses = self.addresses(target).await?;
        let stream = connect(&addresses, target.port).await?;
        if !target.tls {
            return exchange(stream, delivery).await;
        }
        let name = server_name(&target.host)?;
        let stream = self.tls.connect(name, stream).await;
        let stream = stream.map_err(|error| failed(&format!("no TLS: {error}")))?;
        exchange(stream, delivery).await
    }
}

/// The first address that answers. There is no other way to a receiver, so nothing can lead to an
/// address that was not judged.
async fn connect(addresses: &[IpAddr], port: u16) -> Result<TcpStream, Failure> {
    for address in addresses.iter().take(4) {
        if let Ok(stream) = TcpStream::connect(SocketAddr::new(*address, port)).await {
            return Ok(stream);
        }
    }
    Err(failed("the receiver does not answer"))
}

fn server_name(host: &Host) -> Result<ServerName<'static>, Failure> {
    match host {
        Host::Address(address) => Ok(ServerName::IpAddress((*address).into())),
        Host::Name(name) => ServerName::try_from(name.clone())
            .map_err(|_| failed("the name is not one that a certificate can have")),
    }
}

async fn exchange<S>(mut stream: S, delivery: &Delivery) -> Result<u16, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let broke = |_| failed("the connection broke off");
    stream.write_all(&head(delivery)).await.map_err(broke)?;
    stream.write_all(&delivery.body).await.map_err(broke)?;
    stream.flush().await.map_err(broke)?;
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    loop {
        if let Some(status) = status_of(&answer)? {
            return Ok(status);
        }
        let count = stream.read(&mut part).await.map_err(broke)?;
        answer.extend_from_slice(part.get(..count).unwrap_or_default());
        if count == 0 || answer.len() > MAX_ANSWER {
            return Err(failed("the receiver did not answer in HTTP"));
        }
    }
}

/// Names are ours and values were checked to be visible ASCII, so no line can be smuggled in.
fn head(delivery: &Delivery) -> Vec<u8> {
    let target = &delivery.target;
    let mut head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nuser-agent: countersign\r\nconnection: close\r\n",
        target.path,
        target.authority(),
        delivery.body.len()
    );
    for (name, value) in &delivery.headers {
        let value: String = value.chars().filter(|c| matches!(c, ' '..='~')).collect();
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Nothing until the first line is there.
fn status_of(answer: &[u8]) -> Result<Option<u16>, Failure> {
    let Some(end) = answer.iter().position(|b| *b == b'\n') else { return Ok(None) };
    let line = answer.get(..end).and_then(|line| std::str::from_utf8(line).ok());
    let status = line.and_then(|line| line.trim_end().strip_prefix("HTTP/1.")).and_then(|rest| {
        let digits = rest.split(' ').nth(1)?;
        digits.parse::<u16>().ok().filter(|status| (100..600).contains(status))
    });
    status.map(Some).ok_or_else(|| failed("the receiver did not answer in HTTP"))
}

fn failed(why: &str) -> Failure {
    Failure::resource("WEBHOOK_FAILED", why)
}
