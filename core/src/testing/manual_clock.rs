//! A clock that moves only when told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::clock::{Activity, ActivityGuard, Clock, Shelf, Wake};

/// A clock for tests. Several schedulers may share one.
///
/// Wall and monotonic time move together; [`ManualClock::step_wall`] moves the wall clock alone.
/// Sleepers are woken one by one, in the order of their due times and then of their going to
/// sleep, and each only when nothing else is going on: so a test sees the same order every time.
#[derive(Clone)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

struct Inner {
    times: Mutex<Times>,
    activity: Activity,
    shelf: Shelf,
}

struct Times {
    mono_ms: i64,
    wall_offset_ms: i64,
    next_id: u64,
    sleepers: BTreeMap<u64, Sleeper>,
}

struct Sleeper {
    wake: Wake,
    /// Receives a guard, so that the clock knows the sleeper has not yet acted.
    bell: oneshot::Sender<Option<ActivityGuard>>,
}

impl Times {
    fn wall_ms(&self) -> i64 {
        self.mono_ms + self.wall_offset_ms
    }

    /// The monotonic instant at which a sleeper is due.
    fn due(&self, wake: Wake) -> i64 {
        let wall = wake.wall_ms.map_or(i64::MAX, |at| at - self.wall_offset_ms);
        wall.min(wake.mono_ms.unwrap_or(i64::MAX))
    }

    fn earliest(&self) -> Option<(i64, u64)> {
        let due = self.sleepers.iter().map(|(id, sleeper)| (self.due(sleeper.wake), *id));
        due.min().filter(|(at, _)| *at < i64::MAX)
    }
}

/// 2026-01-01T00:00:00Z, where a manual clock starts unless told otherwise (ms).
pub const START_MS: i64 = 1_767_225_600_000;

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new(START_MS)
    }
}

impl ManualClock {
    /// A clock whose wall clock shows `wall_ms`.
    pub fn new(wall_ms: i64) -> ManualClock {
        let times =
            Times { mono_ms: 0, wall_offset_ms: wall_ms, next_id: 0, sleepers: BTreeMap::new() };
        let inner = Inner {
            times: Mutex::new(times),
            activity: Activity::default(),
            shelf: Shelf::default(),
        };
        ManualClock { inner: Arc::new(inner) }
    }

    /// Moves on by `ms`, from due time to due time; at each waits until nothing is going on.
    ///
    /// It does not wait for handlers, only for their being entered.
    pub async fn advance(&self, ms: i64) {
        let target = self.with(|times| times.mono_ms) + ms;
        loop {
            self.settle().await;
            if !self.step(target) {
                break;
            }
        }
        self.settle().await;
    }

    /// Waits until nothing is going on.
    pub async fn settle(&self) {
        // Tasks that are ready but have not run yet are not counted: let them run.
        for _ in 0..8 {
            self.inner.activity.wait_idle().await;
            tokio::task::yield_now().await;
        }
        self.inner.activity.wait_idle().await;
    }

    /// Moves to the next due time not after `target` (ms, monotonic) and wakes one sleeper. False
    /// if there is none: then the clock shows `target`.
    pub fn step(&self, target: i64) -> bool {
        let sleeper = {
            let mut times = self.lock();
            match times.earliest() {
                Some((at, id)) if at <= target => {
                    times.mono_ms = times.mono_ms.max(at);
                    times.sleepers.remove(&id)
                }
                _ => {
                    times.mono_ms = times.mono_ms.max(target);
                    None
                }
            }
        };
        let Some(sleeper) = sleeper else { return false };
        // A sleeper that is gone drops the guard with the failed message.
        let _gone = sleeper.bell.send(Some(self.inner.activity.begin()));
        true
    }

    /// Steps the wall clock by `ms`, back if negative, as a person or a time service would.
    ///
    /// Whoever sleeps on the wall clock is woken to look at it again, as a real sleeper is after
    /// its slice.
    pub fn step_wall(&self, ms: i64) {
        let woken: Vec<Sleeper> = {
            let mut times = self.lock();
            times.wall_offset_ms += ms;
            times
                .sleepers
                .extract_if(.., |_, sleeper| sleeper.wake.wall_ms.is_some())
                .map(|s| s.1)
                .collect()
        };
        for sleeper in woken {
            let _gone = sleeper.bell.send(Some(self.inner.activity.begin()));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Times> {
        self.inner.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, read: impl FnOnce(&Times) -> T) -> T {
        read(&self.lock())
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn wall_ms(&self) -> i64 {
        self.with(Times::wall_ms)
    }

    fn mono_ms(&self) -> i64 {
        self.with(|times| times.mono_ms)
    }

    async fn sleep(&self, wake: Wake) -> Option<ActivityGuard> {
        let (bell, rung) = oneshot::channel();
        let id = {
            let mut times = self.lock();
            if wake.is_due(times.wall_ms(), times.mono_ms) {
                return None;
            }
            let id = times.next_id;
            times.next_id += 1;
            times.sleepers.insert(id, Sleeper { wake, bell });
            id
        };
        let _leaving = Leaving { clock: self.clone(), id };
        rung.await.ok().flatten()
    }

    fn activity(&self) -> Option<&Activity> {
        Some(&self.inner.activity)
    }

    fn shelf(&self) -> &Shelf {
        &self.inner.shelf
    }

    fn is_manual(&self) -> bool {
        true
    }
}

/// Takes a sleeper off the list when its sleep is given up.
struct Leaving {
    clock: ManualClock,
    id: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.clock.lock().sleepers.remove(&self.id);
    }
}
