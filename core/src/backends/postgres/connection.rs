//! One connection: statements in, rows out.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{
    PgArgumentBuffer, PgArguments, PgConnectOptions, PgConnection, PgRow, PgTypeInfo, PgValueFormat,
};
use sqlx::{
    Arguments, AssertSqlSafe, ConnectOptions, Connection, Either, Encode, Executor, Postgres,
    Row as _, Type, TypeInfo, ValueRef,
};

use super::errors::sorted;
use super::literals;
use super::options::PostgresOptions;
use crate::backends::sql::driver::Preparing;
use crate::backends::sql::pool::{Connect, Failure, Talk};
use crate::backends::sql::{Row, ServerOptions, SqlValue};
use crate::error::{Code, Error, Result};

/// How connections are made.
pub(super) struct Connector {
    driver: PgConnectOptions,
    server: ServerOptions,
    preparing: Preparing,
}

impl Connector {
    pub(super) fn new(options: &PostgresOptions) -> Connector {
        Connector {
            driver: options.driver(),
            server: options.server.clone(),
            preparing: Preparing::with_cache(options.server.statement_cache),
        }
    }
}

#[async_trait]
impl Connect for Connector {
    type Conn = Conn;

    async fn connect(&self) -> Result<Conn> {
        let inner = self.driver.connect().await;
        let inner = inner.map_err(|error| sorted(&error, &self.server).0.error)?;
        Ok(Conn { inner, server: self.server.clone(), preparing: self.preparing.clone() })
    }

    async fn close(&self, conn: Conn) {
        // It is gone either way, and what was committed stays.
        let _closed = conn.inner.close().await;
    }
}

/// One connection.
pub(super) struct Conn {
    inner: PgConnection,
    server: ServerOptions,
    preparing: Preparing,
}

impl Conn {
    fn sorted<T>(&self, answer: sqlx::Result<T>) -> Result<T, Failure> {
        answer.map_err(|error| {
            let (failure, unprepared) = sorted(&error, &self.server);
            if unprepared && self.preparing.give_up() {
                tracing::warn!(
                    "PostgreSQL lost prepared statements, as behind a pooler that gives each \
                     transaction another connection; none is prepared from now on. Set \
                     statementCache=0 to begin so"
                );
            }
            failure
        })
    }
}

#[async_trait]
impl Talk for Conn {
    /// One round trip, but for the first time that a statement is prepared. One without parameters
    /// goes as a text.
    async fn talk(&mut self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>, Failure> {
        let rows = if !self.preparing.is_on() || params.is_empty() {
            let text = match params {
                [] => sql.to_owned(),
                params => literals::inline(sql, params).map_err(Failure::usable)?,
            };
            collect(self.inner.fetch_many(sqlx::raw_sql(AssertSqlSafe(text)))).await
        } else {
            let arguments = arguments(params).map_err(Failure::usable)?;
            collect(self.inner.fetch_many(sqlx::query_with(AssertSqlSafe(sql), arguments))).await
        };
        self.sorted(rows)
    }
}

async fn collect<S>(mut parts: S) -> sqlx::Result<Vec<Row>>
where
    S: futures_util::Stream<Item = sqlx::Result<Either<sqlx::postgres::PgQueryResult, PgRow>>>
        + Unpin,
{
    let mut rows = Vec::new();
    while let Some(part) = parts.try_next().await? {
        if let Either::Right(row) = part {
            rows.push(read(&row)?);
        }
    }
    Ok(rows)
}

/// A parameter that says nothing of its type: the server takes that of the column.
struct Nothing;

impl Type<Postgres> for Nothing {
    fn type_info() -> PgTypeInfo {
        /// PostgreSQL's type "unknown".
        const UNKNOWN: Oid = Oid(705);
        PgTypeInfo::with_oid(UNKNOWN)
    }
}

impl Encode<'_, Postgres> for Nothing {
    fn encode_by_ref(&self, _buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Ok(IsNull::Yes)
    }
}

fn arguments(params: &[SqlValue]) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    for param in params {
        let added = match param {
            SqlValue::Null => arguments.add(Nothing),
            SqlValue::Int(number) => arguments.add(*number),
            SqlValue::Bool(truth) => arguments.add(i64::from(*truth)),
            SqlValue::Text(text) => arguments.add(text.as_str()),
            SqlValue::Real(_) | SqlValue::Bytes(_) => Err("it is never sent".into()),
        };
        added.map_err(|error| {
            let what = format!("the parameter {param:?} cannot be sent to PostgreSQL: {error}");
            Error::new(Code::BackendRefused, what)
        })?;
    }
    Ok(arguments)
}

fn read(row: &PgRow) -> sqlx::Result<Row> {
    let mut values = Vec::with_capacity(row.len());
    for index in 0..row.len() {
        values.push(value(row, index)?);
    }
    Ok(Row::in_order(values))
}

fn value(row: &PgRow, index: usize) -> sqlx::Result<SqlValue> {
    let raw = row.try_get_raw(index)?;
    if raw.is_null() {
        return Ok(SqlValue::Null);
    }
    // As text a number is digits, which the engine reads.
    let is_text = raw.format() == PgValueFormat::Text;
    let kind = raw.type_info();
    Ok(match kind.name() {
        "INT8" if !is_text => SqlValue::Int(row.try_get(index)?),
        "INT4" if !is_text => SqlValue::Int(i64::from(row.try_get::<i32, _>(index)?)),
        "BOOL" => SqlValue::Bool(row.try_get(index)?),
        _ => SqlValue::Text(raw.as_str().map_err(sqlx::Error::Decode)?.to_owned()),
    })
}
