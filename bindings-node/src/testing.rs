//! The native half of `anarchon/testing`.

use anarchon::clock::Clock;
use anarchon::testing::ManualClock;
use napi_derive::napi;

use crate::error::throw;
use crate::runtime::{NativePort, stepped};
use crate::value::whole;

/// A clock that moves when `ts/testing.ts` tells it to.
#[napi]
pub struct NativeClock {
    pub(crate) clock: ManualClock,
}

#[napi]
impl NativeClock {
    /// A clock that shows `wall_ms`.
    #[napi(constructor, catch_unwind)]
    pub fn new(wall_ms: Option<f64>) -> napi::Result<NativeClock, String> {
        let clock = match wall_ms {
            None => ManualClock::default(),
            Some(ms) => ManualClock::new(whole("start", ms, 0).map_err(throw)?),
        };
        Ok(NativeClock { clock })
    }

    /// What the clock shows (ms since the Unix epoch).
    #[napi(catch_unwind)]
    pub fn wall_ms(&self) -> f64 {
        number(self.clock.wall_ms())
    }

    /// How far it has moved (ms).
    #[napi(catch_unwind)]
    pub fn mono_ms(&self) -> f64 {
        number(self.clock.mono_ms())
    }

    /// Settles `ask` when nothing is going on in the core.
    #[napi(catch_unwind)]
    pub fn settle(&self, port: &NativePort, ask: u32) {
        let clock = self.clock.clone();
        port.port.ask(ask, &stepped(), None, async move {
            clock.settle().await;
            Ok(None)
        });
    }

    /// Moves to the next due time not after `target` and wakes one sleeper; false if there is none.
    #[napi(catch_unwind)]
    pub fn step(&self, target: f64) -> napi::Result<bool, String> {
        let target = whole("target", target, 0).map_err(throw)?;
        Ok(self.clock.step(target))
    }

    /// Steps the wall clock alone.
    #[napi(catch_unwind)]
    pub fn step_wall(&self, ms: f64) -> napi::Result<(), String> {
        self.clock.step_wall(whole("ms", ms, i64::MIN).map_err(throw)?);
        Ok(())
    }

    /// Whether nothing is going on in the core.
    #[napi(catch_unwind)]
    pub fn is_idle(&self) -> bool {
        self.clock.activity().is_none_or(anarchon::clock::Activity::is_idle)
    }
}

#[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ms")]
pub fn number(ms: i64) -> f64 {
    ms as f64
}
