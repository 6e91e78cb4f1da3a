//! Plain values across the border, as JSON text and as numbers.

use anarchon::error::{Error, Result};
use anarchon::host::names::{Naming, nearest};
use anarchon::scheduler::{JobContext, JobOptions, When};
use napi_derive::napi;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::throw;

/// JSON text of a value of ours.
pub fn text<T: Serialize>(value: &T) -> String {
    // Our own types have string keys and plain values only: they always have a JSON form.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// A promise's result as JSON text.
pub fn settled<T: Serialize>(result: Result<T>) -> Result<Option<String>> {
    result.map(|value| Some(text(&value)))
}

/// A value out of the JSON text that `ts/` wrote.
pub fn parse(name: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text)
        .map_err(|error| Error::option(format!("{name} cannot be read: {error}")))
}

/// An object out of the JSON text that `ts/` wrote.
pub fn parse_object(name: &str, text: &str) -> Result<Map<String, Value>> {
    match parse(name, text)? {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        other => Err(Error::option(format!("{name} is {other}; allowed is an object"))),
    }
}

/// A whole number of JavaScript, at least `least`.
pub fn whole(name: &str, value: f64, least: i64) -> Result<i64> {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
        let whole = value as i64;
        if whole >= least {
            return Ok(whole);
        }
    }
    Err(Error::option(format!(
        "{name} is {value}; allowed is a whole number from {least} to {EXACT}"
    )))
}

/// The options of a job.
pub fn job_options(text: &str) -> Result<JobOptions> {
    JobOptions::from_json(&parse_object("options", text)?, Naming::Camel)
}

/// When a job is due, as `ts/scheduler.ts` hands it over.
pub fn when(kind: &str, text: &str) -> Result<When> {
    let value = parse("the schedule", text)?;
    match (kind, value) {
        ("every", interval) => Ok(When::Every(interval)),
        ("at", instant) => Ok(When::At(instant)),
        (_, Value::String(expression)) => Ok(When::Cron(expression)),
        (_, other) => Err(Error::schedule(format!(
            "the cron expression is {other}; allowed is a text like \"*/5 * * * *\""
        ))),
    }
}

/// What a handler is told of its run.
pub fn context(context: &JobContext) -> String {
    json!({
        "job": context.job,
        "slot": context.slot,
        "timezone": context.timezone,
        "instanceId": context.instance_id,
        "attempt": context.attempt,
        "retry": context.retry,
        "fence": context.fence,
        "token": context.token,
        "trigger": context.trigger.as_str(),
        "manual": context.manual(),
    })
    .to_string()
}

/// Refuses a name that is not one of the known ones, with the nearest of them.
#[napi(catch_unwind)]
pub fn check_names(
    what: String,
    given: Vec<String>,
    known: Vec<String>,
) -> napi::Result<(), String> {
    match given.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(throw(Error::option(format!(
            "{what} has no option {name:?}{}; the options are {}",
            nearest(name, &known),
            known.join(", ")
        )))),
    }
}

/// Milliseconds of a duration, given as JSON text of a number or a string.
#[napi(catch_unwind)]
pub fn duration_ms(name: String, duration: String) -> napi::Result<f64, String> {
    let read = || match parse(&name, &duration)? {
        Value::Number(ms) if ms.as_f64().is_some() => {
            whole(&name, ms.as_f64().unwrap_or(f64::NAN), 0)
        }
        Value::String(text) => anarchon::schedule::duration::parse_ms(&text)
            .map_err(|error| Error::option(format!("{name}: {}", error.message()))),
        other => Err(Error::option(format!(
            "{name} is {other}; allowed is a whole number of ms, or a duration like \"90s\""
        ))),
    };
    #[expect(clippy::cast_precision_loss, reason = "durations are far below 2^53 ms")]
    read().map(|ms| ms as f64).map_err(throw)
}

/// The records of a job out of its claims and results, newest first.
#[napi(catch_unwind)]
pub fn build_history(
    job: String,
    claims: String,
    results: String,
    limit: f64,
) -> napi::Result<String, String> {
    let build = || {
        let claims: Vec<_> = list("claims", &claims)?;
        let results: Vec<_> = list("results", &results)?;
        let limit = usize::try_from(whole("limit", limit, 0)?).unwrap_or(usize::MAX);
        Ok(text(&anarchon::backend::history::build_history(&job, &claims, &results, limit)))
    };
    build().map_err(throw)
}

fn list<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<Vec<T>> {
    serde_json::from_str(text)
        .map_err(|error| Error::option(format!("buildHistory: the {name} cannot be read: {error}")))
}
