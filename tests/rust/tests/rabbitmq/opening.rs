//! Opening, closing, reading, and what is refused.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::rabbitmq::{RabbitMqBackend, RabbitMqOptions};
use anarchon::clock::{Clock, SystemClock};
use anarchon::error::{Code, Error};
use anarchon_tests::inputs::{input, limits};
use anarchon_tests::private::free_port;

use crate::ground::{Ground, now, opened};
use crate::private::Private;

async fn refusal(options: RabbitMqOptions) -> Error {
    let store = RabbitMqBackend::with_options(options).expect("the options are allowed");
    store.init().await.expect_err("refused")
}

#[test]
fn a_url_opens_the_store_and_shows_no_password() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    for url in ["amqp://localhost", "amqps://u:p@localhost:1/v?dedupeWindowMs=5000"] {
        assert_eq!(anarchon::backends::open(url, &clock).expect(url).name(), "rabbitmq");
    }
    let url = "amqp://nobody:hush@h?chanels=2";
    let wrong = anarchon::backends::open(url, &clock).err().expect("refused");
    assert_eq!(wrong.code(), Some(Code::InvalidOption));
    assert!(wrong.message().contains("did you mean \"channels\"?"), "{wrong}");
    assert!(!wrong.message().contains("hush"), "{wrong}");
}

#[tokio::test]
async fn a_reader_creates_nothing_and_says_that_there_is_nothing_to_read() {
    let Some(ground) = Ground::new() else { return };
    let reader = RabbitMqBackend::with_options(ground.options.clone()).expect("allowed");
    for _ in 0..2 {
        let error = reader.init_reader().await.expect_err("nothing is there");
        assert_eq!(error.code(), Some(Code::BackendRefused));
        assert!(error.message().contains("nothing to read"), "{error}");
    }
    let store = ground.open().await;
    store.prepare_job(&limits("job")).await.expect("registers");
    reader.init_reader().await.expect("now there is");
    assert_eq!(reader.history("job", 10).await.expect("reads"), []);
    assert_eq!(reader.history("another", 10).await.expect("reads"), []);
    reader.init().await.expect("a reader may become more");
    assert!(reader.claim(&input("job", now(), "t")).await.expect("answers"));
}

#[tokio::test]
async fn a_store_that_is_not_open_says_so_and_can_be_opened_again() {
    let Some(ground) = Ground::new() else { return };
    let store = RabbitMqBackend::with_options(ground.options.clone()).expect("allowed");
    let asked = input("job", now(), "t");
    let error = store.claim(&asked).await.expect_err("not open yet");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    for _ in 0..2 {
        store.init().await.expect("opens");
        store.init().await.expect("is open");
        assert!(store.claim(&asked).await.expect("answers"));
        store.close().await.expect("closes");
        store.close().await.expect("closes again");
        assert!(store.claim(&asked).await.is_err());
        assert!(store.history("job", 1).await.is_err());
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let error =
        refusal(RabbitMqOptions { port: free_port(), ..RabbitMqOptions::new("127.0.0.1") }).await;
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert!(error.message().contains("RabbitMQ at 127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_virtual_host_are_refused_and_no_user_is_shown() {
    let Some(ground) = Ground::new() else { return };
    let wrong = RabbitMqOptions {
        username: "nobody".to_owned(),
        password: "hush-hush".to_owned(),
        ..ground.options.clone()
    };
    let error = refusal(wrong).await;
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("Check user and password"), "{error}");
    assert!(!format!("{error:?}").contains("hush") && !format!("{error:?}").contains("nobody"));
    let missing = RabbitMqOptions { vhost: "nowhere".to_owned(), ..ground.options.clone() };
    let error = refusal(missing).await;
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("virtual host"), "{error}");
}

#[tokio::test]
async fn what_a_user_may_not_do_and_how_many_queues_there_may_be_is_said() {
    let Some(server) = Private::start("").await else { return };
    server.control(&["add_user", "small", "pw"]);
    server.control(&["set_permissions", "small", "^anarchon\\.", "^anarchon\\.", "^anarchon\\."]);
    let small = RabbitMqOptions {
        username: "small".to_owned(),
        password: "pw".to_owned(),
        ..server.options()
    };
    let error = refusal(small.clone()).await;
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(
        error.message().contains("amq.default") && !error.message().contains("small"),
        "{error}"
    );
    let write = "^(anarchon\\.|amq\\.default$)";
    server.control(&["set_permissions", "small", "^anarchon\\.", write, "^anarchon\\."]);
    let store = opened(small).await;
    assert!(store.claim(&input("job", now(), "t")).await.expect("enough is allowed"));
    store.record_claim(&input("job", now(), "t")).await.expect("also for records");
    assert_eq!(store.history("job", 5).await.expect("reads").len(), 1);

    // A full server is not a lost claim.
    server.control(&["set_vhost_limits", "{\"max-queues\": 3}"]);
    let error = store.claim(&input("job", now() - 1, "t")).await.expect_err("too many");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert!(error.message().contains("raise the limit"), "{error}");
}
