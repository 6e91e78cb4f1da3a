//! Opening a store: tables that are there, are not, or are of another version.

use anarchon::backend::contract::Backend;
use anarchon::backends::postgres::{PostgresBackend, PostgresOptions};
use anarchon::error::Code;
use anarchon_tests::inputs::input;

use crate::store::{Schema, opened};

/// Stores of earlier versions have these tables: a change here is a change of the schema's version.
#[test]
fn the_tables_are_these() {
    let store = PostgresBackend::from_url("postgres://db/jobs").expect("the URL is allowed");
    let text = store.ddl().join(";\n\n") + ";\n";
    assert_eq!(text, include_str!("schema.sql"));
}

#[tokio::test]
async fn without_create_tables_the_ddl_makes_a_store() {
    let Some(schema) = Schema::new().await else { return };
    let mut options = schema.options();
    options.server.create_tables = false;
    let store = PostgresBackend::with_options(options).expect("allowed");
    let error = store.init().await.expect_err("there are no tables");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("ddl()"), "{error}");
    for statement in store.ddl() {
        schema.execute(&statement).await;
    }
    store.init().await.expect("now there are");
    assert!(Backend::claim(&store, &input("job", 1, "token")).await.expect("answers"));
}

#[tokio::test]
async fn a_reader_creates_nothing() {
    let Some(schema) = Schema::new().await else { return };
    let store = PostgresBackend::with_options(schema.options()).expect("allowed");
    let error = store.init_reader().await.expect_err("there is nothing to read");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    schema.open().await;
    store.init_reader().await.expect("now there is");
    assert_eq!(store.history("job", 10).await.expect("reads").len(), 0);
}

#[tokio::test]
async fn d03_a_store_of_a_newer_major_is_left_as_it_is() {
    let Some(schema) = Schema::new().await else { return };
    schema.open().await;
    schema.execute("UPDATE MINE.anarchon_schema SET major = 2").await;
    let store = PostgresBackend::with_options(schema.options()).expect("allowed");
    let error = store.init().await.expect_err("it is newer");
    assert_eq!(error.code(), Some(Code::SchemaTooNew), "{error}");
}

#[tokio::test]
async fn d03_columns_of_a_newer_minor_do_not_matter() {
    let Some(schema) = Schema::new().await else { return };
    schema.open().await;
    schema.execute("ALTER TABLE MINE.anarchon_runs ADD COLUMN priority BIGINT").await;
    schema.execute("ALTER TABLE MINE.anarchon_jobs ADD COLUMN owner TEXT").await;
    let store = schema.open().await;
    assert!(Backend::claim(&store, &input("job", 1, "token")).await.expect("answers"));
}

#[tokio::test]
async fn a_schema_and_a_database_that_are_not_there_are_named() {
    let Some(schema) = Schema::new().await else { return };
    let mut options = schema.options();
    options.schema = Some("no_such_schema".to_owned());
    let store = PostgresBackend::with_options(options).expect("allowed");
    let error = store.init().await.expect_err("there is no schema");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("no_such_schema"), "{error}");
    let mut options = schema.options();
    options.server.database = Some("no_such_database".to_owned());
    let store = PostgresBackend::with_options(options).expect("allowed");
    let error = store.init().await.expect_err("there is no database");
    assert!(error.message().contains("no such database"), "{error}");
}

#[tokio::test]
async fn two_namespaces_of_one_schema_do_not_meet() {
    let Some(schema) = Schema::new().await else { return };
    let store = schema.open().await;
    let other = store.with_namespace("other").expect("has namespaces");
    assert!(Backend::claim(&store, &input("job", 1, "one")).await.expect("answers"));
    assert!(other.claim(&input("job", 1, "two")).await.expect("answers"));
    assert_eq!(other.history("job", 10).await.expect("reads").len(), 1);
}

#[tokio::test]
async fn tables_of_another_name_are_other_tables() {
    let Some(schema) = Schema::new().await else { return };
    let mut options = schema.options();
    options.server.table = "my_runs".to_owned();
    let (one, two) = (schema.open().await, opened(options).await);
    assert!(Backend::claim(&one, &input("job", 1, "one")).await.expect("answers"));
    assert!(Backend::claim(&two, &input("job", 1, "two")).await.expect("answers"));
}

#[test]
fn the_options_of_a_url_are_read_and_unknown_ones_refused() {
    let url = "postgres://db/jobs?schema=mine&notify=false&statementCache=0&sslmode=verify-full";
    let options = PostgresOptions::from_url(url).expect("allowed");
    assert_eq!((options.schema.as_deref(), options.notify), (Some("mine"), false));
    assert_eq!(options.server.statement_cache, 0);
    let error = PostgresOptions::from_url("postgres://db/jobs?shema=mine").expect_err("unknown");
    assert!(error.message().contains("did you mean \"schema\"?"), "{error}");
    assert_eq!(error.code(), Some(Code::InvalidOption));
}
