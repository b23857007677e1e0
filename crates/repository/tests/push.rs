//! Pushes to repositories on this machine, and to a server that asks for a credential.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{Fixture, code, leash, put};
use countersign_model::Failure;
use countersign_repository::{
    Credential, Leash, NewCommit, ObjectId, Program, Protocol, Push, Pushed, Remote, Signature,
    Worktree,
};

const FILE: &[Protocol] = &[Protocol::File];
const REF: &str = "refs/heads/run";

/// A worktree, and the address of an empty bare repository beside it.
fn setting() -> Option<(Fixture, Worktree, String)> {
    let fixture = Fixture::new()?;
    fixture.write("f", "1");
    fixture.commit("base");
    fixture.git(&["init", "-q", "--bare", "../remote.git"]);
    let worktree = fixture.worktree("w");
    let url = format!("file://{}", fixture.room().join("remote.git").display());
    Some((fixture, worktree, url))
}

fn commit(worktree: &Worktree, parent: ObjectId, content: &str) -> ObjectId {
    put(&worktree.tree(), b"new", content.as_bytes());
    let tree = worktree.state(&mut leash()).unwrap();
    let ada = Signature { name: "Ada".to_owned(), email: "a@b.c".to_owned() };
    let (author, committer) = (ada.clone(), ada);
    let parents = [parent];
    let new = NewCommit { tree, parents: &parents, author, committer, time: 1, message: "m" };
    worktree.commit(&new, &mut leash()).unwrap()
}

fn push(
    worktree: &Worktree,
    url: &str,
    commit: ObjectId,
    old: Option<ObjectId>,
) -> Result<Pushed, Failure> {
    let remote = Remote { url, allowed: FILE, credential: None, known_hosts: None };
    worktree.push(&remote, &Push { commit, name: REF, old }, &mut leash())
}

#[test]
fn a_push_is_accepted_once_and_refused_where_the_ref_moved() {
    let Some((fixture, worktree, url)) = setting() else { return };
    let remote = Remote { url: &url, allowed: FILE, credential: None, known_hosts: None };
    let base = *worktree.base();
    let (one, two) = (commit(&worktree, base, "1"), commit(&worktree, base, "2"));
    assert_eq!(worktree.ls_remote(&remote, REF, &mut leash()).unwrap(), None);
    assert_eq!(push(&worktree, &url, one, None).unwrap(), Pushed::Accepted);
    assert_eq!(push(&worktree, &url, one, None).unwrap(), Pushed::UpToDate);
    assert_eq!(worktree.ls_remote(&remote, REF, &mut leash()).unwrap(), Some(one));

    let rejected = |pushed: Result<Pushed, Failure>| matches!(pushed, Ok(Pushed::Rejected { .. }));
    assert!(rejected(push(&worktree, &url, two, None)), "it exists already");
    assert!(rejected(push(&worktree, &url, two, Some(base))), "it stands elsewhere");
    assert!(rejected(push(&worktree, &url, two, Some(one))), "it does not descend");
    let bare = fixture.room().join("remote.git");
    assert_eq!(fixture.git_in(&bare, &["rev-parse", REF]), one.to_string());
    let next = commit(&worktree, one, "3");
    assert_eq!(push(&worktree, &url, next, Some(one)).unwrap(), Pushed::Accepted);
    fixture.git_in(&bare, &["fsck", "--full"]);
}

#[test]
fn what_is_not_allowed_is_refused_before_anything_starts() {
    let Some((fixture, worktree, url)) = setting() else { return };
    let commit = commit(&worktree, *worktree.base(), "1");
    let with = |url: &str, allowed: &[Protocol], name: &str| {
        let remote = Remote { url, allowed, credential: None, known_hosts: None };
        code(worktree.push(&remote, &Push { commit, name, old: None }, &mut leash()))
    };
    assert_eq!(with(&url, &[Protocol::Https], REF), "PROTOCOL_REFUSED");
    assert_eq!(with(&url, &[], REF), "PROTOCOL_REFUSED");
    assert_eq!(with("origin", FILE, REF), "URL_INVALID");
    assert_eq!(with(fixture.user().to_str().unwrap(), FILE, REF), "URL_INVALID");
    assert_eq!(with("ext::sh -c 'touch /tmp/canary'", FILE, REF), "URL_INVALID");
    assert_eq!(with(&url, FILE, "run"), "REF_INVALID");
    assert_eq!(with("file:///nowhere/at/all.git", FILE, REF), "REMOTE_UNREACHABLE");
}

