//! The front matter of a request: every key, its type, and what its value may be.

use std::fmt;

use countersign_model::Timestamp;

use super::lists::{self, Listed, is_placeholder};
use super::{
    Ceilings, Command, Constraint, Constraints, Cores, Given, Input, Language, Network, Output,
    Request, RequestedBy, Risk, Stage, moment, network,
};
use crate::code::Code;
use crate::command::is_shell_language;
use crate::front::{Fields, Front, Key, Scalar, Shape};
use crate::reason::Findings;

pub(super) const KEYS: &[Key] = &[
    Key { name: "request_type", shape: Shape::Text, required: true },
    Key { name: "schema_version", shape: Shape::Integer, required: true },
    Key { name: "request_id", shape: Shape::Text, required: true },
    Key { name: "created_utc", shape: Shape::Text, required: true },
    Key { name: "requested_by", shape: Shape::Text, required: true },
    Key { name: "approved_by", shape: Shape::OptionalText, required: false },
    Key { name: "approved_utc", shape: Shape::OptionalText, required: false },
    Key { name: "purpose", shape: Shape::Text, required: true },
    Key { name: "language", shape: Shape::Text, required: true },
    Key { name: "network", shape: Shape::Text, required: true },
    Key { name: "network_allowlist", shape: Shape::Texts, required: true },
    Key { name: "cpu_limit", shape: Shape::Text, required: true },
    Key { name: "memory_limit_mb", shape: Shape::Integer, required: true },
    Key { name: "time_limit_sec", shape: Shape::Integer, required: true },
    Key { name: "inputs", shape: Shape::Items(&["name", "sha256"]), required: true },
    Key { name: "outputs_expected", shape: Shape::Items(&["path", "description"]), required: true },
    Key { name: "constraints", shape: Shape::Texts, required: true },
];

const MAX_PURPOSE: usize = 200;
const MAX_APPROVER: usize = 128;
const MAX_CONSTRAINTS: usize = 32;
const MAX_CORES: u32 = 64;
const MAX_MEMORY_MB: u32 = 64 * 1024;
const MAX_TIME_SEC: u32 = 24 * 60 * 60;
/// How far the clocks of honest machines may be apart.
const SKEW_MILLIS: i64 = 300_000;

/// What could be understood of the front matter, each part for itself.
pub(super) struct FrontMatter {
    id: Option<String>,
    created: Option<Timestamp>,
    requested_by: Option<RequestedBy>,
    approved_by: Option<String>,
    approved: Option<Timestamp>,
    purpose: Option<String>,
    pub(super) language: Option<Language>,
    /// What `network` says, even if the hosts do not fit.
    pub(super) uses_network: Option<bool>,
    network: Option<Network>,
    cpu_limit: Option<Cores>,
    memory_limit_mb: Option<u32>,
    time_limit_sec: Option<u32>,
    pub(super) inputs: Option<Vec<Listed<Input>>>,
    pub(super) outputs: Option<Vec<Listed<Output>>>,
    constraints: Option<Constraints>,
}

impl FrontMatter {
    pub(super) fn read(front: &Front, given: &Given<'_>, findings: &mut Findings) -> FrontMatter {
        let fields = front.fields(KEYS, findings);
        kind(&fields, findings);
        let created = time(&fields, "created_utc", given, findings);
        let (approved_by, approved) = approval(&fields, created, given, findings);
        let networks = [("none", false), ("allowlist", true)];
        let chosen = one_of(&fields, "network", &networks, findings);
        let ceilings = given.ceilings;
        let (memory, time) = (ceilings.memory_mb, ceilings.time_sec);
        FrontMatter {
            id: id(&fields, created, given, findings),
            created,
            requested_by: requested_by(&fields, findings),
            approved_by,
            approved,
            purpose: purpose(&fields, findings),
            language: language(&fields, findings),
            uses_network: chosen,
            network: network::judge(&fields, chosen, findings),
            cpu_limit: cpu_limit(&fields, ceilings, findings),
            memory_limit_mb: limit(&fields, "memory_limit_mb", MAX_MEMORY_MB, memory, findings),
            time_limit_sec: limit(&fields, "time_limit_sec", MAX_TIME_SEC, time, findings),
            inputs: lists::inputs(&fields, findings),
            outputs: lists::outputs(&fields, findings),
            constraints: constraints(&fields, findings),
        }
    }

