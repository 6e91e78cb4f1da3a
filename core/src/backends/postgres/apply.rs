//! Guarded changes as one statement.
//!
//! The guard is a data-modifying `WITH` query that gives a row if it held, and the changes of the
//! runs are made `FROM` it: where it gave none they do nothing. One statement is one transaction,
//! so a winner costs one round trip after the read, and no `BEGIN` is ever left open.
//!
//! All changes see the same snapshot, taken at the beginning. A guard that had to wait for another
//! transaction looks at the row's version again, as it is then; and while the version is the same
//! nothing else of the job has changed, for every change raises it.
//!
//! Changes of many jobs go together: those of the same form in one statement, with a column of
//! values for each parameter. The jobs' rows are locked by name first, so that two batches never
//! wait for each other in a circle.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use super::literals;
use crate::backends::sql::{Row, SqlValue, Step, Tables, Unit, Write};
use crate::error::{Error, Result};

/// What the statements of a unit are, in order: the guard first.
type Form = Vec<Write>;

/// Makes the statements, and keeps those for single units.
pub(super) struct Texts {
    tables: Tables,
    single: Mutex<HashMap<Form, Arc<str>>>,
}

/// The columns that hold text; all others hold whole numbers.
const TEXTS: [&str; 13] = [
    "namespace",
    "job",
    "stamp",
    "schedule",
    "schedule_prev",
    "zone_tables",
    "paused",
    "missed",
    "status",
    "held_by",
    "token",
    "error",
    "output",
];

fn steps(unit: &Unit) -> impl Iterator<Item = &Step> {
    std::iter::once(&unit.guard).chain(&unit.rest)
}

fn form(unit: &Unit) -> Form {
    steps(unit).map(|step| step.write).collect()
}

/// The parameters of a unit's statement for one.
pub(super) fn params(unit: &Unit) -> Vec<SqlValue> {
    steps(unit).flat_map(|step| step.params.iter().cloned()).collect()
}

/// Units of the same form, each with its place among all, in the order of the jobs' names.
pub(super) fn lots(units: &[Unit]) -> Vec<Vec<usize>> {
    let mut lots: Vec<(Form, Vec<usize>)> = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        let form = form(unit);
        match lots.iter_mut().find(|(known, _)| *known == form) {
            Some((_, lot)) => lot.push(index),
            None => lots.push((form, vec![index])),
        }
    }
    let mut lots: Vec<Vec<usize>> = lots.into_iter().map(|(_, lot)| lot).collect();
    for lot in &mut lots {
        lot.sort_by(|a, b| units[*a].job.cmp(&units[*b].job));
    }
    lots
}

/// One column of a step: `stamp`, and how its value is written.
struct Column {
    name: &'static str,
    value: String,
}