#[test]
fn a_repository_on_this_machine_runs_nothing_of_its_own() {
    let Some((fixture, worktree, url)) = setting() else { return };
    let bare = fixture.room().join("remote.git");
    let canary = fixture.room().join("canary");
    let script = format!("#!/bin/sh\necho $0 >> '{}'\n", canary.display());
    for hook in ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"] {
        let path = bare.join("hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = format!("echo config >> '{}'; true", canary.display());
    for key in ["core.alternateRefsCommand", "core.fsmonitor", "uploadpack.packObjectsHook"] {
        fixture.git_in(&bare, &["config", key, &run]);
    }
    let one = commit(&worktree, *worktree.base(), "1");
    assert_eq!(push(&worktree, &url, one, None).unwrap(), Pushed::Accepted);
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());
    // The same push by plain git would have run them.
    fixture.git(&["push", "-q", &url, "HEAD:refs/heads/plain"]);
    assert!(canary.exists());
}

#[test]
fn a_checked_out_branch_elsewhere_is_not_written_to() {
    let Some((fixture, worktree, _)) = setting() else { return };
    let url = format!("file://{}", fixture.user().display());
    fixture.git(&["config", "receive.denyCurrentBranch", "updateInstead"]);
    let base = *worktree.base();
    let one = commit(&worktree, base, "1");
    let remote = Remote { url: &url, allowed: FILE, credential: None, known_hosts: None };
    let main = Push { commit: one, name: "refs/heads/main", old: Some(base) };
    let pushed = worktree.push(&remote, &main, &mut leash()).unwrap();
    assert!(matches!(pushed, Pushed::Rejected { .. }), "{pushed:?}");
    assert_eq!(fixture.head(), base);
}

