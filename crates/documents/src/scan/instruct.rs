//! Instructions to fetch or execute, and the marks of a conversation with a model.

use std::sync::LazyLock;

use super::claims::{behind, is_denied};
use super::matcher::{Finder, before, byte, is_blank, is_word, line_at, span_within};
use super::views::View;
use super::words::class::{
    ACTION, ADDRESS, COMMAND, DEFINITE, FOLLOWING, HEARER, MODAL, NOT, NOW, OBTAIN, PLEASE,
};
use super::words::{Word, after, words};
use super::{Found, install};

pub(super) fn find(view: &View<'_>, found: &mut Vec<Found>) {
    let bytes = view.bytes();
    orders(view.words(), found);
    marks(bytes, found);
    commands(bytes, found);
    addresses(bytes, found);
}

fn orders(words: &[Word], found: &mut Vec<Found>) {
    for (index, word) in words.iter().enumerate() {
        let speaks = word.is(ADDRESS) || (word.is(HEARER) && word.first);
        let rule = if speaks && is_told(words, index) {
            "addressed-order"
        } else if word.is(PLEASE) && has(after(words, index, 2), ACTION) {
            "polite-order"
        } else if word.is(OBTAIN) && names_command(words, index) {
            "command-order"
        } else {
            continue;
        };
        found.push(Found { offset: word.at, rule });
    }
}

fn has(words: &[Word], class: u32) -> bool {
    words.iter().any(|word| word.is(class))
}

/// `you must run`, `assistant, please fetch`, `agent: now execute`.
fn is_told(words: &[Word], index: usize) -> bool {
    let near = after(words, index, 3);
    let Some(urge) = near.iter().position(|word| word.is(MODAL | PLEASE | NOW)) else {
        return false;
    };
    let then = after(words, index + 1 + urge, 4);
    let action = then.iter().position(|word| word.is(ACTION));
    action.is_some_and(|action| !has(then.get(..action).unwrap_or_default(), NOT))
}

/// `run the following command`, `execute this script`.
fn names_command(words: &[Word], index: usize) -> bool {
    let near = after(words, index, 4);
    let first = words.get(index).is_some_and(|word| word.first);
    let following = near.iter().take(3).any(|word| word.is(FOLLOWING));
    let this =
        near.windows(2).any(|pair| matches!(pair, [a, b] if a.is(DEFINITE) && b.is(COMMAND)));
    (following || (first && this))
        && !is_denied(words, index)
        && !has(behind(words, index, 1), FOLLOWING)
}

/// What only a conversation or a request holds, in any case.
const MARKS: [&str; 25] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "[inst]",
    "[/inst]",
    "<<sys>>",
    "<system>",
    "</system>",
    "<system-reminder>",
    "<system_prompt>",
    "### instruction",
    "### system",
    "<tool_call>",
    "<tool_use>",
    "<function_calls>",
    "<invoke name=",
    "\"tool_calls\"",
    "\"function_call\"",
    "\"tool_use\"",
    "request_type: tool_request",
    "result_type: tool_result",
];

static MARK_FINDER: LazyLock<Finder> = LazyLock::new(|| Finder::any_case(MARKS));

fn marks(bytes: &[u8], found: &mut Vec<Found>) {
    MARK_FINDER.each(bytes, |hit| found.push(Found { offset: hit.at, rule: "conversation-mark" }));
}

/// Commands where a person would type them: rule, word, and what must follow.
type Follows = fn(&[u8]) -> bool;

const COMMANDS: &[(&str, Follows)] = &[
    ("curl", has_address),
    ("wget", has_address),
    ("iwr", has_address),
    ("invoke-webrequest", has_address),
    ("iex", |rest| rest.starts_with(b" (") || rest.starts_with(b"(")),
    ("git", |rest| rest.starts_with(b" clone ") && rest.len() > 9),
    ("docker", |rest| starts_with_any(rest, &[" run ", " pull ", " exec "])),
    ("podman", |rest| starts_with_any(rest, &[" run ", " pull ", " exec "])),
    ("chmod", |rest| starts_with_any(rest, &[" +x", " a+x", " u+x", " 7"])),
    ("bash", |rest| starts_with_any(rest, &[" -c", " <(", " -i"])),
    ("sh", |rest| starts_with_any(rest, &[" -c", " <("])),
    ("zsh", |rest| rest.starts_with(b" -c")),
    ("powershell", |rest| rest.starts_with(b" -")),
    ("pwsh", |rest| rest.starts_with(b" -")),
    ("python", |rest| rest.starts_with(b" -c")),
    ("python3", |rest| rest.starts_with(b" -c")),
    ("node", |rest| rest.starts_with(b" -e")),
    ("perl", |rest| rest.starts_with(b" -e")),
    ("ruby", |rest| rest.starts_with(b" -e")),
    ("eval", |rest| starts_with_any(rest, &[" $(", " \"$("])),
    ("rm", |rest| starts_with_any(rest, &[" -rf ", " -fr "])),
    ("ssh", |rest| rest.contains(&b'@')),
    ("scp", |rest| rest.contains(&b'@')),
    ("nc", |rest| starts_with_any(rest, &[" -e", " -l"])),
];

fn starts_with_any(rest: &[u8], heads: &[&str]) -> bool {
    heads.iter().any(|head| rest.starts_with(head.as_bytes()))
}

pub(super) fn has_address(rest: &[u8]) -> bool {
    let mut colons = rest.iter().enumerate().filter(|(_, byte)| **byte == b':');
    colons.any(|(at, _)| rest.get(at..at + 3) == Some(b"://"))
}

