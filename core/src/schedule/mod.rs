//! From a schedule to slots.
//!
//! A *slot* is an instant at which a job is due: integer milliseconds since the Unix epoch. All
//! replicas of an application compute slots for themselves and meet only at the claim of one, so
//! everything here is a pure function of the definition: no clock, no host time zone, no start
//! time, no randomness. The same definition gives the same slots in every language, on every
//! host, at every moment at which it is asked.
//!
//! There are three kinds:
//!
//! - [`Every`]: multiples of an interval since the epoch, plus an offset.
//! - [`Cron`]: wall times of a zone, by a cron expression.
//! - [`At`]: one instant.
//!
//! # Wall time and real time
//!
//! A cron expression names wall times; a slot is an instant. Where a zone's clock is changed the
//! two part, and there are two readings, chosen by how the expression is written:
//!
//! - An expression whose minute or hour field begins with `*` *follows real time*: an instant is a
//!   slot if the clock on the wall matches at that instant. Skipped wall times are no slots,
//!   repeated ones are two. `*/30 * * * *` comes every 30 real minutes.
//! - Every other expression is a *fixed-time job* and comes once for each wall time it names: its
//!   slot is the first instant at which the clock has reached the wall time. For a repeated wall
//!   time that is the first pass; for a skipped one the end of the gap, so that a nightly job is
//!   not lost on the night of the change, and several wall times in one gap are one slot. A gap of
//!   three hours or more is a correction of the calendar and not a change of season: wall times in
//!   it have no slot.
//!
//! # How slots are found
//!
//! A zone is a list of *spans* of one offset each (`zone`). Within a span wall time is UTC plus a
//! constant, and the expression is a calendar question: `calendar` answers it for days (one bit
//! mask per month), `wall` joins days and times of day, and `search` walks the spans and applies
//! the two readings above. Nothing walks from slot to slot: a search jumps from field to field,
//! and a count adds up whole days.
//!
//! Cron slots lie in the years 1 to 9999, which every language can name.

mod at;
mod calendar;
mod cron;
pub mod duration;
mod every;
mod field;
mod quartz;
mod search;
mod wall;
pub mod zone;

pub use at::At;
pub use cron::Cron;
pub use every::{Every, SHORTEST_INTERVAL_MS};

use crate::error::Result;

/// When a job is due.
///
/// All instants are ms since the Unix epoch, and every `i64` is accepted.
///
/// ```
/// use anarchon::schedule::Schedule;
/// let nightly = Schedule::cron("0 2 * * *", "Europe/Berlin", false).unwrap();
/// // 2026-01-01T00:00:00Z: the next slot is at 02:00 in Berlin, 01:00 UTC.
/// assert_eq!(nightly.next(1_767_225_600_000), Some(1_767_229_200_000));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Multiples of an interval since the Unix epoch, plus an offset.
    Every(Every),
    /// Wall times of a zone.
    Cron(Box<Cron>),
    /// One instant.
    At(At),
}

impl Schedule {
    /// Slots at `offset_ms + n * interval_ms` since the Unix epoch.
    ///
    /// `interval_ms` is at least 100; `offset_ms` is any number and is taken modulo the interval.
    ///
    /// # Errors
    ///
    /// `INVALID_SCHEDULE` for an interval below 100 ms.
    pub fn every(interval_ms: i64, offset_ms: i64) -> Result<Schedule> {
        Every::new(interval_ms, offset_ms).map(Schedule::Every)
    }

    /// Slots at the wall times of `zone` that `expression` names: see [`Cron::new`].
    ///
    /// # Errors
    ///
    /// `INVALID_SCHEDULE` for an expression that cannot be read or never matches, and for an empty
    /// or unknown zone.
    pub fn cron(expression: &str, zone: &str, seconds: bool) -> Result<Schedule> {
        Cron::new(expression, zone, seconds).map(|cron| Schedule::Cron(Box::new(cron)))
    }

    /// One slot at `when_ms`.
    pub fn at(when_ms: i64) -> Schedule {
        Schedule::At(At::new(when_ms))
    }

    /// The first slot strictly after an instant.
    pub fn next(&self, after: i64) -> Option<i64> {
        self.first_from(after.checked_add(1)?)
    }

