//! The rules of claims and leases: a pure function of state, call and time.
//!
//! `decide(state, call, now)` answers the call and lists what changes. A store loads the state,
//! decides, and applies the changes, all in one atomic step. `now` is the store's clock, read
//! between the caller's sending and the commit: an older reading is safe, a later one is not.
//!
//! The numbers in the comments are those of the documentation (`docs/concepts/leases.md`).

use std::collections::BTreeMap;

use crate::backend::contract::{
    ActiveRun, ClaimInput, ClaimKind, ClaimOutcome, JobLimits, OutcomeKind, Overlap, PauseRequest,
    RunClaim, StoredResult, Survey,
};
use crate::lease::model::{
    JobHeader, JobState, MISSED_KEPT, MissedRange, Paused, Run, RunKey, Status,
};

/// What an instance asks of a job's state.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Registers a job and its limits.
    Register(JobLimits),
    /// Claims the scheduled run of a slot, with a lease.
    Claim(RunClaim),
    /// Claims the scheduled run of a slot on a store used without leases.
    ClaimOnly(ClaimInput),
    /// Starts a manual run; with a lease if the input has `lease_ms`.
    ClaimManual(ClaimInput),
    /// Moves the lease end forward.
    Heartbeat { slot: i64, token: String, lease_ms: i64 },
    /// Ends the holder's run.
    Finish { slot: i64, token: String, status: Status, result: Option<StoredResult> },
    /// Gives the lease back.
    Release { slot: i64, token: String },
    /// Ends an unfinished run, whoever holds it.
    Cancel { slot: i64, manual: bool },
    /// Stores the result of a claim without a lease.
    SaveResult { result: StoredResult, history_size: i64, history_ttl_ms: Option<i64> },
    /// Settles and shows what a sweep or a start needs.
    Survey,
    /// Keeps a missed range, once.
    RecordMissed(MissedRange),
    /// Pauses (`Some`) or resumes (`None`).
    SetPaused(Option<PauseRequest>),
    /// Drops the ended records and the definition.
    Forget,
}

/// The answer to a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To `Claim` and `ClaimManual`.
    Outcome(ClaimOutcome),
    /// To everything that is true or false.
    Bool(bool),
    /// To `Survey`.
    Survey(Survey),
}

impl Answer {
    /// The outcome of a claim.
    pub fn into_outcome(self) -> ClaimOutcome {
        match self {
            Answer::Outcome(outcome) => outcome,
            _ => ClaimOutcome::of(OutcomeKind::None),
        }
    }

    /// The truth of a yes-or-no call.
    pub fn is_true(&self) -> bool {
        matches!(self, Answer::Bool(true))
    }

    /// The survey.
    pub fn into_survey(self) -> Survey {
        match self {
            Answer::Survey(survey) => survey,
            _ => Survey::default(),
        }
    }
}

/// One change to what is stored, to be applied in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Replaces the header.
    Header(JobHeader),
    /// Inserts or replaces a run. A `result` replaces the run's body; without one it is kept,
    /// except that a run which begins (`attempt` grew) has none.
    Put { run: Run, result: Option<Box<StoredResult>> },
    /// Removes a run and its body.
    Drop(RunKey),
}

/// What a call answers and what it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The answer.
    pub answer: Answer,
    /// What is to be stored; empty if nothing changes.
    pub changes: Vec<Change>,
}

