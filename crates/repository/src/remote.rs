//! Another repository by its address: which ways to it are allowed, and with which credential.

use std::fmt;
use std::path::{Path, PathBuf};

use countersign_model::Failure;
use zeroize::Zeroizing;

use crate::git::Git;

/// A way to reach another repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    Https,
    /// Without encryption: for machines that are this one.
    Http,
    Ssh,
    File,
}

impl Protocol {
    fn of(url: &str) -> Option<(Self, &str)> {
        let (scheme, rest) = url.split_once("://")?;
        let protocol = match scheme {
            "https" => Protocol::Https,
            "http" => Protocol::Http,
            "ssh" => Protocol::Ssh,
            "file" => Protocol::File,
            _ => return None,
        };
        Some((protocol, rest))
    }

    fn name(self) -> &'static str {
        match self {
            Protocol::Https => "https",
            Protocol::Http => "http",
            Protocol::Ssh => "ssh",
            Protocol::File => "file",
        }
    }
}

/// What a server asks for. It goes to git by the environment of that one process, is in no
/// argument and on no disk, and is given to the named host alone.
#[derive(Clone)]
pub enum Credential {
    Password {
        username: String,
        password: Zeroizing<String>,
    },
    /// The socket of an agent that signs for ssh.
    SshAgent(PathBuf),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credential::Password { username, .. } => write!(f, "Password({username:?}, …)"),
            Credential::SshAgent(socket) => write!(f, "SshAgent({socket:?})"),
        }
    }
}

/// Where to push to. Never the name of a configured remote, always a whole address.
#[derive(Debug, Clone)]
pub struct Remote<'r> {
    pub url: &'r str,
    pub allowed: &'r [Protocol],
    pub credential: Option<&'r Credential>,
    /// The keys of hosts that ssh trusts; without it those that the account knows.
    pub known_hosts: Option<&'r Path>,
}

/// Answers when asked for a credential; the words are in the environment, not in here.
const HELPER: &str = "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \
                      \"$COUNTERSIGN_USERNAME\" \"$COUNTERSIGN_PASSWORD\"; }; f";

/// No configuration and no key of the account, no questions, no forwarding, and only hosts that are
/// known. Who may sign is what the agent says that was handed in.
const SSH: &str = "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes \
                   -o IdentityFile=none -o PermitLocalCommand=no -o ClearAllForwardings=yes \
                   -o ControlPath=none";

/// A repository on this machine is served by a git that we start: it must not run what is
/// configured there, and must not write into a checkout.
const HARMLESS: &str = "git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=true \
                        -c core.fsmonitor=false -c receive.autogc=false -c gc.auto=0 \
                        -c maintenance.auto=false -c receive.denyCurrentBranch=refuse \
                        -c core.fsync=all -c 'safe.directory=*'";

/// An address that was judged.
#[derive(Debug)]
pub(crate) struct Address<'r> {
    pub(crate) url: &'r str,
    protocol: Protocol,
    authority: &'r str,
}

impl<'r> Remote<'r> {
    pub(crate) fn address(&self) -> Result<Address<'r>, Failure> {
        let (protocol, rest) = Protocol::of(self.url).ok_or_else(|| invalid("its scheme"))?;
        if !self.allowed.contains(&protocol) {
            let message = format!("`{}` is not an allowed way to a remote", protocol.name());
            return Err(Failure::authorization("PROTOCOL_REFUSED", message)
                .hint("use an address that policy allows"));
        }
        let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
        check(self.url, protocol, authority)?;
        Ok(Address { url: self.url, protocol, authority })
    }

    /// Git, allowed this one way out.
    pub(crate) fn git(&self, git: &Git, address: &Address<'_>) -> Result<Git, Failure> {
        let git = git.with("GIT_ALLOW_PROTOCOL", address.protocol.name());
        let git = git.set("protocol.allow", "always");
        match (address.protocol, self.credential) {
            (Protocol::Ssh, Some(Credential::SshAgent(socket))) => {
                Ok(self.ssh(&git)?.with("SSH_AUTH_SOCK", socket))
            }
            (Protocol::Ssh, None) => self.ssh(&git),
            (
                Protocol::Https | Protocol::Http,
                Some(Credential::Password { username, password }),
            ) => with_password(&git, address, username, password),
            (_, None) => Ok(git),
            (_, Some(_)) => Err(Failure::validation(
                "CREDENTIAL_INVALID",
                "the credential does not fit the address",
            )),
        }
    }

    fn ssh(&self, git: &Git) -> Result<Git, Failure> {
        let command = match self.known_hosts {
            None => SSH.to_owned(),
            Some(path) => format!(
                "{SSH} -o GlobalKnownHostsFile=/dev/null -o UserKnownHostsFile={}",
                quoted(path)?
            ),
        };
        Ok(git.with("GIT_SSH_COMMAND", &command).with("GIT_SSH_VARIANT", "ssh"))
    }
}

