//! A job's slots: from falling due to the store's answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::backend::contract::{
    ClaimInput, ClaimKind, ClaimOutcome, JobLimits, OutcomeKind, Overlap, RunClaim, Survey,
};
use crate::error::{Error, Result};
use crate::events::{Event, MissedReason};
use crate::lease::hold;
use crate::lease::model::RunKey;
use crate::mends::{self, Mend};
use crate::schedule::Schedule;
use crate::scheduler::context::Handler;
use crate::scheduler::driver::{Claimed, Driver, Message, Pending};
use crate::scheduler::manual::ManualAsk;
use crate::scheduler::missed::Missed;
use crate::scheduler::options::JobSettings;
use crate::scheduler::run::Grant;
use crate::scheduler::timers::{JobId, Timer};

/// How far a job has come with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The store does not know it yet.
    Registering,
    /// It must be surveyed before anything of it is claimed.
    Surveying,
    /// Its slots are claimed as they fall due.
    Live,
    /// The store will never take it.
    Refused,
}

/// What a job is, apart from how it stands.
#[derive(Clone)]
pub(super) struct JobSpec {
    pub(super) name: Arc<str>,
    pub(super) schedule: Schedule,
    pub(super) timezone: String,
    pub(super) settings: JobSettings,
    pub(super) handler: Arc<dyn Handler>,
}

/// A job of a started scheduler.
pub(super) struct Job {
    pub(super) name: Arc<str>,
    pub(super) spec: Arc<JobSpec>,
    pub(super) limits: JobLimits,
    pub(super) phase: Phase,
    pub(super) register_failures: u32,
    /// Whether it has been live in this start.
    pub(super) announced: bool,
    /// Slots up to here have been asked for, or are the survey's business.
    cursor: i64,
    /// The slot that the timer waits for.
    next: Option<i64>,
    asks: BTreeMap<i64, Ask>,
    /// Tokens that were sent and may still be answered, or may still arrive.
    pub(super) tokens: BTreeMap<i64, String>,
    /// Takeovers and catch-ups on their way.
    pub(super) asked: BTreeSet<i64>,
    pub(super) sweep: Sweep,
    pub(super) missed: Missed,
    /// Missed slots that are to be made up for, oldest first.
    pub(super) catch_up: BTreeSet<i64>,
    /// Handlers that ignore their cancellation: until they end nothing of the job is taken.
    pub(super) abandoned: usize,
    /// A stored definition that has been told about.
    pub(super) conflict_told: String,
    /// Manual runs that wait until the store knows the job.
    pub(super) manual: Vec<ManualAsk>,
}

/// The surveys of a job.
#[derive(Default)]
pub(super) struct Sweep {
    pub(super) in_flight: bool,
    /// Something happened while it was in flight: its answer may be too old.
    pub(super) again: bool,
    pub(super) last: Option<i64>,
    pub(super) failures: u32,
}

/// A slot that has come and has no answer yet.
#[derive(Debug, Default)]
struct Ask {
    state: AskState,
    failures: u32,
    /// Found by a survey, not by the clock: several such slots are asked for in one breath.
    found: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AskState {
    #[default]
    Ready,
    InFlight,
    /// Waits for `Timer::Ask`.
    Later,
    /// Waits for a place.
    Place,
}

/// More slots than this do not wait one by one: a survey says what is still in time.
const ASKS_KEPT: usize = 1_000;

impl Job {
    pub(super) fn new(spec: JobSpec, limits: JobLimits) -> Job {
        Job {
            name: spec.name.clone(),
            spec: Arc::new(spec),
            limits,
            phase: Phase::Registering,
            register_failures: 0,
            announced: false,
            cursor: i64::MIN,
            next: None,
            asks: BTreeMap::new(),
            tokens: BTreeMap::new(),
            asked: BTreeSet::new(),
            sweep: Sweep::default(),
            missed: Missed::default(),
            catch_up: BTreeSet::new(),
            abandoned: 0,
            conflict_told: String::new(),
            manual: Vec::new(),
        }
    }

    pub(super) fn settings(&self) -> &JobSettings {
        &self.spec.settings
    }

    pub(super) fn not_after(&self, slot: i64) -> i64 {
        self.settings().not_after_ms(&self.spec.schedule, slot)
    }

    /// Goes by another definition from now on.
    pub(super) fn follow(&mut self, schedule: Schedule) {
        self.spec = Arc::new(JobSpec { schedule, ..(*self.spec).clone() });
    }

