//! The whole table of the contract.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::mysql::{MySqlBackend, MySqlOptions};
use anarchon::testing::conformance::{CheckOptions, Opening, check_backend};
use anarchon_tests::page;
use anarchon_tests::tally::tally;

use crate::store::Database;

async fn check(store: &str, options: MySqlOptions) {
    let open = move || -> Opening {
        let options = options.clone();
        Box::pin(async move {
            let client: Arc<dyn Backend> = Arc::new(MySqlBackend::with_options(options)?);
            Ok(client)
        })
    };
    let options = CheckOptions { complete: true, ..CheckOptions::default() };
    let report = check_backend(open, &options).await;
    tally(store, &report);
    assert!(report.is_passed(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_every_case() {
    let Some(database) = Database::new().await else { return };
    check("mysql", database.options()).await;
}

/// As behind a proxy that gives each transaction another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_every_case_with_nothing_prepared() {
    let Some(database) = Database::new().await else { return };
    let mut options = database.options();
    options.server.statement_cache = 0;
    options.server.pool = 1;
    check("mysql, nothing prepared", options).await;
}

#[tokio::test]
async fn the_store_is_as_its_page_says() {
    let Some(database) = Database::new().await else { return };
    page::tells_the_truth("MySQL, MariaDB", &database.open().await).await;
}
