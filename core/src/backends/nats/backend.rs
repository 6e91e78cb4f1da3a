//! The contract: what each member asks of the engine.

use std::sync::Arc;

use async_trait::async_trait;

use super::api::Api;
use super::check;
use super::engine::Ask;
use super::store::{Access, NatsBackend};
use super::stored::{Stored, decode_body};
use super::subjects;
use super::watch::Subject;
use crate::backend::contract::{
    ActiveRun, Backend, ClaimInput, ClaimOutcome, Finish, Heartbeat, JobLimits, PauseRequest,
    RunClaim, RunRecord, RunStore, StoredResult, Survey, Wake, WakeListener,
};
use crate::backend::history::stored_record;
use crate::backends::watching;
use crate::error::Result;
use crate::lease::model::{MissedRange, Run, Status};
use crate::lease::rules::{self, Answer, Call};

/// How often a history is read anew whose bodies were trimmed meanwhile.
const READINGS: usize = 3;

impl NatsBackend {
    async fn step(&self, job: &str, call: Call) -> Result<Answer> {
        self.engine()?.run(job, call).await
    }

    async fn steps(&self, asks: Vec<Ask>) -> Vec<Result<Answer>> {
        match self.engine() {
            Ok(engine) => engine.run_all(&asks).await,
            Err(error) => asks.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Tells whoever listens in this namespace; nobody waits for it.
    async fn push(&self, job: &str, wake: Wake) {
        let Ok(link) = self.shared.links.take().await else { return };
        let subject = subjects::of_wakes(&self.shared.options.prefix, &self.namespace);
        let word = match wake {
            Wake::Released => "released",
            Wake::Finished => "finished",
        };
        link.tell(subject, format!("{word} {job}").into_bytes()).await;
    }

    /// The bodies of runs, and whether all that the state names are there.
    async fn bodies(
        &self,
        api: &Api<'_>,
        stored: &Stored,
        runs: &[&Run],
    ) -> Result<(Vec<Option<StoredResult>>, bool)> {
        let numbers: Vec<Option<u64>> =
            runs.iter().map(|run| stored.bodies.get(&run.key()).copied()).collect();
        let named: Vec<u64> = numbers.iter().flatten().copied().collect();
        let mut found = api.messages(&named).await?.into_iter();
        let mut is_whole = true;
        let mut bodies = Vec::with_capacity(runs.len());
        for number in numbers {
            let kept = number.and_then(|_| found.next().flatten());
            is_whole &= number.is_none() || kept.is_some();
            bodies.push(kept.map(|kept| decode_body(&kept.data)).transpose()?);
        }
        Ok((bodies, is_whole))
    }

    fn register(&self, limits: &JobLimits) -> Ask {
        Ask { job: limits.name.clone(), call: Call::Register(limits.clone()) }
    }

    /// Whether a job's state stays small enough, on the server that we are connected to.
    async fn check_size(&self, limits: &JobLimits) -> Result<()> {
        let link = self.shared.links.take().await?;
        let records = limits.history_size.max(limits.keep_slots.unwrap_or(0));
        check::size(link.client.max_payload(), &limits.name, records)
    }
}

#[async_trait]
impl Backend for NatsBackend {
    fn name(&self) -> String {
        "nats".to_owned()
    }

    async fn init(&self) -> Result<()> {
        self.shared.open(Access::Full).await
    }

    async fn init_reader(&self) -> Result<()> {
        self.shared.open(Access::Reader).await
    }

    async fn prepare_job(&self, limits: &JobLimits) -> Result<()> {
        self.check_size(limits).await?;
        self.step(&limits.name, Call::Register(limits.clone())).await.map(drop)
    }

    async fn prepare_jobs(&self, limits: &[JobLimits]) -> Vec<Result<()>> {
        let mut answers = Vec::with_capacity(limits.len());
        for one in limits {
            answers.push(self.check_size(one).await);
        }
        let fitting: Vec<usize> = (0..limits.len()).filter(|at| answers[*at].is_ok()).collect();
        let asks = fitting.iter().map(|at| self.register(&limits[*at])).collect();
        for (at, answer) in fitting.into_iter().zip(self.steps(asks).await) {
            answers[at] = answer.map(drop);
        }
        answers
    }

    async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        let answer = self.step(&input.job, Call::ClaimOnly(input.clone())).await?;
        Ok(answer.is_true())
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
        let call = Call::SaveResult { result: result.clone(), history_size, history_ttl_ms };
        self.step(job, call).await.map(drop)
    }

    async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>> {
        let engine = self.engine()?;
        let link = self.shared.links.take().await?;
        let api = self.shared.api(&link);
        for reading in 1.. {
            let (mut stored, now) = engine.look(&api, job).await?;
            let newest = stored.state.runs.keys().rev().take(limit).copied();
            let archives = stored.archives_of(newest);
            let is_filled = engine.fill(&api, &mut stored, archives).await?;
            let runs: Vec<&Run> = stored.state.runs.values().rev().take(limit).collect();
            let (bodies, is_whole) = self.bodies(&api, &stored, &runs).await?;
            // What was trimmed in between is read anew. A body or an archive that the store has
            // lost is missing in what it shows, and no more.
            if (is_filled && is_whole) || reading >= READINGS {
                let runs = runs.into_iter().zip(&bodies);
                let records = runs.map(|(run, body)| stored_record(job, run, body.as_ref(), now));
                return Ok(records.collect());
            }
        }
        Ok(Vec::new())
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
        Some(Arc::new(NatsBackend {
            shared: self.shared.clone(),
            namespace: namespace.to_owned(),
            is_view: true,
        }))
    }
}

#[async_trait]
impl RunStore for NatsBackend {
    async fn claim(&self, claim: &RunClaim) -> Result<ClaimOutcome> {
        let answer = self.step(&claim.input.job, Call::Claim(claim.clone())).await?;
        Ok(answer.into_outcome())
    }

