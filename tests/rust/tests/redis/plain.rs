//! Opening, closing, reading, and what the store is like from outside.

use std::sync::Arc;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore, StoredResult};
use anarchon::backends::redis::RedisBackend;
use anarchon::clock::SystemClock;
use anarchon::error::Code;
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{claim, input, limits};
use anarchon_tests::page;
use anarchon_tests::proxy::Proxy;

use crate::server::{Ground, opened};

#[tokio::test]
async fn a_url_opens_the_store_and_unknown_options_are_refused() {
    let clock: Arc<dyn anarchon::clock::Clock> = Arc::new(SystemClock);
    for url in ["redis://localhost", "rediss://localhost", "valkey://h:1", "valkeys://h/2"] {
        assert_eq!(anarchon::backends::open(url, &clock).expect(url).name(), "redis");
    }
    let wrong =
        anarchon::backends::open("redis://:secret@h?poll=2", &clock).err().expect("refused");
    assert_eq!(wrong.code(), Some(Code::InvalidOption));
    assert!(wrong.message().contains("did you mean \"pool\"?"), "{wrong}");
    assert!(!wrong.message().contains("secret"), "{wrong}");
}

#[tokio::test]
async fn a_reader_creates_nothing_and_says_that_there_is_nothing_to_read() {
    let Some(ground) = Ground::shared().await else { return };
    let reader = RedisBackend::with_options(ground.options.clone()).expect("allowed");
    let error = reader.init_reader().await.expect_err("nothing is there");
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(error.message().contains("nothing to read"), "{error}");
    let keys: Vec<String> = ground.tell(&["KEYS", &format!("{}*", ground.options.prefix)]).await;
    assert_eq!(keys, Vec::<String>::new());

    let store = ground.open().await;
    store.prepare_job(&limits("job")).await.expect("registers");
    reader.init_reader().await.expect("now there is");
    assert_eq!(reader.history("job", 10).await.expect("reads"), []);
    ground.clean().await;
}

#[tokio::test]
async fn what_a_newer_major_wrote_is_left_as_it_is() {
    let Some(ground) = Ground::shared().await else { return };
    let key = format!("{}:schema", ground.options.prefix);
    let _set: String = ground.tell(&["SET", &key, "2.0"]).await;
    let store = RedisBackend::with_options(ground.options.clone()).expect("allowed");
    let error = store.init().await.expect_err("too new");
    assert_eq!(error.code(), Some(Code::SchemaTooNew));
    // A newer minor only adds.
    let _set: String = ground.tell(&["SET", &key, "1.9"]).await;
    store.init().await.expect("opens");
    assert_eq!(ground.tell::<String>(&["GET", &key]).await, "1.9");
    ground.clean().await;
}

