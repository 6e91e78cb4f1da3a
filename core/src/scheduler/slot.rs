//! A job's slots: falling due, and being asked for.

use crate::backend::contract::{ClaimInput, ClaimKind, Overlap, RunClaim, Survey};
use crate::events::MissedReason;
use crate::schedule::Schedule;
use crate::scheduler::driver::{Driver, Pending};
use crate::scheduler::state::{ASKS_KEPT, AskState, JobSpec, Phase};
use crate::scheduler::timers::{JobId, Timer};

impl Driver {
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
        // Nothing before its registration was ever missed; but one instant that passed while its
        // job was on its way into the store is still meant, as long as it is in time.
        let since = if matches!(schedule, Schedule::At(_)) { i64::MIN } else { survey.since };
        let first = job.first_in_time(now).max(since).max(survey.floor.saturating_add(1));
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
    pub(super) fn waits_for_own_run(&mut self, id: JobId, slot: i64) -> bool {
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
                max_early_ms: Some(settings.max_early_ms),
                ..self.claim_input(&job.spec, claim.slot, claim.token.clone())
            },
            kind: claim.kind,
            max_takeovers: settings.max_takeovers,
            not_after_ms,
        }
    }

    /// What every claim says of the job and of who asks.
    pub(super) fn claim_input(&self, spec: &JobSpec, slot: i64, token: String) -> ClaimInput {
        let settings = &spec.settings;
        ClaimInput {
            job: spec.name.to_string(),
            slot,
            token,
            instance_id: self.instance_id.to_string(),
            history_size: settings.history_size,
            history_ttl_ms: settings.history_ttl_ms,
            lease_ms: self.leases.then_some(settings.lease_ms),
            overlap: self.leases.then_some(settings.overlap),
            force: None,
            max_early_ms: None,
            asked_at: None,
        }
    }
}
