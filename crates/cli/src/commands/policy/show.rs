use clap::Args;
use countersign_host::Home;
use countersign_model::{Digest, Failure};
use countersign_policy::{Policies, RuleInfo, SCHEMA, to_cedar};
use serde_json::json;

use super::{Which, text};
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, DIM, Done, Ui, inert, inert_lines, paint, wrap};

/// Show the rules that are in force, and the digest of the set
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Show this rule with its text
    #[arg(conflicts_with_all = ["cedar", "schema", "sources"])]
    rule: Option<String>,

    /// Print the table of countersign.toml as Cedar
    #[arg(long, conflicts_with_all = ["schema", "sources"])]
    cedar: bool,

    /// Print the schema that rules are checked against
    #[arg(long, conflicts_with = "sources")]
    schema: bool,

    /// Print the files as they stand
    #[arg(long)]
    sources: bool,

    #[command(flatten)]
    which: Which,
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Done<Exit> {
    let ui = context.ui;
    if args.schema {
        print_text(ui, "schema", SCHEMA)?;
        return Ok(Exit::Done);
    }
    let home = Home::open(&context.home)?;
    let policies = args.which.compile(&home)?;
    match &args.rule {
        _ if args.cedar => print_text(ui, "cedar", &cedar(&policies)?)?,
        _ if args.sources => sources(ui, &policies)?,
        Some(id) => one(ui, &policies, id)?,
        None => all(ui, &policies)?,
    }
    Ok(Exit::Done)
}

fn print_text(ui: Ui, name: &str, text: &str) -> Done {
    match ui.json {
        true => ui.json(&json!({ name: text })),
        false => ui.line(inert_lines(text.trim_end_matches('\n'))),
    }
}

fn cedar(policies: &Policies) -> Result<String, Failure> {
    if policies.rows().is_empty() {
        return Ok("// the table in countersign.toml has no rows".to_owned());
    }
    // They compiled as part of the set.
    to_cedar(policies.rows()).map_err(|_| Failure::state("INTERNAL", "the table has no Cedar"))
}

fn sources(ui: Ui, policies: &Policies) -> Done {
    if ui.json {
        return ui.json(&policies.sources());
    }
    for source in policies.sources() {
        let digest = paint(DIM, Digest::of(source.text.as_bytes()));
        ui.line(wrap(&format!("{} {digest}", paint(BOLD, inert(&source.name))), 2))?;
        ui.line(inert_lines(source.text.trim_end_matches('\n')))?;
    }
    Ok(())
}

fn one(ui: Ui, policies: &Policies, id: &str) -> Done {
    let rule = policies.rules().find(|rule| rule.id == id).ok_or_else(|| unknown(id))?;
    if ui.json {
        return ui.json(&rule);
    }
    text::rule_line(ui, &rule)?;
    text::rule_text(ui, &rule)
}

fn unknown(id: &str) -> Failure {
    Failure::validation("RULE_UNKNOWN", format!("there is no rule `{id}`"))
        .hint("list them with `countersign policy show`")
}

fn all(ui: Ui, policies: &Policies) -> Done {
    let rules: Vec<RuleInfo> = policies.rules().collect();
    if ui.json {
        return ui.json(&json!({"digest": policies.digest(), "rules": rules}));
    }
    if rules.is_empty() {
        ui.line("no rules: nothing may run")?;
    }
    for rule in &rules {
        text::rule_line(ui, rule)?;
        let said = ["description", "reason"].map(|name| rule.annotations.get(name));
        for words in said.into_iter().flatten() {
            ui.line(wrap(&format!("  {}", inert(words)), 2))?;
        }
    }
    ui.line(wrap(&paint(DIM, format!("{} rules, set {}", rules.len(), policies.digest())), 0))
}
