//! Claims per second on PostgreSQL and on MySQL or MariaDB, against the bare minimal statement of
//! the same server through the same client library, in turn on the same settings; and a lost claim
//! against the same `SELECT` by hand.
//!
//! `cargo run --example server_claims [rounds]`

use std::sync::Arc;

use anarchon::backend::contract::{Backend, Finish, RunClaim};
use anarchon::backends::mysql::{MySqlBackend, MySqlOptions};
use anarchon::backends::postgres::{PostgresBackend, PostgresOptions};
use anarchon::clock::{Clock, SystemClock};
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{self, limits};
use anarchon_tests::servers::{MYSQL, POSTGRES};
use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection};
use tokio::sync::Mutex;

const JOBS: usize = 16;
const SLOTS_PER_ROUND: i64 = 12;

/// Milliseconds are too coarse for one claim: what is timed are 16 at least.
async fn timed<F: Future>(total_ms: &mut i64, work: F) -> F::Output {
    let before = SystemClock.mono_ms();
    let answer = work.await;
    *total_ms += SystemClock.mono_ms() - before;
    answer
}

/// A claim whose lease outlasts the benchmark on the slowest machine.
fn claim(job: &str, slot: i64, token: &str) -> RunClaim {
    let mut claim = inputs::claim(job, slot, token);
    claim.input.lease_ms = Some(3_600_000);
    claim
}

fn job(number: usize) -> String {
    format!("job-{number}")
}

/// Claims of all jobs for some slots, by one after the other or by all at once; the ends are not
/// timed.
async fn ours(store: &Arc<dyn Backend>, slots: std::ops::Range<i64>, at_once: bool) -> i64 {
    let runs = store.runs().expect("has leases");
    let mut total_ms = 0;
    for slot in slots {
        let claims: Vec<_> = (0..JOBS).map(|n| claim(&job(n), slot, "token")).collect();
        let one = |claim| async move {
            let outcome = runs.claim(claim).await.expect("answers");
            assert_eq!(outcome.kind.as_str(), "won");
        };
        timed(&mut total_ms, async {
            if at_once {
                join_all(claims.iter().map(one)).await;
            } else {
                for claim in &claims {
                    one(claim).await;
                }
            }
        })
        .await;
        let ends: Vec<Finish> = claims
            .into_iter()
            .map(|claim| Finish {
                job: claim.input.job,
                slot,
                token: claim.input.token,
                status: Status::Succeeded,
                result: None,
            })
            .collect();
        assert!(runs.finish_all(&ends).await.into_iter().all(|ended| matches!(ended, Ok(true))));
    }
    total_ms
}

/// Claims that somebody else holds.
async fn lost(store: &Arc<dyn Backend>, slot: i64, count: usize) -> i64 {
    let runs = store.runs().expect("has leases");
    let mut total_ms = 0;
    timed(&mut total_ms, async {
        for number in 0..count {
            let claim = claim(&job(number % JOBS), slot, "another");
            assert_eq!(runs.claim(&claim).await.expect("answers").kind.as_str(), "running");
        }
    })
    .await;
    total_ms
}

