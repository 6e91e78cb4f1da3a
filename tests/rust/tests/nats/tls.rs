//! Encrypted connections, with an authority and a client's certificate of our own.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::nats::{NatsBackend, NatsOptions};
use anarchon::error::Code;
use anarchon_tests::certificates::Certificates;
use anarchon_tests::inputs::claim;

use crate::server::{Private, opened};

#[tokio::test]
async fn with_an_authority_and_a_certificate_of_its_own_a_client_is_let_in() {
    let Some(made) = Certificates::make() else { return };
    let ca = made.text("ca.pem");
    let (cert, key) = (made.text("cert.pem"), made.text("key.pem"));
    let arguments = ["--tlsverify", "--tlscacert", &ca, "--tlscert", &cert, "--tlskey", &key];
    let Some(server) = Private::start(&arguments).await else { return };
    let port = server.port;
    for scheme in ["nats+tls", "tls"] {
        let url = format!("{scheme}://127.0.0.1:{port}?tlsCa={ca}&tlsCert={cert}&tlsKey={key}");
        let store = opened(NatsOptions::from_url(&url).expect("a URL")).await;
        let outcome = RunStore::claim(&store, &claim("job", 1, "t")).await;
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
    }

    // Who does not know the authority does not trust the server.
    let url = format!("tls://127.0.0.1:{port}?tlsCa={ca}&tlsCert={cert}&tlsKey={key}");
    let options = NatsOptions::from_url(&url).expect("a URL");
    let strangers = NatsOptions { tls_ca: None, ..options.clone() };
    let error = NatsBackend::with_options(strangers).expect("allowed").init().await;
    assert_eq!(error.expect_err("not trusted").code(), Some(Code::BackendUnavailable));
    let bare = NatsOptions { tls_cert: None, tls_key: None, ..options.clone() };
    let error = NatsBackend::with_options(bare).expect("allowed").init().await;
    assert!(error.is_err(), "without a certificate nobody is let in");
    let lost = NatsOptions { tls_ca: Some("/nowhere/ca.pem".into()), ..options };
    let error = NatsBackend::with_options(lost).expect("allowed").init().await;
    let error = error.expect_err("no such file");
    assert_eq!(error.code(), Some(Code::InvalidOption));
    assert!(error.message().contains("tlsCa is \"/nowhere/ca.pem\""), "{error}");
}
