//! The programs and what their first lines say about them.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the files of the tests are.
pub(crate) fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// One program, by the comment lines at its top.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    /// `files/preload.sh`, for people.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) flags: Vec<String>,
    /// Every one of them is right.
    pub(crate) expect: Vec<Ending>,
    pub(crate) workspace: Vec<Change>,
    pub(crate) out: Vec<Change>,
    pub(crate) bare: Bare,
    pub(crate) terminal: bool,
    pub(crate) socket: bool,
    pub(crate) needs: Option<String>,
    /// Used by programs, not one itself.
    pub(crate) part: bool,
}

/// Who gets out when there is no box.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Bare {
    #[default]
    NotRun,
    Anybody,
    Root,
    User,
}

/// How a run ends, as `--json` says it and as the programs expect it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Exit(i32),
    Signal(i32),
    Limit(String),
    Refused(String),
}

/// One expected change of a file.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) sign: char,
    pub(crate) path: Vec<u8>,
}

impl fmt::Display for Ending {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exit(code) => write!(to, "exit {code}"),
            Ending::Signal(number) => write!(to, "signal {number}"),
            Ending::Limit(name) => write!(to, "limit {name}"),
            Ending::Refused(code) => write!(to, "refused {code}"),
        }
    }
}

impl Ending {
    fn parse(text: &str) -> Option<Ending> {
        let (kind, rest) = text.trim().split_once(' ')?;
        match kind {
            "exit" => rest.parse().ok().map(Ending::Exit),
            "signal" => rest.parse().ok().map(Ending::Signal),
            "limit" => Some(Ending::Limit(rest.to_owned())),
            "refused" => Some(Ending::Refused(rest.to_owned())),
            _ => None,
        }
    }
}

impl Change {
    fn parse(token: &str) -> Option<Change> {
        let sign = token.chars().next().filter(|sign| "+-~?".contains(*sign))?;
        Some(Change { sign, path: decode(token.get(1..)?)? })
    }

    /// `**` at the end is everything below as well.
    pub(crate) fn covers(&self, sign: char, path: &[u8]) -> bool {
        let same = match self.path.strip_suffix(b"/**") {
            Some(above) => {
                path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            }
            None => self.path == path,
        };
        same && (self.sign == '?' || self.sign == sign)
    }
}

/// `%XX` is a byte.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    Some(bytes)
}

impl Program {
    pub(crate) fn extension(&self) -> &str {
        self.path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
    }

    pub(crate) fn stem(&self) -> &str {
        self.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
    }

    /// A probe exits 0 when it was contained, whatever else may be right.
    pub(crate) fn is_probe(&self) -> bool {
        self.expect.first() == Some(&Ending::Exit(0))
    }

    /// The command, with the programs in `tool`.
    pub(crate) fn command(&self, tool: &str) -> Vec<String> {
        let file = self.path.file_name().unwrap().to_str().unwrap();
        match self.extension() {
            "py" => vec!["python3".to_owned(), format!("{tool}/{file}")],
            "sh" => vec!["sh".to_owned(), format!("{tool}/{file}")],
            _ => vec![format!("{tool}/{}", self.stem())],
        }
    }

    fn read(group: &str, path: PathBuf) -> Program {
        let text = fs::read_to_string(&path).unwrap();
        let name = format!("{group}/{}", path.file_name().unwrap().to_str().unwrap());
        let mut program = Program { name, path, ..Program::default() };
        let mut said = HashSet::new();
        for line in text.lines() {
            let Some(comment) = line.strip_prefix("//").or_else(|| line.strip_prefix('#')) else {
                break;
            };
            let Some((key, value)) = comment.trim().split_once(": ") else { break };
            said.insert(key.to_owned());
            let understood = program.take(key, value);
            assert!(understood, "{}: the line `{line}` is not understood", program.name);
        }
        let complete = said.contains("tries") && said.contains("expect");
        assert!(complete || program.part, "{}: says not what it tries or expects", program.name);
        program
    }

    /// Takes over one line; false when it makes no sense.
    fn take(&mut self, key: &str, value: &str) -> bool {
        match (key, value) {
            ("tries", _) => true,
            ("flags", flags) => {
                self.flags = flags.split_whitespace().map(str::to_owned).collect();
                true
            }
            ("expect", endings) => {
                let endings: Option<Vec<_>> = endings.split(" or ").map(Ending::parse).collect();
                self.expect = endings.unwrap_or_default();
                !self.expect.is_empty()
            }
            ("diff", changes) => {
                let mut words = changes.split_whitespace();
                let list = match words.next() {
                    Some("workspace") => &mut self.workspace,
                    Some("out") => &mut self.out,
                    _ => return false,
                };
                let changes: Option<Vec<_>> = words.map(Change::parse).collect();
                list.extend(changes.iter().flatten().cloned());
                changes.is_some()
            }
            ("bare", who) => {
                self.bare = match who {
                    "escapes" => Bare::Anybody,
                    "escapes as root" => Bare::Root,
                    "escapes as user" => Bare::User,
                    _ => return false,
                };
                true
            }
            ("wants", "terminal") => {
                self.terminal = true;
                true
            }
            ("wants", "socket") => {
                self.socket = true;
                true
            }
            ("needs", command) => {
                self.needs = Some(command.to_owned());
                true
            }
            ("build", "library" | "module") => {
                self.part = true;
                true
            }
            _ => false,
        }
    }
}

/// The programs of a directory below the tests, in order of their names.
pub(crate) fn programs(directory: &str) -> Vec<Program> {
    let root = tests().join(directory);
    let mut paths: Vec<PathBuf> = fs::read_dir(&root)
        .unwrap_or_else(|error| panic!("{}: {error}", root.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension().is_some_and(|kind| kind == "c" || kind == "py" || kind == "sh")
        })
        .collect();
    paths.sort();
    let group = directory.rsplit('/').next().unwrap();
    paths.into_iter().map(|path| Program::read(group, path)).collect()
}
