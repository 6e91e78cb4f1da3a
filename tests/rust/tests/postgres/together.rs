//! What every SQL store must do, on PostgreSQL.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::postgres::PostgresBackend;
use anarchon::lease::model::JobState;
use anarchon::testing::manual_clock::ManualClock;
use anarchon_tests::races::{self, Clients};
use anarchon_tests::{histories, words};
use futures_util::future::{BoxFuture, join_all};
use sqlx::AssertSqlSafe;

use crate::store::{Schema, execute, opened};

async fn clients(schema: &Schema, count: usize) -> Clients {
    let stores = join_all((0..count).map(|_| schema.open())).await;
    stores.into_iter().map(|store| Arc::new(store) as Arc<dyn Backend>).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_claim_a_slot_one_wins() {
    let Some(schema) = Schema::new().await else { return };
    let clients = clients(&schema, 8).await;
    races::one_wins_each_slot(&clients, 200).await;
    races::one_wins_without_leases(&clients, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_in_any_order_have_one_winner_for_each_job() {
    let Some(schema) = Schema::new().await else { return };
    let clients = clients(&schema, 5).await;
    races::all_register_the_same(&clients, 300).await;
    races::one_wins_each_job_of_a_batch(&clients, 300).await;
}

/// Where the database's default is stricter, 40001 comes instead of a lost guard.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_serializable_and_repeatable_read_one_wins_too() {
    let Some(schema) = Schema::new().await else { return };
    for (number, level) in ["serializable", "repeatable read"].into_iter().enumerate() {
        let role = format!("{}_{number}", schema.name);
        let mut conn = schema.connection().await;
        let statements = [
            format!("CREATE ROLE {role} LOGIN SUPERUSER"),
            format!("ALTER ROLE {role} SET default_transaction_isolation = '{level}'"),
        ];
        for statement in statements {
            execute(&mut conn, &statement).await.expect("the test may make roles");
        }
        let mut options = schema.options();
        options.server.user = Some(role.clone());
        options.server.namespace = format!("level{number}");
        let stores = join_all((0..8).map(|_| opened(options.clone()))).await;
        let clients: Clients =
            stores.into_iter().map(|store| Arc::new(store) as Arc<dyn Backend>).collect();
        races::one_wins_each_slot(&clients, 40).await;
        races::one_wins_each_job_of_a_batch(&clients, 50).await;
        for client in &clients {
            client.close().await.expect("closes");
        }
        let drop = format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}");
        execute(&mut conn, &drop).await.expect("nobody uses it");
    }
}

fn stored<'a>(store: &'a PostgresBackend, job: &'static str) -> BoxFuture<'a, JobState> {
    Box::pin(async move { store.state(job).await.expect("the state can be read") })
}

#[tokio::test]
async fn random_histories_are_answered_and_stored_as_by_the_reference() {
    for seed in 1..=6 {
        let Some(schema) = Schema::new().await else { return };
        let clock = ManualClock::default();
        let mut options = schema.options();
        options.server.clock = Some(Arc::new(clock.clone()));
        options.server.statement_cache = if seed % 2 == 0 { 0 } else { 100 };
        let store = opened(options).await;
        histories::play(seed, 150, &store, stored, &clock).await;
        store.close().await.expect("closes");
    }
}

#[tokio::test]
async fn s08_two_different_names_never_share_a_slot() {
    let Some(schema) = Schema::new().await else { return };
    words::names_never_share(&schema.open().await).await;
    let mut options = schema.options();
    options.server.statement_cache = 0;
    options.server.namespace = "unprepared".to_owned();
    words::names_never_share(&opened(options).await).await;
}

#[tokio::test]
async fn far_times_are_kept_to_the_millisecond() {
    let Some(schema) = Schema::new().await else { return };
    words::far_times_are_kept(&schema.open().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_that_create_the_tables_at_once_all_start() {
    for _ in 0..3 {
        let Some(schema) = Schema::new().await else { return };
        let options = schema.options();
        let starting = (0..10).map(|_| tokio::spawn(opened(options.clone())));
        for store in join_all(starting).await {
            store.expect("starts").close().await.expect("closes");
        }
    }
}

#[tokio::test]
async fn the_clock_is_not_that_of_the_transactions_beginning() {
    use anarchon::backends::postgres::PostgresDialect;
    use anarchon::backends::sql::SqlDialect;
    let Some(schema) = Schema::new().await else { return };
    let now = PostgresDialect.now_ms();
    let sql = format!("SELECT {now} AS a, pg_sleep(0.05), {now} AS b");
    let mut conn = schema.connection().await;
    let (before, (), after): (i64, (), i64) = {
        use sqlx::Row;
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut conn).await.expect("answers");
        (row.get(0), (), row.get(2))
    };
    assert!(after >= before + 50, "{before} and {after}");
}