/// A connection of the same client library without anything of ours.
enum Bare {
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

impl Bare {
    async fn text(&mut self, sql: &str) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Bare::Postgres(conn) => conn.execute(sql).await.map(drop),
            Bare::MySql(conn) => conn.execute(sql).await.map(drop),
        }
        .expect("the statement is right");
    }

    async fn insert(&mut self, job: &str, slot: i64) {
        let (token, by) = ("0123456789abcdef0123456789abcdef", "bench");
        match self {
            Bare::Postgres(conn) => {
                let sql = "INSERT INTO bare_claims VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
                let query = sqlx::query(sql).bind(job).bind(slot).bind(token).bind(by);
                assert_eq!(query.execute(conn).await.expect("inserts").rows_affected(), 1);
            }
            Bare::MySql(conn) => {
                let sql = "INSERT IGNORE INTO bare_claims VALUES (?, ?, ?, ?)";
                let query = sqlx::query(sql).bind(job).bind(slot).bind(token).bind(by);
                assert_eq!(query.execute(conn).await.expect("inserts").rows_affected(), 1);
            }
        }
    }

    /// The columns that a claim reads, of a job and its run of a slot.
    async fn select(&mut self, now: &str, job: &str, slot: i64) {
        let columns = "j.job, j.version, j.schedule, j.schedule_prev, j.zone_tables, j.since, \
                       j.floor, j.fence, j.keep_ms, j.keep_slots, j.keep_window_ms, \
                       j.history_size, j.history_ttl_ms, j.ended, j.paused, r.slot, r.is_manual, \
                       r.token, r.held_by, r.claimed_at, r.attempt, r.fence, r.crashes, \
                       r.lease_until, r.lease_ms, r.max_takeovers, r.released, r.status, r.ended_at";
        let from = "FROM bench_jobs j LEFT JOIN bench_runs r ON r.namespace = j.namespace AND \
                    r.job = j.job AND (r.slot = 2S OR r.status IS NULL) \
                    WHERE j.namespace = 'default' AND j.job = 1S";
        let sql = format!("SELECT {now} AS now_ms, {columns} {from}");
        let found = match self {
            Bare::Postgres(conn) => {
                let sql = AssertSqlSafe(sql.replace("1S", "$1").replace("2S", "$2"));
                let rows = sqlx::query(sql).bind(job).bind(slot).fetch_all(conn).await;
                rows.expect("reads").len()
            }
            Bare::MySql(conn) => {
                let sql = AssertSqlSafe(sql.replace("1S", "?").replace("2S", "?"));
                let rows = sqlx::query(sql).bind(slot).bind(job).fetch_all(conn).await;
                rows.expect("reads").len()
            }
        };
        assert_eq!(found, 1);
    }
}

async fn bare(conns: &[Mutex<Bare>], slots: std::ops::Range<i64>) -> i64 {
    let mut total_ms = 0;
    for slot in slots {
        timed(&mut total_ms, async {
            if let [conn] = conns {
                for number in 0..JOBS {
                    conn.lock().await.insert(&job(number), slot).await;
                }
            } else {
                join_all(conns.iter().enumerate().map(|(number, conn)| async move {
                    conn.lock().await.insert(&job(number), slot).await;
                }))
                .await;
            }
        })
        .await;
    }
    total_ms
}

fn median(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "thousands")]
fn per_second(count: i64, ms: i64) -> f64 {
    count as f64 * 1_000.0 / ms.max(1) as f64
}

fn report(what: &str, rounds: &[(f64, f64)]) {
    let middle = |part: fn(&(f64, f64)) -> f64| median(rounds.iter().map(part).collect());
    println!(
        "{what:<44} {:>7.0}/s, bare {:>7.0}/s, ratio {:.2}",
        middle(|round| round.0),
        middle(|round| round.1),
        middle(|round| round.0 / round.1)
    );
}

/// Both sides in turn, so many times.
async fn compare(
    name: &str,
    now: &str,
    [single, pooled]: [Arc<dyn Backend>; 2],
    mut conns: Vec<Mutex<Bare>>,
    rounds: i64,
) {
    let claims = SLOTS_PER_ROUND * i64::try_from(JOBS).expect("few");
    let one = vec![conns.remove(0)];
    let mut alone = Vec::new();
    let mut together = Vec::new();
    let mut losers = Vec::new();
    // The first round prepares the statements and is not counted.
    for round in 0..=rounds {
        let from = 1 + round * 2 * SLOTS_PER_ROUND;
        let first = from..from + SLOTS_PER_ROUND;
        let second = first.end..first.end + SLOTS_PER_ROUND;
        // Slot by slot in turn, so that whatever else the machine does falls on both.
        let [mut bare_ms, mut ours_ms, mut bare_many, mut ours_many] = [0; 4];
        for (one_slot, many_slot) in first.zip(second) {
            bare_ms += bare(&one, one_slot..one_slot + 1).await;
            ours_ms += ours(&single, one_slot..one_slot + 1, false).await;
            bare_many += bare(&conns, many_slot..many_slot + 1).await;
            ours_many += ours(&pooled, many_slot..many_slot + 1, true).await;
        }
        let held: Vec<_> = (0..JOBS).map(|n| claim(&job(n), 1_000_000 + round, "holder")).collect();
        let runs = single.runs().expect("has leases");
        for answer in runs.claim_all(&held).await {
            assert_eq!(answer.expect("answers").kind.as_str(), "won");
        }
        let [mut lost_ms, mut select_ms] = [0; 2];
        for _ in 0..10 {
            lost_ms += lost(&single, 1_000_000 + round, 100).await;
            timed(&mut select_ms, async {
                let mut conn = one[0].lock().await;
                for number in 0..100 {
                    conn.select(now, &job(number % JOBS), 1_000_000 + round).await;
                }
            })
            .await;
        }
        for claim in held {
            let input = claim.input;
            let ended = runs.finish(&input.job, input.slot, "holder", Status::Succeeded, None);
            assert!(ended.await.expect("ends"));
        }
        if round > 0 {
            alone.push((per_second(claims, ours_ms), per_second(claims, bare_ms)));
            together.push((per_second(claims, ours_many), per_second(claims, bare_many)));
            losers.push((per_second(1_000, lost_ms), per_second(1_000, select_ms)));
        }
    }
    report(&format!("{name}: won claims, one connection"), &alone);
    report(&format!("{name}: won claims, 16 connections"), &together);
    report(&format!("{name}: lost claims, one connection"), &losers);
    for store in [single, pooled] {
        store.close().await.expect("closes");
    }
}

