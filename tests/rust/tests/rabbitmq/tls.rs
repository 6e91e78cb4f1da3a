//! Encrypted connections, with an authority and a client's certificate of our own.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anarchon::backend::contract::Backend;
use anarchon::backends::rabbitmq::{RabbitMqBackend, RabbitMqOptions};
use anarchon::error::Code;
use anarchon_tests::inputs::input;

use crate::ground::{next_number, now, opened, skip};
use crate::private::{Private, free_port};

struct Certificates(PathBuf);

impl Certificates {
    /// An authority, and a certificate of it for 127.0.0.1 that server and client both use.
    fn make() -> Option<Certificates> {
        let name = format!("anarchon-tls-{}-{}", std::process::id(), next_number());
        let made = Certificates(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&made.0).expect("the temporary directory can be written");
        std::fs::write(made.0.join("san"), "subjectAltName=IP:127.0.0.1\n").expect("writes");
        let steps = [
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
            "req -newkey rsa:2048 -nodes -subj /CN=server -keyout key.pem -out request",
            "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san \
             -out cert.pem",
        ];
        for step in steps {
            let mut openssl = Command::new("openssl");
            openssl.args(step.split_whitespace()).current_dir(&made.0);
            let done = openssl.stdout(Stdio::null()).stderr(Stdio::null()).status();
            if !done.is_ok_and(|status| status.success()) {
                skip("no openssl to make certificates with");
                return None;
            }
        }
        Some(made)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn with_an_authority_and_a_certificate_of_its_own_a_client_is_let_in() {
    let Some(made) = Certificates::make() else { return };
    let (ca, cert, key) = (made.file("ca.pem"), made.file("cert.pem"), made.file("key.pem"));
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
