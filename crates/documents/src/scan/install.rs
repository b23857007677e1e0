//! Commands that bring software in: the name of a manager and what it is told to do.

use std::sync::LazyLock;

use super::Found;
use super::instruct::has_address;
use super::matcher::{Finder, before, byte, is_blank, is_word, span, span_within};
use super::views::View;

/// What must come after the verb, for names that are also words of English.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operand {
    Any,
    /// Something with a dot, a slash or an `@` in it.
    Module,
    /// An address.
    Address,
}

/// A manager, its verbs (none: it needs no verb), and what they take.
struct Manager(&'static str, &'static [&'static str], Operand);

const NODE: &[&str] = &["install", "i", "ci", "add", "exec", "dlx", "update", "upgrade", "create"];
const SYSTEM: &[&str] =
    &["install", "add", "update", "upgrade", "full-upgrade", "dist-upgrade", "localinstall"];
const INSTALL: &[&str] = &["install"];

const MANAGERS: &[Manager] = &[
    Manager("pip", &["install", "download", "wheel"], Operand::Any),
    Manager("pip2", &["install", "download", "wheel"], Operand::Any),
    Manager("pip3", &["install", "download", "wheel"], Operand::Any),
    Manager("pipx", &["install", "run", "inject"], Operand::Any),
    Manager("-m ensurepip", &[], Operand::Any),
    Manager("easy_install", &[], Operand::Any),
    Manager("setup.py", &["install", "develop"], Operand::Any),
    Manager("uv", &["add", "sync", "pip", "tool"], Operand::Any),
    Manager("uvx", &[], Operand::Module),
    Manager("poetry", &["add", "install", "update"], Operand::Any),
    Manager("pdm", &["add", "install"], Operand::Any),
    Manager("pipenv", &["install", "sync"], Operand::Any),
    Manager("conda", &["install", "create", "update"], Operand::Any),
    Manager("mamba", &["install", "create", "update"], Operand::Any),
    Manager("micromamba", &["install", "create", "update"], Operand::Any),
    Manager("npm", NODE, Operand::Any),
    Manager("pnpm", NODE, Operand::Any),
    Manager("yarn", NODE, Operand::Any),
    Manager("bun", &["install", "i", "add", "x"], Operand::Any),
    Manager("npx", &[], Operand::Module),
    Manager("pnpx", &[], Operand::Module),
    Manager("bunx", &[], Operand::Module),
    Manager("corepack", &["enable", "prepare", "install", "use"], Operand::Any),
    Manager("deno", &["install", "add"], Operand::Any),
    Manager("go", &["get", "install"], Operand::Module),
    Manager("go mod", &["download", "tidy", "vendor"], Operand::Any),
    Manager("go run", &[], Operand::Address),
    Manager("gem", &["install", "update"], Operand::Any),
    Manager("bundle", &["install", "add"], Operand::Any),
    Manager("bundler", &["install", "add"], Operand::Any),
    Manager("apt", SYSTEM, Operand::Any),
    Manager("apt-get", SYSTEM, Operand::Any),
    Manager("aptitude", SYSTEM, Operand::Any),
    Manager("apk", SYSTEM, Operand::Any),
    Manager("dnf", SYSTEM, Operand::Any),
    Manager("yum", SYSTEM, Operand::Any),
    Manager("microdnf", SYSTEM, Operand::Any),
    Manager("zypper", &["install", "in", "update", "up"], Operand::Any),
    Manager("brew", &["install", "upgrade", "tap"], Operand::Any),
    Manager("pacman", &["-s", "-sy", "-syu", "-u"], Operand::Any),
    Manager("snap", INSTALL, Operand::Any),
    Manager("flatpak", INSTALL, Operand::Any),
    Manager("choco", INSTALL, Operand::Any),
    Manager("scoop", INSTALL, Operand::Any),
    Manager("winget", INSTALL, Operand::Any),
    Manager("cargo", &["install", "add", "binstall"], Operand::Any),
    Manager("rustup", &["install", "update", "toolchain", "component", "target"], Operand::Any),
    Manager("composer", &["require", "install", "update"], Operand::Any),
    Manager("dotnet", &["add", "tool"], Operand::Any),
    Manager("nuget", INSTALL, Operand::Any),
    Manager("luarocks", INSTALL, Operand::Any),
    Manager("cpanm", &[], Operand::Module),
    Manager("cabal", INSTALL, Operand::Any),
    Manager("opam", INSTALL, Operand::Any),
    Manager("helm", &["install", "upgrade"], Operand::Any),
    Manager("docker", &["pull"], Operand::Any),
    Manager("podman", &["pull"], Operand::Any),
    Manager("install.packages(", &[], Operand::Any),
    Manager("curl", &[], Operand::Address),
    Manager("wget", &[], Operand::Address),
];

static FINDER: LazyLock<Finder> =
    LazyLock::new(|| Finder::any_case(MANAGERS.iter().map(|manager| manager.0)));

pub(super) fn find(view: &View<'_>, found: &mut Vec<Found>) {
    find_in(view.bytes(), found);
}

pub(super) fn find_in(bytes: &[u8], found: &mut Vec<Found>) {
    FINDER.each(bytes, |hit| {
        if let Some(manager) = MANAGERS.get(hit.index)
            && installs(manager, bytes, hit.at)
        {
            let rule =
                if manager.2 == Operand::Address { "fetch-command" } else { "install-command" };
            found.push(Found { offset: hit.at, rule });
        }
    });
}

fn installs(manager: &Manager, bytes: &[u8], at: usize) -> bool {
    let Manager(name, verbs, operand) = manager;
    let end = at + name.len();
    let lead = before(bytes, at);
    if (is_word(byte(bytes, at)) && is_word(lead)) || matches!(lead, b'-' | b'.') {
        return false;
    }
    if name.ends_with('(') {
        return true;
    }
    if verbs.is_empty() {
        return takes(*operand, bytes, end);
    }
    verb(verbs, bytes, end).is_some_and(|end| takes(*operand, bytes, end))
}

/// The end of the verb, which may stand behind options and one value of theirs.
fn verb(verbs: &[&str], bytes: &[u8], end: usize) -> Option<usize> {
    let mut at = end;
    for _ in 0..5 {
        let (start, word) = next_word(bytes, at)?;
        at = start + word.len();
        if verbs.iter().any(|verb| word.eq_ignore_ascii_case(verb.as_bytes())) {
            return Some(at);
        }
        let option = word.starts_with(b"-");
        let value = bytes.get(end..start)?.contains(&b'-') && !word.ends_with(b".");
        if !option && !value {
            return None;
        }
    }
    None
}

/// The next word of the same command: over blanks, or over a line that is continued.
fn next_word(bytes: &[u8], at: usize) -> Option<(usize, &[u8])> {
    let mut start = at + span(bytes, at, is_blank);
    if bytes.get(start..start + 2) == Some(b"\\\n") {
        start += 2 + span(bytes, start + 2, is_blank);
    }
    let length = span_within(bytes, start, 256, |b| {
        is_word(b) || matches!(b, b'-' | b'.' | b'=' | b'/' | b':' | b'@' | b'+')
    });
    let word = bytes.get(start..start + length)?;
    (start > at && !word.is_empty()).then_some((start, word))
}

fn takes(operand: Operand, bytes: &[u8], end: usize) -> bool {
    let mut at = end;
    let rest = bytes.get(end..(end + 200).min(bytes.len())).unwrap_or_default();
    let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
    match operand {
        Operand::Any => !is_word(byte(bytes, end)) && byte(bytes, end) != b'-',
        Operand::Address => byte(line, 0) == b' ' && (has_address(line) || names_version(line)),
        Operand::Module => {
            while let Some((start, word)) =
                next_word(bytes, at).filter(|(_, word)| word.starts_with(b"-"))
            {
                at = start + word.len();
            }
            next_word(bytes, at).is_some_and(|(_, word)| is_module(word))
        }
    }
}

/// `module@version`, which a mail address is not.
fn names_version(line: &[u8]) -> bool {
    let word = line.split(|b| is_blank(*b)).find(|word| word.contains(&b'@')).unwrap_or_default();
    let mut sides = word.splitn(2, |b| *b == b'@');
    let module = sides.next().unwrap_or_default().contains(&b'/');
    module && sides.next().is_some_and(|version| version.starts_with(b"v") || version == b"latest")
}

fn is_module(word: &[u8]) -> bool {
    let word = word.strip_suffix(b".").unwrap_or(word);
    word.iter().any(|b| matches!(b, b'.' | b'/' | b'@'))
}
