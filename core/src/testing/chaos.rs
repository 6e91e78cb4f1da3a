//! A store behind a bad network: messages are lost, late and doubled, all from one seed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use fastrand::Rng;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::backend::contract::{
    ActiveRun, Backend, ClaimInput, ClaimOutcome, JobLimits, PauseRequest, RunClaim, RunRecord,
    RunStore, StoredResult, Survey,
};
use crate::clock::{Clock, sleep_for};
use crate::error::{Error, Result};
use crate::lease::model::{MissedRange, Status};
use crate::lease::rules::{Answer, Call};
use crate::random::Random;
use crate::testing::record::Recorder;
use crate::testing::skewed_clock::Gate;

/// What happens to messages. Chances are per thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The request is lost: nothing is executed.
    pub lose_request: u16,
    /// The call is executed and its answer is lost.
    pub lose_reply: u16,
    /// The call is executed once more, up to [`Faults::long_ms`] later.
    pub duplicate: u16,
    /// A message takes up to [`Faults::long_ms`] instead of [`Faults::short_ms`].
    pub delay: u16,
    /// How long every message takes at least (ms).
    pub least_ms: i64,
    /// The usual longest way of a message (ms).
    pub short_ms: i64,
    /// The unusual longest way of a message (ms).
    pub long_ms: i64,
    /// Nothing gets through at all.
    pub cut_off: bool,
    /// Claims for slots whose second is divisible by this are lost, if it is not 0.
    pub lost_slots: i64,
}

/// What became of one call.
struct Fate {
    there_ms: i64,
    back_ms: i64,
    request_lost: bool,
    reply_lost: bool,
    again_after_ms: Option<i64>,
    /// A loss is noticed as an error; else there is silence.
    error: bool,
}

/// One instance's way to a store.
pub struct Chaos {
    instance: String,
    inner: Arc<dyn Backend>,
    clock: Arc<dyn Clock>,
    gate: Gate,
    recorder: Recorder,
    leases: bool,
    rng: Mutex<Rng>,
    faults: Mutex<Faults>,
}

impl Chaos {
    /// The way of `instance` to `inner`: messages travel by `clock` (the network's, not the
    /// instance's), answers pass the instance's gate. Without `leases` the store shows none.
    pub fn new(
        instance: &str,
        inner: Arc<dyn Backend>,
        clock: Arc<dyn Clock>,
        gate: Gate,
        recorder: Recorder,
        seed: u64,
    ) -> Chaos {
        Chaos {
            instance: instance.to_owned(),
            leases: inner.runs().is_some(),
            inner,
            clock,
            gate,
            recorder,
            rng: Mutex::new(Random::generator(seed)),
            faults: Mutex::default(),
        }
    }

    /// Hides the leases of the store.
    #[must_use]
    pub fn without_leases(self) -> Chaos {
        Chaos { leases: false, ..self }
    }

