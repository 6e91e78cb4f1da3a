//! What falls together travels together, on any client.

use std::sync::atomic::Ordering;

use anarchon::backend::contract::{Backend, Finish, Heartbeat, OutcomeKind, RunStore};
use anarchon::backends::sql::SqlEngine;
use anarchon::clock::Clock;
use anarchon::lease::model::Status;
use anarchon::testing::manual_clock::ManualClock;

use crate::plain::{self, PlainStore};
use crate::store::{Directory, claim, limits};

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
