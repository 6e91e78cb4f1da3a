//! What falls together travels together, on any client.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anarchon::backend::contract::{Backend, Finish, Heartbeat, OutcomeKind, RunStore};
use anarchon::backends::sql::SqlEngine;
use anarchon::clock::Clock;
use anarchon::lease::model::Status;
use anarchon::testing::manual_clock::ManualClock;
use anarchon_tests::inputs::{claim, limits};

use crate::plain::{self, PlainStore};
use crate::store::{Directory, opened};

const JOBS: usize = 600;

/// At most so many statements for 600 jobs: a read, the transaction around, eleven lots of guards
/// and as many of writes, the reading back of the stamps.
const FEW: usize = 28;

fn sent(store: &SqlEngine<PlainStore>) -> usize {
    store.store().client.sent.load(Ordering::SeqCst)
}

/// The statements of the transaction that are for `serialize` of the dialect, one a job.
fn without_serialize(sent: usize) -> usize {
    sent - JOBS
}

#[tokio::test]
async fn six_hundred_jobs_need_few_statements_for_each_thing_that_happens_to_them() {
    let (directory, clock) = (Directory::new(), ManualClock::default());
    let store = plain::opened(&directory, &clock).await;
    let names: Vec<String> = (0..JOBS).map(|number| format!("job-{number}")).collect();
    let slot = clock.wall_ms();

    let before = sent(&store);
    let jobs: Vec<_> = names.iter().map(|name| limits(name)).collect();
    assert!(store.prepare_jobs(&jobs).await.iter().all(Result::is_ok));
    assert!(without_serialize(sent(&store) - before) < FEW);

    let before = sent(&store);
    assert!(store.prepare_jobs(&jobs).await.iter().all(Result::is_ok));
    assert!(store.survey_all(&names).await.iter().all(Result::is_ok));
    assert_eq!(sent(&store) - before, 2, "what changes nothing is read in one statement");

    let before = sent(&store);
    let claims: Vec<_> = names.iter().map(|name| claim(name, slot, "token")).collect();
    for answer in store.claim_all(&claims).await {
        let outcome = answer.expect("answers");
        assert_eq!((outcome.kind, outcome.fence), (OutcomeKind::Won, Some(1)));
    }
    assert!(without_serialize(sent(&store) - before) < FEW);

    clock.step_wall(10_000);
    let before = sent(&store);
    let beat = |job: &String| Heartbeat {
        job: job.clone(),
        slot,
        token: "token".to_owned(),
        lease_ms: 30_000,
    };
    let beats: Vec<_> = names.iter().map(beat).collect();
    assert!(store.heartbeat_all(&beats).await.iter().all(|beat| matches!(beat, Ok(true))));
    assert!(without_serialize(sent(&store) - before) < FEW);

    let before = sent(&store);
    let end = |job: &String| Finish {
        job: job.clone(),
        slot,
        token: "token".to_owned(),
        status: Status::Succeeded,
        result: None,
    };
    let ends: Vec<_> = names.iter().map(end).collect();
    assert!(store.finish_all(&ends).await.iter().all(|end| matches!(end, Ok(true))));
    assert!(without_serialize(sent(&store) - before) < FEW);

    for name in [&names[0], &names[JOBS / 2], &names[JOBS - 1]] {
        let records = store.history(name, 10).await.expect("reads");
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].status, Status::Succeeded);
    }
}

#[tokio::test]
async fn more_runs_of_one_job_than_a_statement_takes_are_all_seen_to() {
    let directory = Directory::new();
    let store = directory.open().await;
    store.prepare_job(&limits("job")).await.expect("registers");
    let slots = 1..=1_500;
    let claims: Vec<_> = slots.clone().map(|slot| claim("job", slot, &slot.to_string())).collect();
    for (answer, slot) in store.claim_all(&claims).await.into_iter().zip(slots.clone()) {
        let outcome = answer.expect("answers");
        assert_eq!((outcome.kind, outcome.fence), (OutcomeKind::Won, Some(slot)));
    }
    let beat = |slot: i64| Heartbeat {
        job: "job".to_owned(),
        slot,
        token: slot.to_string(),
        lease_ms: 60_000,
    };
    let beats: Vec<_> = slots.clone().map(beat).collect();
    assert!(store.heartbeat_all(&beats).await.iter().all(|beat| matches!(beat, Ok(true))));
    let end = |slot: i64| Finish {
        job: "job".to_owned(),
        slot,
        token: slot.to_string(),
        status: Status::Succeeded,
        result: None,
    };
    let ends: Vec<_> = slots.map(end).collect();
    assert!(store.finish_all(&ends).await.iter().all(|end| matches!(end, Ok(true))));
    let state = store.state("job").await.expect("reads");
    assert_eq!((state.runs.len(), state.header.floor), (100, 1_400));
}

/// With a pool of one the survey of many jobs has the only connection; the heartbeat has its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_heartbeat_does_not_wait_behind_what_has_the_only_connection() {
    let directory = Directory::new();
    let mut options = directory.options();
    options.pool = 1;
    let store = Arc::new(opened(options).await);
    let names: Vec<String> = (0..10_000).map(|number| format!("job-{number}")).collect();
    let jobs: Vec<_> = names.iter().map(|name| limits(name)).collect();
    assert!(store.prepare_jobs(&jobs).await.iter().all(Result::is_ok));
    RunStore::claim(&*store, &claim("job-0", 1, "token")).await.expect("answers");
    let before = store.statements();
    let surveying = store.clone();
    let survey = tokio::spawn(async move { surveying.survey_all(&names).await.len() });
    while store.statements() == before {
        tokio::task::yield_now().await;
    }
    assert!(store.heartbeat("job-0", 1, "token", 30_000).await.expect("answers"));
    assert!(!survey.is_finished(), "the heartbeat waited until the survey was over");
    assert_eq!(survey.await.expect("ends"), 10_000);
}
