//! The `test` script of a package: which tool it starts, and with what.
//!
//! Only a script that is one plain command is taken apart. Whatever needs a shell stays with
//! `npm test`.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) tool: Tool,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Node,
    Jest,
    Vitest,
    Mocha,
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Node => "node",
            Tool::Jest => "jest",
            Tool::Vitest => "vitest",
            Tool::Mocha => "mocha",
        }
    }

    pub(super) fn alone(self) -> Script {
        Script { tool: self, arguments: Vec::new(), environment: BTreeMap::new() }
    }
}

impl Script {
    pub(super) fn of(text: &str) -> Option<Script> {
        let mut words = words(text)?.into_iter().peekable();
        let mut environment = BTreeMap::new();
        words.next_if(|word| word == "cross-env");
        while let Some(word) = words.next_if(|word| assignment(word).is_some()) {
            let (name, value) = assignment(&word)?;
            environment.insert(name.to_owned(), value.to_owned());
        }
        words.next_if(|word| word == "npx");
        let program = words.next()?;
        let arguments: Vec<String> = words.collect();
        let tool = match program.rsplit('/').next()? {
            "jest" => Tool::Jest,
            "vitest" => Tool::Vitest,
            "mocha" => Tool::Mocha,
            "node" if arguments.iter().any(|argument| argument == "--test") => Tool::Node,
            _ => return None,
        };
        let script = Script { tool, arguments: kept(tool, arguments), environment };
        (!script.asks_for_a_report()).then_some(script)
    }

    /// Two reporters would contend.
    fn asks_for_a_report(&self) -> bool {
        let taken = ["--reporter", "-R", "--json", "--outputFile", "--test-reporter", "--output"];
        self.arguments.iter().any(|argument| taken.iter().any(|taken| argument.starts_with(taken)))
    }

    pub(super) fn has_positional(&self) -> bool {
        self.arguments.iter().any(|argument| !argument.starts_with('-'))
    }
}

/// Without what makes a tool wait for changes.
fn kept(tool: Tool, arguments: Vec<String>) -> Vec<String> {
    let dropped = |argument: &str| match tool {
        Tool::Vitest => ["run", "watch", "dev", "--watch", "-w"].contains(&argument),
        Tool::Jest => ["--watch", "--watchAll"].contains(&argument),
        Tool::Mocha => ["--watch", "-w"].contains(&argument),
        Tool::Node => ["--test", "--watch"].contains(&argument),
    };
    arguments.into_iter().filter(|argument| !dropped(argument)).collect()
}

fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (begins && name.chars().all(plain)).then_some((name, value))
}

/// Splits words as a shell would where nothing is special; nothing when something is.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"'), '$' | '`' | '\\') => return None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, _) if "$`\\|&;<>(){}*?[]~#!\n".contains(c) => return None,
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Expected<'a> = (Tool, &'a [&'a str], &'a [(&'a str, &'a str)]);

    fn check(text: &str, expected: Option<Expected<'_>>) {
        let found = Script::of(text);
        let expected = expected.map(|(tool, arguments, environment)| Script {
            tool,
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            environment: environment.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect(),
        });
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn plain_commands_are_taken_apart() {
        check("jest", Some((Tool::Jest, &[], &[])));
        check("npx jest --config 'a b.json'", Some((Tool::Jest, &["--config", "a b.json"], &[])));
        check(
            "cross-env CI=1 mocha \"t/**/*.js\"",
            Some((Tool::Mocha, &["t/**/*.js"], &[("CI", "1")])),
        );
        check("vitest run --watch", Some((Tool::Vitest, &[], &[])));
        check("node --test test/", Some((Tool::Node, &["test/"], &[])));
        check("./node_modules/.bin/jest", Some((Tool::Jest, &[], &[])));
    }

    #[test]
    fn what_needs_a_shell_is_left_alone() {
        for text in [
            "npm run build && jest",
            "jest; rm -rf x",
            "jest $(id)",
            "mocha test/*.js",
            "jest 'open",
            "jest \"$X\"",
            "jest --json",
            "mocha -R dot",
            "node run.js",
            "",
            "make test",
        ] {
            check(text, None);
        }
    }
}
