//! The pieces that programs are described with: commands, paths, environments.

use serde_json::Value;

use super::super::report::{Report, below};
use super::super::shape;
use crate::json::{push_index, shorten};

const MOST_PARTS: usize = 256;
const MOST_VARIABLES: usize = 128;
/// Of a command, and of an environment: far below what the operating system takes.
const MOST_BYTES: usize = 64 << 10;
const MOST_PATH: usize = 1024;
/// Beyond it canonical JSON cannot keep a number.
pub(super) const LARGEST_NUMBER: u64 = 1 << 53;

/// Set by the sandbox itself: where programs are found and where they may write. Everything else is
/// the tool's own affair, since it affects nobody but the tool.
const RESERVED: &[&str] =
    &["PATH", "HOME", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

pub(super) fn command(report: &mut Report, pointer: &str, value: &Value) {
    let Some(items) = arguments(report, pointer, value) else { return };
    let first = items.first().and_then(Value::as_str);
    if items.is_empty() {
        report.add("COMMAND_INVALID", pointer, "the command names no program");
        report.hint("write the program and its arguments as a list, such as [\"python3\", \"/tool/main.py\"]");
    } else if first == Some("") {
        report.add("COMMAND_INVALID", &format!("{pointer}/0"), "the program's name is empty");
    } else if let ([_], Some(line)) = (items.as_slice(), first)
        && line.contains(char::is_whitespace)
    {
        let message = format!("`{}` looks like a line for a shell", shorten(line, 80));
        report.add("COMMAND_IS_SHELL_LINE", &format!("{pointer}/0"), message);
        let words: Vec<_> =
            line.split_whitespace().map(|word| Value::from(word).to_string()).collect();
        report.hint(format!(
            "there is no shell; write each argument by itself: [{}]",
            shorten(&words.join(", "), 160)
        ));
    }
}

/// A list of texts that a process can be started with.
pub(super) fn arguments<'a>(
    report: &mut Report,
    pointer: &str,
    value: &'a Value,
) -> Option<&'a Vec<Value>> {
    let items = shape::list(report, pointer, value)?;
    if items.len() > MOST_PARTS {
        let message = format!("it has {} parts, at most {MOST_PARTS} are allowed", items.len());
        report.add("COMMAND_INVALID", pointer, message);
        return None;
    }
    let mut bytes = 0;
    for (index, item) in items.iter().enumerate() {
        let mut place = pointer.to_owned();
        push_index(&mut place, index);
        let Some(text) = shape::text(report, &place, item) else { continue };
        bytes += text.len();
        if text.contains('\0') {
            report.add("COMMAND_INVALID", &place, "it holds a NUL character");
        }
    }
    if bytes > MOST_BYTES {
        let message = format!("it has {bytes} bytes, at most {MOST_BYTES} are allowed");
        report.add("COMMAND_INVALID", pointer, message);
    }
    Some(items)
}

pub(super) fn environment(report: &mut Report, pointer: &str, value: &Value) {
    let Some(map) = shape::object(report, pointer, value) else { return };
    let bytes: usize =
        map.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if map.len() > MOST_VARIABLES || bytes > MOST_BYTES {
        let message =
            format!("at most {MOST_VARIABLES} variables and {MOST_BYTES} bytes are allowed");
        report.add("ENVIRONMENT_INVALID", pointer, message);
        return;
    }
    for (name, value) in map {
        let place = below(pointer, name);
        if !is_variable(name) {
            let message = format!("`{}` is not the name of a variable", shorten(name, 80));
            report.add("ENVIRONMENT_INVALID", &place, message);
            report.hint("names are made of A to Z, 0 to 9 and _, and do not begin with a digit");
        } else if RESERVED.contains(&name.as_str()) {
            let message = format!("`{name}` is set by the sandbox");
            report.add("ENVIRONMENT_RESERVED", &place, message);
            report.hint("leave it out; name programs by their full path instead");
        }
        if shape::text(report, &place, value).is_some_and(|text| text.contains('\0')) {
            report.add("ENVIRONMENT_INVALID", &place, "it holds a NUL character");
        }
    }
}

fn is_variable(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    let inside = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    starts && name.len() <= 255 && name.chars().all(inside)
}

/// A path beside the declaration, such as `./dir`: relative, and never upwards.
pub(super) fn path(report: &mut Report, pointer: &str, value: &Value) {
    let Some(text) = shape::text(report, pointer, value) else { return };
    let plain = text.strip_prefix("./").unwrap_or(text);
    let plain = plain.strip_suffix('/').unwrap_or(plain);
    let problem = match plain {
        "" if text != "./" => Some("is empty"),
        "" | "." => None,
        _ if plain.starts_with('/') => Some("is absolute"),
        _ if plain.len() > MOST_PATH => Some("is too long"),
        _ if plain.chars().any(char::is_control) => Some("contains a control character"),
        _ if plain.split('/').any(|part| matches!(part, "" | "." | "..")) => {
            Some("has an empty, `.` or `..` part")
        }
        _ => None,
    };
    if let Some(problem) = problem {
        let message = format!("the path `{}` {problem}", shorten(text, 80));
        report.add("FILES_INVALID", pointer, message);
        report.hint("name it relative to the declaration, such as ./files");
    }
}

pub(super) fn whole_number(
    report: &mut Report,
    pointer: &str,
    value: &Value,
    least: u64,
    most: u64,
) {
    let whole = value.is_u64() || value.is_i64();
    if shape::expect(report, pointer, "a whole number", whole.then_some(())).is_none() {
        return;
    }
    if value.as_u64().is_none_or(|number| number < least || number > most) {
        let message = format!("`{value}` is not between {least} and {most}");
        report.add("LIMIT_OUT_OF_BOUNDS", pointer, message);
    }
}
