use std::collections::BTreeMap;

use clap::Args;
use countersign_host::Home;
use countersign_model::{Failure, PolicyAdopted};
use countersign_policy::{Policies, RuleInfo};
use serde_json::{Value, json};

use super::text;
use crate::Context;
use crate::difference::{Mark, difference};
use crate::exit::Exit;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Show every policy set that has decided here, and how each differs from the one before
///
/// How many calls each set decided is not shown: no index has it, and finding out means reading the
/// whole journal.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Show the rules of this set; the first characters of its digest are enough
    #[arg(long, value_name = "DIGEST")]
    show: Option<String>,
}

/// How the rules of a set differ from those of the set before.
#[derive(Debug, Default)]
struct Changes {
    added: Vec<RuleInfo>,
    removed: Vec<RuleInfo>,
    /// Before and after.
    changed: Vec<(RuleInfo, RuleInfo)>,
}

/// One set of the history; without changes where it or the one before is no longer known.
struct Step {
    adopted: PolicyAdopted,
    changes: Option<Changes>,
}

pub(super) fn run(context: &Context, args: &HistoryArgs) -> Done<Exit> {
    let home = Home::open(&context.home)?;
    match &args.show {
        Some(digest) => show(context.ui, &home, digest)?,
        None => list(context.ui, &steps(&home)?)?,
    }
    Ok(Exit::Done)
}

fn steps(home: &Home) -> Result<Vec<Step>, Failure> {
    let mut before: Option<BTreeMap<String, RuleInfo>> = Some(BTreeMap::new());
    let mut steps = Vec::new();
    for adopted in home.policy_history()? {
        let set = home.policy_set(&adopted.policy.digest)?;
        let rules = set.as_ref().map(by_id);
        let changes = before.as_ref().zip(rules.as_ref()).map(|(a, b)| Changes::between(a, b));
        steps.push(Step { adopted, changes });
        before = rules;
    }
    Ok(steps)
}

fn by_id(set: &Policies) -> BTreeMap<String, RuleInfo> {
    set.rules().map(|rule| (rule.id.clone(), rule)).collect()
}

impl Changes {
    fn between(before: &BTreeMap<String, RuleInfo>, after: &BTreeMap<String, RuleInfo>) -> Self {
        let mut changes = Changes::default();
        for (id, rule) in after {
            match before.get(id) {
                None => changes.added.push(rule.clone()),
                Some(old) if old.text != rule.text => {
                    changes.changed.push((old.clone(), rule.clone()));
                }
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|(id, _)| !after.contains_key(*id));
        changes.removed = gone.map(|(_, rule)| rule.clone()).collect();
        changes
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    fn to_json(&self) -> Value {
        let pair =
            |(a, b): &(RuleInfo, RuleInfo)| json!({"id": a.id, "before": a.text, "after": b.text});
        json!({
            "added": self.added,
            "removed": self.removed,
            "changed": self.changed.iter().map(pair).collect::<Vec<_>>(),
        })
    }
}

fn list(ui: Ui, steps: &[Step]) -> Done {
    if ui.json {
        let one = |step: &Step| {
            json!({
                "set": step.adopted,
                "changes": step.changes.as_ref().map(Changes::to_json),
            })
        };
        return ui.json(&steps.iter().map(one).collect::<Vec<_>>());
    }
    if steps.is_empty() {
        return ui.line("no policies have decided anything here yet");
    }
    steps.iter().try_for_each(|step| print(ui, step))
}

fn print(ui: Ui, step: &Step) -> Done {
    let PolicyAdopted { at, policy, rules, sources } = &step.adopted;
    let files = inert(&sources.join(", "));
    let set = paint(BOLD, policy.digest.short());
    ui.line(wrap(&format!("{at} {set} {rules} rules {}", paint(DIM, files)), 2))?;
    let Some(changes) = &step.changes else {
        return ui.line(wrap("  what changed is no longer known: its texts are gone", 2));
    };
    if changes.is_empty() {
        ui.line(paint(DIM, "  the same rules; other comments or places"))?;
    }
    for (mark, rules) in [(paint(GOOD, "+"), &changes.added), (paint(BAD, "-"), &changes.removed)] {
        rules.iter().try_for_each(|rule| ui.line(wrap(&format!("  {mark} {}", rule.id), 4)))?;
    }
    changes.changed.iter().try_for_each(|(before, after)| changed(ui, before, after))
}

fn changed(ui: Ui, before: &RuleInfo, after: &RuleInfo) -> Done {
    ui.line(wrap(&format!("  {} {}", paint(WARN, "~"), after.id), 4))?;
    for (mark, line) in difference(&before.text, &after.text) {
        let line = inert(line);
        match mark {
            Mark::Gone => ui.line(wrap(&paint(BAD, format!("    - {line}")), 6))?,
            Mark::New => ui.line(wrap(&paint(GOOD, format!("    + {line}")), 6))?,
            Mark::Same => {}
        }
    }
    Ok(())
}

fn show(ui: Ui, home: &Home, digest: &str) -> Done {
    let adopted = named(home.policy_history()?, digest)?;
    let digest = adopted.policy.digest;
    let Some(set) = home.policy_set(&digest)? else {
        let message = format!("the texts of the policy set {} are gone", digest.short());
        return Err(Failure::state("POLICY_SET_GONE", message).into());
    };
    let rules: Vec<_> = set.rules().collect();
    if ui.json {
        let sources = set.sources();
        return ui.json(&json!({"set": adopted, "rules": rules, "sources": sources}));
    }
    for rule in &rules {
        text::rule_line(ui, rule)?;
        text::rule_text(ui, rule)?;
    }
    ui.line(wrap(&paint(DIM, format!("set {digest}, since {}", adopted.at)), 0))
}

fn named(history: Vec<PolicyAdopted>, digest: &str) -> Result<PolicyAdopted, Failure> {
    let fits = |adopted: &PolicyAdopted| adopted.policy.digest.to_string().starts_with(digest);
    let mut fitting = history.into_iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Failure::validation(
            "POLICY_SET_UNKNOWN",
            format!("no policy set `{digest}` has decided here"),
        )
        .hint("list them with `countersign policy history`")),
        _ => Err(Failure::validation(
            "POLICY_SET_AMBIGUOUS",
            format!("more than one policy set begins with `{digest}`"),
        )
        .hint("give more of its digest")),
    }
}
