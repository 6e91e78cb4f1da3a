//! Several at once: one winner each time, and nobody holds what another one was given.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anarchon::backend::contract::{Backend, ClaimKind, OutcomeKind, RunStore};
use anarchon::backends::sqlite::SqliteBackend;
use anarchon::clock::Clock;
use anarchon::lease::model::{RunKey, Status};
use anarchon::testing::manual_clock::ManualClock;
use anarchon_tests::inputs::{claim, input, limits};
use futures_util::future::join_all;

use crate::plain;
use crate::store::{Directory, opened};

/// Stores of their own on one file, as different processes have them.
async fn replicas(directory: &Directory, count: usize) -> Vec<Arc<SqliteBackend>> {
    join_all((0..count).map(|_| async { Arc::new(directory.open().await) })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_claim_a_slot_one_wins() {
    const SLOTS: i64 = 60;
    let directory = Directory::new();
    let stores = replicas(&directory, 8).await;
    let tasks = stores.iter().enumerate().map(|(number, store)| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut won = Vec::new();
            for slot in 1..=SLOTS {
                let claim = claim("job", slot, &format!("token-{number}-{slot}"));
                let outcome = RunStore::claim(&*store, &claim).await.expect("answers");
                if outcome.kind == OutcomeKind::Won {
                    won.push((slot, outcome.fence.expect("a grant has a fence")));
                } else {
                    assert_eq!(outcome.kind, OutcomeKind::Running, "slot {slot}");
                }
            }
            won
        })
    });
    let mut winners: HashMap<i64, usize> = HashMap::new();
    let mut fences = Vec::new();
    for task in join_all(tasks).await {
        for (slot, fence) in task.expect("the task ends") {
            *winners.entry(slot).or_default() += 1;
            fences.push(fence);
        }
    }
    assert_eq!(winners.len(), usize::try_from(SLOTS).expect("few"));
    assert!(winners.values().all(|count| *count == 1), "{winners:?}");
    fences.sort_unstable();
    assert_eq!(fences, (1..=SLOTS).collect::<Vec<i64>>(), "a fence was granted twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_tasks_that_claim_without_leases_one_wins() {
    let directory = Directory::new();
    let store = Arc::new(directory.open().await);
    for slot in 1..=40 {
        let tasks = (0..8).map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let input = input("job", slot, &format!("token-{number}"));
                Backend::claim(&*store, &input).await.expect("answers")
            })
        });
        let won = join_all(tasks).await.into_iter().filter(|won| *won.as_ref().expect("ends"));
        assert_eq!(won.count(), 1, "slot {slot}");
    }
}

/// A heartbeat that comes when the lease is just over, and a takeover at the same time: whoever is
/// answered yes last is the one who is stored, and never both are.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_late_heartbeat_and_a_takeover_never_both_hold() {
    for seed in 0..60_i64 {
        let (directory, clock) = (Directory::new(), ManualClock::default());
        let mut options = directory.options();
        options.clock = Some(Arc::new(clock.clone()));
        let (holder, taker) = (opened(options.clone()).await, opened(options).await);
        let slot = clock.wall_ms();
        let first = claim("job", slot, "holder");
        assert_eq!(RunStore::claim(&holder, &first).await.expect("answers").kind, OutcomeKind::Won);
        clock.step_wall(30_000);
        let mut takeover = claim("job", slot, "taker");
        takeover.kind = ClaimKind::Backup;
        let beat = async {
            for _ in 0..seed % 4 {
                tokio::task::yield_now().await;
            }
            holder.heartbeat("job", slot, "holder", 30_000).await.expect("answers")
        };
        let take = async { RunStore::claim(&taker, &takeover).await.expect("answers").kind };
        let (beat, took) = tokio::join!(beat, take);
        let state = holder.state("job").await.expect("reads");
        let run = &state.runs[&RunKey::scheduled(slot)];
        match took {
            OutcomeKind::Won => {
                assert_eq!(run.token, "taker", "seed {seed}");
                assert_eq!((run.attempt, run.crashes), (2, 1), "seed {seed}");
                assert!(
                    !beat || run.lease_until == clock.wall_ms() + 30_000,
                    "seed {seed}: the heartbeat came first, then nothing was left to take"
                );
                assert!(!beat, "seed {seed}: both were told that they hold the run");
            }
            other => {
                assert_eq!(other, OutcomeKind::Running, "seed {seed}");
                assert!(beat, "seed {seed}: nobody was told that he holds the run");
                assert_eq!(run.token, "holder", "seed {seed}");
            }
        }
    }
}

#[tokio::test]
async fn a_claim_whose_commit_got_lost_is_won_by_asking_again() {
    let (directory, clock) = (Directory::new(), ManualClock::default());
    let store = plain::opened(&directory, &clock).await;
    let client = &store.store().client;
    client.lost_commits.store(1, Ordering::SeqCst);
    let outcome = RunStore::claim(&store, &claim("job", 1, "token")).await.expect("answers");
    assert_eq!(
        (outcome.kind, outcome.attempt, outcome.fence),
        (OutcomeKind::Won, Some(1), Some(1))
    );
    client.lost_commits.store(1, Ordering::SeqCst);
    client.failing_statements.store(2, Ordering::SeqCst);
    let ended = store.finish("job", 1, "token", Status::Succeeded, None).await;
    assert!(ended.expect("answers"));
    let records = store.history("job", 10).await.expect("reads");
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].status, Status::Succeeded);
}

#[tokio::test]
async fn a_store_that_never_commits_says_what_its_client_said() {
    let (directory, clock) = (Directory::new(), ManualClock::default());
    let store = plain::opened(&directory, &clock).await;
    store.store().client.failing_statements.store(usize::MAX, Ordering::SeqCst);
    let mut short = claim("job", 1, "token");
    // The call's deadline is a sixth of the lease.
    short.input.lease_ms = Some(1_000);
    let error = RunStore::claim(&store, &short).await.expect_err("nothing is ever stored");
    assert_eq!(error.message(), "a statement failed");
    assert_eq!(store.state("job").await.expect("reads").runs.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn registrations_of_many_replicas_at_once_are_all_stored() {
    let directory = Directory::new();
    let stores = replicas(&directory, 4).await;
    let jobs: Vec<_> = (0..300).map(|number| limits(&format!("job-{number}"))).collect();
    let answers = join_all(stores.iter().map(|store| store.prepare_jobs(&jobs))).await;
    for answer in answers.into_iter().flatten() {
        answer.expect("registers");
    }
    let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
    let surveys = stores[0].survey_all(&names).await;
    assert!(surveys.iter().all(|survey| survey.as_ref().is_ok_and(|survey| survey.since > 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_that_travel_together_have_one_winner_each() {
    let directory = Directory::new();
    let stores = replicas(&directory, 3).await;
    let claims = |number: usize| -> Vec<_> {
        (0..200).map(|job| claim(&format!("job-{job}"), 60_000, &format!("t{number}"))).collect()
    };
    let calls = stores.iter().enumerate().map(|(number, store)| {
        let (store, claims) = (store.clone(), claims(number));
        tokio::spawn(async move { store.claim_all(&claims).await })
    });
    let mut winners = vec![0; 200];
    for answers in join_all(calls).await {
        for (job, answer) in answers.expect("ends").into_iter().enumerate() {
            winners[job] += usize::from(answer.expect("answers").kind == OutcomeKind::Won);
        }
    }
    assert_eq!(winners, vec![1; 200]);
}
