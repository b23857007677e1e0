//! Which interpreter runs which file, with which options of its own.
//!
//! Options are on a list of harmless ones, never judged by absence from a list of bad ones: an
//! interpreter learns new ways to load code with every release.

use super::names::{self, Known};
use super::words::Word;
use super::{Declared, files};
use crate::code::Code;
use crate::reason::Findings;
use crate::request::Language;

pub(super) fn judge(
    words: &[Word],
    language: Option<Language>,
    declared: &Declared<'_>,
    findings: &mut Findings,
) {
    let Some((first, rest)) = words.split_first() else { return };
    let known = interpreter(first, language, findings);
    let program = match known {
        Known::Python => python(rest, findings),
        Known::Node => node(rest, findings),
        Known::Go => go(rest, declared, findings),
        Known::Ruby => ruby(rest, findings),
        _ => Program::Refused,
    };
    let program = match program {
        Program::File(word) => {
            file(word, known, language, declared, findings);
            Some(word.at)
        }
        Program::Missing => {
            findings.add(Code::CommandProgram, first.at, "no program is named");
            None
        }
        Program::Module | Program::Refused => None,
    };
    // What does not belong to the language is said; its words are judged all the same.
    for word in rest.iter().filter(|word| Some(word.at) != program) {
        files::judge(word, declared, findings);
    }
}

/// Of a line that is not of the grammar, only a first word that is known for what it is.
pub(super) fn judge_name(words: &[Word], language: Option<Language>, findings: &mut Findings) {
    if let Some(first) = words.first().filter(|first| is_known(first)) {
        interpreter(first, language, findings);
    }
}

fn is_known(first: &Word) -> bool {
    names::program(base_name(&first.text)) != Known::Unknown
}

fn base_name(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or(text)
}

/// What the words after the interpreter come to.
enum Program<'w> {
    File(&'w Word),
    /// A module of the interpreter's own, named on the list.
    Module,
    Missing,
    /// Said already.
    Refused,
}

fn interpreter(first: &Word, language: Option<Language>, findings: &mut Findings) -> Known {
    let text = first.text.as_str();
    let name = base_name(text);
    if first.quoted {
        let fix = "write the interpreter without quotes";
        findings.add_fix(Code::CommandSyntax, first.at, "the first word stands in quotes", fix);
    } else if text.contains('=') {
        findings.add(Code::CommandVariable, first.at, "a variable is set before the command");
        return Known::Unknown;
    } else if text.contains('/') {
        let fix = "write its name alone: the sandbox knows where it is";
        let message = "names the interpreter by a path";
        findings.quote_fix(Code::HostPath, first.at, text, message, fix);
    }
    let known = names::program(name);
    let (code, message) = match known {
        Known::Shell => (Code::ShellForbidden, "is a shell, or part of one"),
        Known::Wrapper => (Code::CommandWrapper, "runs another program"),
        Known::Installer => (Code::InstallInstruction, "installs or downloads"),
        Known::Runner => {
            let fix = "write node --experimental-strip-types and the file";
            let message = "is not what runs TypeScript here";
            findings.quote_fix(Code::CommandLanguage, first.at, name, message, fix);
            return known;
        }
        _ if language.is_none_or(|language| fits(known, language)) && known != Known::Unknown => {
            return known;
        }
        _ => (Code::CommandLanguage, "is not the interpreter of the declared language"),
    };
    findings.quote(code, first.at, name, message);
    known
}

fn fits(known: Known, language: Language) -> bool {
    matches!(
        (known, language),
        (Known::Python, Language::Python)
            | (Known::Node, Language::Node | Language::Ts)
            | (Known::Go, Language::Go)
            | (Known::Ruby, Language::Ruby)
    )
}

fn refuse<'w>(code: Code, word: &Word, message: &str, findings: &mut Findings) -> Program<'w> {
    findings.quote(code, word.at, &word.text, message);
    Program::Refused
}

fn inline<'w>(word: &Word, findings: &mut Findings) -> Program<'w> {
    refuse(Code::CommandInlineCode, word, "brings code with it", findings)
}

