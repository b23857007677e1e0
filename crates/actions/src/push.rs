//! `push_branch`: a branch that a run published goes to a remote. Always asks a human; only to remotes
//! and branches that the configuration names; with a credential that is given when it runs, and that
//! nothing records.

use countersign_host::config::PushConfig;
use countersign_host::tool::{Footprint, NativeTool, Place, Repeats, ToolContext};
use countersign_model::{Capability, Failure, HostPattern, SandboxMode};
use countersign_repository::{Leash, ObjectId, Protocol, Push, Pushed, Remote};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::left::{Left, arguments, with_leash};

/// Whatever the remote is allowed to be.
const PROTOCOLS: [Protocol; 3] = [Protocol::Https, Protocol::Ssh, Protocol::File];

#[derive(Debug, Deserialize)]
struct Arguments {
    remote: String,
    branch: String,
    commit: String,
    expected_old: Option<String>,
}

#[derive(Debug)]
pub(crate) struct PushBranch;

impl NativeTool for PushBranch {
    fn repeats(&self) -> Repeats {
        Repeats::Once
    }

    fn people(&self) -> u32 {
        1
    }

    fn hosts(&self, input: &Value) -> Vec<String> {
        let asked: Result<Arguments, Failure> = arguments(input);
        asked.map(|asked| vec![destination(&asked.remote)]).unwrap_or_default()
    }

    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        place.work()?;
        let asked: Arguments = arguments(input)?;
        check_allowed(&place.actions().push, &asked)?;
        let mut footprint = Footprint::nothing();
        footprint.least_mode = SandboxMode::RepoWrite;
        // Where it may go is said by the configuration and, each time, by a human.
        footprint.needs = vec![place.need_of_all(Capability::FilesystemRead)?];
        Ok(footprint)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let asked: Arguments = arguments(input)?;
        check_allowed(&context.place().actions().push, &asked)?;
        let pushed = with_leash(context, |leash| push(context, &asked, leash))?;
        let outcome = match pushed {
            Pushed::Accepted => "accepted",
            Pushed::UpToDate => "up_to_date",
            Pushed::Rejected { why } => {
                let message = format!("the remote keeps `{}` as it is: {why}", asked.branch);
                return Err(Failure::execution("PUSH_REJECTED", message)
                    .hint("look at what is there now, and ask again"));
            }
        };
        let short: String = asked.commit.chars().take(12).collect();
        Ok(json!({
            "summary": format!("{} at {short} is {outcome}", asked.branch),
            "artifacts": Left::default().list(),
            "remote": asked.remote,
            "branch": asked.branch,
            "commit": asked.commit,
            "outcome": outcome,
        }))
    }
}

fn push(
    context: &ToolContext,
    asked: &Arguments,
    leash: &mut Leash<'_>,
) -> Result<Pushed, Failure> {
    let place = context.place().work()?;
    let name = format!("refs/heads/{}", asked.branch);
    let commit = object(&asked.commit)?;
    let standing = place.repository(leash)?.reference(&name, leash)?;
    if standing != Some(commit) {
        let message = format!("`{}` does not point to {commit} here", asked.branch);
        return Err(Failure::state("BRANCH_MOVED", message)
            .hint("publish it first with `commit_changes`, and push what that says"));
    }
    let remote = Remote {
        url: &asked.remote,
        allowed: &PROTOCOLS,
        credential: context.caller().credential.as_deref(),
        known_hosts: context.place().actions().push.known_hosts.as_deref(),
    };
    let old = asked.expected_old.as_deref().map(object).transpose()?;
    place.worktree(leash)?.push(&remote, &Push { commit, name: &name, old }, leash)
}

fn object(id: &str) -> Result<ObjectId, Failure> {
    id.parse().map_err(|_| Failure::validation("OBJECT_UNKNOWN", format!("`{id}` is no commit")))
}

/// Nothing is allowed unless it is named.
fn check_allowed(config: &PushConfig, asked: &Arguments) -> Result<(), Failure> {
    let fits = |patterns: &[String], text: &str| patterns.iter().any(|one| matches(one, text));
    let (what, named, list) = if !fits(&config.remotes, &asked.remote) {
        ("remote", &asked.remote, "remotes")
    } else if !fits(&config.branches, &asked.branch) {
        ("branch", &asked.branch, "branches")
    } else {
        return Ok(());
    };
    let message = format!("the {what} `{}` is not allowed", named.escape_debug());
    Err(Failure::authorization("PUSH_NOT_ALLOWED", message)
        .hint(format!("name it under `[actions.push] {list}` in countersign.toml")))
}

/// Exactly, or by what stands before a `*` at the end.
fn matches(pattern: &str, text: &str) -> bool {
    // A path that climbs would leave what the pattern names.
    let climbs = text.split('/').any(|part| part == "..");
    match pattern.strip_suffix('*') {
        Some(start) => !climbs && text.starts_with(start),
        None => pattern == text,
    }
}

/// Where a remote is, as policies name hosts: with its port; a repository of this machine by its
/// address.
fn destination(remote: &str) -> String {
    let host = || -> Option<String> {
        let (scheme, rest) = remote.split_once("://")?;
        let host = rest.split('/').next()?.rsplit('@').next()?;
        let port = match scheme {
            "https" => 443,
            "ssh" => 22,
            _ => return None,
        };
        let named = if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
        Some(named.parse::<HostPattern>().ok()?.with_port())
    };
    host().unwrap_or_else(|| remote.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_allowed() {
        for (pattern, text, fits) in [
            ("https://example.org/a.git", "https://example.org/a.git", true),
            ("https://example.org/a.git", "https://example.org/a.git/", false),
            ("https://example.org/team/*", "https://example.org/team/x.git", true),
            ("https://example.org/team/*", "https://example.org/team/../x.git", false),
            ("https://example.org/team/*", "https://example.org.evil/team/x", false),
            ("countersign/*", "countersign/run_1", true),
            ("countersign/*", "main", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn destinations_are_hosts_with_their_ports() {
        for (remote, host) in [
            ("https://example.org/a.git", "example.org:443"),
            ("https://example.org:8443/a", "example.org:8443"),
            ("ssh://git@example.org/a", "example.org:22"),
            ("file:///srv/a.git", "file:///srv/a.git"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(destination(remote), host, "{remote}");
        }
    }
}
