//! What a server is refused for, and what is said then.

use anarchon::backend::contract::Backend;
use anarchon::backends::redis::{RedisBackend, RedisOptions};
use anarchon::error::{Code, Error};
use anarchon_tests::private::free_port;

use crate::server::{Ground, Private, opened};

async fn refusal(options: RedisOptions) -> Error {
    let store = RedisBackend::with_options(options).expect("the options are allowed");
    store.init().await.expect_err("refused")
}

#[tokio::test]
async fn s11_a_server_that_evicts_is_refused_unless_told_otherwise() {
    let memory = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let Some(server) = Private::start(&memory).await else { return };
    let error = refusal(server.options()).await;
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(error.message().contains("maxmemory-policy is allkeys-lru"), "{error}");
    assert_eq!(server.tell::<i64>(&["DBSIZE"]).await, 0, "nothing is written before");

    let told = RedisOptions { allow_eviction: true, ..server.options() };
    opened(told).await.close().await.expect("closes");
    let _set: String = server.tell(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    opened(server.options()).await.close().await.expect("closes");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_never_shown() {
    let Some(server) = Private::start(&["--requirepass", "open-sesame"]).await else { return };
    let none = refusal(server.options()).await;
    assert_eq!(none.code(), Some(Code::BackendRefused), "{none}");
    let wrong = RedisOptions { password: Some("hush-hush".to_owned()), ..server.options() };
    let error = refusal(wrong).await;
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("Check user and password"), "{error}");
    assert!(!format!("{error:?}").contains("hush"), "{error}");
    let right = RedisOptions { password: Some("open-sesame".to_owned()), ..server.options() };
    opened(right).await.close().await.expect("closes");
}

#[tokio::test]
async fn a_user_who_may_not_do_what_is_needed_is_told_what_is_needed() {
    let Some(server) = Private::start(&[]).await else { return };
    let rule = ["ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all", "-evalsha", "-eval"];
    let _set: String = server.tell(&rule).await;
    let options = RedisOptions {
        username: Some("guest".to_owned()),
        password: Some("pw".to_owned()),
        ..server.options()
    };
    let store = opened(options.clone()).await;
    let error = store.history("job", 1).await.expect_err("not allowed");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("EVALSHA"), "{error}");
    // Who may not ask INFO is warned, and can work.
    let rule = ["ACL", "SETUSER", "guest", "+@all", "-@dangerous"];
    let _set: String = server.tell(&rule).await;
    let store = opened(options).await;
    assert_eq!(store.history("job", 1).await.expect("answers"), []);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let options = RedisOptions { port: free_port(), ..RedisOptions::new("127.0.0.1") };
    let error = refusal(options).await;
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert!(error.message().contains("Redis at 127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn a_replica_is_unavailable_and_the_primary_is_named_as_the_remedy() {
    let Some(primary) = Private::start(&[]).await else { return };
    let port = primary.port.to_string();
    let Some(replica) = Private::start(&["--replicaof", "127.0.0.1", &port]).await else { return };
    let error = refusal(replica.options()).await;
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert!(error.message().contains("is a replica"), "{error}");
}

#[tokio::test]
async fn a_single_server_is_not_taken_for_a_cluster() {
    let Some(ground) = Ground::shared().await else { return };
    let error = refusal(RedisOptions { cluster: true, db: 0, ..ground.options.clone() }).await;
    assert!(
        matches!(error.code(), Some(Code::BackendRefused | Code::BackendUnavailable)),
        "{error}"
    );
    ground.clean().await;
}

#[tokio::test]
async fn a_key_of_somebody_else_in_our_place_is_refused() {
    let Some(ground) = Ground::shared().await else { return };
    let key = format!("{}:schema", ground.options.prefix);
    let _set: String = ground.tell(&["SET", &key, "hello"]).await;
    let error = refusal(ground.options.clone()).await;
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(error.message().contains("choose another prefix"), "{error}");
    ground.clean().await;
}
