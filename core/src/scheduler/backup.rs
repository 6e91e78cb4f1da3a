//! Sweeps: what a survey shows is taken over, made up for, or waited for.

use crate::backend::contract::{ActiveRun, ClaimKind, Survey, Wake};
use crate::error::{Code, Error, Result};
use crate::events::Event;
use crate::lease::model::RunKey;
use crate::schedule::{Schedule, zone_tables};
use crate::scheduler::driver::{Driver, HOUR_MS};
use crate::scheduler::state::Phase;
use crate::scheduler::timers::{JobId, Timer};

impl Driver {
    // ---- when

    /// Surveys a job in `delay` ms, but never two times within a moment.
    pub(super) fn sweep_soon(&mut self, id: JobId, delay: i64) {
        self.sweep_at(id, self.clock.mono_ms() + delay);
    }

    /// Surveys a job at a monotonic instant (ms) or before.
    pub(super) fn sweep_at(&mut self, id: JobId, at: i64) {
        if self.stopping.is_some() {
            return;
        }
        let apart = self.spacing(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if matches!(job.phase, Phase::Registering | Phase::Refused) {
            return;
        }
        if job.sweep.in_flight {
            job.sweep.again = true;
        }
        let earliest = job.sweep.last.map_or(at, |last| at.max(last + apart));
        self.timers.at_mono_or_before(Timer::Sweep(id), earliest);
    }

    /// Surveys a job when a lease that it heard of is over, plus a small random wait.
    pub(super) fn sweep_after_lease(&mut self, id: JobId, left_ms: i64) {
        if self.leases {
            let wait = self.random.up_to(self.spacing(id));
            self.sweep_soon(id, left_ms.max(0) + wait);
        }
    }

    fn spacing(&self, id: JobId) -> i64 {
        (self.lease_of(id) / 10).min(1_000)
    }

    pub(super) fn survey(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.sweep.in_flight || self.stopping.is_some() {
            return;
        }
        job.sweep.in_flight = true;
        job.sweep.again = false;
        self.timers.clear(Timer::Sweep(id));
        self.out.surveys.push(id);
    }

    pub(super) fn survey_by_name(&mut self, name: &str) {
        if let Some(id) = self.names.get(name).copied() {
            self.sweep_soon(id, 0);
        }
    }

    /// A store that can push told of a release, or of an end that somebody may wait for.
    pub(super) fn woken(&mut self, name: &str, wake: Wake) {
        let Some(id) = self.names.get(name).copied() else { return };
        let waits = self.jobs.get(&id).is_some_and(|job| !job.catch_up.is_empty());
        if wake == Wake::Released || waits {
            self.sweep_soon(id, 0);
        }
    }

    /// Jobs that are rarely due hear of nothing by themselves: once an hour, all in one read.
    pub(super) fn hourly(&mut self) {
        self.timers.at_mono(Timer::Hourly, self.clock.mono_ms() + HOUR_MS);
        if !self.leases {
            return;
        }
        let wall = self.clock.wall_ms();
        let rare =
            self.jobs.iter().filter(|(_, job)| job.phase == Phase::Live && job.is_rare(wall));
        let rare: Vec<JobId> = rare.map(|(id, _)| *id).collect();
        for id in rare {
            self.survey(id);
        }
    }

    // ---- what

    pub(super) fn surveyed_all(&mut self, answers: Vec<(JobId, Result<Survey>)>) {
        for (id, answer) in answers {
            let now = self.clock.mono_ms();
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.sweep.in_flight = false;
            job.sweep.last = Some(now);
            match answer {
                Ok(survey) => {
                    job.sweep.failures = 0;
                    let again = std::mem::take(&mut job.sweep.again);
                    self.store_answered();
                    self.surveyed(id, &survey);
                    if again {
                        self.sweep_soon(id, 0);
                    }
                }
                Err(error) => {
                    job.sweep.failures += 1;
                    let (failures, name) = (job.sweep.failures, job.name.clone());
                    if !job.announced {
                        self.inner.registered(&name, Err(error.clone()));
                    }
                    self.store_failed(Some(&name), error);
                    self.sweep_soon(id, self.backoff(failures));
                }
            }
        }
    }

    fn surveyed(&mut self, id: JobId, survey: &Survey) {
        if self.stopping.is_some() || !self.agree_on_definition(id, survey) {
            return;
        }
        self.forget_tokens(id, survey);
        self.account(id, survey);
        let Some(job) = self.jobs.get(&id) else { return };
        if job.phase == Phase::Surveying {
            self.become_live(id);
            self.ask_for_what_is_in_time(id, survey);
        }
        self.pump(id);
        if self.leases {
            self.back_up(id, &survey.runs);
            self.next_catch_up(id);
            self.wait_for_leases(id, &survey.runs);
        }
    }

    /// What the store says of the definition: a conflict is told once, and of two instants of an
    /// `at` job the registered one counts. False if the job is refused.
    fn agree_on_definition(&mut self, id: JobId, survey: &Survey) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        let ours = job.spec.schedule.fingerprint();
        let stored = survey.schedule.clone();
        let tables = survey.zone_tables.clone();
        if !stored.is_empty() && stored != ours && job.conflict_told != stored {
            job.conflict_told.clone_from(&stored);
            let name = job.name.to_string();
            self.emit(Event::DefinitionConflict {
                job: name,
                ours: ours.clone(),
                stored: stored.clone(),
            });
        } else if !tables.is_empty() && tables != zone_tables() && job.conflict_told != tables {
            job.conflict_told.clone_from(&tables);
            let name = job.name.to_string();
            let ours = format!("time-zone tables {}", zone_tables());
            let stored = format!("time-zone tables {tables}");
            self.emit(Event::DefinitionConflict { job: name, ours, stored });
        }
        let first_registration = stored == ours;
        self.follow_stored_instant(id, &ours, &stored);
        self.refuse_past_instant(id, survey, first_registration)
    }

