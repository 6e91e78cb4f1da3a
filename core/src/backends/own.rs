//! What this instance itself wrote last of a job: the next call can be decided on it without a read.
//!
//! Whoever wrote a state knows it until somebody else writes. A decision on it is as right as one on
//! a state that was just read, for both are applied under the same guard: only while the state is
//! the one that was decided on. So a holder's heartbeat, and the end of its run, need no read. (The
//! optimistic control of H. T. Kung and J. T. Robinson, "On Optimistic Methods for Concurrency
//! Control", ACM TODS 6 (1981), with the read phase left out.)
//!
//! What would change nothing is not guarded: that is decided on a true read, always; and so is a
//! claim that would not be won.
//!
//! Claims are what several instances compete for. One that is decided on an old state costs its
//! loser the guard that did not hold and then the read. So a claim needs no read only where this
//! instance has made the last few claims of the job with nobody's write between them: it is alone,
//! or always the first.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::backend::contract::OutcomeKind;
use crate::clock::{Clock, SystemClock};
use crate::lease::model::{JobState, RunKey};
use crate::lease::rules::{Answer, Call};

/// After so many claims in a row with nobody's write between them the next is decided unread. With
/// three replicas that win by chance this is one claim in 27.
const IN_A_ROW: u32 = 3;

/// How old a written state may be (ms): longer than from one heartbeat to the next.
const OLDEST_MS: i64 = 60_000;

/// What is known of a state that was written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// What a change of the state is guarded by.
    pub(super) version: u64,
    /// The store's time by which it was decided (ms): no later decision may seem an earlier one.
    pub(super) decided_at: i64,
    /// Whether all unfinished runs are in it.
    pub(super) is_whole: bool,
    /// How many claims were won in a row, with nobody's write between them.
    in_a_row: u32,
    /// The newest slot that was claimed. Of older ones the state may not tell.
    newest: i64,
    /// When it was written, by our monotonic clock (ms).
    written_at: i64,
}

/// What was decided, and what on.
pub(super) struct Decided<'a, C> {
    /// The version that was decided on; `None` if nothing was stored.
    pub(super) on: Option<u64>,
    /// Whether all unfinished runs were seen.
    pub(super) is_whole: bool,
    /// The calls.
    pub(super) calls: C,
    /// Their answers.
    pub(super) answers: &'a [Answer],
    /// The store's time (ms).
    pub(super) now: i64,
}

impl Mark {
    /// The mark of what a decision left and was written as `version`, where `before` was the mark
    /// of what had been written here before.
    pub(super) fn of<'a>(
        decided: Decided<'_, impl Iterator<Item = &'a Call>>,
        before: Option<Mark>,
        version: u64,
    ) -> Mark {
        let before = before.filter(|before| decided.on == Some(before.version));
        let (mut in_a_row, mut newest) =
            before.map_or((0, i64::MIN), |before| (before.in_a_row, before.newest));
        for (call, answer) in decided.calls.zip(decided.answers) {
            let (Call::Claim(claim), Answer::Outcome(outcome)) = (call, answer) else { continue };
            newest = newest.max(claim.input.slot);
            in_a_row = if outcome.kind == OutcomeKind::Won { in_a_row + 1 } else { 0 };
        }
        let (decided_at, is_whole) = (decided.now, decided.is_whole);
        let written_at = SystemClock.mono_ms();
        Mark { version, decided_at, is_whole, in_a_row, newest, written_at }
    }

    /// Whether calls on this state can be decided unread, if they change something.
    pub(super) fn serves<'a>(
        &self,
        state: &JobState,
        mut calls: impl Iterator<Item = &'a Call>,
    ) -> bool {
        let is_young = SystemClock.mono_ms() - self.written_at < OLDEST_MS;
        is_young && calls.all(|call| self.serves_one(state, call))
    }

    fn serves_one(&self, state: &JobState, call: &Call) -> bool {
        match call {
            Call::Heartbeat { slot, token, .. }
            | Call::Finish { slot, token, .. }
            | Call::Release { slot, token } => holds(state, *slot, token),
            Call::Claim(claim) => {
                self.is_whole && self.in_a_row >= IN_A_ROW && claim.input.slot > self.newest
            }
            _ => false,
        }
    }
}

/// Whether answers are such that the guard of what changes makes sure of them, also where the state
/// does not tell of all runs: whoever wins learns by writing that it was right. Who does not is told
/// so on a read alone.
pub(super) fn are_guarded(answers: &[Answer]) -> bool {
    answers.iter().all(|answer| match answer {
        Answer::Outcome(outcome) => outcome.kind == OutcomeKind::Won,
        Answer::Bool(_) | Answer::Survey(_) => true,
    })
}

/// Whether the state has an unfinished run with this token.
fn holds(state: &JobState, slot: i64, token: &str) -> bool {
    let keys = [RunKey::scheduled(slot), RunKey::manual(slot)];
    let mut runs = keys.into_iter().filter_map(|key| state.runs.get(&key));
    runs.any(|run| run.token == token && run.is_unfinished())
}

/// The states that were written here last, by namespace and job. One is taken out, and put back as
/// it then is: of two calls at the same time the second one reads.
pub(super) struct Owns<T> {
    jobs: usize,
    kept: Mutex<Generations<T>>,
}

/// By namespace and job.
type States<T> = HashMap<(String, String), (T, Mark)>;

/// What nobody asked for while so many others were written is forgotten.
struct Generations<T> {
    young: States<T>,
    old: States<T>,
    /// When the young ones were none, by our monotonic clock (ms).
    since: i64,
}

impl<T> Owns<T> {
    /// Room for the states of so many jobs at least, and of twice as many at most.
    pub(super) fn of(jobs: usize) -> Owns<T> {
        let kept = Generations { young: HashMap::new(), old: HashMap::new(), since: 0 };
        Owns { jobs, kept: Mutex::new(kept) }
    }

    /// What was written last of a job, if it is remembered. It is so no more.
    pub(super) fn take(&self, namespace: &str, job: &str) -> Option<(T, Mark)> {
        let key = (namespace.to_owned(), job.to_owned());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.young.remove(&key).or_else(|| kept.old.remove(&key))
    }

    /// Remembers it.
    pub(super) fn put(&self, namespace: &str, job: &str, own: (T, Mark)) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = own.1.written_at;
        if kept.young.len() >= self.jobs || now - kept.since > OLDEST_MS {
            kept.old = std::mem::take(&mut kept.young);
            kept.since = now;
        }
        kept.young.insert((namespace.to_owned(), job.to_owned()), own);
    }

    /// Forgets all.
    #[cfg(feature = "nats")]
    pub(super) fn clear(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.young, kept.old) = (HashMap::new(), HashMap::new());
    }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
