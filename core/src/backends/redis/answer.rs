//! What a script answers: from the values of the protocol to the words of the contract.

use redis::Value;

use super::stored;
use crate::backend::contract::{ActiveRun, ClaimOutcome, OutcomeKind, RunRecord, Survey};
use crate::backend::history::stored_record;
use crate::error::{Error, Result};
use crate::lease::model::Paused;

/// The items of an answer, taken from its front.
pub(super) struct Items(std::vec::IntoIter<Value>);

impl Items {
    pub(super) fn of(value: Value) -> Result<Items> {
        match value {
            Value::Array(values) => Ok(Items(values.into_iter())),
            other => Err(strange("a list", &other)),
        }
    }

    fn next(&mut self) -> Result<Value> {
        self.0.next().ok_or_else(|| Error::unavailable("Redis answered a list that is too short"))
    }

    fn int(&mut self) -> Result<i64> {
        int(self.next()?)
    }

    fn text(&mut self) -> Result<String> {
        text(self.next()?)
    }

    fn list(&mut self) -> Result<Items> {
        Items::of(self.next()?)
    }

    fn optional<T>(&mut self, read: fn(Value) -> Result<T>) -> Result<Option<T>> {
        match self.next()? {
            Value::Nil => Ok(None),
            value => read(value).map(Some),
        }
    }

    fn each<T>(self, read: fn(Value) -> Result<T>) -> Result<Vec<T>> {
        self.0.map(read).collect()
    }
}

pub(super) fn int(value: Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(number),
        other => Err(strange("a whole number", &other)),
    }
}

pub(super) fn text(value: Value) -> Result<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes)
            .map_err(|_| Error::unavailable("Redis answered a text that is not UTF-8")),
        Value::SimpleString(text) => Ok(text),
        Value::Okay => Ok("OK".to_owned()),
        other => Err(strange("a text", &other)),
    }
}

pub(super) fn truth(value: Value) -> Result<bool> {
    int(value).map(|number| number != 0)
}

fn strange(wanted: &str, value: &Value) -> Error {
    let kind = match value {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a text",
        Value::Array(_) => "a list",
        _ => "something else",
    };
    Error::unavailable(format!("Redis answered {kind} where {wanted} was expected"))
}

/// Whether an answer promises something: a run that is won, a call that took effect.
pub(super) fn is_granted(value: &Value) -> bool {
    match value {
        Value::Int(number) => *number != 0,
        Value::Array(items) => {
            matches!(items.first(), Some(Value::BulkString(kind)) if kind == b"won")
        }
        _ => false,
    }
}

pub(super) fn outcome(value: Value) -> Result<ClaimOutcome> {
    let mut items = Items::of(value)?;
    Ok(ClaimOutcome {
        kind: OutcomeKind::parse(&items.text()?),
        attempt: items.optional(int)?,
        fence: items.optional(int)?,
        max_takeovers: items.optional(int)?,
        slot: items.optional(int)?,
        manual: items.optional(truth)?,
        by: items.optional(text)?,
        left_ms: items.optional(int)?,
        now_ms: items.optional(int)?,
        next_ms: items.optional(int)?,
    })
}

fn active_run(value: Value) -> Result<ActiveRun> {
    let mut items = Items::of(value)?;
    Ok(ActiveRun {
        slot: items.int()?,
        manual: items.int()? != 0,
        by: items.text()?,
        attempt: items.int()?,
        left_ms: items.int()?,
        alive: items.int()? != 0,
    })
}

pub(super) fn active(value: Value) -> Result<Vec<ActiveRun>> {
    Items::of(value)?.each(active_run)
}

fn paused(value: Value) -> Result<Paused> {
    let mut items = Items::of(value)?;
    Ok(Paused { since: items.int()?, by: items.text()?, reason: items.optional(text)? })
}

pub(super) fn survey(value: Value) -> Result<Survey> {
    let mut items = Items::of(value)?;
    let now_ms = items.int()?;
    let schedule = items.text()?;
    let (since, floor) = (items.int()?, items.int()?);
    let zone_tables = items.text()?;
    let paused = items.optional(paused)?;
    let mut slots = Vec::new();
    for key in items.list()?.each(text)? {
        let key = stored::parse_key(&key)?;
        if !key.manual {
            slots.push(key.slot);
        }
    }
    let runs = items.list()?.each(active_run)?;
    slots.extend(items.list()?.each(int)?);
    slots.sort_unstable();
    let missed = items.list()?.each(text)?;
    let missed = missed.iter().map(|line| stored::parse_missed(line)).collect::<Result<_>>()?;
    Ok(Survey { now_ms, schedule, since, floor, paused, slots, runs, missed, zone_tables })
}

/// The latest runs, newest first.
pub(super) fn history(job: &str, limit: usize, value: Value) -> Result<Vec<RunRecord>> {
    let mut items = Items::of(value)?;
    let now = items.int()?;
    let mut runs = Vec::new();
    while items.0.len() > 0 {
        let (key, line, body) = (items.text()?, items.text()?, items.optional(text)?);
        runs.push((stored::parse_run(&key, &line)?, body));
    }
    runs.sort_by_key(|(run, _)| std::cmp::Reverse(run.key()));
    let latest = runs.into_iter().take(limit);
    let records = latest.map(|(run, body)| {
        let result = body.map(|body| stored::parse_body(&body)).transpose()?;
        Ok(stored_record(job, &run, result.as_ref(), now))
    });
    records.collect()
}
