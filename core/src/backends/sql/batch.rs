//! Calls that travel together: read in one statement, decided, applied in one transaction.

use super::client::Lane;
use super::decide::{Seen, Short, Verdict, decide, lease_of, scope_of, slot_of};
use super::engine::{Ask, Live, SqlEngine, SqlStore};
use super::failures::Failures;
use super::load::Read;
use super::plan::{Plan, Unit};
use super::statements::{LONGEST, Runs, Scope, padded};
use crate::clock::{Clock, SystemClock, sleep_for};
use crate::error::{Error, Result};
use crate::lease::rules::{Answer, Call};

/// The calls on one job, by their place in the batch.
pub(super) struct Group {
    job: String,
    calls: Vec<usize>,
    failures: Failures,
}

impl Group {
    fn of(job: &str, call: usize) -> Group {
        Group { job: job.to_owned(), calls: vec![call], failures: Failures::default() }
    }
}

/// Where more of the oldest runs must be known than this, all are read.
const MOST_OLDEST: usize = 64;

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
                match self.attempt(&lot).await {
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

    /// Reads, decides and applies once. `None` for a group whose guard did not hold.
    async fn attempt(&self, groups: &[Group]) -> Result<Vec<Option<Vec<Answer>>>> {
        let wanted = groups.iter().flat_map(|group| &group.calls);
        let scope = wanted.map(|call| scope_of(&self.asks[*call].call)).reduce(Scope::and);
        let scope = scope.unwrap_or(Scope::of(Runs::None));
        let mut read = self.read(groups, scope).await?;
        let verdicts = self.decide_all(groups, scope, &mut read).await?;
        let mut answered: Vec<Option<Vec<Answer>>> = Vec::with_capacity(groups.len());
        let mut units = Vec::new();
        let mut unit_of = Vec::new();
        for (index, verdict) in verdicts.into_iter().enumerate() {
            let Some(mut verdict) = verdict else {
                answered.push(None);
                continue;
            };
            answered.push(Some(std::mem::take(&mut verdict.answers)));
            if verdict.changes {
                units.push(self.unit(&groups[index].job, &read, scope, verdict)?);
                unit_of.push(index);
            }
        }
        if !units.is_empty() {
            let held = self.engine.apply(self.live, self.lane, units).await?;
            for (index, held) in unit_of.into_iter().zip(held) {
                if !held {
                    answered[index] = None;
                }
            }
        }
        Ok(answered)
    }

    async fn read(&self, groups: &[Group], scope: Scope) -> Result<Read> {
        let jobs: Vec<&str> = groups.iter().map(|group| group.job.as_str()).collect();
        let mut slots: Vec<i64> = Vec::new();
        if scope.runs.by_slot() {
            let calls = groups.iter().flat_map(|group| &group.calls);
            slots.extend(calls.filter_map(|call| slot_of(&self.asks[*call].call)));
            slots.sort_unstable();
            slots.dedup();
        }
        self.engine.read(self.live, self.lane, scope, &jobs, &slots).await
    }

    /// Decides, loading more of those jobs of which more must be known. `None` for a job that was
    /// changed meanwhile.
    async fn decide_all(
        &self,
        groups: &[Group],
        scope: Scope,
        read: &mut Read,
    ) -> Result<Vec<Option<Verdict>>> {
        let (engine, live, lane) = (self.engine, self.live, self.lane);
        let name = |index: &usize| groups[*index].job.as_str();
        let scope = Seen::Scope(scope.runs);
        let mut verdicts: Vec<Result<Verdict, Short>> =
            groups.iter().map(|group| self.decide(group, read, scope)).collect();

        let few = |short: &Short| short.oldest.filter(|oldest| *oldest <= MOST_OLDEST);
        let wanted = |verdict: &Result<Verdict, Short>| verdict.as_ref().err().and_then(few);
        if let Some(oldest) = verdicts.iter().filter_map(wanted).max().map(padded) {
            let some = (0..groups.len()).filter(|index| wanted(&verdicts[*index]).is_some());
            let some: Vec<usize> = some.collect();
            let jobs: Vec<&str> = some.iter().map(name).collect();
            engine.read_oldest(live, lane, read, &jobs, oldest).await?;
            for index in some {
                verdicts[index] = self.decide(&groups[index], read, Seen::Oldest(oldest));
            }
        }

        let rest = (0..groups.len()).filter(|index| verdicts[*index].is_err());
        let rest: Vec<usize> = rest.collect();
        if !rest.is_empty() {
            let jobs: Vec<&str> = rest.iter().map(name).collect();
            engine.read_outlines(live, lane, read, &jobs).await?;
            for index in rest {
                verdicts[index] = self.decide(&groups[index], read, Seen::All);
            }
        }
        let whole = |index: usize| !read.job(&groups[index].job).torn;
        let found = verdicts.into_iter().enumerate();
        Ok(found.map(|(index, verdict)| verdict.ok().filter(|_| whole(index))).collect())
    }

    fn decide(&self, group: &Group, read: &Read, seen: Seen) -> Result<Verdict, Short> {
        let calls: Vec<&Call> = group.calls.iter().map(|call| &self.asks[*call].call).collect();
        decide(read.job(&group.job), seen, &calls, read.now)
    }

    fn unit(&self, job: &str, read: &Read, scope: Scope, verdict: Verdict) -> Result<Unit> {
        let plan = Plan {
            statements: &self.live.statements,
            namespace: &self.engine.namespace,
            job,
            loaded: read.job(job),
            scope,
        };
        plan.unit(verdict, self.engine.shared.random.token())
    }
}

fn contended(job: &str) -> Error {
    Error::unavailable(format!(
        "the job {job:?} was changed by others each time it was about to be changed here, until \
         the call's deadline"
    ))
}
