//! The server's clock.
//!
//! From 2.10 on, a server tells its time with what it says of a stream. That is asked for together
//! with the state of a job, so it costs no round trip; but it costs the server more than the state
//! does, so what was told serves all calls of the next second. Before 2.10, a message is stored once
//! a minute and its time read back. In between our monotonic clock goes on, unless a connection was
//! lost: the next one may lead to another server.

use std::sync::{Arc, Mutex, PoisonError};

use super::api::{Api, ApiError, Published};
use super::failure;
use super::link::mono_ms;
use super::subjects;
use crate::backends::reading::{Last, OLDEST_MS, Reading};
use crate::clock::Clock;
use crate::error::Result;

/// How old a measurement may be, which costs round trips (ms).
const OLDEST_MEASURED_MS: i64 = 60_000;

/// How many samples a measurement takes, if they take no longer than this (ms).
const SAMPLES: usize = 6;
const LONGEST_MS: i64 = 50;

/// Where the time comes from.
pub(super) enum Source {
    /// The server tells it when it is asked about the stream.
    Told(Mutex<Last>),
    /// It is measured now and then.
    Measured(Mutex<Last>),
    /// A clock in its place, for tests.
    Given(Arc<dyn Clock>),
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
            Source::Told(last) => (last, OLDEST_MS),
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
            last.lock().unwrap_or_else(PoisonError::into_inner).doubt();
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
