//! What is due when: one entry per timer, on the wall clock or on the monotonic one.

use std::collections::{BTreeSet, HashMap};

use crate::clock::Wake;

/// Names a registered job within one start of a scheduler.
pub(super) type JobId = u64;
/// Names a run that is held, within one start of a scheduler.
pub(super) type RunId = u64;

/// Everything a scheduler waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Timer {
    /// The next slot of a job, jitter included (wall clock).
    Slot(JobId),
    /// An ask that got no answer, or came early.
    Ask(JobId),
    /// A job's next survey.
    Sweep(JobId),
    /// A registration that failed.
    Register(JobId),
    /// The survey of jobs that are rarely due.
    Hourly,
    /// A try has taken as long as it may.
    TryTimeout(RunId),
    /// A timed-out handler has ignored its cancellation for long enough.
    Abandon(RunId),
    /// The next try of a run.
    Retry(RunId),
    /// A run has taken suspiciously long.
    Overdue(RunId),
    /// The end of a run could not be stored.
    Finish(RunId),
    /// A manual run that got no answer.
    Manual(u64),
    /// The grace of a stop is over.
    Grace,
    /// A stop has waited long enough.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Wall(i64),
    Mono(i64),
}

/// The timers of a scheduler.
#[derive(Default)]
pub(super) struct Timers {
    wall: BTreeSet<(i64, Timer)>,
    mono: BTreeSet<(i64, Timer)>,
    set: HashMap<Timer, Due>,
}

impl Timers {
    /// Sets a timer on the wall clock (ms), instead of where it stood.
    pub(super) fn at_wall(&mut self, timer: Timer, at: i64) {
        self.clear(timer);
        self.wall.insert((at, timer));
        self.set.insert(timer, Due::Wall(at));
    }

    /// Sets a timer on the monotonic clock (ms), instead of where it stood.
    pub(super) fn at_mono(&mut self, timer: Timer, at: i64) {
        self.clear(timer);
        self.mono.insert((at, timer));
        self.set.insert(timer, Due::Mono(at));
    }

    /// Sets a timer on the monotonic clock (ms) unless it is due before that already.
    pub(super) fn at_mono_or_before(&mut self, timer: Timer, at: i64) {
        match self.set.get(&timer) {
            Some(Due::Mono(before)) if *before <= at => {}
            _ => self.at_mono(timer, at),
        }
    }

    /// Takes a timer off.
    pub(super) fn clear(&mut self, timer: Timer) {
        match self.set.remove(&timer) {
            Some(Due::Wall(at)) => self.wall.remove(&(at, timer)),
            Some(Due::Mono(at)) => self.mono.remove(&(at, timer)),
            None => false,
        };
    }

    /// Takes the earliest timer that is due off and answers it.
    pub(super) fn pop_due(&mut self, wall_ms: i64, mono_ms: i64) -> Option<Timer> {
        let due_wall = self.wall.first().filter(|(at, _)| *at <= wall_ms);
        let due = due_wall.or_else(|| self.mono.first().filter(|(at, _)| *at <= mono_ms));
        let timer = due.map(|(_, timer)| *timer)?;
        self.clear(timer);
        Some(timer)
    }

    /// When the next one is due.
    pub(super) fn wake(&self) -> Wake {
        Wake {
            wall_ms: self.wall.first().map(|(at, _)| *at),
            mono_ms: self.mono.first().map(|(at, _)| *at),
        }
    }
}