fn option<'w>(word: &Word, findings: &mut Findings) -> Program<'w> {
    refuse(Code::CommandOption, word, "is not on the list of harmless options", findings)
}

fn python<'w>(words: &'w [Word], findings: &mut Findings) -> Program<'w> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(flags) = word.text.strip_prefix('-') else { return Program::File(word) };
        if flags.is_empty() {
            return inline(word, findings);
        }
        for (index, flag) in flags.char_indices() {
            let attached = flags.get(index + 1..).filter(|rest| !rest.is_empty());
            match flag {
                'b' | 'B' | 'd' | 'E' | 'I' | 'O' | 'P' | 'q' | 's' | 'S' | 'u' | 'v' => continue,
                'c' => return inline(word, findings),
                'm' | 'W' | 'X' => {
                    let value = attached.or_else(|| words.next().map(|word| word.text.as_str()));
                    match python_value(flag, value.unwrap_or_default()) {
                        Value::Module => return Program::Module,
                        Value::Fine => break,
                        Value::Installs => {
                            let message = "installs packages";
                            return refuse(Code::InstallInstruction, word, message, findings);
                        }
                        Value::Refused => return option(word, findings),
                    }
                }
                _ => return option(word, findings),
            }
        }
    }
    Program::Missing
}

/// What the value of an option with one comes to.
enum Value {
    Fine,
    Module,
    Installs,
    Refused,
}

fn python_value(flag: char, value: &str) -> Value {
    let fine = match flag {
        'm' if ["json.tool", "unittest"].contains(&value) => return Value::Module,
        'm' if names::is_installing_module(value) => return Value::Installs,
        'W' => is_python_warning(value),
        'X' => {
            let name = value.split('=').next().unwrap_or(value);
            [
                "dev",
                "faulthandler",
                "importtime",
                "int_max_str_digits",
                "no_debug_ranges",
                "tracemalloc",
                "utf8",
            ]
            .contains(&name)
        }
        _ => false,
    };
    if fine { Value::Fine } else { Value::Refused }
}

/// An action, perhaps for one of Python's own categories: any other category would be imported.
fn is_python_warning(value: &str) -> bool {
    let (action, category) = value.split_once("::").unwrap_or((value, "Warning"));
    let builtin = category.strip_suffix("Warning").is_some_and(|name| {
        [
            "",
            "Bytes",
            "Deprecation",
            "Encoding",
            "Future",
            "Import",
            "PendingDeprecation",
            "Resource",
            "Runtime",
            "Syntax",
            "Unicode",
            "User",
        ]
        .contains(&name)
    });
    ["always", "default", "error", "ignore", "module", "once"].contains(&action) && builtin
}

fn node<'w>(words: &'w [Word], findings: &mut Findings) -> Program<'w> {
    const FLAGS: &[&str] = &[
        "--enable-source-maps",
        "--experimental-strip-types",
        "--experimental-transform-types",
        "--expose-gc",
        "--no-deprecation",
        "--no-experimental-strip-types",
        "--no-warnings",
        "--pending-deprecation",
        "--throw-deprecation",
        "--trace-deprecation",
        "--trace-uncaught",
        "--trace-warnings",
    ];
    const VALUED: &[&str] = &[
        "--disable-warning",
        "--max-old-space-size",
        "--stack-trace-limit",
        "--unhandled-rejections",
    ];
    for word in words {
        let text = word.text.as_str();
        if !text.starts_with('-') {
            return Program::File(word);
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
        let plain =
            |value: &str| value.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        let fine = match value {
            None => FLAGS.contains(&name),
            Some(value) => VALUED.contains(&name) && plain(value),
        };
        if !fine {
            let code = ["-", "--eval", "--print"].contains(&name) || has_flag(text, "ep", "Cr");
            return if code { inline(word, findings) } else { option(word, findings) };
        }
    }
    Program::Missing
}