/// Decides a call on a job's state at the store's time `now` (ms).
pub fn decide(state: &JobState, call: &Call, now: i64) -> Decision {
    let mut draft = Draft::new(state, now);
    let answer = match call {
        Call::Register(limits) => draft.register(limits),
        Call::Claim(claim) => draft.claim(claim),
        Call::ClaimOnly(input) => draft.claim_only(input),
        Call::ClaimManual(input) => draft.claim_manual(input),
        Call::Heartbeat { slot, token, lease_ms } => draft.heartbeat(*slot, token, *lease_ms),
        Call::Finish { slot, token, status, result } => {
            draft.finish(*slot, token, *status, result.as_ref())
        }
        Call::Release { slot, token } => draft.release(*slot, token),
        Call::Cancel { slot, manual } => draft.cancel(RunKey { slot: *slot, manual: *manual }),
        Call::SaveResult { result, history_size, history_ttl_ms } => {
            draft.save_result(result, *history_size, *history_ttl_ms)
        }
        Call::Survey => draft.survey(),
        Call::RecordMissed(range) => draft.record_missed(range),
        Call::SetPaused(request) => draft.set_paused(request.as_ref()),
        Call::Forget => draft.forget(),
    };
    draft.trim();
    Decision { answer, changes: draft.into_changes() }
}

/// Applies changes to a state held in memory. The bodies are the caller's to keep.
pub fn apply(state: &mut JobState, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Header(header) => state.header = header.clone(),
            Change::Put { run, .. } => {
                state.runs.insert(run.key(), run.clone());
            }
            Change::Drop(key) => {
                state.runs.remove(key);
            }
        }
    }
}

/// The unfinished runs as `active` shows them, oldest slot first; lost ones are left out.
pub fn active(state: &JobState, now: i64) -> Vec<ActiveRun> {
    let open = state.unfinished().filter(|run| !run.is_lost(now));
    open.map(|run| active_run(run, now)).collect()
}

fn active_run(run: &Run, now: i64) -> ActiveRun {
    ActiveRun {
        slot: run.slot,
        manual: run.manual,
        by: run.by.clone(),
        attempt: run.attempt,
        left_ms: run.left_ms(now),
        alive: run.is_alive(now),
    }
}

/// A run that the call touched: its new form, and a new body if it got one.
struct Touched {
    run: Option<Run>,
    result: Option<Box<StoredResult>>,
}

/// A state under decision: what is stored, and over it what this call changes.
struct Draft<'a> {
    state: &'a JobState,
    now: i64,
    header: JobHeader,
    touched: BTreeMap<RunKey, Touched>,
}

impl<'a> Draft<'a> {
    fn new(state: &'a JobState, now: i64) -> Draft<'a> {
        Draft { state, now, header: state.header.clone(), touched: BTreeMap::new() }
    }

    fn run(&self, key: RunKey) -> Option<&Run> {
        match self.touched.get(&key) {
            Some(touched) => touched.run.as_ref(),
            None => self.state.runs.get(&key),
        }
    }

    fn put(&mut self, run: Run) {
        self.put_with(run, None);
    }

    fn put_with(&mut self, run: Run, result: Option<Box<StoredResult>>) {
        let kept = self.touched.remove(&run.key()).and_then(|touched| touched.result);
        self.touched.insert(run.key(), Touched { run: Some(run), result: result.or(kept) });
    }

    fn remove(&mut self, key: RunKey) {
        self.touched.insert(key, Touched { run: None, result: None });
    }

    /// All runs as they stand after what has been decided so far, oldest slot first.
    fn all(&self) -> Vec<&Run> {
        let untouched = self
            .state
            .runs
            .iter()
            .filter(|(key, _)| !self.touched.contains_key(key))
            .map(|(_, r)| r);
        let touched = self.touched.values().filter_map(|touched| touched.run.as_ref());
        let mut runs: Vec<&Run> = untouched.chain(touched).collect();
        runs.sort_by_key(|run| run.key());
        runs
    }

    fn unfinished(&self) -> Vec<&Run> {
        self.all().into_iter().filter(|run| run.is_unfinished()).collect()
    }

    fn into_changes(self) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.header != self.state.header {
            changes.push(Change::Header(self.header));
        }
        for (key, touched) in self.touched {
            let before = self.state.runs.get(&key);
            match (before, touched.run) {
                (before, Some(run)) => {
                    if before != Some(&run) || touched.result.is_some() {
                        changes.push(Change::Put { run, result: touched.result });
                    }
                }
                (Some(_), None) => changes.push(Change::Drop(key)),
                (None, None) => {}
            }
        }
        changes
    }

