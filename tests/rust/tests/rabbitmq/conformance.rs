//! The table of the contract, on a real server: all of it that is not about leases.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::rabbitmq::RabbitMqBackend;
use anarchon::testing::conformance::{CaseStatus, CheckOptions, Opening, check_backend};

use anarchon_tests::page;
use anarchon_tests::tally::tally;

use crate::ground::Ground;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_every_case_without_leases() {
    let Some(ground) = Ground::new() else { return };
    let options = ground.options.clone();
    let open = move || -> Opening {
        let options = options.clone();
        Box::pin(async move {
            let client: Arc<dyn Backend> = Arc::new(RabbitMqBackend::with_options(options)?);
            Ok(client)
        })
    };
    let check = CheckOptions { complete: true, ..CheckOptions::default() };
    let report = check_backend(open, &check).await;
    tally("rabbitmq", &report);
    assert!(report.is_passed(), "{report}");
    let is =
        |wanted: fn(&CaseStatus) -> bool| report.cases.iter().filter(|c| wanted(&c.status)).count();
    let passed = is(|status| *status == CaseStatus::Passed);
    let without_leases =
        is(|status| matches!(status, CaseStatus::Skipped(why) if why.contains("has no leases")));
    assert_eq!(passed + without_leases, report.cases.len(), "nothing else is skipped: {report}");
    assert!(passed >= 21, "{passed} cases");
}

#[tokio::test]
async fn the_store_is_as_its_page_says() {
    let Some(ground) = Ground::new() else { return };
    page::tells_the_truth("RabbitMQ", &ground.open().await).await;
}
