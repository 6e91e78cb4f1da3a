//! The conformance suite on the SQLite store.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::sqlite::SqliteBackend;
use anarchon::testing::conformance::{CaseStatus, CheckOptions, Opening, check_backend};
use anarchon_tests::page;
use anarchon_tests::tally::tally;

use crate::store::Directory;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_clients_of_one_file_pass_every_case() {
    let directory = Directory::new();
    let options = directory.options();
    let open = move || -> Opening {
        let options = options.clone();
        Box::pin(async move {
            let client = SqliteBackend::with_options(options)?;
            Ok(Arc::new(client) as Arc<dyn Backend>)
        })
    };
    let options = CheckOptions { complete: true, ..CheckOptions::default() };
    let report = check_backend(open, &options).await;
    tally("sqlite", &report);
    assert!(report.cases.iter().all(|case| case.status == CaseStatus::Passed), "{report}");
}

#[tokio::test]
async fn the_store_is_as_its_page_says() {
    let directory = Directory::new();
    page::tells_the_truth("SQLite", &directory.open().await).await;
}
