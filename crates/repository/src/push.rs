//! Sending a commit to another repository, and knowing what became of it.

use countersign_model::Failure;
use serde::Serialize;
use serde_json::json;

use crate::complaint::inert;
use crate::id::ObjectId;
use crate::leash::Leash;
use crate::path;
use crate::remote::{Address, Remote};
use crate::repository::check_commit;
use crate::run::Ending;
use crate::worktree::Worktree;

/// The most that a remote may say about its refs.
const SAID: usize = 16 << 20;

/// Where the ref of a remote shall stand, if it stands where it is believed to.
#[derive(Debug, Clone)]
pub struct Push<'p> {
    pub commit: ObjectId,
    /// By its full name: `refs/heads/NAME`.
    pub name: &'p str,
    /// `None` if the ref must not exist there yet.
    pub old: Option<ObjectId>,
}

/// What the remote did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
#[must_use = "a push may have been rejected"]
pub enum Pushed {
    Accepted,
    UpToDate,
    /// Nothing was changed there.
    Rejected {
        why: String,
    },
}

/// What git tells of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Pushed(Pushed),
    /// The data went out, and no answer came back.
    Unanswered,
}

impl Worktree {
    /// Where a ref of a remote stands.
    pub fn ls_remote(
        &self,
        remote: &Remote<'_>,
        name: &str,
        leash: &mut Leash<'_>,
    ) -> Result<Option<ObjectId>, Failure> {
        let address = remote.address()?;
        path::check_ref(&self.git, name, leash)?;
        self.ask(remote, &address, name, leash)
    }

    fn ask(
        &self,
        remote: &Remote<'_>,
        address: &Address<'_>,
        name: &str,
        leash: &mut Leash<'_>,
    ) -> Result<Option<ObjectId>, Failure> {
        let mut arguments = vec!["ls-remote".to_owned(), "--quiet".to_owned()];
        arguments.extend(address.served_by("upload-pack", "upload-pack"));
        arguments.extend(["--".to_owned(), address.url.to_owned(), name.to_owned()]);
        let call = remote.git(&self.git, address)?.call(arguments);
        let (ending, output) = call.capture(leash, SAID)?;
        if !ending.status.success() {
            return Err(unreachable(&ending));
        }
        // A name also finds refs that only end in it.
        let text = String::from_utf8_lossy(&output);
        let mut refs = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(refs.find(|(_, found)| *found == name).and_then(|(id, _)| id.parse().ok()))
    }

    /// Pushes a commit to an address. A ref that stands elsewhere than believed, or from which the
    /// commit does not descend, is left alone. When the answer is lost after data may have been
    /// sent, the failure is `PUSH_UNKNOWN`; every other failure means that nothing was sent.
    pub fn push(
        &self,
        remote: &Remote<'_>,
        push: &Push<'_>,
        leash: &mut Leash<'_>,
    ) -> Result<Pushed, Failure> {
        let address = remote.address()?;
        path::check_ref(&self.git, push.name, leash)?;
        check_commit(&self.git, &push.commit, leash)?;
        let standing = self.ask(remote, &address, push.name, leash)?;
        if standing == Some(push.commit) {
            return Ok(Pushed::UpToDate);
        }
        if standing != push.old {
            return Ok(stands_elsewhere(push.name, standing));
        }
        if let Some(old) = push.old
            && !self.descends(&push.commit, &old, leash)?
        {
            return Ok(rejected(format!("the commit does not descend from `{old}`")));
        }
        self.send(remote, &address, push, leash)
    }