    /// The last slot strictly before an instant.
    pub fn prev(&self, before: i64) -> Option<i64> {
        self.last_until(before.checked_sub(1)?)
    }

    /// The distance from a slot to the job's next slot, in ms. `At` has none.
    pub fn period(&self, slot: i64) -> Option<i64> {
        match self {
            Schedule::Every(every) => Some(every.interval_ms()),
            Schedule::Cron(_) => self.next(slot)?.checked_sub(slot),
            Schedule::At(_) => None,
        }
    }

    /// The shortest period of the `count` slots strictly after `from`, in ms.
    ///
    /// None for `At`, for a `count` of 0, and where the schedule has no two slots any more.
    pub fn shortest_period(&self, from: i64, count: usize) -> Option<i64> {
        if count == 0 {
            return None;
        }
        if let Schedule::Every(every) = self {
            return Some(every.interval_ms());
        }
        let mut slot = self.next(from)?;
        let mut shortest: Option<i64> = None;
        for _ in 0..count {
            let Some(period) = self.period(slot) else { break };
            shortest = Some(shortest.map_or(period, |least| least.min(period)));
            slot += period;
        }
        shortest
    }

    /// How many slots lie in `[from, to)`: `from` counts, `to` does not.
    ///
    /// Computed, not walked: a year of minutes costs about as much as a day. 0 if `from >= to`.
    pub fn count(&self, from: i64, to: i64) -> u64 {
        if from >= to {
            return 0;
        }
        match self {
            Schedule::Every(every) => every.count(from, to),
            Schedule::Cron(cron) => cron.count(from, to),
            Schedule::At(at) => at.count(from, to),
        }
    }

    /// The newest slots in `[from, to]` (both count), at most `limit` of them, oldest first.
    pub fn newest(&self, limit: usize, from: i64, to: i64) -> Vec<i64> {
        let mut slots = Vec::new();
        let mut until = Some(to);
        while slots.len() < limit {
            let Some(slot) = until.and_then(|until| self.last_until(until)) else { break };
            if slot < from {
                break;
            }
            slots.push(slot);
            until = slot.checked_sub(1);
        }
        slots.reverse();
        slots
    }

    /// A text that is equal for equal definitions, in every language and version.
    ///
    /// It holds the kind, the interval and offset, or the expression in one spelling (names as
    /// numbers, macros written out) and the zone. It is kept in the store beside the job: where it
    /// changes, the schedule has been edited.
    pub fn fingerprint(&self) -> String {
        match self {
            Schedule::Every(every) => every.fingerprint(),
            Schedule::Cron(cron) => cron.fingerprint(),
            Schedule::At(at) => at.fingerprint(),
        }
    }

    /// The schedule in words, for logs and people: `every 1h30m`, `cron '0 2 * * *' in UTC`.
    pub fn describe(&self) -> String {
        match self {
            Schedule::Every(every) => every.describe(),
            Schedule::Cron(cron) => cron.describe(),
            Schedule::At(at) => at.describe(),
        }
    }

    /// The name of the zone, as the tables spell it. Only cron schedules have one.
    pub fn zone(&self) -> Option<&str> {
        match self {
            Schedule::Cron(cron) => Some(cron.zone()),
            Schedule::Every(_) | Schedule::At(_) => None,
        }
    }

    /// What is allowed but probably not meant, one sentence each.
    pub fn warnings(&self) -> &[String] {
        match self {
            Schedule::Cron(cron) => cron.warnings(),
            Schedule::Every(_) | Schedule::At(_) => &[],
        }
    }

    /// The first slot at or after an instant.
    fn first_from(&self, from: i64) -> Option<i64> {
        match self {
            Schedule::Every(every) => every.first_from(from),
            Schedule::Cron(cron) => cron.first_from(from),
            Schedule::At(at) => at.first_from(from),
        }
    }

    /// The last slot at or before an instant.
    fn last_until(&self, until: i64) -> Option<i64> {
        match self {
            Schedule::Every(every) => every.last_until(until),
            Schedule::Cron(cron) => cron.last_until(until),
            Schedule::At(at) => at.last_until(until),
        }
    }
}

/// The version of the zone tables compiled in, such as `2026a`.
pub fn zone_tables() -> &'static str {
    zone::version()
}

/// A text for a message: quoted, printable, and not longer than a line.
fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