    // ---- registering

    fn register(&mut self, limits: &JobLimits) -> Answer {
        let schedule = limits.schedule.clone().unwrap_or_default();
        self.register_schedule(&schedule);
        let header = &mut self.header;
        if let Some(tables) = &limits.zone_tables {
            header.zone_tables.clone_from(tables);
        }
        header.history_size = limits.history_size;
        header.history_ttl_ms = limits.history_ttl_ms;
        // What must be left is what any replica may still ask for: the greatest that was seen.
        header.keep_ms = header.keep_ms.max(limits.keep_ms.unwrap_or(0));
        header.keep_slots = header.keep_slots.max(limits.keep_slots.unwrap_or(0));
        header.keep_window_ms = header.keep_window_ms.max(limits.keep_window_ms.unwrap_or(0));
        Answer::Bool(true)
    }

    fn register_schedule(&mut self, schedule: &str) {
        let header = &mut self.header;
        if header.since == 0 {
            header.schedule = schedule.to_owned();
            header.since = self.now;
            return;
        }
        // An old replica that restarts in a rolling deploy brings the previous definition back for
        // a moment: that must not restart the horizon.
        if schedule == header.schedule || schedule == header.schedule_prev {
            return;
        }
        // Of two replicas that disagree about the one instant of an `at` job the first one wins,
        // until that instant has passed.
        if let (Some(stored), Some(_)) = (at_slot(&header.schedule), at_slot(schedule))
            && stored + header.keep_ms > self.now
        {
            return;
        }
        header.schedule_prev = std::mem::replace(&mut header.schedule, schedule.to_owned());
        header.since = self.now;
    }

    // ---- settling

    /// For every unfinished run: a lease that ends later than it can is cut (the store's clock was
    /// set back), and a run that nobody may take over and whose lease is over is lost. The policy
    /// is the one stored in the run, not the caller's.
    fn settle(&mut self) {
        let now = self.now;
        let open: Vec<Run> = self.unfinished().into_iter().cloned().collect();
        for mut run in open {
            let latest = now.saturating_add(run.lease_ms);
            if run.lease_until > latest {
                run.lease_until = latest;
                self.put(run.clone());
            }
            if run.is_lost(now) {
                run.status = Some(Status::Lost);
                run.ended_at = Some(run.lease_until);
                self.put(run);
            }
        }
    }

    // ---- claims

    fn claim(&mut self, claim: &RunClaim) -> Answer {
        self.settle();
        self.remember_history_limits(&claim.input);
        let slot = claim.input.slot;
        let mut outcome = match self.run(RunKey::scheduled(slot)).cloned() {
            Some(run) => self.claim_recorded(run, claim),
            None => self.claim_unrecorded(claim),
        };
        outcome.now_ms = Some(self.now);
        outcome.next_ms = self.next_ms(RunKey::scheduled(slot));
        Answer::Outcome(outcome)
    }

    fn claim_recorded(&mut self, mut run: Run, claim: &RunClaim) -> ClaimOutcome {
        // 1. It has ended (a claim without a lease counts as ended: nobody may start it again).
        if !run.is_unfinished() {
            return ClaimOutcome::of(OutcomeKind::Done);
        }
        let now = self.now;
        let lease_ms = lease_of(&claim.input);
        // 2. It is the caller's own.
        if run.token == claim.input.token {
            if run.released {
                // A released lease is spent: ask with a new token.
                return running(&run, now);
            }
            run.lease_until = run.lease_until.max(now.saturating_add(lease_ms));
            run.lease_ms = lease_ms;
            let outcome = won(&run);
            self.put(run);
            return outcome;
        }
        // 3. Somebody holds it.
        if run.is_alive(now) {
            return running(&run, now);
        }
        // 4. Take it over. (One that nobody may take over has been settled as lost.)
        run.crashes += if run.released { 0 } else { 1 };
        run.attempt += 1;
        run.fence = self.next_fence();
        run.token.clone_from(&claim.input.token);
        run.by.clone_from(&claim.input.instance_id);
        run.at = now;
        run.released = false;
        run.lease_until = now.saturating_add(lease_ms);
        run.lease_ms = lease_ms;
        let outcome = won(&run);
        self.put(run);
        outcome
    }

