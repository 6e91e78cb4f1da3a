//! A state under decision.

use std::collections::BTreeMap;

use crate::backend::contract::StoredResult;
use crate::lease::model::{JobHeader, JobState, Run, RunKey};
use crate::lease::rules::{Change, Unseen};

/// A run that the call touched: its new form, and a new body if it got one.
struct Touched {
    run: Option<Run>,
    result: Option<Box<StoredResult>>,
}

/// A state under decision: what is stored, and over it what this call changes.
pub(super) struct Draft<'a> {
    pub(super) state: &'a JobState,
    pub(super) unseen: Unseen,
    pub(super) now: i64,
    pub(super) header: JobHeader,
    touched: BTreeMap<RunKey, Touched>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(state: &'a JobState, unseen: Unseen, now: i64) -> Draft<'a> {
        Draft { state, unseen, now, header: state.header.clone(), touched: BTreeMap::new() }
    }

    pub(super) fn run(&self, key: RunKey) -> Option<&Run> {
        match self.touched.get(&key) {
            Some(touched) => touched.run.as_ref(),
            None => self.state.runs.get(&key),
        }
    }

    pub(super) fn put(&mut self, run: Run) {
        self.put_with(run, None);
    }

    pub(super) fn put_with(&mut self, run: Run, result: Option<Box<StoredResult>>) {
        let kept = self.touched.remove(&run.key()).and_then(|touched| touched.result);
        self.touched.insert(run.key(), Touched { run: Some(run), result: result.or(kept) });
    }

    pub(super) fn remove(&mut self, key: RunKey) {
        self.touched.insert(key, Touched { run: None, result: None });
    }

    /// All runs as they stand after what has been decided so far, oldest slot first.
    pub(super) fn all(&self) -> Vec<&Run> {
        let untouched = self
            .state
            .runs
            .iter()
            .filter(|(key, _)| !self.touched.contains_key(key))
            .map(|(_, r)| r);
        let touched = self.touched.values().filter_map(|touched| touched.run.as_ref());
        let mut runs: Vec<&Run> = untouched.chain(touched).collect();
        runs.sort_by_key(|run| run.key());
        runs
    }

    /// Whether anything may have changed so far.
    pub(super) fn is_changed(&self) -> bool {
        !self.touched.is_empty() || self.header != self.state.header
    }

    pub(super) fn unfinished(&self) -> Vec<&Run> {
        self.all().into_iter().filter(|run| run.is_unfinished()).collect()
    }

    pub(super) fn into_changes(self) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.header != self.state.header {
            changes.push(Change::Header(self.header));
        }
        for (key, touched) in self.touched {
            let before = self.state.runs.get(&key);
            match (before, touched.run) {
                (before, Some(run)) => {
                    if before != Some(&run) || touched.result.is_some() {
                        changes.push(Change::Put { run, result: touched.result });
                    }
                }
                (Some(_), None) => changes.push(Change::Drop(key)),
                (None, None) => {}
            }
        }
        changes
    }
}