    /// Whether a commit came from another; one that is not known here did not.
    fn descends(
        &self,
        commit: &ObjectId,
        from: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<bool, Failure> {
        let (commit, from) = (commit.to_string(), from.to_string());
        let call = self.git.call(["merge-base", "--is-ancestor", &from, &commit]);
        let (ending, _) = call.capture(leash, SAID)?;
        Ok(ending.status.success())
    }

    fn send(
        &self,
        remote: &Remote<'_>,
        address: &Address<'_>,
        push: &Push<'_>,
        leash: &mut Leash<'_>,
    ) -> Result<Pushed, Failure> {
        let call = remote.git(&self.git, address)?.call(arguments(address, push));
        let (ending, output) =
            call.capture(leash, SAID).map_err(|failure| unknown(push, &failure.code))?;
        match told(&output, push.name) {
            Some(Told::Pushed(pushed)) => return Ok(pushed),
            None if failed_before(&ending.said) => return Err(unreachable(&ending)),
            Some(Told::Unanswered) | None => {}
        }
        // The remote may still say what became of it.
        match self.ask(remote, address, push.name, leash) {
            Ok(standing) if standing == Some(push.commit) => Ok(Pushed::Accepted),
            _ => Err(unknown(push, &ending.said)),
        }
    }
}

fn arguments(address: &Address<'_>, push: &Push<'_>) -> Vec<String> {
    let old = push.old.map_or_else(String::new, |old| old.to_string());
    let mut all: Vec<String> = ["push", "--porcelain", "--quiet", "--no-verify", "--no-signed"]
        .into_iter()
        .chain(["--no-follow-tags", "--no-recurse-submodules", "--no-progress"])
        .map(str::to_owned)
        .collect();
    all.push(format!("--force-with-lease={}:{old}", push.name));
    all.extend(address.served_by("receive-pack", "receive-pack"));
    all.extend(["--".to_owned(), address.url.to_owned()]);
    all.push(format!("{}:{}", push.commit, push.name));
    all
}

/// `FLAG<tab>FROM:TO<tab>SUMMARY`, one line a ref.
pub(crate) fn told(output: &[u8], name: &str) -> Option<Told> {
    let text = inert(output);
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, '\t');
        let (flag, refs, summary) = (parts.next()?, parts.next()?, parts.next()?);
        refs.strip_suffix(name)?.ends_with(':').then_some(())?;
        Some(match flag {
            " " | "*" | "+" => Told::Pushed(Pushed::Accepted),
            "=" => Told::Pushed(Pushed::UpToDate),
            "!" if !summary.starts_with("[remote failure]") => {
                Told::Pushed(rejected(summary.to_owned()))
            }
            _ => Told::Unanswered,
        })
    })
}

/// Git's own words for having come no further than the greeting.
const BEFORE: [&str; 7] = [
    "unable to access",
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "not allowed",
    "does not appear to be a git repository",
    "not found",
];

/// What a server says is marked as such by git and counts for nothing here.
fn failed_before(said: &str) -> bool {
    let own = said.lines().filter(|line| line.starts_with("fatal: "));
    own.into_iter().any(|line| BEFORE.iter().any(|words| line.contains(words)))
}

fn unreachable(ending: &Ending) -> Failure {
    let said = ending.said.as_str();
    let denied = ["Authentication failed", "could not read Username", "403", "Permission denied"];
    let mut told = if denied.iter().any(|words| said.contains(words)) {
        Failure::authorization("REMOTE_DENIED", "the remote does not let us in")
            .hint("is the credential right, and does it allow to push?")
    } else {
        Failure::resource("REMOTE_UNREACHABLE", "the remote cannot be reached")
            .hint("see the details for what git said")
    };
    told.details = ending.failure().details;
    told
}

fn rejected(why: String) -> Pushed {
    Pushed::Rejected { why }
}

fn stands_elsewhere(name: &str, standing: Option<ObjectId>) -> Pushed {
    rejected(match standing {
        Some(id) => format!("`{name}` stands at `{id}` there"),
        None => format!("`{name}` does not exist there"),
    })
}

fn unknown(push: &Push<'_>, cause: &str) -> Failure {
    let message = format!("whether `{}` was pushed is not known", push.name);
    Failure::execution("PUSH_UNKNOWN", message)
        .hint("look at the remote before anything is tried again")
        .details(json!({"ref": push.name, "commit": push.commit, "cause": cause}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_remote_is_read() {
        let name = "refs/heads/x";
        let told = |line: &str| told(format!("To url\n{line}\nDone\n").as_bytes(), name);
        let pushed = |pushed| Some(Told::Pushed(pushed));
        assert_eq!(told("*\tabc:refs/heads/x\t[new branch]"), pushed(Pushed::Accepted));
        assert_eq!(told(" \tabc:refs/heads/x\ta..b"), pushed(Pushed::Accepted));
        assert_eq!(told("=\tabc:refs/heads/x\t[up to date]"), pushed(Pushed::UpToDate));
        let why = "[remote rejected] (hook declined)";
        let line = format!("!\tabc:refs/heads/x\t{why}");
        assert_eq!(told(&line), pushed(rejected(why.to_owned())));
        assert_eq!(told("!\tabc:refs/heads/x\t[remote failure] (x)"), Some(Told::Unanswered));
        assert_eq!(told("*\tabc:refs/heads/y/refs/heads/x\tx"), None);
        assert_eq!(told("garbage"), None);
    }

    #[test]
    fn only_gits_own_words_say_that_nothing_was_sent() {
        assert!(failed_before("fatal: unable to access 'https://x/': refused"));
        assert!(!failed_before("remote: fatal: unable to access"));
        assert!(!failed_before("error: RPC failed\nfatal: the remote end hung up unexpectedly"));
    }
}