    fn claim_unrecorded(&mut self, claim: &RunClaim) -> ClaimOutcome {
        let input = &claim.input;
        let (slot, now) = (input.slot, self.now);
        // 5. Its record may have been trimmed.
        if slot <= self.header.floor {
            return ClaimOutcome::of(OutcomeKind::Late);
        }
        // 6. A backup takes over, it never starts.
        if claim.kind == ClaimKind::Backup {
            return ClaimOutcome::of(OutcomeKind::None);
        }
        // 7. Before this definition existed nothing was missed.
        if claim.kind == ClaimKind::CatchUp && slot < self.header.since {
            return ClaimOutcome::of(OutcomeKind::None);
        }
        // 8. Too late, by the store's clock alone.
        if claim.kind == ClaimKind::Slot && claim.not_after_ms.is_some_and(|last| now > last) {
            return ClaimOutcome::of(OutcomeKind::Late);
        }
        // 8a. Paused: what has begun goes on, nothing begins.
        if self.header.paused.is_some() {
            return ClaimOutcome::of(OutcomeKind::Paused);
        }
        // 9. The caller's clock runs ahead.
        if slot > now.saturating_add(input.max_early_ms.unwrap_or(i64::MAX)) {
            return ClaimOutcome::of(OutcomeKind::Early);
        }
        // 10. Another run is in the way.
        if input.overlap == Some(Overlap::Skip)
            && let Some(outcome) = self.in_the_way()
        {
            // Do not judge a slot before its time.
            if slot > now {
                return ClaimOutcome::of(OutcomeKind::Early);
            }
            if claim.kind == ClaimKind::Slot {
                self.put(skipped(input, now));
            }
            return outcome;
        }
        // 11. Start it.
        let fence = self.next_fence();
        let run = first_grant(input, false, slot, fence, claim.max_takeovers, now);
        let outcome = won(&run);
        self.put(run);
        outcome
    }

    /// The oldest unfinished run of the job, as an `overlap` answer. The slot asked for has no
    /// record here, so every unfinished run is another one.
    fn in_the_way(&self) -> Option<ClaimOutcome> {
        let run = self.unfinished().into_iter().next()?;
        let mut outcome = ClaimOutcome::of(OutcomeKind::Overlap);
        outcome.slot = Some(run.slot);
        outcome.manual = Some(run.manual);
        outcome.by = Some(run.by.clone());
        outcome.left_ms = Some(run.left_ms(self.now));
        Some(outcome)
    }

    /// What is left of the earliest lease of the job's other unfinished runs.
    fn next_ms(&self, except: RunKey) -> Option<i64> {
        let others = self.unfinished().into_iter().filter(|run| run.key() != except);
        others.map(|run| run.left_ms(self.now)).min()
    }

    fn next_fence(&mut self) -> i64 {
        self.header.fence += 1;
        self.header.fence
    }

    /// A claim on a job that was never registered still says how much history to keep.
    fn remember_history_limits(&mut self, input: &ClaimInput) {
        if self.header.since == 0 {
            self.header.history_size = input.history_size;
            self.header.history_ttl_ms = input.history_ttl_ms;
        }
    }

    fn claim_only(&mut self, input: &ClaimInput) -> Answer {
        self.remember_history_limits(input);
        if let Some(run) = self.run(RunKey::scheduled(input.slot)) {
            return Answer::Bool(run.token == input.token);
        }
        let early = input.slot > self.now.saturating_add(input.max_early_ms.unwrap_or(i64::MAX));
        if input.slot <= self.header.floor || early {
            return Answer::Bool(false);
        }
        self.put(without_lease(input, false, input.slot, self.now));
        Answer::Bool(true)
    }