    pub(super) fn into_request(self, command: Command, risk: Risk) -> Option<Request> {
        Some(Request {
            id: self.id?,
            created: self.created?,
            requested_by: self.requested_by?,
            approved_by: self.approved_by,
            approved: self.approved,
            purpose: self.purpose?,
            language: self.language?,
            network: self.network?,
            cpu_limit: self.cpu_limit?,
            memory_limit_mb: self.memory_limit_mb?,
            time_limit_sec: self.time_limit_sec?,
            inputs: self.inputs?.into_iter().map(|listed| listed.value).collect(),
            outputs: self.outputs?.into_iter().map(|listed| listed.value).collect(),
            constraints: self.constraints?,
            command,
            risk,
        })
    }
}

fn kind(fields: &Fields<'_>, findings: &mut Findings) {
    let expected = [("tool_request", ())];
    let _ = one_of(fields, "request_type", &expected, findings);
    if let Some((version, at)) = fields.integer("schema_version").filter(|(v, _)| *v != 1) {
        findings.add(Code::SchemaVersion, at, format_args!("version {version} is not known here"));
    }
}

/// One of a few words.
fn one_of<T: Copy>(
    fields: &Fields<'_>,
    key: &str,
    values: &[(&str, T)],
    findings: &mut Findings,
) -> Option<T> {
    let scalar = fields.text(key)?;
    let found = values.iter().find(|(name, _)| scalar.text == *name);
    if found.is_none() {
        let code = if scalar.text.contains('|') { Code::Placeholder } else { Code::UnknownValue };
        let names: Vec<_> = values.iter().map(|(name, _)| format!("`{name}`")).collect();
        let fix = format!("write {}", names.join(" or "));
        findings.quote_fix(code, scalar.at, &scalar.text, format_args!("is no {key}"), fix);
    }
    found.map(|(_, value)| *value)
}

fn id(
    fields: &Fields<'_>,
    created: Option<Timestamp>,
    given: &Given<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let scalar = fields.text("request_id")?;
    let Some(moment) = moment::of_id(&scalar.text) else {
        findings.quote(Code::IdInvalid, scalar.at, &scalar.text, "is not the id of a request");
        return None;
    };
    if created.is_some_and(|created| created != moment) {
        let message = "the time in the id is not `created_utc`";
        findings.add(Code::TimeInconsistent, scalar.at, message);
    }
    let is_named = |name: &str| name.strip_suffix(".md") == Some(&scalar.text);
    if let Some(name) = given.file_name.filter(|name| !is_named(name)) {
        findings.quote(Code::FileName, scalar.at, name, "is not the id followed by .md");
    }
    Some(scalar.text.clone())
}

fn time(
    fields: &Fields<'_>,
    key: &str,
    given: &Given<'_>,
    findings: &mut Findings,
) -> Option<Timestamp> {
    let scalar = fields.text(key).filter(|scalar| !scalar.text.is_empty())?;
    let Some(moment) = moment::parse(&scalar.text) else {
        findings.quote(Code::TimeInvalid, scalar.at, &scalar.text, "is not a moment");
        return None;
    };
    if moment.millis_since(given.now) > SKEW_MILLIS {
        findings.quote(Code::TimeInFuture, scalar.at, &scalar.text, "is still to come");
    }
    Some(moment)
}

fn requested_by(fields: &Fields<'_>, findings: &mut Findings) -> Option<RequestedBy> {
    let values = [("human", RequestedBy::Human), ("core_draft", RequestedBy::CoreDraft)];
    one_of(fields, "requested_by", &values, findings)
}

