//! What a user registers.

use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::host::names::Naming;
use crate::schedule::{Schedule, duration};
use crate::scheduler::context::Handler;
use crate::scheduler::options::JobOptions;

/// When a job is due, as a user wrote it.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// Every so often: a duration like `"1h30m"`, or a number of ms where the language allows it.
    Every(Value),
    /// By a cron expression.
    Cron(String),
    /// Once: a number of ms, or an ISO 8601 text with an offset.
    At(Value),
}

/// A job to be added.
#[derive(Clone)]
pub struct JobDefinition {
    /// 1 to 255 bytes of UTF-8 without control characters.
    pub name: String,
    /// When it is due.
    pub when: When,
    /// Its options.
    pub options: JobOptions,
    /// What it does.
    pub handler: Arc<dyn Handler>,
}

/// The longest name of a job (bytes).
pub const NAME_BYTES: usize = 255;

/// Checks the name of a job, once for all stores.
///
/// # Errors
/// `INVALID_OPTION`.
pub fn check_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > NAME_BYTES {
        format!("has {} bytes", name.len())
    } else if name.chars().any(char::is_control) {
        "has a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::option(format!(
        "the job name {name:?} {why}; allowed are 1 to {NAME_BYTES} bytes of UTF-8 without control \
         characters"
    )))
}

/// Reads a user's schedule.
///
/// # Errors
/// `INVALID_SCHEDULE`; `INVALID_OPTION` for an option of another kind of schedule.
pub fn read_schedule(
    when: &When,
    options: &JobOptions,
    timezone: &str,
    naming: Naming,
) -> Result<Schedule> {
    let cron_only =
        [("timezone", options.timezone.is_some()), ("seconds", options.seconds.is_some())];
    let misplaced = match when {
        When::Cron(_) => options.offset_ms.map(|_| ("offsetMs", "every")),
        When::Every(_) => find_given(&cron_only),
        When::At(_) => find_given(&cron_only).or(options.offset_ms.map(|_| ("offsetMs", "every"))),
    };
    if let Some((name, kind)) = misplaced {
        return Err(Error::option(format!(
            "{} is an option of {kind} jobs only; leave it out here",
            naming.write(name)
        )));
    }
    match when {
        When::Every(interval) => {
            Schedule::every(interval_ms(interval, naming)?, options.offset_ms.unwrap_or(0))
        }
        When::Cron(expression) => {
            let zone = options.timezone.as_deref().unwrap_or(timezone);
            Schedule::cron(expression, zone, options.seconds.unwrap_or(false))
        }
        When::At(instant) => Ok(Schedule::at(instant_ms(instant)?)),
    }
}

fn find_given(options: &[(&'static str, bool)]) -> Option<(&'static str, &'static str)> {
    options.iter().find(|(_, given)| *given).map(|(name, _)| (*name, "cron"))
}

fn interval_ms(interval: &Value, naming: Naming) -> Result<i64> {
    match (interval, naming) {
        (Value::String(text), _) => {
            duration::parse_ms(text).map_err(|error| Error::schedule(error.message()))
        }
        (Value::Number(number), Naming::Camel) => number.as_i64().ok_or_else(|| {
            Error::schedule(format!(
                "the interval is {number}; a number must be whole ms, or write \"60s\""
            ))
        }),
        (Value::Number(number), Naming::Snake) => Err(Error::schedule(format!(
            "the interval is the bare number {number}, which does not say its unit; write '60s' or \
             use a timedelta"
        ))),
        (other, _) => Err(Error::schedule(format!(
            "the interval is {other}; write a duration like \"30s\", \"15m\" or \"1h30m\""
        ))),
    }
}

fn instant_ms(instant: &Value) -> Result<i64> {
    let allowed = "an instant: a text like \"2027-01-31T09:00:00Z\" with Z or an offset, or ms since \
                   the Unix epoch";
    match instant {
        Value::Number(number) => number.as_i64().filter(|ms| *ms > 0),
        Value::String(text) => {
            text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
        }
        _ => None,
    }
    .ok_or_else(|| Error::schedule(format!("the time is {instant}; allowed is {allowed}")))
}
