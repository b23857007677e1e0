//! A request as the person sees it who decides about it.

use countersign_documents::request::{Language, Network, Request, RequestedBy, Sensitivity};
use countersign_host::approvals::Approval;
use countersign_host::refusal::reasons;
use countersign_model::Timestamp;

use crate::commands::approval::span;
use crate::plain::plain;
use crate::ui::{BOLD, DIM, Done, GOOD, Ui, WARN, paint, wrap};

const MARGIN: usize = 12;

/// Digits of a digest that are enough to tell files apart by eye; the document has all of them.
const DIGITS: usize = 16;

pub(super) fn card(ui: Ui, request: &Request, claimed: Option<&str>) -> Done {
    let by = match request.requested_by {
        RequestedBy::Human => "a person",
        RequestedBy::CoreDraft => "an agent",
    };
    ui.line(wrap(&format!("{} drafted by {by}", paint(BOLD, &request.id)), 2))?;
    row(ui, "purpose", &plain(&request.purpose))?;
    row(ui, "command", &paint(BOLD, plain(&request.command.line)))?;
    row(ui, "language", language(request.language))?;
    files(ui, request)?;
    network(ui, request)?;
    let cores = match request.cpu_limit.thousandths {
        1000 => "1 core".to_owned(),
        _ => format!("{} cores", request.cpu_limit),
    };
    let (memory, time) = (request.memory_limit_mb, request.time_limit_sec);
    let limits = format!("{cores}, {memory} MB of memory, {time} s");
    row(ui, "limits", &limits)?;
    risk(ui, request)?;
    for claim in &request.constraints.claims {
        let text = format!("{} {}", paint(WARN, "says, and nobody enforces:"), plain(claim));
        row(ui, "claims", &text)?;
    }
    match claimed.filter(|name| !name.trim().is_empty()) {
        Some(name) => row(
            ui,
            "note",
            &paint(
                WARN,
                format!("it names {} as approver already; that counts for nothing", plain(name)),
            ),
        ),
        None => Ok(()),
    }
}

fn files(ui: Ui, request: &Request) -> Done {
    for input in &request.inputs {
        let digest: String = input.sha256.to_string().chars().take(DIGITS).collect();
        row(ui, "reads", &format!("/in/{} {}", plain(&input.name), paint(DIM, digest)))?;
    }
    for output in &request.outputs {
        let description = paint(DIM, plain(&output.description));
        row(ui, "writes", &format!("/out/{} {description}", plain(&output.path)))?;
    }
    Ok(())
}

fn network(ui: Ui, request: &Request) -> Done {
    match &request.network {
        Network::None => row(ui, "network", &paint(GOOD, "none")),
        Network::Allowlist(hosts) => {
            for to in hosts {
                let to = paint(WARN, format!("{}:{}", to.host, to.port));
                row(ui, "reaches", &to)?;
            }
            row(ui, "why", &plain(&request.risk.network_rationale))
        }
    }
}

fn risk(ui: Ui, request: &Request) -> Done {
    let risk = &request.risk;
    let data = match risk.sensitivity {
        Sensitivity::Confidential => paint(WARN, "confidential"),
        other => other.as_str().to_owned(),
    };
    row(
        ui,
        "risk",
        &format!("{}, {data} data: {}", risk.level.as_str(), plain(&risk.justification)),
    )
}

fn language(language: Language) -> &'static str {
    match language {
        Language::Python => "Python",
        Language::Node => "JavaScript",
        Language::Ts => "TypeScript",
        Language::Go => "Go",
        Language::Ruby => "Ruby",
    }
}

/// Why people are asked, who agreed so far, and until when.
pub(super) fn standing(ui: Ui, approval: &Approval, now: Timestamp) -> Done {
    for reason in reasons(&approval.subject.verdict) {
        row(ui, "because", &plain(&reason))?;
    }
    for consent in &approval.answers {
        row(ui, "agreed", &consent.by.to_string())?;
    }
    let needed = approval.subject.verdict.approvers;
    if needed > 1 {
        let text = format!("{needed} people, {} agreed so far", approval.answers.len());
        row(ui, "needs", &text)?;
    }
    row(ui, "answer", &span(approval.subject.expires_at.millis_since(now)))
}

pub(super) fn row(ui: Ui, name: &str, text: &str) -> Done {
    let name = paint(DIM, format!("{name:>9}"));
    ui.line(wrap(&format!(" {name}  {text}"), MARGIN))
}
