//! What the engine asks of a database driver: statements, transactions, values.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::plan::Unit;
use crate::error::{Code, Error, Result};

/// A value sent to a database, or brought back by one.
///
/// Drivers differ in what they bring back: a 64-bit integer may come as a number, a big integer, a
/// string of digits or a decimal, a text as text or bytes, a truth as `0`/`1`, `true` or `'t'`. All
/// of them are read (see [`SqlValue::whole`], [`SqlValue::text`], [`SqlValue::truth`]).
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// Nothing.
    Null,
    /// A whole number. The engine sends no other numbers.
    Int(i64),
    /// A number with a fraction, or one from a language that has no other (never sent).
    Real(f64),
    /// True or false (never sent).
    Bool(bool),
    /// Text, and digits of numbers that do not fit elsewhere.
    Text(String),
    /// Bytes (never sent).
    Bytes(Vec<u8>),
}

impl SqlValue {
    /// A text, or nothing.
    pub fn optional_text(text: Option<String>) -> SqlValue {
        text.map_or(SqlValue::Null, SqlValue::Text)
    }

    /// A number, or nothing.
    pub fn optional_int(number: Option<i64>) -> SqlValue {
        number.map_or(SqlValue::Null, SqlValue::Int)
    }

    /// Whether it is nothing.
    pub const fn is_null(&self) -> bool {
        matches!(self, SqlValue::Null)
    }

    /// The whole number that this is, in whichever form it came.
    pub fn whole(&self) -> Option<i64> {
        match self {
            SqlValue::Null => None,
            SqlValue::Int(number) => Some(*number),
            SqlValue::Bool(truth) => Some(i64::from(*truth)),
            SqlValue::Real(number) => whole_of_real(*number),
            SqlValue::Text(text) => whole_of_text(text),
            SqlValue::Bytes(bytes) => whole_of_text(std::str::from_utf8(bytes).ok()?),
        }
    }

    /// The text that this is.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            SqlValue::Text(text) => Some(Cow::Borrowed(text)),
            SqlValue::Bytes(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            SqlValue::Int(number) => Some(Cow::Owned(number.to_string())),
            SqlValue::Null | SqlValue::Real(_) | SqlValue::Bool(_) => None,
        }
    }

    /// Whether this is true.
    pub fn truth(&self) -> Option<bool> {
        match self.text().as_deref() {
            Some("t" | "true" | "T" | "TRUE") => Some(true),
            Some("f" | "false" | "F" | "FALSE") => Some(false),
            _ => self.whole().map(|number| number != 0),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole and within 2^63 by the check before")]
fn whole_of_real(number: f64) -> Option<i64> {
    let fits = number.fract() == 0.0 && number.abs() < 9.2e18;
    fits.then_some(number as i64)
}

/// `17`, `-17`, and what decimals look like: `17.000`.
fn whole_of_text(text: &str) -> Option<i64> {
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|digit| digit == b'0') {
        return None;
    }
    whole.parse().ok()
}

/// A row that a statement brought back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The names of the columns; `None` if the values stand in the order of the statement.
    names: Option<Arc<[String]>>,
    values: Vec<SqlValue>,
}

impl Row {
    /// A row whose values stand in the order in which the statement asked for them.
    pub fn in_order(values: Vec<SqlValue>) -> Row {
        Row { names: None, values }
    }

    /// A row whose values have names, in any order. Rows of one answer share `names`.
    pub fn named(names: Arc<[String]>, values: Vec<SqlValue>) -> Row {
        Row { names: Some(names), values }
    }

    /// A row from pairs of name and value, in any order.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (String, SqlValue)>) -> Row {
        let (names, values): (Vec<String>, Vec<SqlValue>) = pairs.into_iter().unzip();
        Row::named(names.into(), values)
    }

    /// The values in the order of `columns`.
    ///
    /// # Errors
    /// `BACKEND_REFUSED` if a column is missing.
    pub(crate) fn into_order(mut self, columns: &[&str]) -> Result<Vec<SqlValue>> {
        let Some(names) = self.names else {
            return match self.values.len() == columns.len() {
                true => Ok(self.values),
                false => Err(missing_column(columns, &[])),
            };
        };
        let mut ordered = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            let here = names.get(index).is_some_and(|name| name == column);
            let place = if here {
                Some(index)
            } else {
                names.iter().position(|name| name.eq_ignore_ascii_case(column))
            };
            match place.and_then(|place| self.values.get_mut(place)) {
                Some(value) => ordered.push(std::mem::replace(value, SqlValue::Null)),
                None => return Err(missing_column(columns, &names)),
            }
        }
        Ok(ordered)
    }
}

fn missing_column(wanted: &[&str], got: &[String]) -> Error {
    Error::new(
        Code::BackendRefused,
        format!(
            "a row of the database has the columns {got:?}; wanted are {wanted:?}. Let all() \
             return one object per row with the names that the statement gives"
        ),
    )
}

/// Something that takes statements: a connection, or a transaction on one.
#[async_trait]
pub trait SqlQueryable: Send + Sync {
    /// Sends one statement and brings back all its rows; none for a statement that has no rows.
    ///
    /// # Errors
    /// Whatever the driver says. The engine treats it as *unknown* and asks again.
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>>;

    /// Makes changes of one job take turns, where a user's own dialect says how.
    ///
    /// # Errors
    /// Whatever the driver says.
    async fn serialize(&self, _job: &str) -> Result<()> {
        Ok(())
    }
}

/// What runs inside a transaction. A driver may run it again, so it starts from nothing each time;
/// what it found out is kept on our side.
pub type TransactionBody =
    Arc<dyn Fn(Arc<dyn SqlQueryable>) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// Who is asking: heartbeats must never wait behind what handlers and claims do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Claims, ends, registrations, readers.
    Ordinary,
    /// Heartbeats.
    Heartbeat,
}

/// A database client: statements, and transactions.
///
/// Only [`SqlQueryable::all`] and [`SqlClient::transaction`] are needed; the rest are short cuts.
#[async_trait]
pub trait SqlClient: SqlQueryable {
    /// Runs `body` in a transaction: commits if it returned, rolls back if it failed.
    ///
    /// # Errors
    /// What `body` failed with, or what the driver says. Whether something was stored is then
    /// unknown, and the engine asks again.
    async fn transaction(&self, body: TransactionBody) -> Result<()>;

    /// Closes the connections. Called only if the client was opened for the engine.
    ///
    /// # Errors
    /// Whatever the driver says.
    async fn close(&self) -> Result<()> {
        Ok(())
    }

    /// Like [`SqlQueryable::all`], on the connection kept for this lane.
    ///
    /// # Errors
    /// As [`SqlQueryable::all`].
    async fn all_in(&self, _lane: Lane, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.all(sql, params).await
    }

    /// Applies guarded changes in a way of the driver's own (row counts, groups): for each unit
    /// whether its guard held. `None`: not here, use a transaction.
    async fn apply(&self, _lane: Lane, _units: &Arc<[Unit]>) -> Option<Result<Vec<bool>>> {
        None
    }
}
