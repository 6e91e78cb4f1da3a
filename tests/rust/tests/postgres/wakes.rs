//! News of other replicas: they come soon, and nothing breaks when they do not.

use std::sync::Arc;

use anarchon::backend::contract::{OutcomeKind, RunStore, Wake, WakeListener};
use anarchon::backends::postgres::PostgresBackend;
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::lease::model::Status;
use anarchon_tests::inputs::claim;
use sqlx::Row;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::store::{Schema, execute, opened};

type Heard = UnboundedReceiver<(String, Wake)>;

fn listener() -> (Arc<WakeListener>, Heard) {
    let (sender, heard) = unbounded_channel();
    let listener: Arc<WakeListener> = Arc::new(move |job: &str, wake| {
        let _gone = sender.send((job.to_owned(), wake));
    });
    (listener, heard)
}

/// Waits until a session of this application listens that is not the one before.
async fn until_listening(schema: &Schema, before: i32) -> i32 {
    let mut conn = schema.connection().await;
    let sql = "SELECT pid FROM pg_stat_activity \
               WHERE application_name = $1 AND query LIKE 'LISTEN%' AND pid <> $2";
    for _ in 0..5_000 {
        let row = sqlx::query(sql).bind(&schema.name).bind(before).fetch_optional(&mut conn).await;
        if let Some(row) = row.expect("the server answers") {
            return row.get(0);
        }
        sleep_for(&SystemClock, 2).await;
    }
    panic!("nobody ever listens");
}

async fn pair(schema: &Schema) -> (PostgresBackend, PostgresBackend) {
    let mut options = schema.options();
    options.application_name = schema.name.clone();
    (opened(schema.options()).await, opened(options).await)
}

async fn won(store: &PostgresBackend, job: &str) {
    let outcome = RunStore::claim(store, &claim(job, 1, "token")).await.expect("answers");
    assert_eq!(outcome.kind, OutcomeKind::Won);
}

async fn news(heard: &mut Heard) -> (String, Wake) {
    tokio::select! {
        news = heard.recv() => news.expect("the store still watches"),
        () = sleep_for(&SystemClock, 30_000) => panic!("nothing was heard"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_given_back_or_ends_is_heard_of_by_other_replicas() {
    let Some(schema) = Schema::new().await else { return };
    let (holder, other) = pair(&schema).await;
    let ((own, mut own_heard), (far, mut far_heard)) = (listener(), listener());
    holder.watch(&own);
    other.watch(&far);
    until_listening(&schema, 0).await;
    won(&holder, "one").await;
    won(&holder, "two").await;
    assert!(holder.release("one", 1, "token").await.expect("answers"));
    let released = ("one".to_owned(), Wake::Released);
    assert_eq!(news(&mut far_heard).await, released);
    assert_eq!(news(&mut own_heard).await, released);
    let ended = holder.finish("two", 1, "token", Status::Succeeded, None).await;
    assert!(ended.expect("answers"));
    let finished = ("two".to_owned(), Wake::Finished);
    assert_eq!(news(&mut far_heard).await, finished);
    assert_eq!(news(&mut own_heard).await, finished, "our own news come once, and at once");
    assert!(own_heard.is_empty() && far_heard.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_was_cut_off_listens_again_and_all_works_meanwhile() {
    let Some(schema) = Schema::new().await else { return };
    let (holder, other) = pair(&schema).await;
    let (far, mut heard) = listener();
    other.watch(&far);
    let before = until_listening(&schema, 0).await;
    let mut conn = schema.connection().await;
    let end = format!("SELECT pg_terminate_backend({before})");
    execute(&mut conn, &end).await.expect("the test may");
    won(&other, "meanwhile").await;
    until_listening(&schema, before).await;
    won(&holder, "one").await;
    assert!(holder.release("one", 1, "token").await.expect("answers"));
    assert_eq!(news(&mut heard).await, ("one".to_owned(), Wake::Released));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_notify_nothing_is_listened_to() {
    let Some(schema) = Schema::new().await else { return };
    let proxy = schema.proxy().await;
    let mut options = schema.options_through(&proxy);
    options.notify = false;
    let store = opened(options).await;
    let (own, heard) = listener();
    store.watch(&own);
    won(&store, "one").await;
    assert!(store.release("one", 1, "token").await.expect("answers"));
    assert_eq!(proxy.connections(), 1);
    assert!(heard.is_empty());
}
