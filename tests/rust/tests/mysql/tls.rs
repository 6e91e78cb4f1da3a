//! Encrypted connections, with an authority and a client's certificate of our own.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::mysql::{MySqlBackend, MySqlOptions};
use anarchon_tests::certificates::Certificates;
use anarchon_tests::inputs::claim;
use anarchon_tests::private::Private;

use crate::store::opened;

#[tokio::test]
async fn with_an_authority_and_a_certificate_of_its_own_a_client_is_let_in() {
    let Some(made) = Certificates::make() else { return };
    let Some(server) = Private::mariadb_with_tls(&made).await else { return };
    let port = server.port;
    let url = format!("mysql://replica@127.0.0.1:{port}/jobs?sslMode=verify_identity");
    let ours = format!(
        "{url}&sslCa={}&sslCert={}&sslKey={}",
        made.text("ca.pem"),
        made.text("cert.pem"),
        made.text("key.pem")
    );
    let store = opened(MySqlOptions::from_url(&ours).expect("a URL")).await;
    let outcome = RunStore::claim(&store, &claim("job", 1, "token")).await;
    assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);

    // Who does not know the authority does not trust the server; who shows no certificate is not
    // let in.
    let stranger = url.clone();
    let nobody = format!("{url}&sslCa={}", made.text("ca.pem"));
    for refused in [stranger, nobody] {
        let options = MySqlOptions::from_url(&refused).expect("a URL");
        let store = MySqlBackend::with_options(options).expect("allowed");
        let error = store.init().await.expect_err("not let in");
        println!("{refused}: {error}");
        assert!(error.code().is_some(), "{error}");
    }
}
