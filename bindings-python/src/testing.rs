//! The clock for tests.

use std::sync::Arc;

use anarchon::clock::Clock;
use anarchon::testing::ManualClock as CoreClock;
use pyo3::prelude::{PyRef, PyResult};
use pyo3::{pyclass, pymethods};

use crate::runtime::{Bridge, Call, Inside, Port, runtime, spawn};

/// A clock that moves when told to.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct ManualClock {
    clock: CoreClock,
}

impl ManualClock {
    /// The clock as the core takes it.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (wall_ms=None))]
    fn new(wall_ms: Option<i64>) -> ManualClock {
        ManualClock { clock: wall_ms.map_or_else(CoreClock::default, CoreClock::new) }
    }

    /// The wall clock (ms since the Unix epoch).
    fn wall_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    /// The monotonic clock (ms).
    fn mono_ms(&self) -> i64 {
        self.clock.mono_ms()
    }

    /// Whether nothing is going on.
    fn is_idle(&self) -> bool {
        self.clock.activity().is_none_or(anarchon::clock::Activity::is_idle)
    }

    /// Answers when nothing is going on in the core: then moves to the next due time not after
    /// `target` (ms, monotonic; none: does not move), unless one of these loops has messages to
    /// fetch. `"moved"`, `"unread"`, or `"done"` if nothing more is due.
    #[pyo3(signature = (bridge, call, target, loops))]
    fn settle(
        &self,
        bridge: &Bridge,
        call: u64,
        target: Option<i64>,
        loops: Vec<PyRef<'_, Bridge>>,
    ) -> PyResult<Call> {
        let _inside = Inside::or_raise()?;
        let clock = self.clock.clone();
        let ports: Vec<Arc<Port>> = loops.iter().map(|bridge| bridge.port.clone()).collect();
        spawn(&bridge.port, call, &runtime(&self.clock)?, None, async move {
            clock.settle().await;
            // In one step, on the one thread on which everything lives by this clock: nobody can
            // begin anything in between.
            let outcome = if ports.iter().any(|port| !port.is_empty()) {
                "unread"
            } else if target.is_some_and(|target| clock.step(target)) {
                "moved"
            } else {
                "done"
            };
            Ok(Some(outcome.to_owned()))
        })
    }

    /// Steps the wall clock alone (ms, back if negative).
    fn step_wall(&self, ms: i64) {
        if let Some(_inside) = Inside::enter() {
            self.clock.step_wall(ms);
        }
    }
}
