//! A client as a user writes one: `all` and `transaction`, and a dialect of the seven members.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anarchon::backend::contract::Backend;
use anarchon::backends::sql::{
    Access, Connected, EngineOptions, Row, SqlClient, SqlDialect, SqlEngine, SqlQueryable,
    SqlStore, SqlValue, TransactionBody,
};
use anarchon::error::{Error, HostError, Result};
use anarchon::testing::manual_clock::ManualClock;
use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Row as _, TypeInfo, ValueRef};
use tokio::sync::Mutex;

use crate::store::Directory;

/// An error as the user's driver throws it.
fn thrown(message: &str) -> Error {
    let (name, message) = ("DriverError".to_owned(), message.to_owned());
    Error::Host(HostError { object: Arc::new(()), name, message, stack: None })
}

/// One connection, used by one call at a time.
pub struct Plain {
    conn: Arc<Mutex<SqliteConnection>>,
    /// How many transactions are to fail after their commit, or before it.
    pub lost_commits: AtomicUsize,
    pub failing_statements: AtomicUsize,
    /// How many statements were sent so far.
    pub sent: Arc<AtomicUsize>,
}

struct Inside {
    sent: Arc<AtomicUsize>,
    conn: Mutex<Option<tokio::sync::OwnedMutexGuard<SqliteConnection>>>,
}

async fn all(conn: &mut SqliteConnection, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
    let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
    for param in params {
        query = match param {
            SqlValue::Null => query.bind(None::<i64>),
            SqlValue::Int(number) => query.bind(*number),
            SqlValue::Text(text) => query.bind(text.clone()),
            other => panic!("the engine sends {other:?}"),
        };
    }
    let rows: Result<Vec<SqliteRow>, sqlx::Error> = query.fetch(conn).try_collect().await;
    let rows = rows.map_err(|error| thrown(&error.to_string()))?;
    Ok(rows.iter().enumerate().map(|(number, row)| named(row, number)).collect())
}

/// The columns in another order than asked for, and their values in another form in every row.
fn named(row: &SqliteRow, number: usize) -> Row {
    let columns = row.columns().iter().rev();
    Row::from_pairs(columns.map(|column| {
        let raw = row.try_get_raw(column.ordinal()).expect("the column is there");
        let value = match (raw.is_null(), raw.type_info().name()) {
            (true, _) => SqlValue::Null,
            (_, "INTEGER") => whole(row.get(column.ordinal()), number),
            _ => text(row.get(column.ordinal()), number),
        };
        (column.name().to_owned(), value)
    }))
}

fn whole(value: i64, number: usize) -> SqlValue {
    match (number % 5, value) {
        (0, 0 | 1) => SqlValue::Bool(value == 1),
        (1, _) => SqlValue::Text(value.to_string()),
        (2, _) => SqlValue::Text(format!("{value}.000")),
        (3, _) => SqlValue::Bytes(value.to_string().into_bytes()),
        #[expect(clippy::cast_precision_loss, reason = "the numbers of the test are small")]
        (4, _) => SqlValue::Real(value as f64),
        _ => SqlValue::Int(value),
    }
}

fn text(value: String, number: usize) -> SqlValue {
    if number.is_multiple_of(2) {
        SqlValue::Text(value)
    } else {
        SqlValue::Bytes(value.into_bytes())
    }
}

#[async_trait]
impl SqlQueryable for Plain {
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        all(&mut *self.conn.lock().await, sql, params).await
    }
}

#[async_trait]
impl SqlQueryable for Inside {
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        let mut conn = self.conn.lock().await;
        let conn = conn.as_mut().ok_or_else(|| thrown("the transaction is over"))?;
        all(conn, sql, params).await
    }
}

/// Takes one from a count that is above zero.
fn takes_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl SqlClient for Plain {
    async fn transaction(&self, body: TransactionBody) -> Result<()> {
        let conn = self.conn.clone().lock_owned().await;
        let tx = Arc::new(Inside { conn: Mutex::new(Some(conn)), sent: self.sent.clone() });
        tx.all("BEGIN IMMEDIATE", &[]).await?;
        let mut done = body(tx.clone()).await;
        if takes_one(&self.failing_statements) {
            done = Err(thrown("a statement failed"));
        }
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        tx.all(end, &[]).await?;
        *tx.conn.lock().await = None;
        if done.is_ok() && takes_one(&self.lost_commits) {
            return Err(thrown("the answer to COMMIT got lost"));
        }
        done
    }
}

/// The dialect of the documentation's example.
struct PageDialect;

#[async_trait]
impl SqlDialect for PageDialect {
    fn bigint(&self) -> String {
        "INTEGER".to_owned()
    }

    fn now_ms(&self) -> String {
        "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)".to_owned()
    }

    fn for_update(&self) -> String {
        String::new()
    }

    /// Numbered, so that a parameter in the wrong place would show.
    fn placeholders(&self, sql: &str) -> String {
        let mut number = 0;
        let numbered = sql.split('?').map(|part| {
            number += 1;
            format!("{part}?{number}")
        });
        let text: String = numbered.collect();
        text.strip_suffix(&format!("?{number}")).unwrap_or(&text).to_owned()
    }

    fn extra_tables(&self, table: &str) -> Vec<String> {
        vec![format!("CREATE TABLE IF NOT EXISTS {table}_turns (job TEXT PRIMARY KEY)")]
    }

    /// What a database without row locks may do: write to a row of the job.
    async fn serialize(&self, tx: &Arc<dyn SqlQueryable>, job: &str) -> Result<()> {
        let params = [SqlValue::Text(job.to_owned())];
        tx.all("INSERT OR IGNORE INTO embedded_runs_turns VALUES (?1)", &params).await.map(drop)
    }

    fn is_already_created(&self, _error: &Error) -> bool {
        false
    }
}

/// A store on one such client.
pub struct PlainStore {
    pub client: Arc<Plain>,
}

#[async_trait]
impl SqlStore for PlainStore {
    fn name(&self) -> String {
        "embedded-sql".to_owned()
    }

    fn dialect(&self) -> Arc<dyn SqlDialect> {
        Arc::new(PageDialect)
    }

    async fn connect(&self, _access: Access) -> Result<Connected> {
        Ok(Connected { client: self.client.clone(), owned: false })
    }
}

pub async fn opened(directory: &Directory, clock: &ManualClock) -> SqlEngine<PlainStore> {
    let options = SqliteConnectOptions::new().filename(directory.file()).create_if_missing(true);
    let conn = options.connect().await.expect("the file opens");
    let client = Plain {
        conn: Arc::new(Mutex::new(conn)),
        lost_commits: AtomicUsize::new(0),
        failing_statements: AtomicUsize::new(0),
        sent: Arc::default(),
    };
    let options = EngineOptions {
        table: "embedded_runs".to_owned(),
        clock: Some(Arc::new(clock.clone())),
        ..EngineOptions::default()
    };
    let store = SqlEngine::new(PlainStore { client: Arc::new(client) }, "default", options);
    store.init().await.expect("the store opens");
    store
}
