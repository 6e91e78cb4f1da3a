//! One connection: statements in, rows and counts out.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::mysql::{
    MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlQueryResult, MySqlRow,
};
use sqlx::{
    Arguments, AssertSqlSafe, ConnectOptions, Connection, Either, Executor, Row as _, TypeInfo,
    ValueRef,
};

use super::errors::{is_unprepared, sorted};
use super::literals;
use super::options::MySqlOptions;
use crate::backends::sql::driver::Preparing;
use crate::backends::sql::pool::{Connect, Failure, Talk};
use crate::backends::sql::{Row, ServerOptions, SqlValue};
use crate::error::{Code, Error, Result};

/// How connections are made.
pub(super) struct Connector {
    driver: MySqlConnectOptions,
    server: ServerOptions,
    /// What a new connection is told first.
    session: String,
    preparing: Preparing,
}

impl Connector {
    pub(super) fn new(options: &MySqlOptions) -> Connector {
        // No text is cut silently, every statement that is no part of a transaction sees what is
        // there now, no table is created that cannot roll back, and a call that nobody waits for
        // any more does not wait for a lock either.
        let patience_s = (options.server.call_timeout_ms / 1_000).max(1);
        let session = format!(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
             SESSION autocommit = 1, SESSION default_storage_engine = InnoDB, \
             SESSION innodb_lock_wait_timeout = {patience_s}, NAMES utf8mb4"
        );
        Connector {
            driver: options.driver(),
            server: options.server.clone(),
            session,
            preparing: Preparing::with_cache(options.server.statement_cache),
        }
    }
}

#[async_trait]
impl Connect for Connector {
    type Conn = Conn;

    async fn connect(&self) -> Result<Conn> {
        let inner = self.driver.connect().await;
        let inner = inner.map_err(|error| sorted(&error, &self.server).error)?;
        let (server, preparing) = (self.server.clone(), self.preparing.clone());
        let mut conn = Conn { inner, server, preparing };
        conn.talk(&self.session, &[]).await.map_err(|failure| failure.error)?;
        Ok(conn)
    }

    async fn close(&self, conn: Conn) {
        // It is gone either way, and what was committed stays.
        let _closed = conn.inner.close().await;
    }
}

/// One connection.
pub(super) struct Conn {
    inner: MySqlConnection,
    server: ServerOptions,
    preparing: Preparing,
}

impl Conn {
    /// Sends several statements as one text, in one round trip: how many rows each changed.
    pub(super) async fn run_all(&mut self, text: &str) -> Result<Vec<u64>, Failure> {
        let answer = self.text(text.to_owned()).await?;
        Ok(answer.1)
    }

    async fn text(&mut self, text: String) -> Result<Answer, Failure> {
        let answer = collect(self.inner.fetch_many(sqlx::raw_sql(AssertSqlSafe(text)))).await;
        answer.map_err(|error| sorted(&error, &self.server))
    }

    /// The answer of a statement that is prepared once; `None` if that was refused, and so nothing
    /// was done.
    async fn prepared(
        &mut self,
        sql: &str,
        params: &[SqlValue],
    ) -> Result<Option<Answer>, Failure> {
        let arguments = arguments(params).map_err(Failure::usable)?;
        let query = sqlx::query_with(AssertSqlSafe(sql), arguments);
        match collect(self.inner.fetch_many(query)).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if is_unprepared(&error) => {
                if self.preparing.give_up() {
                    tracing::warn!(
                        "MySQL does not keep prepared statements ({error}), as behind a proxy that \
                         gives each transaction another connection; none is prepared from now on. \
                         Set statementCache=0 to begin so"
                    );
                }
                Ok(None)
            }
            Err(error) => Err(sorted(&error, &self.server)),
        }
    }
}

#[async_trait]
impl Talk for Conn {
    /// One round trip, but for the first time that a statement is prepared. One without parameters
    /// goes as a text.
    async fn talk(&mut self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>, Failure> {
        if !params.is_empty()
            && self.preparing.is_on()
            && let Some((rows, _)) = self.prepared(sql, params).await?
        {
            return Ok(rows);
        }
        let mut text = String::with_capacity(sql.len() + params.len() * 16);
        literals::inline(&mut text, sql, params).map_err(Failure::usable)?;
        Ok(self.text(text).await?.0)
    }
}

/// All rows, and how many each statement changed.
type Answer = (Vec<Row>, Vec<u64>);

async fn collect<S>(mut parts: S) -> sqlx::Result<Answer>
where
    S: futures_util::Stream<Item = sqlx::Result<Either<MySqlQueryResult, MySqlRow>>> + Unpin,
{
    let (mut rows, mut changed) = (Vec::new(), Vec::new());
    while let Some(part) = parts.try_next().await? {
        match part {
            Either::Left(done) => changed.push(done.rows_affected()),
            Either::Right(row) => rows.push(read(&row)?),
        }
    }
    Ok((rows, changed))
}

/// Text goes as its bytes: so no character set of the session can change what it means.
fn arguments(params: &[SqlValue]) -> Result<MySqlArguments> {
    let mut arguments = MySqlArguments::default();
    for param in params {
        let added = match param {
            SqlValue::Null => arguments.add(None::<i64>),
            SqlValue::Int(number) => arguments.add(*number),
            SqlValue::Bool(truth) => arguments.add(i64::from(*truth)),
            SqlValue::Text(text) => arguments.add(text.as_bytes()),
            SqlValue::Real(_) | SqlValue::Bytes(_) => Err("it is never sent".into()),
        };
        added.map_err(|error| {
            let what = format!("the parameter {param:?} cannot be sent to MySQL: {error}");
            Error::new(Code::BackendRefused, what)
        })?;
    }
    Ok(arguments)
}

fn read(row: &MySqlRow) -> sqlx::Result<Row> {
    let mut values = Vec::with_capacity(row.len());
    for index in 0..row.len() {
        values.push(value(row, index)?);
    }
    Ok(Row::in_order(values))
}

/// A number comes as its digits in the answer to a text, else in binary: the driver reads both.
fn value(row: &MySqlRow, index: usize) -> sqlx::Result<SqlValue> {
    let raw = row.try_get_raw(index)?;
    if raw.is_null() {
        return Ok(SqlValue::Null);
    }
    let kind = raw.type_info();
    Ok(match kind.name().trim_end_matches(" UNSIGNED") {
        "BIGINT" | "INT" | "MEDIUMINT" | "SMALLINT" | "TINYINT" | "BOOLEAN" => {
            SqlValue::Int(row.try_get_unchecked(index)?)
        }
        _ => SqlValue::Bytes(row.try_get_unchecked(index)?),
    })
}
