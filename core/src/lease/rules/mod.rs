//! The rules of claims and leases: a pure function of state, call and time.
//!
//! `decide(state, call, now)` answers the call and lists what changes. A store loads the state,
//! decides, and applies the changes, all in one atomic step. `now` is the store's clock, read
//! between the caller's sending and the commit: an older reading is safe, a later one is not.
//!
//! One file per kind of call; trimming follows every change, once the answer is decided.
//!
//! The numbers in the comments are those of the documentation (`docs/concepts/leases.md`).

mod claim;
mod draft;
mod grant;
mod holder;
mod job;
mod manual;
mod register;
mod trim;

pub use grant::DEFAULT_LEASE_MS;
#[cfg(feature = "redis")]
pub(crate) use register::{keep_ms, keep_slots};
pub(crate) use trim::may_trim;

use crate::backend::contract::{
    ActiveRun, ClaimInput, ClaimOutcome, JobLimits, OutcomeKind, PauseRequest, RunClaim,
    StoredResult, Survey,
};
use crate::lease::model::{JobHeader, JobState, MissedRange, Run, RunKey, Status};
use draft::Draft;

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

/// Ended records that are stored and were not loaded, for a store that loads no more than it must.
///
/// None of them may be one that a call is about, nor one that could be trimmed: what could be are
/// the oldest, and those are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// All of them are newer than this record, the newest of the oldest.
    pub newer_than: Option<RunKey>,
    /// How many there are.
    pub ended: i64,
    /// How many of them are of scheduled runs.
    pub scheduled: i64,
}

/// Decides a call on a job's state at the store's time `now` (ms).
pub fn decide(state: &JobState, call: &Call, now: i64) -> Decision {
    decide_beside(state, Unseen::default(), call, now)
}

/// Decides a call on what was loaded of a job's state, beside what was not.
pub fn decide_beside(state: &JobState, unseen: Unseen, call: &Call, now: i64) -> Decision {
    let mut draft = Draft::new(state, unseen, now);
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
