//! How many round trips a claim costs, counted on the wire.

use std::sync::Arc;

use anarchon::backend::contract::Backend;

use crate::store::{Store, ask, end, first_slot, limits, opened};
use crate::tell;

async fn warm(store: &Arc<dyn Backend>, first: i64) {
    store.prepare_job(&limits("trips")).await.expect("registers");
    // What is prepared is prepared once, and each connection is opened once.
    for slot in first..first + 3 {
        assert!(ask(store, "trips", slot, "winner").await);
        assert!(!ask(store, "trips", slot, "loser").await);
        if let Some(runs) = store.runs() {
            let beat = runs.heartbeat("trips", slot, "winner", 30_000).await;
            assert!(beat.expect("answers"));
        }
        end(store, "trips", slot, "winner").await;
    }
}

/// A winner, a loser, and an end.
pub async fn measure(store: &Store) {
    let Some((proxy, url)) = store.through_proxy().await else { return };
    let ours = opened(&url).await;
    let first = first_slot();
    let slot = first + 3;
    warm(&ours, first).await;
    let trips = proxy.trips(ask(&ours, "trips", slot, "winner")).await;
    tell(&format!("{}: round trips of a winner", store.name), trips as f64, "");
    let trips = proxy.trips(ask(&ours, "trips", slot, "loser")).await;
    tell(&format!("{}: round trips of a loser", store.name), trips as f64, "");
    if ours.runs().is_some() {
        let trips = proxy.trips(end(&ours, "trips", slot, "winner")).await;
        tell(&format!("{}: round trips of an end", store.name), trips as f64, "");
    }
    ours.close().await.expect("closes");
}
