//! Encrypted connections, with an authority and a client's certificate of our own.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::redis::{RedisBackend, RedisOptions};
use anarchon::error::Code;
use anarchon_tests::certificates::Certificates;
use anarchon_tests::inputs::claim;
use anarchon_tests::private::free_port;

use crate::server::{Private, opened};

#[tokio::test]
async fn with_an_authority_and_a_certificate_of_its_own_a_client_is_let_in() {
    let Some(made) = Certificates::make() else { return };
    let (port, ca) = (free_port(), made.text("ca.pem"));
    let (cert, key) = (made.text("cert.pem"), made.text("key.pem"));
    let arguments = [
        "--tls-port",
        &port.to_string(),
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "yes",
    ];
    let Some(_server) = Private::start(&arguments).await else { return };
    let url = format!("rediss://127.0.0.1:{port}?tlsCa={ca}&tlsCert={cert}&tlsKey={key}");
    let options = RedisOptions::from_url(&url).expect("a URL");
    let store = opened(options.clone()).await;
    let outcome = RunStore::claim(&store, &claim("job", 1, "t")).await;
    assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);

    // Who does not know the authority does not trust the server.
    let strangers = RedisOptions { tls_ca: None, ..options.clone() };
    let error = RedisBackend::with_options(strangers).expect("allowed").init().await;
    assert_eq!(error.expect_err("not trusted").code(), Some(Code::BackendUnavailable));
    let lost = RedisOptions { tls_ca: Some("/nowhere/ca.pem".into()), ..options };
    let error = RedisBackend::with_options(lost).expect("allowed").init().await;
    let error = error.expect_err("no such file");
    assert_eq!(error.code(), Some(Code::InvalidOption));
    assert!(error.message().contains("tlsCa is \"/nowhere/ca.pem\""), "{error}");
}
