//! The clock of one instance: skewed against the others', and stopped with its process.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::clock::{ActivityGuard, Clock, Shelf, Wake};

/// A door through which everything must that reaches an instance. While it is shut the instance is
/// as a process that was sent SIGSTOP: time goes on, and nothing of it is noticed.
#[derive(Clone, Default)]
pub struct Gate {
    inner: Arc<GateState>,
}

#[derive(Default)]
struct GateState {
    shut: AtomicBool,
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Gate {
    /// Stops the instance.
    pub fn shut(&self) {
        self.inner.shut.store(true, Ordering::SeqCst);
    }

    /// Lets it go on; who waited passes in the order of coming.
    pub fn open(&self) {
        self.inner.shut.store(false, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.waiting());
        for bell in waiting {
            // Who has given up waiting does not hear it.
            let _gone = bell.send(());
        }
    }

    /// Whether the instance is stopped.
    pub fn is_shut(&self) -> bool {
        self.inner.shut.load(Ordering::SeqCst)
    }

    /// Returns at once while the gate is open, else when it opens.
    pub async fn pass(&self) {
        while self.is_shut() {
            let (bell, rung) = oneshot::channel();
            self.waiting().push(bell);
            let _rung_or_dropped = rung.await;
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<oneshot::Sender<()>>> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock whose wall time is off by so much, and whose sleeps end only while its gate is open.
///
/// It does not count what is going on: with faults on the way a store call may take a while of
/// virtual time, and a manual clock that waited for it would stand still. Whoever moves the base
/// lets the tasks run until nothing is left to do.
#[derive(Clone)]
pub struct SkewedClock {
    base: Arc<dyn Clock>,
    offset_ms: Arc<AtomicI64>,
    gate: Gate,
}

impl SkewedClock {
    /// A clock that runs `offset_ms` ahead of `base` (behind, if negative).
    pub fn new(base: Arc<dyn Clock>, offset_ms: i64, gate: Gate) -> SkewedClock {
        SkewedClock { base, offset_ms: Arc::new(AtomicI64::new(offset_ms)), gate }
    }

    /// Steps the wall clock of this instance alone (ms; back if negative).
    pub fn step(&self, ms: i64) {
        self.offset_ms.fetch_add(ms, Ordering::SeqCst);
    }

    fn offset(&self) -> i64 {
        self.offset_ms.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Clock for SkewedClock {
    fn wall_ms(&self) -> i64 {
        self.base.wall_ms() + self.offset()
    }

    fn mono_ms(&self) -> i64 {
        self.base.mono_ms()
    }

    async fn sleep(&self, wake: Wake) -> Option<ActivityGuard> {
        let wall_ms = wake.wall_ms.map(|at| at.saturating_sub(self.offset()));
        self.base.sleep(Wake { wall_ms, ..wake }).await;
        self.gate.pass().await;
        None
    }

    fn shelf(&self) -> &Shelf {
        self.base.shelf()
    }

    fn is_manual(&self) -> bool {
        self.base.is_manual()
    }
}
