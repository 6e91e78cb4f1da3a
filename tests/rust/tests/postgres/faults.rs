//! What happens when something fails, provoked on the real server.

use std::sync::Arc;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::postgres::PostgresBackend;
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon::lease::model::Status;
use anarchon_tests::faults::{self, kind};
use anarchon_tests::inputs::{claim, limits};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use crate::store::{Schema, execute, opened};

/// Waits until so many sessions of this application wait for a lock.
async fn until_waiting(conn: &mut PgConnection, application: &str) {
    let sql = "SELECT COUNT(*) FROM pg_stat_activity \
               WHERE application_name = $1 AND wait_event_type = 'Lock'";
    for _ in 0..5_000 {
        let row = sqlx::query(sql).bind(application).fetch_one(&mut *conn).await;
        if row.expect("the server answers").get::<i64, _>(0) > 0 {
            return;
        }
        sleep_for(&SystemClock, 2).await;
    }
    panic!("nobody ever waits for a lock");
}

/// S14: 40P01, and ours is the one that is rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again_with_the_same_token() {
    let Some(schema) = Schema::new().await else { return };
    let mut options = schema.options();
    options.application_name = schema.name.clone();
    let store = Arc::new(opened(options).await);
    for job in ["a", "b"] {
        store.prepare_job(&limits(job)).await.expect("registers");
    }
    let mut other = schema.connection().await;
    let touch = |job: &str| {
        schema.text(&format!("UPDATE MINE.anarchon_jobs SET stamp = 'x' WHERE job = '{job}'"))
    };
    execute(&mut other, "SET deadlock_timeout = '1h'").await.expect("the test may");
    execute(&mut other, "BEGIN").await.expect("begins");
    execute(&mut other, &touch("b")).await.expect("is free");
    let claims = [claim("b", 1_000, "one"), claim("a", 1_000, "one")];
    let ours = {
        let (store, claims) = (store.clone(), claims.clone());
        tokio::spawn(async move { store.claim_all(&claims).await })
    };
    let mut watch = schema.connection().await;
    until_waiting(&mut watch, &schema.name).await;
    execute(&mut other, &touch("a")).await.expect("the other session is the one that goes on");
    execute(&mut other, "ROLLBACK").await.expect("ends");
    for answer in ours.await.expect("ends") {
        let outcome = answer.expect("is tried again");
        assert_eq!((outcome.kind, outcome.attempt), (OutcomeKind::Won, Some(1)));
    }
}

