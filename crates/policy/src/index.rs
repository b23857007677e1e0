//! Which rules can match a call at all, by scope alone. The rest is never evaluated.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cedar_policy::{
    Entities, EntityTypeName, EntityUid, PolicySet, PrincipalConstraint, ResourceConstraint,
};
use countersign_model::{CallFacts, Principal, Question, ToolFacts, ToolId, Verdict};

use crate::names::Names;
use crate::problem::Problem;
use crate::reads::Reads;
use crate::request;
use crate::source::{Entry, limited};

/// Rules in cached sets, all together. A set of rules is forgotten sooner than memory runs out.
const MAX_CACHED: usize = 200_000;

/// The verdict on a call that touches more is not kept: slots stay small.
const MAX_KEPT_EFFECTS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Any,
    Kind(EntityTypeName),
    One(EntityUid),
}

/// A tool, a family or a set of tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Any,
    In(EntityUid),
}

impl Who {
    /// Principals are in nothing but themselves.
    pub(crate) fn of(constraint: PrincipalConstraint) -> Who {
        match constraint {
            PrincipalConstraint::Any => Who::Any,
            PrincipalConstraint::Is(kind) => Who::Kind(kind),
            PrincipalConstraint::In(uid)
            | PrincipalConstraint::Eq(uid)
            | PrincipalConstraint::IsIn(_, uid) => Who::One(uid),
        }
    }
}

impl What {
    pub(crate) fn of(constraint: ResourceConstraint) -> What {
        match constraint {
            // Only tools are ever asked about.
            ResourceConstraint::Any | ResourceConstraint::Is(_) => What::Any,
            ResourceConstraint::In(uid)
            | ResourceConstraint::Eq(uid)
            | ResourceConstraint::IsIn(_, uid) => What::In(uid),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    rules: Vec<Indexed>,
    by_scope: HashMap<(Who, What), Vec<usize>>,
    cache: Mutex<Cache>,
}

#[derive(Debug)]
struct Indexed {
    policy: cedar_policy::Policy,
    questions: Vec<Question>,
    reads: Reads,
    is_remembered: bool,
}

#[derive(Debug, Default)]
struct Cache {
    slots: HashMap<Key, Arc<Slot>>,
    /// Rules in all slots, and one for each slot.
    weight: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    principal: Principal,
    tool: ToolId,
    toolset: Option<String>,
}

/// The rules that can match, by question.
#[derive(Debug)]
pub(crate) struct Slot {
    invoke: PolicySet,
    unattended: PolicySet,
    /// Permits that stand for an answer that was remembered.
    remembered: PolicySet,
    /// What all of these look at.
    reads: Reads,
    /// The last call that they decided, if its time and input were of no account.
    last: Mutex<Option<(CallFacts, Verdict)>>,
    /// The principal and the tool as entities. Tools change rarely: the first one seen is kept.
    base: OnceLock<(ToolFacts, Entities)>,
}

impl Slot {
    pub(crate) fn remembered(&self) -> &PolicySet {
        &self.remembered
    }

    pub(crate) fn policies(&self, question: Question) -> &PolicySet {
        match question {
            Question::Invoke => &self.invoke,
            Question::InvokeUnattended => &self.unattended,
        }
    }

    pub(crate) fn base(&self, names: &Names, facts: &CallFacts) -> Option<Entities> {
        if let Some((tool, base)) = self.base.get()
            && *tool == facts.tool
        {
            return Some(base.clone());
        }
        let base = request::base(names, facts)?;
        // Whoever came first has set it: what is returned is right in either case.
        let _ = self.base.set((facts.tool.clone(), base.clone()));
        Some(base)
    }

    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The verdict on the call before, if this one is the same to every rule. Agents repeat
    /// themselves, and asking again would cost more than all the rest of a small call.
    pub(crate) fn last_verdict(&self, facts: &CallFacts) -> Option<Verdict> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, verdict) = last.as_ref()?;
        before.is_same_but_time(facts).then(|| verdict.clone())
    }

