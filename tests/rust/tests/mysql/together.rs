//! What every SQL store must do, on MySQL or MariaDB.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::mysql::MySqlBackend;
use anarchon::lease::model::JobState;
use anarchon::testing::manual_clock::ManualClock;
use anarchon_tests::races::{self, Clients};
use anarchon_tests::{histories, words};
use futures_util::future::{BoxFuture, join_all};
use sqlx::Row;
use sqlx::mysql::MySqlConnection;

use crate::store::{Database, opened};

async fn clients(database: &Database, count: usize) -> Clients {
    let stores = join_all((0..count).map(|_| database.open())).await;
    stores.into_iter().map(|store| Arc::new(store) as Arc<dyn Backend>).collect()
}

/// How many deadlocks the server has found so far, where it counts them (MariaDB).
async fn deadlocks(conn: &mut MySqlConnection) -> Option<u64> {
    let row = sqlx::query("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").fetch_optional(conn).await;
    row.expect("the server answers").and_then(|row| row.get::<String, _>(1).parse().ok())
}

/// With the guard on the job's row first there is nothing to deadlock on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_claim_a_slot_one_wins_and_nothing_deadlocks() {
    let Some(database) = Database::new().await else { return };
    let mut conn = database.connection().await;
    let clients = clients(&database, 8).await;
    races::all_register_the_same(&clients, 100).await;
    let before = deadlocks(&mut conn).await;
    races::one_wins_each_slot(&clients, 200).await;
    races::one_wins_without_leases(&clients, 20).await;
    let after = deadlocks(&mut conn).await;
    println!("deadlocks on this server before {before:?}, after {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_in_any_order_have_one_winner_for_each_job() {
    let Some(database) = Database::new().await else { return };
    let clients = clients(&database, 5).await;
    races::all_register_the_same(&clients, 300).await;
    races::one_wins_each_job_of_a_batch(&clients, 300).await;
}

fn stored<'a>(store: &'a MySqlBackend, job: &'static str) -> BoxFuture<'a, JobState> {
    Box::pin(async move { store.state(job).await.expect("the state can be read") })
}

#[tokio::test]
async fn random_histories_are_answered_and_stored_as_by_the_reference() {
    for seed in 1..=6 {
        let Some(database) = Database::new().await else { return };
        let clock = ManualClock::default();
        let mut options = database.options();
        options.server.clock = Some(Arc::new(clock.clone()));
        options.server.statement_cache = if seed % 2 == 0 { 0 } else { 100 };
        let store = opened(options).await;
        histories::play(seed, 150, &store, stored, &clock).await;
        store.close().await.expect("closes");
    }
}

/// S09 and S10: also in a database whose own character set takes them for one another.
#[tokio::test]
async fn s08_two_different_names_never_share_a_slot() {
    let Some(database) = Database::new().await else { return };
    words::names_never_share(&database.open().await).await;
    let mut options = database.options();
    options.server.statement_cache = 0;
    options.server.namespace = "unprepared".to_owned();
    words::names_never_share(&opened(options).await).await;
}

/// K10: past 2038, where a `TIMESTAMP` ends.
#[tokio::test]
async fn far_times_are_kept_to_the_millisecond() {
    let Some(database) = Database::new().await else { return };
    words::far_times_are_kept(&database.open().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_that_create_the_tables_at_once_all_start() {
    for _ in 0..3 {
        let Some(database) = Database::new().await else { return };
        let options = database.options();
        let starting = (0..10).map(|_| tokio::spawn(opened(options.clone())));
        for store in join_all(starting).await {
            store.expect("starts").close().await.expect("closes");
        }
    }
}
