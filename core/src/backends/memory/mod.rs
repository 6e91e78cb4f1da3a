//! The reference store: the pure rules under a mutex, for the schedulers of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;

use crate::backend::contract::{
    ActiveRun, Backend, ClaimInput, ClaimOutcome, JobLimits, PauseRequest, RunClaim, RunRecord,
    RunStore, StoredResult, Survey, Wake, WakeListener,
};
use crate::backend::history::stored_record;
use crate::clock::Clock;
use crate::error::Result;
use crate::lease::model::{JobState, MissedRange, RunKey, Status};
use crate::lease::rules::{self, Answer, Call, Change};

/// A store in memory, with leases. Schedulers that share the object share a fleet.
#[derive(Clone)]
pub struct MemoryBackend {
    clock: Arc<dyn Clock>,
    namespace: String,
    jobs: Arc<Mutex<HashMap<(String, String), Job>>>,
    watchers: Arc<Mutex<Vec<Watcher>>>,
}

/// A namespace and whoever wants to know of its releases and ends.
type Watcher = (String, Weak<WakeListener>);

/// A job as it is stored: what is decided upon, and the bodies that decide nothing.
#[derive(Default)]
struct Job {
    state: JobState,
    results: HashMap<RunKey, StoredResult>,
}

impl Job {
    fn apply(&mut self, changes: Vec<Change>) {
        rules::apply(&mut self.state, &changes);
        for change in changes {
            match change {
                Change::Put { run, result: Some(result) } => {
                    self.results.insert(run.key(), *result);
                }
                Change::Drop(key) => {
                    self.results.remove(&key);
                }
                Change::Put { .. } | Change::Header(_) => {}
            }
        }
    }
}

impl MemoryBackend {
    /// An empty store that reads its time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryBackend {
        MemoryBackend {
            clock,
            namespace: "default".to_owned(),
            jobs: Arc::default(),
            watchers: Arc::default(),
        }
    }

    /// The store of this name that belongs to `clock`: `memory:` names the nameless one. All
    /// schedulers of a process (or of a manual clock) that name it share it.
    pub fn shared(clock: &Arc<dyn Clock>, name: &str) -> MemoryBackend {
        let mut shelf = clock.shelf().lock().unwrap_or_else(PoisonError::into_inner);
        let stored = shelf.get(name).and_then(|any| any.downcast_ref::<MemoryBackend>());
        if let Some(stored) = stored {
            return stored.clone();
        }
        let fresh = MemoryBackend::new(clock.clone());
        shelf.insert(name.to_owned(), Arc::new(fresh.clone()));
        fresh
    }

    fn with_job<T>(&self, job: &str, act: impl FnOnce(&mut Job, i64) -> T) -> T {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.wall_ms();
        act(jobs.entry((self.namespace.clone(), job.to_owned())).or_default(), now)
    }

    /// Tells the watchers of this namespace, without any lock held.
    fn push(&self, job: &str, wake: Wake) {
        let listeners: Vec<Arc<WakeListener>> = {
            let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
            watchers.retain(|(_, listener)| listener.strong_count() > 0);
            let ours = watchers.iter().filter(|(namespace, _)| *namespace == self.namespace);
            ours.filter_map(|(_, listener)| listener.upgrade()).collect()
        };
        for listener in listeners {
            listener(job, wake);
        }
    }

    fn step(&self, job: &str, call: &Call) -> Answer {
        self.with_job(job, |stored, now| {
            let decision = rules::decide(&stored.state, call, now);
            stored.apply(decision.changes);
            decision.answer
        })
    }

    /// What is stored of a job, for tests that compare.
    pub fn state(&self, job: &str) -> JobState {
        self.with_job(job, |stored, _| stored.state.clone())
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn has_own_clock(&self) -> bool {
        false
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    async fn prepare_job(&self, limits: &JobLimits) -> Result<()> {
        self.step(&limits.name, &Call::Register(limits.clone()));
        Ok(())
    }

    async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        Ok(self.step(&input.job, &Call::ClaimOnly(input.clone())).is_true())
    }

    async fn record_manual_run(&self, input: &ClaimInput) -> Result<Option<i64>> {
        let answer = self.step(&input.job, &Call::ClaimManual(input.clone()));
        answer.into_outcome().into_manual_slot(input)
    }

    async fn save_result(
        &self,
        job: &str,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Result<()> {
        let call = Call::SaveResult { result: result.clone(), history_size, history_ttl_ms };
        self.step(job, &call);
        Ok(())
    }

    async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>> {
        Ok(self.with_job(job, |stored, now| {
            let runs = stored.state.runs.values().rev().take(limit);
            runs.map(|run| stored_record(job, run, stored.results.get(&run.key()), now)).collect()
        }))
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    fn runs(&self) -> Option<&dyn RunStore> {
        Some(self)
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }

    fn with_namespace(&self, namespace: &str) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(MemoryBackend { namespace: namespace.to_owned(), ..self.clone() }))
    }
}

