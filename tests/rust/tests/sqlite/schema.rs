//! The tables: what they look like, and who may use them.

use anarchon::backend::contract::Backend;
use anarchon::backends::sqlite::SqliteBackend;
use anarchon::error::Code;
use anarchon_tests::inputs::input;
use futures_util::future::join_all;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::store::{Directory, opened};

async fn execute(directory: &Directory, statements: &[String]) {
    let options = SqliteConnectOptions::new().filename(directory.file()).create_if_missing(true);
    let mut conn = options.connect().await.expect("the file opens");
    for statement in statements {
        sqlx::query(sqlx::AssertSqlSafe(statement.clone()))
            .execute(&mut conn)
            .await
            .expect("the statement is fine");
    }
    conn.close().await.expect("closes");
}

/// Stores of earlier versions have these tables: a change here is a change of the schema's version.
#[test]
fn the_tables_are_these() {
    let store = SqliteBackend::from_url("sqlite:jobs.db").expect("the URL is allowed");
    let text = store.ddl().join(";\n\n") + ";\n";
    let wanted = include_str!("schema.sql");
    assert_eq!(text, wanted);
}

#[tokio::test]
async fn d03_a_store_of_a_newer_major_is_refused_and_left_as_it_is() {
    let directory = Directory::new();
    let statements = [
        "CREATE TABLE anarchon_schema (id INTEGER PRIMARY KEY, major INTEGER, minor INTEGER)",
        "INSERT INTO anarchon_schema VALUES (1, 2, 0)",
    ];
    execute(&directory, &statements.map(str::to_owned)).await;
    let store = SqliteBackend::with_options(directory.options()).expect("allowed");
    let error = store.init().await.expect_err("a newer major is refused");
    assert_eq!(error.code(), Some(Code::SchemaTooNew), "{error}");
    let options = SqliteConnectOptions::new().filename(directory.file());
    let mut conn = options.connect().await.expect("the file opens");
    let tables: Vec<(String,)> =
        sqlx::query_as("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            .fetch_all(&mut conn)
            .await
            .expect("reads");
    assert_eq!(tables, [("anarchon_schema".to_owned(),)], "nothing was created");
    conn.close().await.expect("closes");
}

#[tokio::test]
async fn d03_additions_of_a_newer_minor_are_tolerated() {
    let directory = Directory::new();
    directory.open().await.close().await.expect("closes");
    let statements = [
        "UPDATE anarchon_schema SET minor = 7",
        "ALTER TABLE anarchon_runs ADD COLUMN priority INTEGER",
        "ALTER TABLE anarchon_jobs ADD COLUMN owner TEXT",
    ];
    execute(&directory, &statements.map(str::to_owned)).await;
    let store = directory.open().await;
    assert!(Backend::claim(&store, &input("job", 1, "token")).await.expect("answers"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn d03_ten_that_create_the_tables_at_once_all_start() {
    for _ in 0..5 {
        let directory = Directory::new();
        let stores = join_all((0..10).map(|_| {
            let options = directory.options();
            tokio::spawn(async move { opened(options).await })
        }))
        .await;
        let stores: Vec<SqliteBackend> =
            stores.into_iter().map(|store| store.expect("starts")).collect();
        assert!(Backend::claim(&stores[9], &input("job", 1, "token")).await.expect("answers"));
        assert!(!Backend::claim(&stores[0], &input("job", 1, "other")).await.expect("answers"));
    }
}

#[tokio::test]
async fn without_create_tables_the_ddl_makes_a_store() {
    let directory = Directory::new();
    let mut options = directory.options();
    options.create_tables = false;
    let store = SqliteBackend::with_options(options).expect("allowed");
    let error = store.init().await.expect_err("there are no tables");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("ddl()"), "{error}");
    let mut statements = store.ddl();
    statements.push("INSERT INTO anarchon_schema VALUES (1, 1, 0)".to_owned());
    execute(&directory, &statements).await;
    store.init().await.expect("now there are");
    assert!(Backend::claim(&store, &input("job", 1, "token")).await.expect("answers"));
}
