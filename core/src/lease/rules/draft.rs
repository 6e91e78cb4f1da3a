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
        sorted(self.runs(|_| true))
    }

    /// The runs that are wanted, in any order. A job has up to thousands, of which few are.
    fn runs(&self, wanted: fn(&Run) -> bool) -> impl Iterator<Item = &Run> {
        let untouched = self.state.runs.values().filter(move |run| wanted(run));
        let untouched = untouched.filter(|run| !self.touched.contains_key(&run.key()));
        let touched = self.touched.values().filter_map(|touched| touched.run.as_ref());
        untouched.chain(touched.filter(move |run| wanted(run)))
    }

    /// How many of the records have ended.
    pub(super) fn count_ended(&self) -> i64 {
        let ended = self.runs(|run| !run.is_unfinished()).count();
        i64::try_from(ended).unwrap_or(i64::MAX)
    }

    /// Whether anything may have changed so far.
    pub(super) fn is_changed(&self) -> bool {
        !self.touched.is_empty() || self.header != self.state.header
    }

    pub(super) fn unfinished(&self) -> Vec<&Run> {
        sorted(self.runs(Run::is_unfinished))
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

/// Oldest slot first.
fn sorted<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<&'a Run> {
    let mut runs: Vec<&Run> = runs.collect();
    runs.sort_by_key(|run| run.key());
    runs
}
