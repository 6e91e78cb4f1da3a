//! What happens when something fails, provoked on the real server.

use std::sync::Arc;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::mysql::{MySqlBackend, MySqlOptions};
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon::lease::model::Status;
use anarchon::random::Random;
use anarchon_tests::certificates::Certificates;
use anarchon_tests::faults::{self, kind};
use anarchon_tests::inputs::{claim, limits};
use anarchon_tests::private::Private;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, Row};

use crate::store::{Database, execute, opened};

/// Waits until a transaction on this database waits for a lock.
async fn until_waiting(conn: &mut MySqlConnection, database: &str) {
    let sql = "SELECT COUNT(*) FROM information_schema.innodb_trx t \
               JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
               WHERE t.trx_state = 'LOCK WAIT' AND p.db = ?";
    for _ in 0..100 {
        let row = sqlx::query(sql).bind(database).fetch_one(&mut *conn).await;
        if row.expect("the server answers").get::<i64, _>(0) > 0 {
            return;
        }
        // The server makes this table anew only if nobody asked for it for 100 ms, and other tests
        // ask as well: unequal waits leave room for it.
        sleep_for(&SystemClock, 120 + Random::system().up_to(900)).await;
    }
    panic!("nobody ever waits for a lock");
}

async fn session(database: &Database) -> MySqlConnection {
    let mut conn = database.connection().await;
    execute(&mut conn, &format!("USE {}", database.name)).await.expect("it is there");
    conn
}

fn touch(job: &str) -> String {
    format!("UPDATE anarchon_jobs SET stamp = 'x' WHERE job = '{job}' AND namespace = 'default'")
}

/// S14: 1213. The server rolls back whoever has changed less: that is ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again_with_the_same_token() {
    let Some(database) = Database::new().await else { return };
    let store = Arc::new(database.open().await);
    for job in ["a", "b"] {
        store.prepare_job(&limits(job)).await.expect("registers");
    }
    let mut other = session(&database).await;
    execute(&mut other, "CREATE TABLE weight (n INT)").await.expect("creates");
    execute(&mut other, "START TRANSACTION").await.expect("begins");
    let heavy = format!("INSERT INTO weight VALUES {}", vec!["(1)"; 200].join(", "));
    execute(&mut other, &heavy).await.expect("inserts");
    execute(&mut other, &touch("b")).await.expect("is free");
    let claims = [claim("b", 1_000, "one"), claim("a", 1_000, "one")];
    let ours = {
        let (store, claims) = (store.clone(), claims.clone());
        tokio::spawn(async move { store.claim_all(&claims).await })
    };
    until_waiting(&mut database.connection().await, &database.name).await;
    execute(&mut other, &touch("a")).await.expect("the other session is the one that goes on");
    execute(&mut other, "ROLLBACK").await.expect("ends");
    for answer in ours.await.expect("ends") {
        let outcome = answer.expect("is tried again");
        assert_eq!((outcome.kind, outcome.attempt), (OutcomeKind::Won, Some(1)));
    }
}

/// S14: 1205. The lock is waited for as long as the call is patient, and then asked for again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_not_given_up_is_an_unknown_answer() {
    let Some(database) = Database::new().await else { return };
    let mut options = database.options();
    options.server.call_timeout_ms = 1_000;
    let store = Arc::new(opened(options).await);
    store.prepare_job(&limits("job")).await.expect("registers");
    let mut other = session(&database).await;
    execute(&mut other, "START TRANSACTION").await.expect("begins");
    execute(&mut other, &touch("job")).await.expect("is free");
    let answer = RunStore::claim(&*store, &claim("job", 1, "one")).await;
    let error = answer.expect_err("the row is locked");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert!(error.message().contains("1205"), "{error}");
    execute(&mut other, "ROLLBACK").await.expect("ends");
    assert_eq!(kind(&*store, "job", 1, "one").await, OutcomeKind::Won);
}

/// O03: not even with a pool of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_does_not_wait_behind_a_claim() {
    let Some(database) = Database::new().await else { return };
    let mut options = database.options();
    options.server.pool = 1;
    let store: Arc<dyn Backend> = Arc::new(opened(options).await);
    assert_eq!(kind(&*store, "held", 1, "holder").await, OutcomeKind::Won);
    store.prepare_job(&limits("locked")).await.expect("registers");
    let (mut other, mut watch) = (session(&database).await, database.connection().await);
    execute(&mut other, "START TRANSACTION").await.expect("begins");
    execute(&mut other, &touch("locked")).await.expect("is free");
    let unlock = async { assert!(execute(&mut other, "COMMIT").await.is_ok(), "ends") };
    let waits = until_waiting(&mut watch, &database.name);
    faults::a_heartbeat_does_not_wait_behind_a_claim(&store, waits, unlock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_over_connections_that_break_are_won_once_each() {
    let Some(database) = Database::new().await else { return };
    let proxy = Arc::new(database.proxy().await);
    let store = opened(database.options_through(&proxy)).await;
    let turns = |round| 8 + round % 7;
    faults::claims_over_connections_that_break_are_won_once_each(&store, &proxy, turns).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_silence_the_same_token_is_answered() {
    let Some(database) = Database::new().await else { return };
    let proxy = database.proxy().await;
    let store = opened(database.options_through(&proxy)).await;
    faults::after_a_silence_the_same_token_is_answered(&store, &proxy).await;
}

#[tokio::test]
async fn no_error_shows_who_asked() {
    let Some(database) = Database::new().await else { return };
    let mut options = database.options();
    options.server.user = Some("alice".to_owned());
    options.server.password = Some("hidden".to_owned());
    let store = MySqlBackend::with_options(options.clone()).expect("allowed");
    faults::no_error_shows_who_asked(&store, &options).await;
}

/// A server that prepares no more statements is asked with texts, which is noticed at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_statement_can_be_prepared_all_goes_as_text() {
    let Some(made) = Certificates::make() else { return };
    let Some(server) = Private::mariadb_with_tls(&made).await else { return };
    let url = format!("mysql://root@127.0.0.1:{}/jobs", server.port);
    let options = MySqlOptions::from_url(&url).expect("a URL");
    let store = opened(options.clone()).await;
    assert_eq!(kind(&store, "job", 1, "one").await, OutcomeKind::Won);
    let mut root = MySqlConnection::connect(&url).await.expect("lets the test in");
    execute(&mut root, "SET GLOBAL max_prepared_stmt_count = 0").await.expect("root may");
    let ended = store.finish("job", 1, "one", Status::Succeeded, None).await;
    assert!(ended.expect("answers"), "what the first of its kind has not prepared goes as text");
    let later = opened(options).await;
    assert_eq!(kind(&later, "job", 2, "one").await, OutcomeKind::Won);
    assert_eq!(kind(&store, "job", 2, "two").await, OutcomeKind::Running);
}
