//! A state is one message: what could outgrow it is refused, with the numbers.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::error::Code;
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{claim, limits};

use crate::server::{Ground, Private, opened};

#[tokio::test]
async fn a_job_that_could_outgrow_half_a_message_is_refused_at_registration() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        let mut many = limits("many");
        many.history_size = 50_000;
        let answers = store.prepare_jobs(&[limits("few"), many.clone()]).await;
        assert!(answers[0].is_ok());
        let error = answers[1].clone().expect_err("too many");
        assert_eq!(error.code(), Some(Code::InvalidOption));
        assert!(error.message().contains("the job \"many\" keeps up to 50000 records"), "{error}");
        assert!(error.message().contains("524288 bytes are allowed"), "{error}");
        assert!(store.prepare_job(&many).await.is_err());
        assert_eq!(ground.count("PREFIX.*.job.*").await, 1);
        ground.clean().await;
    }
}

/// Records that are too young to be trimmed can be more than anybody asked to keep.
#[tokio::test]
async fn a_state_that_outgrows_a_message_is_refused_and_keeps_what_it_had() {
    let config = "max_payload: 16384\n";
    let path = std::env::temp_dir().join(format!("anarchon-nats-{}.conf", std::process::id()));
    std::fs::write(&path, config).expect("writes");
    let server = Private::start(&["-c", &path.to_string_lossy()]).await;
    let Some(server) = server else { return };
    let store = opened(server.options()).await;
    for slot in 1.. {
        assert!(slot < 1_000, "it never grew too large");
        match RunStore::claim(&store, &claim("job", slot, "t")).await {
            Ok(outcome) => assert_eq!(outcome.kind, OutcomeKind::Won),
            Err(error) => {
                assert_eq!(error.code(), Some(Code::BackendRefused));
                assert!(
                    error.message().contains("more than the 12288 that are allowed"),
                    "{error}"
                );
                break;
            }
        }
    }
    assert!(store.finish("job", 1, "t", Status::Succeeded, None).await.expect("answers"));
    assert_eq!(store.history("job", 1).await.expect("reads").len(), 1);
    let _gone = std::fs::remove_file(path);
}
