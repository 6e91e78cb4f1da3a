//! Several at once: one winner each time.

use std::sync::Arc;

use anarchon::backend::contract::{Backend, ClaimKind, OutcomeKind, RunStore};
use anarchon::backends::nats::NatsBackend;
use anarchon_tests::inputs::{claim, limits};
use anarchon_tests::races;
use futures_util::future::{join, join_all};

use crate::server::Ground;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_eight_that_claim_a_slot_one_wins() {
    for ground in Ground::all().await {
        races::one_wins_each_slot(&ground.open_all(8).await, 250).await;
        ground.clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_four_that_claim_a_batch_one_wins_each_job() {
    for ground in Ground::all().await {
        races::one_wins_each_job_of_a_batch(&ground.open_all(4).await, 200).await;
        ground.clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_eight_that_claim_without_leases_one_wins() {
    for ground in Ground::all().await {
        races::one_wins_without_leases(&ground.open_all(8).await, 50).await;
        ground.clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_replicas_start_at_once_on_an_empty_server() {
    for ground in Ground::all().await {
        let starts = (0..10).map(|number| {
            let options = ground.options.clone();
            tokio::spawn(async move {
                let store = NatsBackend::with_options(options).expect("allowed");
                store.init().await.expect("opens");
                let jobs: Vec<_> = (0..20).map(|job| limits(&format!("job {job}"))).collect();
                assert!(store.prepare_jobs(&jobs).await.iter().all(Result::is_ok));
                let asked = claim("job 7", 60_000, &format!("t{number}"));
                RunStore::claim(&store, &asked).await.expect("answers").kind
            })
        });
        let kinds = join_all(starts).await;
        let won = kinds.iter().filter(|kind| matches!(kind, Ok(OutcomeKind::Won))).count();
        assert!(kinds.iter().all(Result::is_ok), "{kinds:?}");
        assert_eq!(won, 1, "{kinds:?}");
        ground.clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_run_is_taken_over_by_one_and_its_old_holder_is_refused() {
    for ground in Ground::all().await {
        let mut stores = Vec::new();
        for _ in 0..4 {
            stores.push(Arc::new(ground.open().await));
        }
        for slot in 1..=20 {
            RunStore::claim(&*stores[0], &claim("job", slot, "old")).await.expect("answers");
            assert!(stores[0].release("job", slot, "old").await.expect("answers"));
            let claims = stores.iter().enumerate().map(|(number, store)| async move {
                let mut asked = claim("job", slot, &format!("new-{number}"));
                asked.kind = ClaimKind::Backup;
                RunStore::claim(&**store, &asked).await.expect("answers").kind
            });
            let beat = stores[0].heartbeat("job", slot, "old", 30_000);
            let (kinds, beat) = join(join_all(claims), beat).await;
            assert_eq!(kinds.iter().filter(|kind| **kind == OutcomeKind::Won).count(), 1);
            assert!(!beat.expect("answers"), "a lease that was given back is spent");
        }
        ground.clean().await;
    }
}

/// A slot that has run is taken for good, also once nothing is left of its job but the floor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_one_wins_a_fresh_slot_and_none_a_forgotten_one() {
    for ground in Ground::all().await {
        let stores = ground.open_all(20).await;
        let kinds = |tokens: &'static str| {
            let claims = stores.iter().enumerate().map(move |(number, store)| async move {
                let asked = claim("job", 60_000, &format!("{tokens}-{number}"));
                let runs = store.runs().expect("leases");
                runs.claim(&asked).await.expect("answers").kind
            });
            join_all(claims)
        };
        let fresh = kinds("fresh").await;
        assert_eq!(fresh.iter().filter(|kind| **kind == OutcomeKind::Won).count(), 1, "{fresh:?}");
        let runs = stores[0].runs().expect("leases");
        assert!(runs.cancel("job", 60_000, false).await.expect("answers"));
        assert!(runs.forget("job").await.expect("answers"));
        let again = kinds("again").await;
        assert!(again.iter().all(|kind| *kind == OutcomeKind::Late), "{again:?}");
        ground.clean().await;
    }
}