    /// Whether a slot is on its way to an answer.
    pub(super) fn is_asking(&self, slot: i64) -> bool {
        self.asks.contains_key(&slot) || self.asked.contains(&slot)
    }

    /// The ask whose turn it is: the oldest, and none while it is unanswered.
    fn next_ask(&self) -> Option<(i64, AskState)> {
        let mut asks = self.asks.iter().map(|(slot, ask)| (*slot, ask.state));
        if mends::is_out(Mend::T07) {
            return asks
                .rev()
                .find(|(_, state)| matches!(state, AskState::Ready | AskState::Place));
        }
        asks.next()
    }

    /// Whether any slot waits for an answer.
    pub(super) fn has_asks(&self) -> bool {
        !self.asks.is_empty()
    }

    /// Whether the next slot is far away.
    pub(super) fn is_rare(&self, wall: i64) -> bool {
        self.next.is_none_or(|next| next - wall > crate::scheduler::driver::HOUR_MS)
    }

    /// The first slot that is not too late at the store's time `now` (ms): everything before it is.
    pub(super) fn first_in_time(&self, now: i64) -> i64 {
        let schedule = &self.spec.schedule;
        if let Some(late) = self.settings().uniform_late_ms(schedule) {
            let first = schedule.next(now.saturating_sub(late).saturating_sub(1));
            return first.map_or(now.saturating_add(1), |slot| slot.min(now.saturating_add(1)));
        }
        let mut first = now.saturating_add(1);
        while let Some(slot) = self.spec.schedule.prev(first) {
            if self.not_after(slot) < now {
                break;
            }
            first = slot;
        }
        first
    }
}

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

    // ---- falling due

    /// Sets the timer for the first slot after the cursor.
    pub(super) fn arm(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.next = job.spec.schedule.next(job.cursor);
        let Some(slot) = job.next else {
            self.timers.clear(Timer::Slot(id));
            return;
        };
        let jitter = job.settings().jitter_ms(job.spec.schedule.period(slot));
        let fraction = self.fraction(slot);
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small")]
        let wait = (fraction * (jitter + 1) as f64) as i64;
        self.timers.at_wall(Timer::Slot(id), slot.saturating_add(wait.min(jitter)));
    }

    pub(super) fn slot_due(&mut self, id: JobId) {
        let down = self.store_is_down();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(slot) = job.next else { return };
        job.cursor = slot;
        job.asks.entry(slot).or_default();
        if job.asks.len() > ASKS_KEPT {
            // The survey to come says what is still in time.
            job.asks.retain(|_, ask| ask.state == AskState::InFlight);
            job.phase = Phase::Surveying;
        }
        if down {
            job.missed.hint(slot, MissedReason::StoreDown);
        }
        self.arm(id);
        self.pump(id);
    }

    /// The wall clock was stepped back: slots fall due again, and their repeats are answered `done`.
    pub(super) fn fall_back(&mut self, id: JobId, wall: i64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.cursor > wall {
            job.cursor = wall;
            self.arm(id);
        }
    }

    /// Nothing of the job is claimed until it has been surveyed.
    pub(super) fn survey_first(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.phase == Phase::Live {
            job.phase = Phase::Surveying;
        }
        if job.phase == Phase::Surveying {
            self.sweep_soon(id, 0);
        }
    }

    /// After a survey that had to come first: every slot that is still in time and has no record is
    /// asked for, and the cursor moves on.
    pub(super) fn ask_for_what_is_in_time(&mut self, id: JobId, survey: &Survey) {
        let wall = self.clock.wall_ms();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let schedule = &job.spec.schedule;
        let now = survey.now_ms;
        let first = job.first_in_time(now).max(survey.since).max(survey.floor.saturating_add(1));
        // What was asked for and got no answer is asked for again only if it is still in time.
        job.asks.retain(|slot, ask| *slot >= first || ask.state == AskState::InFlight);
        let mut slot = schedule.next(first.saturating_sub(1));
        while let Some(due) = slot.filter(|slot| *slot <= now) {
            let unfinished = survey.runs.iter().any(|run| !run.manual && run.slot == due);
            if survey.slots.binary_search(&due).is_err() && !unfinished {
                job.asks.entry(due).or_default().found = true;
            } else {
                // It has its record: whoever has it, it is not to be asked for as a slot.
                job.asks.retain(|slot, ask| *slot != due || ask.state == AskState::InFlight);
            }
            slot = schedule.next(due);
        }
        job.cursor = job.cursor.max(now).min(wall.max(now));
        self.arm(id);
    }

