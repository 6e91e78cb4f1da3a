//! What a server or a stream is refused for, and what is said then.

use anarchon::backend::contract::{Backend, RunStore};
use anarchon::backends::nats::{NatsBackend, NatsOptions};
use anarchon::error::{Code, Error};
use anarchon_tests::inputs::claim;
use anarchon_tests::private::free_port;
use serde_json::{Value, json};

use crate::server::{Ground, Private, opened};

async fn refusal(options: NatsOptions) -> Error {
    let store = NatsBackend::with_options(options).expect("the options are allowed");
    store.init().await.expect_err("refused")
}

#[tokio::test]
async fn a_stream_that_would_open_slots_again_is_refused_until_it_is_mended() {
    for ground in Ground::all().await {
        ground.open().await.close().await.expect("closes");
        let sound = ground.stream("INFO", Value::Null).await["config"].clone();
        for (field, value, says) in [
            ("max_msgs", json!(1_000), "Set max_msgs to -1"),
            ("max_bytes", json!(1 << 20), "Set max_bytes to -1"),
            ("max_age", json!(3_600_000_000_000_i64), "Set max_age to 0"),
            ("discard", json!("new"), "discard \"new\""),
        ] {
            let mut config = sound.clone();
            config[field] = value;
            let edited = ground.stream("UPDATE", config).await;
            assert!(edited["error"].is_null(), "{edited}");
            let error = refusal(ground.options.clone()).await;
            assert_eq!(error.code(), Some(Code::BackendRefused));
            assert!(error.message().contains(says), "{error}");
        }
        let mended = ground.stream("UPDATE", sound).await;
        assert!(mended["error"].is_null(), "{mended}");
        opened(ground.options.clone()).await.close().await.expect("closes");
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_stream_in_memory_is_refused_unless_told_otherwise() {
    for ground in Ground::all().await {
        let told = NatsOptions { allow_memory: true, ..ground.options.clone() };
        opened(told.clone()).await.close().await.expect("closes");
        let info = ground.stream("INFO", Value::Null).await;
        assert_eq!(info["config"]["storage"], "memory");
        let error = refusal(ground.options.clone()).await;
        assert!(error.message().contains("is in memory: a restart forgets"), "{error}");
        opened(told).await.close().await.expect("closes");
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_stream_that_is_not_ours_is_left_as_it_is() {
    for ground in Ground::all().await {
        let prefix = ground.options.prefix.clone();
        let foreign = json!({
            "name": prefix, "subjects": [format!("{prefix}.orders.>")], "storage": "file",
            "retention": "limits", "discard": "old", "max_msgs": 7, "num_replicas": 1,
            "max_consumers": -1, "max_bytes": -1, "max_age": 0,
        });
        let made = ground.stream("CREATE", foreign).await;
        assert!(made["error"].is_null(), "{made}");
        let error = refusal(ground.options.clone()).await;
        assert_eq!(error.code(), Some(Code::BackendRefused));
        assert!(error.message().contains("is not ours"), "{error}");
        let info = ground.stream("INFO", Value::Null).await;
        assert_eq!(info["config"]["max_msgs"], 7);
        ground.clean().await;
    }
}

#[tokio::test]
async fn subjects_that_another_stream_keeps_are_refused_with_advice() {
    let Some(ground) = Ground::current().await else { return };
    let other = json!({
        "name": "other", "subjects": [format!("{}.>", ground.options.prefix)], "storage": "file",
        "num_replicas": 1,
    });
    let made =
        crate::wire::ask(ground.server(), "$JS.API.STREAM.CREATE.other", &other.to_string()).await;
    assert!(made.expect("answers")["error"].is_null());
    let error = refusal(ground.options.clone()).await;
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(error.message().contains("choose another prefix"), "{error}");
}

#[tokio::test]
async fn more_replicas_than_the_server_can_keep_are_refused() {
    for ground in Ground::all().await {
        let three = NatsOptions { replicas: Some(3), ..ground.options.clone() };
        let error = refusal(three.clone()).await;
        assert_eq!(error.code(), Some(Code::BackendRefused));
        assert!(error.message().contains("3 replicas"), "{error}");
        ground.open().await.close().await.expect("closes");
        let error = refusal(three).await;
        assert!(error.message().contains("has 1 replicas, fewer than the 3"), "{error}");
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_server_without_jetstream_is_refused() {
    let Some(server) = Private::start(&["--no-jetstream"]).await else { return };
    let error = refusal(server.options()).await;
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(error.message().contains("JetStream is not enabled"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_never_shown() {
    let Some(server) = Private::start(&["--user", "app", "--pass", "open-sesame"]).await else {
        return;
    };
    let none = refusal(server.options()).await;
    assert_eq!(none.code(), Some(Code::BackendRefused), "{none}");
    let url = |password: &str| format!("nats://app:{password}@127.0.0.1:{}", server.port);
    let wrong = NatsOptions::from_url(&url("hush-hush")).expect("a URL");
    let error = refusal(wrong).await;
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(!error.message().contains("hush"), "{error}");
    let right = NatsOptions::from_url(&url("open-sesame")).expect("a URL");
    opened(right).await.close().await.expect("closes");
}

#[tokio::test]
async fn a_token_lets_in_and_a_wrong_one_does_not() {
    let Some(server) = Private::start(&["--auth", "open-sesame"]).await else { return };
    let url = |token: &str| format!("nats://{token}@127.0.0.1:{}", server.port);
    let error = refusal(NatsOptions::from_url(&url("hush-hush")).expect("a URL")).await;
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(!error.message().contains("hush"), "{error}");
    opened(NatsOptions::from_url(&url("open-sesame")).expect("a URL")).await;
}

/// What may not be told to others is no reason to refuse; what may not be asked is.
#[tokio::test]
async fn a_user_who_may_not_ask_is_refused_and_told_what_is_needed() {
    let config = "authorization { users = [ \
                  { user: few, password: x, permissions: { publish: \"nothing\" } }, \
                  { user: most, password: x, permissions: { publish: { deny: \"*.*.wake\" } } } ] }";
    let path = std::env::temp_dir().join(format!("anarchon-nats-users-{}", std::process::id()));
    std::fs::write(&path, config).expect("writes");
    let Some(server) = Private::start(&["-c", &path.to_string_lossy()]).await else { return };
    let user = |name: &str| NatsOptions {
        username: Some(name.to_owned()),
        password: Some("x".to_owned()),
        call_timeout_ms: 500,
        ..server.options()
    };
    let error = refusal(user("few")).await;
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("must be allowed to publish to $JS.API.>"), "{error}");
    let store = opened(user("most")).await;
    for slot in 1..=3 {
        RunStore::claim(&store, &claim("job", slot, "t")).await.expect("answers");
        assert!(store.release("job", slot, "t").await.expect("answers"));
    }
    server.pause();
    let error = store.active("job").await.expect_err("hangs");
    assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}");
    server.resume();
    let _gone = std::fs::remove_file(path);
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named() {
    let nowhere = Some(std::path::PathBuf::from("/nowhere/app.creds"));
    let options = NatsOptions { credentials_file: nowhere, ..NatsOptions::new("127.0.0.1") };
    let error = refusal(options).await;
    assert_eq!(error.code(), Some(Code::InvalidOption));
    assert!(error.message().contains("credentialsFile is \"/nowhere/app.creds\""), "{error}");
}

#[tokio::test]
async fn where_nobody_listens_the_store_is_unavailable() {
    let options = NatsOptions::new(format!("127.0.0.1:{}", free_port()));
    let error = refusal(options).await;
    assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}");
}