    // ---- manual runs

    fn claim_manual(&mut self, input: &ClaimInput) -> Answer {
        self.settle();
        self.remember_history_limits(input);
        let known = self.all().into_iter().find(|run| run.manual && run.token == input.token);
        let mut outcome = match known.cloned() {
            Some(run) => self.repeat_manual(run, input),
            None => self.start_manual(input),
        };
        outcome.now_ms = Some(self.now);
        let slot = outcome.slot.unwrap_or(input.slot);
        outcome.next_ms = self.next_ms(RunKey::manual(slot));
        Answer::Outcome(outcome)
    }

    fn repeat_manual(&mut self, mut run: Run, input: &ClaimInput) -> ClaimOutcome {
        let mut outcome = if run.lease_ms == 0 && run.status.is_none() {
            won(&run)
        } else if !run.is_unfinished() {
            ClaimOutcome::of(OutcomeKind::Done)
        } else if run.released {
            running(&run, self.now)
        } else {
            let lease_ms = lease_of(input);
            run.lease_until = run.lease_until.max(self.now.saturating_add(lease_ms));
            run.lease_ms = lease_ms;
            self.put(run.clone());
            won(&run)
        };
        outcome.slot = Some(run.slot);
        outcome
    }

    fn start_manual(&mut self, input: &ClaimInput) -> ClaimOutcome {
        // A duplicate that arrives after its record was trimmed must not become a ghost.
        let asked_at = input.asked_at.unwrap_or(input.slot);
        if asked_at.saturating_add(self.header.keep_ms) <= self.now && self.header.keep_ms > 0 {
            return ClaimOutcome::of(OutcomeKind::Late);
        }
        let forced = input.force == Some(true);
        if input.overlap == Some(Overlap::Skip)
            && !forced
            && let Some(outcome) = self.in_the_way()
        {
            return outcome;
        }
        let mut slot = input.slot;
        while self.run(RunKey::manual(slot)).is_some() {
            slot += 1;
        }
        let run = if input.lease_ms.unwrap_or(0) > 0 {
            let fence = self.next_fence();
            first_grant(input, true, slot, fence, 0, self.now)
        } else {
            without_lease(input, true, slot, self.now)
        };
        let mut outcome = won(&run);
        outcome.slot = Some(slot);
        self.put(run);
        outcome
    }

    // ---- what a holder does

    /// The run of this slot that the token holds, scheduled or manual.
    fn held(&self, slot: i64, token: &str) -> Option<Run> {
        let keys = [RunKey::scheduled(slot), RunKey::manual(slot)];
        keys.into_iter().filter_map(|key| self.run(key)).find(|run| run.token == token).cloned()
    }

    fn heartbeat(&mut self, slot: i64, token: &str, lease_ms: i64) -> Answer {
        let Some(mut run) = self.held(slot, token) else { return Answer::Bool(false) };
        if !run.is_unfinished() || run.released {
            return Answer::Bool(false);
        }
        run.lease_until = run.lease_until.max(self.now.saturating_add(lease_ms));
        run.lease_ms = lease_ms;
        self.put(run);
        Answer::Bool(true)
    }

    fn finish(
        &mut self,
        slot: i64,
        token: &str,
        status: Status,
        result: Option<&StoredResult>,
    ) -> Answer {
        let Some(mut run) = self.held(slot, token) else { return Answer::Bool(false) };
        if !run.is_unfinished() {
            return Answer::Bool(run.status == Some(status));
        }
        run.status = Some(status);
        run.ended_at = Some(self.now);
        self.put_with(run, result.cloned().map(Box::new));
        Answer::Bool(true)
    }

