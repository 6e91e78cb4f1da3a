//! Opening, closing, reading, and what the store is like from outside.

use std::sync::Arc;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::nats::NatsBackend;
use anarchon::clock::{Clock, SystemClock};
use anarchon::error::Code;
use anarchon_tests::inputs::{claim, limits};
use serde_json::Value;

use crate::server::{Ground, Private, opened};

#[tokio::test]
async fn a_url_opens_the_store_and_unknown_options_are_refused() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    for url in
        ["nats://localhost", "nats+tls://localhost", "tls://h:1,g", "nats://a:b@h?replicas=3"]
    {
        assert_eq!(anarchon::backends::open(url, &clock).expect(url).name(), "nats");
    }
    let wrong = anarchon::backends::open("nats://a:secret@h?replica=2", &clock).err();
    let wrong = wrong.expect("refused");
    assert_eq!(wrong.code(), Some(Code::InvalidOption));
    assert!(wrong.message().contains("did you mean \"replicas\"?"), "{wrong}");
    assert!(!wrong.message().contains("secret"), "{wrong}");
}

#[tokio::test]
async fn a_reader_creates_nothing_and_says_that_there_is_nothing_to_read() {
    for ground in Ground::all().await {
        let reader = NatsBackend::with_options(ground.options.clone()).expect("allowed");
        let error = reader.init_reader().await.expect_err("nothing is there");
        assert_eq!(error.code(), Some(Code::BackendRefused));
        assert!(error.message().contains("nothing to read"), "{error}");
        let info = ground.stream("INFO", Value::Null).await;
        assert_eq!(info["error"]["err_code"], 10059, "{info}");

        let store = ground.open().await;
        store.prepare_job(&limits("job")).await.expect("registers");
        reader.init_reader().await.expect("now there is");
        assert_eq!(reader.history("job", 10).await.expect("reads"), []);
        ground.clean().await;
    }
}

#[tokio::test]
async fn what_a_newer_major_wrote_is_left_as_it_is() {
    for ground in Ground::all().await {
        ground.open().await.close().await.expect("closes");
        let subject = format!("{}.schema", ground.options.prefix);
        let written = crate::wire::ask(ground.server(), &subject, "2.0").await;
        assert!(written.expect("answers")["seq"].is_number());
        let store = NatsBackend::with_options(ground.options.clone()).expect("allowed");
        let error = store.init().await.expect_err("too new");
        assert_eq!(error.code(), Some(Code::SchemaTooNew));
        // A newer minor only adds.
        crate::wire::ask(ground.server(), &subject, "1.9").await.expect("answers");
        store.init().await.expect("opens");
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_store_that_is_not_open_says_so_and_can_be_opened_again() {
    for ground in Ground::all().await {
        let store = NatsBackend::with_options(ground.options.clone()).expect("allowed");
        let asked = claim("job", 1, "t");
        let error = RunStore::claim(&store, &asked).await.expect_err("not open yet");
        assert_eq!(error.code(), Some(Code::BackendUnavailable));
        store.init().await.expect("opens");
        assert_eq!(RunStore::claim(&store, &asked).await.expect("answers").kind, OutcomeKind::Won);
        store.close().await.expect("closes");
        store.close().await.expect("closes again");
        assert!(RunStore::claim(&store, &asked).await.is_err());
        store.init().await.expect("opens again");
        assert_eq!(RunStore::claim(&store, &asked).await.expect("answers").kind, OutcomeKind::Won);
        ground.clean().await;
    }
}

/// The store's clock is the server's, whether the server tells it or it is measured.
#[tokio::test]
async fn the_clock_is_the_servers_and_never_ahead_of_it() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        for _ in 0..20 {
            let before = SystemClock.wall_ms();
            let now = store.survey("job").await.expect("answers").now_ms;
            let after = SystemClock.wall_ms();
            // Both are on this machine. What is measured lies before by no more than it is unsure.
            assert!(now <= after, "{now} is ahead of {after}");
            assert!(now > before - 1_000, "{now} is far behind {before}");
        }
        ground.clean().await;
    }
}

#[tokio::test]
async fn of_several_servers_one_that_is_there_is_enough() {
    let Some(server) = Private::start(&[]).await else { return };
    let mut options = server.options();
    options.servers.insert(0, format!("127.0.0.1:{}", anarchon_tests::private::free_port()));
    let store = opened(options).await;
    let outcome = RunStore::claim(&store, &claim("job", 1, "t")).await;
    assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
}
