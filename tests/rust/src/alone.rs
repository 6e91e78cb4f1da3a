//! An instance that makes all claims of a job, until another one comes.

use anarchon::backend::contract::{Backend, ClaimKind, OutcomeKind, Overlap, RunClaim};
use anarchon::lease::model::Status;

use crate::inputs::{claim, limits};
use crate::proxy::Proxy;

async fn kind(store: &dyn Backend, claim: &RunClaim) -> OutcomeKind {
    let runs = store.runs().expect("the store has leases");
    runs.claim(claim).await.expect("answers").kind
}

async fn end(store: &dyn Backend, slot: i64, token: &str) -> bool {
    let runs = store.runs().expect("the store has leases");
    runs.finish("job", slot, token, Status::Succeeded, None).await.expect("answers")
}

/// A claim of `store`, which is reached through `proxy`, costs the first and then the second of
/// `costs` (round trips); what `other` has written meanwhile is seen all the same.
///
/// # Panics
/// If a claim costs something else, or is answered as if the other instance were not there.
pub async fn claims_unread_until_somebody_else_writes(
    store: &dyn Backend,
    other: &dyn Backend,
    proxy: &Proxy,
    costs: [u64; 2],
) {
    store.prepare_job(&limits("job")).await.expect("registers");
    let mut seen = Vec::new();
    for slot in 1..=12 {
        let mine = claim("job", slot, "mine");
        let cost = proxy.trips(async { assert_eq!(kind(store, &mine).await, OutcomeKind::Won) });
        seen.push(cost.await);
        assert!(end(store, slot, "mine").await);
    }
    println!("round trips of claims in a row: {seen:?}");
    // The first few also prepare what is prepared.
    assert_eq!(seen.iter().max(), seen.first(), "the first one costs most");
    assert_eq!((seen[2], &seen[3..]), (costs[0], &[costs[1]; 9][..]), "{seen:?}");

    // Another one holds the next slot: it is not won a second time.
    assert_eq!(kind(other, &claim("job", 13, "theirs")).await, OutcomeKind::Won);
    assert_eq!(kind(store, &claim("job", 13, "mine")).await, OutcomeKind::Running);
    // And it runs: nothing begins beside it that must not.
    let mut alone = claim("job", 14, "mine");
    alone.input.overlap = Some(Overlap::Skip);
    assert_eq!(kind(store, &alone).await, OutcomeKind::Overlap);
    assert!(end(other, 13, "theirs").await);
    // A run whose holder has been replaced is not held any more.
    let mut brief = claim("job", 15, "mine");
    brief.input.lease_ms = Some(1);
    assert_eq!(kind(store, &brief).await, OutcomeKind::Won);
    let mut backup = claim("job", 15, "theirs");
    backup.kind = ClaimKind::Backup;
    while kind(other, &backup).await != OutcomeKind::Won {}
    assert!(!end(store, 15, "mine").await, "it was taken over");
    assert!(end(other, 15, "theirs").await);
}