    fn follow_stored_instant(&mut self, id: JobId, ours: &str, stored: &str) {
        let slot = stored.strip_prefix("at ").and_then(|slot| slot.parse::<i64>().ok());
        let (Some(slot), true) = (slot, ours != stored && ours.starts_with("at ")) else { return };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.follow(Schedule::at(slot));
        self.arm(id);
    }

    /// An instant that had passed before anybody registered it can never run.
    fn refuse_past_instant(&mut self, id: JobId, survey: &Survey, registered: bool) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        let Schedule::At(_) = job.spec.schedule else { return true };
        let Some(slot) = job.spec.schedule.prev(i64::MAX) else { return true };
        let recorded = survey.slots.contains(&slot) || slot <= survey.floor;
        if !registered
            || recorded
            || job.phase != Phase::Surveying
            || job.not_after(slot) >= survey.since
        {
            return true;
        }
        let late = survey.since - slot;
        let error = Error::new(
            Code::InvalidSchedule,
            format!(
                "job {:?}: its instant {slot} lay {late} ms in the past when it was first \
                 registered; give an instant in the future, or call runNow for it",
                job.name
            ),
        );
        self.refuse_job(id, &error);
        false
    }

    /// Tokens of runs that have ended, or whose record has been trimmed, are of no use any more.
    fn forget_tokens(&mut self, id: JobId, survey: &Survey) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let unfinished = |slot: i64| survey.runs.iter().any(|run| !run.manual && run.slot == slot);
        let ended = |slot: i64| survey.slots.binary_search(&slot).is_ok() && !unfinished(slot);
        let tokens = std::mem::take(&mut job.tokens);
        let kept = tokens
            .into_iter()
            .filter(|(slot, _)| job.is_asking(*slot) || !(ended(*slot) || *slot <= survey.floor));
        job.tokens = kept.collect();
    }

    /// Takes over what nobody holds, and takes back what an answer that got lost had granted.
    fn back_up(&mut self, id: JobId, runs: &[ActiveRun]) {
        for run in runs.iter().filter(|run| !run.manual) {
            let Some(job) = self.jobs.get(&id) else { return };
            let key = RunKey::scheduled(run.slot);
            if job.is_asking(run.slot) || job.abandoned > 0 || self.holds(&job.name, key) {
                continue;
            }
            // A handler of ours that was cancelled may still run: never beside itself.
            if self.runs_here(&job.name, key) {
                continue;
            }
            let lost_answer = *run.by == *self.instance_id && job.tokens.contains_key(&run.slot);
            if run.alive && !lost_answer {
                continue;
            }
            if self.places_used < self.places {
                self.send_claim(id, run.slot, ClaimKind::Backup);
            } else {
                self.hungry.insert(id);
                self.starved.insert((run.slot, id));
            }
        }
    }

    /// A run that was seen without a holder while no place was free, and now one is. The store
    /// decides whether it still needs anybody.
    pub(super) fn back_up_starved(&mut self, slot: i64, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let key = RunKey::scheduled(slot);
        let busy = job.abandoned > 0 || job.is_asking(slot) || self.runs_here(&job.name, key);
        if job.phase == Phase::Live && !busy && !self.holds(&job.name, key) {
            self.send_claim(id, slot, ClaimKind::Backup);
        }
    }

    /// Sweeps again at the earliest end of a lease that is not ours.
    fn wait_for_leases(&mut self, id: JobId, runs: &[ActiveRun]) {
        let Some(job) = self.jobs.get(&id) else { return };
        let theirs = runs
            .iter()
            .filter(|run| run.alive)
            .filter(|run| !self.holds(&job.name, RunKey { slot: run.slot, manual: run.manual }));
        if let Some(left) = theirs.map(|run| run.left_ms).min() {
            self.sweep_after_lease(id, left);
        }
    }

    /// Asks for the oldest missed slot that is to be made up for, one at a time.
    pub(super) fn next_catch_up(&mut self, id: JobId) {
        if self.stopping.is_some() {
            return;
        }
        let Some(job) = self.jobs.get(&id) else { return };
        if job.phase != Phase::Live || job.abandoned > 0 || job.has_asks() {
            return;
        }
        let Some(slot) = job.catch_up.first().copied() else { return };
        if job.catch_up.iter().any(|slot| job.asked.contains(slot)) {
            return;
        }
        if self.holds(&job.name, RunKey::scheduled(slot)) {
            return;
        }
        if self.places_used < self.places {
            self.send_claim(id, slot, ClaimKind::CatchUp);
        } else {
            self.hungry.insert(id);
        }
    }
}
