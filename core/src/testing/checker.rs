//! Holds what was seen of a fleet against the nine invariants of the lease rules.
//!
//! The numbers are those of the documentation (`docs/concepts/leases.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::backend::contract::{ClaimInput, ClaimKind, ClaimOutcome, OutcomeKind};
use crate::events::Event;
use crate::lease::model::{JobState, RunKey, Status};
use crate::lease::rules::{Answer, Call};
use crate::testing::record::{Observed, What, Work};

/// What a checker must know of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// All replicas say `skip`, and no manual run is forced.
    pub skip: bool,
    /// The interval of an `every` job that all replicas define the same way (ms).
    pub every_ms: Option<i64>,
    /// No message is late: so it shows whether an instance asks for its slots oldest first.
    pub in_order: bool,
    /// Until which slot every one must be accounted for at the end (ms).
    pub until_ms: i64,
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number.
    pub invariant: u8,
    /// What happened.
    pub what: String,
    /// After which of the things seen.
    pub index: usize,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {}, at event {}: {}", self.invariant, self.index, self.what)
    }
}

/// An unfinished run whose lease has been over for so long (ms) in a healed fleet is stuck.
const STUCK_MS: i64 = 30_000;

type Checked = Result<(), (u8, String)>;

fn demand(holds: bool, invariant: u8, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err((invariant, what())) }
}

/// Checks a whole run of a fleet.
///
/// # Errors
/// The first violation.
pub fn check(seen: &[Observed], jobs: &BTreeMap<String, Expected>) -> Result<(), Violation> {
    let mut checker = Checker::default();
    for (name, expected) in jobs {
        checker.jobs.entry(name.clone()).or_default().expected = *expected;
    }
    for (index, one) in seen.iter().enumerate() {
        let checked = checker.see(one);
        checked.map_err(|(invariant, what)| Violation { invariant, what, index })?;
    }
    let index = seen.len();
    checker.end(seen).map_err(|(invariant, what)| Violation { invariant, what, index })
}

#[derive(Default)]
struct Checker {
    jobs: BTreeMap<String, Job>,
    instances: BTreeMap<String, Instance>,
    stepped: bool,
    crashed: bool,
}

/// How long messages that were sent through a bad network go on arriving after it is a good one: the
/// way there, a duplicate, and the way back, of 4 s at most each.
const STRAGGLERS_MS: i64 = 12_000;

#[derive(Default)]
struct Instance {
    paused: bool,
    /// Until when messages of a bad network may still be on their way (ms).
    lossy_until: i64,
    /// Crashed, or told to stop.
    gone: bool,
    /// Superseded work that must be cancelled at this instant, for the process goes on (ms).
    resumed_at: Option<i64>,
}

struct Grant {
    instance: String,
    used: bool,
    /// Something befell the holder that explains why the grant came to nothing.
    excused: bool,
}

#[derive(Default)]
struct Job {
    expected: Expected,
    state: JobState,
    attempts: BTreeMap<RunKey, i64>,
    fence: i64,
    grants: BTreeMap<(RunKey, i64), Grant>,
    /// Handlers at work, and whether they were cancelled.
    working: BTreeMap<(String, Work), bool>,
    started: BTreeSet<i64>,
    recorded: BTreeSet<i64>,
    spent: BTreeSet<String>,
    finished: BTreeMap<String, (Status, i64)>,
    manual_slots: BTreeMap<String, i64>,
    reported: Vec<(i64, i64)>,
    first_since: Option<i64>,
    /// The slots that an instance has asked for.
    asked: BTreeMap<String, BTreeSet<i64>>,
}

