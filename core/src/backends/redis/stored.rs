//! How runs and missed ranges are written in the store, as `lua/state.lua` says.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::backend::contract::StoredResult;
use crate::error::{Error, Result};
use crate::lease::model::{JobHeader, JobState, MissedRange, Paused, Run, RunKey, Status};

pub(super) fn parse_key(key: &str) -> Result<RunKey> {
    let (slot, manual) = match key.strip_suffix('m') {
        Some(slot) => (slot, true),
        None => (key, false),
    };
    let slot = slot.parse().map_err(|_| broken("the key of a run", key))?;
    Ok(RunKey { slot, manual })
}

pub(super) fn parse_run(key: &str, line: &str) -> Result<Run> {
    read_run(parse_key(key)?, line).ok_or_else(|| broken("a run", line))
}

pub(super) fn parse_missed(line: &str) -> Result<MissedRange> {
    read_missed(line).ok_or_else(|| broken("a missed range", line))
}

pub(super) fn parse_body(body: &str) -> Result<StoredResult> {
    serde_json::from_str(body).map_err(|_| broken("a result", body))
}

fn broken(what: &str, found: &str) -> Error {
    let start: String = found.chars().take(80).collect();
    Error::unavailable(format!(
        "{what} stored in Redis cannot be read: it begins with {start:?}. Was it written by \
         something else under the same prefix?"
    ))
}

fn read_run(key: RunKey, line: &str) -> Option<Run> {
    let mut words = line.splitn(12, ' ');
    let at = number(&mut words)?;
    let attempt = number(&mut words)?;
    let fence = number(&mut words)?;
    let crashes = number(&mut words)?;
    let lease_until = number(&mut words)?;
    let lease_ms = number(&mut words)?;
    let max_takeovers = number(&mut words)?;
    let released = words.next()? == "1";
    let status = match words.next()? {
        "-" => None,
        word => Some(Status::parse(word)?),
    };
    let ended_at = match words.next()? {
        "-" => None,
        word => Some(word.parse().ok()?),
    };
    let (token, by) = two_texts(&mut words)?;
    let RunKey { slot, manual } = key;
    Some(Run {
        slot,
        manual,
        token,
        by,
        at,
        attempt,
        fence,
        crashes,
        lease_until,
        lease_ms,
        max_takeovers,
        released,
        status,
        ended_at,
    })
}

fn read_missed(line: &str) -> Option<MissedRange> {
    let mut words = line.splitn(6, ' ');
    let (from, to) = (number(&mut words)?, number(&mut words)?);
    let (count, at) = (number(&mut words)?, number(&mut words)?);
    let (reason, by) = two_texts(&mut words)?;
    Some(MissedRange { from, to, count, reason, by, at })
}

fn number<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    words.next()?.parse().ok()
}

/// Two texts at the end of a line: the length of the first (bytes), the first, a space, the second.
fn two_texts<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<(String, String)> {
    let length: usize = number(words)?;
    let rest = words.next()?;
    let (first, second) = (rest.get(..length)?, rest.get(length..)?);
    Some((first.to_owned(), second.strip_prefix(' ')?.to_owned()))
}

/// The whole state of a job from its two hashes and the list of missed ranges.
pub(super) fn parse_state(
    job: BTreeMap<String, String>,
    records: BTreeMap<String, String>,
    missed: &[String],
) -> Result<JobState> {
    let mut state = JobState::default();
    let mut fields = BTreeMap::new();
    for (field, line) in job {
        match field.strip_prefix("run:") {
            Some(key) => {
                let run = parse_run(key, &line)?;
                state.runs.insert(run.key(), run);
            }
            None => {
                fields.insert(field, line);
            }
        }
    }
    for (key, line) in records.iter().filter(|(key, _)| !key.starts_with("token:")) {
        let run = parse_run(key, line)?;
        state.runs.insert(run.key(), run);
    }
    state.header = parse_header(&fields, missed)?;
    Ok(state)
}

fn parse_header(fields: &BTreeMap<String, String>, missed: &[String]) -> Result<JobHeader> {
    let text = |field: &str| fields.get(field).cloned().unwrap_or_default();
    let optional = |field: &str| -> Result<Option<i64>> {
        let found = fields.get(field);
        found.map(|text| text.parse().map_err(|_| broken(field, text))).transpose()
    };
    let number = |field: &str| optional(field).map(Option::unwrap_or_default);
    let paused = optional("pausedSince")?.map(|since| Paused {
        since,
        by: text("pausedBy"),
        reason: fields.get("pausedReason").cloned(),
    });
    Ok(JobHeader {
        schedule: text("schedule"),
        schedule_prev: text("schedulePrev"),
        zone_tables: text("zoneTables"),
        since: number("since")?,
        floor: number("floor")?,
        fence: number("fence")?,
        keep_ms: number("keepMs")?,
        keep_slots: number("keepSlots")?,
        keep_window_ms: number("keepWindowMs")?,
        history_size: number("historySize")?,
        history_ttl_ms: optional("historyTtlMs")?,
        paused,
        missed: missed.iter().map(|line| parse_missed(line)).collect::<Result<_>>()?,
    })
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
