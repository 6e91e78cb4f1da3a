//! A job's way into the store.

use crate::error::{Error, Result};
use crate::events::Event;
use crate::scheduler::driver::Driver;
use crate::scheduler::state::{Job, Phase, unknown_job};
use crate::scheduler::timers::{JobId, Timer};

impl Driver {
    // ---- registering

    pub(super) fn add_job(&mut self, job: Job) {
        let id = self.fresh_id();
        self.names.insert(job.name.clone(), id);
        self.jobs.insert(id, job);
        self.register(id);
    }

    pub(super) fn remove_job(&mut self, name: &str) {
        let Some(id) = self.names.remove(name) else { return };
        for timer in [Timer::Slot(id), Timer::Ask(id), Timer::Sweep(id), Timer::Register(id)] {
            self.timers.clear(timer);
        }
        self.waiting.retain(|(_, job)| *job != id);
        self.hungry.remove(&id);
        self.starved.retain(|(_, job)| *job != id);
        if let Some(job) = self.jobs.remove(&id) {
            self.refuse_manual(job.manual, &unknown_job(name));
        }
    }

    pub(super) fn register(&mut self, id: JobId) {
        if self.stopping.is_none() {
            self.out.prepares.push(id);
        }
    }

    pub(super) fn prepared(&mut self, answers: Vec<(JobId, Result<()>)>) {
        for (id, answer) in answers {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            match answer {
                Ok(()) => {
                    job.phase = Phase::Surveying;
                    self.store_answered();
                    self.survey(id);
                }
                Err(error) => {
                    job.register_failures += 1;
                    let failures = job.register_failures;
                    let name = job.name.clone();
                    self.inner.registered(&name, Err(error.clone()));
                    self.store_failed(Some(&name), error);
                    let at = self.clock.mono_ms() + self.backoff(failures);
                    self.timers.at_mono(Timer::Register(id), at);
                }
            }
        }
    }

    /// The first survey after a registration has been understood: the job is live.
    pub(super) fn become_live(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.phase = Phase::Live;
        job.announced = true;
        let (name, manual) = (job.name.clone(), std::mem::take(&mut job.manual));
        self.inner.registered(&name, Ok(()));
        for ask in manual {
            self.start_manual(ask);
        }
    }

    /// The job is given up for good.
    pub(super) fn refuse_job(&mut self, id: JobId, error: &Error) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.phase = Phase::Refused;
        let (name, manual) = (job.name.clone(), std::mem::take(&mut job.manual));
        self.inner.registered(&name, Err(error.clone()));
        self.refuse_manual(manual, error);
        self.emit(Event::Error { error: error.clone(), job: Some(name.to_string()) });
    }
}
