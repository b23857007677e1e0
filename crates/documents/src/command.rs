//! The command of a request: one line, one program, an argument list.
//!
//! It is never given to a shell, so nothing in here can do harm by its syntax alone. The grammar is
//! narrow for another reason: a person who knows shells reads the line and approves it, and must
//! not be mistaken about what the words are.

mod files;
mod names;
mod program;
mod words;

use crate::code::Code;
use crate::reason::Findings;
use crate::request::Language;
use crate::sections::Section;
pub(crate) use names::is_shell_language;

/// What runs: the line as it was approved, and the words it consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub line: String,
    pub words: Vec<String>,
}

/// The files that a command may name. A list that could not be read is `None`, and then every name
/// passes: what is wrong with the list is said already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declared<'d> {
    pub(crate) inputs: Option<&'d [&'d str]>,
    /// Relative to /out.
    pub(crate) outputs: Option<&'d [&'d str]>,
}

impl Declared<'_> {
    fn has_input(&self, name: &str) -> bool {
        self.inputs.is_none_or(|inputs| inputs.contains(&name))
    }

    fn has_output(&self, path: &str) -> bool {
        self.outputs.is_none_or(|outputs| outputs.contains(&path))
    }

    /// The path of an output, or of a directory above one.
    fn has_output_below(&self, path: &str) -> bool {
        let leads = |output: &&str| {
            output.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.outputs.is_none_or(|outputs| outputs.iter().any(leads))
    }
}

const MAX_BYTES: usize = 4096;
const MAX_WORDS: usize = 128;

/// Judges the lines of the section. The language is unknown when the front matter does not say it.
pub(crate) fn judge(
    section: &Section<'_>,
    language: Option<Language>,
    declared: &Declared<'_>,
    findings: &mut Findings,
) -> Option<Command> {
    let mut lines = section.filled();
    let Some(first) = lines.next() else {
        findings.add(Code::CommandMissing, section.at, "the section Command is empty");
        return None;
    };
    if let Some(second) = lines.next() {
        findings.add(Code::CommandLines, second.at, "the command goes on in a second line");
    }
    let line = first.text.trim_matches(' ');
    let at = first.at + (first.text.len() - first.text.trim_start_matches(' ').len());
    if line.len() > MAX_BYTES {
        let message = format_args!("the command is longer than {MAX_BYTES} bytes");
        findings.add(Code::CommandTooLong, at, message);
        return None;
    }
    let words = match words::split(line, at, findings) {
        Ok(words) => words,
        Err(words) => {
            program::judge_name(&words, language, findings);
            return None;
        }
    };
    if words.len() > MAX_WORDS {
        let message = format_args!("the command has more than {MAX_WORDS} words");
        findings.add(Code::CommandTooLong, at, message);
    }
    program::judge(&words, language, declared, findings);
    Some(Command {
        line: line.to_owned(),
        words: words.into_iter().map(|word| word.text).collect(),
    })
}