impl Checker {
    fn see(&mut self, one: &Observed) -> Checked {
        self.check_resumed(one.at)?;
        let instance = one.instance.clone();
        match &one.what {
            What::Executed { job, call, answer, state } => {
                let stepped = self.stepped;
                let holder = self.instances.get(&instance);
                let excused = holder
                    .is_some_and(|seen| one.at < seen.lossy_until || seen.paused || seen.gone);
                let paused = self.instances.iter().filter(|(_, seen)| seen.paused);
                let idle: BTreeSet<String> = paused.map(|(name, _)| name.clone()).collect();
                let job = self.jobs.entry(job.clone()).or_default();
                job.executed(one, call, answer, &idle, excused, stepped)?;
                job.stored(state, one.store_ms)?;
            }
            What::HandlerStarted(work) => {
                self.jobs.entry(work.job.clone()).or_default().handler_started(&instance, work)?;
            }
            What::HandlerCancelled(work) => {
                let job = self.jobs.entry(work.job.clone()).or_default();
                if let Some(cancelled) = job.working.get_mut(&(instance, work.clone())) {
                    *cancelled = true;
                }
            }
            What::HandlerEnded(work) => {
                let job = self.jobs.entry(work.job.clone()).or_default();
                job.working.remove(&(instance, work.clone()));
            }
            What::Event(event) => self.told(event),
            What::Crashed => {
                self.crashed = true;
                for job in self.jobs.values_mut() {
                    job.working.retain(|(holder, _), _| *holder != instance);
                }
                self.excuse(&instance);
                self.instance(&instance).gone = true;
            }
            What::Paused => {
                self.excuse(&instance);
                self.instance(&instance).paused = true;
            }
            What::Resumed => {
                let seen = self.instance(&instance);
                (seen.paused, seen.resumed_at) = (false, Some(one.at));
            }
            What::Lossy(lossy) => {
                self.excuse(&instance);
                self.instance(&instance).lossy_until =
                    if *lossy { i64::MAX } else { one.at + STRAGGLERS_MS };
            }
            What::Stopping => {
                self.excuse(&instance);
                self.instance(&instance).gone = true;
            }
            What::Stepped(_) => self.stepped = true,
            What::Started => self.instance(&instance).gone = false,
            What::Healed => {}
        }
        Ok(())
    }

    fn instance(&mut self, name: &str) -> &mut Instance {
        self.instances.entry(name.to_owned()).or_default()
    }

    fn excuse(&mut self, instance: &str) {
        for job in self.jobs.values_mut() {
            let grants = job.grants.values_mut().filter(|grant| grant.instance == instance);
            grants.for_each(|grant| grant.excused = true);
        }
    }

    fn told(&mut self, event: &Event) {
        if let Event::Missed(missed) = event {
            let job = self.jobs.entry(missed.job.clone()).or_default();
            job.reported.push((missed.range.from, missed.range.to));
        }
    }

    /// A process that goes on cancels what it has lost before anything else happens.
    fn check_resumed(&mut self, at: i64) -> Checked {
        let jobs = &self.jobs;
        for (name, instance) in &mut self.instances {
            if instance.paused || instance.resumed_at.is_none_or(|resumed| resumed >= at) {
                continue;
            }
            instance.resumed_at = None;
            for job in jobs.values() {
                for ((holder, work), cancelled) in &job.working {
                    let superseded = job.attempts.get(&work.key) > Some(&work.attempt);
                    demand(holder != name || !superseded || *cancelled, 2, || {
                        format!("{name} was stopped, goes on, and still works on {work:?}")
                    })?;
                }
            }
        }
        Ok(())
    }

    fn end(&self, seen: &[Observed]) -> Checked {
        let Some(last) = seen.last() else { return Ok(()) };
        for (name, job) in &self.jobs {
            for run in job.state.unfinished() {
                let over = last.store_ms - run.lease_until;
                demand(-over <= run.lease_ms, 3, || {
                    format!(
                        "{name}: the run of slot {} held by {} has a lease of {} ms, and {} ms are \
                         left of it",
                        run.slot, run.by, run.lease_ms, -over
                    )
                })?;
                demand(over < STUCK_MS, 3, || {
                    format!(
                        "{name}: the run of slot {} (manual {}) held by {} has been over for {over} \
                         ms, and nobody ends it",
                        run.slot, run.manual, run.by
                    )
                })?;
            }
            job.check_accounted(name, self.crashed)?;
        }
        Ok(())
    }
}