/// Whether one of the flags is in a cluster such as `-pe`, before one that takes the rest of it.
fn has_flag(text: &str, flags: &str, valued: &str) -> bool {
    let cluster = text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'));
    let mut letters = cluster.unwrap_or_default().chars();
    letters.find(|c| flags.contains(*c) || valued.contains(*c)).is_some_and(|c| flags.contains(c))
}

fn ruby<'w>(words: &'w [Word], findings: &mut Findings) -> Program<'w> {
    const FLAGS: &[&str] = &[
        "-U",
        "-W",
        "-W0",
        "-W1",
        "-W2",
        "-W:no-deprecated",
        "-W:no-experimental",
        "-w",
        "--disable-gems",
        "--disable=gems",
        "--enable-frozen-string-literal",
        "--enable=frozen-string-literal",
        "--encoding=UTF-8",
        "--jit",
        "--yjit",
    ];
    for word in words {
        let text = word.text.as_str();
        if !text.starts_with('-') {
            return Program::File(word);
        }
        if !FLAGS.contains(&text) {
            let code = text == "-" || has_flag(text, "e", "0CEFIKTWirx");
            return if code { inline(word, findings) } else { option(word, findings) };
        }
    }
    Program::Missing
}

fn go<'w>(words: &'w [Word], declared: &Declared<'_>, findings: &mut Findings) -> Program<'w> {
    const FLAGS: &[&str] = &["-race", "-trimpath", "-v", "-mod=vendor", "-mod=readonly"];
    let Some((verb, rest)) = words.split_first() else { return Program::Missing };
    match verb.text.as_str() {
        "run" => {}
        "get" | "install" | "mod" => {
            return refuse(Code::InstallInstruction, verb, "fetches modules", findings);
        }
        _ => {
            return refuse(Code::CommandOption, verb, "is not `run`: only `go run` runs", findings);
        }
    }
    let Some(word) = rest.iter().find(|word| !FLAGS.contains(&word.text.as_str())) else {
        return Program::Missing;
    };
    match word.text.as_str() {
        // The package in /in, which consists of declared files.
        "." if declared
            .inputs
            .is_none_or(|names| names.iter().any(|name| name.ends_with(".go"))) =>
        {
            Program::Module
        }
        "-" => inline(word, findings),
        text if text.starts_with('-') => option(word, findings),
        text if text.contains('@') => {
            refuse(Code::InstallInstruction, word, "is fetched from the network", findings)
        }
        text if text.ends_with(".go") => Program::File(word),
        _ => refuse(Code::CommandProgram, word, "is not a file in Go", findings),
    }
}

/// The program is an input, and written in the language that is declared.
fn file(
    word: &Word,
    known: Known,
    language: Option<Language>,
    declared: &Declared<'_>,
    findings: &mut Findings,
) {
    let text = word.text.as_str();
    let name = text.strip_prefix("/in/").or_else(|| text.strip_prefix("./")).unwrap_or(text);
    if names::is_shell_script(name) {
        findings.quote(Code::ShellForbidden, word.at, text, "is a script of a shell");
    } else if !is_written_for(name, known, language) {
        findings.quote(Code::CommandLanguage, word.at, text, "is written in another language");
    }
    if !declared.has_input(name) {
        let before = findings.total();
        files::judge(word, declared, findings);
        if findings.total() == before {
            let fix = "declare the program in `inputs`, with its hash";
            let message = "is the program, but no declared input";
            findings.quote_fix(Code::UndeclaredFile, word.at, text, message, fix);
        }
    }
}

fn is_written_for(name: &str, known: Known, language: Option<Language>) -> bool {
    let extension = names::extension(name).unwrap_or_default();
    let typescript = ["ts", "mts", "cts"].contains(&extension.as_str());
    let owner = match extension.as_str() {
        "py" | "pyw" => Some(Known::Python),
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => Some(Known::Node),
        "go" => Some(Known::Go),
        "rb" => Some(Known::Ruby),
        _ => None,
    };
    owner.is_none_or(|owner| owner == known)
        && match language {
            Some(Language::Ts) => typescript,
            Some(_) => !typescript,
            None => true,
        }
}
