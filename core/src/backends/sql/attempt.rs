//! One attempt: what is known of some jobs, what is decided, what is applied in one transaction.
//!
//! A job is read, unless what this instance wrote of it last serves its calls: `own.rs` beside this
//! folder says which and why.

use super::batch::{Batch, Group};
use super::decide::{Seen, Short, Verdict, decide, scope_of, slot_of};
use super::engine::SqlStore;
use super::load::{Loaded, Read};
use super::plan::{Plan, Unit};
use super::statements::{Runs, Scope, padded};
use crate::backends::own::{self, Decided, Mark};
use crate::error::Result;
use crate::lease::rules::{Answer, Call};

/// Where more of the oldest runs must be known than this, all are read.
const MOST_OLDEST: usize = 64;

/// What the calls on one job are decided on.
struct Base {
    /// The mark of what was written here last.
    mark: Option<Mark>,
    /// What was written here last, where it is not decided on.
    spare: Option<Loaded>,
    /// How much is known of its runs.
    seen: Seen,
}

/// One attempt at some groups of calls.
pub(super) struct Attempt<'a, S: SqlStore + ?Sized> {
    batch: &'a Batch<'a, S>,
    groups: Vec<&'a Group>,
    scope: Scope,
    read: Read,
    bases: Vec<Base>,
    /// Everything is decided on what was written here. Where one job has to be read, all are: the
    /// round trip is paid for.
    is_unread: bool,
}

/// The answers of each group; `None` if its guard did not hold.
type Answered = Vec<Option<Vec<Answer>>>;

impl<'a, S: SqlStore + ?Sized> Attempt<'a, S> {
    /// Reads what has to be read, decides, and applies.
    pub(super) async fn run(batch: &'a Batch<'a, S>, groups: &'a [Group]) -> Result<Answered> {
        let (mut answered, is_unread) =
            Attempt::begin(batch, groups.iter().collect()).end().await?;
        let rest: Vec<usize> = (0..groups.len()).filter(|i| answered[*i].is_none()).collect();
        if !is_unread || rest.is_empty() {
            return Ok(answered);
        }
        // Where what was written here did not serve after all, it is read in the same attempt.
        let some = rest.iter().map(|index| &groups[*index]).collect();
        match Attempt::begin(batch, some).end().await {
            Ok((again, _)) => {
                for (index, answers) in rest.into_iter().zip(again) {
                    answered[index] = answers;
                }
            }
            Err(error) if rest.len() == groups.len() => return Err(error),
            // What has been applied is answered now; the next attempt says what is wrong.
            Err(_) => {}
        }
        Ok(answered)
    }