    async fn claim_all(&self, claims: &[RunClaim]) -> Vec<Result<ClaimOutcome>> {
        let asks = claims
            .iter()
            .map(|one| Ask { job: one.input.job.clone(), call: Call::Claim(one.clone()) });
        let answers = self.steps(asks.collect()).await;
        answers.into_iter().map(|answer| answer.map(Answer::into_outcome)).collect()
    }

    async fn heartbeat(&self, job: &str, slot: i64, token: &str, lease_ms: i64) -> Result<bool> {
        let call = Call::Heartbeat { slot, token: token.to_owned(), lease_ms };
        Ok(self.step(job, call).await?.is_true())
    }

    async fn heartbeat_all(&self, beats: &[Heartbeat]) -> Vec<Result<bool>> {
        let asks = beats.iter().map(|beat| {
            let (slot, token, lease_ms) = (beat.slot, beat.token.clone(), beat.lease_ms);
            Ask { job: beat.job.clone(), call: Call::Heartbeat { slot, token, lease_ms } }
        });
        let answers = self.steps(asks.collect()).await;
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
        let call = Call::Finish { slot, token, status, result };
        let finished = self.step(job, call).await?.is_true();
        if finished {
            self.push(job, Wake::Finished).await;
        }
        Ok(finished)
    }

    async fn finish_all(&self, ends: &[Finish]) -> Vec<Result<bool>> {
        let asks = ends.iter().map(|end| {
            let (slot, status) = (end.slot, end.status);
            let (token, result) = (end.token.clone(), end.result.clone());
            Ask { job: end.job.clone(), call: Call::Finish { slot, token, status, result } }
        });
        let answers = self.steps(asks.collect()).await;
        for (end, answer) in ends.iter().zip(&answers) {
            if answer.as_ref().is_ok_and(Answer::is_true) {
                self.push(&end.job, Wake::Finished).await;
            }
        }
        answers.into_iter().map(|answer| answer.map(|answer| answer.is_true())).collect()
    }

    async fn release(&self, job: &str, slot: i64, token: &str) -> Result<bool> {
        let call = Call::Release { slot, token: token.to_owned() };
        let released = self.step(job, call).await?.is_true();
        if released {
            self.push(job, Wake::Released).await;
        }
        Ok(released)
    }

    async fn active(&self, job: &str) -> Result<Vec<ActiveRun>> {
        let engine = self.engine()?;
        let link = self.shared.links.take().await?;
        let (stored, now) = engine.look(&self.shared.api(&link), job).await?;
        Ok(rules::active(&stored.state, now))
    }

    fn has_survey(&self) -> bool {
        true
    }

    async fn survey(&self, job: &str) -> Result<Survey> {
        Ok(self.step(job, Call::Survey).await?.into_survey())
    }

    async fn survey_all(&self, jobs: &[String]) -> Vec<Result<Survey>> {
        let asks = jobs.iter().map(|job| Ask { job: job.clone(), call: Call::Survey });
        let answers = self.steps(asks.collect()).await;
        answers.into_iter().map(|answer| answer.map(Answer::into_survey)).collect()
    }

    fn has_claim_manual(&self) -> bool {
        true
    }

    async fn claim_manual(&self, input: &ClaimInput) -> Result<ClaimOutcome> {
        let answer = self.step(&input.job, Call::ClaimManual(input.clone())).await?;
        Ok(answer.into_outcome())
    }

    fn keeps_result(&self) -> bool {
        true
    }

    fn has_record_missed(&self) -> bool {
        true
    }

    async fn record_missed(&self, job: &str, range: &MissedRange) -> Result<bool> {
        Ok(self.step(job, Call::RecordMissed(range.clone())).await?.is_true())
    }

    fn has_set_paused(&self) -> bool {
        true
    }

    async fn set_paused(&self, job: &str, paused: Option<&PauseRequest>) -> Result<()> {
        self.step(job, Call::SetPaused(paused.cloned())).await.map(drop)
    }

    fn has_cancel(&self) -> bool {
        true
    }

    async fn cancel(&self, job: &str, slot: i64, manual: bool) -> Result<bool> {
        Ok(self.step(job, Call::Cancel { slot, manual }).await?.is_true())
    }

    fn watch(&self, listener: &Arc<WakeListener>) {
        let name = subjects::of_wakes(&self.shared.options.prefix, &self.namespace);
        let subject = Subject { shared: self.shared.clone(), name };
        watching::watch(subject, listener, self.shared.closing());
    }

    fn has_forget(&self) -> bool {
        true
    }

    async fn forget(&self, job: &str) -> Result<bool> {
        let forgotten = self.step(job, Call::Forget).await?.is_true();
        if forgotten {
            // With no run unfinished no body is on its way: what is left of them goes, also what a
            // replica left behind that died between writing a body and naming it.
            let link = self.shared.links.take().await?;
            let filter = subjects::of_bodies(&self.shared.options.prefix, &self.namespace, job);
            self.shared.api(&link).purge(&filter).await?;
        }
        Ok(forgotten)
    }
}