#[tokio::test]
async fn a_store_that_is_not_open_says_so_and_can_be_opened_again() {
    let Some(ground) = Ground::shared().await else { return };
    let store = RedisBackend::with_options(ground.options.clone()).expect("allowed");
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

#[tokio::test]
async fn namespaces_and_prefixes_do_not_meet() {
    let Some(ground) = Ground::shared().await else { return };
    let store = ground.open().await;
    let other = store.with_namespace("other").expect("a store with namespaces");
    let mut elsewhere = ground.options.clone();
    elsewhere.prefix.push_str("-2");
    let elsewhere = Ground { options: elsewhere };
    for backend in [&store as &dyn Backend, &*other, &elsewhere.open().await] {
        let asked = input("job", 60_000, "t");
        let won = backend.claim(&asked).await.expect("answers");
        assert!(won, "every one of them has its own slots");
    }
    assert!(!Backend::claim(&store, &input("job", 60_000, "u")).await.expect("answers"));
    elsewhere.clean().await;
    ground.clean().await;
}

#[tokio::test]
async fn instants_after_2038_and_in_2500_come_back_unchanged() {
    let Some(ground) = Ground::shared().await else { return };
    let store = ground.open().await;
    for slot in [2_147_483_648_000, 16_725_225_600_000, 4_503_599_627_370_496, -1] {
        let job = format!("job {slot}");
        store.prepare_job(&limits(&job)).await.expect("registers");
        let asked = claim(&job, slot, "t");
        let outcome = RunStore::claim(&store, &asked).await.expect("answers");
        let wanted = if slot < 0 { OutcomeKind::Late } else { OutcomeKind::Won };
        assert_eq!(outcome.kind, wanted, "{slot}");
        if slot > 0 {
            assert_eq!(store.survey(&job).await.expect("answers").slots, [slot]);
            let result = StoredResult {
                slot,
                manual: false,
                by: "host".to_owned(),
                status: Status::Succeeded,
                started_at: slot,
                ended_at: slot + 1,
                attempt: Some(1),
                error: None,
                output: Some("[]".to_owned()),
                output_truncated: None,
                abandoned: None,
            };
            let ended = store.finish(&job, slot, "t", Status::Succeeded, Some(&result)).await;
            assert!(ended.expect("answers"));
            let records = store.history(&job, 5).await.expect("answers");
            assert_eq!((records[0].slot, records[0].started_at), (slot, Some(slot)));
            assert_eq!(records[0].output.as_deref(), Some("[]"));
        }
    }
    let error = RunStore::claim(&store, &claim("job", i64::MAX, "t")).await.expect_err("too far");
    assert_eq!(error.code(), Some(Code::InvalidOption));
    ground.clean().await;
}

#[tokio::test]
async fn no_key_expires_and_bodies_lie_apart_from_what_a_claim_reads() {
    let Some(ground) = Ground::shared().await else { return };
    let store = ground.open().await;
    store.prepare_job(&limits("job")).await.expect("registers");
    let body = "x".repeat(8_000);
    for slot in 1..=20 {
        let token = slot.to_string();
        RunStore::claim(&store, &claim("job", slot, &token)).await.expect("answers");
        let result = StoredResult {
            slot,
            manual: false,
            by: "host".to_owned(),
            status: Status::Succeeded,
            started_at: slot,
            ended_at: slot,
            attempt: None,
            error: None,
            output: Some(format!("{body:?}")),
            output_truncated: None,
            abandoned: None,
        };
        let ended = store.finish("job", slot, &token, Status::Succeeded, Some(&result)).await;
        assert!(ended.expect("answers"));
    }
    let keys: Vec<String> = ground.tell(&["KEYS", &format!("{}*", ground.options.prefix)]).await;
    assert_eq!(keys.len(), 5, "schema, job, records, order and bodies: {keys:?}");
    for key in &keys {
        assert_eq!(ground.tell::<i64>(&["PTTL", key]).await, -1, "{key} expires");
        let bytes: i64 = ground.tell(&["MEMORY", "USAGE", key, "SAMPLES", "0"]).await;
        assert_eq!(bytes > 100_000, key.ends_with(":bodies"), "{key} has {bytes} bytes");
    }
    ground.clean().await;
}

#[tokio::test]
async fn a_winner_a_loser_and_a_hundred_at_once_take_one_round_trip() {
    let Some(ground) = Ground::shared().await else { return };
    let proxy = Proxy::before((ground.options.host.clone(), ground.options.port)).await;
    let mut options = ground.options.clone();
    options.port = proxy.port();
    "127.0.0.1".clone_into(&mut options.host);
    let store = opened(options).await;
    // The server is told the scripts.
    let first = claim("job", 1, "first");
    RunStore::claim(&store, &first).await.expect("answers");
    let count = |before: u64| proxy.turns() - before;
    let (won, lost) = page::row("Redis, Valkey").trips.expect("told on the page");

    let before = proxy.turns();
    let outcome = RunStore::claim(&store, &claim("job", 2, "a")).await.expect("answers");
    assert_eq!((outcome.kind, count(before)), (OutcomeKind::Won, won));
    let before = proxy.turns();
    let outcome = RunStore::claim(&store, &claim("job", 2, "b")).await.expect("answers");
    assert_eq!((outcome.kind, count(before)), (OutcomeKind::Running, lost));
    let before = proxy.turns();
    let claims: Vec<_> = (0..100).map(|number| claim(&format!("job {number}"), 1, "t")).collect();
    let outcomes = store.claim_all(&claims).await;
    assert!(outcomes.iter().all(|one| one.as_ref().is_ok_and(|o| o.kind == OutcomeKind::Won)));
    // The answers may arrive in parts while the last of the questions is still on its way.
    assert!(count(before) <= 3, "{} turns", count(before));
    ground.clean().await;
}