    fn begin(batch: &'a Batch<'a, S>, groups: Vec<&'a Group>) -> Attempt<'a, S> {
        let (scope, read) = (Scope::of(Runs::None), Read::nothing());
        Attempt { batch, groups, scope, read, bases: Vec::new(), is_unread: false }
    }

    /// What became of it, and whether it was decided unread.
    async fn end(mut self) -> Result<(Answered, bool)> {
        self.recall();
        if !self.is_unread {
            self.read().await?;
        }
        let verdicts = self.decide_all().await?;
        let is_unread = self.is_unread;
        Ok((self.apply(verdicts).await?, is_unread))
    }

    fn calls(&self, group: &'a Group) -> impl Iterator<Item = &'a Call> {
        let asks = self.batch.asks;
        group.calls.iter().map(|call| &asks[*call].call)
    }

    /// Takes what was written here last, and decides on it where that is all that the calls need.
    fn recall(&mut self) {
        let Batch { engine, live, .. } = self.batch;
        let mut now = Some(i64::MIN);
        for group in &self.groups {
            let own = live.owns.take(&engine.namespace, &group.job);
            // None of the times is later than it is, so the latest is right.
            now = now.zip(self.now_unread(group, own.as_ref())).map(|(now, other)| now.max(other));
            let (spare, mark) = own.unzip();
            self.bases.push(Base { mark, spare, seen: Seen::All });
        }
        let Some(now) = now else { return };
        self.is_unread = true;
        self.read.now = now;
        for (group, base) in self.groups.iter().zip(&mut self.bases) {
            let loaded = base.spare.take().unwrap_or_default();
            base.seen = match loaded.oldest() {
                0 => Seen::Scope(Runs::OfSlots),
                oldest => Seen::Oldest(oldest),
            };
            self.read.jobs.insert(group.job.clone(), loaded);
        }
    }

    /// The store's time, if a group can be decided on what was written here.
    fn now_unread(&self, group: &'a Group, own: Option<&(Loaded, Mark)>) -> Option<i64> {
        let (loaded, mark) = own?;
        let Batch { engine, live, .. } = self.batch;
        let serves = mark.serves(&loaded.state, self.calls(group));
        serves.then(|| engine.now_unread(live, mark.decided_at)).flatten()
    }

    /// Reads the jobs, in one statement.
    async fn read(&mut self) -> Result<()> {
        let calls: Vec<&Call> = self.groups.iter().flat_map(|group| self.calls(group)).collect();
        let scope = calls.iter().map(|call| scope_of(call)).reduce(Scope::and);
        self.scope = scope.unwrap_or(self.scope);
        let mut slots: Vec<i64> = Vec::new();
        if self.scope.runs.by_slot() {
            slots.extend(calls.iter().filter_map(|call| slot_of(call)));
            slots.sort_unstable();
            slots.dedup();
        }
        let jobs: Vec<&str> = self.groups.iter().map(|group| group.job.as_str()).collect();
        let Batch { engine, live, lane, .. } = self.batch;
        self.read = engine.read(live, *lane, self.scope, &jobs, &slots).await?;
        for base in &mut self.bases {
            base.seen = Seen::Scope(self.scope.runs);
        }
        Ok(())
    }

    /// Decides, loading more of those jobs of which more must be known. `None` for a job that was
    /// changed meanwhile.
    async fn decide_all(&mut self) -> Result<Vec<Option<Verdict>>> {
        let (groups, Batch { engine, live, lane, .. }) = (self.groups.clone(), self.batch);
        let name = |index: &usize| groups[*index].job.as_str();
        let mut verdicts: Vec<Result<Verdict, Short>> =
            (0..groups.len()).map(|index| self.decide(index, self.bases[index].seen)).collect();

        let few = |short: &Short| short.oldest.filter(|oldest| *oldest <= MOST_OLDEST);
        let wanted = |verdict: &Result<Verdict, Short>| verdict.as_ref().err().and_then(few);
        if let Some(oldest) = verdicts.iter().filter_map(wanted).max().map(padded) {
            let some = (0..groups.len()).filter(|index| wanted(&verdicts[*index]).is_some());
            let some: Vec<usize> = some.collect();
            let jobs: Vec<&str> = some.iter().map(name).collect();
            engine.read_oldest(live, *lane, &mut self.read, &jobs, oldest).await?;
            for index in some {
                verdicts[index] = self.decide(index, Seen::Oldest(oldest));
            }
        }

        // All records of a job are not worth reading for what may have been changed meanwhile.
        let is_unread = self.is_unread;
        let rest = (0..groups.len()).filter(|index| verdicts[*index].is_err() && !is_unread);
        let rest: Vec<usize> = rest.collect();
        if !rest.is_empty() {
            let jobs: Vec<&str> = rest.iter().map(name).collect();
            engine.read_outlines(live, *lane, &mut self.read, &jobs).await?;
            for index in rest {
                verdicts[index] = self.decide(index, Seen::All);
            }
        }
        let whole = |index: usize| !self.read.job(&groups[index].job).torn;
        let found = verdicts.into_iter().enumerate();
        Ok(found.map(|(index, verdict)| verdict.ok().filter(|_| whole(index))).collect())
    }

    fn decide(&self, index: usize, seen: Seen) -> Result<Verdict, Short> {
        let group = self.groups[index];
        let calls: Vec<&Call> = self.calls(group).collect();
        decide(self.read.job(&group.job), seen, &calls, self.read.now)
    }

    /// Whether a verdict is to be applied, which makes sure of it.
    fn is_guarded(&self, verdict: &Verdict) -> bool {
        verdict.changes && (!self.is_unread || own::are_guarded(&verdict.answers))
    }

    /// Applies what changes something; what does not is answered, if it was decided on a read.
    async fn apply(mut self, verdicts: Vec<Option<Verdict>>) -> Result<Answered> {
        let Batch { engine, live, lane, .. } = self.batch;
        let mut answered: Answered = self.groups.iter().map(|_| None).collect();
        let (mut units, mut written) = (Vec::new(), Vec::new());
        for (index, verdict) in verdicts.into_iter().enumerate() {
            match verdict {
                Some(verdict) if self.is_guarded(&verdict) => {
                    let (unit, verdict) = self.unit(index, verdict)?;
                    units.push(unit);
                    written.push((index, verdict));
                }
                Some(verdict) if !self.is_unread => {
                    self.put_back(index);
                    answered[index] = Some(verdict.answers);
                }
                _ => {}
            }
        }
        if units.is_empty() {
            return Ok(answered);
        }
        match engine.apply(live, *lane, units).await {
            Ok(held) => {
                let held = written.into_iter().zip(held).filter(|(_, held)| *held);
                for ((index, verdict), _) in held {
                    answered[index] = Some(self.keep(index, verdict));
                }
                Ok(answered)
            }
            Err(error) => {
                live.time().doubt();
                // It may be the state that was written here that does not fit: then it is read.
                if self.is_unread { Ok(answered) } else { Err(error) }
            }
        }
    }

    fn unit(&self, index: usize, mut verdict: Verdict) -> Result<(Unit, Verdict)> {
        let Batch { engine, live, .. } = self.batch;
        let job = &self.groups[index].job;
        let plan = Plan {
            statements: &live.statements,
            namespace: &engine.namespace,
            job,
            loaded: self.read.job(job),
            scope: self.scope,
        };
        let unit = plan.unit(&mut verdict, engine.shared.random.token())?;
        Ok((unit, verdict))
    }

    /// Nobody has written since: what was written here still stands.
    fn put_back(&mut self, index: usize) {
        let Batch { engine, live, .. } = self.batch;
        let (base, job) = (&mut self.bases[index], &self.groups[index].job);
        if let (Some(mark), Some(spare)) = (base.mark, base.spare.take())
            && spare.version == self.read.job(job).version
        {
            live.owns.put(&engine.namespace, job, (spare, mark));
        }
    }

    /// Remembers what was written.
    fn keep(&self, index: usize, verdict: Verdict) -> Vec<Answer> {
        let Batch { engine, live, .. } = self.batch;
        let (base, group) = (&self.bases[index], self.groups[index]);
        let before = self.read.job(&group.job);
        let is_whole = match base.mark {
            Some(mark) if self.is_unread => mark.is_whole,
            _ => self.scope.runs.with_open(),
        };
        let decided = Decided {
            on: before.version.map(i64::unsigned_abs),
            is_whole,
            calls: self.calls(group),
            answers: &verdict.answers,
            now: self.read.now,
        };
        let after = before.after(verdict.state, verdict.ended, live.statements.step);
        let version = after.version.map_or(0, i64::unsigned_abs);
        let mark = Mark::of(decided, base.mark, version);
        live.owns.put(&engine.namespace, &group.job, (after, mark));
        verdict.answers
    }
}