/// The worktree as seen by a git that does something else for one command.
fn tampered(fixture: &Fixture, worktree: &Worktree, command: &str, instead: &str) -> Worktree {
    let path = fixture.room().join(format!("git-{command}"));
    let git = fixture.program.path().display();
    let script = format!(
        "#!/bin/sh\nrun() {{ '{git}' \"$@\"; }}\ncase \"$2\" in {command}) {instead};; esac\n\
         exec '{git}' \"$@\"\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let program = Program::at(&path).unwrap();
    Worktree::open(&program, worktree.directory(), &mut leash()).unwrap()
}

#[test]
fn an_interrupted_push_is_unknown_and_an_unmade_one_is_not() {
    let Some((fixture, worktree, url)) = setting() else { return };
    let one = commit(&worktree, *worktree.base(), "1");
    let remote = Remote { url: &url, allowed: FILE, credential: None, known_hosts: None };
    let push = Push { commit: one, name: REF, old: None };
    for (command, expected) in [("ls-remote", "STOPPED"), ("push", "PUSH_UNKNOWN")] {
        let marker = fixture.room().join("marker");
        let hang = format!(": > '{}'; exec sleep 1000", marker.display());
        let worktree = tampered(&fixture, &worktree, command, &hang);
        let mut tick = || match marker.exists() {
            true => Err(Failure::execution("STOPPED", "stop")),
            false => Ok(()),
        };
        let mut leash = Leash::new(Duration::from_secs(60), &mut tick);
        assert_eq!(code(worktree.push(&remote, &push, &mut leash)), expected);
        fs::remove_file(marker).unwrap();
    }
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let Some((fixture, worktree, url)) = setting() else { return };
    let one = commit(&worktree, *worktree.base(), "1");
    let lost = "echo 'fatal: the remote end hung up unexpectedly' >&2; exit 128";
    let nothing = tampered(&fixture, &worktree, "push", lost);
    assert_eq!(code(push(&nothing, &url, one, None)), "PUSH_UNKNOWN");
    let before = "echo \"fatal: unable to access 'x': refused\" >&2; exit 128";
    let before = tampered(&fixture, &worktree, "push", before);
    assert_eq!(code(push(&before, &url, one, None)), "REMOTE_UNREACHABLE");
    let done = tampered(&fixture, &worktree, "push", &format!("run \"$@\" >/dev/null; {lost}"));
    assert_eq!(push(&done, &url, one, None).unwrap(), Pushed::Accepted);
}

const SECRET: &str = "s3cret $HOME \"token\"";
/// `ada:` and the secret, as a browser would send them.
const BASIC: &str = "Authorization: Basic YWRhOnMzY3JldCAkSE9NRSAidG9rZW4i";

/// Answers every request, and tells of the credentials that came and of the command lines that
/// could be seen meanwhile.
fn serve(listener: &TcpListener, requests: usize, answer: &str) -> (Vec<String>, String) {
    let mut credentials = Vec::new();
    let mut seen = String::new();
    for _ in 0..requests {
        let (stream, _) = listener.accept().unwrap();
        let head = head(&stream);
        let credential = head.lines().find(|line| line.starts_with("Authorization"));
        credentials.extend(credential.map(str::to_owned));
        seen.push_str(&command_lines());
        let ask = "HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic realm=\"x\"\r\n";
        let head = if credential.is_some() { answer } else { ask };
        let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        { stream }.write_all(format!("{head}{end}").as_bytes()).unwrap();
    }
    (credentials, seen)
}

fn head(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

fn command_lines() -> String {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned() + "\n").collect()
}

#[test]
fn a_credential_is_given_to_its_host_and_seen_by_nobody_else() {
    let Some((_fixture, worktree, _)) = setting() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x.git", listener.local_addr().unwrap());
    let credential =
        Credential::Password { username: "ada".to_owned(), password: SECRET.to_owned().into() };
    let remote = Remote {
        url: &url,
        allowed: &[Protocol::Http],
        credential: Some(&credential),
        known_hosts: None,
    };
    let denied = thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, 2, "HTTP/1.1 403 No\r\n"));
        let asked = worktree.ls_remote(&remote, REF, &mut leash());
        let (credentials, seen) = server.join().unwrap();
        assert_eq!(credentials, [BASIC]);
        assert!(seen.contains("git") && !seen.contains("s3cret"), "{seen}");
        asked.unwrap_err()
    });
    assert_eq!(denied.code, "REMOTE_DENIED");
    assert!(!format!("{denied:?}").contains("s3cret"));
}

#[test]
fn a_credential_does_not_follow_a_redirection() {
    let Some((_fixture, worktree, _)) = setting() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let url = format!("http://{}/x.git", listener.local_addr().unwrap());
    let away = format!(
        "HTTP/1.1 302 Away\r\nLocation: http://{}/x.git/info/refs\r\n",
        other.local_addr().unwrap()
    );
    let credential =
        Credential::Password { username: "ada".to_owned(), password: SECRET.to_owned().into() };
    let remote = Remote {
        url: &url,
        allowed: &[Protocol::Http],
        credential: Some(&credential),
        known_hosts: None,
    };
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener, 2, &away));
        assert_eq!(code(worktree.ls_remote(&remote, REF, &mut leash())), "REMOTE_UNREACHABLE");
    });
    assert!(other.accept().is_err(), "nobody came");
    let agent = Credential::SshAgent("/nowhere".into());
    let remote = Remote { credential: Some(&agent), ..remote };
    assert_eq!(code(worktree.ls_remote(&remote, REF, &mut leash())), "CREDENTIAL_INVALID");
}

