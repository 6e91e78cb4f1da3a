//! The contract on top of the engine: every member is one call of the rules.

use std::sync::Arc;

use async_trait::async_trait;

use super::client::{Lane, SqlValue};
use super::engine::{Access, Ask, SqlEngine, SqlStore};
use super::load;
use super::statements::{Runs, Scope};
use crate::backend::contract::{
    ActiveRun, Backend, ClaimInput, ClaimOutcome, Finish, Heartbeat, JobLimits, PauseRequest,
    RunClaim, RunRecord, RunStore, StoredResult, Survey, Wake, WakeListener,
};
use crate::backend::history::stored_record;
use crate::error::Result;
use crate::lease::model::{JobState, MissedRange, Status};
use crate::lease::rules::{self, Answer, Call};

impl<S: SqlStore + ?Sized + 'static> SqlEngine<S> {
    async fn ordinary(&self, job: &str, call: Call) -> Result<Answer> {
        self.step(Lane::Ordinary, job, call).await
    }

    /// What is stored of a job, for tests that compare.
    ///
    /// # Errors
    /// Whatever reading fails with.
    pub async fn state(&self, job: &str) -> Result<JobState> {
        let live = self.live()?;
        let scope = Scope::with_missed(Runs::All);
        let mut read = self.read(&live, Lane::Ordinary, scope, &[job], &[]).await?;
        Ok(read.jobs.remove(job).unwrap_or_default().state)
    }

    async fn together(&self, asks: impl Iterator<Item = (String, Call)>) -> Vec<Result<Answer>> {
        let asks = asks.map(|(job, call)| Ask { job, call }).collect();
        self.steps(Lane::Ordinary, asks).await
    }
}

#[async_trait]
impl<S: SqlStore + ?Sized + 'static> Backend for SqlEngine<S> {
    fn name(&self) -> String {
        self.shared.store.name()
    }

    async fn init(&self) -> Result<()> {
        self.open(Access::Full).await
    }

    async fn init_reader(&self) -> Result<()> {
        self.open(Access::Reader).await
    }

    async fn prepare_job(&self, limits: &JobLimits) -> Result<()> {
        self.ordinary(&limits.name, Call::Register(limits.clone())).await.map(drop)
    }

    async fn prepare_jobs(&self, limits: &[JobLimits]) -> Vec<Result<()>> {
        let calls = limits.iter().map(|one| (one.name.clone(), Call::Register(one.clone())));
        let answers = self.together(calls).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        let answer = self.ordinary(&input.job, Call::ClaimOnly(input.clone())).await;
        answer.map(|answer| answer.is_true())
    }

    async fn record_manual_run(&self, input: &ClaimInput) -> Result<Option<i64>> {
        let answer = self.ordinary(&input.job, Call::ClaimManual(input.clone())).await?;
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
        self.ordinary(job, call).await.map(drop)
    }

    async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>> {
        let live = self.live()?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX).min(1_000_000);
        let params = [
            SqlValue::Text(self.namespace.clone()),
            SqlValue::Text(job.to_owned()),
            SqlValue::Int(limit),
        ];
        let rows = self.patiently(|| live.client.all(&live.statements.history, &params)).await?;
        let mut records = Vec::with_capacity(rows.len());
        for row in rows {
            let (now, run, result) = load::read_history_row(row)?;
            let now = self.shared.options.clock.as_ref().map_or(now, |clock| clock.wall_ms());
            records.push(stored_record(job, &run, result.as_ref(), now));
        }
        Ok(records)
    }

    async fn close(&self) -> Result<()> {
        if self.is_view {
            return Ok(());
        }
        self.shut().await
    }

    fn runs(&self) -> Option<&dyn RunStore> {
        Some(self)
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }

    fn with_namespace(&self, namespace: &str) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(SqlEngine {
            shared: self.shared.clone(),
            namespace: namespace.to_owned(),
            is_view: true,
        }))
    }
}