fn approval(
    fields: &Fields<'_>,
    created: Option<Timestamp>,
    given: &Given<'_>,
    findings: &mut Findings,
) -> (Option<String>, Option<Timestamp>) {
    for key in ["approved_by", "approved_utc"] {
        let filled = fields.text(key).is_some_and(|scalar| !scalar.text.trim().is_empty());
        if !filled && given.stage == Stage::Approved && !fields.is_refused(key) {
            let message = format_args!("`{key}` is missing or empty");
            findings.add(Code::NotApproved, fields.at(key), message);
        }
    }
    let by = fields.text("approved_by").filter(|scalar| !scalar.text.trim().is_empty());
    let by = by.and_then(|scalar| approver(scalar, findings));
    let approved = time(fields, "approved_utc", given, findings);
    if created.zip(approved).is_some_and(|(created, approved)| approved < created) {
        let message = "approved before it was created";
        findings.add(Code::TimeInconsistent, fields.at("approved_utc"), message);
    }
    (by, approved)
}

fn approver(scalar: &Scalar, findings: &mut Findings) -> Option<String> {
    let text = scalar.text.as_str();
    if is_placeholder(text) {
        findings.quote(Code::Placeholder, scalar.at, text, "is the schema's own example");
    } else if text.chars().count() > MAX_APPROVER {
        let message = format_args!("more than {MAX_APPROVER} characters");
        findings.add(Code::TextTooLong, scalar.at, message);
    } else if is_machine(text) {
        findings.quote(Code::ApproverInvalid, scalar.at, text, "is not a person");
    } else {
        return Some(text.to_owned());
    }
    None
}

/// `core`, `core_draft`, `agent:x`, but not Corey or Agent Smith.
pub(super) fn is_machine(name: &str) -> bool {
    let first = name.split([':', '_', '-']).next().unwrap_or(name).to_ascii_lowercase();
    ["agent", "assistant", "core", "service", "tool"].contains(&first.as_str())
}

fn purpose(fields: &Fields<'_>, findings: &mut Findings) -> Option<String> {
    let scalar = fields.text("purpose")?;
    lists::text(&scalar.text, scalar.at, MAX_PURPOSE, findings);
    Some(scalar.text.clone())
}

fn language(fields: &Fields<'_>, findings: &mut Findings) -> Option<Language> {
    let scalar = fields.text("language")?;
    if is_shell_language(&scalar.text) {
        findings.quote(Code::ShellForbidden, scalar.at, &scalar.text, "is a shell");
        return None;
    }
    let values = Language::ALL.map(|language| (language.as_str(), language));
    one_of(fields, "language", &values, findings)
}

fn cpu_limit(fields: &Fields<'_>, ceilings: Ceilings, findings: &mut Findings) -> Option<Cores> {
    let scalar = fields.text("cpu_limit")?;
    let most = Cores { thousandths: MAX_CORES * 1000 };
    let Some(cores) = Cores::parse(&scalar.text).filter(|cores| *cores <= most) else {
        let fix = "write cores in double quotes, such as \"2\" or \"0.5\"";
        let message = "is not a number of cores";
        findings.quote_fix(Code::LimitInvalid, scalar.at, &scalar.text, message, fix);
        return None;
    };
    if u64::from(cores.thousandths) > u64::from(ceilings.cpu) * 1000 {
        let message = format_args!("{cores} cores; this host grants at most {}", ceilings.cpu);
        findings.add(Code::LimitAboveCeiling, scalar.at, message);
    }
    Some(cores)
}

