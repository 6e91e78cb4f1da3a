//! A store over the pure rules, with one thing wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anarchon::backend::contract::{
    ActiveRun, Backend, ClaimInput, ClaimKind, ClaimOutcome, JobLimits, Overlap, PauseRequest,
    RunClaim, RunRecord, RunStore, StoredResult, Survey,
};
use anarchon::backend::history::stored_record;
use anarchon::clock::{Clock, SystemClock};
use anarchon::lease::model::{JobState, MissedRange, RunKey, Status};
use anarchon::lease::rules::{self, Answer, Call, Change, Decision};
use anarchon::{Error, Result};
use async_trait::async_trait;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    Nothing,
    NoLeases,
    ChecksThenWrites,
    ChecksThenWritesLeases,
    IgnoresTheToken,
    RefusesTheRepeat,
    ThrowsOnRepeat,
    ForgetsAtTrim,
    NeverTrims,
    RefusesOlderSlots,
    HistoryWithoutResults,
    LosesTheOutput,
    OldestFirst,
    IgnoresTheLimit,
    SharesStateByPrefix,
    IgnoresCase,
    LosesTheManualFlag,
    TakesOverALiveLease,
    NeverTakesOver,
    HeartbeatWithoutToken,
    MovesTheLeaseBack,
    HeartbeatAfterRelease,
    FinishWithoutToken,
    FinishIsNotRepeatable,
    NeverReleases,
    CountsReleasesAsCrashes,
    RevivesSpentLeases,
    RepeatDoesNotRenew,
    TakeoverKeepsTheOldLength,
    AttemptsStandStill,
    FencesStandStill,
    IgnoresOverlap,
    SkipsWithoutRecord,
    AskersPolicyDecides,
    IgnoresPauses,
    StartsTooLate,
    BackupStarts,
    SurveyMissesSlots,
    ActiveShowsLostRuns,
    SaysNothingOfOthers,
    LongJobNamesFail,
}

#[derive(Default)]
struct Job {
    state: JobState,
    results: HashMap<RunKey, StoredResult>,
}

impl Job {
    fn apply(&mut self, changes: &[Change]) {
        rules::apply(&mut self.state, changes);
        for change in changes {
            if let Change::Put { run, result: Some(result) } = change {
                self.results.insert(run.key(), (**result).clone());
            }
        }
    }
}

pub struct Broken {
    flaw: Flaw,
    jobs: Mutex<HashMap<String, Job>>,
}

impl Broken {
    #[expect(clippy::new_ret_no_self, reason = "nobody needs it as anything but a backend")]
    pub fn new(flaw: Flaw) -> Arc<dyn Backend> {
        Arc::new(Broken { flaw, jobs: Mutex::default() })
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<String, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, job: &str) -> String {
        match self.flaw {
            Flaw::SharesStateByPrefix => job.chars().take(64).collect(),
            Flaw::IgnoresCase => job.to_lowercase(),
            _ => job.to_owned(),
        }
    }

    fn step(&self, job: &str, call: &Call) -> Answer {
        let now = SystemClock.wall_ms();
        let mut jobs = self.jobs();
        let job = jobs.entry(self.key(job)).or_default();
        let before = job.state.clone();
        let mut call = call.clone();
        self.spoil_call(&mut job.state, &mut call, now);
        let mut decision = rules::decide(&job.state, &call, now);
        self.spoil_decision(&job.state, &call, &mut decision);
        job.apply(&decision.changes);
        self.spoil_state(&before, &mut job.state, &call, &decision.answer, now);
        decision.answer
    }

    /// What goes wrong before a decision.
    fn spoil_call(&self, state: &mut JobState, call: &mut Call, now: i64) {
        let holder = |state: &JobState, slot: i64| {
            state.runs.get(&RunKey::scheduled(slot)).map(|run| run.token.clone())
        };
        match (self.flaw, call) {
            (Flaw::HeartbeatWithoutToken, Call::Heartbeat { slot, token, .. })
            | (Flaw::FinishWithoutToken, Call::Finish { slot, token, .. }) => {
                *token = holder(state, *slot).unwrap_or_default();
            }
            (Flaw::HeartbeatAfterRelease, Call::Heartbeat { slot, .. }) => {
                if let Some(run) = state.runs.get_mut(&RunKey::scheduled(*slot)) {
                    run.released = false;
                }
            }
            (flaw, Call::Claim(claim)) => spoil_claim(flaw, state, claim, now),
            _ => {}
        }
    }

