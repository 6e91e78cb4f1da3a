//! Guarded changes as one text of several statements.
//!
//! A text goes to the server in one round trip: begin, for each job the guard, how many rows it
//! changed, and the changes that depend on that. The guard is the first statement on a job, and the
//! jobs come in the order of their names: whoever has a job's row waits for none that comes before
//! it, and there is nothing to deadlock on.
//!
//! The commit is a round trip of its own, once the answers are there. A server whose client is gone
//! goes on with the text: MariaDB 10.11 was seen to skip the changes behind a guard and still to
//! commit it, 19 times in 400. Without a commit in the text such a transaction rolls back.

use std::fmt::Write as _;

use super::literals;
use crate::backends::sql::{SqlValue, Step, Unit, Write};
use crate::error::{Error, Result};

/// A text, and which of its statements are the guards.
pub(super) struct Script {
    pub(super) text: String,
    /// For each unit where its guard stands among the statements.
    guards: Vec<usize>,
    statements: usize,
}

/// At most so many units in one text, and about so many bytes: far below `max_allowed_packet`.
const MOST_UNITS: usize = 128;
const MOST_BYTES: usize = 1024 * 1024;

/// A text for as many of the units as go into one, which must be sorted by job: at least for one.
pub(super) fn script(units: &[&Unit]) -> Result<Script> {
    let mut script = Script {
        text: String::from("START TRANSACTION"),
        guards: Vec::with_capacity(units.len()),
        statements: 1,
    };
    for unit in units.iter().take(MOST_UNITS) {
        if script.text.len() > MOST_BYTES {
            break;
        }
        script.add(unit)?;
    }
    Ok(script)
}

impl Script {
    /// How many units are in it.
    pub(super) fn units(&self) -> usize {
        self.guards.len()
    }

    fn statement(&mut self) {
        self.text.push_str("; ");
        self.statements += 1;
    }

    fn add(&mut self, unit: &Unit) -> Result<()> {
        self.statement();
        self.guards.push(self.statements - 1);
        literals::inline(&mut self.text, &guard(&unit.guard), &unit.guard.params)?;
        if unit.rest.is_empty() {
            return Ok(());
        }
        self.statement();
        self.text.push_str("SET @anarchon_held = ROW_COUNT()");
        for step in &unit.rest {
            self.statement();
            change(&mut self.text, step)?;
        }
        Ok(())
    }

    /// For each unit whether its guard held, from how many rows each statement changed.
    pub(super) fn held(&self, units: &[&Unit], changed: &[u64]) -> Result<Vec<bool>> {
        if changed.len() != self.statements {
            return Err(Error::unavailable(format!(
                "{} statements were sent and {} were answered",
                self.statements,
                changed.len()
            )));
        }
        let mut held = Vec::with_capacity(self.guards.len());
        for (unit, guard) in units.iter().zip(&self.guards) {
            let holds = changed[*guard] == 1;
            // The guard, the count, then the changes.
            let changes = changed.iter().skip(guard + 2).take(unit.rest.len());
            if holds && !changes.into_iter().all(|count| *count == 1) {
                return Err(Error::unavailable(format!(
                    "the rows of the job {:?} were changed by somebody else while it was written",
                    unit.job
                )));
            }
            held.push(holds);
        }
        Ok(held)
    }
}

/// A row that is there already is a guard that does not hold. In MySQL that must not be an error,
/// which would end the text.
fn guard(step: &Step) -> String {
    match step.write {
        Write::InsertJob if !step.sql.starts_with("INSERT IGNORE") => {
            step.sql.replacen("INSERT INTO", "INSERT IGNORE INTO", 1)
        }
        _ => step.sql.to_string(),
    }
}

/// A change that is only made if the guard held.
fn change(text: &mut String, step: &Step) -> Result<()> {
    const IF_HELD: &str = "@anarchon_held = 1";
    let params: &[SqlValue] = &step.params;
    match step.sql.split_once(" VALUES (") {
        Some((insert, values)) => {
            let values = values.strip_suffix(')').unwrap_or(values);
            let sql = format!("{insert} SELECT {values} FROM DUAL WHERE {IF_HELD}");
            literals::inline(text, &sql, params)
        }
        None => {
            literals::inline(text, &step.sql, params)?;
            let _infallible = write!(text, " AND {IF_HELD}");
            Ok(())
        }
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