static COMMAND_FINDER: LazyLock<Finder> =
    LazyLock::new(|| Finder::any_case(COMMANDS.iter().map(|command| command.0)));

fn commands(bytes: &[u8], found: &mut Vec<Found>) {
    COMMAND_FINDER.each(bytes, |hit| {
        let Some((name, follows)) = COMMANDS.get(hit.index) else { return };
        let (start, line) = line_at_most(bytes, hit.at);
        let rest = line.get(hit.at - start + name.len()..).unwrap_or_default();
        let alone = !is_word(before(bytes, hit.at)) && byte(rest, 0) == b' ';
        let piped = rest.windows(2).any(|two| two == b"| ") && pipes_to_shell(rest);
        if alone
            && is_typed(bytes, hit.at)
            && (follows(rest) || piped || is_prompted(bytes, hit.at))
        {
            found.push(Found { offset: hit.at, rule: "command-line" });
        }
    });
    let mut installs = Vec::new();
    install::find_in(bytes, &mut installs);
    found.extend(installs.into_iter().filter(|install| is_typed(bytes, install.offset)));
}

/// A line, but never a very long one: what is looked at must not grow with what surrounds it.
fn line_at_most(bytes: &[u8], at: usize) -> (usize, &[u8]) {
    let from = at.saturating_sub(64);
    let to = (at + 256).min(bytes.len());
    let (start, line) = line_at(bytes.get(from..to).unwrap_or_default(), at - from);
    (start + from, line)
}

fn pipes_to_shell(rest: &[u8]) -> bool {
    let shells: [&[u8]; 6] = [b"sh", b"bash", b"zsh", b"sudo", b"python", b"python3"];
    let mut parts = rest.split(|b| *b == b'|').skip(1).map(|part| part.trim_ascii_start());
    parts.any(|part| shells.iter().any(|shell| part.split(|b| is_blank(*b)).next() == Some(shell)))
}

/// Whether a command stands here as one to be typed: at the beginning of a line, behind a prompt or
/// a sign that joins commands, in quotes, or behind a word such as `run`.
fn is_typed(bytes: &[u8], at: usize) -> bool {
    let (start, line) = line_at_most(bytes, at);
    let lead = line.get(..at - start).unwrap_or_default().trim_ascii_end();
    let word = lead.rsplit(|b| !b.is_ascii_alphanumeric()).next().unwrap_or_default();
    let lead_words: [&[u8]; 8] =
        [b"run", b"execute", b"type", b"sudo", b"use", b"using", b"via", b"try"];
    let sign = lead.last().is_none_or(|b| {
        matches!(b, b'$' | b'>' | b'`' | b'\'' | b'"' | b'&' | b'|' | b';' | b'(' | b':' | b'#')
    });
    (start == 0 || before(bytes, start) == b'\n' || !lead.is_empty())
        && (sign || lead_words.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// Whether the line begins with a prompt of a shell.
fn is_prompted(bytes: &[u8], at: usize) -> bool {
    let (start, line) = line_at_most(bytes, at);
    let lead = line.get(..at - start).unwrap_or_default().trim_ascii();
    lead == b"$"
        || lead.ends_with(b"$") && lead.contains(&b'@')
        || (lead.starts_with(b"PS") && lead.ends_with(b">"))
}

/// Addresses of programs, and addresses that something is to be done to.
fn addresses(bytes: &[u8], found: &mut Vec<Found>) {
    static SCHEMES: LazyLock<Finder> =
        LazyLock::new(|| Finder::any_case(["http://", "https://", "ftp://"]));
    SCHEMES.each(bytes, |hit| {
        if is_program(bytes, hit.at) {
            found.push(Found { offset: hit.at, rule: "program-address" });
        } else if is_sent_for(bytes, hit.at) {
            found.push(Found { offset: hit.at, rule: "fetch-order" });
        }
    });
}

fn is_program(bytes: &[u8], at: usize) -> bool {
    const ENDINGS: [&str; 19] = [
        ".sh", ".bash", ".ps1", ".psm1", ".bat", ".cmd", ".exe", ".msi", ".scr", ".vbs", ".hta",
        ".dmg", ".deb", ".rpm", ".apk", ".jar", ".py", ".rb", ".pl",
    ];
    let length = span_within(bytes, at, 256, |b| {
        b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'<' | b'>' | b')' | b'`')
    });
    let address = bytes.get(at..at + length).unwrap_or_default();
    let path = address.split(|b| matches!(b, b'?' | b'#')).next().unwrap_or_default();
    let path = path.trim_ascii_end();
    let path = path.strip_suffix(b".").or_else(|| path.strip_suffix(b",")).unwrap_or(path);
    let ends = |ending: &&str| {
        let start = path.len().saturating_sub(ending.len());
        path.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(ending.as_bytes()))
    };
    // The name of a host may end so as well.
    ENDINGS.iter().any(ends) && path.iter().filter(|b| **b == b'/').count() >= 3
}

/// `download https://…`: a verb in its plain form shortly before, on the same line.
fn is_sent_for(bytes: &[u8], at: usize) -> bool {
    let (start, line) = line_at_most(bytes, at);
    let words = words(line.get(..at - start).unwrap_or_default());
    let last = words.iter().rposition(|word| word.first).unwrap_or(0);
    let from = words.len().saturating_sub(4).max(last);
    let verb = words.iter().enumerate().skip(from).find(|(_, word)| word.is(OBTAIN));
    verb.is_some_and(|(index, word)| {
        (word.first || asked(&words, index)) && !is_denied(&words, index)
    })
}

fn asked(words: &[Word], index: usize) -> bool {
    has(behind(words, index, 2), MODAL | PLEASE | NOW)
}
