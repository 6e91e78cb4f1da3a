//! Encrypted connections, with an authority and a client's certificate of our own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::nats::{NatsBackend, NatsOptions};
use anarchon::error::Code;
use anarchon_tests::inputs::claim;

use crate::server::{Private, next_number, opened, skip};

struct Certificates(PathBuf);

impl Certificates {
    /// An authority, and a certificate of it for 127.0.0.1 that server and client both use.
    fn make() -> Option<Certificates> {
        let name = format!("anarchon-nats-tls-{}-{}", std::process::id(), next_number());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("the temporary directory can be written");
        let made = Certificates(directory);
        std::fs::write(made.file("san"), "subjectAltName=IP:127.0.0.1\n").expect("writes");
        let steps = [
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
            "req -newkey rsa:2048 -nodes -subj /CN=server -keyout key.pem -out request",
            "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san \
             -out cert.pem",
        ];
        for step in steps {
            let done = Command::new("openssl")
                .args(step.split_whitespace())
                .current_dir(&made.0)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if !done.is_ok_and(|status| status.success()) {
                skip("no openssl to make certificates with");
                return None;
            }
        }
        Some(made)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[tokio::test]
async fn with_an_authority_and_a_certificate_of_its_own_a_client_is_let_in() {
    let Some(made) = Certificates::make() else { return };
    let ca = text(&made.file("ca.pem"));
    let (cert, key) = (text(&made.file("cert.pem")), text(&made.file("key.pem")));
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
