//! The server's clock.
//!
//! From 2.10 on, a server tells its time with what it says of a stream. That is asked for together
//! with the state of a job, so it costs no round trip; but it costs the server more than the state
//! does, so what was told serves all calls of the next second. Before 2.10, a message is stored once
//! a minute and its time read back. In between our monotonic clock goes on, unless a connection was
//! lost: the next one may lead to another server. What is not known of the time between the server's
//! stamp and our reading is taken off: an older reading is safe, a later one would not be. (By how
//! much two clocks drift apart in a minute lies far within the margin that a holder takes off its
//! lease.)

use std::sync::{Arc, Mutex, PoisonError};

use super::api::{Api, ApiError, Published};
use super::failure;
use super::link::mono_ms;
use super::subjects;
use crate::clock::Clock;
use crate::error::Result;

/// How old a measurement may be, which costs round trips (ms).
const OLDEST_MEASURED_MS: i64 = 60_000;

/// How old may be what was told (ms): not longer than a clock that is set stays unnoticed anyway,
/// long enough that many claims in a row ask once.
const OLDEST_TOLD_MS: i64 = 1_000;

/// How many samples a measurement takes, if they take no longer than this (ms).
const SAMPLES: usize = 6;
const LONGEST_MS: i64 = 50;

/// What is known of the server's clock: it showed `shown` at some instant of our monotonic clock in
/// `[earliest, latest]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) shown: i64,
    pub(super) earliest: i64,
    pub(super) latest: i64,
    /// A test's clock, which is exact and has nothing to do with the server's.
    pub(super) given: bool,
}

impl Reading {
    /// The store's time for a decision at our `mono` (ms), on a state that was stored at
    /// `stored_at` by the server's clock: never later than what the server's clock shows.
    ///
    /// A state that seems to come from the future, by no more than what is unknown of the clock, is
    /// the better reading of the two: what it granted must not seem to have been granted later.
    pub(super) fn now(&self, mono: i64, stored_at: Option<i64>) -> i64 {
        if self.given {
            return self.shown;
        }
        let least = self.least(mono);
        match stored_at {
            Some(at) if at > least && at <= self.most(mono) => at,
            _ => least,
        }
    }

    /// What the server's clock shows at least. Readings of our clock are rounded down, so a
    /// millisecond of what has passed may not have passed.
    fn least(&self, mono: i64) -> i64 {
        self.shown + (mono - self.latest - 1).max(0)
    }

    /// What it shows at most, if its clock is at most a thousandth faster than ours.
    fn most(&self, mono: i64) -> i64 {
        let passed = (mono - self.earliest).max(0);
        self.shown + passed + passed / 1_000 + 1
    }

    /// This reading together with one before it: both are right, and the one that shows more tells
    /// more, unless the clock was set back in between.
    fn after(self, before: Reading, mono: i64) -> Reading {
        let shown = before.least(mono);
        if shown > self.least(mono) && shown <= self.most(mono) {
            return Reading { shown, latest: mono, ..self };
        }
        self
    }
}

/// Where the time comes from.
pub(super) enum Source {
    /// The server tells it when it is asked about the stream.
    Told(Mutex<Last>),
    /// It is measured now and then.
    Measured(Mutex<Last>),
    /// A clock in its place, for tests.
    Given(Arc<dyn Clock>),
}

/// What was read last.
#[derive(Default)]
pub(super) struct Last {
    reading: Option<Reading>,
    /// How many connections had been lost before it.
    losses: u64,
    /// A call got no answer since.
    is_doubtful: bool,
}

impl Last {
    /// The reading, if it still holds at our `mono` (ms).
    fn fresh(&self, mono: i64, oldest_ms: i64, losses: u64) -> Option<Reading> {
        let holds = !self.is_doubtful && self.losses == losses;
        self.reading.filter(|one| holds && mono - one.latest < oldest_ms)
    }

    /// Keeps what was read after so many losses, and says what is known now.
    fn keep(&mut self, read: Reading, mono: i64, losses: u64) -> Reading {
        let reading = self.reading.map_or(read, |before| read.after(before, mono));
        *self = Last { reading: Some(reading), losses, is_doubtful: false };
        reading
    }
}

impl Source {
    /// For servers that tell their time.
    pub(super) fn told() -> Source {
        Source::Told(Mutex::default())
    }

    /// For servers that do not.
    pub(super) fn measured() -> Source {
        Source::Measured(Mutex::default())
    }

    /// What the server's clock shows.
    ///
    /// # Errors
    /// Whatever asking fails with.
    pub(super) async fn read(&self, api: &Api<'_>) -> Result<Reading> {
        let (last, oldest_ms) = match self {
            Source::Given(clock) => {
                let shown = clock.wall_ms();
                return Ok(Reading { shown, earliest: 0, latest: 0, given: true });
            }
            Source::Told(last) => (last, OLDEST_TOLD_MS),
            Source::Measured(last) => (last, OLDEST_MEASURED_MS),
        };
        let kept = || last.lock().unwrap_or_else(PoisonError::into_inner);
        let losses = api.link.losses();
        if let Some(fresh) = kept().fresh(mono_ms(), oldest_ms, losses) {
            return Ok(fresh);
        }
        let read = match self {
            Source::Measured(_) => measure(api).await?,
            _ => told(api).await?,
        };
        Ok(kept().keep(read, mono_ms(), losses))
    }

    /// A call got no answer: what answers the next one may be another server.
    pub(super) fn doubt(&self) {
        if let Source::Told(last) | Source::Measured(last) = self {
            last.lock().unwrap_or_else(PoisonError::into_inner).is_doubtful = true;
        }
    }
}

async fn told(api: &Api<'_>) -> Result<Reading> {
    let earliest = mono_ms();
    let info = api.stream().await?;
    let latest = mono_ms();
    let gone = || {
        failure::told(
            api.options,
            &ApiError { err_code: failure::NO_STREAM, description: String::new() },
        )
    };
    let info = info.ok_or_else(gone)?;
    let shown = info.ts.ok_or_else(|| failure::strange(api.options, "INFO", b"no time"))?;
    Ok(Reading { shown, earliest, latest, given: false })
}

/// The best that some samples tell, as long as they are quick.
async fn measure(api: &Api<'_>) -> Result<Reading> {
    let begun = mono_ms();
    let mut best = sample(api).await?;
    for _ in 1..SAMPLES {
        if mono_ms() - begun > LONGEST_MS {
            break;
        }
        let next = sample(api).await?;
        best = next.after(best, mono_ms());
    }
    Ok(best)
}

/// Stores a message and reads back when it was stored; or another instance's after it, whose time
/// lies before the answer at least.
async fn sample(api: &Api<'_>) -> Result<Reading> {
    let subject = subjects::of_clock(&api.options.prefix);
    let earliest = mono_ms();
    let published = api.publish(subject.clone(), Vec::new(), None).await?;
    let acknowledged = mono_ms();
    let kept = api.last(&subject).await?;
    let kept = kept.ok_or_else(|| failure::strange(api.options, "MSG.GET", b"nothing"))?;
    let latest = if published == Published::As(kept.seq) { acknowledged } else { mono_ms() };
    Ok(Reading { shown: kept.at_ms, earliest, latest, given: false })
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
