//! The risk assessment: four labelled lines, each once.

use super::{Risk, RiskLevel, Sensitivity, lists};
use crate::code::Code;
use crate::reason::Findings;
use crate::sections::Section;
use crate::text::Line;

/// A labelled line, with what continues it below.
struct Answer {
    at: usize,
    text: String,
}

const LABELS: [&str; 4] =
    ["Risk level:", "Justification:", "Data sensitivity:", "Network rationale:"];

pub(super) fn judge(
    section: &Section<'_>,
    uses_network: Option<bool>,
    findings: &mut Findings,
) -> Option<Risk> {
    let [level, justification, sensitivity, rationale] = answers(section, findings);
    let level = level.and_then(|answer| Some((level_of(&answer, findings)?, answer.at)));
    let sensitivity = sensitivity.and_then(|answer| sensitivity_of(&answer, findings));
    for answer in [&justification, &rationale].into_iter().flatten() {
        lists::text(&answer.text, answer.at, lists::MAX_TEXT, findings);
    }
    if let (Some(uses_network), Some(rationale)) = (uses_network, &rationale) {
        rationale_fits(uses_network, rationale, findings);
    }
    if let Some((RiskLevel::Low, at)) = level {
        if uses_network == Some(true) {
            findings.add(Code::RiskInconsistent, at, "low risk, although the network is used");
        } else if sensitivity == Some(Sensitivity::Confidential) {
            findings.add(Code::RiskInconsistent, at, "low risk, although data are confidential");
        }
    }
    Some(Risk {
        level: level?.0,
        justification: justification?.text,
        sensitivity: sensitivity?,
        network_rationale: rationale?.text,
    })
}

/// The answers in the order of the labels. What is missing or empty is a finding.
fn answers(section: &Section<'_>, findings: &mut Findings) -> [Option<Answer>; 4] {
    let mut answers: [Option<Answer>; 4] = [const { None }; 4];
    let mut last: Option<usize> = None;
    for line in section.filled() {
        match labelled(line) {
            Some((index, answer)) => {
                last = Some(index);
                let Some(slot) = answers.get_mut(index) else { continue };
                if slot.is_some() {
                    findings.add(Code::LineDuplicate, line.at, "this line stands already");
                } else {
                    *slot = Some(answer);
                }
            }
            None => {
                let slot = last.and_then(|index| answers.get_mut(index)).and_then(Option::as_mut);
                if !slot.is_some_and(|answer| answer.continues(line)) {
                    let fix = "write `Label: text`, and indent what continues it by two spaces";
                    let message = "this line has none of the labels";
                    findings.add_fix(Code::LineUnknown, line.at, message, fix);
                }
            }
        }
    }
    for (label, answer) in LABELS.iter().zip(&mut answers) {
        match answer {
            None => {
                let message = format_args!("the line `{label}` is missing");
                findings.add(Code::LineMissing, section.at, message);
            }
            Some(found) if found.text.is_empty() => {
                findings.add(Code::EmptyValue, found.at, format_args!("`{label}` says nothing"));
                *answer = None;
            }
            Some(_) => {}
        }
    }
    answers
}

fn labelled(line: Line<'_>) -> Option<(usize, Answer)> {
    let content = line.text.strip_prefix("- ").or_else(|| line.text.strip_prefix("* "));
    let content = content.unwrap_or(line.text);
    let found = LABELS
        .iter()
        .enumerate()
        .find_map(|(index, label)| content.strip_prefix(label).map(|value| (index, value)));
    let (index, value) = found.filter(|(_, value)| value.is_empty() || value.starts_with(' '))?;
    let text = value.trim_matches(' ');
    let at = line.at + (line.text.len() - value.trim_start_matches(' ').len());
    Some((index, Answer { at, text: text.to_owned() }))
}

impl Answer {
    /// Long answers go on in lines that are indented.
    fn continues(&mut self, line: Line<'_>) -> bool {
        let indented = line.text.starts_with("  ");
        if indented {
            self.text.push_str(if self.text.is_empty() { "" } else { " " });
            self.text.push_str(line.text.trim_matches(' '));
        }
        indented
    }
}

fn level_of(answer: &Answer, findings: &mut Findings) -> Option<RiskLevel> {
    let levels =
        [("low", RiskLevel::Low), ("medium", RiskLevel::Medium), ("high", RiskLevel::High)];
    one_of(answer, &levels, "is not low, medium or high", findings)
}

fn sensitivity_of(answer: &Answer, findings: &mut Findings) -> Option<Sensitivity> {
    let kinds = [
        ("public", Sensitivity::Public),
        ("internal", Sensitivity::Internal),
        ("confidential", Sensitivity::Confidential),
    ];
    one_of(answer, &kinds, "is not public, internal or confidential", findings)
}

fn one_of<T: Copy>(
    answer: &Answer,
    values: &[(&str, T)],
    message: &str,
    findings: &mut Findings,
) -> Option<T> {
    let found = values.iter().find(|(name, _)| answer.text.eq_ignore_ascii_case(name));
    if found.is_none() {
        let placeholder = answer.text.contains('|');
        let code = if placeholder { Code::Placeholder } else { Code::UnknownValue };
        findings.quote(code, answer.at, &answer.text, message);
    }
    found.map(|(_, value)| *value)
}

fn rationale_fits(uses_network: bool, rationale: &Answer, findings: &mut Findings) {
    let none = is_none(&rationale.text);
    let message = match (uses_network, none) {
        (false, false) => "a reason for a network that is not asked for",
        (true, true) => "no reason for the network",
        _ => return,
    };
    findings.add(Code::NetworkInconsistent, rationale.at, message);
}

/// The ways to say that there is no network, and so no reason for it: one of these, or `none` and
/// a sign behind which more is said.
fn is_none(text: &str) -> bool {
    const WORDS: [&str; 10] = [
        "none",
        "n/a",
        "no network",
        "no network needed",
        "no network required",
        "none needed",
        "none required",
        "not applicable",
        "not needed",
        "not required",
    ];
    let lower = text.to_ascii_lowercase();
    let plain = lower.strip_suffix('.').unwrap_or(&lower);
    let rest = lower.strip_prefix("none").map(|rest| rest.trim_start_matches(' '));
    WORDS.contains(&plain)
        || rest.is_some_and(|rest| rest.starts_with([',', ';', ':', '.', '(', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_few_ways_to_say_none() {
        for none in
            ["none", "None.", "N/A", "not needed", "none (runs offline)", "None, all data is local"]
        {
            assert!(is_none(none), "{none}");
        }
        for reason in
            ["", "none of the rates is published elsewhere", "the rates", "nonesuch", "no"]
        {
            assert!(!is_none(reason), "{reason}");
        }
    }
}