/// The columns that a step sets, those of its key, and where the value of each stands.
fn columns(write: Write, mut value: impl FnMut(&'static str) -> String) -> [Vec<Column>; 2] {
    let mut column = |name: &'static str| Column { name, value: value(name) };
    let set = write.set().into_iter().map(&mut column).collect();
    let key = std::iter::once("namespace").chain(write.key().iter().copied());
    [set, key.map(&mut column).collect()]
}

fn list(columns: &[Column], part: impl Fn(&Column) -> String, separator: &str) -> String {
    columns.iter().map(part).collect::<Vec<_>>().join(separator)
}

fn names(columns: &[Column]) -> String {
    list(columns, |column| column.name.to_owned(), ", ")
}

fn values(columns: &[Column]) -> String {
    list(columns, |column| column.value.clone(), ", ")
}

fn assignments(write: Write, set: &[Column]) -> String {
    let one = |column: &Column| match write.adds(column.name) {
        true => format!("{0} = t.{0} + {1}", column.name, column.value),
        false => format!("{} = {}", column.name, column.value),
    };
    list(set, one, ", ")
}

fn found(key: &[Column]) -> String {
    list(key, |column| format!("t.{} = {}", column.name, column.value), " AND ")
}

impl Texts {
    pub(super) fn new(tables: Tables) -> Texts {
        Texts { tables, single: Mutex::default() }
    }

    /// The statement for one unit, with [`params`] as its parameters.
    pub(super) fn single(&self, unit: &Unit) -> Arc<str> {
        let mut known = self.single.lock().unwrap_or_else(PoisonError::into_inner);
        let make = |form: &Form| -> Arc<str> { self.single_text(form).into() };
        let form = form(unit);
        if let Some(text) = known.get(&form) {
            return text.clone();
        }
        let text = make(&form);
        // A job that drops hundreds of records at once is rare: not every such form is kept.
        if form.len() <= 8 {
            known.insert(form, text.clone());
        }
        text
    }

    fn single_text(&self, form: &[Write]) -> String {
        let mut number = 0;
        let mut parts = Vec::with_capacity(form.len());
        for (index, write) in form.iter().enumerate() {
            let [set, key] = columns(*write, |_| {
                number += 1;
                format!("${number}")
            });
            let part = match index {
                0 => self.guard_of_one(*write, &set, &key),
                _ => self.change(*write, &set, &key, "g"),
            };
            parts.push(part);
        }
        query(&parts, "")
    }

    fn guard_of_one(&self, write: Write, set: &[Column], key: &[Column]) -> String {
        let jobs = &self.tables.jobs;
        if write.inserts() {
            return format!(
                "INSERT INTO {jobs} ({}, {}) VALUES ({}, {}) ON CONFLICT DO NOTHING RETURNING job",
                names(set),
                names(key),
                values(set),
                values(key)
            );
        }
        format!(
            "UPDATE {jobs} t SET {} WHERE {} RETURNING t.job",
            assignments(write, set),
            found(key)
        )
    }

    /// A change of a run, made for each row of `guarded`.
    fn change(&self, write: Write, set: &[Column], key: &[Column], guarded: &str) -> String {
        let runs = &self.tables.runs;
        if write.inserts() {
            return format!(
                "INSERT INTO {runs} ({}, {}) SELECT {}, {} FROM {guarded} RETURNING 1",
                names(set),
                names(key),
                values(set),
                values(key)
            );
        }
        if write == Write::DeleteRun {
            return format!(
                "DELETE FROM {runs} t USING {guarded} WHERE {} RETURNING 1",
                found(key)
            );
        }
        format!(
            "UPDATE {runs} t SET {} FROM {guarded} WHERE {} RETURNING 1",
            assignments(write, set),
            found(key)
        )
    }

    /// The statement for units of the same form, of which no two are of one job, with the values
    /// written in.
    pub(super) fn many(&self, units: &[&Unit]) -> Result<String> {
        let form = form(units[0]);
        let mut arrays = String::new();
        let mut aliases = Vec::new();
        let mut steps = Vec::with_capacity(form.len());
        for (place, write) in form.iter().enumerate() {
            let first = aliases.len();
            let step = columns(*write, |_| {
                aliases.push(format!("c{}", aliases.len()));
                format!("i.c{}", aliases.len() - 1)
            });
            for (param, column) in step.iter().flatten().enumerate() {
                let separator = if first + param == 0 { "" } else { ", " };
                arrays.push_str(separator);
                let element = if TEXTS.contains(&column.name) { "TEXT" } else { "BIGINT" };
                let values = units.iter().filter_map(|unit| {
                    let step = if place == 0 { &unit.guard } else { unit.rest.get(place - 1)? };
                    step.params.get(param)
                });
                literals::array(&mut arrays, element, values)?;
            }
            steps.push(step);
        }
        let [set, key] = &steps[0];
        let job = &key[1].value;
        let input = format!("SELECT * FROM unnest({arrays}) AS u({})", aliases.join(", "));
        let mut parts = vec![self.guard_of_many(form[0], set, key)];
        for (write, [set, key]) in form.iter().zip(&steps).skip(1) {
            let guarded = "i JOIN g ON g.job = ";
            parts.push(self.change(*write, set, key, &format!("{guarded}{job}")));
        }
        Ok(query(&parts, &format!("i AS MATERIALIZED ({input}), ")))
    }

    fn guard_of_many(&self, write: Write, set: &[Column], key: &[Column]) -> String {
        let jobs = &self.tables.jobs;
        let job = &key[1].value;
        if write.inserts() {
            return format!(
                "INSERT INTO {jobs} ({}, {}) SELECT {}, {} FROM i ORDER BY {job} COLLATE \"C\" \
                 ON CONFLICT DO NOTHING RETURNING job",
                names(set),
                names(key),
                values(set),
                values(key)
            );
        }
        format!(
            "UPDATE {jobs} t SET {set} FROM i JOIN ( \
             SELECT t.job FROM {jobs} t JOIN i ON {found} ORDER BY t.job FOR UPDATE OF t \
             ) l ON l.job = {job} WHERE {found} RETURNING t.job",
            set = assignments(write, set),
            found = found(key)
        )
    }
}

/// The guard as `g`, the changes as `s1`, `s2` …; the answer is a row for each job whose guard
/// held, with how many rows all the changes made.
fn query(parts: &[String], before: &str) -> String {
    let mut text = format!("WITH {before}g AS ({})", parts[0]);
    let mut done = String::from("0");
    for (index, part) in parts.iter().enumerate().skip(1) {
        let _infallible = write!(text, ", s{index} AS ({part})");
        let _infallible = write!(done, " + (SELECT COUNT(*) FROM s{index})");
    }
    let _infallible = write!(text, " SELECT job, {done} AS done FROM g");
    text
}

/// For each unit of a lot whether its guard held. Fewer changes than there should be met rows that
/// somebody changed by hand since they were read.
pub(super) fn held(units: &[&Unit], rows: Vec<Row>) -> Result<Vec<bool>> {
    let mut jobs = Vec::with_capacity(rows.len());
    let mut done = 0;
    for row in rows {
        let values = row.into_order(&["job", "done"])?;
        jobs.extend(values[0].text().map(std::borrow::Cow::into_owned));
        done = values[1].whole().unwrap_or(0);
    }
    jobs.sort_unstable();
    let changes = i64::try_from(jobs.len() * units[0].rest.len()).unwrap_or(i64::MAX);
    if done != changes && !jobs.is_empty() {
        return Err(Error::unavailable(format!(
            "{done} rows of the jobs {jobs:?} were changed and not {changes}: somebody else \
             changed them at the same time"
        )));
    }
    Ok(units.iter().map(|unit| jobs.binary_search(&unit.job).is_ok()).collect())
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
