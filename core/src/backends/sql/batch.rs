//! Calls that travel together: which go into one attempt, and how often it is made again.

use super::attempt::Attempt;
use super::client::Lane;
use super::decide::{lease_of, slot_of};
use super::engine::{Ask, Live, SqlEngine, SqlStore};
use super::failures::Failures;
use super::statements::LONGEST;
use crate::clock::{Clock, SystemClock, sleep_for};
use crate::error::{Error, Result};
use crate::lease::rules::Answer;

/// The calls on one job, by their place in the batch.
pub(super) struct Group {
    pub(super) job: String,
    pub(super) calls: Vec<usize>,
    failures: Failures,
}

impl Group {
    fn of(job: &str, call: usize) -> Group {
        Group { job: job.to_owned(), calls: vec![call], failures: Failures::default() }
    }
}

/// The most different slots in one statement, and so the most calls on one job at once.
const MOST_SLOTS: usize = 256;

/// Groups calls by job, sorted by name (two batches that lock in the same order cannot block each
/// other), in pieces of a size that a statement can take; no job is twice in one of them.
pub(super) fn chunks(asks: &[Ask]) -> Vec<Vec<Group>> {
    let mut order: Vec<usize> = (0..asks.len()).collect();
    order.sort_by(|a, b| asks[*a].job.cmp(&asks[*b].job));
    let mut groups: Vec<Group> = Vec::new();
    for index in order {
        match groups.last_mut() {
            Some(group) if group.job == asks[index].job && group.calls.len() < MOST_SLOTS => {
                group.calls.push(index);
            }
            _ => groups.push(Group::of(&asks[index].job, index)),
        }
    }
    let mut chunks: Vec<Vec<Group>> = Vec::new();
    let mut slots: Vec<i64> = Vec::new();
    for group in groups {
        let mut with_these = slots.clone();
        with_these.extend(group.calls.iter().filter_map(|call| slot_of(&asks[*call].call)));
        with_these.sort_unstable();
        with_these.dedup();
        let again = |chunk: &Vec<Group>| chunk.last().is_some_and(|last| last.job == group.job);
        let fits = |chunk: &Vec<Group>| {
            chunk.len() < LONGEST && with_these.len() <= MOST_SLOTS && !again(chunk)
        };
        match chunks.last_mut() {
            Some(chunk) if fits(chunk) => {
                chunk.push(group);
                slots = with_these;
            }
            _ => {
                slots = group.calls.iter().filter_map(|call| slot_of(&asks[*call].call)).collect();
                chunks.push(vec![group]);
            }
        }
    }
    chunks
}

/// Some calls on their way.
pub(super) struct Batch<'a, S: SqlStore + ?Sized> {
    pub(super) engine: &'a SqlEngine<S>,
    pub(super) live: &'a Live,
    pub(super) lane: Lane,
    pub(super) asks: &'a [Ask],
}

impl<S: SqlStore + ?Sized> Batch<'_, S> {
    /// Tries until all are answered or the deadline has come.
    pub(super) async fn run(
        &self,
        mut pending: Vec<Group>,
        answers: &mut [Option<Result<Answer>>],
    ) {
        let clock = SystemClock;
        let deadline = clock.mono_ms() + self.patience_ms(&pending);
        let mut failed = false;
        for round in 0_u32.. {
            // After an error each job goes alone: one that cannot be written must not keep the
            // others from it.
            let lots = if failed { 1 } else { pending.len() };
            let mut rest = Vec::new();
            let mut last_error = None;
            while !pending.is_empty() {
                // A store that is away is not asked once more for each of them.
                if last_error.is_some() && clock.mono_ms() >= deadline {
                    rest.append(&mut pending);
                    break;
                }
                let lot: Vec<Group> = pending.drain(..lots.min(pending.len())).collect();
                match Attempt::run(self, &lot).await {
                    Ok(answered) => {
                        for (group, answered) in lot.into_iter().zip(answered) {
                            match answered {
                                Some(given) => {
                                    for (call, answer) in group.calls.iter().zip(given) {
                                        answers[*call] = Some(Ok(answer));
                                    }
                                }
                                None => rest.push(group),
                            }
                        }
                    }
                    Err(error) => {
                        let over = clock.mono_ms() >= deadline;
                        for mut group in lot {
                            if group.failures.end_with(&error) || over {
                                for call in &group.calls {
                                    answers[*call] = Some(Err(error.clone()));
                                }
                            } else {
                                rest.push(group);
                                last_error = Some(error.clone());
                            }
                        }
                    }
                }
            }
            if rest.is_empty() {
                return;
            }
            failed |= last_error.is_some();
            let pause = self.engine.pause_ms(round, last_error.is_some());
            if clock.mono_ms() + pause >= deadline {
                let error = last_error.unwrap_or_else(|| contended(&rest[0].job));
                for call in rest.iter().flat_map(|group| &group.calls) {
                    answers[*call] = Some(Err(error.clone()));
                }
                return;
            }
            if pause > 0 {
                sleep_for(&clock, pause).await;
            }
            pending = rest;
        }
    }

    fn patience_ms(&self, groups: &[Group]) -> i64 {
        let calls = groups.iter().flat_map(|group| &group.calls);
        let leases = calls.filter_map(|call| lease_of(&self.asks[*call].call));
        let sixth = leases.map(|lease_ms| lease_ms / 6).min().unwrap_or(i64::MAX);
        self.engine.shared.options.call_timeout_ms.min(sixth)
    }
}

fn contended(job: &str) -> Error {
    Error::unavailable(format!(
        "the job {job:?} was changed by others each time it was about to be changed here, until \
         the call's deadline"
    ))
}
