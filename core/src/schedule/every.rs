//! `every`: multiples of an interval since the Unix epoch.

use super::duration::format_ms;
use crate::error::{Error, Result};

/// The shortest interval, in ms.
pub const SHORTEST_INTERVAL_MS: i64 = 100;

/// Slots on a grid: `offset + n * interval` ms since the Unix epoch, for every whole `n`.
///
/// No replica's start time takes part, so all replicas have the same grid. 24 hours are 24 hours,
/// not a day: for a time of day use a cron schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Every {
    interval: i64,
    /// In `0..interval`: a longer or negative offset names the same grid.
    offset: i64,
}

impl Every {
    /// A grid of `interval_ms` (at least 100), moved by `offset_ms` (any value).
    ///
    /// # Errors
    ///
    /// `INVALID_SCHEDULE` for an interval below [`SHORTEST_INTERVAL_MS`].
    pub fn new(interval_ms: i64, offset_ms: i64) -> Result<Every> {
        if interval_ms < SHORTEST_INTERVAL_MS {
            return Err(Error::schedule(format!(
                "an interval of {interval_ms} ms is too short: the shortest is \
                 {SHORTEST_INTERVAL_MS} ms; write '1s' or longer for slots that replicas on \
                 different hosts can keep apart",
            )));
        }
        Ok(Every { interval: interval_ms, offset: offset_ms.rem_euclid(interval_ms) })
    }

    /// The distance of two slots in ms.
    pub fn interval_ms(&self) -> i64 {
        self.interval
    }

    /// The distance of the grid from the epoch in ms, in `0..interval`.
    pub fn offset_ms(&self) -> i64 {
        self.offset
    }

    /// The first slot at or after `from`.
    pub(super) fn first_from(&self, from: i64) -> Option<i64> {
        let steps = -(i128::from(self.offset) - i128::from(from)).div_euclid(self.wide());
        self.slot(steps)
    }

    /// The last slot at or before `until`.
    pub(super) fn last_until(&self, until: i64) -> Option<i64> {
        let steps = (i128::from(until) - i128::from(self.offset)).div_euclid(self.wide());
        self.slot(steps)
    }

    /// How many slots lie in `[from, to)`.
    pub(super) fn count(&self, from: i64, to: i64) -> u64 {
        let before = |t: i64| -> i128 {
            // Slots below t, counted from the one at `offset`.
            -(i128::from(self.offset) - i128::from(t)).div_euclid(self.wide())
        };
        u64::try_from(before(to) - before(from)).unwrap_or(0)
    }

    pub(super) fn fingerprint(&self) -> String {
        format!("every {} offset {}", self.interval, self.offset)
    }

    pub(super) fn describe(&self) -> String {
        match self.offset {
            0 => format!("every {}", format_ms(self.interval)),
            offset => format!("every {}, offset {}", format_ms(self.interval), format_ms(offset)),
        }
    }

    fn wide(&self) -> i128 {
        i128::from(self.interval)
    }

    fn slot(&self, steps: i128) -> Option<i64> {
        i64::try_from(steps * self.wide() + i128::from(self.offset)).ok()
    }
}

#[cfg(test)]
#[path = "every_tests.rs"]
mod tests;