#[async_trait]
impl RunStore for MemoryBackend {
    async fn claim(&self, claim: &RunClaim) -> Result<ClaimOutcome> {
        Ok(self.step(&claim.input.job, &Call::Claim(claim.clone())).into_outcome())
    }

    async fn heartbeat(&self, job: &str, slot: i64, token: &str, lease_ms: i64) -> Result<bool> {
        let call = Call::Heartbeat { slot, token: token.to_owned(), lease_ms };
        Ok(self.step(job, &call).is_true())
    }

    async fn finish(
        &self,
        job: &str,
        slot: i64,
        token: &str,
        status: Status,
        result: Option<&StoredResult>,
    ) -> Result<bool> {
        let (token, result) = (token.to_owned(), result.cloned());
        let finished = self.step(job, &Call::Finish { slot, token, status, result }).is_true();
        if finished {
            self.push(job, Wake::Finished);
        }
        Ok(finished)
    }

    async fn release(&self, job: &str, slot: i64, token: &str) -> Result<bool> {
        let released = self.step(job, &Call::Release { slot, token: token.to_owned() }).is_true();
        if released {
            self.push(job, Wake::Released);
        }
        Ok(released)
    }

    async fn active(&self, job: &str) -> Result<Vec<ActiveRun>> {
        Ok(self.with_job(job, |stored, now| rules::active(&stored.state, now)))
    }

    fn has_survey(&self) -> bool {
        true
    }

    async fn survey(&self, job: &str) -> Result<Survey> {
        Ok(self.step(job, &Call::Survey).into_survey())
    }

    fn has_claim_manual(&self) -> bool {
        true
    }

    async fn claim_manual(&self, input: &ClaimInput) -> Result<ClaimOutcome> {
        Ok(self.step(&input.job, &Call::ClaimManual(input.clone())).into_outcome())
    }

    fn keeps_result(&self) -> bool {
        true
    }

    fn has_record_missed(&self) -> bool {
        true
    }

    async fn record_missed(&self, job: &str, range: &MissedRange) -> Result<bool> {
        Ok(self.step(job, &Call::RecordMissed(range.clone())).is_true())
    }

    fn has_set_paused(&self) -> bool {
        true
    }

    async fn set_paused(&self, job: &str, paused: Option<&PauseRequest>) -> Result<()> {
        self.step(job, &Call::SetPaused(paused.cloned()));
        Ok(())
    }

    fn has_cancel(&self) -> bool {
        true
    }

    async fn cancel(&self, job: &str, slot: i64, manual: bool) -> Result<bool> {
        Ok(self.step(job, &Call::Cancel { slot, manual }).is_true())
    }

    fn watch(&self, listener: &Arc<WakeListener>) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.push((self.namespace.clone(), Arc::downgrade(listener)));
    }

    fn has_forget(&self) -> bool {
        true
    }

    async fn forget(&self, job: &str) -> Result<bool> {
        Ok(self.step(job, &Call::Forget).is_true())
    }
}
