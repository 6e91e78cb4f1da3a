//! Encrypted connections, with an authority and a client's certificate of our own.

use anarchon::backend::contract::Backend;
use anarchon::backends::rabbitmq::{RabbitMqBackend, RabbitMqOptions};
use anarchon::error::Code;
use anarchon_tests::certificates::Certificates;
use anarchon_tests::inputs::input;
use anarchon_tests::private::free_port;

use crate::ground::{now, opened};
use crate::private::Private;

#[tokio::test]
async fn with_an_authority_and_a_certificate_of_its_own_a_client_is_let_in() {
    let Some(made) = Certificates::make() else { return };
    let (ca, cert, key) = (made.text("ca.pem"), made.text("cert.pem"), made.text("key.pem"));
    let port = free_port();
    let settings = format!(
        "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {ca}\n\
         ssl_options.certfile = {cert}\nssl_options.keyfile = {key}\n\
         ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true"
    );
    let Some(_server) = Private::start(&settings).await else { return };
    let url = format!("amqps://127.0.0.1:{port}?tlsCa={ca}&tlsCert={cert}&tlsKey={key}");
    let options = RabbitMqOptions::from_url(&url).expect("a URL");
    let store = opened(options.clone()).await;
    assert!(store.claim(&input("job", now(), "t")).await.expect("answers"));

    // Who does not know the authority does not trust the server, and the server wants a certificate.
    let strangers = [
        RabbitMqOptions { tls_ca: None, ..options.clone() },
        RabbitMqOptions { tls_cert: None, tls_key: None, ..options.clone() },
    ];
    for stranger in strangers {
        let error = RabbitMqBackend::with_options(stranger).expect("allowed").init().await;
        assert_eq!(error.expect_err("no trust").code(), Some(Code::BackendUnavailable));
    }
    let lost = RabbitMqOptions { tls_ca: Some("/nowhere/ca.pem".into()), ..options };
    let error = RabbitMqBackend::with_options(lost).expect("allowed").init().await;
    let error = error.expect_err("no such file");
    assert_eq!(error.code(), Some(Code::InvalidOption));
    assert!(error.message().contains("tlsCa is \"/nowhere/ca.pem\""), "{error}");
}