#[async_trait]
impl<S: SqlStore + ?Sized + 'static> RunStore for SqlEngine<S> {
    async fn claim(&self, claim: &RunClaim) -> Result<ClaimOutcome> {
        let answer = self.ordinary(&claim.input.job, Call::Claim(claim.clone())).await;
        answer.map(Answer::into_outcome)
    }

    async fn claim_all(&self, claims: &[RunClaim]) -> Vec<Result<ClaimOutcome>> {
        let calls = claims.iter().map(|one| (one.input.job.clone(), Call::Claim(one.clone())));
        let answers = self.together(calls).await;
        answers.into_iter().map(|answer| answer.map(Answer::into_outcome)).collect()
    }

    async fn heartbeat(&self, job: &str, slot: i64, token: &str, lease_ms: i64) -> Result<bool> {
        let call = Call::Heartbeat { slot, token: token.to_owned(), lease_ms };
        self.step(Lane::Heartbeat, job, call).await.map(|answer| answer.is_true())
    }

    async fn heartbeat_all(&self, beats: &[Heartbeat]) -> Vec<Result<bool>> {
        let asks = beats.iter().map(|beat| Ask {
            job: beat.job.clone(),
            call: Call::Heartbeat {
                slot: beat.slot,
                token: beat.token.clone(),
                lease_ms: beat.lease_ms,
            },
        });
        let answers = self.steps(Lane::Heartbeat, asks.collect()).await;
        answers.into_iter().map(|answer| answer.map(|answer| answer.is_true())).collect()
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
        let answer = self.ordinary(job, Call::Finish { slot, token, status, result }).await;
        let ended = answer?.is_true();
        if ended {
            self.shared.store.wake(&self.namespace, vec![job.to_owned()], Wake::Finished);
        }
        Ok(ended)
    }

    async fn finish_all(&self, ends: &[Finish]) -> Vec<Result<bool>> {
        let calls = ends.iter().map(|end| {
            let (token, result) = (end.token.clone(), end.result.clone());
            let call = Call::Finish { slot: end.slot, token, status: end.status, result };
            (end.job.clone(), call)
        });
        let answers = self.together(calls).await;
        let answers: Vec<Result<bool>> =
            answers.into_iter().map(|answer| answer.map(|answer| answer.is_true())).collect();
        let ended = ends.iter().zip(&answers).filter(|(_, answer)| matches!(answer, Ok(true)));
        let jobs: Vec<String> = ended.map(|(end, _)| end.job.clone()).collect();
        if !jobs.is_empty() {
            self.shared.store.wake(&self.namespace, jobs, Wake::Finished);
        }
        answers
    }

    async fn release(&self, job: &str, slot: i64, token: &str) -> Result<bool> {
        let call = Call::Release { slot, token: token.to_owned() };
        let released = self.ordinary(job, call).await?.is_true();
        if released {
            self.shared.store.wake(&self.namespace, vec![job.to_owned()], Wake::Released);
        }
        Ok(released)
    }

    fn watch(&self, listener: &Arc<WakeListener>) {
        self.shared.store.watch(&self.namespace, listener);
    }

    async fn active(&self, job: &str) -> Result<Vec<ActiveRun>> {
        let live = self.live()?;
        let (scope, jobs) = (Scope::of(Runs::Open), [job]);
        let mut read =
            self.patiently(|| self.read(&live, Lane::Ordinary, scope, &jobs, &[])).await?;
        let loaded = read.jobs.remove(job).unwrap_or_default();
        Ok(rules::active(&loaded.state, read.now))
    }

    fn has_survey(&self) -> bool {
        true
    }

    async fn survey(&self, job: &str) -> Result<Survey> {
        self.ordinary(job, Call::Survey).await.map(Answer::into_survey)
    }

    async fn survey_all(&self, jobs: &[String]) -> Vec<Result<Survey>> {
        let answers = self.together(jobs.iter().map(|job| (job.clone(), Call::Survey))).await;
        answers.into_iter().map(|answer| answer.map(Answer::into_survey)).collect()
    }

    fn has_claim_manual(&self) -> bool {
        true
    }

    async fn claim_manual(&self, input: &ClaimInput) -> Result<ClaimOutcome> {
        let answer = self.ordinary(&input.job, Call::ClaimManual(input.clone())).await;
        answer.map(Answer::into_outcome)
    }

    fn keeps_result(&self) -> bool {
        true
    }

    fn has_record_missed(&self) -> bool {
        true
    }

    async fn record_missed(&self, job: &str, range: &MissedRange) -> Result<bool> {
        let answer = self.ordinary(job, Call::RecordMissed(range.clone())).await;
        answer.map(|answer| answer.is_true())
    }

    fn has_set_paused(&self) -> bool {
        true
    }

    async fn set_paused(&self, job: &str, paused: Option<&PauseRequest>) -> Result<()> {
        self.ordinary(job, Call::SetPaused(paused.cloned())).await.map(drop)
    }

    fn has_cancel(&self) -> bool {
        true
    }

    async fn cancel(&self, job: &str, slot: i64, manual: bool) -> Result<bool> {
        let answer = self.ordinary(job, Call::Cancel { slot, manual }).await;
        answer.map(|answer| answer.is_true())
    }

    fn has_forget(&self) -> bool {
        true
    }

    async fn forget(&self, job: &str) -> Result<bool> {
        self.ordinary(job, Call::Forget).await.map(|answer| answer.is_true())
    }
}