    // ---- asking

    /// Asks for the oldest slot of the job that waits, unless an older one is unanswered.
    pub(super) fn pump(&mut self, id: JobId) {
        if self.stopping.is_some() {
            return;
        }
        loop {
            let (wall, leases) = (self.clock.wall_ms(), self.leases);
            let Some(job) = self.jobs.get_mut(&id) else { return };
            if job.phase != Phase::Live || job.abandoned > 0 {
                return;
            }
            let Some((slot, state)) = job.next_ask() else { return };
            if !matches!(state, AskState::Ready | AskState::Place) {
                return;
            }
            // Without leases there is no store to judge what is too late.
            if !leases && wall > job.not_after(slot) {
                job.asks.remove(&slot);
                self.report_one(id, slot, MissedReason::TooLate);
                continue;
            }
            if self.waits_for_own_run(id, slot) {
                return;
            }
            let Some(job) = self.jobs.get_mut(&id) else { return };
            if self.places_used >= self.places {
                if let Some(ask) = job.asks.get_mut(&slot) {
                    ask.state = AskState::Place;
                }
                job.missed.hint(slot, MissedReason::NoPlace);
                self.waiting.insert((slot, id));
                return;
            }
            if let Some(ask) = job.asks.get_mut(&slot) {
                ask.state = AskState::InFlight;
            }
            self.send_claim(id, slot, ClaimKind::Slot);
            return;
        }
    }

    /// Slots that a survey found together come in one breath: where runs may not overlap, the next
    /// one waits for the run of the one before, as long as it stays in time, instead of being
    /// skipped because of it.
    fn waits_for_own_run(&mut self, id: JobId, slot: i64) -> bool {
        let (wall, mono) = (self.clock.wall_ms(), self.clock.mono_ms());
        let Some(job) = self.jobs.get(&id) else { return false };
        let left = job.not_after(slot) - wall;
        let found = job.asks.get(&slot).is_some_and(|ask| ask.found);
        let apart = job.settings().overlap == Overlap::Skip;
        if !found || !apart || left <= 0 || !self.holds_any(&job.name) {
            return false;
        }
        if let Some(ask) = self.jobs.get_mut(&id).and_then(|job| job.asks.get_mut(&slot)) {
            ask.state = AskState::Later;
        }
        self.timers.at_mono(Timer::Ask(id), mono + left);
        true
    }

    /// Sends a claim; it holds a place until it is answered, so that a win always has one.
    pub(super) fn send_claim(&mut self, id: JobId, slot: i64, kind: ClaimKind) {
        let random = &self.random;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let token = job.tokens.entry(slot).or_insert_with(|| random.token()).clone();
        if kind != ClaimKind::Slot {
            job.asked.insert(slot);
        }
        self.places_used += 1;
        self.out.claims.push(Pending { job: id, slot, kind, token });
    }

    /// Gives free places to what waits for one, oldest slot first; then to hungry sweeps.
    pub(super) fn serve_waiting(&mut self) {
        while self.places_used < self.places {
            // A run that lost its holder is older than the slots that keep coming: where there are
            // always more of them than places, it would never be anybody's turn.
            let ask = self.waiting.first().copied();
            let starved = self.starved.first().copied();
            if let Some((slot, id)) = starved.filter(|one| ask.is_none_or(|ask| *one <= ask)) {
                self.starved.remove(&(slot, id));
                self.back_up_starved(slot, id);
                continue;
            }
            let Some((_, id)) = self.waiting.pop_first() else { break };
            self.pump(id);
        }
        if self.places_used < self.places {
            for id in std::mem::take(&mut self.hungry) {
                self.sweep_soon(id, 0);
            }
        }
    }

    pub(super) fn run_claim(&self, claim: &Pending) -> RunClaim {
        let job = &self.jobs[&claim.job];
        let settings = job.settings();
        let not_after_ms = (claim.kind == ClaimKind::Slot).then(|| job.not_after(claim.slot));
        RunClaim {
            input: ClaimInput {
                job: job.name.to_string(),
                slot: claim.slot,
                token: claim.token.clone(),
                instance_id: self.instance_id.to_string(),
                history_size: settings.history_size,
                history_ttl_ms: settings.history_ttl_ms,
                lease_ms: self.leases.then_some(settings.lease_ms),
                overlap: self.leases.then_some(settings.overlap),
                force: None,
                max_early_ms: Some(settings.max_early_ms),
                asked_at: None,
            },
            kind: claim.kind,
            max_takeovers: settings.max_takeovers,
            not_after_ms,
        }
    }

