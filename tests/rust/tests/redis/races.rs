//! Several at once: one winner each time.

use std::collections::HashMap;
use std::sync::Arc;

use anarchon::backend::contract::{Backend, ClaimKind, OutcomeKind, RunStore};
use anarchon::backends::redis::RedisBackend;
use anarchon_tests::inputs::{claim, input};
use futures_util::future::join_all;

use crate::server::Ground;

/// Stores of their own on one server, as different processes have them.
async fn replicas(ground: &Ground, count: usize) -> Vec<Arc<RedisBackend>> {
    join_all((0..count).map(|_| async { Arc::new(ground.open().await) })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_claim_a_slot_one_wins() {
    const SLOTS: i64 = 500;
    let Some(ground) = Ground::shared().await else { return };
    let stores = replicas(&ground, 8).await;
    let tasks = stores.iter().enumerate().map(|(number, store)| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut won = Vec::new();
            for slot in 1..=SLOTS {
                let asked = claim("job", slot, &format!("{number}-{slot}"));
                let outcome = RunStore::claim(&*store, &asked).await.expect("answers");
                if outcome.kind == OutcomeKind::Won {
                    won.push((slot, outcome.fence.expect("a grant has a fence")));
                }
            }
            won
        })
    });
    let mut fences = HashMap::new();
    for task in join_all(tasks).await {
        for (slot, fence) in task.expect("no panic") {
            assert_eq!(fences.insert(slot, fence), None, "slot {slot} was won twice");
        }
    }
    assert_eq!(fences.len(), usize::try_from(SLOTS).expect("few"));
    let mut seen: Vec<i64> = fences.into_values().collect();
    seen.sort_unstable();
    assert_eq!(seen, (1..=SLOTS).collect::<Vec<_>>(), "every grant has a fence of its own");
    ground.clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_claim_without_leases_one_wins_and_its_repeat_wins() {
    let Some(ground) = Ground::shared().await else { return };
    let stores = replicas(&ground, 8).await;
    for slot in 1..=100 {
        let asked: Vec<_> = (0..8).map(|one| input("job", slot, &format!("{one}"))).collect();
        let claims =
            stores.iter().zip(&asked).map(|(store, asked)| Backend::claim(&**store, asked));
        let won: Vec<bool> =
            join_all(claims).await.into_iter().map(|answer| answer.expect("answers")).collect();
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "slot {slot}");
        let again = stores.iter().zip(&asked).map(|(store, asked)| Backend::claim(&**store, asked));
        let again: Vec<bool> =
            join_all(again).await.into_iter().map(|answer| answer.expect("answers")).collect();
        assert_eq!(again, won, "slot {slot}");
    }
    ground.clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_released_run_is_taken_over_by_one_and_its_old_holder_is_refused() {
    let Some(ground) = Ground::shared().await else { return };
    let stores = replicas(&ground, 4).await;
    for slot in 1..=50 {
        RunStore::claim(&*stores[0], &claim("job", slot, "old")).await.expect("answers");
        assert!(stores[0].release("job", slot, "old").await.expect("answers"));
        let claims = stores.iter().enumerate().map(|(number, store)| async move {
            let mut asked = claim("job", slot, &format!("new-{number}"));
            asked.kind = ClaimKind::Backup;
            RunStore::claim(&**store, &asked).await.expect("answers").kind
        });
        let beat = stores[0].heartbeat("job", slot, "old", 30_000);
        let (kinds, beat) = futures_util::future::join(join_all(claims), beat).await;
        assert_eq!(kinds.iter().filter(|kind| **kind == OutcomeKind::Won).count(), 1);
        assert!(!beat.expect("answers"), "a lease that was given back is spent");
    }
    ground.clean().await;
}