impl Job {
    fn executed(
        &mut self,
        one: &Observed,
        call: &Call,
        answer: &Answer,
        idle: &BTreeSet<String>,
        excused: bool,
        stepped: bool,
    ) -> Checked {
        match (call, answer) {
            (Call::Claim(claim), Answer::Outcome(outcome)) => {
                let key = RunKey::scheduled(claim.input.slot);
                let wanted = claim.kind == ClaimKind::Slot
                    && !self.recorded.contains(&key.slot)
                    && claim.not_after_ms.is_some_and(|last| one.store_ms <= last)
                    && !stepped;
                demand(!wanted || outcome.kind != OutcomeKind::Late, 5, || {
                    format!("slot {} is still wanted and was refused as late", key.slot)
                })?;
                if claim.kind == ClaimKind::Slot && !stepped {
                    self.check_order(one, key.slot, claim.not_after_ms)?;
                }
                self.granted(one, key, &claim.input, outcome, idle, excused)
            }
            (Call::ClaimManual(input), Answer::Outcome(outcome)) => {
                let key = RunKey::manual(outcome.slot.unwrap_or(input.slot));
                if outcome.kind == OutcomeKind::Won {
                    let known = *self.manual_slots.entry(input.token.clone()).or_insert(key.slot);
                    demand(known == key.slot, 7, || {
                        format!("the repeat of the manual run of slot {known} became {}", key.slot)
                    })?;
                }
                self.granted(one, key, input, outcome, idle, excused)
            }
            (Call::ClaimOnly(input), Answer::Bool(true)) => {
                let _first = self.recorded.insert(input.slot);
                Ok(())
            }
            (Call::Heartbeat { token, .. }, Answer::Bool(true)) => {
                demand(!self.spent.contains(token), 7, || {
                    format!("the spent lease of {token} was renewed by a heartbeat")
                })
            }
            (Call::Release { token, slot }, Answer::Bool(true)) => {
                self.spent.insert(token.clone());
                self.excuse_token(*slot, token);
                Ok(())
            }
            (Call::Finish { token, status, .. }, Answer::Bool(truth)) => {
                self.finish(one, token, *status, *truth, stepped)
            }
            _ => Ok(()),
        }
    }

    /// A slot that is asked for while an older one, still in time, has no answer would let the older
    /// one be passed over.
    fn check_order(&mut self, one: &Observed, slot: i64, last: Option<i64>) -> Checked {
        let asked = self.asked.entry(one.instance.clone()).or_default();
        let newest = asked.last().copied();
        asked.insert(slot);
        let (Some(every), Some(newest), Some(last)) = (self.expected.every_ms, newest, last) else {
            return Ok(());
        };
        let mut older = newest + every;
        while self.expected.in_order && older < slot {
            let passed = !self.recorded.contains(&older) && one.store_ms <= older + (last - slot);
            demand(!passed, 9, || {
                format!(
                    "{} asks for slot {slot} while slot {older}, which is still in time, has no \
                     answer: it would be passed over",
                    one.instance
                )
            })?;
            older += every;
        }
        Ok(())
    }

    fn excuse_token(&mut self, slot: i64, token: &str) {
        let ours = |run: &&crate::lease::model::Run| run.slot == slot && run.token == token;
        let granted = self.state.runs.values().find(ours).map(|run| (run.key(), run.attempt));
        if let Some(grant) = granted.and_then(|key| self.grants.get_mut(&key)) {
            grant.excused = true;
        }
    }

    fn finish(
        &mut self,
        one: &Observed,
        token: &str,
        status: Status,
        truth: bool,
        stepped: bool,
    ) -> Checked {
        if let Some((before, at)) = self.finished.get(token) {
            let fresh = one.store_ms < at + self.state.header.keep_ms && !stepped;
            return demand(!fresh || truth == (*before == status), 7, || {
                format!("a finish repeated within keepMs was answered {truth}")
            });
        }
        if truth {
            self.finished.insert(token.to_owned(), (status, one.store_ms));
        }
        Ok(())
    }

    fn granted(
        &mut self,
        one: &Observed,
        key: RunKey,
        input: &ClaimInput,
        outcome: &ClaimOutcome,
        idle: &BTreeSet<String>,
        excused: bool,
    ) -> Checked {
        if outcome.kind != OutcomeKind::Won {
            return Ok(());
        }
        let (attempt, fence) = (outcome.attempt.unwrap_or(1), outcome.fence.unwrap_or(0));
        let before = self.attempts.get(&key).copied().unwrap_or(0);
        if attempt == before && fence <= self.fence {
            return demand(!self.spent.contains(&input.token), 7, || {
                format!("the spent lease of {} on {key:?} came back", input.token)
            });
        }
        self.spent.remove(&input.token);
        demand(attempt == before + 1, 6, || {
            format!("{key:?} was granted as attempt {attempt} after attempt {before}")
        })?;
        demand(fence > self.fence, 6, || format!("fence {fence} came after {}", self.fence))?;
        if let Some(earlier) = self.grants.get(&(key, before)) {
            let explained = earlier.used || earlier.excused;
            demand(explained, 3, || {
                format!(
                    "{key:?} was granted to {} as attempt {before}, which lives, and is taken over \
                     without having been started",
                    earlier.instance
                )
            })?;
        }
        demand(attempt > 1 || key.manual || !self.recorded.contains(&key.slot), 5, || {
            format!("slot {} was recorded before and starts again", key.slot)
        })?;
        for ((holder, work), cancelled) in &self.working {
            let at_work = work.key == key && !cancelled && !idle.contains(holder);
            demand(!at_work, 2, || {
                format!("{key:?} was granted to {} while {holder} works on it", one.instance)
            })?;
        }
        self.attempts.insert(key, attempt);
        self.fence = fence;
        let grant = Grant { instance: one.instance.clone(), used: false, excused };
        self.grants.insert((key, attempt), grant);
        Ok(())
    }

