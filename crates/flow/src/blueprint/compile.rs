//! From stages to nodes. A route is an edge: success takes one, failure the other.

use serde_json::{Map, Value, json};

use super::{Blueprint, Does, Route, Stage};

/// How often people may send a stage back that stands still for them.
const MOST_ASKED: u64 = 100;
const DEFAULT_LIMIT: u64 = 5;

struct Plan<'b> {
    blueprint: &'b Blueprint,
    nodes: Vec<Value>,
    edges: Vec<Value>,
}

pub(super) fn definition(blueprint: &Blueprint, tool: &dyn Fn(&str) -> String) -> Value {
    let mut plan = Plan { blueprint, nodes: Vec::new(), edges: Vec::new() };
    for stage in &blueprint.stages {
        plan.stage(stage, tool);
    }
    let defaults = &blueprint.defaults;
    let known = [
        ("toolset", &defaults.toolset),
        ("sandbox", &defaults.sandbox),
        ("approvalMode", &defaults.approval_mode),
    ];
    let custom: Map<String, Value> = known
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))))
        .collect();
    json!({
        "id": blueprint.name,
        "name": blueprint.name,
        "description": blueprint.description.as_deref().unwrap_or_default(),
        "version": "1",
        "nodes": plan.nodes,
        "edges": plan.edges,
        "triggers": [{"id": "manual", "type": "manual"}],
        "variables": [],
        "metadata": {"category": "blueprint", "customProperties": {"blueprint": custom}},
        "settings": {},
    })
}

impl Plan<'_> {
    fn stage(&mut self, stage: &Stage, tool: &dyn Fn(&str) -> String) {
        if stage.approval_required {
            let gate = format!("{}-approval", stage.id);
            self.gate(&gate, &format!("begin the stage {}?", stage.id), self.rounds(stage));
            self.edge(&gate, &stage.id, "any_success");
        }
        let (type_id, mut config) = match &stage.does {
            Does::Action(action) => ("core.tool", json!({"tool": tool(action)})),
            Does::Goal(goal) => ("local.countersign.agentStage", json!({"goal": goal})),
        };
        let outputs: Map<String, Value> =
            stage.outputs.iter().map(|name| (name.clone(), json!(name))).collect();
        if let Some(config) = config.as_object_mut().filter(|_| !outputs.is_empty()) {
            config.insert("outputMapping".to_owned(), Value::Object(outputs));
        }
        let settings = json!({
            "maxRetries": self.blueprint.limit(stage).unwrap_or(0),
            "maxLoopbackIterations": self.rounds(stage),
        });
        let ports = self.ports(stage);
        self.node(&stage.id, type_id, &config, &ports, &settings);
        self.route(stage, &stage.on_success, "any_success");
        self.route(stage, &stage.on_failure, "any_failed");
    }

    /// What another stage makes must be there; what comes with the run may be missing.
    fn ports(&self, stage: &Stage) -> Value {
        let given = self.blueprint.run_inputs();
        let port = |name: &String| {
            let optional = given.contains(name.as_str());
            (name.clone(), json!({"type": "variable", "variableName": name, "optional": optional}))
        };
        Value::Object(stage.inputs.iter().map(port).collect())
    }

    /// How often a stage may be come back to: as often as the stages around it may be tried.
    fn rounds(&self, stage: &Stage) -> u64 {
        let waits = [&stage.on_success, &stage.on_failure].contains(&&Route::Paused);
        let leads_here = |other: &&Stage| other.targets().any(|target| target == stage.id);
        let around = self.blueprint.stages.iter().filter(leads_here).chain([stage]);
        let most = around.filter_map(|stage| self.blueprint.limit(stage)).max();
        if waits { MOST_ASKED } else { most.unwrap_or(DEFAULT_LIMIT).max(1) }
    }

    fn route(&mut self, stage: &Stage, route: &Route, rule: &str) {
        match route {
            Route::Done => self.end_well(stage, rule),
            Route::Fail if rule == "any_failed" => {}
            Route::Fail => {
                let end = format!("{}-fail", stage.id);
                let message = format!("the stage {} leads to a failure", stage.id);
                let config = json!({"code": "blueprint_failed", "message": message});
                self.node(&end, "core.fail", &config, &json!({}), &json!({}));
                self.edge(&stage.id, &end, rule);
            }
            Route::Stage(to) => {
                let to = self.entry(to);
                self.edge(&stage.id, &to, rule);
            }
            Route::Paused => {
                let gate = format!("{}-paused", stage.id);
                let known = self.nodes.iter().any(|node| node.get("id") == Some(&json!(gate)));
                if !known {
                    let title = format!("the stage {} stands still: go on?", stage.id);
                    self.gate(&gate, &title, MOST_ASKED);
                }
                self.edge(&stage.id, &gate, rule);
                if rule == "any_failed" {
                    let entry = self.entry(&stage.id);
                    self.edge(&gate, &entry, "any_success");
                }
            }
        }
    }

    /// A failure that ends well is taken up by something.
    fn end_well(&mut self, stage: &Stage, rule: &str) {
        if rule == "any_failed" {
            let end = format!("{}-done", stage.id);
            self.node(&end, "core.noop", &json!({}), &json!({}), &json!({}));
            self.edge(&stage.id, &end, rule);
        }
    }

    /// Where a route to a stage leads: to its approval, if it needs one.
    fn entry(&self, id: &str) -> String {
        let asks = self.blueprint.stages.iter().any(|s| s.id == id && s.approval_required);
        if asks { format!("{id}-approval") } else { id.to_owned() }
    }

    fn gate(&mut self, id: &str, title: &str, rounds: u64) {
        let settings = json!({"maxLoopbackIterations": rounds});
        let config = json!({"title": title, "actions": ["accept", "reject"]});
        self.node(id, "core.approvalGate", &config, &json!({}), &settings);
    }

    fn node(&mut self, id: &str, type_id: &str, config: &Value, inputs: &Value, settings: &Value) {
        let position = json!({"x": 200 * self.nodes.len(), "y": 0});
        self.nodes.push(json!({
            "id": id, "typeId": type_id, "name": id, "position": position,
            "config": config, "inputs": inputs, "settings": settings,
        }));
    }

    fn edge(&mut self, from: &str, to: &str, rule: &str) {
        let id = format!("{from}-{}-{to}", rule.trim_start_matches("any_"));
        self.edges.push(json!({
            "id": id, "sourceNodeId": from, "targetNodeId": to, "triggerRule": rule,
        }));
    }
}
