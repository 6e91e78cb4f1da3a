//! Between load and apply: what a call must see, what it answers, what is to be written.

use std::collections::BTreeMap;

use super::load::Loaded;
use super::statements::{Runs, Scope};
use crate::backend::contract::StoredResult;
use crate::lease::model::{JobHeader, JobState, Run, RunKey};
use crate::lease::rules::{self, Answer, Call, Change};

/// What a call must see of its job.
pub(super) fn scope_of(call: &Call) -> Scope {
    match call {
        Call::Register(_) => Scope::of(Runs::None),
        Call::Claim(_) => Scope::of(Runs::OfSlotsAndOpen),
        Call::ClaimOnly(_)
        | Call::Heartbeat { .. }
        | Call::Finish { .. }
        | Call::Release { .. }
        | Call::Cancel { .. }
        | Call::SaveResult { .. } => Scope::of(Runs::OfSlots),
        Call::ClaimManual(_) => Scope::of(Runs::All),
        Call::RecordMissed(_) | Call::SetPaused(_) => Scope::with_missed(Runs::None),
        // Of the ended ones it shows no more than their outlines say, which are read apart.
        Call::Survey => Scope::with_missed(Runs::Open),
        Call::Forget => Scope::with_missed(Runs::All),
    }
}

/// The slot that a call is about.
pub(super) fn slot_of(call: &Call) -> Option<i64> {
    match call {
        Call::Claim(claim) => Some(claim.input.slot),
        Call::ClaimOnly(input) => Some(input.slot),
        Call::Heartbeat { slot, .. }
        | Call::Finish { slot, .. }
        | Call::Release { slot, .. }
        | Call::Cancel { slot, .. } => Some(*slot),
        Call::SaveResult { result, .. } => Some(result.slot),
        Call::Register(_)
        | Call::ClaimManual(_)
        | Call::Survey
        | Call::RecordMissed(_)
        | Call::SetPaused(_)
        | Call::Forget => None,
    }
}

/// The length of the lease that a call is about (ms).
pub(super) fn lease_of(call: &Call) -> Option<i64> {
    match call {
        Call::Claim(claim) => claim.input.lease_ms,
        Call::ClaimManual(input) => input.lease_ms,
        Call::Heartbeat { lease_ms, .. } => Some(*lease_ms),
        _ => None,
    }
}

/// A run to be written: its new form, and a new body if it got one.
pub(super) struct Written {
    pub(super) run: Run,
    pub(super) result: Option<Box<StoredResult>>,
}

/// What the calls on one job answer, and what is to be written for them.
pub(super) struct Verdict {
    /// One answer per call.
    pub(super) answers: Vec<Answer>,
    /// What is known of the job after them.
    pub(super) state: JobState,
    /// How many records have ended after them.
    pub(super) ended: i64,
    /// What becomes of the runs: written, or dropped.
    pub(super) runs: BTreeMap<RunKey, Option<Written>>,
    /// Whether anything changes at all.
    pub(super) changes: bool,
}

/// How much of a job's runs has been loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// What the scope of the read brought.
    Scope(Runs),
    /// That, all that are unfinished, and so many of the oldest ended ones.
    Oldest(usize),
    /// All, at least in outline.
    All,
}

/// More has to be loaded: so many of the oldest ended records, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Short {
    /// How many; `None` for all.
    pub(super) oldest: Option<usize>,
}

/// Decides calls on one job, one after the other, at the store's time `now` (ms).
///
/// A record that may have to be trimmed is among the oldest, which a call need not have loaded.
pub(super) fn decide(
    loaded: &Loaded,
    seen: Seen,
    calls: &[&Call],
    now: i64,
) -> Result<Verdict, Short> {
    let mut state = loaded.state.clone();
    let mut verdict = Verdict {
        answers: Vec::with_capacity(calls.len()),
        state: JobState::default(),
        ended: loaded.ended,
        runs: BTreeMap::new(),
        changes: false,
    };
    let mut gone = 0;
    for call in calls {
        if matches!(call, Call::Survey) && !is_complete(loaded, seen) {
            return Err(Short { oldest: None });
        }
        let decision = rules::decide_beside(&state, loaded.unseen, call, now);
        verdict.answers.push(decision.answer);
        if decision.changes.is_empty() {
            continue;
        }
        let before_trimming = verdict.ended + newly_ended(&state, &decision.changes);
        let after = header_after(&state, &decision.changes);
        if !is_complete(loaded, seen) && rules::may_trim(after, before_trimming) {
            if after.history_ttl_ms.is_some() {
                return Err(Short { oldest: None });
            }
            let wanted = before_trimming - after.history_size + gone;
            let wanted = usize::try_from(wanted).unwrap_or(0);
            if !matches!(seen, Seen::Oldest(oldest) if wanted <= oldest) {
                return Err(Short { oldest: Some(wanted.saturating_add(calls.len())) });
            }
        }
        let trimmed = dropped(&state, &decision.changes);
        gone += trimmed;
        verdict.ended = before_trimming - trimmed;
        rules::apply(&mut state, &decision.changes);
        verdict.changes = true;
        for change in decision.changes {
            verdict.note(change);
        }
    }
    verdict.state = state;
    Ok(verdict)
}

/// Whether nothing more could be loaded.
fn is_complete(loaded: &Loaded, seen: Seen) -> bool {
    match seen {
        Seen::All | Seen::Scope(Runs::All) => true,
        _ if loaded.version.is_none() => true,
        Seen::Scope(Runs::Open | Runs::OfSlotsAndOpen) => loaded.ended == 0,
        Seen::Oldest(_) | Seen::Scope(_) => false,
    }
}

impl Verdict {
    fn note(&mut self, change: Change) {
        match change {
            Change::Header(_) => {}
            Change::Drop(key) => {
                self.runs.insert(key, None);
            }
            Change::Put { run, result } => {
                let before = self.runs.remove(&run.key()).flatten();
                let result = result.or(before.and_then(|written| written.result));
                self.runs.insert(run.key(), Some(Written { run, result }));
            }
        }
    }
}

fn header_after<'a>(state: &'a JobState, changes: &'a [Change]) -> &'a JobHeader {
    let changed = changes.iter().find_map(|change| match change {
        Change::Header(header) => Some(header),
        Change::Put { .. } | Change::Drop(_) => None,
    });
    changed.unwrap_or(&state.header)
}

fn has_ended(state: &JobState, key: RunKey) -> i64 {
    state.runs.get(&key).map_or(0, |run| i64::from(!run.is_unfinished()))
}

fn newly_ended(state: &JobState, changes: &[Change]) -> i64 {
    let puts = changes.iter().map(|change| match change {
        Change::Put { run, .. } => i64::from(!run.is_unfinished()) - has_ended(state, run.key()),
        Change::Header(_) | Change::Drop(_) => 0,
    });
    puts.sum()
}

fn dropped(state: &JobState, changes: &[Change]) -> i64 {
    let drops = changes.iter().map(|change| match change {
        Change::Drop(key) => has_ended(state, *key),
        Change::Header(_) | Change::Put { .. } => 0,
    });
    drops.sum()
}