    fn handler_started(&mut self, instance: &str, work: &Work) -> Checked {
        let leases = work.fence > 0;
        if !leases && !work.key.manual {
            demand(self.started.insert(work.key.slot), 1, || {
                format!("slot {} was started a second time, by {instance}", work.key.slot)
            })?;
        }
        for (holder, other) in self.working.keys().filter(|(_, other)| other.key == work.key) {
            demand(holder != instance || other == work, 2, || {
                format!("{instance} starts {:?} beside its own handler", work.key)
            })?;
        }
        let latest = self.attempts.get(&work.key).copied().unwrap_or(work.attempt);
        demand(!leases || latest == work.attempt, 2, || {
            format!(
                "{instance} starts {:?} as attempt {}, and attempt {latest} has been granted",
                work.key, work.attempt
            )
        })?;
        if let Some(grant) = self.grants.get_mut(&(work.key, work.attempt)) {
            grant.used = true;
        }
        self.working.insert((instance.to_owned(), work.clone()), false);
        Ok(())
    }

    /// What must hold of what is stored.
    fn stored(&mut self, state: &JobState, now: i64) -> Checked {
        let open = state.unfinished().filter(|run| !run.is_lost(now)).count();
        demand(!self.expected.skip || open <= 1, 4, || {
            format!("{open} runs of a job that skips are unfinished at once")
        })?;
        let header = &state.header;
        for slot in &self.recorded {
            let kept = state.runs.contains_key(&RunKey::scheduled(*slot));
            demand(kept || *slot <= header.floor, 5, || {
                format!("slot {slot} has been forgotten, and the floor is {}", header.floor)
            })?;
        }
        let scheduled = state.runs.keys().filter(|key| !key.manual);
        self.recorded.extend(scheduled.map(|key| key.slot));
        if *state != self.state {
            let wanted: BTreeSet<RunKey> = state
                .runs
                .keys()
                .rev()
                .filter(|key| !key.manual)
                .take(usize::try_from(header.keep_slots).unwrap_or(0))
                .copied()
                .collect();
            let old = state.runs.values().filter(|run| {
                let ended = run.ended_at.unwrap_or(i64::MAX / 2);
                run.slot.max(ended).saturating_add(header.keep_ms) <= now
                    && !wanted.contains(&run.key())
            });
            let old = i64::try_from(old.count()).unwrap_or(i64::MAX);
            demand(old <= header.history_size, 8, || {
                format!("{old} old records are kept, historySize is {}", header.history_size)
            })?;
        }
        // A manual run that was refused, and whose duplicate was granted, is nobody's.
        let lost =
            |run: &&crate::lease::model::Run| run.status == Some(Status::Lost) && !run.manual;
        for run in state.runs.values().filter(lost) {
            let grant = self.grants.get(&(run.key(), run.attempt));
            demand(grant.is_none_or(|grant| grant.used || grant.excused), 3, || {
                format!(
                    "the run of slot {} was granted to {} as attempt {}, which lives, and was lost \
                     without having been started",
                    run.slot, run.by, run.attempt
                )
            })?;
        }
        for range in &header.missed {
            self.reported.push((range.from, range.to));
        }
        self.reported.sort_unstable();
        self.reported.dedup();
        if self.first_since.is_none() && header.since > 0 {
            self.first_since = Some(header.since);
        }
        self.state = state.clone();
        Ok(())
    }

    /// No slot disappears silently.
    fn check_accounted(&self, name: &str, crashed: bool) -> Checked {
        let (Some(every), Some(since)) = (self.expected.every_ms, self.first_since) else {
            return Ok(());
        };
        let mut slot = since + (every - since.rem_euclid(every)) % every;
        while slot <= self.expected.until_ms {
            let recorded = self.recorded.contains(&slot);
            let reported = self.reported.iter().any(|(from, to)| *from <= slot && slot <= *to);
            // Whoever was to make up for it died, and the floor has passed it.
            let excused = crashed && slot <= self.state.header.floor;
            demand(recorded || reported || excused, 9, || {
                format!("{name}: slot {slot} was neither run nor reported as missed")
            })?;
            slot += every;
        }
        Ok(())
    }
}
