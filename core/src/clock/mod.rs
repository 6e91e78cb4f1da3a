//! The only place where time comes from.
//!
//! Two clocks are kept apart. The **wall clock** says which slot it is; it may be stepped. The
//! **monotonic clock** measures waits and leases; it counts suspension (`CLOCK_BOOTTIME`), for a
//! laptop that slept must know that its leases are over.
#![expect(clippy::disallowed_methods, reason = "this is the one door to the clocks of the machine")]

mod precise;

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

/// When to wake: whatever comes first. `None` in both is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// At this reading of the wall clock (ms since the Unix epoch).
    pub wall_ms: Option<i64>,
    /// At this reading of the monotonic clock (ms).
    pub mono_ms: Option<i64>,
}

impl Wake {
    /// At a reading of the monotonic clock.
    pub fn mono(at: i64) -> Wake {
        Wake { wall_ms: None, mono_ms: Some(at) }
    }

    /// Whether it has come.
    pub fn is_due(&self, wall_ms: i64, mono_ms: i64) -> bool {
        self.wall_ms.is_some_and(|at| at <= wall_ms) || self.mono_ms.is_some_and(|at| at <= mono_ms)
    }
}

/// A clock: two readings and a sleep.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The wall clock (ms since the Unix epoch), rounded down.
    fn wall_ms(&self) -> i64;

    /// The monotonic clock (ms since some fixed instant), rounded down; counts suspension.
    fn mono_ms(&self) -> i64;

    /// Sleeps until `wake` is due, never less. It may return early only where it says so: the
    /// system clock returns after at most [`SLICE_MS`], so that the caller notices a stepped clock
    /// or a suspended machine; a manual clock when its wall clock is stepped. A manual clock counts the sleeper as busy while the guard lives.
    async fn sleep(&self, wake: Wake) -> Option<ActivityGuard>;

    /// The count of what is going on, on a clock that waits for it; `None` on a real clock.
    fn activity(&self) -> Option<&Activity> {
        None
    }

    /// What belongs to this clock: the stores in memory that read their time from it.
    fn shelf(&self) -> &Shelf;

    /// Whether this clock only moves when told to.
    fn is_manual(&self) -> bool {
        false
    }
}

/// The longest single sleep (ms): after it the clocks are compared again.
pub const SLICE_MS: i64 = 10_000;

/// Sleeps for `ms` on the monotonic clock.
pub async fn sleep_for(clock: &dyn Clock, ms: i64) {
    let until = clock.mono_ms() + ms;
    while clock.mono_ms() < until {
        let _woken = clock.sleep(Wake::mono(until)).await;
    }
}

/// Things by name, kept as long as the clock that they belong to.
pub type Shelf = Mutex<HashMap<String, Arc<dyn Any + Send + Sync>>>;

/// The clocks of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    fn read(clock: libc::clockid_t) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid place for the answer, and both clocks exist on this platform.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    fn wall() -> Duration {
        SystemClock::read(libc::CLOCK_REALTIME)
    }

    #[cfg(target_os = "linux")]
    fn mono() -> Duration {
        SystemClock::read(libc::CLOCK_BOOTTIME)
    }

    /// Elsewhere `CLOCK_MONOTONIC` is the one that counts suspension (macOS), or the best there is.
    #[cfg(not(target_os = "linux"))]
    fn mono() -> Duration {
        SystemClock::read(libc::CLOCK_MONOTONIC)
    }
}

fn whole_ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// What is still missing to `at` (ms) on a clock that shows `now`.
fn missing(at: i64, now: Duration) -> Duration {
    Duration::from_millis(u64::try_from(at).unwrap_or(0)).saturating_sub(now)
}

#[async_trait]
impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        whole_ms(SystemClock::wall())
    }

    fn mono_ms(&self) -> i64 {
        whole_ms(SystemClock::mono())
    }

    fn shelf(&self) -> &Shelf {
        static SHELF: LazyLock<Shelf> = LazyLock::new(Shelf::default);
        &SHELF
    }

    async fn sleep(&self, wake: Wake) -> Option<ActivityGuard> {
        let slice = Duration::from_millis(SLICE_MS.unsigned_abs());
        let wall = wake.wall_ms.map_or(slice, |at| missing(at, SystemClock::wall()));
        let mono = wake.mono_ms.map_or(slice, |at| missing(at, SystemClock::mono()));
        let wait = slice.min(mono);
        if wall > wait {
            tokio::time::sleep(wait).await;
            return None;
        }
        // A slot is an instant of the wall clock, and the sooner it is known the sooner it runs.
        tokio::time::sleep(wall.saturating_sub(precise::LAST)).await;
        let at = wake.wall_ms.unwrap_or(0);
        precise::sleep(missing(at, SystemClock::wall()).min(precise::LAST)).await;
        None
    }
}

/// Counts what is going on: messages under way, calls to a store, handlers about to be entered.
///
/// A manual clock moves only when nothing is going on.
#[derive(Clone, Default)]
pub struct Activity {
    count: Arc<AtomicUsize>,
    idle: Arc<Notify>,
}

impl Activity {
    /// Something begins; it ends when the guard is dropped.
    pub fn begin(&self) -> ActivityGuard {
        self.count.fetch_add(1, Ordering::SeqCst);
        ActivityGuard { activity: self.clone() }
    }

    /// Something that is going on waits for the clock itself: until the guard is dropped it does
    /// not count, or the clock could never move.
    pub fn suspend(&self) -> SuspendGuard {
        self.end();
        SuspendGuard { activity: self.clone() }
    }

    fn end(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }

    /// Whether nothing is going on.
    pub fn is_idle(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Waits until nothing is going on.
    pub async fn wait_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.is_idle() {
                return;
            }
            idle.await;
        }
    }
}

/// Something that is going on.
pub struct ActivityGuard {
    activity: Activity,
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.activity.end();
    }
}

/// Something that waits for the clock.
pub struct SuspendGuard {
    activity: Activity,
}

impl Drop for SuspendGuard {
    fn drop(&mut self) {
        self.activity.count.fetch_add(1, Ordering::SeqCst);
    }
}

/// A guard on a manual clock, nothing on a real one.
pub fn busy(clock: &dyn Clock) -> Option<ActivityGuard> {
    clock.activity().map(Activity::begin)
}
