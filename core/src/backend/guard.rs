//! The one way in which the scheduler talks to a store: with a deadline, and with a name for what
//! failed.
//!
//! No answer within the deadline is an error like any other: the outcome is unknown, and the caller
//! asks again with the same token.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use crate::backend::contract::{
    Backend, ClaimInput, ClaimOutcome, Finish, Heartbeat, JobLimits, OutcomeKind, RunClaim,
    RunRecord, RunStore, StoredResult, Survey,
};
use crate::backend::patience::Patience;
use crate::clock::{Clock, sleep_for};
use crate::error::{Error, Result};
use crate::lease::hold::call_deadline;
use crate::lease::model::{MissedRange, RunKey, Status};

/// A backend behind deadlines and fall-backs for optional members.
#[derive(Clone)]
pub struct Guard {
    backend: Arc<dyn Backend>,
    clock: Arc<dyn Clock>,
    claims: Arc<Patience>,
    heartbeats: Arc<Patience>,
}

/// At most so many calls travel as one.
const TOGETHER: usize = 1_000;

/// How many records a survey without the store's help looks at.
const SURVEYED_RECORDS: usize = 1_000;

impl Guard {
    /// A guarded backend.
    pub fn new(backend: Arc<dyn Backend>, clock: Arc<dyn Clock>) -> Guard {
        Guard { backend, clock, claims: Arc::default(), heartbeats: Arc::default() }
    }

    /// The backend itself.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Whether the store has leases.
    pub fn has_leases(&self) -> bool {
        self.backend.runs().is_some()
    }

    /// How many of the calls of one moment are sent as one.
    pub fn sent_together(&self) -> usize {
        if self.backend.sends_together() { TOGETHER } else { 1 }
    }

    fn runs(&self) -> &dyn RunStore {
        self.backend.runs().expect("asked only where has_leases() said so")
    }

    /// Waits for a call, at most until its deadline (ms), and says which member failed.
    async fn call<T>(
        &self,
        member: &str,
        deadline_ms: i64,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // A panic inside a store is one more way of giving no answer: it must not take along the task
        // that waits for one.
        let call = AssertUnwindSafe(call).catch_unwind();
        tokio::select! {
            biased;
            answer = call => answer
                .unwrap_or_else(|panic| Err(Error::unavailable(said_in(&*panic))))
                .map_err(|error| error.in_context(&self.member(member))),
            () = sleep_for(&*self.clock, deadline_ms) => Err(self.silent(member, deadline_ms)),
        }
    }

    /// The same for calls that travel together.
    async fn call_all<T>(
        &self,
        member: &str,
        deadline_ms: i64,
        count: usize,
        calls: impl Future<Output = Vec<Result<T>>>,
    ) -> Vec<Result<T>> {
        let answers = self.call(member, deadline_ms, async { Ok(calls.await) }).await;
        match answers {
            Ok(answers) if answers.len() == count => answers
                .into_iter()
                .map(|answer| answer.map_err(|error| error.in_context(&self.member(member))))
                .collect(),
            Ok(answers) => {
                let told = format!("{} answers to {count} calls", answers.len());
                let error = Error::unavailable(format!("{}: {told}", self.member(member)));
                (0..count).map(|_| Err(error.clone())).collect()
            }
            Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
        }
    }

    /// A call about leases, the shortest of them `lease_ms` long: how long it may take depends on
    /// how long those before it took.
    async fn about_leases<T, F: Future<Output = T>>(
        &self,
        patience: &Patience,
        lease_ms: Option<i64>,
        call: impl FnOnce(i64) -> F,
    ) -> T {
        let (sent, deadline) = (self.clock.mono_ms(), patience.deadline(lease_ms));
        let answer = call(deadline).await;
        match self.clock.mono_ms() - sent {
            took if took >= deadline => patience.silent(),
            took => patience.answered(lease_ms, took),
        }
        answer
    }

    fn member(&self, member: &str) -> String {
        format!("backend {:?}, {member}", self.backend.name())
    }

    fn silent(&self, member: &str, deadline_ms: i64) -> Error {
        let member = self.member(member);
        Error::unavailable(format!("{member}: no answer within {deadline_ms} ms"))
    }

    /// Registers jobs.
    pub async fn prepare_jobs(&self, limits: &[JobLimits]) -> Vec<Result<()>> {
        // Creating tables, streams or queues may take longer than a claim.
        let deadline = call_deadline(None) * 6;
        self.call_all("prepareJob", deadline, limits.len(), self.backend.prepare_jobs(limits)).await
    }

    /// Claims with leases.
    pub async fn claim_runs(&self, claims: &[RunClaim]) -> Vec<Result<ClaimOutcome>> {
        let shortest = claims.iter().filter_map(|claim| claim.input.lease_ms).min();
        let calls = self.runs().claim_all(claims);
        let ask = |deadline| self.call_all("runs.claim", deadline, claims.len(), calls);
        self.about_leases(&self.claims, shortest, ask).await
    }

    /// Claims without leases, as the same outcomes.
    pub async fn claim_slots(&self, inputs: &[ClaimInput]) -> Vec<Result<ClaimOutcome>> {
        let calls = inputs.iter().map(|input| self.claim_slot(input));
        futures_util::future::join_all(calls).await
    }

    async fn claim_slot(&self, input: &ClaimInput) -> Result<ClaimOutcome> {
        let won = self.call("claim", call_deadline(None), self.backend.claim(input)).await?;
        let kind = if won { OutcomeKind::Won } else { OutcomeKind::Done };
        Ok(ClaimOutcome::of(kind))
    }

