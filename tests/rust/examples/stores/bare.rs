//! The bare minimal statement of each store, through the client library that the store uses too.

use std::path::Path;
use std::time::Duration;

use anarchon_tests::servers::forget_rabbitmq;
use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream::{self, stream};
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use redis::aio::MultiplexedConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, MySqlConnection, PgConnection,
    SqliteConnection,
};

use crate::store::{Client, Store};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PREFIX: &str = "anarchon-bench";
const BARE: &str = "bare-bench";
const CREATE: &str = "CREATE TABLE IF NOT EXISTS bare_claims (job KEY NOT NULL, slot BIGINT NOT \
                      NULL, token KEY NOT NULL, held_by KEY NOT NULL, PRIMARY KEY (job, slot))";
const DROP: &str = "DROP TABLE IF EXISTS bare_claims; DROP TABLE IF EXISTS bench_jobs; \
                    DROP TABLE IF EXISTS bench_runs; DROP TABLE IF EXISTS bench_schema";

/// How somebody without us looks who has a slot.
#[derive(Clone, Copy)]
pub enum Look {
    /// As plainly as can be.
    Least,
    /// By the very statement by which a claim reads, so that the rest of a claim is what differs.
    AsClaims,
}

/// A connection without anything of ours.
pub enum Bare {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MySql(MySqlConnection),
    Redis(MultiplexedConnection),
    Nats(jetstream::Context),
    RabbitMq { channel: lapin::Channel, _open: lapin::Connection },
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
            Client::Nats => {
                let client = async_nats::connect(url).await.expect(wrong);
                Bare::Nats(jetstream::new(client))
            }
            Client::RabbitMq => {
                let connection =
                    lapin::Connection::connect(url, lapin::ConnectionProperties::default());
                let connection = connection.await.expect(wrong);
                let channel = connection.create_channel().await.expect(wrong);
                Bare::RabbitMq { channel, _open: connection }
            }
        })
    }

    /// The words that name the minimum of taking a slot.
    pub fn take_words(&self) -> &'static str {
        match self {
            Bare::Sqlite(_) | Bare::Postgres(_) => "INSERT … ON CONFLICT DO NOTHING",
            Bare::MySql(_) => "INSERT IGNORE",
            Bare::Redis(_) => "SET NX GET",
            Bare::Nats(_) => "publish with expected sequence",
            Bare::RabbitMq { .. } => "queue.declare",
        }
    }

    /// The ways to look who has a slot, with the words that name them.
    pub fn looks(&self) -> &'static [(Look, &'static str)] {
        match self {
            Bare::Sqlite(_) => &[(Look::Least, "SELECT")],
            Bare::Postgres(_) | Bare::MySql(_) => {
                &[(Look::Least, "SELECT"), (Look::AsClaims, "SELECT of a claim by hand")]
            }
            Bare::Redis(_) => &[(Look::Least, "GET")],
            Bare::Nats(_) => &[(Look::Least, "MSG.GET and its JSON")],
            Bare::RabbitMq { .. } => &[(Look::Least, "passive queue.declare")],
        }
    }

    async fn text(&mut self, sql: &str) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Bare::Sqlite(conn) => conn.execute(sql).await.map(drop),
            Bare::Postgres(conn) => conn.execute(sql).await.map(drop),
            Bare::MySql(conn) => conn.execute(sql).await.map(drop),
            Bare::Redis(_) | Bare::Nats(_) | Bare::RabbitMq { .. } => Ok(()),
        }
        .expect("the statement is right");
    }

    /// Creates what the minimum needs.
    pub async fn prepare(&mut self) {
        if let Bare::Nats(context) = self {
            let config = stream::Config {
                name: BARE.to_owned(),
                subjects: vec![format!("{BARE}.>")],
                max_messages_per_subject: 1,
                ..stream::Config::default()
            };
            context.create_stream(config).await.expect("the stream is made");
        }
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
            Bare::Nats(context) => {
                let mut headers = HeaderMap::new();
                headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
                let subject = format!("{BARE}.{job}.{slot}");
                let publish = context.publish_with_headers(subject, headers, TOKEN.into());
                u64::from(publish.await.expect("is sent").await.is_ok())
            }
            Bare::RabbitMq { channel, .. } => {
                let durable = QueueDeclareOptions { durable: true, ..Default::default() };
                let mut arguments = FieldTable::default();
                arguments.insert("x-expires".into(), AMQPValue::LongLongInt(120_000));
                let queue = format!("{BARE}.{job}.{slot}");
                let declare = channel.queue_declare(queue.as_str().into(), durable, arguments);
                u64::from(declare.await.is_ok())
            }
        };
        assert_eq!(rows, 1, "{job} {slot} was free");
    }

    /// Looks who has a slot: on a SQL server by the columns of the job and of its run that a claim
    /// must know, on NATS by the message that has them, else by the value.
    pub async fn look(&mut self, how: Look, job: &str, slot: i64) {
        let found = match self {
            Bare::Sqlite(conn) => {
                let sql = "SELECT token FROM bare_claims WHERE job = $1 AND slot = $2";
                let query = sqlx::query(sql).bind(job).bind(slot);
                query.fetch_all(conn).await.expect("reads").len()
            }
            Bare::Postgres(conn) => {
                let now = "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)";
                let sql = how.text(now).replace("1S", "$1").replace("2S", "$2");
                let query = sqlx::query(AssertSqlSafe(sql)).bind(job).bind(slot);
                query.fetch_all(conn).await.expect("reads").len()
            }
            Bare::MySql(conn) => {
                let now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000";
                let sql = how.text(now).replace("1S", "?").replace("2S", "?");
                let query = sqlx::query(AssertSqlSafe(sql));
                // In the order of the text.
                let query = match how {
                    Look::Least => query.bind(slot).bind(job),
                    Look::AsClaims => query.bind(job).bind(slot).bind(job).bind(slot),
                };
                query.fetch_all(conn).await.expect("reads").len()
            }
            Bare::Redis(conn) => {
                let mut get = redis::cmd("GET");
                get.arg(format!("{PREFIX}:bare:{job}:{slot}"));
                let token: Option<String> = get.query_async(conn).await.expect("answers");
                usize::from(token.is_some())
            }
            Bare::Nats(context) => {
                let subject = format!("{PREFIX}.default.job.{job}");
                let stream = context.get_stream_no_info(PREFIX).await.expect("is a name");
                let message = stream.get_last_raw_message_by_subject(&subject).await;
                let payload = message.expect("answers").payload;
                let text: serde_json::Value = serde_json::from_slice(&payload).expect("is JSON");
                usize::from(text["runs"][0].is_array())
            }
            Bare::RabbitMq { channel, .. } => {
                let passive = QueueDeclareOptions { passive: true, ..Default::default() };
                let queue = format!("{BARE}.{job}.{slot}");
                let look =
                    channel.queue_declare(queue.as_str().into(), passive, FieldTable::default());
                usize::from(look.await.is_ok())
            }
        };
        assert_eq!(found, 1, "{job} {slot} is taken");
    }

    /// Removes what the benchmark wrote.
    pub async fn clean(&mut self) {
        if let Bare::Nats(context) = self {
            for name in [BARE, PREFIX] {
                // It may not be there.
                let _gone = context.delete_stream(name).await;
            }
        }
        if let Bare::RabbitMq { .. } = self {
            for prefix in [BARE, PREFIX] {
                forget_rabbitmq(&format!("{prefix}."));
            }
        }
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

/// The columns of a job that a claim must know.
const OF_JOB: &str = "j.job, j.version, j.schedule, j.schedule_prev, j.zone_tables, j.since, \
                      j.floor, j.fence, j.keep_ms, j.keep_slots, j.keep_window_ms, \
                      j.history_size, j.history_ttl_ms, j.ended, j.paused";
/// The columns of a run that a claim must know.
const OF_RUN: &str = "r.slot, r.is_manual, r.token, r.held_by, r.claimed_at, r.attempt, r.fence, \
                      r.crashes, r.lease_until, r.lease_ms, r.max_takeovers, r.released, \
                      r.status, r.ended_at";

impl Look {
    /// The statement, with `1S` for the job and `2S` for the slot.
    fn text(self, now: &str) -> String {
        let first = format!("SELECT {now} AS now_ms, {OF_JOB}, {OF_RUN}");
        let runs = "LEFT JOIN bench_runs r ON r.namespace = j.namespace AND r.job = j.job";
        match self {
            Look::Least => format!(
                "{first} FROM bench_jobs j {runs} AND (r.slot = 2S OR r.status IS NULL) \
                 WHERE j.namespace = 'default' AND j.job = 1S"
            ),
            Look::AsClaims => format!(
                "{first} FROM (SELECT 1 AS here) o LEFT JOIN bench_jobs j \
                 ON j.namespace = 'default' AND j.job = 1S {runs} AND r.slot = 2S \
                 UNION ALL SELECT NULL, r.job{}, {OF_RUN} FROM bench_runs r \
                 WHERE r.namespace = 'default' AND r.job = 1S AND r.status IS NULL \
                 AND NOT (r.slot = 2S)",
                ", NULL".repeat(14)
            ),
        }
    }
}
