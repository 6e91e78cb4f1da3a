//! The bare minimal statement of each store, through the client library that the store uses too.

use std::path::Path;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, MySqlConnection, PgConnection,
    SqliteConnection,
};

use crate::store::{Client, Store};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PREFIX: &str = "anarchon-bench";
const CREATE: &str = "CREATE TABLE IF NOT EXISTS bare_claims (job KEY NOT NULL, slot BIGINT NOT \
                      NULL, token KEY NOT NULL, held_by KEY NOT NULL, PRIMARY KEY (job, slot))";
const DROP: &str = "DROP TABLE IF EXISTS bare_claims; DROP TABLE IF EXISTS bench_jobs; \
                    DROP TABLE IF EXISTS bench_runs; DROP TABLE IF EXISTS bench_schema";

/// A connection without anything of ours.
pub enum Bare {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MySql(MySqlConnection),
    Redis(MultiplexedConnection),
}

impl Bare {
    /// Connects; `None` where the store has no such minimum.
    pub async fn connect(store: &Store) -> Option<Bare> {
        let url = &store.url;
        let wrong = "the server answers";
        Some(match store.client {
            Client::Sqlite => {
                let path = url.trim_start_matches("sqlite://");
                let file = Path::new(path).with_extension("bare");
                Bare::Sqlite(sqlite(&file).await.expect("the file opens"))
            }
            Client::Postgres => Bare::Postgres(PgConnection::connect(url).await.expect(wrong)),
            Client::MySql => Bare::MySql(MySqlConnection::connect(url).await.expect(wrong)),
            Client::Redis => {
                let client = redis::Client::open(url.as_str()).expect("a Redis URL");
                Bare::Redis(client.get_multiplexed_async_connection().await.expect(wrong))
            }
        })
    }

    /// The words that name the minimum.
    pub fn words(&self) -> [&'static str; 2] {
        match self {
            Bare::Sqlite(_) | Bare::Postgres(_) => ["INSERT … ON CONFLICT DO NOTHING", "SELECT"],
            Bare::MySql(_) => ["INSERT IGNORE", "SELECT"],
            Bare::Redis(_) => ["SET NX GET", "GET"],
        }
    }

    async fn text(&mut self, sql: &str) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Bare::Sqlite(conn) => conn.execute(sql).await.map(drop),
            Bare::Postgres(conn) => conn.execute(sql).await.map(drop),
            Bare::MySql(conn) => conn.execute(sql).await.map(drop),
            Bare::Redis(_) => Ok(()),
        }
        .expect("the statement is right");
    }

    /// Creates what the minimum needs.
    pub async fn prepare(&mut self) {
        let key = if matches!(self, Bare::MySql(_)) { "VARBINARY(255)" } else { "TEXT" };
        self.text(&CREATE.replace("KEY NOT", &format!("{key} NOT"))).await;
    }

    /// Writes that a slot is taken.
    pub async fn win(&mut self, job: &str, slot: i64) {
        let sql = "INSERT INTO bare_claims VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let by = "bench";
        let rows = match self {
            Bare::Sqlite(conn) => {
                let query = sqlx::query(sql).bind(job).bind(slot).bind(TOKEN).bind(by);
                query.execute(conn).await.expect("inserts").rows_affected()
            }
            Bare::Postgres(conn) => {
                let query = sqlx::query(sql).bind(job).bind(slot).bind(TOKEN).bind(by);
                query.execute(conn).await.expect("inserts").rows_affected()
            }
            Bare::MySql(conn) => {
                let sql = "INSERT IGNORE INTO bare_claims VALUES (?, ?, ?, ?)";
                let query = sqlx::query(sql).bind(job).bind(slot).bind(TOKEN).bind(by);
                query.execute(conn).await.expect("inserts").rows_affected()
            }
            Bare::Redis(conn) => {
                let mut set = redis::cmd("SET");
                set.arg(format!("{PREFIX}:bare:{job}:{slot}")).arg(TOKEN).arg("NX").arg("GET");
                let before: Option<String> = set.query_async(conn).await.expect("answers");
                u64::from(before.is_none())
            }
        };
        assert_eq!(rows, 1, "{job} {slot} was free");
    }

    /// Looks who has a slot: on a SQL server by the columns of the job and of its run that a claim
    /// must know, else by the value.
    pub async fn look(&mut self, job: &str, slot: i64) {
        let found = match self {
            Bare::Sqlite(conn) => {
                let sql = "SELECT token FROM bare_claims WHERE job = $1 AND slot = $2";
                let query = sqlx::query(sql).bind(job).bind(slot);
                query.fetch_all(conn).await.expect("reads").len()
            }
            Bare::Postgres(conn) => {
                let now = "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)";
                let sql = select(now).replace("1S", "$1").replace("2S", "$2");
                let query = sqlx::query(AssertSqlSafe(sql)).bind(job).bind(slot);
                query.fetch_all(conn).await.expect("reads").len()
            }
            Bare::MySql(conn) => {
                let now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000";
                let sql = select(now).replace("1S", "?").replace("2S", "?");
                // The slot comes first in the text.
                let query = sqlx::query(AssertSqlSafe(sql)).bind(slot).bind(job);
                query.fetch_all(conn).await.expect("reads").len()
            }
            Bare::Redis(conn) => {
                let mut get = redis::cmd("GET");
                get.arg(format!("{PREFIX}:bare:{job}:{slot}"));
                let token: Option<String> = get.query_async(conn).await.expect("answers");
                usize::from(token.is_some())
            }
        };
        assert_eq!(found, 1, "{job} {slot} is taken");
    }

    /// Removes what the benchmark wrote.
    pub async fn clean(&mut self) {
        let Bare::Redis(conn) = self else { return self.text(DROP).await };
        let mut keys = redis::cmd("KEYS");
        keys.arg(format!("{PREFIX}:*"));
        let keys: Vec<String> = keys.query_async(conn).await.expect("answers");
        for some in keys.chunks(1_000) {
            let mut gone = redis::cmd("UNLINK");
            gone.arg(some).query_async::<i64>(conn).await.expect("answers");
        }
    }
}

/// With the settings of the SQLite store.
async fn sqlite(file: &Path) -> sqlx::Result<SqliteConnection> {
    SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .busy_timeout(Duration::from_secs(2))
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging()
        .connect()
        .await
}

fn select(now: &str) -> String {
    let columns = "j.job, j.version, j.schedule, j.schedule_prev, j.zone_tables, j.since, \
                   j.floor, j.fence, j.keep_ms, j.keep_slots, j.keep_window_ms, \
                   j.history_size, j.history_ttl_ms, j.ended, j.paused, r.slot, r.is_manual, \
                   r.token, r.held_by, r.claimed_at, r.attempt, r.fence, r.crashes, \
                   r.lease_until, r.lease_ms, r.max_takeovers, r.released, r.status, r.ended_at";
    let from = "FROM bench_jobs j LEFT JOIN bench_runs r ON r.namespace = j.namespace AND \
                r.job = j.job AND (r.slot = 2S OR r.status IS NULL) \
                WHERE j.namespace = 'default' AND j.job = 1S";
    format!("SELECT {now} AS now_ms, {columns} {from}")
}
