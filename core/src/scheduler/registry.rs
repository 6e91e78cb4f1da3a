//! The jobs of a scheduler, in the order of their registration, found by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::backend::contract::JobLimits;
use crate::error::Result;
use crate::scheduler::state::JobSpec;

/// A job as it was added.
pub(super) struct Registered {
    pub(super) spec: JobSpec,
    pub(super) limits: JobLimits,
    /// What the store said of it, in this start.
    pub(super) answer: Option<Result<()>>,
}

/// The registered jobs.
#[derive(Default)]
pub(super) struct Registry {
    jobs: BTreeMap<u64, Registered>,
    places: HashMap<Arc<str>, u64>,
    next: u64,
}

impl Registry {
    /// Adds a job whose name is not there yet.
    pub(super) fn add(&mut self, spec: JobSpec, limits: JobLimits) {
        self.places.insert(spec.name.clone(), self.next);
        self.jobs.insert(self.next, Registered { spec, limits, answer: None });
        self.next += 1;
    }

    /// Takes a job out.
    pub(super) fn remove(&mut self, name: &str) -> Option<Registered> {
        let place = self.places.remove(name)?;
        self.jobs.remove(&place)
    }

    /// The job of this name.
    pub(super) fn get(&self, name: &str) -> Option<&Registered> {
        self.jobs.get(self.places.get(name)?)
    }

    /// The job of this name, to be changed.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Registered> {
        self.jobs.get_mut(self.places.get(name)?)
    }

    /// All jobs, in the order of their registration.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.jobs.values()
    }

    /// A new start: nothing is known of any job.
    pub(super) fn forget_answers(&mut self) {
        for job in self.jobs.values_mut() {
            job.answer = None;
        }
    }
}