    // ---- answers

    pub(super) fn claimed(&mut self, claimed: Claimed) {
        self.claims_in_flight -= 1;
        self.places_used -= 1;
        let Claimed { claim, sent, answer } = claimed;
        if let Some(job) = self.jobs.get_mut(&claim.job) {
            job.asked.remove(&claim.slot);
        }
        match answer {
            Ok(outcome) => {
                self.store_answered();
                self.notice_skew(claim.job, &outcome);
                self.answered(&claim, sent, &outcome);
            }
            Err(error) => self.unanswered(&claim, error),
        }
        self.pump(claim.job);
    }

    /// Unknown: the same token again, with back-off. Our own clock only ends the single tries and
    /// leaves the slot to the next survey.
    fn unanswered(&mut self, claim: &Pending, error: Error) {
        let wall = self.clock.wall_ms();
        let name = self.jobs.get(&claim.job).map(|job| job.name.clone());
        self.store_failed(name.as_deref(), error);
        let backoff = |failures| self.clock.mono_ms() + self.backoff(failures);
        let (at, first) = (backoff(1), claim.kind != ClaimKind::Slot);
        let Some(job) = self.jobs.get_mut(&claim.job) else { return };
        if first {
            if mends::is_out(Mend::F13) {
                job.tokens.remove(&claim.slot);
            }
            self.sweep_at(claim.job, at);
            return;
        }
        let overdue = wall > job.not_after(claim.slot);
        let Some(ask) = job.asks.get_mut(&claim.slot) else {
            self.survey_first(claim.job);
            return;
        };
        ask.failures += 1;
        ask.state = AskState::Later;
        let failures = ask.failures;
        if overdue {
            job.asks.remove(&claim.slot);
            job.missed.hint(claim.slot, MissedReason::StoreDown);
            self.survey_first(claim.job);
        } else {
            let at = self.clock.mono_ms() + self.backoff(failures);
            self.timers.at_mono(Timer::Ask(claim.job), at);
        }
    }

