//! Every good request, spoilt in every one of many ways, is refused for the right reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{Case, cases, judged, told};
use countersign_documents::request::{Stage, approve};
use countersign_documents::{Code, Judgement};

/// A way to spoil a request, and the code that must be among the reasons.
struct Mutation {
    name: &'static str,
    code: Code,
    spoil: fn(&str) -> String,
}

const TOKEN: &str = concat!("ghp", "_k3Jd82hsKq0PzLm47xVbTn5RcWyE1uAf9GoX");

/// The text with the line that begins with something replaced by what a function makes of it.
fn line(text: &str, begins: &str, make: impl Fn(&str) -> String) -> String {
    let mut done = false;
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| {
            if done || !line.starts_with(begins) {
                return line.to_owned();
            }
            done = true;
            make(line)
        })
        .collect();
    assert!(done, "no line begins with `{begins}`\n{text}");
    lines.join("\n")
}

fn key(text: &str, key: &str, value: &str) -> String {
    line(text, &format!("{key}:"), |_| format!("{key}: {value}"))
}

fn before(text: &str, begins: &str, new: &str) -> String {
    line(text, begins, |line| format!("{new}\n{line}"))
}

fn after(text: &str, begins: &str, new: &str) -> String {
    line(text, begins, |line| format!("{line}\n{new}"))
}

fn command(text: &str, make: impl Fn(&str) -> String) -> String {
    let (head, rest) = text.split_once("## Command\n").unwrap();
    let found = rest.lines().find(|line| !line.trim().is_empty()).unwrap();
    let rest = rest.replacen(found, &make(found.trim_end()), 1);
    format!("{head}## Command\n{rest}")
}

/// The line of the risk assessment with a label, whatever bullet it has.
fn risk(text: &str, label: &str, make: impl Fn(&str) -> String) -> String {
    let (head, rest) = text.split_once("## Risk Assessment").unwrap();
    let found = rest.lines().find(|line| line.contains(label)).unwrap();
    format!("{head}## Risk Assessment{}", rest.replacen(found, &make(found), 1))
}

fn answer(text: &str, label: &str, value: &str) -> String {
    risk(text, label, |_| format!("{label} {value}"))
}

fn first_hash(text: &str, make: impl Fn(&str) -> String) -> String {
    let digit = |c: char| c.is_ascii_hexdigit();
    let hash = text.split(|c| !digit(c)).find(|run| run.len() == 64).unwrap();
    text.replacen(hash, &make(hash), 1)
}

