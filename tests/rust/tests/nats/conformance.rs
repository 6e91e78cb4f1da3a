//! The whole table of the contract, on real servers.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::nats::NatsBackend;
use anarchon::testing::conformance::{CaseStatus, CheckOptions, Opening, check_backend};
use anarchon_tests::page;
use anarchon_tests::tally::tally;

use crate::server::Ground;

async fn passes(store: &str, ground: Ground) {
    let options = ground.options.clone();
    let open = move || -> Opening {
        let options = options.clone();
        Box::pin(async move {
            let client: Arc<dyn Backend> = Arc::new(NatsBackend::with_options(options)?);
            client.init().await?;
            Ok(client)
        })
    };
    let check = CheckOptions { complete: true, ..CheckOptions::default() };
    let report = check_backend(open, &check).await;
    tally(store, &report);
    assert!(report.cases.iter().all(|case| case.status == CaseStatus::Passed), "{report}");
    ground.clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_every_case_on_the_server_that_is_named() {
    let Some(ground) = Ground::shared() else { return };
    passes("nats", ground).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_every_case_on_a_current_server() {
    let Some(ground) = Ground::current().await else { return };
    passes("nats, current", ground).await;
}

#[tokio::test]
async fn the_store_is_as_its_page_says() {
    for ground in Ground::all().await {
        page::tells_the_truth("NATS JetStream", &ground.open().await).await;
        ground.clean().await;
    }
}
