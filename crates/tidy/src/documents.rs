//! Documents point to files that exist and name commands that exist.

use std::collections::BTreeMap;
use std::path::Path;

use crate::code::{code_only, is_word};
use crate::tree::Tree;

/// Relative links that lead nowhere.
pub fn broken_links(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.with_extension("md") {
        let directory = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        for link in links(&prose(&file.text)) {
            let target = link.split('#').next().unwrap_or_default();
            if !target.is_empty() && !tree.root.join(directory).join(target).exists() {
                found.push(format!("{} links to `{link}`, which does not exist", file.path));
            }
        }
    }
    found
}

/// The text without fenced blocks and code spans.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

fn links(prose: &str) -> Vec<&str> {
    let inline = prose.split("](").skip(1).filter_map(|after| after.split(')').next());
    let reference = prose
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: ").map(|(_, target)| target));
    inline
        .chain(reference)
        .filter_map(|link| link.split_whitespace().next())
        .map(|link| link.trim_matches(['<', '>']))
        .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        .collect()
}

/// The commands of the binary, and the commands below each.
pub type Commands = BTreeMap<String, Vec<String>>;

/// Commands that a document names and the binary does not have.
pub fn unknown_commands(tree: &Tree, commands: &Commands) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.with_extension("md") {
        for command in commands_in(&file.text) {
            if let Some(unknown) = unknown_word(&command, commands) {
                found.push(format!(
                    "{} says `countersign {command}`, but there is no `{unknown}`",
                    file.path
                ));
            }
        }
    }
    found
}

/// What follows `countersign` where it is typed: in a code span, or at the start of a fenced line.
fn commands_in(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            found.extend(typed(line));
        } else {
            found.extend(line.split('`').skip(1).step_by(2).filter_map(typed));
        }
    }
    found
}

fn typed(code: &str) -> Option<String> {
    let code = code.trim_start();
    let code = code.strip_prefix("$ ").unwrap_or(code);
    let prefixes = ["countersign ", "cargo run --release -- ", "cargo run -- "];
    let rest = prefixes.iter().find_map(|prefix| code.strip_prefix(prefix))?;
    // In a table, `\|` is how a bar is written.
    Some(rest.replace('\\', ""))
}

fn unknown_word<'c>(command: &'c str, commands: &Commands) -> Option<&'c str> {
    let mut words = command.split_whitespace();
    let first = words.next().filter(|word| is_command_word(word))?;
    let mut below: Option<&Vec<String>> = None;
    for name in first.split('|') {
        match commands.get(name) {
            Some(subcommands) => below = Some(subcommands),
            None if name == "help" => return None,
            None => return Some(name),
        }
    }
    let below = below.filter(|below| !below.is_empty())?;
    let second = words.next().filter(|word| is_command_word(word))?;
    second.split('|').find(|name| !below.iter().any(|known| known == name))
}

/// Not an option, a placeholder, or the end of the command.
fn is_command_word(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '|')
        && word.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Reads the commands out of the binary's sources: the variants of its `Command` enum, and of the
/// enums they hold.
pub fn commands(tree: &Tree) -> Commands {
    let sources = tree.with_extension("rs").filter(|f| f.path.starts_with("crates/cli/src/"));
    let enums: BTreeMap<String, Vec<Variant>> =
        sources.flat_map(|file| enums(&code_only(&file.text))).collect();
    let top = enums.get("Command").map_or(&[][..], Vec::as_slice);
    let below = |variant: &Variant| {
        let held = variant.holds.as_ref().and_then(|name| enums.get(name));
        held.map_or(vec![], |variants| variants.iter().map(|v| kebab(&v.name)).collect())
    };
    top.iter().map(|variant| (kebab(&variant.name), below(variant))).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Variant {
    name: String,
    /// The last name in its parentheses: `Tool(tool::ToolCommand)` holds `ToolCommand`.
    holds: Option<String>,
}

fn enums(code: &str) -> Vec<(String, Vec<Variant>)> {
    let parse = |after: &str| {
        let name: String = after.chars().take_while(|c| is_word(*c)).collect();
        let body = after.strip_prefix(name.as_str())?.trim_start().strip_prefix('{')?;
        Some((name, variants(body)))
    };
    code.split("enum ").skip(1).filter_map(parse).collect()
}

/// The variants up to the brace that closes the enum.
fn variants(body: &str) -> Vec<Variant> {
    let (mut depth, mut items) = (0_usize, vec![String::new()]);
    for c in body.chars() {
        match c {
            '}' if depth == 0 => break,
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(item) = items.last_mut() {
            item.push(c);
        }
    }
    items.iter().filter_map(|item| variant(item)).collect()
}

fn variant(item: &str) -> Option<Variant> {
    let mut rest = item.trim_start();
    while let Some(attribute) = rest.strip_prefix("#[") {
        rest = attribute.split_once(']')?.1.trim_start();
    }
    let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
    let held = rest.strip_prefix(name.as_str())?.trim_start().strip_prefix('(');
    let holds = held.and_then(|held| held.split(')').next()?.rsplit("::").next());
    (!name.is_empty()).then(|| Variant { name, holds: holds.map(|h| h.trim().to_owned()) })
}

fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(c.to_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "see [a](a.md#x) and `[b](b.md)` and [c](https://c.org)\n```\n[d](d.md)\n```\n[e]: e.md\n";
        assert_eq!(links(&prose(text)), ["a.md#x", "e.md"]);
    }

    #[test]
    fn commands_are_read_from_their_enums() {
        let code = "pub enum Command {\n  Init(init::InitArgs),\n  #[command(subcommand)]\n  Tool(tool::ToolCommand),\n}\nenum ToolCommand { List, LintAll { x: u8, y: u8 }, Show(ShowArgs) }";
        let found = enums(code);
        let names = |at: usize| found[at].1.iter().map(|v| kebab(&v.name)).collect::<Vec<_>>();
        assert_eq!(names(0), ["init", "tool"]);
        assert_eq!(found[0].1[1].holds.as_deref(), Some("ToolCommand"));
        assert_eq!(names(1), ["list", "lint-all", "show"]);
    }

    #[test]
    fn commands_that_do_not_exist_are_named() {
        let tool = vec!["list".to_owned(), "show".to_owned()];
        let known = Commands::from([("init".to_owned(), vec![]), ("tool".to_owned(), tool)]);
        for (text, expected) in [
            ("`countersign init here`", None),
            ("`countersign tool list\\|show ID`", None),
            ("`countersign tool [COMMAND]`", None),
            ("`countersign --help`", None),
            ("the countersign binary", None),
            ("`countersign tool list\\|lint`", Some("lint")),
            ("```\n$ countersign begin\n```", Some("begin")),
            ("```\ncargo run --release -- quick\n```", Some("quick")),
        ] {
            let named = commands_in(text);
            let unknown = named.iter().find_map(|command| unknown_word(command, &known));
            assert_eq!(unknown, expected, "{text}");
        }
    }
}
