//! What happens on the way to a server, on any store with leases.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::error::Code;

use crate::inputs::{claim, limits};
use crate::proxy::Proxy;

fn runs(store: &dyn Backend) -> &dyn RunStore {
    store.runs().expect("the store has leases")
}

/// What a claim comes to.
///
/// # Panics
/// If it is not answered.
pub async fn kind(store: &dyn Backend, job: &str, slot: i64, token: &str) -> OutcomeKind {
    runs(store).claim(&claim(job, slot, token)).await.expect("answers").kind
}

/// O03: what claims wait for keeps no heartbeat waiting. The record of the job `locked` is locked;
/// `waits` ends when somebody waits for it, `unlock` gives it back.
///
/// # Panics
/// If a heartbeat waits, or the claim does not.
pub async fn a_heartbeat_does_not_wait_behind_a_claim(
    store: &Arc<dyn Backend>,
    waits: impl Future<Output = ()>,
    unlock: impl Future<Output = ()>,
) {
    let blocked = {
        let store = store.clone();
        tokio::spawn(async move { kind(&*store, "locked", 1, "one").await })
    };
    waits.await;
    let alive = runs(&**store).heartbeat("held", 1, "holder", 30_000).await;
    assert!(alive.expect("answers"));
    assert!(!blocked.is_finished(), "the claim still waits");
    unlock.await;
    assert_eq!(blocked.await.expect("ends"), OutcomeKind::Won);
}

/// R06: a connection that breaks off in the middle, also during the commit. It breaks after
/// `turns(round)` round trips, of which a new connection takes some for itself, so that it is at
/// another place each time.
///
/// # Panics
/// If a claim is not won, or is granted twice.
pub async fn claims_over_connections_that_break_are_won_once_each(
    store: &dyn Backend,
    proxy: &Arc<Proxy>,
    turns: fn(u64) -> u64,
) {
    store.prepare_job(&limits("job")).await.expect("registers");
    let breaking = {
        let proxy = proxy.clone();
        tokio::spawn(async move {
            for round in 0_u64.. {
                let until = proxy.turns() + turns(round);
                while proxy.turns() < until {
                    tokio::task::yield_now().await;
                }
                proxy.break_off();
            }
        })
    };
    for slot in 1..=120 {
        let claim = claim("job", slot, &format!("token-{slot}"));
        let outcome = runs(store).claim(&claim).await.expect("is asked again");
        assert_eq!((outcome.kind, outcome.attempt), (OutcomeKind::Won, Some(1)), "slot {slot}");
        assert_eq!(outcome.fence, Some(slot), "a lost answer is no second grant");
    }
    breaking.abort();
    assert!(proxy.connections() > 10, "{} connections", proxy.connections());
}

/// O02: a server that falls silent; the call is given up, and a later one goes on elsewhere.
///
/// # Panics
/// If the silence is an answer, or the token is not known afterwards.
pub async fn after_a_silence_the_same_token_is_answered(store: &dyn Backend, proxy: &Proxy) {
    store.prepare_job(&limits("job")).await.expect("registers");
    proxy.be_silent(true);
    tokio::select! {
        _ = kind(store, "job", 1, "one") => panic!("a silent server does not answer"),
        () = sleep_for(&SystemClock, 150) => {}
    }
    proxy.be_silent(false);
    assert_eq!(kind(store, "job", 1, "one").await, OutcomeKind::Won);
}

/// A store that the server does not let in, as `alice` with the password `hidden`, says neither.
///
/// # Panics
/// If it does, or is let in.
pub async fn no_error_shows_who_asked(store: &dyn Backend, options: &(impl Debug + Sync)) {
    let error = store.init().await.expect_err("there is no such user");
    assert_eq!(error.code(), Some(Code::BackendRefused));
    let shown = format!("{error} {error:?} {options:?}");
    assert!(!shown.contains("alice") && !shown.contains("hidden"), "{shown}");
}