    pub(super) fn ask_again(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            for ask in job.asks.values_mut().filter(|ask| ask.state == AskState::Later) {
                ask.state = AskState::Ready;
            }
        }
        self.pump(id);
    }

    fn answered(&mut self, claim: &Pending, sent: i64, outcome: &ClaimOutcome) {
        let id = claim.job;
        let mono = self.clock.mono_ms();
        match &outcome.kind {
            OutcomeKind::Won => {
                self.settle_ask(claim, true);
                self.won(claim, sent, outcome);
            }
            OutcomeKind::Running => {
                let left = outcome.left_ms.unwrap_or_else(|| self.lease_of(id));
                // Nothing left: the token is spent; a sweep asks with a new one.
                self.settle_ask(claim, left <= 0);
                self.sweep_after_lease(id, left);
            }
            OutcomeKind::Overlap => self.overlapped(claim, outcome),
            OutcomeKind::Early => {
                self.wait_for_slot(claim, outcome, mono);
                return;
            }
            OutcomeKind::Late => {
                self.settle_ask(claim, true);
                if claim.kind == ClaimKind::CatchUp {
                    let now = outcome.now_ms.unwrap_or_else(|| self.clock.wall_ms());
                    self.floor_passed(id, claim.slot, now);
                } else if let Some(job) = self.jobs.get_mut(&id) {
                    job.missed.hint(claim.slot, MissedReason::TooLate);
                }
                self.sweep_soon(id, 0);
            }
            OutcomeKind::Paused => {
                self.settle_ask(claim, true);
                self.report_one(id, claim.slot, MissedReason::Paused);
            }
            OutcomeKind::Done | OutcomeKind::None | OutcomeKind::Unknown(_) => {
                self.settle_ask(claim, true);
            }
        }
        if let Some(next) = outcome.next_ms {
            self.sweep_after_lease(id, next);
        }
        if claim.kind == ClaimKind::CatchUp && outcome.kind != OutcomeKind::Overlap {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.catch_up.remove(&claim.slot);
            }
            self.next_catch_up(id);
        }
    }

    /// A slot has its answer. Its token is kept while a late duplicate of the ask may still find
    /// it: until the run has ended, or the token is spent.
    fn settle_ask(&mut self, claim: &Pending, forget: bool) {
        let Some(job) = self.jobs.get_mut(&claim.job) else { return };
        if claim.kind == ClaimKind::Slot {
            job.asks.remove(&claim.slot);
        }
        if forget || mends::is_out(Mend::F13) {
            job.tokens.remove(&claim.slot);
        }
    }

    fn overlapped(&mut self, claim: &Pending, outcome: &ClaimOutcome) {
        let id = claim.job;
        let left = outcome.left_ms.unwrap_or_else(|| self.lease_of(id));
        self.sweep_after_lease(id, left);
        if claim.kind == ClaimKind::CatchUp {
            return;
        }
        self.settle_ask(claim, true);
        let Some(job) = self.jobs.get(&id) else { return };
        self.emit(Event::Overlap {
            job: job.name.to_string(),
            slot: claim.slot,
            other_slot: outcome.slot,
            other_manual: outcome.manual,
            by: outcome.by.clone(),
        });
    }

    /// The store's clock has not come so far: ask again, with the same token, when it has.
    fn wait_for_slot(&mut self, claim: &Pending, outcome: &ClaimOutcome, mono: i64) {
        let now = outcome.now_ms.unwrap_or_else(|| self.clock.wall_ms());
        let wait = (claim.slot - now).max(1);
        let Some(job) = self.jobs.get_mut(&claim.job) else { return };
        if let Some(ask) = job.asks.get_mut(&claim.slot) {
            ask.state = AskState::Later;
            self.timers.at_mono(Timer::Ask(claim.job), mono + wait);
        }
    }

    fn won(&mut self, claim: &Pending, sent: i64, outcome: &ClaimOutcome) {
        let id = claim.job;
        let spec = self.jobs.get(&id).map(|job| job.spec.clone());
        let key = RunKey::scheduled(claim.slot);
        let stopping = self.stopping.is_some();
        // The answer travelled for too long: the lease may be over before the handler starts.
        let too_late = self.leases
            && !mends::is_out(Mend::F10)
            && spec.as_ref().is_some_and(|spec| {
                self.clock.mono_ms() >= hold::deadline(sent, spec.settings.lease_ms)
            });
        match spec {
            Some(spec) if !stopping && !too_late && !self.runs_here(&spec.name, key) => {
                let grant = Grant {
                    key,
                    token: claim.token.clone(),
                    sent,
                    kind: Some(claim.kind),
                    attempt: outcome.attempt.unwrap_or(1),
                    fence: outcome.fence.unwrap_or(0),
                    max_takeovers: outcome.max_takeovers,
                    at: outcome.now_ms,
                };
                self.start_run(Some(id), spec, grant, None);
            }
            Some(spec) => self.give_back(id, &spec.name, claim),
            // The job was removed while its claim was on its way.
            None => {}
        }
    }

    /// A win that is not used: the lease is given back, and a backup takes the run.
    fn give_back(&mut self, id: JobId, name: &Arc<str>, claim: &Pending) {
        if !self.leases {
            return;
        }
        let (guard, name) = (self.guard.clone(), name.clone());
        let (slot, token) = (claim.slot, claim.token.clone());
        self.send(async move {
            match guard.release(&name, slot, &token).await {
                Ok(_) => Message::Sweep(name.to_string()),
                Err(error) => Message::Failed { job: Some(name), error },
            }
        });
        self.sweep_soon(id, 0);
    }

    /// Our clock against the store's: told when they are more than 2 s apart, or an early ask.
    fn notice_skew(&mut self, id: JobId, outcome: &ClaimOutcome) {
        const COUNTS_MS: i64 = 2_000;
        let Some(now) = outcome.now_ms else { return };
        let offset_ms = self.clock.wall_ms() - now;
        let apart = offset_ms.abs() > COUNTS_MS;
        if apart && !self.health.skew_told {
            let job = self.jobs.get(&id).map(|job| job.name.to_string());
            self.emit(Event::Skew { offset_ms, job });
        }
        self.health.skew_told = apart;
    }

    pub(super) fn lease_of(&self, id: JobId) -> i64 {
        self.jobs.get(&id).map_or(30_000, |job| job.settings().lease_ms)
    }
}

/// The error for a job that is not there.
pub(super) fn unknown_job(name: &str) -> Error {
    Error::new(
        crate::error::Code::UnknownJob,
        format!("no job {name:?} is registered here; register it first, or check the name"),
    )
}
