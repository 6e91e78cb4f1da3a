//! The contract: every member is one script, in one round trip.

use std::sync::Arc;

use async_trait::async_trait;

use super::answer;
use super::ask::Ask;
use super::pool::Lane;
use super::script::Operation;
use super::store::{Access, RedisBackend};
use super::watch::Channel;
use crate::backend::contract::{
    ActiveRun, Backend, ClaimInput, ClaimOutcome, Finish, Heartbeat, JobLimits, PauseRequest,
    RunClaim, RunRecord, RunStore, StoredResult, Survey, WakeListener,
};
use crate::backends::watching;
use crate::error::Result;
use crate::lease::model::{MissedRange, Status};

impl RedisBackend {
    async fn is_true(&self, ask: Result<Ask>) -> Result<bool> {
        answer::truth(self.run(Lane::Ordinary, ask).await?)
    }
}

#[async_trait]
impl Backend for RedisBackend {
    fn name(&self) -> String {
        "redis".to_owned()
    }

    async fn init(&self) -> Result<()> {
        self.shared.open(Access::Full).await
    }

    async fn init_reader(&self) -> Result<()> {
        self.shared.open(Access::Reader).await
    }

    async fn prepare_job(&self, limits: &JobLimits) -> Result<()> {
        self.is_true(Ok(Ask::register(self.place(&limits.name), limits))).await.map(drop)
    }

    async fn prepare_jobs(&self, limits: &[JobLimits]) -> Vec<Result<()>> {
        let asks = limits.iter().map(|one| Ok(Ask::register(self.place(&one.name), one)));
        let answers = self.run_all(Lane::Ordinary, asks.collect()).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        self.is_true(Ask::claim_only(self.place(&input.job), input)).await
    }

    async fn record_manual_run(&self, input: &ClaimInput) -> Result<Option<i64>> {
        RunStore::claim_manual(self, input).await?.into_manual_slot(input)
    }

    async fn save_result(
        &self,
        job: &str,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Result<()> {
        let ask = Ask::save_result(self.place(job), result, history_size, history_ttl_ms);
        self.is_true(ask).await.map(drop)
    }

    async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>> {
        let ask = Ask::history(self.place(job), limit);
        answer::history(job, limit, self.run(Lane::Ordinary, Ok(ask)).await?)
    }

    async fn close(&self) -> Result<()> {
        if !self.is_view {
            self.shared.shut().await;
        }
        Ok(())
    }

    fn runs(&self) -> Option<&dyn RunStore> {
        Some(self)
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }

    fn with_namespace(&self, namespace: &str) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(RedisBackend {
            shared: self.shared.clone(),
            namespace: namespace.to_owned(),
            is_view: true,
        }))
    }
}

#[async_trait]
impl RunStore for RedisBackend {
    async fn claim(&self, claim: &RunClaim) -> Result<ClaimOutcome> {
        let ask = Ask::claim(self.place(&claim.input.job), claim);
        answer::outcome(self.run(Lane::Ordinary, ask).await?)
    }

    async fn claim_all(&self, claims: &[RunClaim]) -> Vec<Result<ClaimOutcome>> {
        let asks = claims.iter().map(|one| Ask::claim(self.place(&one.input.job), one));
        let answers = self.run_all(Lane::Ordinary, asks.collect()).await;
        answers.into_iter().map(|answer| answer.and_then(answer::outcome)).collect()
    }

    async fn heartbeat(&self, job: &str, slot: i64, token: &str, lease_ms: i64) -> Result<bool> {
        let ask = Ask::heartbeat(self.place(job), slot, token, lease_ms);
        answer::truth(self.run(Lane::Heartbeat, ask).await?)
    }

    async fn heartbeat_all(&self, beats: &[Heartbeat]) -> Vec<Result<bool>> {
        let asks = beats.iter().map(|beat| {
            Ask::heartbeat(self.place(&beat.job), beat.slot, &beat.token, beat.lease_ms)
        });
        let answers = self.run_all(Lane::Heartbeat, asks.collect()).await;
        answers.into_iter().map(|answer| answer.and_then(answer::truth)).collect()
    }

    async fn finish(
        &self,
        job: &str,
        slot: i64,
        token: &str,
        status: Status,
        result: Option<&StoredResult>,
    ) -> Result<bool> {
        let channel = self.channel();
        self.is_true(Ask::finish(self.place(job), slot, token, status, result, &channel)).await
    }

    async fn finish_all(&self, ends: &[Finish]) -> Vec<Result<bool>> {
        let channel = self.channel();
        let asks = ends.iter().map(|end| {
            let result = end.result.as_ref();
            Ask::finish(self.place(&end.job), end.slot, &end.token, end.status, result, &channel)
        });
        let answers = self.run_all(Lane::Ordinary, asks.collect()).await;
        answers.into_iter().map(|answer| answer.and_then(answer::truth)).collect()
    }

    async fn release(&self, job: &str, slot: i64, token: &str) -> Result<bool> {
        self.is_true(Ask::release(self.place(job), slot, token, &self.channel())).await
    }

    async fn active(&self, job: &str) -> Result<Vec<ActiveRun>> {
        let ask = Ask::bare(Operation::Active, self.place(job));
        answer::active(self.run(Lane::Ordinary, Ok(ask)).await?)
    }

    fn has_survey(&self) -> bool {
        true
    }

    async fn survey(&self, job: &str) -> Result<Survey> {
        let ask = Ask::bare(Operation::Survey, self.place(job));
        answer::survey(self.run(Lane::Ordinary, Ok(ask)).await?)
    }

    async fn survey_all(&self, jobs: &[String]) -> Vec<Result<Survey>> {
        let asks = jobs.iter().map(|job| Ok(Ask::bare(Operation::Survey, self.place(job))));
        let answers = self.run_all(Lane::Ordinary, asks.collect()).await;
        answers.into_iter().map(|answer| answer.and_then(answer::survey)).collect()
    }

    fn has_claim_manual(&self) -> bool {
        true
    }

    async fn claim_manual(&self, input: &ClaimInput) -> Result<ClaimOutcome> {
        let ask = Ask::claim_manual(self.place(&input.job), input);
        answer::outcome(self.run(Lane::Ordinary, ask).await?)
    }

    fn keeps_result(&self) -> bool {
        true
    }

    fn has_record_missed(&self) -> bool {
        true
    }

    async fn record_missed(&self, job: &str, range: &MissedRange) -> Result<bool> {
        self.is_true(Ask::record_missed(self.place(job), range)).await
    }

    fn has_set_paused(&self) -> bool {
        true
    }

    async fn set_paused(&self, job: &str, paused: Option<&PauseRequest>) -> Result<()> {
        self.is_true(Ok(Ask::set_paused(self.place(job), paused))).await.map(drop)
    }

    fn has_cancel(&self) -> bool {
        true
    }

    async fn cancel(&self, job: &str, slot: i64, manual: bool) -> Result<bool> {
        self.is_true(Ask::cancel(self.place(job), slot, manual)).await
    }

    fn watch(&self, listener: &Arc<WakeListener>) {
        let channel = Channel { options: self.shared.options.clone(), name: self.channel() };
        watching::watch(channel, listener, self.shared.closing());
    }

    fn has_forget(&self) -> bool {
        true
    }

    async fn forget(&self, job: &str) -> Result<bool> {
        self.is_true(Ok(Ask::bare(Operation::Forget, self.place(job)))).await
    }
}
