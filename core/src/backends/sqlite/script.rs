//! Guarded changes as few texts of several statements.
//!
//! Each text is one trip to the thread of the connection. The statements of a unit are chained:
//! each runs only if the one before changed exactly one row (`changes() = 1`), and the first of
//! them is the guard. So one text does it all: the changes of a unit whose guard does not hold do
//! nothing.

use std::fmt::Write;

use super::connection::Conn;
use crate::backends::sql::{SqlValue, Unit};
use crate::error::{Error, Result};

/// What goes into one transaction.
pub(super) struct Group<'a> {
    all: &'a [&'a [Unit]],
    lots: Vec<&'a [Unit]>,
}

/// Why a group was not written.
pub(super) enum Failed {
    /// Nothing was begun: another process writes.
    NotBegun(Error),
    /// Something failed inside: the connection must not be used again.
    Within(Error),
}

/// Units of the same form share a text, in lots of these sizes: few texts, to be prepared once.
const LOTS: [usize; 3] = [16, 4, 1];

impl<'a> Group<'a> {
    pub(super) fn of(all: &'a [&'a [Unit]]) -> Group<'a> {
        let mut lots = Vec::new();
        for units in all {
            for alike in units.chunk_by(same_form) {
                let mut rest = alike;
                while !rest.is_empty() {
                    let size = LOTS.into_iter().find(|size| *size <= rest.len()).unwrap_or(1);
                    let (lot, after) = rest.split_at(size);
                    lots.push(lot);
                    rest = after;
                }
            }
        }
        Group { all, lots }
    }

    /// Writes it: for each unit whether its guard held.
    pub(super) async fn run(&self, conn: &mut Conn) -> Result<Vec<Vec<bool>>, Failed> {
        let held = match self.lots.as_slice() {
            [] => Vec::new(),
            [lot] => Group::run_at_once(conn, lot).await?,
            lots => Group::run_each(conn, lots).await?,
        };
        let mut held = held.into_iter();
        Ok(self.all.iter().map(|units| held.by_ref().take(units.len()).collect()).collect())
    }

    async fn run_at_once(conn: &mut Conn, lot: &[Unit]) -> Result<Vec<bool>, Failed> {
        let (text, statements) = text(lot);
        let sql = format!("{BEGIN}; {text}; COMMIT");
        let (changed, done) = conn.run_all(sql, statements + 2, params(lot)).await;
        match done {
            Ok(()) => verified(lot, changed.get(1..).unwrap_or_default()),
            Err(error) if changed.is_empty() => Err(Failed::NotBegun(error)),
            Err(error) => Err(Failed::Within(error)),
        }
    }

    async fn run_each(conn: &mut Conn, lots: &[&[Unit]]) -> Result<Vec<bool>, Failed> {
        conn.run(BEGIN, &[]).await.map_err(Failed::NotBegun)?;
        let mut held = Vec::new();
        for lot in lots {
            let (text, statements) = text(lot);
            let (changed, done) = conn.run_all(text, statements, params(lot)).await;
            done.map_err(Failed::Within)?;
            held.extend(verified(lot, &changed)?);
        }
        conn.run("COMMIT", &[]).await.map_err(Failed::Within)?;
        Ok(held)
    }
}

/// A transaction that began by reading could not be turned into one that writes: SQLite refuses
/// that at once.
const BEGIN: &str = "BEGIN IMMEDIATE";

fn same_form(one: &Unit, other: &Unit) -> bool {
    let texts = |unit: &Unit| -> Vec<*const u8> {
        let steps = [&unit.guard].into_iter().chain(&unit.rest);
        steps.map(|step| step.sql.as_ptr()).collect()
    };
    texts(one) == texts(other)
}

fn params(lot: &[Unit]) -> Vec<&SqlValue> {
    let steps = lot.iter().flat_map(|unit| [&unit.guard].into_iter().chain(&unit.rest));
    steps.flat_map(|step| &step.params).collect()
}

/// The text of a lot, and how many statements it has.
fn text(lot: &[Unit]) -> (String, usize) {
    let mut text = String::new();
    let mut statements = 0;
    for unit in lot {
        let separator = if text.is_empty() { "" } else { "; " };
        let _infallible = write!(text, "{separator}{}", unit.guard.sql);
        for step in &unit.rest {
            let _infallible = write!(text, "; {}", chained(&step.sql));
        }
        statements += 1 + unit.rest.len();
    }
    (text, statements)
}

/// The statement that only does something if the one before it changed exactly one row.
fn chained(sql: &str) -> String {
    const IF_HELD: &str = "changes() = 1";
    match sql.split_once(" VALUES (") {
        Some((insert, values)) => {
            let values = values.strip_suffix(')').unwrap_or(values);
            format!("{insert} SELECT {values} WHERE {IF_HELD}")
        }
        None => format!("{sql} AND {IF_HELD}"),
    }
}

/// For each unit whether its guard held. A chain that broke in the middle met rows that somebody
/// changed by hand since they were read.
fn verified(lot: &[Unit], changed: &[u64]) -> Result<Vec<bool>, Failed> {
    let mut changed = changed.iter().copied();
    let mut held = Vec::with_capacity(lot.len());
    for unit in lot {
        let guard = changed.next() == Some(1);
        let steps = changed.by_ref().take(unit.rest.len()).filter(|count| *count == 1).count();
        if guard && steps != unit.rest.len() {
            return Err(Failed::Within(Error::unavailable(format!(
                "the rows of the job {:?} were changed by somebody else while it was written",
                unit.job
            ))));
        }
        held.push(guard);
    }
    Ok(held)
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
