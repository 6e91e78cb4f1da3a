//! Opening a store: tables that are there, are not, or are of another version or engine.

use anarchon::backend::contract::Backend;
use anarchon::backends::mysql::{MySqlBackend, MySqlOptions};
use anarchon::error::Code;
use anarchon_tests::inputs::input;

use crate::store::Database;

/// Stores of earlier versions have these tables: a change here is a change of the schema's version.
#[test]
fn the_tables_are_these() {
    let store = MySqlBackend::from_url("mysql://db/jobs").expect("the URL is allowed");
    let text = store.ddl().join(";\n\n") + ";\n";
    assert_eq!(text, include_str!("schema.sql"));
}

#[tokio::test]
async fn without_create_tables_the_ddl_makes_a_store() {
    let Some(database) = Database::new().await else { return };
    let mut options = database.options();
    options.server.create_tables = false;
    let store = MySqlBackend::with_options(options).expect("allowed");
    let error = store.init().await.expect_err("there are no tables");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("ddl()"), "{error}");
    for statement in store.ddl() {
        database.execute(&statement).await;
    }
    store.init().await.expect("now there are");
    assert!(Backend::claim(&store, &input("job", 1, "token")).await.expect("answers"));
}

#[tokio::test]
async fn a_reader_creates_nothing() {
    let Some(database) = Database::new().await else { return };
    let store = MySqlBackend::with_options(database.options()).expect("allowed");
    let error = store.init_reader().await.expect_err("there is nothing to read");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    database.open().await;
    store.init_reader().await.expect("now there is");
    assert_eq!(store.history("job", 10).await.expect("reads").len(), 0);
}

#[tokio::test]
async fn d03_a_store_of_a_newer_major_is_left_as_it_is() {
    let Some(database) = Database::new().await else { return };
    database.open().await;
    database.execute("UPDATE anarchon_schema SET major = 2").await;
    let store = MySqlBackend::with_options(database.options()).expect("allowed");
    let error = store.init().await.expect_err("it is newer");
    assert_eq!(error.code(), Some(Code::SchemaTooNew), "{error}");
}

#[tokio::test]
async fn tables_that_cannot_roll_back_are_refused() {
    let Some(database) = Database::new().await else { return };
    database.open().await;
    database.execute("ALTER TABLE anarchon_runs ENGINE = MyISAM").await;
    let store = MySqlBackend::with_options(database.options()).expect("allowed");
    let error = store.init().await.expect_err("MyISAM has no transactions");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("ENGINE = InnoDB"), "{error}");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let Some(database) = Database::new().await else { return };
    let mut options = database.options();
    options.server.database = Some("no_such_database".to_owned());
    let store = MySqlBackend::with_options(options).expect("allowed");
    let error = store.init().await.expect_err("there is no database");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("no such database"), "{error}");
}

#[test]
fn the_options_of_a_url_are_read_and_unknown_ones_refused() {
    let url = "mariadb://db:3307/jobs?allowLazyFlush=true&pool=1&ssl-mode=VERIFY_IDENTITY";
    let options = MySqlOptions::from_url(url).expect("allowed");
    assert!(options.allow_lazy_flush);
    assert_eq!((options.server.pool, options.server.port), (1, Some(3307)));
    let error = MySqlOptions::from_url("mysql://db/jobs?alowLazyFlush=1").expect_err("unknown");
    assert!(error.message().contains("did you mean \"allowLazyFlush\"?"), "{error}");
    let error = MySqlOptions::from_url("mysql://db").expect_err("no database");
    assert!(error.message().contains("no database is named"), "{error}");
    assert_eq!(error.code(), Some(Code::InvalidOption));
}
