//! What the store answers and keeps is what the rules say: random histories on one clock.
//!
//! `ANARCHON_TEST_NATS_STEPS` says how many calls (default 4,000 per server), `ANARCHON_TEST_SEED`
//! where to begin (default 1). A failure names its seed.

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::nats::NatsBackend;
use anarchon::lease::model::JobState;
use anarchon::testing::manual_clock::ManualClock;
use anarchon_tests::histories::play;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;

use crate::server::{Ground, next_number, opened};

const STEPS: usize = 250;

fn stored<'a>(store: &'a NatsBackend, job: &'static str) -> BoxFuture<'a, JobState> {
    Box::pin(async move { store.state(job).await.expect("the state can be read") })
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; wanted is a whole number"))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_are_answered_and_stored_as_by_the_reference() {
    let steps = setting("ANARCHON_TEST_NATS_STEPS", 4_000);
    let first = setting("ANARCHON_TEST_SEED", 1);
    let count = steps.div_ceil(STEPS as u64);
    println!("{count} histories of {STEPS} calls, seeds {first} to {}", first + count - 1);
    for ground in Ground::all().await {
        // Several at a time: while one waits for its answer, another is sent.
        let played = futures_util::stream::iter(first..first + count).map(|seed| {
            let mut options = ground.options.clone();
            options.namespace = format!("seed-{seed}-{}", next_number());
            // From each ended run in an archive of its own to all in the state.
            options.archive_together = [1, 2, 3, 16][usize::try_from(seed % 4).expect("small")];
            tokio::spawn(async move {
                let clock = ManualClock::default();
                options.clock = Some(Arc::new(clock.clone()));
                let store = opened(options).await;
                play(seed, STEPS, &store, stored, &clock).await;
                store.close().await.expect("closes");
            })
        });
        let ends: Vec<_> = played.buffer_unordered(8).collect().await;
        for end in ends {
            end.expect("the history goes as the reference says");
        }
        ground.clean().await;
    }
}