    /// Starts a manual run: `won` with the slot used, `overlap`, `late`, `done` or `running`.
    pub async fn claim_manual(&self, input: &ClaimInput) -> Result<ClaimOutcome> {
        match self.backend.runs().filter(|runs| runs.has_claim_manual()) {
            Some(runs) => {
                let call = runs.claim_manual(input);
                let ask = |deadline| self.call("runs.claimManual", deadline, call);
                self.about_leases(&self.claims, input.lease_ms, ask).await
            }
            None => {
                let call = self.backend.record_manual_run(input);
                let slot = self.call("recordManualRun", call_deadline(None), call).await?;
                let slot = Some(slot.unwrap_or(input.slot));
                Ok(ClaimOutcome { slot, ..ClaimOutcome::of(OutcomeKind::Won) })
            }
        }
    }

    /// Called after a won claim, for stores whose claims are not history records.
    pub async fn record_claim(&self, input: &ClaimInput) -> Result<()> {
        self.call("recordClaim", call_deadline(None), self.backend.record_claim(input)).await
    }

    /// Renews leases.
    pub async fn heartbeats(&self, beats: &[Heartbeat]) -> Vec<Result<bool>> {
        let shortest = beats.iter().map(|beat| beat.lease_ms).min();
        let calls = self.runs().heartbeat_all(beats);
        let ask = |deadline| self.call_all("runs.heartbeat", deadline, beats.len(), calls);
        self.about_leases(&self.heartbeats, shortest, ask).await
    }

    /// Ends runs that are held under a lease.
    pub async fn finish_runs(&self, ends: &[Finish]) -> Vec<Result<bool>> {
        let calls = self.runs().finish_all(ends);
        self.call_all("runs.finish", call_deadline(None), ends.len(), calls).await
    }

    /// Stores a result apart from the end of the run.
    pub async fn save_result(
        &self,
        job: &str,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Result<()> {
        let call = self.backend.save_result(job, result, history_size, history_ttl_ms);
        self.call("saveResult", call_deadline(None), call).await
    }

    /// Whether a finished run still needs [`Guard::save_result`].
    pub fn saves_results_apart(&self) -> bool {
        !self.backend.runs().is_some_and(RunStore::keeps_result)
    }

    /// Gives a lease back.
    pub async fn release(&self, job: &str, slot: i64, token: &str) -> Result<bool> {
        let call = self.runs().release(job, slot, token);
        self.call("runs.release", call_deadline(None), call).await
    }

    /// Surveys jobs; by `active` and `history` where the store has no survey.
    pub async fn surveys(&self, jobs: &[String]) -> Vec<Result<Survey>> {
        match self.backend.runs().filter(|runs| runs.has_survey()) {
            Some(runs) => {
                let calls = runs.survey_all(jobs);
                self.call_all("runs.survey", call_deadline(None), jobs.len(), calls).await
            }
            None => {
                futures_util::future::join_all(jobs.iter().map(|job| self.survey_by_hand(job)))
                    .await
            }
        }
    }

    /// What can be said of a job without the store's survey. Our own clock serves, and nothing
    /// before the oldest record counts as missed.
    async fn survey_by_hand(&self, job: &str) -> Result<Survey> {
        let runs = match self.backend.runs() {
            Some(runs) => self.call("runs.active", call_deadline(None), runs.active(job)).await?,
            None => Vec::new(),
        };
        let records = self.history(job, SURVEYED_RECORDS).await?;
        let mut slots: Vec<i64> = records.iter().filter(|r| !r.manual).map(|r| r.slot).collect();
        slots.extend(runs.iter().filter(|run| !run.manual).map(|run| run.slot));
        slots.sort_unstable();
        slots.dedup();
        let now_ms = self.clock.wall_ms();
        let since = slots.first().copied().unwrap_or(now_ms);
        Ok(Survey { now_ms, since, slots, runs, ..Survey::default() })
    }

    /// The latest runs, newest first.
    pub async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>> {
        self.call("history", call_deadline(None), self.backend.history(job, limit)).await
    }

    /// The record of one run, among the latest.
    pub async fn record(&self, job: &str, key: RunKey) -> Result<Option<RunRecord>> {
        let records = self.history(job, SURVEYED_RECORDS).await?;
        Ok(records.into_iter().find(|r| r.slot == key.slot && r.manual == key.manual))
    }

    /// Whether the store keeps what was reported as missed, and shows it in its surveys.
    pub fn remembers_missed(&self) -> bool {
        let runs = self.backend.runs();
        runs.is_some_and(|runs| runs.has_record_missed() && runs.has_survey())
    }

    /// Keeps a missed range for the fleet, where the store can.
    pub async fn record_missed(&self, job: &str, range: &MissedRange) -> Result<()> {
        match self.backend.runs().filter(|runs| runs.has_record_missed()) {
            Some(runs) => {
                let call = runs.record_missed(job, range);
                self.call("runs.recordMissed", call_deadline(None), call).await.map(|_known| ())
            }
            None => Ok(()),
        }
    }

    /// Ends one run, for what does not travel with others.
    pub async fn finish_run(
        &self,
        job: &str,
        slot: i64,
        token: &str,
        status: Status,
    ) -> Result<bool> {
        let call = self.runs().finish(job, slot, token, status, None);
        self.call("runs.finish", call_deadline(None), call).await
    }

    /// Any other call to the leases, by the name of its member.
    pub async fn on_runs<T>(
        &self,
        member: &str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.call(member, call_deadline(None), call).await
    }
}

/// What a panic says.
fn said_in(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("without a message"))
}