const MUTATIONS: &[Mutation] = &[
    // The file.
    Mutation { name: "windows", code: Code::CarriageReturn, spoil: |t| t.replace('\n', "\r\n") },
    Mutation { name: "mark", code: Code::ByteOrderMark, spoil: |t| format!("\u{feff}{t}") },
    Mutation {
        name: "tab",
        code: Code::ControlCharacter,
        spoil: |t| line(t, "## Risk", |line| format!("{line}\t")),
    },
    Mutation {
        name: "zero width",
        code: Code::InvisibleCharacter,
        spoil: |t| risk(t, "Justification:", |line| format!("{line}\u{200b}")),
    },
    Mutation {
        name: "override",
        code: Code::InvisibleCharacter,
        spoil: |t| line(t, "purpose:", |line| format!("{line} # \u{202e}")),
    },
    Mutation {
        name: "too large",
        code: Code::TooLarge,
        spoil: |t| t.to_owned() + &"\n".repeat(65536),
    },
    // Front matter.
    Mutation {
        name: "no begin",
        code: Code::FrontMatterMissing,
        spoil: |t| t.replacen("---\n", "", 1),
    },
    Mutation {
        name: "no end",
        code: Code::FrontMatterMissing,
        spoil: |t| t.replacen("\n---\n", "\n", 1),
    },
    Mutation {
        name: "third fence",
        code: Code::ExtraDocument,
        spoil: |t| before(t, "## Risk", "---"),
    },
    Mutation {
        name: "twice",
        code: Code::DuplicateKey,
        spoil: |t| before(t, "language:", "network: none"),
    },
    Mutation {
        name: "unknown",
        code: Code::UnknownKey,
        spoil: |t| before(t, "language:", "user: root"),
    },
    Mutation {
        name: "anchor",
        code: Code::YamlFeature,
        spoil: |t| key(t, "purpose", "&a \"Count\""),
    },
    Mutation {
        name: "tag",
        code: Code::YamlFeature,
        spoil: |t| key(t, "time_limit_sec", "!!int 5"),
    },
    Mutation { name: "flow", code: Code::YamlFeature, spoil: |t| key(t, "purpose", "{a: b}") },
    Mutation { name: "block", code: Code::YamlFeature, spoil: |t| key(t, "purpose", "|\n  Count") },
    Mutation {
        name: "end mark",
        code: Code::YamlFeature,
        spoil: |t| before(t, "language:", "..."),
    },
    Mutation {
        name: "no colon",
        code: Code::FrontMatterSyntax,
        spoil: |t| before(t, "language:", "language"),
    },
    Mutation {
        name: "missing",
        code: Code::MissingKey,
        spoil: |t| line(t, "purpose:", |_| "# purpose".to_owned()),
    },
    Mutation {
        name: "quoted number",
        code: Code::WrongType,
        spoil: |t| key(t, "memory_limit_mb", "\"64\""),
    },
    Mutation { name: "plain cores", code: Code::WrongType, spoil: |t| key(t, "cpu_limit", "2") },
    Mutation {
        name: "version",
        code: Code::SchemaVersion,
        spoil: |t| key(t, "schema_version", "2"),
    },
    Mutation {
        name: "empty purpose",
        code: Code::EmptyValue,
        spoil: |t| key(t, "purpose", "\"\""),
    },
    Mutation {
        name: "kind",
        code: Code::UnknownValue,
        spoil: |t| key(t, "request_type", "tool_result"),
    },
    Mutation { name: "id", code: Code::IdInvalid, spoil: |t| key(t, "request_id", "\"../x\"") },
    Mutation {
        name: "other id",
        code: Code::FileName,
        spoil: |t| key(t, "request_id", "\"TR-20260209-160501Z-other\""),
    },
    Mutation {
        name: "day",
        code: Code::TimeInvalid,
        spoil: |t| key(t, "created_utc", "\"2026-02-31T16:05:01Z\""),
    },
    Mutation {
        name: "other second",
        code: Code::TimeInconsistent,
        spoil: |t| key(t, "created_utc", "\"2026-02-09T16:05:09Z\""),
    },
    Mutation {
        name: "future",
        code: Code::TimeInFuture,
        spoil: |t| key(t, "created_utc", "\"2099-02-09T16:05:01Z\""),
    },
    Mutation {
        name: "nobody",
        code: Code::NotApproved,
        spoil: |t| {
            let kept = t.split('\n').filter(|line| !line.starts_with("approved_by:"));
            kept.collect::<Vec<_>>().join("\n")
        },
    },
    Mutation {
        name: "example",
        code: Code::Placeholder,
        spoil: |t| key(t, "network", "\"none|allowlist\""),
    },
    Mutation { name: "shell", code: Code::ShellForbidden, spoil: |t| key(t, "language", "zsh") },
    Mutation {
        name: "language",
        code: Code::UnknownValue,
        spoil: |t| key(t, "language", "\"perl\""),
    },
    Mutation {
        name: "no memory",
        code: Code::LimitInvalid,
        spoil: |t| key(t, "memory_limit_mb", "0"),
    },
    Mutation {
        name: "much time",
        code: Code::LimitAboveCeiling,
        spoil: |t| key(t, "time_limit_sec", "3600"),
    },
    Mutation { name: "network", code: Code::UnknownValue, spoil: |t| key(t, "network", "\"any\"") },
    Mutation {
        name: "short hash",
        code: Code::HashInvalid,
        spoil: |t| first_hash(t, |hash| hash[1..].to_owned()),
    },
    // Sections.
    Mutation {
        name: "other hash",
        code: Code::InputsDiffer,
        spoil: |t| {
            first_hash(t, |hash| {
                let other = if hash.starts_with('0') { '1' } else { '0' };
                format!("{other}{}", &hash[1..])
            })
        },
    },
    Mutation {
        name: "extra input",
        code: Code::LineUnknown,
        spoil: |t| after(t, "## Input Files", "and more"),
    },
    Mutation {
        name: "extra output",
        code: Code::OutputsDiffer,
        spoil: |t| after(t, "## Output Expectations", "- /out/extra.bin"),
    },
    Mutation {
        name: "host output",
        code: Code::HostPath,
        spoil: |t| after(t, "## Output Expectations", "- /etc/hosts"),
    },
    Mutation {
        name: "no section",
        code: Code::SectionMissing,
        spoil: |t| line(t, "## Output", |_| String::new()),
    },
    Mutation {
        name: "twice",
        code: Code::SectionDuplicate,
        spoil: |t| format!("{t}\n## Command\n"),
    },
    Mutation {
        name: "order",
        code: Code::SectionOrder,
        spoil: |t| {
            t.replace("## Command", "## X")
                .replace("## Input Files", "## Command")
                .replace("## X", "## Input Files")
        },
    },
    Mutation {
        name: "unknown section",
        code: Code::SectionUnknown,
        spoil: |t| format!("{t}\n## Notes\n"),
    },
    Mutation {
        name: "preamble",
        code: Code::TextOutsideSections,
        spoil: |t| before(t, "## Command", "Hello"),
    },
    Mutation {
        name: "fence",
        code: Code::MarkdownForbidden,
        spoil: |t| command(t, |line| format!("```\n{line}\n```")),
    },
    Mutation {
        name: "comment",
        code: Code::MarkdownForbidden,
        spoil: |t| format!("{t}\n\n<!-- hidden -->\n"),
    },
    Mutation {
        name: "no justification",
        code: Code::LineMissing,
        spoil: |t| risk(t, "Justification:", |_| String::new()),
    },
    Mutation {
        name: "no level",
        code: Code::UnknownValue,
        spoil: |t| answer(t, "Risk level:", "tiny"),
    },
    Mutation {
        name: "confidential",
        code: Code::RiskInconsistent,
        spoil: |t| answer(&answer(t, "Risk level:", "low"), "Data sensitivity:", "confidential"),
    },
    Mutation {
        name: "two levels",
        code: Code::LineDuplicate,
        spoil: |t| risk(t, "Risk level:", |line| format!("{line}\n{line}")),
    },
    // The command.
    Mutation {
        name: "no command",
        code: Code::CommandMissing,
        spoil: |t| command(t, |_| String::new()),
    },
    Mutation {
        name: "two commands",
        code: Code::CommandLines,
        spoil: |t| command(t, |line| format!("{line}\n{line}")),
    },
    Mutation {
        name: "and",
        code: Code::CommandChaining,
        spoil: |t| command(t, |line| format!("{line} && {line}")),
    },
    Mutation {
        name: "pipe",
        code: Code::CommandPipe,
        spoil: |t| command(t, |line| format!("{line} | tee")),
    },
    Mutation {
        name: "redirect",
        code: Code::CommandRedirection,
        spoil: |t| command(t, |line| format!("{line} >x")),
    },
    Mutation {
        name: "background",
        code: Code::CommandBackground,
        spoil: |t| command(t, |line| format!("{line} &")),
    },
    Mutation {
        name: "substitution",
        code: Code::CommandSubstitution,
        spoil: |t| command(t, |line| format!("{line} $(id)")),
    },
    Mutation {
        name: "variable",
        code: Code::CommandVariable,
        spoil: |t| command(t, |line| format!("A=1 {line}")),
    },
    Mutation {
        name: "glob",
        code: Code::CommandGlob,
        spoil: |t| command(t, |line| format!("{line} *")),
    },
    Mutation {
        name: "note",
        code: Code::CommandComment,
        spoil: |t| command(t, |line| format!("{line} # x")),
    },
    Mutation {
        name: "wrapper",
        code: Code::CommandWrapper,
        spoil: |t| command(t, |line| format!("env {line}")),
    },
    Mutation {
        name: "bash",
        code: Code::ShellForbidden,
        spoil: |t| command(t, |line| format!("bash {line}")),
    },
    Mutation {
        name: "stranger",
        code: Code::CommandLanguage,
        spoil: |t| command(t, |line| format!("perl {line}")),
    },
    Mutation {
        name: "path",
        code: Code::HostPath,
        spoil: |t| command(t, |line| format!("{line} --x=/etc/passwd")),
    },
    Mutation {
        name: "device",
        code: Code::Device,
        spoil: |t| command(t, |line| format!("{line} --x /dev/kvm")),
    },
    Mutation {
        name: "undeclared",
        code: Code::UndeclaredFile,
        spoil: |t| command(t, |line| format!("{line} --x /in/never-declared.csv")),
    },
    Mutation {
        name: "open quote",
        code: Code::CommandSyntax,
        spoil: |t| command(t, |line| format!("{line} \"")),
    },
    Mutation {
        name: "long",
        code: Code::CommandTooLong,
        spoil: |t| command(t, |line| format!("{line} {}", "x".repeat(5000))),
    },
    // Content.
    Mutation {
        name: "token",
        code: Code::Secret,
        spoil: |t| risk(t, "Justification:", |line| format!("{line} {TOKEN}")),
    },
    Mutation {
        name: "token in a comment",
        code: Code::Secret,
        spoil: |t| before(t, "language:", &format!("# {TOKEN}")),
    },
    Mutation {
        name: "install",
        code: Code::InstallInstruction,
        spoil: |t| {
            risk(t, "Justification:", |line| format!("{line} Run pip install pandas first."))
        },
    },
];