fn limit(
    fields: &Fields<'_>,
    key: &str,
    most: u32,
    ceiling: u32,
    findings: &mut Findings,
) -> Option<u32> {
    let (value, at) = fields.integer(key)?;
    let Some(value) = u32::try_from(value).ok().filter(|value| (1..=most).contains(value)) else {
        let message = format_args!("`{key}` is not between 1 and {most}");
        findings.add(Code::LimitInvalid, at, message);
        return None;
    };
    if value > ceiling {
        let message = format_args!("{value}; this host grants at most {ceiling}");
        findings.add(Code::LimitAboveCeiling, at, message);
    }
    Some(value)
}

fn constraints(fields: &Fields<'_>, findings: &mut Findings) -> Option<Constraints> {
    let sentences = fields.texts("constraints")?;
    if sentences.len() > MAX_CONSTRAINTS {
        let message = format_args!("more than {MAX_CONSTRAINTS} constraints");
        findings.add(Code::TooManyEntries, fields.at("constraints"), message);
        return None;
    }
    let mut constraints = Constraints::default();
    for sentence in sentences {
        lists::text(&sentence.text, sentence.at, lists::MAX_TEXT, findings);
        match Constraint::parse(&sentence.text) {
            Some(known) => constraints.understood.push(known),
            None => constraints.claims.push(sentence.text.clone()),
        }
    }
    Some(constraints)
}

impl Constraint {
    pub const ALL: [Constraint; 3] = [
        Constraint::NoNetworkUnlessAllowlisted,
        Constraint::NoWritesOutsideOut,
        Constraint::NoPersistence,
    ];

    /// The sentence of the schema.
    pub const fn as_str(self) -> &'static str {
        match self {
            Constraint::NoNetworkUnlessAllowlisted => "No network unless allowlisted",
            Constraint::NoWritesOutsideOut => "No writes outside /out",
            Constraint::NoPersistence => "No persistence",
        }
    }

    fn parse(sentence: &str) -> Option<Constraint> {
        let sentence = sentence.trim();
        let sentence = sentence.strip_suffix('.').unwrap_or(sentence);
        Self::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(sentence))
    }
}

impl Language {
    pub const ALL: [Language; 5] =
        [Language::Python, Language::Node, Language::Ts, Language::Go, Language::Ruby];

    pub const fn as_str(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Node => "node",
            Language::Ts => "ts",
            Language::Go => "go",
            Language::Ruby => "ruby",
        }
    }
}

impl Cores {
    /// A decimal above zero with at most three digits behind the point.
    pub fn parse(text: &str) -> Option<Cores> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if !digits(whole) || !digits(part) || leading_zero || part.len() > 3 {
            return None;
        }
        let whole: u32 = whole.parse().ok()?;
        let part: u32 = format!("{part:0<3}").parse().ok()?;
        let thousandths = whole.checked_mul(1000)?.checked_add(part)?;
        (thousandths > 0).then_some(Cores { thousandths })
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.thousandths / 1000, self.thousandths % 1000);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{part:03}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_decimals_above_zero() {
        for (text, shown) in [("2", "2"), ("0.5", "0.5"), ("1.250", "1.25"), ("4.0", "4")] {
            assert_eq!(Cores::parse(text).unwrap().to_string(), shown);
        }
        for bad in
            ["", "0", "0.000", "02", "2.", ".5", "-1", "1e3", "2 ", "1.2345", "٢", "99999999"]
        {
            assert_eq!(Cores::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn people_may_be_called_what_they_are_called() {
        for machine in
            ["core", "core_draft", "CORE-draft", "agent:builder", "service:x", "tool-exec"]
        {
            assert!(is_machine(machine), "{machine}");
        }
        for person in ["Corey Hart", "Agent Smith", "human:ada", "José", "o'brien@example.org"] {
            assert!(!is_machine(person), "{person}");
        }
    }

    #[test]
    fn the_sentences_of_the_schema_are_understood() {
        for known in Constraint::ALL {
            assert_eq!(Constraint::parse(known.as_str()), Some(known));
        }
        assert_eq!(Constraint::parse("no persistence."), Some(Constraint::NoPersistence));
        assert_eq!(Constraint::parse("No network"), None);
    }
}