/// A path as a shell and then ssh read it: what either could take for something else is refused.
fn quoted(path: &Path) -> Result<String, Failure> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@,:=".contains(c);
    let text = path.to_str().filter(|text| path.is_absolute() && text.chars().all(is_plain));
    text.map(str::to_owned).ok_or_else(|| {
        let message = format!("`{}` cannot be told to ssh", path.display());
        Failure::validation("KNOWN_HOSTS_INVALID", message)
            .hint("name a file by its whole path, without blanks and special characters")
    })
}

impl Address<'_> {
    /// What serves a repository on this machine, if that is where the address leads.
    pub(crate) fn served_by(&self, option: &str, service: &str) -> Option<String> {
        let local = self.protocol == Protocol::File;
        local.then(|| format!("--{option}={HARMLESS} {service}"))
    }
}

fn with_password(
    git: &Git,
    address: &Address<'_>,
    username: &str,
    password: &str,
) -> Result<Git, Failure> {
    if [username, password].iter().any(|word| word.contains(['\n', '\r', '\0'])) {
        return Err(Failure::validation("CREDENTIAL_INVALID", "a credential is one line"));
    }
    let host = format!("{}://{}", address.protocol.name(), address.authority);
    Ok(git
        .set(&format!("credential.{host}.helper"), HELPER)
        .with("COUNTERSIGN_USERNAME", username)
        .with("COUNTERSIGN_PASSWORD", password))
}

fn check(url: &str, protocol: Protocol, authority: &str) -> Result<(), Failure> {
    if url.len() > 4096 || url.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(invalid("its length, or a blank in it"));
    }
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    match protocol {
        Protocol::File if authority.is_empty() => Ok(()),
        Protocol::File => Err(invalid("a host in front of a path")),
        _ if host.is_empty() || host.starts_with('-') || !host.chars().all(is_plain) => {
            Err(invalid("its host"))
        }
        // Whatever stands in an address can be seen by every process of this machine.
        Protocol::Https | Protocol::Http if authority.contains('@') => {
            Err(invalid("a credential in it"))
        }
        Protocol::Ssh
            if user.starts_with('-') || !user.chars().all(|c| is_plain(c) && c != ':') =>
        {
            Err(invalid("its user"))
        }
        _ => Ok(()),
    }
}

fn invalid(what: &str) -> Failure {
    Failure::validation("URL_INVALID", format!("the address of the remote is refused for {what}"))
        .hint("write it as `https://HOST/PATH`, without a credential")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(url: &str) -> String {
        let allowed = &[Protocol::Https, Protocol::Ssh, Protocol::File];
        let judged = Remote { url, allowed, credential: None, known_hosts: None }.address();
        judged.map_or_else(|refused| refused.code.into_owned(), |_| "fine".to_owned())
    }

    #[test]
    fn addresses_are_judged_before_anything_is_asked() {
        for url in [
            "https://example.com/a.git",
            "https://example.com:8443/a",
            "ssh://git@example.com/a",
            "file:///srv/a.git",
            "https://[::1]/a",
        ] {
            assert_eq!(code(url), "fine", "{url}");
        }
        assert_eq!(code("http://example.com/a"), "PROTOCOL_REFUSED");
        for url in [
            "origin",
            "/srv/a.git",
            "../a",
            "git@example.com:a",
            "ext::sh -c id",
            "ext://x",
            "https://user:pw@example.com/a",
            "https://token@example.com/a",
            "https:///a",
            "https://-x/a",
            "https://a b/c",
            "https://example.com/a\nb",
            "https://ex%0aample.com/",
            "ssh://-oProxyCommand=id/a",
            "ssh://-l@host/a",
            "ssh://u:p@host/a",
            "file://host/a",
        ] {
            assert_eq!(code(url), "URL_INVALID", "{url}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let password = Zeroizing::new("hunter2".to_owned());
        let shown = format!("{:?}", Credential::Password { username: "ada".to_owned(), password });
        assert_eq!(shown, "Password(\"ada\", …)");
    }
}