/// The document, with an approval filled in if it is a draft without one.
fn approved(case: &Case) -> String {
    let at = "2026-02-10T09:00:00Z".parse().unwrap();
    let bytes = approve(&case.bytes, "ada", at).unwrap_or_else(|_| case.bytes.clone());
    let judgement = judged(&bytes, &case.name, Stage::Approved);
    assert!(matches!(judgement, Judgement::Accept(_)), "{}\n{}", case.name, told(&judgement));
    String::from_utf8(bytes).unwrap()
}

#[test]
fn every_good_request_can_be_spoilt_in_every_way() {
    assert!(MUTATIONS.len() >= 40);
    let mut missed = Vec::new();
    for case in cases("accept") {
        let text = approved(&case);
        for mutation in MUTATIONS {
            let spoilt = (mutation.spoil)(&text);
            assert_ne!(spoilt, text, "`{}` changes nothing in {}", mutation.name, case.name);
            let judgement = judged(spoilt.as_bytes(), &case.name, Stage::Approved);
            if !judgement.reasons().iter().any(|reason| reason.code == mutation.code) {
                let Mutation { name, code, .. } = mutation;
                let told = told(&judgement);
                missed.push(format!("{} `{name}`: no {code}\n{told}", case.name));
            }
        }
    }
    let shown: Vec<_> = missed.iter().take(30).cloned().collect();
    assert!(missed.is_empty(), "{} missed\n{}", missed.len(), shown.join("\n"));
}

/// Bytes removed anywhere never make a panic, and never an approval out of nothing.
#[test]
fn requests_cut_anywhere_are_judged() {
    for case in cases("accept").iter().step_by(9) {
        for end in (0..case.bytes.len()).step_by(37) {
            let judgement = judged(&case.bytes[..end], &case.name, Stage::Approved);
            let whole = matches!(judgement, Judgement::Accept(_));
            assert!(!whole || end + 120 > case.bytes.len(), "{} at {end}", case.name);
        }
    }
}
