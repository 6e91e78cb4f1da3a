//! Random histories: the SQL engine answers and stores what the reference does.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::sql::{SqlEngine, SqlStore};
use anarchon::lease::model::JobState;
use anarchon::testing::manual_clock::ManualClock;
use anarchon_tests::histories::play;
use futures_util::future::BoxFuture;

use crate::plain;
use crate::store::{Directory, opened};

const STEPS: usize = 250;

fn stored<'a, S: SqlStore + 'static>(
    store: &'a SqlEngine<S>,
    job: &'static str,
) -> BoxFuture<'a, JobState> {
    Box::pin(async move { store.state(job).await.expect("the state can be read") })
}

#[tokio::test]
async fn random_histories_are_answered_and_stored_as_by_the_reference() {
    for seed in 1..=16 {
        let (directory, clock) = (Directory::new(), ManualClock::default());
        let mut options = directory.options();
        options.clock = Some(Arc::new(clock.clone()));
        let store = opened(options).await;
        play(seed, STEPS, &store, stored, &clock).await;
        store.close().await.expect("the store closes");
    }
}

/// The engine with nothing but a client's `all` and `transaction`, whose values come in all forms
/// that drivers give them.
#[tokio::test]
async fn random_histories_are_the_same_through_a_client_that_can_do_the_least() {
    for seed in 101..=110 {
        let (directory, clock) = (Directory::new(), ManualClock::default());
        let store = plain::opened(&directory, &clock).await;
        play(seed, STEPS, &store, stored, &clock).await;
        store.close().await.expect("the store closes");
    }
}
