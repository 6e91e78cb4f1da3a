//! Names of every kind: each works, and no two are one.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon_tests::inputs::{claim, limits};
use anarchon_tests::words;

use crate::server::{Ground, opened};

#[tokio::test]
async fn no_two_names_share_anything() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        words::names_never_share(&store).await;
        assert_eq!(ground.count("PREFIX.*.job.*").await, words::names().len());
        ground.clean().await;
    }
}

/// Words that mean something to the server or to the store.
#[tokio::test]
async fn words_of_the_protocol_are_names_like_any_other() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        let names = ["$JS.API.>", "_INBOX.x", "job.job", "body", "wake", "clock", "*", ">", "a.*"];
        for name in names {
            store.prepare_job(&limits(name)).await.expect("registers");
            let outcome = RunStore::claim(&store, &claim(name, 60_000, "t")).await;
            assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won, "{name:?}");
            assert_eq!(store.history(name, 10).await.expect("answers").len(), 1, "{name:?}");
        }
        assert_eq!(ground.count("PREFIX.*.job.*").await, names.len());
        ground.clean().await;
    }
}

#[tokio::test]
async fn far_times_are_kept() {
    for ground in Ground::all().await {
        words::far_times_are_kept(&ground.open().await).await;
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_namespace_has_jobs_of_its_own() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        let other = store.with_namespace("other").expect("a store with namespaces");
        let mut named = ground.options.clone();
        named.namespace = "other".to_owned();
        let same = opened(named).await;
        let asked = claim("job", 1, "ours");
        assert_eq!(RunStore::claim(&store, &asked).await.expect("answers").kind, OutcomeKind::Won);
        let theirs = claim("job", 1, "theirs");
        let runs = other.runs().expect("leases");
        assert_eq!(runs.claim(&theirs).await.expect("answers").kind, OutcomeKind::Won);
        let third = RunStore::claim(&same, &claim("job", 1, "third")).await;
        assert_eq!(third.expect("answers").kind, OutcomeKind::Running);
        ground.clean().await;
    }
}

#[tokio::test]
async fn tokens_and_instances_may_hold_spaces_and_line_ends() {
    let Some(ground) = Ground::shared() else { return };
    let store = ground.open().await;
    let mut asked = claim("job", 60_000, " a token\nof two lines ");
    asked.input.instance_id = " host\r\n- 12 m ".to_owned();
    RunStore::claim(&store, &asked).await.expect("answers");
    let runs = store.active("job").await.expect("answers");
    assert_eq!(runs[0].by, asked.input.instance_id);
    assert!(store.heartbeat("job", 60_000, &asked.input.token, 1_000).await.expect("answers"));
    assert!(!store.heartbeat("job", 60_000, "a token", 1_000).await.expect("answers"));
    ground.clean().await;
}
