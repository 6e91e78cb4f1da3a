//! The whole table of the contract.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::postgres::{PostgresBackend, PostgresOptions};
use anarchon::testing::conformance::{CheckOptions, Opening, check_backend};
use anarchon_tests::page;
use anarchon_tests::tally::tally;

use crate::store::Schema;

async fn check(store: &str, options: PostgresOptions) {
    let open = move || -> Opening {
        let options = options.clone();
        Box::pin(async move {
            let client: Arc<dyn Backend> = Arc::new(PostgresBackend::with_options(options)?);
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
    let Some(schema) = Schema::new().await else { return };
    check("postgres", schema.options()).await;
}

/// As behind a pooler that gives each transaction another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_every_case_with_nothing_prepared() {
    let Some(schema) = Schema::new().await else { return };
    let mut options = schema.options();
    options.server.statement_cache = 0;
    options.server.pool = 1;
    check("postgres, nothing prepared", options).await;
}

#[tokio::test]
async fn the_store_is_as_its_page_says() {
    let Some(schema) = Schema::new().await else { return };
    page::tells_the_truth("PostgreSQL", &schema.open().await).await;
}
