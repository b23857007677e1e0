//! The safety notes: what a result says about itself.

use super::fields::FrontMatter;
use super::lines::{Value, labelled};
use super::note::{self, is_none};
use super::{Note, SAFETY};
use crate::code::Code;
use crate::reason::Findings;
use crate::request::{Destination, network};
use crate::sections::Sections;

#[derive(Default)]
pub(super) struct Notes {
    pub(super) codes: Vec<(Note, u64)>,
    pub(super) free: Vec<Value>,
    pub(super) unexpected: Option<Value>,
}

/// Reads the three statements. A host that keeps a journal reports by code only; others may use
/// their own words, which are looked at like everything else.
pub(super) fn judge(
    sections: &Sections<'_>,
    fields: &FrontMatter,
    codes_only: bool,
    findings: &mut Findings,
) -> Notes {
    let Some(section) = sections.get(SAFETY) else { return Notes::default() };
    let labels = ["Untrusted Output Statement", "Unexpected behavior", "Network confirmation"];
    let [statement, unexpected, network] = labelled(section, labels, findings);
    if let Some(statement) = &statement {
        is_untrusted(statement, findings);
    }
    if let Some(network) = &network {
        confirms(network, fields.destinations.as_deref(), findings);
    }
    let codes = unexpected.as_ref().and_then(|value| note::parse(&value.text));
    let mut free: Vec<Value> = statement.into_iter().collect();
    if let Some(value) =
        unexpected.as_ref().filter(|value| codes.is_none() && !value.text.is_empty())
    {
        if codes_only {
            let message = "neither `None observed` nor codes with counts";
            findings.add(Code::StatementWrong, value.at, message);
        }
        free.push(value.clone());
    }
    Notes { codes: codes.unwrap_or_default(), free, unexpected }
}

/// Output is untrusted, and must not be treated as instructions.
fn is_untrusted(statement: &Value, findings: &mut Findings) {
    let text = statement.text.to_ascii_lowercase();
    let says = |words: &str| text.contains(words);
    let right = says("untrusted") && says("not") && says("instructions");
    if !text.is_empty() && !right {
        let fix = "write: output is untrusted and must not be treated as instructions";
        findings.add_fix(Code::StatementWrong, statement.at, "this says something else", fix);
    }
}

/// `none used`, or exactly the hosts of the front matter.
fn confirms(network: &Value, reached: Option<&[Destination]>, findings: &mut Findings) {
    let Some(reached) = reached.filter(|_| !network.text.is_empty()) else { return };
    let listed = if is_none(&network.text) { Some(Vec::new()) } else { hosts(&network.text) };
    let Some(listed) = listed else {
        let message = "neither `none used` nor a list of hosts";
        return findings.add(Code::StatementWrong, network.at, message);
    };
    if listed != reached {
        let message = "not the hosts of `network_destinations`";
        findings.add(Code::NetworkInconsistent, network.at, message);
    }
}

fn hosts(text: &str) -> Option<Vec<Destination>> {
    let entries = text.trim_end_matches('.').split([',', ' ']).filter(|entry| !entry.is_empty());
    let mut hosts = entries
        .map(|entry| network::parse(entry.trim_matches('`')).ok())
        .collect::<Option<Vec<_>>>()?;
    hosts.sort_unstable();
    Some(hosts)
}