/// O03: not even with a pool of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_does_not_wait_behind_a_claim() {
    let Some(schema) = Schema::new().await else { return };
    let mut options = schema.options();
    options.server.pool = 1;
    options.application_name = schema.name.clone();
    let store: Arc<dyn Backend> = Arc::new(opened(options).await);
    assert_eq!(kind(&*store, "held", 1, "holder").await, OutcomeKind::Won);
    store.prepare_job(&limits("locked")).await.expect("registers");
    let (mut other, mut watch) = (schema.connection().await, schema.connection().await);
    execute(&mut other, "BEGIN").await.expect("begins");
    let lock = "UPDATE MINE.anarchon_jobs SET stamp = 'x' WHERE job = 'locked'";
    execute(&mut other, &schema.text(lock)).await.expect("is free");
    let unlock = async { assert!(execute(&mut other, "COMMIT").await.is_ok(), "ends") };
    let waits = until_waiting(&mut watch, &schema.name);
    faults::a_heartbeat_does_not_wait_behind_a_claim(&store, waits, unlock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_over_connections_that_break_are_won_once_each() {
    let Some(schema) = Schema::new().await else { return };
    let proxy = Arc::new(schema.proxy().await);
    let mut options = schema.options_through(&proxy);
    options.notify = false;
    let store = opened(options).await;
    let turns = |round| 12 + round % 11;
    faults::claims_over_connections_that_break_are_won_once_each(&store, &proxy, turns).await;
}

/// `synchronous_commit = off`, or a standby that had not got it: what was acknowledged is gone, and
/// what others wrote instead is not taken for it.
#[tokio::test]
async fn what_came_after_a_lost_commit_is_not_taken_for_what_was_lost() {
    let Some(schema) = Schema::new().await else { return };
    let (ours, other) = (opened(schema.options()).await, opened(schema.options()).await);
    ours.prepare_job(&limits("job")).await.expect("registers");
    let mut conn = schema.connection().await;
    let before = "CREATE TABLE MINE.before AS SELECT version, fence FROM MINE.anarchon_jobs";
    execute(&mut conn, &schema.text(before)).await.expect("is right");
    assert_eq!(kind(&ours, "job", 1_000, "lost").await, OutcomeKind::Won);
    for text in [
        "DELETE FROM MINE.anarchon_runs",
        "UPDATE MINE.anarchon_jobs j SET version = b.version, fence = b.fence FROM MINE.before b",
    ] {
        execute(&mut conn, &schema.text(text)).await.expect("is right");
    }
    assert_eq!(kind(&other, "job", 1_000, "new").await, OutcomeKind::Won);
    let alive = ours.heartbeat("job", 1_000, "lost", 30_000).await;
    assert!(!alive.expect("answers"), "it holds nothing any more");
    let ended = ours.finish("job", 1_000, "lost", Status::Succeeded, None).await;
    assert!(!ended.expect("answers"), "the run is another's");
    assert!(other.heartbeat("job", 1_000, "new", 30_000).await.expect("answers"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_silence_the_same_token_is_answered() {
    let Some(schema) = Schema::new().await else { return };
    let proxy = schema.proxy().await;
    let store = opened(schema.options_through(&proxy)).await;
    faults::after_a_silence_the_same_token_is_answered(&store, &proxy).await;
}

/// O02: after a failover we are left on a node that only reads.
#[tokio::test]
async fn a_server_that_only_reads_is_unknown_until_it_writes() {
    let Some(schema) = Schema::new().await else { return };
    let role = schema.name.clone();
    let mut conn = schema.connection().await;
    execute(&mut conn, &format!("CREATE ROLE {role} LOGIN SUPERUSER")).await.expect("may");
    let only_reads = format!("ALTER ROLE {role} SET default_transaction_read_only = ");
    let mut options = schema.options();
    options.server.user = Some(role.clone());
    let store = opened(options.clone()).await;
    store.prepare_job(&limits("job")).await.expect("registers");
    execute(&mut conn, &format!("{only_reads} on")).await.expect("may");
    let end =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'");
    execute(&mut conn, &end).await.expect("may");
    let mut short = claim("job", 1, "one");
    short.input.lease_ms = Some(1_500);
    let error = RunStore::claim(&store, &short).await.expect_err("only reads");
    assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}");
    assert!(error.message().contains("only reads"), "{error}");
    let standby = PostgresBackend::with_options(options).expect("allowed");
    let error = standby.init().await.expect_err("only reads");
    assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}");
    execute(&mut conn, &format!("{only_reads} off")).await.expect("may");
    let outcome = RunStore::claim(&store, &short).await.expect("writes again");
    assert_eq!(outcome.kind, OutcomeKind::Won);
    store.close().await.expect("closes");
    standby.close().await.expect("closes");
    let drop = AssertSqlSafe(format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
    sqlx::raw_sql(drop).execute(&mut conn).await.expect("nobody uses it");
}

#[tokio::test]
async fn no_error_shows_who_asked() {
    let Some(schema) = Schema::new().await else { return };
    let mut options = schema.options();
    options.server.user = Some("alice".to_owned());
    options.server.password = Some("hidden".to_owned());
    let store = PostgresBackend::with_options(options.clone()).expect("allowed");
    faults::no_error_shows_who_asked(&store, &options).await;
}
