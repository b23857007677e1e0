//! Which old contents must be kept, and which paths be cleared, before anything is written.
//!
//! Every part of a patch sees the tree as it was before. Most parts have nothing to do with each
//! other and are done one after the other, in little memory; only where one part writes what
//! another one reads is the old content read ahead.

use std::collections::{HashMap, HashSet};

use crate::diff::Op;
use crate::judge::ancestors;
use crate::patch::Job;

#[derive(Debug)]
pub(crate) struct Plan<'p> {
    /// Paths that more than one part names.
    shared: HashSet<&'p str>,
    made: HashSet<&'p str>,
    above_made: HashSet<&'p str>,
}

impl<'p> Plan<'p> {
    pub(crate) fn new(jobs: &[Job<'p, '_>]) -> Plan<'p> {
        let mut named: HashMap<&'p str, usize> = HashMap::new();
        let mut plan =
            Plan { shared: HashSet::new(), made: HashSet::new(), above_made: HashSet::new() };
        for job in jobs {
            let to = job.to().filter(|to| job.from() != Some(to));
            for path in job.from().into_iter().chain(to) {
                *named.entry(path).or_default() += 1;
            }
            plan.above_made.extend(to.into_iter().flat_map(ancestors));
            plan.made.extend(to);
        }
        plan.shared.extend(named.into_iter().filter(|(_, parts)| *parts > 1).map(|(path, _)| path));
        plan
    }

    /// Whether the old content must be read before anything is written.
    pub(crate) fn reads_ahead(&self, job: &Job<'p, '_>) -> bool {
        job.from().is_some_and(|from| self.shared.contains(from)) || self.clears_ahead(job)
    }

    /// Whether the old path must be free before anything is written: something else is made there,
    /// or below it, or where its directory was.
    pub(crate) fn clears_ahead(&self, job: &Job<'p, '_>) -> bool {
        let Some(from) = job.from().filter(|_| matches!(job.op(), Op::Rename | Op::Delete)) else {
            return false;
        };
        self.made.contains(from)
            || self.above_made.contains(from)
            || ancestors(from).any(|above| self.made.contains(above))
    }
}