const BARE: &str = "CREATE TABLE bare_claims (job KEY NOT NULL, slot BIGINT NOT NULL, \
                    token KEY NOT NULL, held_by KEY NOT NULL, PRIMARY KEY (job, slot))";
const DROP: &str = "DROP TABLE IF EXISTS bare_claims; DROP TABLE IF EXISTS bench_jobs; \
                    DROP TABLE IF EXISTS bench_runs; DROP TABLE IF EXISTS bench_schema";

async fn prepared(store: &Arc<dyn Backend>) {
    store.init().await.expect("opens");
    let jobs: Vec<_> = (0..JOBS).map(|number| limits(&job(number))).collect();
    assert!(store.prepare_jobs(&jobs).await.iter().all(Result::is_ok));
}

async fn postgres(rounds: i64) {
    let Some(url) = POSTGRES.url() else { return };
    let mut conns = Vec::new();
    for _ in 0..=JOBS {
        let conn = PgConnection::connect(&url).await.expect("the server answers");
        conns.push(Mutex::new(Bare::Postgres(conn)));
    }
    conns[0].get_mut().text(DROP).await;
    conns[0].get_mut().text(&BARE.replace("KEY NOT", "TEXT NOT")).await;
    let open = |pool| -> Arc<dyn Backend> {
        let mut options = PostgresOptions::from_url(&url).expect("allowed");
        "bench_runs".clone_into(&mut options.server.table);
        options.server.pool = pool;
        options.notify = false;
        Arc::new(PostgresBackend::with_options(options).expect("allowed"))
    };
    let stores = [open(1), open(JOBS)];
    prepared(&stores[0]).await;
    prepared(&stores[1]).await;
    let now = "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)";
    compare("PostgreSQL", now, stores, conns, rounds).await;
    PgConnection::connect(&url).await.expect("answers").execute(DROP).await.expect("drops");
}

async fn mysql(rounds: i64) {
    let Some(url) = MYSQL.url() else { return };
    let mut conns = Vec::new();
    for _ in 0..=JOBS {
        let conn = MySqlConnection::connect(&url).await.expect("the server answers");
        conns.push(Mutex::new(Bare::MySql(conn)));
    }
    conns[0].get_mut().text(DROP).await;
    conns[0].get_mut().text(&BARE.replace("KEY NOT", "VARBINARY(255) NOT")).await;
    let open = |pool| -> Arc<dyn Backend> {
        let mut options = MySqlOptions::from_url(&url).expect("allowed");
        "bench_runs".clone_into(&mut options.server.table);
        options.server.pool = pool;
        Arc::new(MySqlBackend::with_options(options).expect("allowed"))
    };
    let stores = [open(1), open(JOBS)];
    prepared(&stores[0]).await;
    prepared(&stores[1]).await;
    let now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000";
    compare("MySQL", now, stores, conns, rounds).await;
    let mut conn = MySqlConnection::connect(&url).await.expect("answers");
    conn.execute(sqlx::raw_sql(DROP)).await.expect("drops");
}

#[tokio::main]
async fn main() {
    let rounds = std::env::args().nth(1).map_or(5, |rounds| rounds.parse().expect("a number"));
    postgres(rounds).await;
    mysql(rounds).await;
}