    /// What goes wrong with an answer.
    fn spoil_decision(&self, state: &JobState, call: &Call, decision: &mut Decision) {
        match (self.flaw, call, &mut decision.answer) {
            (Flaw::IgnoresTheToken, Call::ClaimOnly(_), Answer::Bool(won)) => *won = true,
            (Flaw::RefusesTheRepeat, Call::ClaimOnly(input), Answer::Bool(won)) => {
                *won = *won && !state.runs.contains_key(&RunKey::scheduled(input.slot));
            }
            (Flaw::RefusesOlderSlots, Call::ClaimOnly(input), Answer::Bool(won)) => {
                let newer = state.runs.keys().any(|key| key.slot > input.slot);
                *won = *won && !newer;
            }
            (Flaw::HistoryWithoutResults, Call::SaveResult { .. }, _) => decision.changes.clear(),
            (Flaw::NeverReleases, Call::Release { .. }, _) => decision.changes.clear(),
            (Flaw::FinishIsNotRepeatable, Call::Finish { .. }, Answer::Bool(ended)) => {
                *ended = *ended && !decision.changes.is_empty();
            }
            (Flaw::AttemptsStandStill, _, Answer::Outcome(outcome)) => {
                outcome.attempt = outcome.attempt.map(|_| 1);
            }
            (Flaw::FencesStandStill, _, Answer::Outcome(outcome)) => {
                outcome.fence = outcome.fence.map(|_| 1);
            }
            (Flaw::SaysNothingOfOthers, _, Answer::Outcome(outcome)) => outcome.next_ms = None,
            (Flaw::NeverTrims, ..) => {
                decision.changes.retain(|change| !matches!(change, Change::Drop(_)));
            }
            (Flaw::SurveyMissesSlots, _, Answer::Survey(survey)) => {
                survey.slots.pop();
            }
            (Flaw::SkipsWithoutRecord, ..) => decision.changes.retain(|change| {
                !matches!(change, Change::Put { run, .. } if run.status == Some(Status::Skipped))
            }),
            _ => {}
        }
    }

    /// What goes wrong with what is stored.
    fn spoil_state(
        &self,
        before: &JobState,
        state: &mut JobState,
        call: &Call,
        answer: &Answer,
        now: i64,
    ) {
        match (self.flaw, call) {
            (Flaw::ForgetsAtTrim, _) => state.header.floor = 0,
            (Flaw::MovesTheLeaseBack, Call::Heartbeat { slot, lease_ms, .. })
                if answer.is_true() =>
            {
                if let Some(run) = state.runs.get_mut(&RunKey::scheduled(*slot)) {
                    run.lease_until = now + lease_ms;
                }
            }
            (Flaw::RepeatDoesNotRenew, Call::Claim(claim)) => {
                let key = RunKey::scheduled(claim.input.slot);
                let known = before.runs.get(&key);
                let known = known.filter(|run| run.token == claim.input.token);
                if let (Some(before), Some(run)) = (known, state.runs.get_mut(&key)) {
                    run.lease_until = before.lease_until;
                }
            }
            (Flaw::TakeoverKeepsTheOldLength, Call::Claim(claim)) => {
                let key = RunKey::scheduled(claim.input.slot);
                if let (Some(before), Some(run)) = (before.runs.get(&key), state.runs.get_mut(&key))
                    && run.attempt > before.attempt
                {
                    run.lease_ms = before.lease_ms;
                    run.lease_until = now + before.lease_ms;
                }
            }
            _ => {}
        }
    }
}

fn spoil_claim(flaw: Flaw, state: &mut JobState, claim: &mut RunClaim, now: i64) {
    let run = state.runs.get_mut(&RunKey::scheduled(claim.input.slot));
    match (flaw, run) {
        (Flaw::TakesOverALiveLease, Some(run)) if run.token != claim.input.token => {
            run.lease_until = run.lease_until.min(now);
        }
        (Flaw::NeverTakesOver, Some(run)) if run.token != claim.input.token && !run.released => {
            run.lease_until = run.lease_until.max(now + run.lease_ms);
        }
        (Flaw::CountsReleasesAsCrashes, Some(run)) => run.released = false,
        (Flaw::RevivesSpentLeases, Some(run)) if run.token == claim.input.token => {
            run.released = false;
        }
        (Flaw::AskersPolicyDecides, Some(run)) => run.max_takeovers = claim.max_takeovers,
        (Flaw::IgnoresOverlap, _) => claim.input.overlap = Some(Overlap::Allow),
        (Flaw::IgnoresPauses, _) => state.header.paused = None,
        (Flaw::StartsTooLate, _) => claim.not_after_ms = None,
        (Flaw::BackupStarts, None) => claim.kind = ClaimKind::Slot,
        _ => {}
    }
}

