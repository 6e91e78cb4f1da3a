//! The whole table of the contract, on a real server.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::redis::RedisBackend;
use anarchon::testing::conformance::{CaseStatus, CheckOptions, Opening, check_backend};
use anarchon_tests::page;
use anarchon_tests::tally::tally;

use crate::server::Ground;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_every_case() {
    let Some(ground) = Ground::shared().await else { return };
    let options = ground.options.clone();
    let open = move || -> Opening {
        let options = options.clone();
        Box::pin(async move {
            let client: Arc<dyn Backend> = Arc::new(RedisBackend::with_options(options)?);
            client.init().await?;
            Ok(client)
        })
    };
    let check = CheckOptions { complete: true, ..CheckOptions::default() };
    let report = check_backend(open, &check).await;
    tally("redis", &report);
    assert!(report.cases.iter().all(|case| case.status == CaseStatus::Passed), "{report}");
    ground.clean().await;
}

#[tokio::test]
async fn the_store_is_as_its_page_says() {
    let Some(ground) = Ground::shared().await else { return };
    page::tells_the_truth("Redis, Valkey", &ground.open().await).await;
    ground.clean().await;
}
