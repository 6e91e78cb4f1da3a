//! One connection: statements in, rows out, errors sorted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteRow, SqliteSynchronous,
};
use sqlx::{
    Arguments, AssertSqlSafe, ConnectOptions, Connection, Either, Executor, Row as _, TypeInfo,
    ValueRef,
};

use super::options::{SqliteOptions, Synchronous};
use crate::backends::sql::{Access, Row, SqlValue};
use crate::error::{Code, Error, Result};

/// How connections are made, and how many statements they have sent.
#[derive(Clone)]
pub(super) struct Connector {
    options: SqliteConnectOptions,
    sent: Arc<AtomicU64>,
}

impl Connector {
    pub(super) fn new(
        options: &SqliteOptions,
        path: &std::path::Path,
        access: Access,
        sent: Arc<AtomicU64>,
    ) -> Connector {
        let synchronous = match options.synchronous {
            Synchronous::Full => SqliteSynchronous::Full,
            Synchronous::Extra => SqliteSynchronous::Extra,
            Synchronous::Normal => SqliteSynchronous::Normal,
        };
        let busy_timeout_ms = u64::try_from(options.busy_timeout_ms).unwrap_or(0);
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(access == Access::Full)
            // Set before any statement is sent: changing the journal mode already needs it.
            .busy_timeout(Duration::from_millis(busy_timeout_ms.min(LONGEST_BUSY_MS)))
            .synchronous(synchronous)
            .foreign_keys(false)
            .statement_cache_capacity(128)
            .row_buffer_size(1_000)
            .thread_name(|number| format!("anarchon-sqlite-{number}"))
            .disable_statement_logging();
        Connector { options, sent }
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Conn> {
        let inner = self.options.connect().await.map_err(|error| {
            let message = format!("opening {}", self.options.get_filename().display());
            sorted(&error).in_context(&message)
        })?;
        Ok(Conn { inner, sent: self.sent.clone() })
    }
}

/// SQLite's own waiting for a lock sleeps up to 100 ms at a time, and whoever looks more often gets
/// it. So it waits only a little, and we go on waiting in short steps.
const LONGEST_BUSY_MS: u64 = 20;

/// One connection.
pub(super) struct Conn {
    inner: SqliteConnection,
    sent: Arc<AtomicU64>,
}

impl Conn {
    /// Sends one statement: its rows, and how many rows it changed.
    pub(super) async fn run(&mut self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        run(&mut self.inner, sql, params).await
    }

    /// Sends several statements, one after the other, as one text. For each that was done how many
    /// rows it changed; an error ends them.
    pub(super) async fn run_all(
        &mut self,
        sql: String,
        statements: usize,
        params: Vec<&SqlValue>,
    ) -> (Vec<u64>, Result<()>) {
        self.sent.fetch_add(u64::try_from(statements).unwrap_or(0), Ordering::Relaxed);
        let mut changed = Vec::with_capacity(statements);
        let arguments = match arguments(params) {
            Ok(arguments) => arguments,
            Err(error) => return (changed, Err(error)),
        };
        let mut parts = self.inner.fetch_many(sqlx::query_with(AssertSqlSafe(sql), arguments));
        loop {
            match parts.try_next().await {
                Ok(Some(Either::Left(done))) => changed.push(done.rows_affected()),
                Ok(Some(Either::Right(_))) => {}
                Ok(None) => break,
                Err(error) => return (changed, Err(sorted(&error))),
            }
        }
        (changed, Ok(()))
    }

    /// Closes it.
    pub(super) async fn close(self) {
        // It is gone either way, and what was committed stays.
        let _closed = self.inner.close().await;
    }
}

async fn run(conn: &mut SqliteConnection, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
    let query = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments(params)?);
    let mut parts = conn.fetch_many(query);
    let mut rows = Vec::new();
    while let Some(part) = parts.try_next().await.map_err(|error| sorted(&error))? {
        if let Either::Right(row) = part {
            rows.push(read(&row)?);
        }
    }
    Ok(rows)
}

fn arguments<'a>(params: impl IntoIterator<Item = &'a SqlValue>) -> Result<SqliteArguments> {
    let mut arguments = SqliteArguments::default();
    for param in params {
        let added = match param {
            SqlValue::Null => arguments.add(None::<i64>),
            SqlValue::Int(number) => arguments.add(*number),
            SqlValue::Bool(truth) => arguments.add(i64::from(*truth)),
            SqlValue::Real(number) => arguments.add(*number),
            SqlValue::Text(text) => arguments.add(text.as_str()),
            SqlValue::Bytes(bytes) => arguments.add(bytes.as_slice()),
        };
        added.map_err(|error| {
            Error::unavailable(format!("a parameter cannot be sent to SQLite: {error}"))
        })?;
    }
    Ok(arguments)
}

fn read(row: &SqliteRow) -> Result<Row> {
    let mut values = Vec::with_capacity(row.len());
    for index in 0..row.len() {
        values.push(value(row, index).map_err(|error| sorted(&error))?);
    }
    Ok(Row::in_order(values))
}

fn value(row: &SqliteRow, index: usize) -> sqlx::Result<SqlValue> {
    let raw = row.try_get_raw(index)?;
    if raw.is_null() {
        return Ok(SqlValue::Null);
    }
    let kind = raw.type_info();
    Ok(match kind.name() {
        "INTEGER" => SqlValue::Int(row.try_get(index)?),
        "REAL" => SqlValue::Real(row.try_get(index)?),
        "TEXT" => SqlValue::Text(row.try_get(index)?),
        _ => SqlValue::Bytes(row.try_get(index)?),
    })
}

/// SQLite's result codes that decide something; the lowest byte of the extended ones.
mod code {
    pub(super) const ERROR: i32 = 1;
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READONLY: i32 = 8;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const NOTADB: i32 = 26;
}

fn result_code(error: &sqlx::Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

const BUSY: &str = "another process kept the SQLite database locked";

/// Whether waiting may help.
pub(super) fn is_busy(error: &Error) -> bool {
    error.code() == Some(Code::BackendUnavailable) && error.message().contains(BUSY)
}

/// What SQLite says, as an error of ours. What asking again cannot change is refused; all else
/// leaves unknown what became of the statement.
fn sorted(error: &sqlx::Error) -> Error {
    let Some(said) = error.as_database_error().map(|error| error.message().to_owned()) else {
        return Error::unavailable(format!("the SQLite connection failed: {error}"));
    };
    let refused = |what: &str| Error::new(Code::BackendRefused, format!("{what}: {said}"));
    match result_code(error) {
        Some(code::BUSY | code::LOCKED) => {
            Error::unavailable(format!("another process kept the SQLite database locked: {said}"))
        }
        Some(code::ERROR) => refused("SQLite refused a statement"),
        Some(code::READONLY) => refused(
            "the SQLite database cannot be written; give the file and its directory to \
                     this user",
        ),
        Some(code::CORRUPT | code::NOTADB) => refused(
            "the file is no SQLite database, or is damaged; name another path or restore it",
        ),
        Some(code::CANTOPEN) => {
            refused("the SQLite database cannot be opened; look at its permissions")
        }
        _ => Error::unavailable(format!("SQLite failed: {said}")),
    }
}