/// A server of ssh on the loopback, with a key of its own and one user's.
struct Server {
    process: Child,
    port: u16,
    agent: Child,
    socket: PathBuf,
    known_hosts: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        for process in [&mut self.process, &mut self.agent] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

const SSHD: &str = "/usr/sbin/sshd";

fn keygen(path: &Path) -> String {
    let mut command = Command::new("ssh-keygen");
    let done = command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(done.unwrap().success());
    let public = fs::read_to_string(path.with_extension("pub")).unwrap();
    public.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

impl Server {
    fn start(room: &Path) -> Self {
        let (host, user) = (keygen(&room.join("host")), keygen(&room.join("id")));
        fs::write(room.join("authorized"), user).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let known_hosts = room.join("known");
        fs::write(&known_hosts, format!("[127.0.0.1]:{port} {host}\n")).unwrap();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {room}/host\nPidFile none\nUsePAM no\n\
             AuthorizedKeysFile {room}/authorized\nStrictModes no\nPasswordAuthentication no\n\
             PermitRootLogin prohibit-password\n",
            room = room.display()
        );
        fs::write(room.join("config"), config).unwrap();
        let mut sshd = Command::new(SSHD);
        let process = sshd.args(["-D", "-e", "-f"]).arg(room.join("config")).stderr(Stdio::null());
        let process = process.spawn().unwrap();
        let socket = room.join("agent");
        let agent = Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).spawn().unwrap();
        let until = |done: &dyn Fn() -> bool| {
            while !done() {
                thread::sleep(Duration::from_millis(20));
            }
        };
        until(&|| TcpStream::connect(("127.0.0.1", port)).is_ok() && socket.exists());
        let mut add = Command::new("ssh-add");
        let added = add.arg("-q").arg(room.join("id")).env("SSH_AUTH_SOCK", &socket).status();
        assert!(added.unwrap().success());
        Server { process, port, agent, socket, known_hosts }
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "what is left out is said")]
fn a_push_over_ssh_uses_the_agent_that_was_handed_in_and_no_other_key() {
    let Some((fixture, worktree, _)) = setting() else { return };
    // A daemon of root separates its privileges there.
    if !Path::new(SSHD).exists() || fs::create_dir_all("/run/sshd").is_err() {
        println!("skipped: there is no {SSHD} that could be started");
        return;
    }
    let server = Server::start(fixture.room());
    let whoami = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(whoami).unwrap();
    let bare = fixture.room().join("remote.git");
    let url = format!("ssh://{}@127.0.0.1:{}{}", user.trim(), server.port, bare.display());
    let one = commit(&worktree, *worktree.base(), "1");
    let push = Push { commit: one, name: REF, old: None };
    let agent = Credential::SshAgent(server.socket.clone());
    let allowed = &[Protocol::Ssh];
    let remote = |credential, known_hosts| Remote { url: &url, allowed, credential, known_hosts };

    let unknown = fixture.room().join("nobody");
    fs::write(&unknown, "").unwrap();
    let strange = remote(Some(&agent), Some(unknown.as_path()));
    assert_eq!(code(worktree.push(&strange, &push, &mut leash())), "REMOTE_UNREACHABLE");
    let keyless = remote(None, Some(server.known_hosts.as_path()));
    assert_eq!(code(worktree.push(&keyless, &push, &mut leash())), "REMOTE_DENIED");
    let blank = fixture.room().join("a b");
    let unsayable = remote(Some(&agent), Some(blank.as_path()));
    assert_eq!(code(worktree.push(&unsayable, &push, &mut leash())), "KNOWN_HOSTS_INVALID");

    let known = remote(Some(&agent), Some(server.known_hosts.as_path()));
    assert_eq!(worktree.push(&known, &push, &mut leash()).unwrap(), Pushed::Accepted);
    assert_eq!(worktree.push(&known, &push, &mut leash()).unwrap(), Pushed::UpToDate);
    assert_eq!(fixture.git_in(&bare, &["rev-parse", REF]), one.to_string());
}