    pub(crate) fn keep_verdict(&self, facts: &CallFacts, verdict: &Verdict) {
        let is_small = facts.effects.len() <= MAX_KEPT_EFFECTS;
        if is_small && !self.reads.has("time") && !self.reads.has_input() {
            let decided = Some((facts.clone(), verdict.clone()));
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = decided;
        }
    }

    fn weight(&self) -> usize {
        let sets = [&self.invoke, &self.unattended, &self.remembered];
        sets.iter().map(|set| set.num_of_policies()).sum::<usize>() + 1
    }
}

impl Index {
    pub(crate) fn build(entries: &[Entry]) -> Result<Index, Vec<Problem>> {
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        let mut by_scope: HashMap<_, Vec<usize>> = HashMap::new();
        for entry in entries {
            match limited(entry) {
                Ok(policy) => {
                    let who = Who::of(policy.principal_constraint());
                    let what = What::of(policy.resource_constraint());
                    by_scope.entry((who, what)).or_default().push(rules.len());
                    let is_remembered = entry.notes.is_remembered && entry.is_permit();
                    let questions = entry.questions.clone();
                    let reads = Reads::of(&policy);
                    rules.push(Indexed { policy, questions, reads, is_remembered });
                }
                Err(problem) => problems.push(problem),
            }
        }
        let index = Index { rules, by_scope, cache: Mutex::default() };
        if problems.is_empty() { Ok(index) } else { Err(problems) }
    }

    /// The rules that can match this call. None if they cannot be put together, which stops it.
    pub(crate) fn slot(&self, names: &Names, facts: &CallFacts) -> Option<Arc<Slot>> {
        let key = Key {
            principal: facts.principal.clone(),
            tool: facts.tool.id.clone(),
            toolset: facts.toolset.clone(),
        };
        if let Some(slot) = self.lock().slots.get(&key) {
            return Some(Arc::clone(slot));
        }
        let slot = Arc::new(self.collect(names, &key)?);
        self.lock().keep(key, &slot);
        Some(slot)
    }

    /// Nothing panics while it is held, and a cache is right whatever it holds.
    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collect(&self, names: &Names, key: &Key) -> Option<Slot> {
        let found = self.candidates(names, key);
        let asks = |rule: &&&Indexed, question| rule.questions.contains(&question);
        let set = |question| {
            let asked = found.iter().filter(|rule| asks(rule, question));
            PolicySet::from_policies(asked.map(|rule| rule.policy.clone())).ok()
        };
        let remembered = found.iter().filter(|rule| rule.is_remembered);
        let remembered = remembered.filter(|rule| asks(rule, Question::InvokeUnattended));
        let mut reads = Reads::default();
        found.iter().for_each(|rule| reads.extend(&rule.reads));
        Some(Slot {
            reads,
            last: Mutex::default(),
            invoke: set(Question::Invoke)?,
            unattended: set(Question::InvokeUnattended)?,
            remembered: PolicySet::from_policies(remembered.map(|rule| rule.policy.clone()))
                .ok()?,
            base: OnceLock::new(),
        })
    }

    fn candidates(&self, names: &Names, key: &Key) -> Vec<&Indexed> {
        let whos = [
            Who::Any,
            Who::Kind(names.kind(key.principal.kind()).clone()),
            Who::One(names.principal(&key.principal)),
        ];
        let parents = names.parents(&key.tool, key.toolset.as_deref());
        let mut whats = vec![What::Any, What::In(names.tool(&key.tool))];
        whats.extend(parents.into_iter().map(What::In));
        let mut found = Vec::new();
        for who in whos {
            for what in &whats {
                let at = self.by_scope.get(&(who.clone(), what.clone()));
                found.extend(at.into_iter().flatten().filter_map(|at| self.rules.get(*at)));
            }
        }
        found
    }
}

impl Cache {
    fn keep(&mut self, key: Key, slot: &Arc<Slot>) {
        if self.weight + slot.weight() > MAX_CACHED {
            self.slots.clear();
            self.weight = 0;
        }
        self.weight += slot.weight();
        self.slots.insert(key, Arc::clone(slot));
    }
}
