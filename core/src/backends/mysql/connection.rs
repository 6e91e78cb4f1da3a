//! One connection: statements in, rows and counts out.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Executor, Row as _, ValueRef};

use super::errors::sorted;
use super::literals;
use super::options::MySqlOptions;
use crate::backends::sql::pool::{Connect, Failure, Fate, Talk};
use crate::backends::sql::{Row, ServerOptions, SqlValue};
use crate::error::Result;

/// How connections are made.
pub(super) struct Connector {
    driver: MySqlConnectOptions,
    server: ServerOptions,
    /// What a new connection is told first.
    session: String,
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
        Connector { driver: options.driver(), server: options.server.clone(), session }
    }
}

#[async_trait]
impl Connect for Connector {
    type Conn = Conn;

    async fn connect(&self) -> Result<Conn> {
        let inner = self.driver.connect().await;
        let inner = inner.map_err(|error| sorted(&error, &self.server).error)?;
        let mut conn = Conn { inner, server: self.server.clone() };
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
}

impl Conn {
    /// Sends several statements as one text, in one round trip: how many rows each changed.
    pub(super) async fn run_all(&mut self, text: &str) -> Result<Vec<u64>, Failure> {
        let answer = self.parts(text.to_owned()).await?;
        Ok(answer.1)
    }

    async fn parts(&mut self, text: String) -> Result<(Vec<Row>, Vec<u64>), Failure> {
        let (mut rows, mut changed) = (Vec::new(), Vec::new());
        let mut parts = self.inner.fetch_many(sqlx::raw_sql(AssertSqlSafe(text)));
        loop {
            match parts.try_next().await {
                Ok(Some(Either::Left(done))) => changed.push(done.rows_affected()),
                Ok(Some(Either::Right(row))) => {
                    rows.push(read(&row).map_err(|error| sorted(&error, &self.server))?);
                }
                Ok(None) => return Ok((rows, changed)),
                Err(error) => return Err(sorted(&error, &self.server)),
            }
        }
    }
}

#[async_trait]
impl Talk for Conn {
    /// Always one round trip: nothing is prepared.
    async fn talk(&mut self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>, Failure> {
        let mut text = String::with_capacity(sql.len() + params.len() * 16);
        let written = literals::inline(&mut text, sql, params);
        written.map_err(|error| Failure { error, conn: Fate::Usable })?;
        Ok(self.parts(text).await?.0)
    }
}

/// A number comes as its digits, which the engine reads.
fn read(row: &MySqlRow) -> sqlx::Result<Row> {
    let mut values = Vec::with_capacity(row.len());
    for index in 0..row.len() {
        values.push(match row.try_get_raw(index)?.is_null() {
            true => SqlValue::Null,
            false => SqlValue::Bytes(row.try_get_unchecked(index)?),
        });
    }
    Ok(Row::in_order(values))
}
