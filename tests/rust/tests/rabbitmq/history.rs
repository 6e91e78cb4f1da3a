//! Records: who reads takes nothing, and the newest are found however many there are.

use anarchon::backend::contract::{Backend, StoredResult};
use anarchon::backends::rabbitmq::RabbitMqBackend;
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{input, limits, result};
use futures_util::future::join_all;

use crate::ground::{Ground, now};

async fn run(store: &RabbitMqBackend, slot: i64, output: &str, history_size: i64) {
    let mut asked = input("job", slot, "t");
    asked.history_size = history_size;
    store.record_claim(&asked).await.expect("records");
    let ended = StoredResult { output: Some(format!("{output:?}")), ..result(slot, "t") };
    store.save_result("job", &ended, history_size, None).await.expect("saves");
}

#[tokio::test]
async fn several_readers_at_once_all_see_everything() {
    let Some(ground) = Ground::new() else { return };
    let store = ground.open().await;
    store.prepare_job(&limits("job")).await.expect("registers");
    let base = now();
    for slot in base..base + 20 {
        run(&store, slot, "x", 100).await;
    }
    let readers = ground.replicas(4).await;
    for _ in 0..5 {
        let read = join_all(readers.iter().map(|reader| reader.history("job", 50))).await;
        for records in read {
            let slots: Vec<i64> = records.expect("reads").iter().map(|one| one.slot).collect();
            assert_eq!(slots, (base..base + 20).rev().collect::<Vec<i64>>());
        }
    }
    assert_eq!(store.history("job", 3).await.expect("reads").len(), 3);
}

/// More than the server sends without waiting for us, and more than is read for a few records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_of_thousands_are_found_and_the_stream_stays_bounded() {
    let Some(ground) = Ground::new() else { return };
    let store = ground.open().await;
    store.prepare_job(&limits("job")).await.expect("registers");
    let base = now();
    let output = "x".repeat(1_000);
    // So many runs at a time.
    const TOGETHER: usize = 50;
    for some in (0..3_000).collect::<Vec<i64>>().chunks(TOGETHER) {
        join_all(some.iter().map(|step| run(&store, base + step, &output, 2_000))).await;
    }
    let records = store.history("job", 10).await.expect("reads");
    let slots: Vec<i64> = records.iter().map(|one| one.slot - base).collect();
    assert_eq!(slots, (2_990..3_000).rev().collect::<Vec<i64>>());
    assert!(records.iter().all(|one| one.status == Status::Succeeded && one.output.is_some()));
    // A run is two messages, and with what the server adds to them about 1.9 kB: the 2 MiB hold 1,100
    // of them. What is too much goes by whole segments, so there can be 275 less.
    let all = store.history("job", 10_000).await.expect("reads");
    println!("{} of 3000 records are kept in 2 MiB", all.len());
    assert!((700..=1_700).contains(&all.len()), "{}", all.len());
    let kept: Vec<i64> = all.iter().map(|one| one.slot - base).collect();
    // The cut goes through runs that were written side by side, of which it may take any.
    let whole = kept.len() - TOGETHER;
    let newest = (0..3_000).rev().take(whole).collect::<Vec<i64>>();
    assert_eq!(kept[..whole], newest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_register_the_same_new_jobs_at_once_all_succeed() {
    let Some(ground) = Ground::new() else { return };
    let replicas = ground.replicas(4).await;
    let jobs: Vec<_> = (0..10).map(|number| limits(&format!("job {number}"))).collect();
    let answers = join_all(replicas.iter().map(|replica| replica.prepare_jobs(&jobs))).await;
    for answer in answers.into_iter().flatten() {
        answer.expect("registers");
    }
}

#[tokio::test]
async fn a_stream_that_was_removed_is_made_again_by_the_next_record() {
    let Some(ground) = Ground::new() else { return };
    let store = ground.open().await;
    assert_eq!(store.history("job", 5).await.expect("reads"), [], "never registered");
    run(&store, 1_000, "x", 100).await;
    assert_eq!(store.history("job", 5).await.expect("reads").len(), 1, "made by the first record");
}

#[tokio::test]
async fn bodies_of_the_greatest_size_come_back() {
    let Some(ground) = Ground::new() else { return };
    let store = ground.open().await;
    let output = "\u{1f980}".repeat(200_000);
    run(&store, 1_000, &output, 100).await;
    let records = store.history("job", 5).await.expect("reads");
    assert_eq!(records[0].output.as_deref(), Some(&*format!("{output:?}")));
}