#[async_trait]
impl Backend for Broken {
    fn name(&self) -> String {
        format!("broken ({:?})", self.flaw)
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    async fn prepare_job(&self, limits: &JobLimits) -> Result<()> {
        if self.flaw == Flaw::LongJobNamesFail && limits.name.len() > 200 {
            return Err(Error::unavailable("value too long for type character varying(200)"));
        }
        self.step(&limits.name, &Call::Register(limits.clone()));
        Ok(())
    }

    async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        let call = Call::ClaimOnly(input.clone());
        let key = RunKey::scheduled(input.slot);
        if self.flaw == Flaw::ChecksThenWrites {
            let known = {
                let mut jobs = self.jobs();
                let job = jobs.entry(self.key(&input.job)).or_default();
                job.state.runs.get(&key).map(|run| run.token == input.token)
            };
            tokio::task::yield_now().await;
            if known.is_none() {
                self.step(&input.job, &call);
            }
            return Ok(known.unwrap_or(true));
        }
        if self.flaw == Flaw::ThrowsOnRepeat {
            let known =
                self.jobs().get(&input.job).is_some_and(|j| j.state.runs.contains_key(&key));
            if known {
                return Err(Error::unavailable("duplicate key value violates unique constraint"));
            }
        }
        Ok(self.step(&input.job, &call).is_true())
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
        let mut jobs = self.jobs();
        let stored = jobs.entry(self.key(job)).or_default();
        let limit = if self.flaw == Flaw::IgnoresTheLimit { usize::MAX } else { limit };
        let now = SystemClock.wall_ms();
        let runs = stored.state.runs.values().rev().take(limit);
        let record = |run| stored_record(job, run, stored.results.get(&run.key()), now);
        let mut records: Vec<RunRecord> = runs.map(record).collect();
        match self.flaw {
            Flaw::OldestFirst => records.reverse(),
            Flaw::LosesTheManualFlag => records.iter_mut().for_each(|record| record.manual = false),
            Flaw::LosesTheOutput => records.iter_mut().for_each(|record| record.output = None),
            _ => {}
        }
        Ok(records)
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    fn runs(&self) -> Option<&dyn RunStore> {
        (self.flaw != Flaw::NoLeases).then_some(self)
    }
}

#[async_trait]
impl RunStore for Broken {
    async fn claim(&self, claim: &RunClaim) -> Result<ClaimOutcome> {
        let call = Call::Claim(claim.clone());
        if self.flaw == Flaw::ChecksThenWritesLeases {
            let now = SystemClock.wall_ms();
            let decision = {
                let mut jobs = self.jobs();
                let job = jobs.entry(self.key(&claim.input.job)).or_default();
                rules::decide(&job.state, &call, now)
            };
            tokio::task::yield_now().await;
            let mut jobs = self.jobs();
            jobs.entry(self.key(&claim.input.job)).or_default().apply(&decision.changes);
            return Ok(decision.answer.into_outcome());
        }
        Ok(self.step(&claim.input.job, &call).into_outcome())
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
        Ok(self.step(job, &Call::Finish { slot, token, status, result }).is_true())
    }

    async fn release(&self, job: &str, slot: i64, token: &str) -> Result<bool> {
        Ok(self.step(job, &Call::Release { slot, token: token.to_owned() }).is_true())
    }

    async fn active(&self, job: &str) -> Result<Vec<ActiveRun>> {
        let mut jobs = self.jobs();
        let state = &jobs.entry(self.key(job)).or_default().state;
        let now = SystemClock.wall_ms();
        let mut shown = rules::active(state, now);
        if self.flaw == Flaw::ActiveShowsLostRuns {
            shown = state
                .unfinished()
                .map(|run| ActiveRun {
                    slot: run.slot,
                    manual: run.manual,
                    by: run.by.clone(),
                    attempt: run.attempt,
                    left_ms: run.left_ms(now),
                    alive: run.is_alive(now),
                })
                .collect();
        }
        Ok(shown)
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

    fn has_forget(&self) -> bool {
        true
    }

    async fn forget(&self, job: &str) -> Result<bool> {
        Ok(self.step(job, &Call::Forget).is_true())
    }
}