    fn release(&mut self, slot: i64, token: &str) -> Answer {
        let Some(mut run) = self.held(slot, token) else { return Answer::Bool(false) };
        if !run.is_unfinished() {
            return Answer::Bool(false);
        }
        if !run.released {
            run.lease_until = self.now;
            run.released = true;
            self.put(run);
        }
        Answer::Bool(true)
    }

    fn cancel(&mut self, key: RunKey) -> Answer {
        let Some(mut run) = self.run(key).cloned() else { return Answer::Bool(false) };
        if !run.is_unfinished() {
            return Answer::Bool(false);
        }
        run.status = Some(Status::Cancelled);
        run.ended_at = Some(self.now);
        self.put(run);
        Answer::Bool(true)
    }

    fn save_result(
        &mut self,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Answer {
        self.header.history_size = history_size;
        self.header.history_ttl_ms = history_ttl_ms;
        let key = RunKey { slot: result.slot, manual: result.manual };
        let mut run = match self.run(key).cloned() {
            // A lease is ended by its holder's token alone.
            Some(run) if run.is_unfinished() => return Answer::Bool(false),
            Some(run) => run,
            None => from_result(result),
        };
        if run.status.is_none() {
            run.status = Some(result.status);
            run.ended_at = Some(self.now);
        }
        self.put_with(run, Some(Box::new(result.clone())));
        Answer::Bool(true)
    }

    // ---- the job as a whole

    fn survey(&mut self) -> Answer {
        self.settle();
        let now = self.now;
        let runs = self.unfinished().into_iter().map(|run| active_run(run, now)).collect();
        let slots = self.all().into_iter().filter(|run| !run.manual).map(|run| run.slot).collect();
        let header = &self.header;
        Answer::Survey(Survey {
            now_ms: now,
            schedule: header.schedule.clone(),
            since: header.since,
            floor: header.floor,
            paused: header.paused.clone(),
            slots,
            runs,
            missed: header.missed.clone(),
            zone_tables: header.zone_tables.clone(),
        })
    }

    fn record_missed(&mut self, range: &MissedRange) -> Answer {
        let missed = &mut self.header.missed;
        if missed.iter().any(|known| known.from <= range.from && range.to <= known.to) {
            return Answer::Bool(false);
        }
        missed.push(MissedRange { at: self.now, ..range.clone() });
        let extra = missed.len().saturating_sub(MISSED_KEPT);
        missed.drain(..extra);
        Answer::Bool(true)
    }

    fn set_paused(&mut self, request: Option<&PauseRequest>) -> Answer {
        match (request, self.header.paused.take()) {
            (Some(request), before) => {
                let since = before.map_or(self.now, |paused| paused.since);
                let (by, reason) = (request.by.clone(), request.reason.clone());
                self.header.paused = Some(Paused { since, by, reason });
            }
            (None, Some(paused)) => {
                // A pause is not caught up: its slots are accounted for here, for the whole fleet.
                self.record_missed(&MissedRange {
                    from: paused.since,
                    to: self.now,
                    count: 0,
                    reason: "paused".to_owned(),
                    by: paused.by,
                    at: self.now,
                });
            }
            (None, None) => {}
        }
        Answer::Bool(true)
    }

    fn forget(&mut self) -> Answer {
        if !self.unfinished().is_empty() {
            return Answer::Bool(false);
        }
        let ended: Vec<RunKey> = self.all().into_iter().map(Run::key).collect();
        for key in ended {
            self.drop_record(key);
        }
        let (floor, fence) = (self.header.floor, self.header.fence);
        self.header = JobHeader { floor, fence, ..JobHeader::default() };
        Answer::Bool(true)
    }

    // ---- trimming

    fn drop_record(&mut self, key: RunKey) {
        if !key.manual {
            self.header.floor = self.header.floor.max(key.slot);
        }
        self.remove(key);
    }

    /// After a change: of the ended records keep the newest `history_size` and none older than
    /// `history_ttl_ms`, but never drop one that a late claim could still ask for.
    fn trim(&mut self) {
        if self.touched.is_empty() && self.header == self.state.header {
            return;
        }
        for key in self.trimmable() {
            self.drop_record(key);
        }
    }

    fn trimmable(&self) -> Vec<RunKey> {
        let header = &self.header;
        let (mut newer, mut newer_scheduled) = (0, 0);
        let mut keys = Vec::new();
        for run in self.all().into_iter().rev() {
            let rank_scheduled = newer_scheduled;
            newer_scheduled += i64::from(!run.manual);
            if run.is_unfinished() {
                continue;
            }
            let rank = newer;
            newer += 1;
            let ended_at = run.ended_at.unwrap_or(run.at);
            let aged =
                header.history_ttl_ms.is_some_and(|ttl| ended_at.saturating_add(ttl) <= self.now);
            let young = run.slot.max(ended_at).saturating_add(header.keep_ms) > self.now;
            let wanted = !run.manual
                && rank_scheduled < header.keep_slots
                && run.slot.saturating_add(header.keep_window_ms) > self.now;
            if (rank >= header.history_size || aged) && !young && !wanted {
                keys.push(run.key());
            }
        }
        keys
    }
}

fn lease_of(input: &ClaimInput) -> i64 {
    input.lease_ms.unwrap_or(DEFAULT_LEASE_MS)
}

/// The length of a lease where a caller names none (ms).
pub const DEFAULT_LEASE_MS: i64 = 30_000;

/// The one instant in the fingerprint of an `at` schedule.
fn at_slot(schedule: &str) -> Option<i64> {
    schedule.strip_prefix("at:").and_then(|slot| slot.parse().ok())
}

fn won(run: &Run) -> ClaimOutcome {
    let mut outcome = ClaimOutcome::of(OutcomeKind::Won);
    outcome.attempt = Some(run.attempt);
    outcome.fence = Some(run.fence);
    outcome.max_takeovers = Some(run.max_takeovers);
    outcome
}

fn running(run: &Run, now: i64) -> ClaimOutcome {
    let mut outcome = ClaimOutcome::of(OutcomeKind::Running);
    outcome.by = Some(run.by.clone());
    outcome.left_ms = Some(run.left_ms(now));
    outcome.attempt = Some(run.attempt);
    outcome
}

fn first_grant(
    input: &ClaimInput,
    manual: bool,
    slot: i64,
    fence: i64,
    max_takeovers: i64,
    now: i64,
) -> Run {
    let lease_ms = lease_of(input);
    Run {
        attempt: 1,
        fence,
        lease_until: now.saturating_add(lease_ms),
        lease_ms,
        max_takeovers,
        ..without_lease(input, manual, slot, now)
    }
}

fn without_lease(input: &ClaimInput, manual: bool, slot: i64, now: i64) -> Run {
    Run {
        slot,
        manual,
        token: input.token.clone(),
        by: input.instance_id.clone(),
        at: now,
        attempt: 1,
        fence: 0,
        crashes: 0,
        lease_until: 0,
        lease_ms: 0,
        max_takeovers: 0,
        released: false,
        status: None,
        ended_at: None,
    }
}

fn skipped(input: &ClaimInput, now: i64) -> Run {
    let mut run = without_lease(input, false, input.slot, now);
    run.attempt = 0;
    run.status = Some(Status::Skipped);
    run.ended_at = Some(now);
    run
}

/// A result whose claim is not here (it was made on another store, or has been trimmed).
fn from_result(result: &StoredResult) -> Run {
    Run {
        slot: result.slot,
        manual: result.manual,
        token: String::new(),
        by: result.by.clone(),
        at: result.started_at,
        attempt: result.attempt.unwrap_or(1),
        fence: 0,
        crashes: 0,
        lease_until: 0,
        lease_ms: 0,
        max_takeovers: 0,
        released: false,
        status: None,
        ended_at: None,
    }
}