    /// Changes what happens to messages from now on.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.faults) = faults;
    }

    fn draw(&self, slot: Option<i64>) -> Fate {
        let faults = *lock(&self.faults);
        let mut rng = lock(&self.rng);
        let mut chance = |per_thousand: u16| rng.u16(0..1_000) < per_thousand;
        let lost_slot = faults.lost_slots != 0
            && slot.is_some_and(|slot| (slot / 1_000) % faults.lost_slots == 0);
        let request_lost = chance(faults.lose_request) || faults.cut_off || lost_slot;
        let reply_lost = chance(faults.lose_reply);
        let duplicate = chance(faults.duplicate);
        let error = chance(500);
        let (there, back) = (chance(faults.delay), chance(faults.delay));
        let mut within = |long| {
            let most = if long { faults.long_ms } else { faults.short_ms };
            rng.i64(faults.least_ms..=most.max(faults.least_ms))
        };
        let (there_ms, back_ms) = (within(there), within(back));
        let again_after_ms = duplicate.then(|| within(true));
        Fate { there_ms, back_ms, request_lost, reply_lost, again_after_ms, error }
    }

    /// Sends a call on its way. It goes its way also when nobody waits for it any more.
    async fn send<T: Send + 'static>(
        &self,
        slot: Option<i64>,
        run: impl Fn(Arc<dyn Backend>) -> BoxFuture<'static, Result<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let fate = self.draw(slot);
        let (reply, answered) = oneshot::channel();
        let (clock, inner) = (self.clock.clone(), self.inner.clone());
        tokio::spawn(async move {
            sleep_for(&*clock, fate.there_ms).await;
            if fate.request_lost {
                // Noticed as an error, or not at all.
                if fate.error {
                    let _gone = reply.send(Err(Error::unavailable("the request was lost")));
                } else {
                    std::future::pending::<()>().await;
                }
                return;
            }
            let answer = run(inner.clone()).await;
            if let Some(later) = fate.again_after_ms {
                let clock = clock.clone();
                tokio::spawn(async move {
                    sleep_for(&*clock, later).await;
                    // Nobody waits for the answer of a duplicate.
                    let _unread = run(inner).await;
                });
            }
            sleep_for(&*clock, fate.back_ms).await;
            match (fate.reply_lost, fate.error) {
                (false, _) => {
                    let _gone = reply.send(answer);
                }
                (true, true) => {
                    let _gone = reply.send(Err(Error::unavailable("the answer was lost")));
                }
                (true, false) => std::future::pending::<()>().await,
            }
        });
        let answer = answered.await;
        self.gate.pass().await;
        answer.unwrap_or_else(|_gone| Err(Error::unavailable("the connection is gone")))
    }

    /// Sends a call that may change something, and records what it did when it is executed.
    async fn ask(&self, job: &str, call: Call) -> Result<Answer> {
        let slot = match &call {
            Call::Claim(claim) => Some(claim.input.slot),
            _ => None,
        };
        let (instance, job) = (self.instance.clone(), job.to_owned());
        let recorder = self.recorder.clone();
        self.send(slot, move |inner| {
            let (instance, job, call) = (instance.clone(), job.clone(), call.clone());
            let recorder = recorder.clone();
            Box::pin(async move {
                let answer = execute(&*inner, &job, &call).await?;
                recorder.executed(&instance, &job, call, answer.clone());
                Ok(answer)
            })
        })
        .await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a call on a store.
async fn execute(store: &dyn Backend, job: &str, call: &Call) -> Result<Answer> {
    let runs = || store.runs().ok_or_else(|| Error::unavailable("the store has no leases"));
    match call {
        Call::Register(limits) => store.prepare_job(limits).await.map(|()| Answer::Bool(true)),
        Call::ClaimOnly(input) => store.claim(input).await.map(Answer::Bool),
        Call::SaveResult { result, history_size, history_ttl_ms } => {
            store.save_result(job, result, *history_size, *history_ttl_ms).await?;
            Ok(Answer::Bool(true))
        }
        Call::Claim(claim) => runs()?.claim(claim).await.map(Answer::Outcome),
        Call::ClaimManual(input) => runs()?.claim_manual(input).await.map(Answer::Outcome),
        Call::Heartbeat { slot, token, lease_ms } => {
            runs()?.heartbeat(job, *slot, token, *lease_ms).await.map(Answer::Bool)
        }
        Call::Finish { slot, token, status, result } => {
            runs()?.finish(job, *slot, token, *status, result.as_ref()).await.map(Answer::Bool)
        }
        Call::Release { slot, token } => runs()?.release(job, *slot, token).await.map(Answer::Bool),
        Call::Cancel { slot, manual } => {
            runs()?.cancel(job, *slot, *manual).await.map(Answer::Bool)
        }
        Call::Survey => runs()?.survey(job).await.map(Answer::Survey),
        Call::RecordMissed(range) => runs()?.record_missed(job, range).await.map(Answer::Bool),
        Call::SetPaused(request) => {
            runs()?.set_paused(job, request.as_ref()).await.map(|()| Answer::Bool(true))
        }
        Call::Forget => runs()?.forget(job).await.map(Answer::Bool),
    }
}

#[async_trait]
impl Backend for Chaos {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn dedupe_window_ms(&self) -> Option<i64> {
        self.inner.dedupe_window_ms()
    }

    fn has_own_clock(&self) -> bool {
        self.inner.has_own_clock()
    }

    async fn init(&self) -> Result<()> {
        self.send(None, |inner| Box::pin(async move { inner.init().await })).await
    }

    async fn prepare_job(&self, limits: &JobLimits) -> Result<()> {
        self.ask(&limits.name, Call::Register(limits.clone())).await.map(|_| ())
    }

    async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        Ok(self.ask(&input.job, Call::ClaimOnly(input.clone())).await?.is_true())
    }

    async fn record_manual_run(&self, input: &ClaimInput) -> Result<Option<i64>> {
        let input = input.clone();
        self.send(None, move |inner| {
            let input = input.clone();
            Box::pin(async move { inner.record_manual_run(&input).await })
        })
        .await
    }

    async fn save_result(
        &self,
        job: &str,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Result<()> {
        let result = result.clone();
        let call = Call::SaveResult { result, history_size, history_ttl_ms };
        self.ask(job, call).await.map(|_| ())
    }

    async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>> {
        let job = job.to_owned();
        self.send(None, move |inner| {
            let job = job.clone();
            Box::pin(async move { inner.history(&job, limit).await })
        })
        .await
    }

    /// The store is not this instance's to close.
    async fn close(&self) -> Result<()> {
        Ok(())
    }

    fn runs(&self) -> Option<&dyn RunStore> {
        self.leases.then_some(self)
    }
}

#[async_trait]
impl RunStore for Chaos {
    async fn claim(&self, claim: &RunClaim) -> Result<ClaimOutcome> {
        Ok(self.ask(&claim.input.job, Call::Claim(claim.clone())).await?.into_outcome())
    }

    async fn heartbeat(&self, job: &str, slot: i64, token: &str, lease_ms: i64) -> Result<bool> {
        let call = Call::Heartbeat { slot, token: token.to_owned(), lease_ms };
        Ok(self.ask(job, call).await?.is_true())
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
        Ok(self.ask(job, Call::Finish { slot, token, status, result }).await?.is_true())
    }

    async fn release(&self, job: &str, slot: i64, token: &str) -> Result<bool> {
        Ok(self.ask(job, Call::Release { slot, token: token.to_owned() }).await?.is_true())
    }

    async fn active(&self, job: &str) -> Result<Vec<ActiveRun>> {
        let job = job.to_owned();
        self.send(None, move |inner| {
            let job = job.clone();
            Box::pin(async move {
                match inner.runs() {
                    Some(runs) => runs.active(&job).await,
                    None => Ok(Vec::new()),
                }
            })
        })
        .await
    }

    fn has_survey(&self) -> bool {
        self.inner.runs().is_some_and(RunStore::has_survey)
    }

    async fn survey(&self, job: &str) -> Result<Survey> {
        Ok(self.ask(job, Call::Survey).await?.into_survey())
    }

    fn has_claim_manual(&self) -> bool {
        self.inner.runs().is_some_and(RunStore::has_claim_manual)
    }

    async fn claim_manual(&self, input: &ClaimInput) -> Result<ClaimOutcome> {
        Ok(self.ask(&input.job, Call::ClaimManual(input.clone())).await?.into_outcome())
    }

    fn keeps_result(&self) -> bool {
        self.inner.runs().is_some_and(RunStore::keeps_result)
    }

    fn has_record_missed(&self) -> bool {
        self.inner.runs().is_some_and(RunStore::has_record_missed)
    }

    async fn record_missed(&self, job: &str, range: &MissedRange) -> Result<bool> {
        Ok(self.ask(job, Call::RecordMissed(range.clone())).await?.is_true())
    }

    fn has_set_paused(&self) -> bool {
        self.inner.runs().is_some_and(RunStore::has_set_paused)
    }

    async fn set_paused(&self, job: &str, paused: Option<&PauseRequest>) -> Result<()> {
        self.ask(job, Call::SetPaused(paused.cloned())).await.map(|_| ())
    }

    fn has_cancel(&self) -> bool {
        self.inner.runs().is_some_and(RunStore::has_cancel)
    }

    async fn cancel(&self, job: &str, slot: i64, manual: bool) -> Result<bool> {
        Ok(self.ask(job, Call::Cancel { slot, manual }).await?.is_true())
    }

    fn has_forget(&self) -> bool {
        self.inner.runs().is_some_and(RunStore::has_forget)
    }

    async fn forget(&self, job: &str) -> Result<bool> {
        Ok(self.ask(job, Call::Forget).await?.is_true())
    }
}
